"""How many items of an evaluation were not read surely, and what became of them."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from scenewright.evals.datasets.base import DOUBTFUL, REFUSED
from scenewright.evals.reporting.words import count, whole
from scenewright.evals.store.results import Results


@dataclass(frozen=True, slots=True)
class Readings:
    """Counts of items whose scene was read of a prompt, but not surely."""

    items: int
    """All items."""
    doubtful: int
    """Those whose prompt could be read in another way."""
    refused: int
    """Those whose prompt has no scene."""
    included: bool
    """Whether the doubtful ones are scored like others."""

    @classmethod
    def of(cls, results: Results) -> Readings:
        """Return the counts of an evaluation; none for tables of earlier versions."""
        found = Counter(row["reading"] for row in results.rows("items", ["reading"]))
        config = results.manifest.get("config") or {}
        told = bool(config.get("include_doubtful"))
        return cls(sum(found.values()), found[DOUBTFUL], found[REFUSED], told)

    @property
    def sentence(self) -> str:
        """The counts for people; empty if all items were read surely."""
        if not self.doubtful and not self.refused:
            return ""
        parts = []
        if self.doubtful:
            fate = "included" if self.included else "unscored; --include-doubtful scores them"
            parts.append(f"{count(self.doubtful, DOUBTFUL)} ({fate})")
        if self.refused:
            parts.append(f"{count(self.refused, REFUSED)} (unscored)")
        return f"Of {count(self.items, 'item')}: {', '.join(parts)}."

    @property
    def lines(self) -> list[tuple[str, ...]]:
        """Rows of a table: the reading, its items, and what became of their scores."""
        rows = [
            (DOUBTFUL, self.doubtful, "scored" if self.included else "unscored"),
            (REFUSED, self.refused, "unscored"),
        ]
        return [(reading, whole(n), fate) for reading, n, fate in rows if n]

    def as_json(self) -> dict[str, Any]:
        """Return the counts with their sentence."""
        return {**asdict(self), "sentence": self.sentence}
