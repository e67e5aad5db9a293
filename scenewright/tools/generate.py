"""Drawing: the arguments of the tools that make a new picture of the whole scene."""

from __future__ import annotations

from pydantic import Field

from scenewright.tools.replies import Arguments


class _Drawing(Arguments):
    why: str = Field(default="", max_length=500)
    """Why, in a few words, for the run's record."""


class GenerateImage(_Drawing):
    """Draw the whole scene as a new picture, from another seed than the pictures before."""

    prompt: str = Field(default="", max_length=4000)
    """Words to draw from; empty: the composer's description of the whole scene."""


class RefineWithReference(_Drawing):
    """Draw the scene again, led by the best picture so far and by a picture of what it lacks.

    The second picture is drawn first, so this takes two images of the budget. Pictures that are
    not verified yet are verified before.
    """

    facts: list[str] = Field(default=[], max_length=200)
    """Ids of the missing facts to repair; empty: all that are missing."""
    weight_best: float | None = Field(default=None, ge=0.0, le=2.0)
    """Weight of the best picture (λ0 of Scene-Bench Eq. 5); null: the profile's."""
    weight_missing: float | None = Field(default=None, ge=0.0, le=2.0)
    """Weight of the picture of what is missing (λ1 of Scene-Bench Eq. 5); null: the profile's."""


class Inpaint(_Drawing):
    """Draw a part of a picture anew and keep the rest as it is; the result is a new picture."""

    box: list[float] = Field(max_length=4)
    """The part to draw: left, top, right, bottom, each from 0 to 1."""
    prompt: str = Field(default="", max_length=4000)
    """Words to draw from; empty: the composer's description of the whole scene."""
    image: str = Field(default="best", max_length=40)
    """The picture to begin with: its id, best or newest."""
    strength: float = Field(default=1.0, gt=0.0, le=1.0)
    """How freely the part is drawn: 1 forgets what was there."""
