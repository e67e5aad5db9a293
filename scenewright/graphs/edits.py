"""An edit: what a person corrects in a run before it goes on.

A person looks at a candidate and says what is right and what is not, adds what the scene lacks,
or chooses an earlier candidate to go on from. An edit is plain data, so that it can be stored in
the run's events, sent over a wire and written in a file.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.scene import SceneGraph
from scenewright.graphs.errors import EditError as EditError

Corrected = Literal["yes", "no"]
"""What a person says of a fact: it holds in the picture, or it does not."""


class Edit(BaseModel):
    """What a person says of a run, and how it goes on from there."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    key: str = Field(min_length=1, max_length=200)
    """Names the edit within its run: the same key again is the same edit and changes nothing."""
    base: int | None = Field(default=None, ge=0)
    """Round of the candidate to go on from; None: the kept one."""
    missing: SceneGraph | None = None
    """The missing graph as the person sees it in the base candidate. Only its differences from
    the run's own missing graph of that candidate count: what was added is not there, what was
    removed is there, and the panel's verdicts of the rest stand. What the scene does not have
    yet is added to it. None: the run's own."""
    verdicts: dict[str, Corrected] = Field(default_factory=dict)
    """Corrections of single facts of the base candidate by fact id, applied after ``missing``."""
    scene: SceneGraph | None = None
    """The whole scene anew: adds or removes facts. None: it stays as it is."""
    rounds: int = Field(default=3, ge=1, le=100)
    """Most candidates drawn from here on."""
    note: str = Field(default="", max_length=10_000)
    """The person's words."""

    @property
    def empty(self) -> bool:
        """Whether it corrects and chooses nothing: the run just goes on."""
        return (
            self.base is None and self.missing is None and not self.verdicts and self.scene is None
        )
