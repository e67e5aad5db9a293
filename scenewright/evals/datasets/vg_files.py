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
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    StrictInt,
    StrictStr,
)

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.json_stream import RowStore, elements, sections
from scenewright.evals.datasets.reading import checked, lines_of, opened, parsed


def _no_flag(value: Any) -> Any:
    """Refuse true and false, which would be taken for 1 and 0."""
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


Number = Annotated[float, BeforeValidator(_no_flag), Field(allow_inf_nan=False)]
"""A number, or the text of one."""
Words = Annotated[list[StrictStr], BeforeValidator(lambda value: value or [])]
"""A list of words; files also write null for none."""


class _Row(BaseModel):
    model_config = ConfigDict(frozen=True)


class VgObject(_Row):
    """One object as annotated."""

    id: StrictInt = Field(validation_alias="object_id")
    """Its number, over all images."""
    names: Annotated[Words, BeforeValidator(lambda v: [v] if isinstance(v, str) else v)] = Field(
        default=[], validation_alias=AliasChoices("names", "name")
    )
    """Names by annotators; may be empty."""
    x: Number
    y: Number
    w: Number
    h: Number
    attributes: Words = []
    """Bare words, such as ``brown``."""
    merged: Annotated[list[StrictInt], BeforeValidator(lambda value: value or [])] = Field(
        default=[], validation_alias="merged_object_ids"
    )
    """Numbers of the same object that it replaces."""


def _end(name: str) -> Any:
    return Field(validation_alias=AliasChoices(AliasPath(name, "object_id"), f"{name}_id"))


class VgRelation(_Row):
    """One relationship as annotated."""

    subject: StrictInt = _end("subject")
    """Number of an object."""
    predicate: StrictStr = ""
    """As written, in any case; may be empty."""
    target: StrictInt = _end("object")
    """Number of an object."""


class _Attributes(_Row):
    object_id: StrictInt
    attributes: Words = []


class VgImage(_Row):
    """The annotations of one image."""

    id: int
    objects: list[VgObject] = []
    """In the order of the file."""
    relationships: list[VgRelation] = []
    """In the order of the file; empty if they were not read."""
    attributes: list[_Attributes] = []
    """Words of ``attributes.json``; empty if they were not read."""
    size: tuple[Number, Number] | None = None
    """(width, height) in pixels; None without ``image_data.json``."""
    _words: dict[int, list[str]] = PrivateAttr(default_factory=dict)

    def model_post_init(self, context: Any) -> None:
        """Collect the words of each object."""
        said = [(item.id, item.attributes) for item in self.objects]
        said += [(row.object_id, row.attributes) for row in self.attributes]
        for number, words in said:
            self._words.setdefault(number, []).extend(words)

    def words(self, item: VgObject) -> Sequence[str]:
        """Return the attributes of one of :attr:`objects`."""
        return self._words[item.id]


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
        others: dict[str, JoinedById] = {}
        if self.graphs is None:
            if attributes and self.attributes is None:
                raise DatasetError(
                    f"{self.objects}: there is no attributes.json beside it: fetch it with "
                    "`scenewright data get visual-genome`"
                )
            others["relationships"] = _joined(self.relations if relations else None)
            others["attributes"] = _joined(self.attributes if attributes else None)
        main = self.graphs or self.objects
        assert main is not None
        for place, image, entry in _entries(main):
            parts = {"objects": entry, "relationships": entry}
            parts |= {key: file.take(image) or {} for key, file in others.items()}
            row = {key: part[key] for key, part in parts.items() if key in part}
            about = sizes.take(image)
            if about is not None:
                row["size"] = about.get("width"), about.get("height")
            yield checked(VgImage, {**row, "id": image}, place)


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
class Vocabulary:
    """Names that are kept."""

    objects: Collection[str]
    predicates: Collection[str]
    attributes: Collection[str]


@dataclass(frozen=True, slots=True)
class Kept:
    """One image after the preparation."""

    objects: Sequence[tuple[VgObject, str]]
    """Objects with their class."""
    relations: Sequence[tuple[int, str, int]]
    """Relationships between their numbers, in the vocabulary's words."""


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


@dataclass(frozen=True, slots=True)
class Preparation:
    """SG2Im's preparation of images."""

    rules: Rules
    objects: Mapping[str, str]
    """Alias of a class → class."""
    predicates: Mapping[str, str]
    """Alias of a predicate → predicate."""

    def is_small(self, image: VgImage) -> bool:
        """Return whether the image is too small for any split, as one of unknown size is."""
        least = self.rules.min_image_size
        return least > 0 and (image.size is None or min(image.size) < least)

    def vocabulary(self, files: VgFiles, training: Collection[int], attributes: bool) -> Vocabulary:
        """Count the names of the ``training`` images, in two passes over ``files``."""
        names: Counter[str] = Counter()
        words: Counter[str] = Counter()
        for image in files.images(relations=False, attributes=attributes):
            if image.id in training and not self.is_small(image):
                for item in image.objects:
                    # A name twice of one object counts once.
                    names.update({self.objects.get(name, name) for name in item.names})
                    words.update(set(image.words(item)))
        rules = self.rules
        known = _frequent(names, rules.min_object_instances)
        predicates: Counter[str] = Counter()
        for image in files.images():
            if image.id in training and not self.is_small(image):
                ids = {item.id for item, _ in self._kept_objects(image, known)}
                predicates.update(
                    self._normalised(relation.predicate)
                    for relation in image.relationships
                    if relation.subject in ids and relation.target in ids
                )
        return Vocabulary(
            known,
            _frequent(predicates, rules.min_relationship_instances),
            _frequent(words, rules.min_attribute_instances),
        )

    def prepared(self, image: VgImage, vocabulary: Vocabulary, split: str) -> Kept | str:
        """Return the image as SG2Im keeps it, or the reason why it is left out."""
        rules = self.rules
        if self.is_small(image):
            return SMALL
        objects = self._kept_objects(image, vocabulary.objects)
        if len(objects) < rules.min_objects:
            return FEW_OBJECTS
        if len(objects) > rules.max_objects:
            return MANY_OBJECTS
        ids = {item.id for item, _ in objects}
        as_written = split != TRAIN and rules.predicates == "published"
        relations = [
            (relation.subject, predicate, relation.target)
            for relation in image.relationships
            if relation.subject in ids and relation.target in ids
            for predicate in (
                relation.predicate if as_written else self._normalised(relation.predicate),
            )
            if predicate in vocabulary.predicates
        ]
        if len(relations) < rules.min_relationships:
            return FEW_RELATIONS
        if len(relations) > rules.max_relationships:
            return MANY_RELATIONS
        return Kept(objects, relations)

    def _kept_objects(self, image: VgImage, names: Collection[str]) -> list[tuple[VgObject, str]]:
        """Return the large enough objects, each with the first of its names in ``names``."""
        least = self.rules.min_object_size
        named = (
            (item, next((n for n in map(self._class, item.names) if n in names), None))
            for item in image.objects
            if min(item.w, item.h) >= least
        )
        return [(item, name) for item, name in named if name is not None]

    def _class(self, name: str) -> str:
        return self.objects.get(name, name)

    def _normalised(self, predicate: str) -> str:
        """Return a predicate in lower case, with its alias."""
        lower = predicate.lower().strip()
        return self.predicates.get(lower, lower)


def _frequent(counts: Counter[str], least: int) -> frozenset[str]:
    return frozenset(name for name, count in counts.items() if count >= least)
