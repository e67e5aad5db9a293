"""Scene graphs in the MegaSG style (Scene-Bench, Sec. 3.2, Algorithm 1, appendix A).

A JSON list, JSON Lines or one entry, also in ``.gz`` or ``.zip``; an entry is::

    {"image_id": "000000391895", "file_name": "000000391895.jpg", "width": 640, "height": 480,
     "objects": ["person.2:[116, 49, 309, 491]", "sports ball.1:[312, 360, 370, 417]"],
     "relationships": [{"source": "person.2", "target": "sports ball.1", "relation": "kicking"}],
     "level 1": "People-Centric", "level 2": "Sports & Recreation"}

Boxes are (xmin, ymin, xmax, ymax) in pixels, after an object's id or in ``"boxes"`` (id → box, or a
list beside ``objects``). Ids of ``relationships`` may carry their box as well. The two levels of
diversity become group and category. ``attributes`` and ``caption`` are read where they stand.

The graphs are a language model's: relations of an object with itself or with one that is not
listed, and repeated ones, are left out and counted, as are entries with too few objects.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.core.formats import megasg
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import MAX_OBJECTS, SceneError, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item
from scenewright.evals.datasets.detections import (
    NO_AREA,
    NO_PHOTO,
    TOO_MANY,
    Photos,
    clipped,
    number_of,
    photos_in,
    too_few,
)
from scenewright.evals.datasets.json_stream import values
from scenewright.evals.datasets.reading import whole
from scenewright.evals.datasets.sources import given_or_default
from scenewright.evals.datasets.stream import StreamedSet, make_item

VERSION = 1
NAME = "megasg"
FILES = ("graphs.jsonl", "graphs.json", "megasg.jsonl", "megasg.json")
WITH_ITSELF = "relations of an object with itself"
NOT_LISTED = "relations with an object that is not listed"
REPEATED = "relations that repeat an earlier one"
EMPTY = "entries without objects"
_BOXED = re.compile(r"(?P<id>.+?)\s*:\s*\[(?P<box>[^\]]*)\]", re.DOTALL)
_IDS = ("id", "image_id", "file_name", "image")
_PHOTOS = ("file_name", "image", "image_id")
_PLACE = "photo"
_LEVELS = (
    ("level 1", "level_1", "level1", "theme", "group"),
    ("level 2", "level_2", "level2", "category"),
)
_READ = frozenset(
    {*_IDS, *_PHOTOS, *_LEVELS[0], *_LEVELS[1], "objects", "boxes", "relationships", "attributes"}
) | {"caption", "prompt", _PLACE}


def load(
    path: Path | None = None,
    *,
    images: str | None = None,
    split: str | None = None,
    min_objects: int = 1,
    photos_only: bool = False,
) -> StreamedSet:
    """The graphs of a file; of a folder, ``SPLIT.jsonl`` in it or the first of :data:`FILES`.

    ``images`` is the folder of photos, by default ``images`` beside the file; without one the file
    that an entry calls ``photo`` (as ``scenewright data annotate`` writes it) is taken where it is
    there. With ``photos_only`` entries whose photo is not there are left out. Raises
    ``DatasetError`` for files that are not there, and on iteration for entries that are not in
    this form.
    """
    least = whole("min_objects", min_objects, 1)
    file = _file(given_or_default(path, NAME), split)
    photos = photos_in(images, (file.parent / "images",), NAME)
    return StreamedSet(
        partial(_entries, file, photos, least, photos_only),
        name=NAME,
        version=VERSION,
        options={"min_objects": least, "photos_only": photos_only, "photos": photos is not None},
        files=lambda: [(file.name, file)],
    )


def _file(path: Path, split: str | None) -> Path:
    if path.is_file():
        if split is not None:
            raise DatasetError(f"{NAME}: a split is a file of a folder, and {path} is no folder")
        return path
    names = FILES if split is None else (f"{split}.jsonl", f"{split}.json")
    for name in names:
        for ending in ("", ".gz"):
            if (path / (name + ending)).is_file():
                return path / (name + ending)
    raise DatasetError(f"{path} holds none of {', '.join(names)}: name the file of graphs")


def _entries(
    file: Path, photos: Photos | None, least: int, photos_only: bool, left_out: Counter[str]
) -> Iterator[Item]:
    for number, entry in values(file):
        place = f"{file}, entry {number}"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is no JSON object: write one object for each image")
        id_ = next((str(entry[key]) for key in _IDS if entry.get(key) not in (None, "")), None)
        if id_ is None:
            raise DatasetError(f'{place}: "image_id" is missing: results are kept by it')
        boxes = dict(_boxes(entry, place))
        scene = _scene(entry, place, left_out)
        if scene is None or len(scene.objects) < least:
            left_out[EMPTY if scene is None else too_few(least)] += 1
            continue
        photo = _photo(entry, photos)
        if photos_only and photo is None:
            left_out[NO_PHOTO] += 1
            continue
        yield make_item(
            place,
            id=id_,
            scene=scene,
            prompt=_text(entry, ("caption", "prompt"), place),
            image=None if photo is None else str(photo),
            detections=tuple(_detections(scene, boxes, entry, place, left_out)),
            group=_text(entry, _LEVELS[0], place),
            category=_text(entry, _LEVELS[1], place),
            meta={
                key: str(value)
                for key, value in entry.items()
                if key not in _READ - {"file_name"} and isinstance(value, str | int | float)
            },
        )


def _text(entry: Mapping[str, Any], keys: tuple[str, ...], place: str) -> str:
    for key in keys:
        value = entry.get(key)
        if value is None:
            continue
        if not isinstance(value, str):
            raise DatasetError(f'{place}: "{key}" must be text, found {value!r:.60}')
        return value.strip()
    return ""


def _photo(entry: Mapping[str, Any], photos: Photos | None) -> Path | None:
    if photos is None:
        place = entry.get(_PLACE)
        return Path(place) if isinstance(place, str) and Path(place).is_file() else None
    for key in _PHOTOS:
        value = entry.get(key)
        if isinstance(value, str | int) and not isinstance(value, bool):
            names = (str(value), *(f"{value}.{ending}" for ending in ("jpg", "png")))
            found = next((file for name in names if (file := photos.find(name))), None)
            if found is not None:
                return found
    return None


def _bare(value: Any) -> Any:
    """An id without its box; anything that is no text stays, for the format's own error."""
    if not isinstance(value, str):
        return value
    match = _BOXED.fullmatch(value.strip())
    return " ".join((match["id"] if match else value).split())


def _scene(entry: Mapping[str, Any], place: str, left_out: Counter[str]) -> SceneGraph | None:
    listed = entry.get("objects")
    rows = entry.get("relationships", [])
    kept: list[Any] = rows
    if isinstance(rows, list):
        known = None
        if isinstance(listed, list):
            known = {_bare(value) for value in listed if isinstance(value, str)}
        kept = list(_relations(rows, known, left_out))
    if not listed and not kept:
        return None
    if isinstance(listed, list) and len(listed) > MAX_OBJECTS:
        left_out[TOO_MANY] += 1
        return None
    data = {key: entry[key] for key in ("attributes",) if entry.get(key) is not None}
    if listed is not None:
        data["objects"] = [_bare(value) for value in listed] if isinstance(listed, list) else listed
    try:
        return megasg.read({**data, "relationships": kept}, place)
    except SceneError as error:
        raise DatasetError(str(error)) from error


def _relations(
    rows: list[Any], known: set[Any] | None, left_out: Counter[str]
) -> Iterator[dict[str, Any] | Any]:
    seen: set[tuple[str, str, str]] = set()
    for row in rows:
        if not isinstance(row, dict):
            yield row
            continue
        bare = {**row, **{end: _bare(row[end]) for end in ("source", "target") if end in row}}
        source, target, words = (bare.get(key) for key in ("source", "target", "relation"))
        if not all(isinstance(part, str) and part for part in (source, target, words)):
            yield bare
        elif source == target:
            left_out[WITH_ITSELF] += 1
        elif known is not None and not {source, target} <= known:
            left_out[NOT_LISTED] += 1
        elif (source, " ".join(str(words).split()), target) in seen:
            left_out[REPEATED] += 1
        else:
            seen.add((str(source), " ".join(str(words).split()), str(target)))
            yield bare


def _boxes(entry: Mapping[str, Any], place: str) -> Iterator[tuple[str, Any]]:
    """Ids with their boxes, wherever those stand; of two, the last counts."""
    listed = entry.get("objects")
    objects = listed if isinstance(listed, list) else []
    for value in objects:
        match = _BOXED.fullmatch(value.strip()) if isinstance(value, str) else None
        if match is not None:
            yield str(_bare(value)), match["box"].split(",")
    given = entry.get("boxes")
    if isinstance(given, dict):
        yield from ((str(_bare(key)), box) for key, box in given.items())
    elif isinstance(given, list):
        if len(given) != len(objects):
            raise DatasetError(
                f"{place}: {len(given)} boxes for {len(objects)} objects: give each its own"
            )
        yield from ((str(_bare(key)), box) for key, box in zip(objects, given, strict=True))
    elif given is not None:
        raise DatasetError(f"{place}: boxes must be a list or an object, found {given!r:.60}")


def _detections(
    scene: SceneGraph,
    boxes: Mapping[str, Any],
    entry: Mapping[str, Any],
    place: str,
    left_out: Counter[str],
) -> Iterator[Detection]:
    size = tuple(
        number_of(entry[key], place, key) if entry.get(key) is not None else float("inf")
        for key in ("width", "height")
    )
    for item in scene.objects:
        box = boxes.get(item.id)
        if box is None:
            continue
        if not isinstance(box, list) or len(box) != 4:
            raise DatasetError(
                f"{place}, {item.id}: a box is [xmin, ymin, xmax, ymax], found {box!r:.60}"
            )
        where = f"{place}, {item.id}"
        left, top, right, bottom = (
            number_of(side.strip() if isinstance(side, str) else side, where, "a side of the box")
            for side in box
        )
        inside = clipped((left, top, right, bottom), (size[0], size[1]))
        if inside is None:
            left_out[NO_AREA] += 1
        else:
            yield Detection(item.name, inside)
