"""COCO (Lin et al., 2014): photos with detections, from ``instances_*.json``.

One object with arrays ``images`` (id, file_name, width, height), ``annotations`` (image_id,
category_id, bbox as x, y, width, height, iscrowd) and ``categories`` (id, name); in
``panoptic_*.json`` an annotation holds ``segments_info`` with a category and a box each. Boxes of
one image stand anywhere in the file: they are shelved on the disk, at about 60 bytes a box.

Crowds, boxes without an area inside the image and images with fewer than three objects (the
paper's appendix A) are left out and counted.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.detections import (
    CROWD,
    NO_AREA,
    NO_PHOTO,
    TOO_MANY,
    Photos,
    check_scene,
    clipped,
    label_of,
    number_of,
    photos_in,
    scene_of,
    too_few,
)
from scenewright.evals.datasets.json_stream import sections
from scenewright.evals.datasets.reading import one_of, whole
from scenewright.evals.datasets.row_store import Key, RowStore, signature
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "coco"
ARCHIVE = "annotations_trainval2017.zip"
LOST_IMAGE = "boxes of an image that is not in the list"
_WRITE = json.JSONEncoder(separators=(",", ":")).encode


def load(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "val",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """COCO's photos with their boxes.

    ``path`` is a file of annotations (JSON, also in ``.gz`` or ``.zip``), or a folder that holds
    the 2017 files, of which ``split`` (``val``, ``train``) names one. ``images`` is the folder of
    photos, by default ``val2017`` beside the annotations. ``scene``: ``none``, or ``objects`` for a
    scene of the objects without relations, which needs no photos. Raises ``DatasetError`` for files
    that are not there, and on iteration for what is not in this form.
    """
    one_of("split", split, ("val", "train"))
    given = given_or_default(path, NAME)
    inner = f"annotations/instances_{split}2017.json"
    file, member = find_file(NAME, given, (inner, Path(inner).name), ((ARCHIVE, inner),))
    folder = given if given.is_dir() else file.parent.parent
    beside = [folder / f"{split}2017", folder / "images" / f"{split}2017"]
    return open_layout(
        NAME, file, member, images, beside, min_objects=min_objects, scene=scene, lower=False
    )


def find_file(
    name: str,
    path: Path,
    files: Sequence[str],
    archives: Sequence[tuple[str, str]] = (),
) -> tuple[Path, str | None]:
    """(file of annotations, member if it is an archive): ``path`` itself, or in the folder ``path``
    the first of ``files`` and of ``archives`` that is there."""
    if path.is_file():
        members = dict(archives)
        return path, members.get(path.name)
    for below in files:
        if (path / below).is_file():
            return path / below, None
    for below, member in archives:
        if (path / below).is_file():
            return path / below, member
    raise DatasetError(
        f"{path} has no {files[0]}: name the file, or fetch it with `scenewright data get {name}`"
    )


def open_layout(
    name: str,
    file: Path,
    member: str | None,
    images: str | None,
    beside: Sequence[Path],
    *,
    min_objects: int,
    scene: str,
    lower: bool,
) -> StreamedSet:
    """The set ``name`` in COCO's layout; ``lower`` writes class labels in lower case."""
    least = whole("min_objects", min_objects, 1)
    photos = photos_in(images, beside, name)
    check_scene(scene, ("none", "objects"), photos, name)
    index = Index(file, member)
    # The photos' place is not what the set is: it may differ between machines.
    options = {"min_objects": least, "scene": scene, "photos": photos is not None}
    return StreamedSet(
        partial(_entries, index, photos, least, scene, lower),
        name=name,
        version=VERSION,
        options=options | ({"member": member} if member else {}),
        files=lambda: [(file.name, file)],
        unique=True,
    )


class Index:
    """The file's images and boxes on a shelf, filled on first use and anew if the file changes."""

    def __init__(self, file: Path, member: str | None) -> None:
        """Reads nothing."""
        self.file, self._member = file, member
        self._shelf: RowStore | None = None
        self._names: dict[int, Any] = {}
        self._filled: tuple[int, int] | None = None

    def open(self) -> tuple[RowStore, dict[int, Any]]:
        """(shelf of ``images`` and ``boxes`` by the image's id, category id → its name)."""
        now = signature(self.file)
        if self._shelf is None or now != self._filled:
            if self._shelf is not None:
                self._shelf.close()
            self._shelf = None
            shelf = RowStore(("images", "boxes"))
            try:
                self._names = self._fill(shelf)
            except BaseException:
                shelf.close()
                raise
            self._shelf, self._filled = shelf, now
        return self._shelf, self._names

    def _fill(self, shelf: RowStore) -> dict[int, Any]:
        names: dict[int, Any] = {}
        keys = ("images", "annotations", "categories")
        for key, number, entry in sections(self.file, keys, member=self._member):
            place = f"{self.file}, {key}[{number}]"
            if not isinstance(entry, dict):
                raise DatasetError(f"{place} is no JSON object: take the file as it was published")
            if key == "categories":
                names[_id(entry, "id", place, int)] = entry.get("name")
            elif key == "images":
                kept = {k: entry.get(k) for k in ("file_name", "width", "height")}
                shelf.add("images", _id(entry, "id", place), _WRITE(kept))
            else:
                image = _id(entry, "image_id", place)
                for box in _boxes_of(entry, place):
                    row = [number, box.get("category_id"), box.get("bbox"), box.get("iscrowd", 0)]
                    shelf.add("boxes", image, _WRITE(row))
        shelf.finish()
        if (twice := shelf.repeated("images")) is not None:
            raise DatasetError(
                f"{self.file}: images lists the id {twice!r} twice: results are kept by id, so "
                "take the file as it was published"
            )
        return names


def _boxes_of(entry: dict[str, Any], place: str) -> list[dict[str, Any]]:
    """An annotation is a box itself, or has segments."""
    found = entry.get("segments_info", [entry])
    if not isinstance(found, list) or not all(isinstance(box, dict) for box in found):
        raise DatasetError(f"{place}: segments_info must be a list of objects")
    return found


def _id(entry: dict[str, Any], key: str, place: str, kind: type = object) -> Any:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | str) or not isinstance(value, kind):
        raise DatasetError(f'{place}: "{key}" must be the number of an entry, found {value!r:.60}')
    return value


def _entries(
    index: Index,
    photos: Photos | None,
    least: int,
    scene: str,
    lower: bool,
    left_out: Counter[str],
) -> Iterator[Item]:
    shelf, raw_names = index.open()
    names = {
        number: label_of(name, f"{index.file}, category {number}", lower)
        for number, name in raw_names.items()
    }
    if lost := shelf.without("boxes", "images"):
        left_out[LOST_IMAGE] += lost
    for key, text in shelf.rows("images"):
        image = json.loads(text)
        place = f"{index.file}, image {key}"
        size = (
            number_of(image["width"], place, "width"),
            number_of(image["height"], place, "height"),
        )
        found = _detections(index.file, shelf.texts("boxes", key), names, size, left_out)
        if len(found) < least:
            left_out[too_few(least)] += 1
            continue
        name = image["file_name"] if isinstance(image["file_name"], str) else ""
        photo = photos.find(name) if photos is not None else None
        if photo is None and scene == "none":
            left_out[NO_PHOTO] += 1
            continue
        if scene == "objects" and len(found) > MAX_OBJECTS:
            left_out[TOO_MANY] += 1
            continue
        yield _item(place, key, found, name, size, photo, scene)


def _item(
    place: str,
    key: Key,
    found: tuple[Detection, ...],
    name: str,
    size: tuple[float, float],
    photo: Path | None,
    scene: str,
) -> Item:
    return make_item(
        place,
        id=str(key),
        scene=scene_of(box.name for box in found) if scene == "objects" else None,
        image=None if photo is None else str(photo),
        detections=found,
        meta={"file_name": name, "width": f"{size[0]:g}", "height": f"{size[1]:g}"},
    )


def _detections(
    file: Path,
    rows: Sequence[str],
    names: dict[int, str],
    size: tuple[float, float],
    left_out: Counter[str],
) -> tuple[Detection, ...]:
    found: list[Detection] = []
    for text in rows:
        number, category, box, crowd = json.loads(text)
        place = f"{file}, annotations[{number}]"
        if crowd:
            left_out[CROWD] += 1
            continue
        if not isinstance(category, int) or category not in names:
            raise DatasetError(f"{place}: there is no category {category!r} in categories")
        if not isinstance(box, list) or len(box) != 4:
            raise DatasetError(f"{place}: bbox must be [x, y, width, height], found {box!r:.60}")
        x, y, width, height = (number_of(side, place, "a side of bbox") for side in box)
        inside = clipped((x, y, x + width, y + height), size)
        if inside is None:
            left_out[NO_AREA] += 1
            continue
        found.append(Detection(names[category], inside))
    return tuple(found)
