"""Looking closer: a part of a picture, enlarged, or the picture with a box drawn on it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Literal, Self

from PIL import Image, ImageDraw
from pydantic import Field, model_validator

from scenewright.core.facts import Fact
from scenewright.core.regions import Region
from scenewright.tools.replies import PREVIEW_SIDE, Arguments, ToolError, preview

SMALLEST = 0.02
"""Least width and height of a box, as a share of the picture's."""
_WHOLE = (0.0, 0.0, 1.0, 1.0)


def region_of_box(box: Sequence[float]) -> Region:
    """``[left, top, right, bottom]`` as shares (0–1) of the picture's sides; ``ToolError`` says
    what is wrong with a box that is none. An empty box is the whole picture."""
    told = f"box is {list(box)}: give [left, top, right, bottom] as shares of the picture's sides"
    if not box:
        return Region(*_WHOLE)
    if len(box) != 4:
        raise ToolError(f"{told}, four numbers")
    if not all(0.0 <= share <= 1.0 for share in box):
        raise ToolError(f"{told}, each from 0 to 1")
    left, top, right, bottom = box
    if right - left < SMALLEST or bottom - top < SMALLEST:
        raise ToolError(
            f"{told}, left before right and top before bottom, at least {SMALLEST} apart"
        )
    return Region(left, top, right, bottom)


class Look(Arguments):
    """Look closer at a picture, without drawing or changing anything.

    Shows the picture, or the part of it in the box, enlarged. With a question, one of the judges
    answers it about what is shown.
    """

    image: str = Field(default="best", max_length=40)
    """Id of the picture (r0, r1, r1-reference), best or newest."""
    box: list[float] = Field(default=[], max_length=4)
    """Part of the picture: left, top, right, bottom, each from 0 to 1; empty: all of it."""
    show: Literal["crop", "box"] = "crop"
    """crop: only the part in the box, enlarged; box: the whole picture with the box drawn on it."""
    question: str = Field(default="", max_length=300)
    """A question about what is shown; empty: none is asked."""
    options: list[str] = Field(default=["yes", "no"], min_length=2, max_length=6)
    """Answers that the question allows, all different."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        options = self.options
        if len(set(options)) < len(options) or not all(0 < len(o) <= 60 for o in options):
            raise ValueError("options must all be different, each of 1 to 60 characters")
        return self

    def fact(self) -> Fact:
        """The question as a fact that a judge can be asked; what is expected does not matter."""
        digest = hashlib.sha256("\x1f".join((self.question, *self.options)).encode()).hexdigest()
        return Fact(
            id=f"q:{digest[:12]}",
            kind="object",
            subject="question",
            statement=self.question,
            question=self.question,
            options=tuple(self.options),
            expected=self.options[0],
        )


def seen(image: Image.Image, look: Look) -> Image.Image:
    """What ``look`` shows of ``image``: RGB, at full resolution.

    A crop is enlarged until its longest side is that of ``image``. Raises ``ToolError`` for a box
    that is none.
    """
    region = region_of_box(look.box)
    picture = image.convert("RGB")
    if not look.box:
        return picture
    width, height = picture.size
    corners = (
        round(region.left * width),
        round(region.top * height),
        max(round(region.left * width) + 1, round(region.right * width)),
        max(round(region.top * height) + 1, round(region.bottom * height)),
    )
    if look.show == "box":
        line = max(1, max(width, height) // 128)
        left, top, right, bottom = corners
        ImageDraw.Draw(picture).rectangle(
            (left, top, right - 1, bottom - 1), outline=(255, 0, 255), width=line
        )
        return picture
    part = picture.crop(corners)
    factor = max(width, height) / max(part.size)
    return part.resize(_scaled(part.size, factor), Image.Resampling.BICUBIC)


def shown(image: Image.Image, look: Look) -> Image.Image:
    """What a language model gets of :func:`seen`: longest side :data:`PREVIEW_SIDE` if enlarged."""
    picture = seen(image, look)
    if look.box and max(picture.size) < PREVIEW_SIDE:
        factor = PREVIEW_SIDE / max(picture.size)
        picture = picture.resize(_scaled(picture.size, factor), Image.Resampling.BICUBIC)
    return preview(picture)


def _scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))
