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

COCO's files list annotations of instances, panoptic segments or results.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.images import hash_of_image, load_image
from scenewright.core.ports.vision import Box, Detection, DetectionError, Mask
from scenewright.core.user_files import read_user_text
from scenewright.tools.vision.detection.boxes import box_of, by_score, clipped, resized
from scenewright.tools.vision.detection.labels import is_wanted, normalized_labels, plain
from scenewright.tools.vision.detection.masks import (
    data_of_detection,
    decode_mask,
    mask_of_polygons,
)

FORMS = ("xyxy", "xywh")
UNITS = ("pixels", "relative")
_HASH = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class ListedDetection:
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
    """Place in the file, for messages."""

    def placed(self, size: tuple[int, int]) -> tuple[Box, Mask | None]:
        """(box, mask) in a picture of ``size`` (width, height).

        Raises ``DetectionError`` for a mask that cannot be read, or where nothing of the thing lies
        in the picture.
        """
        mask = None
        if self.mask is not None:
            try:
                mask = resized(_mask_of(self.mask, size), size)
            except DetectionError as error:
                raise DetectionError(f"{self.place}: {error}") from None
        box = self.sides
        if box is not None:
            across, down = size if self.relative else (1, 1)
            box = clipped((box[0] * across, box[1] * down, box[2] * across, box[3] * down), size)
        elif mask is not None:
            box = box_of(mask)
        if box is None:
            raise DetectionError(
                f"{self.place}: {self.name!r} lies outside the picture of "
                f"{size[0]}×{size[1]} pixels: check its box and the file's box and unit"
            )
        return box, mask


@dataclass(slots=True)
class Notation:
    """Notation of the boxes in a file."""

    box: str = "xyxy"
    """One of :data:`FORMS`."""
    unit: str = "pixels"
    """One of :data:`UNITS`."""

    def update(self, data: Mapping[str, Any], place: str) -> None:
        """Take over ``box`` and ``unit`` of ``data``; ``DetectionError`` for an unknown word."""
        for key, known in (("box", FORMS), ("unit", UNITS)):
            if key not in data:
                continue
            value = data[key]
            if value not in known:
                raise DetectionError(f"{place}: {key} is {value!r:.40}: use {' or '.join(known)}")
            setattr(self, key, value)


def read_detections(path: str | os.PathLike[str]) -> dict[str, tuple[ListedDetection, ...]]:
    """Return the things by picture (file name or content hash, as the file writes it).

    Raises ``DetectionError``, with the entry's place, for what cannot be read.
    """
    file = Path(path).expanduser()
    text = read_user_text(file, DetectionError)
    found: dict[str, list[ListedDetection]] = {}
    for image, listed in _entries(file, text):
        found.setdefault(image, []).extend(listed)
    return {image: tuple(listed) for image, listed in found.items()}


def _entries(file: Path, text: str) -> Iterator[tuple[str, list[ListedDetection]]]:
    lines = file.suffix.lower() in (".jsonl", ".ndjson")
    if not lines:
        whole = _json(text, str(file))
        if isinstance(whole, dict):
            parts = (whole.get(key) for key in ("images", "annotations", "categories"))
            coco = all(isinstance(part, list) for part in parts)
            yield from (_coco_entries if coco else _plain_entries)(whole, str(file))
            return
        if not isinstance(whole, list):
            raise DetectionError(f'{file} must hold an object with "images", or a list')
        rows = [(f"{file}, entry {at}", row) for at, row in enumerate(whole)]
    else:
        rows = [
            (place := f"{file}, line {number}", _json(line, place))
            for number, line in enumerate(text.splitlines(), start=1)
            if line.strip()
        ]
    notation = Notation()
    for place, row in rows:
        if not isinstance(row, dict):
            raise DetectionError(f"{place}: write an object with image and detections")
        notation.update(row, place)
        if "image" not in row and "detections" not in row and {"box", "unit"} & set(row):
            continue
        image = row.get("image")
        if not isinstance(image, str) or not image:
            raise DetectionError(f'{place}: "image" must be a file name or a content hash')
        yield image, _things(row.get("detections"), notation, f"{place} ({image})")


def _json(text: str, place: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DetectionError(f"{place} is not valid JSON: {error}") from None


def _plain_entries(
    whole: dict[str, Any], place: str
) -> Iterator[tuple[str, list[ListedDetection]]]:
    notation = Notation()
    images = whole.get("images")
    if isinstance(images, dict):
        notation.update(whole, place)
    elif all(isinstance(value, list) for value in whole.values()):
        images = whole
    else:
        raise DetectionError(
            f'{place}: "images" must be an object of file names (or content hashes), each with a '
            "list of detections"
        )
    for image, listed in images.items():
        yield image, _things(listed, notation, f"{place}, {image}")


def _coco_entries(whole: dict[str, Any], place: str) -> Iterator[tuple[str, list[ListedDetection]]]:
    """Yield the file name and the things of every image of a COCO document, crowds left out.

    Annotations are instances (with ``bbox``, ``segmentation`` and, of results, ``score``) or
    panoptic (with ``segments_info``; their masks lie in files of their own and are not read).
    Raises ``DetectionError`` with the entry's place.
    """
    files = _table(whole["images"], "file_name", f"{place}, images")
    names = _table(whole["categories"], "name", f"{place}, categories")
    things = {
        entry["id"]: entry.get("isthing", 1) != 0 for entry in whole["categories"] if "id" in entry
    }
    found: dict[Any, list[ListedDetection]] = {number: [] for number in files}
    for at, annotation in enumerate(whole["annotations"]):
        here = f"{place}, annotations[{at}]"
        if not isinstance(annotation, dict) or annotation.get("image_id") not in files:
            raise DetectionError(f"{here}: image_id must be the id of one of the images")
        parts = annotation.get("segments_info", [annotation])
        if not isinstance(parts, list):
            raise DetectionError(f"{here}: segments_info must be a list of segments")
        for part in parts:
            category = part.get("category_id") if isinstance(part, dict) else None
            if category not in names:
                raise DetectionError(f"{here}: there is no category {category!r:.40}")
            if part.get("iscrowd"):
                continue
            entry = {
                "name": plain(names[category]),
                "box": part.get("bbox"),
                "score": part.get("score", 1.0),
                "mask": part.get("segmentation") or None,
                "stuff": not things.get(category, True),
            }
            place_of = f"{here}, {files[annotation['image_id']]}"
            found[annotation["image_id"]].append(_thing(entry, Notation(box="xywh"), place_of))
    for number, listed in found.items():
        yield files[number], listed


def _table(rows: list[Any], key: str, place: str) -> dict[Any, str]:
    table = {}
    for at, row in enumerate(rows):
        number = row.get("id") if isinstance(row, dict) else None
        if not isinstance(number, int | str) or not isinstance(row.get(key), str):
            raise DetectionError(f'{place}[{at}] must have an "id" and a text "{key}"')
        table[number] = row[key]
    return table


def _things(listed: Any, notation: Notation, place: str) -> list[ListedDetection]:
    if not isinstance(listed, list):
        raise DetectionError(f"{place}: the detections must be a list, found {listed!r:.40}")
    return [_thing(entry, notation, f"{place}, detection {at}") for at, entry in enumerate(listed)]


def _thing(entry: Any, notation: Notation, place: str) -> ListedDetection:
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
    box: Box | None = None
    if sides is not None:
        if not isinstance(sides, list) or len(sides) != 4 or not all(map(_is_number, sides)):
            raise DetectionError(f"{place} ({name}): box must be four numbers, found {sides!r:.60}")
        a, b, c, d = (float(side) for side in sides)
        box = (a, b, a + c, b + d) if notation.box == "xywh" else (a, b, c, d)
        if box[0] >= box[2] or box[1] >= box[3]:
            raise DetectionError(
                f"{place} ({name}): the box {sides} has no area as {notation.box}: check the "
                'file\'s "box"'
            )
    return ListedDetection(
        name.strip(), box, notation.unit == "relative", float(score), mask, stuff,
        f"{place} ({name})",
    )  # fmt: skip


def _mask_of(mask: Any, size: tuple[int, int]) -> Mask:
    if isinstance(mask, dict):
        shape, counts = mask.get("size"), mask.get("counts")
        if not isinstance(shape, list) or [type(n) for n in shape] != [int, int]:
            raise DetectionError(f'"size" of a mask must be [height, width], found {shape!r:.40}')
        if not isinstance(counts, str | list):
            raise DetectionError('"counts" of a mask must be COCO\'s text or a list of numbers')
        return decode_mask(counts, shape[0], shape[1])
    if isinstance(mask, list) and mask and all(isinstance(part, list) for part in mask):
        if not all(_is_number(value) for part in mask for value in part):
            raise DetectionError("a polygon must be a list of numbers: x, y, x, y …")
        return mask_of_polygons(mask, size[1], size[0])
    raise DetectionError(
        f"a mask must be COCO's run-length code or a list of polygons, found {mask!r:.40}"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


class RecordedDetector:
    """Implements :class:`~scenewright.core.ports.vision.Detector` for a file of detections.

    A picture is found by its content hash: that which the file names, or that of a picture that
    the file names by file name and that lies in the folder of pictures. Else it is found by the
    name of the file it was opened from, if Pillow still knows it. A picture that the file does not
    name raises ``DetectionError``: no record is not the same as nothing seen, which is an empty
    list.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        threshold: float = 0.0,
        images: str | os.PathLike[str] | None = None,
    ) -> None:
        """Read the detections in ``path``; the module describes the formats.

        ``threshold``: least score of a detection. ``images``: the folder that file names are
        relative to, by default that of ``path``. Raises ``DetectionError`` for what cannot be read.
        """
        if not 0 <= threshold <= 1:
            raise DetectionError(f"threshold {threshold}: use a number from 0 to 1")
        self._path = Path(path).expanduser()
        self._threshold = threshold
        self._listed = read_detections(self._path)
        self._folder = self._path.parent if images is None else Path(images).expanduser()
        self._hashing = threading.Lock()
        self._hashed: dict[str, str] | None = None
        self._by_name: dict[str, str | None] = {}
        for key in self._listed:
            last = _last(key)
            # A name that two folders share says nothing alone.
            self._by_name[last] = None if last in self._by_name else key

    @property
    def id(self) -> str:
        """``json:`` and the file's name."""
        return f"json:{self._path.name}"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the file's content and the threshold."""
        digest = hashlib.sha256(f"recorded@1 {self._threshold} ".encode())
        digest.update(self._path.read_bytes())
        return digest.hexdigest()

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """None: a record does not say which classes were looked for."""
        return None

    @property
    def pictures(self) -> tuple[str, ...]:
        """File names or content hashes of the pictures that it knows."""
        return tuple(self._listed)

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """As the port says.

        Raises ``DetectionError`` for a picture that the file does not name, and for a mask or box
        that does not fit it.
        """

        def detect() -> tuple[Detection, ...]:
            wanted = normalized_labels(labels)
            found = []
            for listed in self._listed_of(image):
                if listed.score >= self._threshold and is_wanted(listed.name, wanted):
                    box, mask = listed.placed(image.size)
                    found.append(Detection(listed.name, box, listed.score, mask, listed.stuff))
            return tuple(by_score(found))

        return await asyncio.to_thread(detect)

    async def aclose(self) -> None:
        """Nothing to free."""

    def _listed_of(self, image: Image.Image) -> tuple[ListedDetection, ...]:
        digest = hash_of_image(image)
        named = self._pictures_here().get(digest, digest)
        if named in self._listed:
            return self._listed[named]
        opened = str(getattr(image, "filename", "") or "")
        if opened in self._listed:
            return self._listed[opened]
        key = self._by_name.get(_last(opened)) if opened else None
        if key is not None:
            return self._listed[key]
        told = f"{_last(opened)} ({digest})" if opened else f"the picture {digest}"
        raise DetectionError(
            f"{self._path} has no detections of {told}: add it by file name or content hash, with "
            "an empty list if nothing is seen in it"
        )

    def _pictures_here(self) -> dict[str, str]:
        """Content hash → name in the file, of the pictures that lie in the folder."""
        with self._hashing:
            if self._hashed is None:
                self._hashed = {}
                for name in self._listed:
                    file = self._folder / name
                    if _HASH.fullmatch(name) is None and file.is_file():
                        self._hashed[hash_of_image(load_image(file))] = name
            return self._hashed


def as_record(found: Mapping[str, Sequence[Detection]]) -> dict[str, Any]:
    """Return a document in the plain form, of detections by picture; ``json.dump`` writes it.

    >>> as_record({"a.png": [Detection("dog", (1, 2, 3, 4), 0.5)]})["images"]["a.png"]
    [{'name': 'dog', 'box': [1.0, 2.0, 3.0, 4.0], 'score': 0.5}]
    """
    images: dict[str, list[dict[str, Any]]] = {}
    for picture, listed in found.items():
        images[picture] = [data_of_detection(one) for one in listed]
        for entry in images[picture]:
            if not entry["stuff"]:
                del entry["stuff"]
    return {"box": "xyxy", "unit": "pixels", "images": images}


def write_detections(path: Path, found: Mapping[str, Sequence[Detection]]) -> None:
    """Write :func:`as_record` to ``path``."""
    path.write_text(json.dumps(as_record(found)) + "\n", encoding="utf-8")


def _last(name: str) -> str:
    return PurePosixPath(name.replace("\\", "/")).name
