"""Precision and recall of annotated relations against the exact truth of paintings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks._annotate_scenes import names_of, related_pairs
from scenewright.evals.annotation.config import CONVERSES
from scenewright.evals.annotation.votes import Triple
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import CONTACTS

PARTS = ("right", "named", "found", "related", "asked_found", "asked",
         "contact_right", "contact_named", "clear_right", "clear_named")  # fmt: skip
_AT = {name: at for at, name in enumerate(PARTS)}


def score(triples: Sequence[Triple], truth: Truth) -> list[int]:
    """The counts :data:`PARTS` of one photo; ids of ``triples`` are those of its detections."""
    ids = names_of(truth)
    mine = [(ids[s], p, ids[t]) for s, p, t in triples]
    true = [t for t in mine if t[1] in truth.relations_between(t[0], t[2])]
    related = related_pairs(truth)
    found = {frozenset((s, t)) for s, _, t in true}
    forms = {*mine, *((t, CONVERSES[p], s) for s, p, t in mine if p in CONVERSES)}
    asked = [(r.source, r.predicate, r.target) for r in truth.scene.relations]
    return [
        len(true),
        len(mine),
        len(found & related),
        len(related),
        sum(one in forms for one in asked),
        len(asked),
        sum(t[1] in CONTACTS for t in true),
        sum(t[1] in CONTACTS for t in mine),
        sum(not truth.is_ambiguous(t[0], t[2]) for t in true),
        sum(not truth.is_ambiguous(t[0], t[2]) for t in mine),
    ]


@dataclass
class Scores:
    """Counts of all photos, by who annotated."""

    photos: int
    """How many."""
    by: dict[str, list[list[int]]] = field(default_factory=dict)
    """Annotator → a row a photo."""

    def add(self, name: str, row: list[int]) -> None:
        """The next photo of ``name``."""
        self.by.setdefault(name, []).append(row)

    def figures(self) -> dict[str, dict[str, float]]:
        """``MEASURE.NAME`` for ``precision``, ``recall`` and their kin."""
        boot = Bootstrap(self.photos)
        found: dict[str, dict[str, float]] = {}
        for name, rows in self.by.items():
            columns = list(zip(*rows, strict=True))
            for measure, (part, whole) in _MEASURES.items():
                figure = boot.figure(
                    range(self.photos), [columns[_AT[part]], columns[_AT[whole]]], _ratio
                )
                if figure.value is not None:
                    found[f"{measure}.{name}"] = flat(figure)
        return found

    def gains(self, ours: str, theirs: Mapping[str, Sequence[str]]) -> dict[str, dict[str, float]]:
        """``gain.precision.over_NAME`` of ``ours`` over the pooled annotators of each name, over
        the same photos."""
        boot = Bootstrap(self.photos)
        mine = list(zip(*self.by[ours], strict=True))
        found: dict[str, dict[str, float]] = {}
        for name, group in theirs.items():
            pooled = [
                [sum(values) for values in zip(*rows, strict=True)]
                for rows in zip(*(self.by[one] for one in group), strict=True)
            ]
            other = list(zip(*pooled, strict=True))
            for measure in ("precision", "recall"):
                part, whole = (_AT[one] for one in _MEASURES[measure])
                columns = [mine[part], mine[whole], other[part], other[whole]]
                figure = boot.figure(range(self.photos), columns, _difference)
                if figure.value is not None:
                    found[f"gain.{measure}.over_{name}"] = flat(figure)
        return found


def flat(figure: Figure) -> dict[str, float]:
    """A figure as benchmarks write it."""
    value = figure.value if figure.value is not None else float("nan")
    low = value if figure.low is None else figure.low
    return {"mean": value, "low": low, "high": value if figure.high is None else figure.high}


_MEASURES: Mapping[str, tuple[str, str]] = {
    "precision": ("right", "named"),
    "recall": ("found", "related"),
    "asked_recall": ("asked_found", "asked"),
    "contact_precision": ("contact_right", "contact_named"),
    "clear_precision": ("clear_right", "clear_named"),
}


def _ratio(sums: Array) -> Array:
    found: Array = sums[:, 0] / sums[:, 1]
    return found


def _difference(sums: Array) -> Array:
    found: Array = sums[:, 0] / sums[:, 1] - sums[:, 2] / sums[:, 3]
    return found
