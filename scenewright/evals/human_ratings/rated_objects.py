"""Sets of rated objects, for training OLIP and measuring scorers.

A set is a folder with ``objects.jsonl``, one :class:`RatedObject` a line, and the pictures that its
lines name. `scenewright rate` writes one from people's ratings; other tools can too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from scenewright.core.flushing import replacing
from scenewright.core.ports.vision import HIGHEST, LOWEST, Box, Detection, RealismError
from scenewright.core.user_files import UserFileError, read_user_text
from scenewright.core.validation import FrozenModel, first_problem

FILE = "objects.jsonl"
"""Name of the list in a set's folder."""
Split = Literal["train", "validation", "test"]


class GivenRating(FrozenModel):
    """One person's rating of one object."""

    rater: str
    shape: int = Field(ge=int(LOWEST), le=int(HIGHEST))
    """Realism of its shape, 1 to 5."""
    texture: int = Field(ge=int(LOWEST), le=int(HIGHEST))
    """Realism of its texture, 1 to 5."""
    when: str = ""
    """When it was shown or rated, ISO 8601 in UTC; empty if unknown."""


class RatedObject(BaseModel):
    """One object of one picture and how real it looks."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    id: str
    """Unique in the set."""
    image: str
    """File of the picture, relative to the set's folder."""
    category: str = Field(min_length=1)
    """Class label: what OLIP is told of the object."""
    box: Box
    """Left, top, right, bottom in pixels of the picture."""
    shape: float = Field(ge=LOWEST, le=HIGHEST)
    """Realism of its shape: the mean of its raters."""
    texture: float = Field(ge=LOWEST, le=HIGHEST)
    """Realism of its texture, likewise."""
    ratings: tuple[GivenRating, ...] = ()
    """Single ratings in order of time; empty where the truth is known otherwise."""
    source: str = ""
    """Source of the picture: a model's name, or ``real``; empty if unknown."""
    image_realism: float | None = Field(default=None, ge=LOWEST, le=HIGHEST)
    """How real the whole picture looks, where people said so."""
    split: Split | None = None
    """Part of the set that it belongs to; none: the trainer draws it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        left, top, right, bottom = self.box
        if not (0 <= left < right and 0 <= top < bottom):
            raise ValueError(f"the box {self.box} is empty: give left, top, right, bottom")
        return self

    @property
    def joint(self) -> float:
        """Return OcR, the mean of shape and texture: the target of the joint head."""
        return (self.shape + self.texture) / 2

    @property
    def detection(self) -> Detection:
        """Return the object as a scorer gets it."""
        return Detection(name=self.category, box=self.box)


def read_objects(folder: str | os.PathLike[str]) -> list[RatedObject]:
    """Return the objects of a set, in the file's order.

    Raises ``RealismError`` with file and line for a missing set, an invalid line, a repeated id, or
    a picture that is not in the folder.
    """
    root = Path(folder)
    return list(_checked(root / FILE if root.is_dir() else root))


def _checked(path: Path) -> Iterator[RatedObject]:
    seen: set[str] = set()
    there: set[str] = set()
    try:
        text = read_user_text(path)
    except UserFileError as error:
        raise RealismError(
            f"{error}: a set of rated objects is a folder with {FILE}; `scenewright rate export` "
            "writes one"
        ) from error
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        place = f"{path}, line {number}"
        try:
            item = RatedObject.model_validate_json(line)
        except ValidationError as error:
            raise RealismError(f"{place}: {first_problem(error)}") from error
        if item.id in seen:
            raise RealismError(f"{place}: the id {item.id!r} is used twice")
        seen.add(item.id)
        if item.image not in there:
            if not (path.parent / item.image).is_file():
                raise RealismError(f"{place}: the picture {path.parent / item.image} is missing")
            there.add(item.image)
        yield item


def write_objects(folder: str | os.PathLike[str], objects: Iterable[RatedObject]) -> Path:
    """Write the list of a set in one step and return the file; the caller copies the pictures."""
    root = Path(folder)
    root.mkdir(parents=True, exist_ok=True)
    with replacing(root / FILE) as draft, draft.open("w", encoding="utf-8") as file:
        for item in objects:
            file.write(item.model_dump_json(exclude_defaults=True) + "\n")
        file.flush()
        os.fsync(file.fileno())
    return root / FILE
