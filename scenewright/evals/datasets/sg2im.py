"""SG2Im's preparation of Visual Genome (Johnson et al., 2018), which the paper's VG split uses.

By its published script: images with a side under 200 pixels leave their split; names are mapped by
alias files; classes seen at least 2,000 times and attributes as often in the training split, and
predicates seen at least 500 times between kept objects, form the vocabulary; objects whose box has
a side under 32 pixels are dropped; images with 3–30 objects and 1–30 relationships are kept.

One habit of the script decides which images remain: it writes predicates in lower case and maps
their aliases while it counts the training split, and looks up the other splits' predicates as
annotators wrote them, so that ``ON`` is no ``on`` there. ``predicates="published"`` does the same.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.json_stream import sections
from scenewright.evals.datasets.reading import lines_of, opened, parsed
from scenewright.evals.datasets.vg_files import VgImage, VgObject, VgRelation

SPLITS = ("train", "val", "test")
TRAIN = "train"
_DUMMIES = frozenset({"__image__", "__in_image__"})

FEW_OBJECTS = "images with too few objects"
MANY_OBJECTS = "images with too many objects"
FEW_RELATIONS = "images with too few relationships"
MANY_RELATIONS = "images with too many relationships"
SMALL = "images that are too small"


class Rules(BaseModel):
    """What is kept; the defaults are SG2Im's."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    min_image_size: int = Field(default=200, ge=0)
    """Least shorter side of an image, in pixels."""
    min_object_instances: int = Field(default=2000, ge=1)
    """Least often that a class occurs in the training split."""
    min_relationship_instances: int = Field(default=500, ge=1)
    """Least often that a predicate occurs in it, between kept objects."""
    min_attribute_instances: int = Field(default=2000, ge=1)
    """Least often that an attribute occurs in it."""
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
    """Name → the one that is used."""
    predicates: Mapping[str, str]
    """Name → the one that is used."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names that are kept."""

    objects: Collection[str]
    """Classes."""
    predicates: Collection[str]
    """Predicates."""
    attributes: Collection[str]
    """Attributes."""


@dataclass(frozen=True, slots=True)
class Kept:
    """One image after the preparation."""

    objects: tuple[tuple[VgObject, str], ...]
    """Objects with their class."""
    relations: tuple[VgRelation, ...]
    """Relationships between them, in the vocabulary's words."""


def load_splits(path: Path) -> dict[str, frozenset[int]]:
    """Split → numbers of its images, from ``vg_splits.json``.

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
    """Name → the one that is used: the first of its line (``man,a man,men``)."""
    found: dict[str, str] = {}
    for _, line in lines_of(path):
        names = [name.strip() for name in line.split(",")]
        found.update(dict.fromkeys(names, names[0]))
    return found


def load_vocabulary(path: Path) -> Vocabulary:
    """The vocabulary of a ``vocab.json`` that SG2Im's script wrote; its dummies are left out."""
    with opened(path) as file:
        data = parsed(file.read(), str(path))
    if not isinstance(data, dict):
        raise DatasetError(f"{path} is no JSON object: name a vocab.json of SG2Im's script")
    lists = []
    for key in ("object_idx_to_name", "pred_idx_to_name", "attribute_idx_to_name"):
        names = data.get(key, [] if key.startswith("attribute") else None)
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise DatasetError(f'{path}: "{key}" must be a list of names, as SG2Im writes it')
        lists.append(frozenset(names) - _DUMMIES)
    return Vocabulary(*lists)


def dump_vocabulary(vocabulary: Vocabulary) -> str:
    """The vocabulary as the text of a ``vocab.json``, names in their order of the alphabet."""
    data = {
        "object_idx_to_name": ["__image__", *sorted(vocabulary.objects)],
        "pred_idx_to_name": ["__in_image__", *sorted(vocabulary.predicates)],
        "attribute_idx_to_name": sorted(vocabulary.attributes),
    }
    return json.dumps(data, ensure_ascii=False, indent=1) + "\n"


def is_small(image: VgImage, rules: Rules) -> bool:
    """Whether the image is too small for any split; one of unknown size counts as small."""
    return rules.min_image_size > 0 and (
        image.size is None or min(image.size) < rules.min_image_size
    )


def count_names(
    image: VgImage, aliases: Aliases, objects: Counter[str], words: Counter[str]
) -> None:
    """Count the classes and attributes of a training image; a name twice of one object counts
    once."""
    for item in image.objects:
        objects.update({aliases.objects.get(name, name) for name in item.names})
        words.update(set(item.attributes))


def frequent(counts: Counter[str], least: int) -> frozenset[str]:
    """What was counted at least ``least`` times."""
    return frozenset(name for name, count in counts.items() if count >= least)


def kept_objects(
    image: VgImage, names: Collection[str], aliases: Aliases, rules: Rules
) -> tuple[tuple[VgObject, str], ...]:
    """The objects that are large enough, each with the first of its names that is kept."""
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
    """A predicate in lower case, with its alias."""
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
    """The image as SG2Im keeps it, or why it is left out."""
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
