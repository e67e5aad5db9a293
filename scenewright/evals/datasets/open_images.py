"""Open Images V6 (Kuznetsova et al., 2020): photos with boxes, and visual relationships.

CSV files of a folder: ``SPLIT-annotations-bbox.csv`` (ImageID, LabelName, XMin, XMax, YMin, YMax in
shares of the image, IsGroupOf), ``SPLIT-annotations-vrd.csv`` (two labels, two boxes and a
relation), each also with ``oidv6-`` before it, and ``class-descriptions-boxable.csv`` with the
names of labels such as ``/m/01g317``. Names are written in lower case, as in COCO and in the paper.

A relation ``is`` gives its object an attribute: ``(made of)Leather`` is the material leather. Boxes
in pixels need the photo, whose header tells its size. Rows wait on the disk, by image, at about
130 bytes a row.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from PIL import Image, UnidentifiedImageError

from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.detections import (
    CROWD,
    NO_AREA,
    NO_PHOTO,
    TOO_MANY,
    Box,
    Photos,
    check_scene,
    clipped,
    label_of,
    number_of,
    photos_in,
    scene_of,
    too_few,
)
from scenewright.evals.datasets.open_images_scene import NO_RELATIONS, scene_of_rows
from scenewright.evals.datasets.reading import one_of, opened, rows_of, whole
from scenewright.evals.datasets.row_store import RowStore, signature
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "open-images"
SPLITS = ("train", "validation", "test")
SCENES = ("none", "objects", "relations")
CLASSES = "class-descriptions-boxable.csv"
ATTRIBUTES = "attributes-description.csv"
PREDICATES = "relationships-description.csv"
_BOXES = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")
_ENDS = ("XMin1", "XMax1", "YMin1", "YMax1", "XMin2", "XMax2", "YMin2", "YMax2")
_PREFIXES = ("oidv6-", "", "oidv7-")
_ENDINGS = ("jpg", "jpeg", "png")
_WRITE = json.JSONEncoder(separators=(",", ":")).encode


def load(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "validation",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """Photos with their boxes; with ``scene="relations"`` a scene of the related objects, with
    ``"objects"`` one of all of them without relations.

    ``path`` is the folder of CSV files, ``split`` names those that are read, ``images`` is the
    folder of photos (default: one with the split's name in ``path``). Raises ``DatasetError`` for
    files that are not there, and on iteration for rows that are not in this form.
    """
    one_of("split", split, SPLITS)
    least = whole("min_objects", min_objects, 1)
    folder = given_or_default(path, NAME)
    if not folder.is_dir():
        raise DatasetError(f"{folder} is no folder: name that of Open Images' CSV files")
    photos = photos_in(images, (folder / split, folder / "images" / split), NAME)
    check_scene(scene, SCENES, photos, NAME)
    if photos is not None:
        photos = Photos([*photos.folders, *(place / split for place in photos.folders)])
    index = _Index(folder, split, relations=scene == "relations")
    return StreamedSet(
        partial(_entries, index, photos, least, scene),
        name=NAME,
        version=VERSION,
        options={
            "split": split,
            "min_objects": least,
            "scene": scene,
            "photos": photos is not None,
        },
        files=lambda: [(file.name, file) for file in index.files()],
        unique=True,
    )


def _find(folder: Path, name: str) -> Path | None:
    for prefix in _PREFIXES:
        for ending in ("", ".gz"):
            if (file := folder / f"{prefix}{name}{ending}").is_file():
                return file
    return None


def _needed(folder: Path, name: str) -> Path:
    found = _find(folder, name)
    if found is None:
        raise DatasetError(
            f"{folder} has no {name} (also oidv6-{name}): fetch it with "
            f"`scenewright data get {NAME} --only …`"
        )
    return found


@dataclass(frozen=True, slots=True)
class Names:
    """What labels mean."""

    classes: Mapping[str, str]
    """Label → class, in lower case."""
    attributes: Mapping[str, str]
    """Label → attribute, in lower case, as published (``(made of)leather``)."""
    predicates: Mapping[str, str]
    """Label → words of a relation."""


class _Index:
    """The rows of a split on a shelf, by image; filled on first use and anew if a file changes."""

    def __init__(self, folder: Path, split: str, relations: bool) -> None:
        self.boxes = _needed(folder, f"{split}-annotations-bbox.csv")
        self.classes = _needed(folder, CLASSES)
        self.relations = _needed(folder, f"{split}-annotations-vrd.csv") if relations else None
        self.attributes = _needed(folder, ATTRIBUTES) if relations else None
        self.predicates = _find(folder, PREDICATES) if relations else None
        self._shelf: RowStore | None = None
        self._filled: list[tuple[int, int]] = []

    def files(self) -> list[Path]:
        found = (self.boxes, self.classes, self.relations, self.attributes, self.predicates)
        return [file for file in found if file is not None]

    def names(self) -> Names:
        return Names(_names(self.classes), _names(self.attributes), _names(self.predicates))

    def open(self) -> RowStore:
        now = [signature(file) for file in self.files()]
        if self._shelf is None or now != self._filled:
            if self._shelf is not None:
                self._shelf.close()
            self._shelf = None
            shelf = RowStore(("boxes", "relations"))
            try:
                self._fill(shelf)
            except BaseException:
                shelf.close()
                raise
            self._shelf, self._filled = shelf, now
        return self._shelf

    def _fill(self, shelf: RowStore) -> None:
        for place, row in rows_of(self.boxes, _BOXES):
            sides = [number_of(row[key], place, key) for key in _BOXES[2:]]
            kept = [row["LabelName"], *sides, row.get("IsGroupOf") == "1"]
            shelf.add("boxes", row["ImageID"], _WRITE(kept))
        if self.relations is not None:
            for place, row in rows_of(self.relations, ("ImageID", "LabelName1", "LabelName2")):
                words = row.get("RelationshipLabel", row.get("RelationLabel"))
                if words is None or not set(_ENDS) <= row.keys():
                    raise DatasetError(
                        f"{self.relations} lacks a column of RelationshipLabel, "
                        f"{', '.join(_ENDS)}: take the file as it was published"
                    )
                sides = [number_of(row[key], place, key) for key in _ENDS]
                kept = [row["LabelName1"], words, row["LabelName2"], *sides]
                shelf.add("relations", row["ImageID"], _WRITE(kept))
        shelf.finish()


def _names(file: Path | None) -> dict[str, str]:
    """Label → name, from two columns with or without a line of titles."""
    if file is None:
        return {}
    found: dict[str, str] = {}
    with opened(file) as text:
        for row in csv.reader(text):
            if len(row) < 2:
                continue
            found[row[0].strip()] = label_of(row[1], f"{file}, {row[0]}", lower=True)
    return found


def _entries(
    index: _Index, photos: Photos | None, least: int, scene: str, left_out: Counter[str]
) -> Iterator[Item]:
    shelf, names = index.open(), index.names()
    for key in shelf.keys("boxes"):
        place = f"{index.boxes}, image {key}"
        boxes = list(_boxes(shelf.texts("boxes", key), names, place, left_out))
        if len(boxes) < least:
            left_out[too_few(least)] += 1
            continue
        photo = _photo(photos, str(key))
        if photo is None and scene == "none":
            left_out[NO_PHOTO] += 1
            continue
        graph: SceneGraph | None = None
        if scene == "relations":
            rows = [json.loads(text) for text in shelf.texts("relations", key)]
            graph = scene_of_rows(
                rows, names.classes, names.attributes, names.predicates, place, left_out
            )
            if graph is None:
                left_out[NO_RELATIONS] += 1
                continue
        elif scene == "objects":
            if len(boxes) > MAX_OBJECTS:
                left_out[TOO_MANY] += 1
                continue
            graph = scene_of(name for name, _ in boxes)
        size = None if photo is None else _size(photo)
        yield make_item(
            place,
            id=str(key),
            scene=graph,
            image=None if photo is None else str(photo),
            detections=() if size is None else tuple(_in_pixels(boxes, size)),
            meta={} if size is None else {"width": str(size[0]), "height": str(size[1])},
        )


def _boxes(
    texts: list[str], names: Names, place: str, left_out: Counter[str]
) -> Iterator[tuple[str, Box]]:
    """(class, box in shares of the image) of each single object."""
    for text in texts:
        label, left, right, top, bottom, group = json.loads(text)
        if group:
            left_out[CROWD] += 1
            continue
        if label not in names.classes:
            raise DatasetError(f"{place}: {CLASSES} has no label {label!r}: fetch both anew")
        inside = clipped((left, top, right, bottom), (1.0, 1.0))
        if inside is None:
            left_out[NO_AREA] += 1
        else:
            yield names.classes[label], inside


def _in_pixels(boxes: list[tuple[str, Box]], size: tuple[int, int]) -> Iterator[Detection]:
    width, height = size
    for name, (left, top, right, bottom) in boxes:
        yield Detection(name, (left * width, top * height, right * width, bottom * height))


def _photo(photos: Photos | None, image: str) -> Path | None:
    if photos is None:
        return None
    names = (f"{image}.{ending}" for ending in _ENDINGS)
    return next((file for name in names if (file := photos.find(name))), None)


def _size(photo: Path) -> tuple[int, int]:
    try:
        with Image.open(photo) as image:
            return image.size
    except (OSError, UnidentifiedImageError, ValueError) as error:
        raise DatasetError(f"{photo} is no picture ({error}): fetch it again") from error
