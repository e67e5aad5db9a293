"""Visual Genome's files (Krishna et al., 2017), image by image.

``objects.json``, ``relationships.json``, ``attributes.json`` and ``image_data.json`` are lists with
one entry an image; ``scene_graphs.json`` holds the first three in one. They are joined by
``image_id`` as they stream: as long as two files agree in their order nothing is kept; from the
first difference on the rest of the second waits on the disk.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.detections import number_of
from scenewright.evals.datasets.json_stream import elements
from scenewright.evals.datasets.row_store import RowStore


@dataclass(frozen=True, slots=True)
class VgObject:
    """One object as annotated."""

    id: int
    """Its number, over all images."""
    names: tuple[str, ...]
    """What annotators call it; may be empty."""
    box: tuple[float, float, float, float]
    """(x, y, width, height) in pixels."""
    attributes: tuple[str, ...] = ()
    """Bare words, such as ``brown``."""
    merged: tuple[int, ...] = ()
    """Numbers of the same object that it replaces."""


@dataclass(frozen=True, slots=True)
class VgRelation:
    """One relationship as annotated."""

    subject: int
    """Number of an object."""
    predicate: str
    """As written, in any case; may be empty."""
    target: int
    """Number of an object."""


@dataclass(frozen=True, slots=True)
class VgImage:
    """What the files say of one image."""

    id: int
    """Its number."""
    objects: tuple[VgObject, ...]
    """In the order of the file."""
    relations: tuple[VgRelation, ...]
    """In the order of the file; empty if they were not read."""
    size: tuple[float, float] | None
    """(width, height) in pixels; none without ``image_data.json``."""


class VgFiles:
    """The files of a folder, or one file of scene graphs."""

    def __init__(self, path: Path) -> None:
        """Raises ``DatasetError`` where the files are not there."""
        folder = path if path.is_dir() else path.parent
        self.graphs = path if path.is_file() else None
        self.objects = None if self.graphs else find(folder, "objects")
        self.relations = None if self.graphs else find(folder, "relationships")
        self.attributes = None if self.graphs else find(folder, "attributes")
        self.sizes = find(folder, "image_data")
        if self.graphs is None and (self.objects is None or self.relations is None):
            self.graphs = find(folder, "scene_graphs")
        if self.graphs is None and (self.objects is None or self.relations is None):
            lost = "objects.json" if self.objects is None else "relationships.json"
            raise DatasetError(
                f"{folder} has no {lost} and no scene_graphs.json (also .json.zip or .json.gz): "
                "fetch them with `scenewright data get visual-genome`"
            )

    def paths(self) -> list[Path]:
        """All files that are read."""
        mine: Sequence[Path | None]
        if self.graphs is not None:
            mine = (self.graphs, self.sizes)
        else:
            mine = (self.objects, self.relations, self.attributes, self.sizes)
        return [path for path in mine if path is not None]

    def images(self, *, relations: bool = True, attributes: bool = False) -> Iterator[VgImage]:
        """The images in the order of the file of objects. Raises ``DatasetError`` for what is not
        in the published form, and for attributes that no file holds."""
        sizes = _joined(self.sizes)
        if self.graphs is not None:
            for place, image, entry in _entries(self.graphs):
                yield _image(place, image, entry, entry, None, sizes)
            return
        if attributes and self.attributes is None:
            raise DatasetError(
                f"{self.objects}: there is no attributes.json beside it: fetch it with "
                "`scenewright data get visual-genome`"
            )
        assert self.objects is not None
        links = _joined(self.relations if relations else None)
        words = _joined(self.attributes if attributes else None)
        for place, image, entry in _entries(self.objects):
            yield _image(place, image, entry, links.take(image), words.take(image), sizes)


def find(folder: Path, stem: str) -> Path | None:
    """``stem.json`` in ``folder``, packed or not, or with a version (``objects_v1_2.json``)."""
    for ending in (".json", ".json.zip", ".json.gz"):
        if (folder / (stem + ending)).is_file():
            return folder / (stem + ending)
        versions = sorted(folder.glob(f"{stem}_v[0-9]*{ending}"))
        if versions:
            return versions[-1]
    return None


def _entries(file: Path) -> Iterator[tuple[str, int, dict[str, Any]]]:
    for number, entry in elements(file):
        place = f"{file}, entry {number}"
        if not isinstance(entry, dict):
            raise DatasetError(f"{place} is no JSON object: take the file as it was published")
        image = entry.get("image_id", entry.get("id"))
        if isinstance(image, bool) or not isinstance(image, int):
            raise DatasetError(f'{place}: "image_id" must be a number, found {image!r:.60}')
        yield f"{file}, image {image}", image, entry


class JoinedById:
    """The entries of a second file for the images of a first."""

    def __init__(self, entries: Iterator[tuple[str, int, dict[str, Any]]]) -> None:
        """Reads nothing."""
        self._entries = entries
        self._shelf: RowStore | None = None

    def take(self, image: int) -> dict[str, Any] | None:
        """The entry of ``image``; none if the file has none. Each is asked for once.

        Raises ``DatasetError`` if the file has two.
        """
        if self._shelf is None:
            head = next(self._entries, None)
            if head is None or head[1] == image:
                return None if head is None else head[2]
            self._shelf = RowStore(("entries",))
            self._shelf.add("entries", head[1], json.dumps(head[2]))
            for _, other, entry in self._entries:
                self._shelf.add("entries", other, json.dumps(entry))
            self._shelf.finish()
        found = self._shelf.texts("entries", image)
        if len(found) > 1:
            raise DatasetError(f"image {image} has {len(found)} entries in one file: keep one")
        return json.loads(found[0]) if found else None


def _joined(file: Path | None) -> JoinedById:
    return JoinedById(iter(()) if file is None else _entries(file))


def _image(
    place: str,
    image: int,
    entry: dict[str, Any],
    links: dict[str, Any] | None,
    words: dict[str, Any] | None,
    sizes: JoinedById,
) -> VgImage:
    said: dict[int, tuple[str, ...]] = {}
    for row in _rows(words or {}, "attributes", place):
        key = _number(row.get("object_id"), f"{place}, attributes")
        said[key] = said.get(key, ()) + _texts(row.get("attributes"), f"{place}, attributes")
    objects = tuple(_object(row, said, place) for row in _rows(entry, "objects", place))
    relations = tuple(_relation(row, place) for row in _rows(links or {}, "relationships", place))
    about = sizes.take(image)
    size = None
    if about is not None:
        size = (
            number_of(about.get("width"), place, "width"),
            number_of(about.get("height"), place, "height"),
        )
    return VgImage(image, objects, relations, size)


def _rows(entry: dict[str, Any], key: str, place: str) -> list[dict[str, Any]]:
    rows = entry.get(key, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise DatasetError(f'{place}: "{key}" must be a list of objects')
    return rows


def _object(row: dict[str, Any], said: dict[int, tuple[str, ...]], place: str) -> VgObject:
    number = _number(row.get("object_id"), f"{place}, objects")
    where = f"{place}, object {number}"
    names = _texts(row.get("names", [row["name"]] if "name" in row else []), where)
    x, y, width, height = (number_of(row.get(side), where, side) for side in "xywh")
    merged = row.get("merged_object_ids") or []
    if not isinstance(merged, list):
        raise DatasetError(f"{where}: merged_object_ids must be a list of numbers")
    return VgObject(
        number,
        names,
        (x, y, width, height),
        _texts(row.get("attributes"), where) + said.get(number, ()),
        tuple(_number(other, f"{where}, merged_object_ids") for other in merged),
    )


def _relation(row: dict[str, Any], place: str) -> VgRelation:
    ends = []
    for end, key in (("subject", "subject_id"), ("object", "object_id")):
        inner = row.get(end)
        value = inner.get("object_id") if isinstance(inner, dict) else row.get(key)
        ends.append(_number(value, f"{place}, relationships, {end}"))
    predicate = row.get("predicate", "")
    if not isinstance(predicate, str):
        raise DatasetError(f"{place}, relationships: a predicate must be text")
    return VgRelation(ends[0], predicate, ends[1])


def _number(value: Any, place: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DatasetError(f"{place}: the number of an object is needed, found {value!r:.60}")
    return value


def _texts(value: Any, place: str) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise DatasetError(f"{place}: a list of words is needed, found {value!r:.60}")
    return tuple(value)
