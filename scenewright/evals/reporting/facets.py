"""Classes of items by which scores are told apart."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Literal, get_args

Facet = Literal["level", "group", "category", "complexity"]
FACETS: tuple[Facet, ...] = get_args(Facet)
TITLES: dict[Facet, str] = {
    "level": "level",
    "group": "group",
    "category": "category",
    "complexity": "complexity",
}
MOST_COMPLEX = 10
"""From so many relations on, items are one class, as in Fig. 7 of Scene-Bench."""
_LEVELS = {"simple": 0, "medium": 1, "hard": 2}


def complexity_class(value: float | None) -> str:
    """``1`` … ``9``, ``10+``; empty for none."""
    if value is None or math.isnan(value):
        return ""
    whole = round(value)
    return f"{MOST_COMPLEX}+" if whole >= MOST_COMPLEX else str(whole)


def in_order(facet: Facet, names: Iterable[str]) -> list[str]:
    """Distinct non-empty classes: levels from simple to hard, numbers by size, others by name."""
    known = {name for name in names if name}
    if facet == "level":
        return sorted(known, key=lambda name: (_LEVELS.get(name, 9), name))
    if facet == "complexity":
        return sorted(known, key=lambda name: (int(re.sub(r"\D", "", name) or 0), name))
    return sorted(known)
