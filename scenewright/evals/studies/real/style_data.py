"""Pictures labelled as photo or illustration: what the style scorer is trained and tested on.

A set is a folder with the folders ``photo`` and ``illustration``, or a file of JSON lines
``{"image": "a.png", "label": "photo"}``, whose paths begin at the file's own folder. A line may
say ``"split": "train"`` or ``"test"``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from scenewright.core.validation import first_problem
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.reading import json_lines
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.studies.real.pixels import digests, pictures_in

Label = Literal["photo", "illustration"]
Split = Literal["train", "test"]
LABELS: tuple[Label, ...] = get_args(Label)
"""The classes; the first is what is scored."""
LEAST = 4
"""Pictures of each class, at least: fewer cannot be parted into training and test."""
_TOLD = 5


class StyleError(MetricError):
    """A style scorer or a set for one that cannot be used; says how to fix it."""


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """One picture of a set."""

    file: Path
    """Where it lies."""
    label: Label
    """Its class."""
    split: Split | None = None
    """Its part of the set; none: it is drawn."""
    digest: str = ""
    """Hash of its pixels; empty until :func:`checked`."""


@dataclass(frozen=True, slots=True)
class StyleSet:
    """A set that was read whole."""

    train: tuple[LabelledPicture, ...]
    """What is learned from."""
    test: tuple[LabelledPicture, ...]
    """What is held out."""
    repeated: int = 0
    """Pictures that were left out since the set holds the same pixels already."""

    @property
    def digest(self) -> str:
        """SHA-256 (hex) of contents, labels and parts; not of where the files lie."""
        rows = [
            f"{part}\0{one.label}\0{one.digest}\n"
            for part, pictures in (("train", self.train), ("test", self.test))
            for one in pictures
        ]
        return hashlib.sha256("".join(rows).encode()).hexdigest()


class _Line(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)

    image: str = Field(min_length=1)
    label: Label
    split: Split | None = None


def read_labelled(source: Path) -> list[LabelledPicture]:
    """The pictures that a folder or a file of JSON lines names; they are not opened.

    Raises ``StyleError`` or ``DatasetError`` for what is not there or not such a set.
    """
    if source.is_dir():
        return [
            LabelledPicture(file, label) for label in LABELS for file in _of_folder(source, label)
        ]
    if not source.is_file():
        raise StyleError(
            f"there is no {source}: give a folder with the folders {' and '.join(LABELS)}, or a "
            'file of JSON lines {"image": …, "label": …}'
        )
    found = []
    for place, row in json_lines(source):
        try:
            line = _Line.model_validate(row)
        except ValidationError as error:
            raise DatasetError(f"{place}: {first_problem(error)}") from error
        found.append(LabelledPicture(source.parent / line.image, line.label, line.split))
    return found


def _of_folder(source: Path, label: Label) -> list[Path]:
    folder = source / label
    if not folder.is_dir():
        raise StyleError(
            f"{source} has no folder {label!r}: put the pictures of each class into "
            f"{' and '.join(LABELS)}"
        )
    try:
        return pictures_in(folder)
    except OSError as error:
        raise StyleError(f"{folder} cannot be read: {error.strerror or error}") from error


def checked(
    pictures: Sequence[LabelledPicture],
    held_out: float = 0.2,
    seed: int = 0,
    tell: Callable[[int], None] = lambda done: None,
) -> StyleSet:
    """Open every picture, and part the set into training and test.

    Pictures without a split are drawn by content: a share of ``held_out`` of each class is for the
    test, the same ones for the same ``seed`` wherever they lie. Of equal pictures the first stays,
    so that no test picture was learned. ``tell`` gets how many were read. Raises ``StyleError``
    that names all pictures at fault at once: unreadable ones, and equal ones of both classes; and
    for a set with too few of a class or of a part.
    """
    if not 0.0 < held_out < 1.0:
        raise StyleError(f"a share of {held_out:g} cannot be held out: use one between 0 and 1")
    known: dict[str, LabelledPicture] = {}
    faults: list[str] = []
    repeated = 0
    read = digests(one.file for one in pictures)
    for done, (one, (_, found)) in enumerate(zip(pictures, read, strict=True), start=1):
        tell(done)
        if not isinstance(found, str):
            faults.append(str(found))
            continue
        first = known.setdefault(found, replace(one, digest=found))
        if first.file is one.file:
            continue
        if first.label != one.label:
            faults.append(f"{one.file} is labelled {one.label}, the equal {first.file} is not")
        elif None not in (first.split, one.split) and first.split != one.split:
            faults.append(f"{one.file} and the equal {first.file} are in both train and test")
        else:
            repeated += 1
    if faults:
        more = f"; and {len(faults) - _TOLD} more" if len(faults) > _TOLD else ""
        raise StyleError(
            f"{len(faults)} pictures of the set cannot be used: {'; '.join(faults[:_TOLD])}{more}. "
            "Mend or take them out"
        )
    train: list[LabelledPicture] = []
    test: list[LabelledPicture] = []
    for label in LABELS:
        inside = [one for one in known.values() if one.label == label]
        if len(inside) < LEAST:
            raise StyleError(
                f"the set has {len(inside)} different pictures of the class {label!r}: both "
                f"classes are needed, with {LEAST} or more each"
            )
        drawn = sorted((one for one in inside if one.split is None), key=lambda o: _draw(o, seed))
        cut = max(1, round(held_out * len(drawn))) if drawn else 0
        test += [one for one in inside if one.split == "test"] + drawn[:cut]
        train += [one for one in inside if one.split == "train"] + drawn[cut:]
    for name, part in (("train", train), ("test", test)):
        if {one.label for one in part} != set(LABELS):
            raise StyleError(
                f"the part {name!r} lacks a class: leave `split` away, or give both parts both"
            )
    return StyleSet(tuple(train), tuple(test), repeated)


def _draw(one: LabelledPicture, seed: int) -> str:
    return hashlib.sha256(f"{seed}\0{one.digest}".encode()).hexdigest()
