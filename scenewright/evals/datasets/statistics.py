"""What a set holds, counted in one pass: sizes, vocabulary, levels, classes.

Memory grows with the vocabulary, not with the number of items.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

from scenewright.core.facts import FACT_KINDS, FactKind
from scenewright.core.scene import Level
from scenewright.evals.datasets.base import Dataset, Item

LEVELS: tuple[Level, ...] = get_args(Level)
T = TypeVar("T")
BALANCED = 0.5
"""A set is balanced if its rarest level has at least this share of its commonest one's scenes;
the paper's 15,000/20,000/15,000 have 0.75."""


@dataclass(slots=True)
class Statistics:
    """Counts over the items of a set."""

    name: str
    """Of the set."""
    items: int = 0
    """All of them."""
    scenes: int = 0
    """Items with a scene graph."""
    prompts: int = 0
    """Items with a text."""
    images: int = 0
    """Items with a photo on this machine."""
    asked: int = 0
    """Items with questions of their own."""
    boxes: int = 0
    """Detections of all items."""
    objects: Counter[int] = field(default_factory=Counter)
    """Objects of a scene → scenes."""
    relations: Counter[int] = field(default_factory=Counter)
    """Relations of a scene, its complexity for γ = 0 → scenes."""
    attributes: Counter[int] = field(default_factory=Counter)
    """Attributes of a scene → scenes."""
    levels: Counter[str] = field(default_factory=Counter)
    """Level → scenes."""
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(group, category) → items; both may be empty."""
    names: Counter[str] = field(default_factory=Counter)
    """Class label → objects (where there is no scene: detections)."""
    predicates: Counter[str] = field(default_factory=Counter)
    """Predicate → relations."""
    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(attribute key, value) → objects."""
    facts: Counter[FactKind] = field(default_factory=Counter)
    """Kind → facts of the set's own."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """What the set's reader left out."""

    def add(self, item: Item) -> None:
        """Count ``item``."""
        self.items += 1
        self.prompts += bool(item.prompt)
        self.images += item.image is not None
        self.asked += bool(item.facts)
        self.boxes += len(item.detections)
        self.classes[item.group, item.category] += 1
        self.facts.update(fact.kind for fact in item.facts)
        if item.scene is None:
            self.names.update(found.name for found in item.detections)
            return
        self.scenes += 1
        self.objects[len(item.scene.objects)] += 1
        self.relations[len(item.scene.relations)] += 1
        self.attributes[sum(len(each.attributes) for each in item.scene.objects)] += 1
        self.levels[item.scene.level()] += 1
        self.names.update(each.name for each in item.scene.objects)
        self.predicates.update(each.predicate for each in item.scene.relations)
        self.values.update(pair for each in item.scene.objects for pair in each.attributes.items())

    @property
    def triplets(self) -> int:
        """Relations of all scenes."""
        return sum(size * n for size, n in self.relations.items())

    @property
    def balanced(self) -> bool | None:
        """Whether the levels are about as frequent (:data:`BALANCED`); none without a scene."""
        if not self.scenes:
            return None
        counts = [self.levels[level] for level in LEVELS]
        return min(counts) >= BALANCED * max(counts)

    def table1(self) -> dict[str, str]:
        """The set as a row of the paper's Table 1: heading → cell."""
        balanced = {None: "–", True: "yes", False: "no"}[self.balanced]
        return {
            "Dataset": self.name,
            "Images": f"{self.images:,}" if self.images else "–",
            "Obj. / Rel.": f"{len(self.names):,} / {len(self.predicates):,}",
            "Samples": f"{self.items:,}",
            "Triplets": f"{self.triplets:,}",
            "Balanced": balanced,
        }

    def as_json(self, top: int = 50) -> dict[str, Any]:
        """All of it as plain values; of vocabularies the ``top`` commonest."""
        return {
            "name": self.name,
            **{key: getattr(self, key) for key in _COUNTS},
            "triplets": self.triplets,
            "balanced": self.balanced,
            "levels": {level: self.levels[level] for level in LEVELS},
            **{key: _sizes(getattr(self, key)) for key in ("objects", "relations", "attributes")},
            "classes": [
                {"group": group, "category": category, "items": n}
                for (group, category), n in sorted(self.classes.items())
            ],
            "vocabulary": {
                "names": len(self.names),
                "predicates": len(self.predicates),
                "values": len(self.values),
            },
            "names": dict(commonest(self.names, top)),
            "predicates": dict(commonest(self.predicates, top)),
            "values": [
                {"key": key, "value": value, "objects": n}
                for (key, value), n in commonest(self.values, top)
            ],
            "facts": {kind: self.facts[kind] for kind in FACT_KINDS},
            "left_out": dict(self.left_out),
        }


_COUNTS = ("items", "scenes", "prompts", "images", "asked", "boxes")


def collect(dataset: Dataset, on_item: Callable[[Item], None] | None = None) -> Statistics:
    """The statistics of ``dataset``, read once; ``on_item`` is told each item."""
    found = Statistics(dataset.name)
    for item in dataset:
        found.add(item)
        if on_item is not None:
            on_item(item)
    found.left_out = dict(dataset.left_out)
    return found


def commonest(counts: Counter[T], top: int) -> list[tuple[T, int]]:
    """The ``top`` commonest entries; of equally common ones the first by name, so that the same
    set gives the same list."""
    return sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0])))[:top]


def mean(sizes: Mapping[int, int]) -> float | None:
    """Mean size of ``sizes`` (size → how many); none of nothing."""
    total = sum(sizes.values())
    return sum(size * n for size, n in sizes.items()) / total if total else None


def _sizes(sizes: Counter[int]) -> dict[str, Any]:
    return {
        "mean": mean(sizes),
        "most": max(sizes, default=None),
        "histogram": {str(size): sizes[size] for size in sorted(sizes)},
    }
