"""How good a built set is, against a reference set of graphs of the same photos."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.annotation.graph_sets import BuiltGraph
from scenewright.evals.annotation.recall import KS, Recalls, ranked
from scenewright.evals.annotation.votes import Triple, plain
from scenewright.evals.errors import AnnotationError
from scenewright.evals.statistics.figures import Bootstrap, Figure


class Quality(BaseModel):
    """A built set beside its reference."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    photos: int
    """Photos that both sets have; those of the reference alone count as empty graphs."""
    missing: int
    """Photos of the reference that the built set does not have."""
    unknown: int
    """Photos of the built set that the reference does not have: nothing is said of them."""
    built: int
    """Relations of the built graphs that were measured."""
    reference: int
    """Relations of the reference."""
    recall_at: dict[str, Figure] = Field(default_factory=dict)
    """``R@K`` with graph constraint and ``ng-R@K`` without, K = 20, 50, 100."""
    mean_recall_at: dict[str, float | None] = Field(default_factory=dict)
    """``mR@K`` and ``ng-mR@K``."""
    relations: dict[str, Figure] = Field(default_factory=dict)
    """``precision`` and ``recall`` of all relations, whatever their rank."""
    objects: dict[str, Figure] = Field(default_factory=dict)
    """``precision`` and ``recall`` of objects, by id and class."""
    predicates: dict[str, float] = Field(default_factory=dict)
    """Predicate → its recall among the first 100, with graph constraint."""


def triples_of(graph: BuiltGraph) -> list[Triple]:
    """The relations with plain predicates."""
    return [(r.source, plain(r.predicate), r.target) for r in graph.scene.relations]


def quality(
    built: Iterable[BuiltGraph], reference: Mapping[str, BuiltGraph], seed: int = 0
) -> Quality:
    """Measure ``built`` against ``reference`` (photo id → graph).

    A triple is right if the reference holds the same ids and the same predicate; scores rank it.
    Intervals are bootstraps over photos. Raises ``AnnotationError`` if no photo is in both sets.
    """
    tables = {
        ("" if constrained else "ng-", k): Recalls(k) for constrained in (True, False) for k in KS
    }
    counts: list[list[int]] = []
    unknown = 0
    seen: set[str] = set()

    def one(graph: BuiltGraph | None, truth: BuiltGraph) -> None:
        triples = [] if graph is None else triples_of(graph)
        scores = () if graph is None else graph.scores
        wanted = set(triples_of(truth))
        for (prefix, _), recalls in tables.items():
            recalls.add(ranked(triples, scores, constrained=not prefix), wanted)
        there = set() if graph is None else {(o.id, plain(o.name)) for o in graph.scene.objects}
        objects = {(o.id, plain(o.name)) for o in truth.scene.objects}
        found = set(triples)
        counts.append(
            [len(found & wanted), len(found), len(wanted),
             len(there & objects), len(there), len(objects)]
        )  # fmt: skip

    for graph in built:
        truth = reference.get(graph.id)
        if truth is None:
            unknown += 1
            continue
        seen.add(graph.id)
        one(graph, truth)
    if not seen:
        raise AnnotationError(
            "no photo is in both sets: graphs are matched by image_id, so give both the same ids"
        )
    missing = [truth for id_, truth in reference.items() if id_ not in seen]
    for truth in missing:
        one(None, truth)
    boot = Bootstrap(len(counts), seed)
    photos = range(len(counts))
    columns = list(zip(*counts, strict=True))

    def ratio(part: int, whole: int) -> Figure:
        return boot.figure(photos, [columns[part], columns[whole]], lambda s: s[:, 0] / s[:, 1])

    recall_at = {}
    for (prefix, k), recalls in tables.items():
        if recalls.images:
            over = Bootstrap(len(recalls.images), seed)
            recall_at[f"{prefix}R@{k}"] = over.share(range(len(recalls.images)), recalls.images)
    return Quality(
        photos=len(seen),
        missing=len(missing),
        unknown=unknown,
        built=sum(columns[1]),
        reference=sum(columns[2]),
        recall_at=recall_at,
        mean_recall_at={f"{p}mR@{k}": t.mean_recall for (p, k), t in tables.items()},
        relations={"precision": ratio(0, 1), "recall": ratio(0, 2)},
        objects={"precision": ratio(3, 4), "recall": ratio(3, 5)},
        predicates=tables["", max(KS)].predicates,
    )


def by_id(graphs: Iterable[BuiltGraph]) -> dict[str, BuiltGraph]:
    """Photo id → graph."""
    return {graph.id: graph for graph in graphs}


def as_rows(found: Quality) -> list[tuple[str, str]]:
    """What is measured and how it came out, for tables."""
    rows: list[tuple[str, Any]] = [*found.recall_at.items(), *found.mean_recall_at.items()]
    rows += [(f"relations: {name}", figure) for name, figure in found.relations.items()]
    rows += [(f"objects: {name}", figure) for name, figure in found.objects.items()]
    return [
        (name, value.text() if isinstance(value, Figure) else _digits(value))
        for name, value in rows
    ]


def _digits(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
