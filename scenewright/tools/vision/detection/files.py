"""Detections from a file: JSON or JSON lines, of any detector or annotator, and COCO's forms.

The plain form names pictures by file name or content hash
(:func:`scenewright.core.images.hash_of_image`)::

    {"box": "xyxy", "unit": "pixels",
     "images": {"street.png": [{"name": "dog", "box": [10, 20, 50, 60], "score": 0.9}]}}

``box`` is ``xyxy`` (default) or ``xywh``, ``unit`` is ``pixels`` (default) or ``relative`` (shares
of the picture's sides). A thing has a ``name`` (or ``label``), a ``box`` or a ``mask`` or both, and
may have a ``score`` and ``stuff``. A mask is COCO's run-length code (``{"size": [height, width],
"counts": …}``) or a list of polygons. As JSON lines each line is ``{"image": …, "detections":
[…]}``, where ``box`` and ``unit`` may stand in any line and hold for those after it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.core.ports.detector import Box, DetectionError, Mask
from scenewright.tools.vision.detection.boxes import box_of, clipped, resized
from scenewright.tools.vision.detection.coco_files import coco_entries, is_coco
from scenewright.tools.vision.detection.rle import decode, decompress, mask_of_polygons

FORMS = ("xyxy", "xywh")
UNITS = ("pixels", "relative")


@dataclass(frozen=True, slots=True)
class Listed:
    """A thing as a file lists it."""

    name: str
    """Class label."""
    sides: Box | None
    """(left, top, right, bottom) in the file's unit; none where only the mask is given."""
    relative: bool
    """Whether ``sides`` are shares of the picture's width and height."""
    score: float
    """In [0, 1]."""
    mask: Any
    """As in the file; none if there is none."""
    stuff: bool
    """Whether it is a region without instances."""
    place: str
    """Where in the file, for messages."""

    def placed(self, size: tuple[int, int]) -> tuple[Box, Mask | None]:
        """(box, mask) in a picture of ``size`` (width, height).

        Raises ``DetectionError`` for a mask that cannot be read, or where nothing of the thing lies
        in the picture.
        """
        mask = None if self.mask is None else self._mask(size)
        box = self.sides
        if box is not None:
            across, down = size if self.relative else (1, 1)
            box = clipped((box[0] * across, box[1] * down, box[2] * across, box[3] * down), size)
        elif mask is not None:
            box = box_of(mask)
        if box is None:
            raise DetectionError(
                f"{self.place}: nothing of {self.name!r} lies in the picture of "
                f"{size[0]}×{size[1]} pixels: check its box and the file's box and unit"
            )
        return box, mask

    def _mask(self, size: tuple[int, int]) -> Mask:
        try:
            return resized(_mask_of(self.mask, size), size)
        except DetectionError as error:
            raise DetectionError(f"{self.place}: {error}") from None


@dataclass(slots=True)
class Manner:
    """How a file writes boxes."""

    box: str = "xyxy"
    """One of :data:`FORMS`."""
    unit: str = "pixels"
    """One of :data:`UNITS`."""

    def learn(self, told: Mapping[str, Any], place: str) -> None:
        """Take over what ``told`` says; ``DetectionError`` for an unknown word."""
        for key, known in (("box", FORMS), ("unit", UNITS)):
            if key not in told:
                continue
            value = told[key]
            if value not in known:
                raise DetectionError(f"{place}: {key} is {value!r:.40}: use {' or '.join(known)}")
            setattr(self, key, value)


def read_detections(path: str | os.PathLike[str]) -> dict[str, tuple[Listed, ...]]:
    """Picture (file name or content hash, as the file writes it) → its things.

    Raises ``DetectionError``, with the entry's place, for what cannot be read.
    """
    file = Path(path).expanduser()
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DetectionError(f"{file} cannot be read: {error}: name a JSON file") from error
    found: dict[str, list[Listed]] = {}
    for image, listed in _entries(file, text):
        found.setdefault(image, []).extend(listed)
    return {image: tuple(listed) for image, listed in found.items()}


def _entries(file: Path, text: str) -> Iterator[tuple[str, list[Listed]]]:
    lines = file.suffix.lower() in (".jsonl", ".ndjson")
    if not lines:
        try:
            whole = json.loads(text)
        except ValueError as error:
            raise DetectionError(f"{file} is no JSON: {error}") from None
        if is_coco(whole):
            yield from coco_entries(whole, str(file), _listed_pixels)
            return
        if isinstance(whole, dict):
            yield from _plain(whole, str(file))
            return
        if not isinstance(whole, list):
            raise DetectionError(f'{file} must hold an object with "images", or a list')
        rows = [(f"{file}, entry {at}", row) for at, row in enumerate(whole)]
    else:
        rows = []
        for number, line in enumerate(text.splitlines(), start=1):
            if line.strip():
                try:
                    rows.append((f"{file}, line {number}", json.loads(line)))
                except ValueError as error:
                    raise DetectionError(f"{file}, line {number} is no JSON: {error}") from None
    manner = Manner()
    for place, row in rows:
        if not isinstance(row, dict):
            raise DetectionError(f"{place}: write an object with image and detections")
        manner.learn({k: v for k, v in row.items() if k in ("box", "unit")}, place)
        if "image" not in row and "detections" not in row and {"box", "unit"} & set(row):
            continue
        image = row.get("image")
        if not isinstance(image, str) or not image:
            raise DetectionError(f'{place}: "image" must be a file name or a content hash')
        yield image, _things(row.get("detections"), manner, f"{place} ({image})")


def _plain(whole: dict[str, Any], place: str) -> Iterator[tuple[str, list[Listed]]]:
    manner = Manner()
    images = whole.get("images")
    if isinstance(images, dict):
        manner.learn(whole, place)
    elif all(isinstance(value, list) for value in whole.values()):
        images = whole
    else:
        raise DetectionError(
            f'{place}: "images" must be an object of file names (or content hashes), each with a '
            "list of detections"
        )
    for image, listed in images.items():
        yield image, _things(listed, manner, f"{place}, {image}")


def _things(listed: Any, manner: Manner, place: str) -> list[Listed]:
    if not isinstance(listed, list):
        raise DetectionError(f"{place}: the detections must be a list, found {listed!r:.40}")
    return [_thing(entry, manner, f"{place}, detection {at}") for at, entry in enumerate(listed)]


def _thing(entry: Any, manner: Manner, place: str) -> Listed:
    if not isinstance(entry, dict):
        raise DetectionError(f"{place} must be an object, found {entry!r:.40}")
    name = entry.get("name", entry.get("label"))
    if not isinstance(name, str) or not name.strip():
        raise DetectionError(f'{place}: "name" must be a class label, found {name!r:.40}')
    score = entry.get("score", 1.0)
    if not _is_number(score) or not 0 <= score <= 1:
        raise DetectionError(f"{place} ({name}): score is {score!r:.40}: use a number from 0 to 1")
    stuff = entry.get("stuff", False)
    if not isinstance(stuff, bool):
        raise DetectionError(f"{place} ({name}): stuff is {stuff!r:.40}: use true or false")
    sides, mask = entry.get("box"), entry.get("mask")
    if sides is None and mask is None:
        raise DetectionError(f"{place} ({name}): give it a box or a mask")
    box = None if sides is None else _sides(sides, manner.box, f"{place} ({name})")
    return Listed(
        name.strip(), box, manner.unit == "relative", float(score), mask, stuff,
        f"{place} ({name})",
    )  # fmt: skip


def _sides(sides: Any, form: str, place: str) -> Box:
    if not isinstance(sides, list) or len(sides) != 4 or not all(map(_is_number, sides)):
        raise DetectionError(f"{place}: box must be four numbers, found {sides!r:.60}")
    a, b, c, d = (float(side) for side in sides)
    box = (a, b, a + c, b + d) if form == "xywh" else (a, b, c, d)
    if box[0] >= box[2] or box[1] >= box[3]:
        raise DetectionError(
            f'{place}: the box {sides} has no area as {form}: check the file\'s "box"'
        )
    return box


def _mask_of(mask: Any, size: tuple[int, int]) -> Mask:
    if isinstance(mask, dict):
        shape, counts = mask.get("size"), mask.get("counts")
        if (
            not isinstance(shape, list)
            or len(shape) != 2
            or any(isinstance(n, bool) or not isinstance(n, int) for n in shape)
        ):
            raise DetectionError(f'"size" of a mask must be [height, width], found {shape!r:.40}')
        if isinstance(counts, str):
            counts = decompress(counts)
        if not isinstance(counts, list):
            raise DetectionError('"counts" of a mask must be COCO\'s text or a list of numbers')
        return decode(counts, shape[0], shape[1])
    if isinstance(mask, list) and mask and all(isinstance(part, list) for part in mask):
        if not all(_is_number(value) for part in mask for value in part):
            raise DetectionError("a polygon must be a list of numbers: x, y, x, y …")
        return mask_of_polygons(mask, size[1], size[0])
    raise DetectionError(
        f"a mask must be COCO's run-length code or a list of polygons, found {mask!r:.40}"
    )


def _listed_pixels(
    name: str, sides: Sequence[float] | None, score: float, mask: Any, stuff: bool, place: str
) -> Listed:
    """A thing of a COCO file, whose boxes are x, y, width, height in pixels."""
    entry = {"name": name, "score": score, "stuff": stuff, "mask": mask}
    if sides is not None:
        entry["box"] = sides
    return _thing(entry, Manner(box="xywh"), place)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
