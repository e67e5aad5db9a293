"""Detection sets: photos with boxes of COCO, Objects365 and Open Images.

**COCO** (Lin et al., 2014): ``instances_*.json`` is one object with arrays ``images`` (id,
file_name, width, height), ``annotations`` (image_id, category_id, bbox as x, y, width, height,
iscrowd) and ``categories`` (id, name); in ``panoptic_*.json`` an annotation holds ``segments_info``
with a category and a box each. Boxes of one image may be anywhere in the file: they are stored on
disk, at about 60 bytes a box.

**Objects365** (Shao et al., 2019), release v2, has the same layout in ``zhiyuan_objv2_train.json``
and ``zhiyuan_objv2_val.json``; its photos are in folders ``patch0``, ``patch1``, … and its file
names begin with ``images/v1/`` or ``images/v2/``.

**Open Images V6** (Kuznetsova et al., 2020): CSV files of a folder: ``SPLIT-annotations-bbox.csv``
(ImageID, LabelName, XMin, XMax, YMin, YMax in shares of the image, IsGroupOf),
``SPLIT-annotations-vrd.csv`` (two labels, two boxes and a relation), each also with the prefix
``oidv6-``, and ``class-descriptions-boxable.csv`` with the names of labels such as ``/m/01g317``. A
relation ``is`` gives its object an attribute: ``(made of)Leather`` is the material leather. Boxes
in pixels need the photo, whose header has its size. Rows are stored on disk by image, at about 130
bytes a row.

Class labels of the latter two are written in lower case, as in COCO and in the paper. Crowds, boxes
without an area inside the image and images with fewer than three objects (the paper's appendix A)
are left out and counted.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from scenewright.core.formats.base import FormatError, build, numbered
from scenewright.core.formats.phrases import key_of
from scenewright.core.images import ImageError, upright_size
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS, SceneGraph
from scenewright.evals.datasets.base import (
    DatasetError,
    Item,
    StreamedSet,
    given_or_default,
    make_item,
)
from scenewright.evals.datasets.json_stream import FileIndex, Key, RowStore, sections
from scenewright.evals.datasets.reading import (
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
    one_of,
    opened,
    photos_in,
    rows_of,
    scene_of,
    too_few,
    whole,
)

COCO_VERSION = 1
COCO_NAME = "coco"
ARCHIVE = "annotations_trainval2017.zip"
LOST_IMAGE = "boxes of an image that is not in the list"
_WRITE = json.JSONEncoder(separators=(",", ":")).encode


def load_coco(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "val",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """Return COCO's photos with their boxes.

    ``path`` is a file of annotations (JSON, also in ``.gz`` or ``.zip``), or a folder that holds
    the 2017 files, of which ``split`` (``val``, ``train``) names one. ``images`` is the folder of
    photos, by default ``val2017`` beside the annotations. ``scene``: ``none``, or ``objects`` for a
    scene of the objects without relations, which needs no photos. Raises ``DatasetError`` for
    missing files, and on iteration for files of another form.
    """
    return open_layout(
        COCO_NAME,
        path,
        split,
        (f"annotations/instances_{split}2017.json", f"instances_{split}2017.json"),
        archive=ARCHIVE,
        pictures=f"{split}2017",
        images=images,
        min_objects=min_objects,
        scene=scene,
    )


def find_file(name: str, path: Path, files: Sequence[str], archive: str) -> tuple[Path, str | None]:
    """Return the file of annotations, and the member if it is an archive.

    It is ``path`` itself, or in the folder ``path`` the first of ``files`` that exists, or the
    first of them in ``archive``.
    """
    places = [path] if path.is_file() else [path / below for below in (*files, archive) if below]
    found = next((file for file in places if file.is_file()), None)
    if found is not None:
        return found, files[0] if found.name == archive else None
    raise DatasetError(
        f"{path} has no {files[0]}: name the file, or fetch it with `scenewright data get {name}`"
    )


def open_layout(
    name: str,
    path: Path | None,
    split: str,
    files: Sequence[str],
    *,
    archive: str = "",
    pictures: str,
    images: str | None,
    min_objects: int,
    scene: str,
    lower: bool = False,
) -> StreamedSet:
    """Return the set ``name`` in COCO's layout; ``lower`` writes class labels in lower case.

    ``files`` are the places of its annotations in a folder, which may also be the first of them in
    ``archive``; ``pictures`` is the folder of its photos.
    """
    one_of("split", split, ("val", "train"))
    given = given_or_default(path, name)
    file, member = find_file(name, given, files, archive)
    folder = given if given.is_dir() else file.parent.parent if archive else file.parent
    beside = [folder / pictures, folder / "images" / pictures]
    least = whole("min_objects", min_objects, 1)
    photos = photos_in(images, beside, name)
    check_scene(scene, ("none", "objects"), photos, name)
    index = FileIndex(("images", "boxes"), [file], partial(_fill, file, member))
    # The photos' place is not what the set is: it may differ between machines.
    options = {"min_objects": least, "scene": scene, "photos": photos is not None}
    return StreamedSet(
        partial(_coco_items, file, index, photos, least, scene, lower),
        name=name,
        version=COCO_VERSION,
        options=options | ({"member": member} if member else {}),
        files=lambda: [(file.name, file)],
        unique=True,
    )


def _fill(file: Path, member: str | None, rows: RowStore) -> dict[int, Any]:
    """Store ``images`` and ``boxes`` by image id; return category id → name."""
    names: dict[int, Any] = {}
    keys = ("images", "annotations", "categories")
    for key, number, entry in sections(file, keys, member=member):
        place = f"{file}, {key}[{number}]"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is not a JSON object: take the file as it was published")
        if key == "categories":
            names[_id(entry, "id", place, int)] = entry.get("name")
        elif key == "images":
            kept = {k: entry.get(k) for k in ("file_name", "width", "height")}
            rows.add("images", _id(entry, "id", place), _WRITE(kept))
        else:
            image = _id(entry, "image_id", place)
            for box in _boxes_of(entry, place):
                row = [number, box.get("category_id"), box.get("bbox"), box.get("iscrowd", 0)]
                rows.add("boxes", image, _WRITE(row))
    return names


def _boxes_of(entry: dict[str, Any], place: str) -> list[dict[str, Any]]:
    """Return the boxes of an annotation: itself, or its segments."""
    found = entry.get("segments_info", [entry])
    if not isinstance(found, list) or not all(isinstance(box, dict) for box in found):
        raise DatasetError(f"{place}: segments_info must be a list of objects")
    return found


def _id(entry: dict[str, Any], key: str, place: str, kind: type = object) -> Any:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | str) or not isinstance(value, kind):
        raise DatasetError(f'{place}: "{key}" must be the number of an entry, found {value!r:.60}')
    return value


def _coco_items(
    file: Path,
    index: FileIndex[dict[int, Any]],
    photos: Photos | None,
    least: int,
    scene: str,
    lower: bool,
    left_out: Counter[str],
) -> Iterator[Item]:
    rows, raw_names = index.open()
    names = {
        number: label_of(name, f"{file}, category {number}", lower)
        for number, name in raw_names.items()
    }
    if (twice := rows.repeated("images")) is not None:
        raise DatasetError(
            f"{file}: images lists the id {twice!r} twice: results are kept by id, so "
            "take the file as it was published"
        )
    if lost := rows.without("boxes", "images"):
        left_out[LOST_IMAGE] += lost
    for key, text in rows.rows("images"):
        image = json.loads(text)
        place = f"{file}, image {key}"
        size = (
            number_of(image["width"], place, "width"),
            number_of(image["height"], place, "height"),
        )
        found = _detections(file, rows.texts("boxes", key), names, size, left_out)
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


OBJECTS365_NAME = "objects365"


def load_objects365(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "val",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """Return the photos of Objects365 with their boxes.

    Arguments and errors are those of :func:`load_coco`.

    ``images`` holds the patch folders, by default ``val`` or ``train`` beside the annotations.
    """
    name = f"zhiyuan_objv2_{split}.json"
    return open_layout(
        OBJECTS365_NAME,
        path,
        split,
        (name, f"annotations/{name}", f"{split}/{name}"),
        pictures=split,
        images=images,
        min_objects=min_objects,
        scene=scene,
        lower=True,
    )


NO_RELATIONS = "images without relations"
WITH_ITSELF = "relations of an object with itself"
UNKNOWN = "relations with a label that has no name"
IS = "is"
MADE_OF = "(made of)"

_Row = Sequence[Any]
_Key = tuple[str, tuple[float, ...]]


def scene_of_rows(
    rows: Sequence[_Row],
    classes: Mapping[str, str],
    attributes: Mapping[str, str],
    predicates: Mapping[str, str],
    place: str,
    left_out: Counter[str],
) -> SceneGraph | None:
    """Return the scene of ``rows`` (label, relation, label, eight sides of two boxes).

    None without any.

    Two rows speak of one object if label and box are the same.
    """
    objects: dict[_Key, dict[str, str]] = {}
    relations: list[tuple[_Key, str, _Key]] = []
    for one, words, other, *sides in rows:
        source = _key(one, sides[:4])
        target = _key(other, sides[4:])
        if one not in classes or (other not in classes and other not in attributes):
            left_out[UNKNOWN] += 1
        elif other in attributes and (words == IS or other not in classes):
            _add(objects.setdefault(source, {}), attributes[other])
        elif source == target:
            left_out[WITH_ITSELF] += 1
        else:
            objects.setdefault(source, {})
            objects.setdefault(target, {})
            text = predicates.get(words, words).replace("_", " ")
            relations.append((source, text, target))
    if not objects:
        return None
    named = numbered(classes[label] for label, _ in objects)
    ids = dict(zip(objects, named, strict=True))
    try:
        return build(
            [(ids[key], classes[key[0]], said) for key, said in objects.items()],
            [(ids[a], text, ids[b], place) for a, text, b in relations],
            place,
        )
    except FormatError as error:
        raise DatasetError(str(error)) from error


def _key(label: str, sides: Sequence[float]) -> _Key:
    return label, tuple(round(side, 6) for side in sides)


def _add(said: dict[str, str], word: str) -> None:
    """Add an attribute; a second one of a key is ``key 2``."""
    material = word.startswith(MADE_OF)
    value = word.removeprefix(MADE_OF).strip()
    key = "material" if material else key_of(value) or "attribute"
    if not value or value in said.values():
        return
    free, number = key, 2
    while free in said:
        free, number = f"{key} {number}", number + 1
    said[free] = value


OPEN_IMAGES_VERSION = 1
OPEN_IMAGES_NAME = "open-images"
OPEN_IMAGES_SPLITS = ("train", "validation", "test")
SCENES = ("none", "objects", "relations")
CLASSES = "class-descriptions-boxable.csv"
ATTRIBUTES = "attributes-description.csv"
PREDICATES = "relationships-description.csv"
_BOXES = ("ImageID", "LabelName", "XMin", "XMax", "YMin", "YMax")
_ENDS = ("XMin1", "XMax1", "YMin1", "YMax1", "XMin2", "XMax2", "YMin2", "YMax2")
_PREFIXES = ("oidv6-", "", "oidv7-")
_ENDINGS = ("jpg", "jpeg", "png")


def load_open_images(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str = "validation",
    min_objects: int = 3,
    scene: str = "none",
) -> StreamedSet:
    """Return photos with their boxes.

    With ``scene="relations"`` a scene of the related objects, with ``"objects"`` one of all of them
    without relations.

    ``path`` is the folder of CSV files, ``split`` names those that are read, ``images`` is the
    folder of photos (default: one with the split's name in ``path``). Raises ``DatasetError`` for
    files that are not there, and on iteration for rows that are not in this form.
    """
    one_of("split", split, OPEN_IMAGES_SPLITS)
    least = whole("min_objects", min_objects, 1)
    folder = given_or_default(path, OPEN_IMAGES_NAME)
    if not folder.is_dir():
        raise DatasetError(f"{folder} is not a folder: name that of Open Images' CSV files")
    photos = photos_in(images, (folder / split, folder / "images" / split), OPEN_IMAGES_NAME)
    check_scene(scene, SCENES, photos, OPEN_IMAGES_NAME)
    if photos is not None:
        photos = Photos([*photos.folders, *(place / split for place in photos.folders)])
    files = _Files.of(folder, split, scene == "relations")
    index = FileIndex(("boxes", "relations"), files.all(), files.fill)
    return StreamedSet(
        partial(_open_images_items, files.boxes, index, photos, least, scene),
        name=OPEN_IMAGES_NAME,
        version=OPEN_IMAGES_VERSION,
        options={
            "split": split,
            "min_objects": least,
            "scene": scene,
            "photos": photos is not None,
        },
        files=lambda: [(file.name, file) for file in files.all()],
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
            f"`scenewright data get {OPEN_IMAGES_NAME} --only …`"
        )
    return found


@dataclass(frozen=True, slots=True)
class Names:
    """Meaning of labels."""

    classes: Mapping[str, str]
    """Label → class, in lower case."""
    attributes: Mapping[str, str]
    """Label → attribute, in lower case, as published (``(made of)leather``)."""
    predicates: Mapping[str, str]
    """Label → words of a relation."""


@dataclass(frozen=True, slots=True)
class _Files:
    """CSV files of a split."""

    boxes: Path
    classes: Path
    relations: Path | None
    attributes: Path | None
    predicates: Path | None

    @classmethod
    def of(cls, folder: Path, split: str, relations: bool) -> Self:
        """Find the files in ``folder``, with those of relations if they are needed."""
        boxes, classes = _needed(folder, f"{split}-annotations-bbox.csv"), _needed(folder, CLASSES)
        if not relations:
            return cls(boxes, classes, None, None, None)
        linked = _needed(folder, f"{split}-annotations-vrd.csv")
        return cls(boxes, classes, linked, _needed(folder, ATTRIBUTES), _find(folder, PREDICATES))

    def all(self) -> list[Path]:
        """Return the files that exist."""
        found = (self.boxes, self.classes, self.relations, self.attributes, self.predicates)
        return [file for file in found if file is not None]

    def fill(self, rows: RowStore) -> Names:
        """Store ``boxes`` and ``relations`` by image; return the names of labels."""
        for place, row in rows_of(self.boxes, _BOXES):
            sides = [number_of(row[key], place, key) for key in _BOXES[2:]]
            kept = [row["LabelName"], *sides, row.get("IsGroupOf") == "1"]
            rows.add("boxes", row["ImageID"], _WRITE(kept))
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
                rows.add("relations", row["ImageID"], _WRITE(kept))
        return Names(_names(self.classes), _names(self.attributes), _names(self.predicates))


def _names(file: Path | None) -> dict[str, str]:
    """Return label → name, from two columns with or without a line of titles."""
    if file is None:
        return {}
    found: dict[str, str] = {}
    with opened(file) as text:
        for row in csv.reader(text):
            if len(row) < 2:
                continue
            found[row[0].strip()] = label_of(row[1], f"{file}, {row[0]}", lower=True)
    return found


def _open_images_items(
    file: Path,
    index: FileIndex[Names],
    photos: Photos | None,
    least: int,
    scene: str,
    left_out: Counter[str],
) -> Iterator[Item]:
    rows, names = index.open()
    for key in rows.keys("boxes"):
        place = f"{file}, image {key}"
        boxes = list(_boxes(rows.texts("boxes", key), names, place, left_out))
        if len(boxes) < least:
            left_out[too_few(least)] += 1
            continue
        photo = _photo(photos, str(key))
        if photo is None and scene == "none":
            left_out[NO_PHOTO] += 1
            continue
        graph: SceneGraph | None = None
        if scene == "relations":
            related = [json.loads(text) for text in rows.texts("relations", key)]
            graph = scene_of_rows(
                related, names.classes, names.attributes, names.predicates, place, left_out
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
    """Yield (class, box in shares of the image) of each single object."""
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
        return upright_size(photo)
    except ImageError as error:
        raise DatasetError(f"{error}: fetch it again") from error
