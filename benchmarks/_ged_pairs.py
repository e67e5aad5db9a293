"""Pairs of random scene graphs for the benchmark of edit distances, and their distance by
NetworkX."""

from __future__ import annotations

import random
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, Literal

import networkx as nx

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject

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
    """A pair of graphs with ``objects`` objects, half again as many relations, and a colour for
    two objects in three."""
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
    """The distance with all costs 1 and texts that are equal or not. All predicates of an ordered
    pair stand on one edge, since it knows no parallel ones here."""
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
