"""What is in a set of prompts: classes beside the paper's, templates, and kinds of facts.

Facts are counted in two levels after DSG's categories (supplement A.1): entities, attributes by
their key, relations of space and of action, and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from scenewright.agents.parsers.classes import CHALLENGES, PROMPT_CATEGORIES
from scenewright.evals.datasets.base import Item

PAPER_SOURCE = "PSG-Bench, Table 6"
PAPER: dict[str, int] = {
    "IMAGINATION": 525,
    "QUANTITY": 591,
    "COMPLEX": 776,
    "LINGUISTIC STRUCTURES": 125,
    "WORLD KNOWLEDGE": 24,
    "ABSTRACT": 109,
    "ANIMALS": 487,
    "ARTS": 12,
    "ILLUSTRATIONS": 32,
    "OUTDOOR SCENES": 786,
    "PEOPLE": 877,
    "VEHICLES": 656,
}
"""Class → prompts of PSG-Bench, as Table 6 prints them."""


@dataclass(slots=True)
class PromptStatistics:
    """Counts over items."""

    prompts: int = 0
    """Items with a prompt."""
    scenes: int = 0
    """Items with a scene graph."""
    objects: int = 0
    """Objects of all scenes."""
    attributes: int = 0
    """Attributes of all objects."""
    relations: int = 0
    """Relations of all scenes."""
    pairs: int = 0
    """Contrastive pairs of which both prompts are there."""
    unclassified: int = 0
    """Prompts without a category."""
    templates: Counter[str] = field(default_factory=Counter)
    """Template → prompts."""
    categories: Counter[str] = field(default_factory=Counter)
    """Category of Table 6 → prompts."""
    challenges: Counter[str] = field(default_factory=Counter)
    """Challenge → prompts."""
    authors: Counter[str] = field(default_factory=Counter)
    """Who wrote the text → prompts."""
    facts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(first, second level) → facts of the scenes."""

    def mean(self, count: int) -> float | None:
        """``count`` a scene; none without scenes."""
        return count / self.scenes if self.scenes else None

    def as_json(self) -> dict[str, Any]:
        """All of it as plain values, with the paper's counts beside."""
        levels: dict[str, dict[str, int]] = {}
        for (first, second), count in sorted(self.facts.items()):
            levels.setdefault(first, {})[second] = count
        return {
            "prompts": self.prompts,
            "pairs": self.pairs,
            "unclassified": self.unclassified,
            "per_prompt": {
                "objects": self.mean(self.objects),
                "attributes": self.mean(self.attributes),
                "relations": self.mean(self.relations),
            },
            "templates": dict(self.templates),
            "categories": {name: self.categories[name] for name in PROMPT_CATEGORIES},
            "challenges": {name: self.challenges[name] for name in CHALLENGES},
            "authors": dict(self.authors),
            "facts": levels,
            "paper": {"source": PAPER_SOURCE, "prompts": PAPER},
        }


def statistics_of(items: Iterable[Item]) -> PromptStatistics:
    """The counts over ``items``, read once."""
    found = PromptStatistics()
    pairs: Counter[str] = Counter()
    for item in items:
        found.prompts += bool(item.prompt)
        found.unclassified += bool(item.prompt and not item.group)
        found.templates.update(filter(None, [item.meta.get("template")]))
        found.authors.update(filter(None, [item.meta.get("author")]))
        found.categories.update(filter(None, [item.group]))
        found.challenges.update(filter(None, [item.category]))
        pairs.update(filter(None, [item.meta.get("pair")]))
        if item.scene is None:
            continue
        found.scenes += 1
        found.objects += len(item.scene.objects)
        found.relations += len(item.scene.relations)
        names = Counter(one.name for one in item.scene.objects)
        found.facts["entity", "whole"] += len(names)
        found.facts["count", "count"] += sum(count > 1 for count in names.values())
        for one in item.scene.objects:
            found.attributes += len(one.attributes)
            found.facts.update(("attribute", key) for key in one.attributes)
        found.facts.update(("relation", _level(r.predicate)) for r in item.scene.relations)
    found.pairs = sum(count == 2 for count in pairs.values())
    found.facts += Counter()
    return found


def _level(predicate: str) -> str:
    first = predicate.split()[0]
    return "action" if first.endswith("ing") else "spatial"
