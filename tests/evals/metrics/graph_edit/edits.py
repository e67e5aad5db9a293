"""Small scene graphs, likenesses and damage for the tests of edit distances; and the distance by
brute force, straight from its definition."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import networkx as nx
import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_edit import EditCosts
from tests.strategies import settings  # noqa: F401  (loads the profile)

LABELS = ("dog", "cat", "tree")
KEYS = {"color": ("red", "blue"), "size": ("big", "small")}
PREDICATES = ("on", "near", "left of")


class Graded:
    """A likeness of any two texts, arbitrary but fixed: in quarters, 1 for equal ones."""

    id = "graded@1"

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.asked += pairs
        return np.array([self.of(a, b) for a, b in pairs])

    @staticmethod
    def of(a: str, b: str) -> float:
        if a == b:
            return 1.0
        return zlib.crc32("|".join(sorted((a, b))).encode()) % 4 / 4


@st.composite
def graphs(draw: st.DrawFn, most: int = 4, relations: int = 6) -> SceneGraph:
    """Few words, so that objects are alike; parallel relations occur."""
    count = draw(st.integers(0, most))
    objects = tuple(
        SceneObject(
            id=f"o{at}",
            name=draw(st.sampled_from(LABELS)),
            attributes=Attributes(
                {k: draw(st.sampled_from(v)) for k, v in KEYS.items() if draw(st.booleans())}
            ),
        )
        for at in range(count)
    )
    triples = [(a.id, p, b.id) for a, b in itertools.permutations(objects, 2) for p in PREDICATES]
    chosen = (
        draw(st.lists(st.sampled_from(triples), max_size=relations, unique=True))
        if (triples)
        else []
    )
    return SceneGraph(
        objects=objects,
        relations=tuple(Relation(source=a, predicate=p, target=b) for a, p, b in chosen),
    )


@st.composite
def weighted(draw: st.DrawFn, most: int = 4) -> tuple[SceneGraph, dict[str, float]]:
    """A graph, and a weight for each of its objects."""
    scene = draw(graphs(most))
    return scene, {o.id: draw(st.sampled_from([0.25, 0.5, 1.0])) for o in scene.objects}


def shuffled(scene: SceneGraph, seed: int) -> tuple[SceneGraph, dict[str, str]]:
    """The same graph with other ids in another order; and old id → new id."""
    rng = random.Random(seed)
    objects, relations = list(scene.objects), list(scene.relations)
    rng.shuffle(objects)
    rng.shuffle(relations)
    names = {item.id: f"x{at}" for at, item in enumerate(objects)}
    return (
        SceneGraph(
            objects=tuple(o.model_copy(update={"id": names[o.id]}) for o in objects),
            relations=tuple(
                Relation(source=names[r.source], predicate=r.predicate, target=names[r.target])
                for r in relations
            ),
        ),
        names,
    )


def equal(a: str, b: str) -> float:
    return float(a == b)


def pair_cost(
    mine: Sequence[str], theirs: Sequence[str], a: float, b: float, alike: Any = equal
) -> float:
    """Cheapest turning of texts of mass ``a`` each into texts of mass ``b`` each."""
    if len(mine) > len(theirs):
        mine, theirs, a, b = theirs, mine, b, a
    return min(
        sum(
            a + b - 2 * alike(x, theirs[at]) * min(a, b) for x, at in zip(mine, chosen, strict=True)
        )
        + b * (len(theirs) - len(mine))
        for chosen in itertools.permutations(range(len(theirs)), len(mine))
    )


def node_cost(
    one: SceneObject, other: SceneObject, a: float, b: float, costs: EditCosts, alike: Any = equal
) -> float:
    found = pair_cost([one.name], [other.name], a * costs.node, b * costs.node, alike)
    for key in {*one.attributes, *other.attributes}:
        mine = [one.attributes[key]] if key in one.attributes else []
        theirs = [other.attributes[key]] if key in other.attributes else []
        found += pair_cost(mine, theirs, a * costs.attribute, b * costs.attribute, alike)
    return found


def alone(item: SceneObject, weight: float, costs: EditCosts) -> float:
    return weight * (costs.node + costs.attribute * len(item.attributes))


def predicates(scene: SceneGraph) -> dict[tuple[str, str], list[str]]:
    found: dict[tuple[str, str], list[str]] = {}
    for r in scene.relations:
        found.setdefault((r.source, r.target), []).append(r.predicate)
    return found


def brute_force(
    first: SceneGraph,
    second: SceneGraph,
    weights: tuple[Mapping[str, float], Mapping[str, float]],
    costs: EditCosts,
    alike: Any = equal,
) -> float:
    """The cheapest of all partial mappings of objects."""
    mine, theirs = predicates(first), predicates(second)

    def mass(ends: tuple[str, str], side: int) -> float:
        return costs.edge * sum(weights[side].get(end, 1.0) for end in ends) / 2

    def cost(mapping: dict[str, str]) -> float:
        total = 0.0
        for item in first.objects:
            a = weights[0].get(item.id, 1.0)
            if item.id in mapping:
                other = second.object(mapping[item.id])
                b = weights[1].get(other.id, 1.0)
                total += node_cost(item, other, a, b, costs, alike)
            else:
                total += alone(item, a, costs)
        for item in second.objects:
            if item.id not in mapping.values():
                total += alone(item, weights[1].get(item.id, 1.0), costs)
        left = dict(theirs)
        for ends, words in mine.items():
            image = (mapping.get(ends[0], ""), mapping.get(ends[1], ""))
            found = left.pop(image, [])
            b = mass(image, 1) if found else 0.0
            total += pair_cost(words, found, mass(ends, 0), b, alike)
        return total + sum(mass(ends, 1) * len(words) for ends, words in left.items())

    ids = [item.id for item in first.objects]
    targets = [item.id for item in second.objects]
    return min(
        cost(dict(zip(kept, image, strict=True)))
        for size in range(min(len(ids), len(targets)) + 1)
        for kept in itertools.combinations(ids, size)
        for image in itertools.permutations(targets, size)
    )


def by_networkx(
    first: SceneGraph,
    second: SceneGraph,
    weights: tuple[Mapping[str, float], Mapping[str, float]],
    costs: EditCosts,
    alike: Any = equal,
) -> float:
    """The same by NetworkX, up to 1e-5: all predicates of an ordered pair on one edge.

    Where a substitution costs as much as a deletion and an insertion, NetworkX 3.6 may miss the
    cheapest path (its issue 8099): it may never try the substitution. So it is told a little less.
    """
    made = []
    for scene, given in zip((first, second), weights, strict=True):
        graph = nx.DiGraph()
        for item in scene.objects:
            graph.add_node(item.id, item=item, weight=given.get(item.id, 1.0))
        for (a, b), words in predicates(scene).items():
            mass = costs.edge * (given.get(a, 1.0) + given.get(b, 1.0)) / 2
            graph.add_edge(a, b, words=words, mass=mass)
        made.append(graph)
    found = nx.graph_edit_distance(
        *made,
        node_subst_cost=lambda a, b: (
            node_cost(a["item"], b["item"], a["weight"], b["weight"], costs, alike) - 1e-7
        ),
        node_del_cost=lambda a: alone(a["item"], a["weight"], costs),
        node_ins_cost=lambda a: alone(a["item"], a["weight"], costs),
        edge_subst_cost=lambda a, b: pair_cost(a["words"], b["words"], a["mass"], b["mass"], alike),
        edge_del_cost=lambda a: a["mass"] * len(a["words"]),
        edge_ins_cost=lambda a: a["mass"] * len(a["words"]),
    )
    return float(found)


def random_graph(rng: random.Random, objects: int, relations: int) -> SceneGraph:
    """With few words, as of pictures."""
    ids = [f"o{at}" for at in range(objects)]
    triples: set[tuple[str, str, str]] = set()
    while len(triples) < relations:
        a, b = rng.sample(ids, 2)
        triples.add((a, rng.choice(PREDICATES), b))
    return SceneGraph(
        objects=tuple(
            SceneObject(
                id=name,
                name=rng.choice(LABELS),
                attributes=Attributes(
                    {k: rng.choice(v) for k, v in KEYS.items() if rng.random() < 0.5}
                ),
            )
            for name in ids
        ),
        relations=tuple(Relation(source=a, predicate=p, target=b) for a, p, b in sorted(triples)),
    )


def damages(scene: SceneGraph, rng: random.Random) -> list[tuple[str, Any]]:
    """Edits of ``scene``, each element touched once at most, in any order; what is new is found
    nowhere in it. Nothing is added to an object that goes."""
    gone = {o.id for o in scene.objects if rng.random() < 0.25}
    steps: list[tuple[str, Any]] = [("delete object", name) for name in gone]
    for item in scene.objects:
        if item.id in gone:
            continue
        if rng.random() < 0.3:
            steps.append(("change label", item.id))
        for key in item.attributes:
            if rng.random() < 0.6:
                kind = rng.choice(["delete attribute", "change attribute"])
                steps.append((kind, (item.id, key)))
        if rng.random() < 0.3:
            steps.append(("add attribute", item.id))
    for relation in scene.relations:
        if relation.source in gone or relation.target in gone or rng.random() < 0.4:
            continue
        steps.append((rng.choice(["delete relation", "change relation"]), relation))
    left = [o.id for o in scene.objects if o.id not in gone]
    if len(left) > 1:
        steps.append(("add relation", tuple(rng.sample(left, 2))))
    steps.append(("add object", None))
    rng.shuffle(steps)
    return steps


def damaged(scene: SceneGraph, step: tuple[str, Any], number: int) -> SceneGraph:
    """``scene`` after one edit; ``number`` makes what is new differ from all else."""
    kind, what = step
    new = f"new {number}"
    objects = {o.id: o for o in scene.objects}
    relations = list(scene.relations)
    if kind == "delete object":
        del objects[what]
        relations = [r for r in relations if what not in (r.source, r.target)]
    elif kind == "add object":
        objects[new] = SceneObject(id=new, name=new)
    elif kind == "change label":
        objects[what] = objects[what].model_copy(update={"name": new})
    elif kind == "add attribute":
        own = {**objects[what].attributes, new: new}
        objects[what] = objects[what].model_copy(update={"attributes": Attributes(own)})
    elif kind in ("delete attribute", "change attribute"):
        name, key = what
        own = dict(objects[name].attributes)
        if kind == "delete attribute":
            del own[key]
        else:
            own[key] = new
        objects[name] = objects[name].model_copy(update={"attributes": Attributes(own)})
    elif kind == "add relation":
        relations.append(Relation(source=what[0], predicate=new, target=what[1]))
    else:
        relations.remove(what)
        if kind == "change relation":
            relations.append(what.model_copy(update={"predicate": new}))
    return SceneGraph(objects=tuple(objects.values()), relations=tuple(relations))
