"""Visual Genome's files, image by image, and SG2Im's preparation of them.

``objects.json``, ``relationships.json``, ``attributes.json`` and ``image_data.json`` (Krishna et
al., 2017) are lists with one entry an image; ``scene_graphs.json`` holds the first three in one.
They are joined by ``image_id`` as they stream: as long as two files agree in their order nothing is
kept; from the first difference on the rest of the second is stored on disk.

SG2Im's published script (Johnson et al., 2018), which the paper's VG split uses: images with a side
under 200 pixels leave their split; names are mapped by alias files; classes seen at least 2,000
times and attributes as often in the training split, and predicates seen at least 500 times between
kept objects, form the vocabulary; objects whose box has a side under 32 pixels are dropped; images
with 3–30 objects and 1–30 relationships are kept. One habit of the script decides which images
remain: it writes predicates in lower case and maps their aliases while it counts the training
split, and looks up the other splits' predicates as annotators wrote them, so that ``ON`` is not
``on`` there. ``predicates="published"`` does the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.json_stream import RowStore, elements, sections
from scenewright.evals.datasets.reading import lines_of, number_of, opened, parsed


@dataclass(frozen=True, slots=True)
class VgObject:
    """One object as annotated."""

    id: int
    """Its number, over all images."""
    names: tuple[str, ...]
    """Names by annotators; may be empty."""
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
    """The annotations of one image."""

    id: int
    objects: tuple[VgObject, ...]
    """In the order of the file."""
    relations: tuple[VgRelation, ...]
    """In the order of the file; empty if they were not read."""
    size: tuple[float, float] | None
    """(width, height) in pixels; None without ``image_data.json``."""


class VgFiles:
    """The files of a folder, or one file of scene graphs."""

    def __init__(self, path: Path) -> None:
        """Find the files at ``path``. Raises ``DatasetError`` where they are missing."""
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
        """Return all files that are read."""
        mine: Sequence[Path | None]
        if self.graphs is not None:
            mine = (self.graphs, self.sizes)
        else:
            mine = (self.objects, self.relations, self.attributes, self.sizes)
        return [path for path in mine if path is not None]

    def images(self, *, relations: bool = True, attributes: bool = False) -> Iterator[VgImage]:
        """Yield the images in the order of the file of objects.

        Raises ``DatasetError`` for what is not in the published form, and for attributes that no
        file holds.
        """
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
    """Return ``stem.json`` in ``folder``, packed, or with a version (``objects_v1_2.json``)."""
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
            raise DatasetError(f"{place} is not a JSON object: take the file as it was published")
        image = entry.get("image_id", entry.get("id"))
        if isinstance(image, bool) or not isinstance(image, int):
            raise DatasetError(f'{place}: "image_id" must be a number, found {image!r:.60}')
        yield f"{file}, image {image}", image, entry


class JoinedById:
    """The entries of a second file for the images of a first."""

    def __init__(self, entries: Iterator[tuple[str, int, dict[str, Any]]]) -> None:
        """Remember the entries; they are read on demand."""
        self._entries = entries
        self._shelf: RowStore | None = None

    def take(self, image: int) -> dict[str, Any] | None:
        """Return the entry of ``image``; None if the file has none. Take each only once.

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


SPLITS = ("train", "val", "test")
TRAIN = "train"
_DUMMIES = frozenset({"__image__", "__in_image__"})

FEW_OBJECTS = "images with too few objects"
MANY_OBJECTS = "images with too many objects"
FEW_RELATIONS = "images with too few relationships"
MANY_RELATIONS = "images with too many relationships"
SMALL = "images that are too small"


class Rules(BaseModel):
    """Rules of the preparation; the defaults are SG2Im's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    min_image_size: int = Field(default=200, ge=0)
    """Least shorter side of an image, in pixels."""
    min_object_instances: int = Field(default=2000, ge=1)
    """Least occurrences of a class in the training split."""
    min_relationship_instances: int = Field(default=500, ge=1)
    """Least occurrences of a predicate in it, between kept objects."""
    min_attribute_instances: int = Field(default=2000, ge=1)
    """Least occurrences of an attribute in it."""
    min_object_size: float = Field(default=32, ge=0)
    """Least side of a box, in pixels."""
    min_objects: int = Field(default=3, ge=1)
    """Least kept objects of an image."""
    max_objects: int = Field(default=30, ge=1)
    """Most kept objects of an image."""
    min_relationships: int = Field(default=1, ge=0)
    """Least kept relationships of an image."""
    max_relationships: int = Field(default=30, ge=0)
    """Most kept relationships of an image."""
    max_attributes: int = Field(default=30, ge=0)
    """Most attributes of an object."""
    predicates: Literal["published", "normalised"] = "published"
    """``published``: outside the training split as annotators wrote them; ``normalised``: in lower
    case and with aliases everywhere."""


@dataclass(frozen=True, slots=True)
class Aliases:
    """Names that mean the same."""

    objects: Mapping[str, str]
    """Name → canonical name."""
    predicates: Mapping[str, str]
    """Name → canonical name."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names that are kept."""

    objects: Collection[str]
    predicates: Collection[str]
    attributes: Collection[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """One image after the preparation."""

    objects: tuple[tuple[VgObject, str], ...]
    """Objects with their class."""
    relations: tuple[VgRelation, ...]
    """Relationships between them, in the vocabulary's words."""


def load_splits(path: Path) -> dict[str, frozenset[int]]:
    """Return split → numbers of its images, from ``vg_splits.json``.

    Raises ``DatasetError`` for another form, or an image in two splits.
    """
    found: dict[str, set[int]] = {split: set() for split in SPLITS}
    for split, number, image in sections(path, SPLITS):
        if isinstance(image, bool) or not isinstance(image, int):
            raise DatasetError(f"{path}, {split}[{number}]: expected the number of an image")
        found[split].add(image)
    for one, other in (("train", "val"), ("train", "test"), ("val", "test")):
        if both := found[one] & found[other]:
            raise DatasetError(f"{path}: image {min(both)} is in {one} and in {other}: keep one")
    return {split: frozenset(images) for split, images in found.items()}


def load_alias_file(path: Path) -> dict[str, str]:
    """Return name → canonical name: the first of its line (``man,a man,men``)."""
    found: dict[str, str] = {}
    for _, line in lines_of(path):
        names = [name.strip() for name in line.split(",")]
        found.update(dict.fromkeys(names, names[0]))
    return found


def load_vocabulary(path: Path) -> Vocabulary:
    """Return the vocabulary of a ``vocab.json`` that SG2Im's script wrote.

    Its dummies are left out.
    """
    with opened(path) as file:
        data = parsed(file.read(), str(path))
    if not isinstance(data, dict):
        raise DatasetError(f"{path} is not a JSON object: name a vocab.json of SG2Im's script")
    lists = []
    for key in ("object_idx_to_name", "pred_idx_to_name", "attribute_idx_to_name"):
        names = data.get(key, [] if key.startswith("attribute") else None)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DatasetError(f'{path}: "{key}" must be a list of names, as SG2Im writes it')
        lists.append(frozenset(names) - _DUMMIES)
    return Vocabulary(*lists)


def dump_vocabulary(vocabulary: Vocabulary) -> str:
    """Return the vocabulary as the text of a ``vocab.json``, names in alphabetical order."""
    data = {
        "object_idx_to_name": ["__image__", *sorted(vocabulary.objects)],
        "pred_idx_to_name": ["__in_image__", *sorted(vocabulary.predicates)],
        "attribute_idx_to_name": sorted(vocabulary.attributes),
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def is_small(image: VgImage, rules: Rules) -> bool:
    """Return whether the image is too small for any split; one of unknown size counts as small."""
    return rules.min_image_size > 0 and (
        image.size is None or min(image.size) < rules.min_image_size
    )


def count_names(
    image: VgImage, aliases: Aliases, objects: Counter[str], words: Counter[str]
) -> None:
    """Count the classes and attributes of a training image.

    A name twice of one object counts once.
    """
    for item in image.objects:
        objects.update({aliases.objects.get(name, name) for name in item.names})
        words.update(set(item.attributes))


def frequent(counts: Counter[str], least: int) -> frozenset[str]:
    """Return names with a count of at least ``least``."""
    return frozenset(name for name, count in counts.items() if count >= least)


def kept_objects(
    image: VgImage, names: Collection[str], aliases: Aliases, rules: Rules
) -> tuple[tuple[VgObject, str], ...]:
    """Return the objects that are large enough, each with the first of its names in ``names``."""
    kept = []
    for item in image.objects:
        if min(item.box[2:]) < rules.min_object_size:
            continue
        mapped = (aliases.objects.get(name, name) for name in item.names)
        name = next((name for name in mapped if name in names), None)
        if name is not None:
            kept.append((item, name))
    return tuple(kept)


def normalised(predicate: str, aliases: Aliases) -> str:
    """Return a predicate in lower case, with its alias."""
    lower = predicate.lower().strip()
    return aliases.predicates.get(lower, lower)


def count_predicates(
    image: VgImage,
    kept: tuple[tuple[VgObject, str], ...],
    aliases: Aliases,
    predicates: Counter[str],
) -> None:
    """Count the predicates between kept objects of a training image."""
    ids = {item.id for item, _ in kept}
    for relation in image.relations:
        if relation.subject in ids and relation.target in ids:
            predicates[normalised(relation.predicate, aliases)] += 1


def prepared(
    image: VgImage, vocabulary: Vocabulary, aliases: Aliases, rules: Rules, split: str
) -> Kept | str:
    """Return the image as SG2Im keeps it, or the reason why it is left out."""
    if is_small(image, rules):
        return SMALL
    objects = kept_objects(image, vocabulary.objects, aliases, rules)
    if len(objects) < rules.min_objects:
        return FEW_OBJECTS
    if len(objects) > rules.max_objects:
        return MANY_OBJECTS
    ids = {item.id for item, _ in objects}
    relations = []
    for relation in image.relations:
        predicate = relation.predicate
        if split == TRAIN or rules.predicates == "normalised":
            predicate = normalised(predicate, aliases)
        if (
            predicate in vocabulary.predicates
            and relation.subject in ids
            and relation.target in ids
        ):
            relations.append(VgRelation(relation.subject, predicate, relation.target))
    if len(relations) < rules.min_relationships:
        return FEW_RELATIONS
    if len(relations) > rules.max_relationships:
        return MANY_RELATIONS
    return Kept(objects, tuple(relations))
