"""Graph edit distance: ours against NetworkX's, and how close the bounds of large graphs are.

``python -m benchmarks.ged [--quick]``. Random scene graphs with 1.5 relations an object, five
labels, five predicates and four colours; half of the pairs are a graph and itself with about four
edits, half are two graphs drawn by themselves. ``speedup.N`` at N objects is the time of
``networkx.graph_edit_distance`` divided by ours over the same pairs in this run, both in all. It
has 20 seconds a pair: where it is not done (``finished.N`` tells the share that is), the figure
is a lower bound, and ``excess.N`` says how far its best path was above the distance.
``max_abs_diff`` is over pairs that it finished (it is told 1e-7 less of each substitution, see
:data:`TIE`). ``gap.N`` is upper minus lower bound, divided by
the upper, for two unrelated graphs within ``seconds.N``; ``gap_at_once.N`` the same by the linear
assignment alone. Intervals are over pairs.
"""

from __future__ import annotations

import random
import time
from argparse import Namespace
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import networkx as nx
import numpy as np

from benchmarks._harness import Progress, benchmark, interval, intervals, ratio
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_edit import EditDistance, EditLimits, edit_distance

LABELS = ("person", "dog", "tree", "car", "table")
PREDICATES = ("on", "near", "left of", "behind", "holding")
COLORS = ("red", "blue", "green", "white")
RELATIONS_AN_OBJECT = 1.5
TIE = 1e-7
"""What NetworkX is told less of a substitution. Where that costs as much as a deletion and an
insertion, it may never try it (NetworkX's issue 8099) and ends above the distance."""

Kind = Literal["damaged", "unrelated"]
KINDS: tuple[Kind, ...] = ("damaged", "unrelated")


@dataclass(frozen=True, slots=True)
class Pair:
    """Two graphs."""

    kind: Kind
    """Whether the second is the first with a few edits, or drawn by itself."""
    first: SceneGraph
    """The reference."""
    second: SceneGraph
    """What is compared with it, its objects in another order."""


def pair_of(kind: Kind, objects: int, seed: int) -> Pair:
    """Return two graphs of ``objects`` objects, half again as many relations, and colours.

    Two objects in three have one.
    """
    rng = random.Random(f"{kind} {objects} {seed}")
    first = _graph(objects, rng)
    second = _damaged(first, rng) if kind == "damaged" else _graph(objects, rng)
    return Pair(kind, first, _shuffled(second, rng))


def _graph(objects: int, rng: random.Random) -> SceneGraph:
    ids = [f"o{at}" for at in range(objects)]
    triples: set[tuple[str, str, str]] = set()
    while len(triples) < round(RELATIONS_AN_OBJECT * objects):
        a, b = rng.sample(ids, 2)
        triples.add((a, rng.choice(PREDICATES), b))
    return SceneGraph(
        objects=tuple(
            SceneObject(
                id=name,
                name=rng.choice(LABELS),
                attributes=Attributes(
                    {"color": rng.choice(COLORS)} if rng.random() < 2 / 3 else {}
                ),
            )
            for name in ids
        ),
        relations=tuple(Relation(source=a, predicate=p, target=b) for a, p, b in sorted(triples)),
    )


def _damaged(scene: SceneGraph, rng: random.Random) -> SceneGraph:
    objects, relations = list(scene.objects), list(scene.relations)
    for edit in ("object", "label", "relation", "predicate"):
        if edit == "object":
            gone = objects.pop(rng.randrange(len(objects))).id
            relations = [r for r in relations if gone not in (r.source, r.target)]
        elif edit == "label":
            at = rng.randrange(len(objects))
            name = rng.choice(LABELS)
            objects[at] = objects[at].model_copy(update={"name": name})
        elif relations:
            one = relations.pop(rng.randrange(len(relations)))
            if edit == "predicate":
                other = one.model_copy(update={"predicate": rng.choice(PREDICATES)})
                relations = [r for r in relations if r != other] + [other]
    return SceneGraph(objects=tuple(objects), relations=tuple(relations))


def _shuffled(scene: SceneGraph, rng: random.Random) -> SceneGraph:
    objects = list(scene.objects)
    rng.shuffle(objects)
    names = {item.id: f"x{at}" for at, item in enumerate(objects)}
    return SceneGraph(
        objects=tuple(o.model_copy(update={"id": names[o.id]}) for o in objects),
        relations=tuple(
            Relation(source=names[r.source], predicate=r.predicate, target=names[r.target])
            for r in scene.relations
        ),
    )


@dataclass(frozen=True, slots=True)
class Found:
    """What NetworkX found."""

    distance: float
    """Cost of its best path."""
    seconds: float
    """How long it took."""
    finished: bool
    """Whether it was done before its time was up; else the distance may be smaller."""


def by_networkx(pair: Pair, timeout: float) -> Found:
    """Return the distance with all costs 1 and texts that are equal or not.

    All predicates of an ordered pair stand on one edge, since it knows no parallel ones here.
    """
    first, second = _digraph(pair.first), _digraph(pair.second)
    begun = time.perf_counter()
    found = nx.graph_edit_distance(
        first,
        second,
        node_subst_cost=_node_cost,
        node_del_cost=_size,
        node_ins_cost=_size,
        edge_subst_cost=lambda a, b: _cost(a["facts"], b["facts"]),
        edge_del_cost=_size,
        edge_ins_cost=_size,
        timeout=timeout,
    )
    seconds = time.perf_counter() - begun
    return Found(float("inf") if found is None else float(found), seconds, seconds < timeout)


def _digraph(scene: SceneGraph) -> nx.DiGraph:
    graph = nx.DiGraph()
    for item in scene.objects:
        facts = Counter([("", item.name), *item.attributes.items()])
        graph.add_node(item.id, facts=facts)
    for relation in scene.relations:
        ends = (relation.source, relation.target)
        if not graph.has_edge(*ends):
            graph.add_edge(*ends, facts=Counter())
        graph.edges[ends]["facts"][relation.predicate] += 1
    return graph


def _size(element: dict[str, Any]) -> float:
    return float(element["facts"].total())


def _cost(mine: Counter[Any], theirs: Counter[Any]) -> float:
    return float(mine.total() + theirs.total() - 2 * (mine & theirs).total())


def _node_cost(mine: dict[str, Any], theirs: dict[str, Any]) -> float:
    return _cost(mine["facts"], theirs["facts"]) - TIE


PAIRS = {5: 40, 8: 20, 12: 12}
"""Objects → pairs that NetworkX is given, half of each kind."""
LARGE = {20: 10, 50: 6, 100: 4}
"""Objects → unrelated pairs of which the bounds are measured; as many damaged ones."""
TIMEOUT = 20.0
QUICK_TIMEOUT = 2.0
LIMIT = 20.0
"""Seconds that a distance of large graphs may take."""


def timed(pair: Pair, limits: EditLimits) -> tuple[EditDistance, float]:
    """Return our distance, and its seconds."""
    begun = time.perf_counter()
    found = edit_distance(pair.first, pair.second, limits=limits)
    return found, time.perf_counter() - begun


def against_networkx(
    objects: int, count: int, timeout: float, progress: Progress
) -> tuple[dict[str, Any], list[float]]:
    """Return figures of one size, and the differences where NetworkX was done."""
    ours: list[tuple[EditDistance, float]] = []
    theirs: list[Found] = []
    for at in range(count):
        pair = pair_of(KINDS[at % 2], objects, at)
        ours.append(timed(pair, EditLimits(seconds=60.0)))
        theirs.append(by_networkx(pair, timeout))
        progress.step()
    if not all(found.exact for found, _ in ours):
        raise RuntimeError(f"a distance of {objects} objects was not proven: raise its limit")
    both = list(zip(ours, theirs, strict=True))
    open_ones = [(a, b) for (a, _), b in both if not b.finished]
    figures: dict[str, Any] = {
        f"speedup.{objects}": ratio([(b.seconds, s) for (_, s), b in both]),
        f"seconds.{objects}": interval([s for _, s in ours]),
        f"seconds_networkx.{objects}": interval([b.seconds for b in theirs]),
        f"finished.{objects}": sum(b.finished for b in theirs) / count,
    }
    if open_ones and all(np.isfinite(b.distance) for _, b in open_ones):
        # NetworkX is told a little less of each substitution, hence the 0.
        excess = [max(0.0, b.distance / a.upper - 1) for a, b in open_ones]
        figures[f"excess.{objects}"] = interval(excess)
    return figures, [abs(a.upper - b.distance) for (a, _), b in both if b.finished]


def bounds(objects: int, count: int, limit: float, progress: Progress) -> dict[str, Any]:
    """Return figures of the bounds at one size."""
    figures: dict[str, Any] = {}
    for kind in KINDS:
        suffix = "" if kind == "unrelated" else f".{kind}"
        found: list[dict[str, float]] = []
        for at in range(count):
            pair = pair_of(kind, objects, at)
            exact, seconds = timed(pair, EditLimits(seconds=limit))
            quick, at_once = timed(pair, EditLimits(seconds=0.0))
            row = {"exact": float(exact.exact), "seconds": seconds}
            if kind == "unrelated":
                row |= {
                    "gap": exact.gap / exact.upper,
                    "gap_at_once": quick.gap / quick.upper,
                    "seconds_at_once": at_once,
                }
            found.append(row)
            progress.step()
        figures |= {f"{name}.{objects}{suffix}": v for name, v in intervals(found).items()}
        figures[f"exact.{objects}{suffix}"] = figures[f"exact.{objects}{suffix}"]["mean"]
    return figures


@benchmark(
    "few pairs",
    measures=("scenewright.evals.metrics.graph_edit",),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure distances and bounds."""
    pairs = {5: 6, 8: 4, 12: 2} if options.quick else PAIRS
    large = {20: 1, 50: 1} if options.quick else LARGE
    timeout, limit = (QUICK_TIMEOUT, 3.0) if options.quick else (TIMEOUT, LIMIT)
    # The first call loads libraries and is not counted.
    timed(pair_of("unrelated", 12, -1), EditLimits())
    total = sum(pairs.values()) + 2 * sum(large.values())
    progress = Progress(total)
    figures: dict[str, Any] = {}
    differences: list[float] = []
    for objects, count in pairs.items():
        found, apart = against_networkx(objects, count, timeout, progress)
        figures |= found
        differences += apart
    if differences:
        figures |= {"max_abs_diff": max(differences), "compared": len(differences)}
    for objects, count in large.items():
        figures |= bounds(objects, count, limit, progress)
    return total, figures


if __name__ == "__main__":
    main()
