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
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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
from scenewright.evals.datasets.json_stream import FileIndex, RowStore, sections
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

VERSION = 1
LOST_IMAGE = "boxes of an image that is not in the list"
NO_RELATIONS = "images without relations"
WITH_ITSELF = "relations of an object with itself"
UNKNOWN = "relations with a label that has no name"
_WRITE = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class _Image:
    """An image of a detection set before its photo is looked for."""

    id: str
    place: str
    boxes: Sequence[tuple[str, Box]]
    """(class, box) of each single object, in pixels, or in shares of the image."""
    photos: Sequence[str]
    """Names that its photo may have."""
    size: tuple[float, float] | None = None
    """(width, height) in pixels; None: boxes are in shares of the photo's size."""
    meta: Mapping[str, str] | None = None
    related: Callable[[], SceneGraph | None] = lambda: None
    """Gives the scene of its relations; None if it has none."""


Images = Callable[[Counter[str]], Iterator[_Image]]
"""Reads the images of a set; counts in the counter what it leaves out."""


def _photo_set(
    name: str,
    images: Images,
    files: Sequence[Path],
    photos: Photos | None,
    *,
    least: int,
    scene: str,
    **options: Any,
) -> StreamedSet:
    """Return the set ``name`` of ``images``, whose annotations are in ``files``."""
    # The photos' place is not what the set is: it may differ between machines.
    options |= {"min_objects": least, "scene": scene, "photos": photos is not None}
    return StreamedSet(
        partial(_items, images, photos, least, scene),
        name=name,
        version=VERSION,
        options=options,
        files=lambda: [(file.name, file) for file in files],
        unique=True,
    )


def _items(
    images: Images, photos: Photos | None, least: int, scene: str, left_out: Counter[str]
) -> Iterator[Item]:
    for image in images(left_out):
        if len(image.boxes) < least:
            left_out[too_few(least)] += 1
            continue
        named = () if photos is None else map(photos.find, image.photos)
        photo = next(filter(None, named), None)
        if photo is None and scene == "none":
            left_out[NO_PHOTO] += 1
            continue
        graph: SceneGraph | None = None
        if scene == "relations":
            graph = image.related()
            if graph is None:
                left_out[NO_RELATIONS] += 1
                continue
        elif scene == "objects":
            if len(image.boxes) > MAX_OBJECTS:
                left_out[TOO_MANY] += 1
                continue
            graph = scene_of(name for name, _ in image.boxes)
        size = image.size
        detections = [Detection(*box) for box in image.boxes] if size is not None else []
        if size is None and photo is not None:
            size = width, height = _photo_size(photo)
            detections = [
                Detection(name, (a * width, b * height, c * width, d * height))
                for name, (a, b, c, d) in image.boxes
            ]
        sides = {} if size is None else {"width": f"{size[0]:g}", "height": f"{size[1]:g}"}
        yield make_item(
            image.place,
            id=image.id,
            scene=graph,
            image=None if photo is None else str(photo),
            detections=tuple(detections),
            meta={**(image.meta or {}), **sides},
        )


def _photo_size(photo: Path) -> tuple[int, int]:
    try:
        return upright_size(photo)
    except ImageError as error:
        raise DatasetError(f"{error}: fetch it again") from error


def _inside(
    boxes: Iterator[tuple[str, Box] | None], size: tuple[float, float], left_out: Counter[str]
) -> list[tuple[str, Box]]:
    """Return the boxes cut at the edges of an image of ``size``; None stands for a crowd."""
    found = []
    for box in boxes:
        inside = None if box is None else clipped(box[1], size)
        if box is None or inside is None:
            left_out[CROWD if box is None else NO_AREA] += 1
        else:
            found.append((box[0], inside))
    return found


COCO_NAME = "coco"
ARCHIVE = "annotations_trainval2017.zip"


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
    names = (f"annotations/instances_{split}2017.json", f"instances_{split}2017.json")
    return _coco_layout(
        COCO_NAME, path, split, names, f"{split}2017", images, min_objects, scene, archive=ARCHIVE
    )


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
    names = (name, f"annotations/{name}", f"{split}/{name}")
    return _coco_layout(
        OBJECTS365_NAME, path, split, names, split, images, min_objects, scene, lower=True
    )


def _coco_layout(
    name: str,
    path: Path | None,
    split: str,
    names: Sequence[str],
    pictures: str,
    images: str | None,
    min_objects: int,
    scene: str,
    *,
    archive: str = "",
    lower: bool = False,
) -> StreamedSet:
    """Return the set ``name`` in COCO's layout; ``lower`` writes class labels in lower case.

    The annotations are the file ``path``, or the first of ``names`` in the folder ``path``, or the
    first of them in its ``archive``; ``pictures`` is the folder of its photos.
    """
    one_of("split", split, ("val", "train"))
    given = given_or_default(path, name)
    places = [given] if given.is_file() else [given / below for below in (*names, archive) if below]
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        raise DatasetError(
            f"{given} has no {names[0]}: name the file, or fetch it with "
            f"`scenewright data get {name}`"
        )
    member = names[0] if file.name == archive else None
    folder = given if given.is_dir() else file.parent.parent if archive else file.parent
    least = whole("min_objects", min_objects, 1)
    photos = photos_in(images, [folder / pictures, folder / "images" / pictures], name)
    check_scene(scene, ("none", "objects"), photos, name)
    index = FileIndex(("images", "boxes"), [file], partial(_fill_coco, file, member))
    return _photo_set(
        name,
        partial(_coco_images, file, index, lower),
        [file],
        photos,
        least=least,
        scene=scene,
        **({"member": member} if member else {}),
    )


def _fill_coco(file: Path, member: str | None, rows: RowStore) -> dict[int, Any]:
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
            kept = [entry.get(k) for k in ("file_name", "width", "height")]
            rows.add("images", _id(entry, "id", place), _WRITE(kept))
        else:
            image = _id(entry, "image_id", place)
            boxes = entry.get("segments_info", [entry])
            if not isinstance(boxes, list) or not all(isinstance(box, dict) for box in boxes):
                raise DatasetError(f"{place}: segments_info must be a list of objects")
            for box in boxes:
                row = [number, box.get("category_id"), box.get("bbox"), box.get("iscrowd", 0)]
                rows.add("boxes", image, _WRITE(row))
    return names


def _id(entry: dict[str, Any], key: str, place: str, kind: type = object) -> Any:
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, int | str) or not isinstance(value, kind):
        raise DatasetError(f'{place}: "{key}" must be the number of an entry, found {value!r:.60}')
    return value


def _coco_images(
    file: Path, index: FileIndex[dict[int, Any]], lower: bool, left_out: Counter[str]
) -> Iterator[_Image]:
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
        name, *sides = json.loads(text)
        place = f"{file}, image {key}"
        width, height = map(number_of, sides, (place, place), ("width", "height"))
        boxes = (_coco_box(file, names, *json.loads(row)) for row in rows.texts("boxes", key))
        name = name if isinstance(name, str) else ""
        yield _Image(
            str(key),
            place,
            _inside(boxes, (width, height), left_out),
            [name],
            (width, height),
            {"file_name": name},
        )


def _coco_box(
    file: Path, names: dict[int, str], number: int, category: Any, box: Any, crowd: Any
) -> tuple[str, Box] | None:
    """Return the class and (xmin, ymin, xmax, ymax) of an annotation; None for a crowd."""
    place = f"{file}, annotations[{number}]"
    if crowd:
        return None
    if not isinstance(category, int) or category not in names:
        raise DatasetError(f"{place}: there is no category {category!r} in categories")
    if not isinstance(box, list) or len(box) != 4:
        raise DatasetError(f"{place}: bbox must be [x, y, width, height], found {box!r:.60}")
    x, y, width, height = (number_of(side, place, "a side of bbox") for side in box)
    return names[category], (x, y, x + width, y + height)


OPEN_IMAGES_NAME = "open-images"
OPEN_IMAGES_SPLITS = ("train", "validation", "test")
SCENES = ("none", "objects", "relations")
CLASSES = "class-descriptions-boxable.csv"
ATTRIBUTES = "attributes-description.csv"
PREDICATES = "relationships-description.csv"
IS = "is"
MADE_OF = "(made of)"
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
    boxes = _needed(folder, f"{split}-annotations-bbox.csv")
    files: list[Path | None] = [_needed(folder, CLASSES), None, None, None]
    if scene == "relations":
        files[1] = _needed(folder, f"{split}-annotations-vrd.csv")
        files[2:] = _needed(folder, ATTRIBUTES), _find(folder, PREDICATES)
    there = [boxes, *(file for file in files if file is not None)]
    index = FileIndex(("boxes", "relations"), there, partial(_fill_open_images, boxes, files))
    read = partial(_open_images, boxes, index)
    return _photo_set(OPEN_IMAGES_NAME, read, there, photos, least=least, scene=scene, split=split)


def _find(folder: Path, name: str) -> Path | None:
    places = (folder / f"{p}{name}{ending}" for p in _PREFIXES for ending in ("", ".gz"))
    return next((file for file in places if file.is_file()), None)


def _needed(folder: Path, name: str) -> Path:
    if found := _find(folder, name):
        return found
    raise DatasetError(
        f"{folder} has no {name} (also oidv6-{name}): fetch it with "
        f"`scenewright data get {OPEN_IMAGES_NAME} --only …`"
    )


Labels = tuple[dict[str, str], dict[str, str], dict[str, str]]
"""Label → name of classes and attributes, in lower case, and of predicates."""


def _fill_open_images(
    boxes: Path,
    others: Sequence[Path | None],
    rows: RowStore,
) -> Labels:
    """Store ``boxes`` and ``relations`` by image; return the names of labels.

    ``others`` are the files of classes, relations, attributes and predicates.
    """
    classes, relations, attributes, predicates = others
    for place, row in rows_of(boxes, _BOXES):
        sides = [number_of(row[key], place, key) for key in _BOXES[2:]]
        kept = [row["LabelName"], *sides, row.get("IsGroupOf") == "1"]
        rows.add("boxes", row["ImageID"], _WRITE(kept))
    if relations is not None:
        for place, row in rows_of(relations, ("ImageID", "LabelName1", "LabelName2")):
            words = row.get("RelationshipLabel", row.get("RelationLabel"))
            if words is None or not set(_ENDS) <= row.keys():
                raise DatasetError(
                    f"{relations} lacks a column of RelationshipLabel, "
                    f"{', '.join(_ENDS)}: take the file as it was published"
                )
            sides = [number_of(row[key], place, key) for key in _ENDS]
            kept = [row["LabelName1"], words, row["LabelName2"], *sides]
            rows.add("relations", row["ImageID"], _WRITE(kept))
    return _names(classes), _names(attributes), _names(predicates)


def _names(file: Path | None) -> dict[str, str]:
    """Return label → name, from two columns with or without a line of titles."""
    if file is None:
        return {}
    with opened(file) as text:
        return {
            row[0].strip(): label_of(row[1], f"{file}, {row[0]}", lower=True)
            for row in csv.reader(text)
            if len(row) > 1
        }


def _open_images(file: Path, index: FileIndex[Labels], left_out: Counter[str]) -> Iterator[_Image]:
    rows, names = index.open()

    def boxes(key: Any, place: str) -> Iterator[tuple[str, Box] | None]:
        for text in rows.texts("boxes", key):
            label, left, right, top, bottom, group = json.loads(text)
            if not group and label not in names[0]:
                raise DatasetError(f"{place}: {CLASSES} has no label {label!r}: fetch both anew")
            yield None if group else (names[0][label], (left, top, right, bottom))

    def related(key: Any, place: str) -> SceneGraph | None:
        found = [json.loads(text) for text in rows.texts("relations", key)]
        return scene_of_rows(found, *names, place, left_out)

    for key in rows.keys("boxes"):
        place = f"{file}, image {key}"
        yield _Image(
            str(key),
            place,
            _inside(boxes(key, place), (1.0, 1.0), left_out),
            [f"{key}.{ending}" for ending in _ENDINGS],
            related=partial(related, key, place),
        )


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
