"""Seconds that matching scene graphs takes, beside the same definition written plainly.

``python -m benchmarks.matching [--quick] [--model FOLDER]``. Made-up scenes of 5, 10 and 20
objects, one and a half times as many relations and up to four attributes an object, each matched
with a damaged copy of itself.

- ``seconds_per_1000_pairs``: of 10 objects and 15 relations by the lexical similarity, the
  default where there is no sentence model.
- ``seconds_per_1000_pairs.SIMILARITY.N``: :func:`match_many` on one process, texts compared
  included, nothing remembered from before. ``sentences`` is the sentence model, where one is on
  this machine: ``first`` encodes every text, ``kept`` finds the vectors in the store.
- ``ratio.SIMILARITY.N``: seconds of the plain Python and scipy implementation
  (:func:`plain_match`: one pair of objects at a time, every assignment by scipy; it is the oracle
  of the tests as well) over ours, on the same pairs in the same run; it remembers
  the likeness of texts too.
- ``largest_difference``: between the two in the total likeness of a pair of graphs.
- ``otherwise_directed.SIMILARITY.N``: share of the matched objects that get another partner where
  an edge that leaves an object is never taken for one that enters it.

Spread: 95% bootstrap interval over repeats, each with scenes of its own.
"""

from __future__ import annotations

import random
import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from benchmarks._harness import Clock, Option, benchmark, interval, intervals
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.embeddings import (
    DEFAULT_MODEL,
    SentenceSimilarity,
    find_sentence_model,
)
from scenewright.evals.metrics.graph_matching.matching import match_many
from scenewright.evals.metrics.graph_matching.text_similarity import (
    ExactSimilarity,
    LexicalSimilarity,
    TextSimilarity,
    attribute_texts,
    folded,
)

Alike = Callable[[str, str], float]
"""How alike two texts are."""


def of_attributes(one: SceneObject, other: SceneObject, alike: Alike) -> float:
    """Return mean over the union of keys; 1 without any."""
    left, right = attribute_texts(one.attributes), attribute_texts(other.attributes)
    keys = {*left, *right}
    if not keys:
        return 1.0
    return sum(
        alike(left[key], right[key]) if key in left and key in right else 0.0 for key in keys
    ) / len(keys)


def words(scene: SceneGraph, edge: Relation) -> str:
    """Return the text of an edge: source label, relation, target label."""
    source, target = scene.object(edge.source), scene.object(edge.target)
    return f"{folded(source.name)} {folded(edge.predicate)} {folded(target.name)}"


def of_two_edges(a: SceneGraph, e: Relation, b: SceneGraph, f: Relation, alike: Alike) -> float:
    """Eq. 3."""
    ends = sum(
        of_attributes(a.object(x), b.object(y), alike)
        for x, y in ((e.source, f.source), (e.target, f.target))
    )
    return 0.4 * alike(words(a, e), words(b, f)) + 0.6 * ends / 2


def assigned(costs: list[list[float]]) -> list[tuple[int, int]]:
    """Return the Hungarian algorithm's pairs."""
    rows, columns = linear_sum_assignment(np.array(costs))
    return list(zip(rows.tolist(), columns.tolist(), strict=True))


def of_edges(
    a: SceneGraph, u: str, b: SceneGraph, v: str, alike: Alike, published: bool = True
) -> float | None:
    """Return how alike the edges at two objects are; None where neither has any."""
    mine = [e for e in a.relations if u in (e.source, e.target)]
    theirs = [e for e in b.relations if v in (e.source, e.target)]
    if not mine and not theirs:
        return None
    if not mine or not theirs:
        return 0.0
    table = [
        [
            of_two_edges(a, e, b, f, alike)
            if published or (e.source == u) == (f.source == v)
            else 0
            for f in theirs
        ]
        for e in mine
    ]
    total = sum(table[i][j] for i, j in assigned([[1 - value for value in row] for row in table]))
    return total / (min if published else max)(len(mine), len(theirs))


def of_objects(
    a: SceneGraph,
    u: SceneObject,
    b: SceneGraph,
    v: SceneObject,
    alike: Alike,
    published: bool = True,
) -> float:
    """Eq. 2 with 0.7 and 0.3."""
    attributes = of_attributes(u, v, alike)
    edges = of_edges(a, u.id, b, v.id, alike, published)
    return attributes if edges is None else 0.7 * attributes + 0.3 * edges


def plain_match(
    a: SceneGraph, b: SceneGraph, alike: Alike, published: bool = True
) -> list[tuple[str, str, float]]:
    """Return (id, id, likeness) of the matched objects, label by label."""
    found = []
    for label in dict.fromkeys(folded(item.name) for item in a.objects):
        ours = [item for item in a.objects if folded(item.name) == label]
        theirs = [item for item in b.objects if folded(item.name) == label]
        if theirs:
            table = [[of_objects(a, u, b, v, alike, published) for v in theirs] for u in ours]
            for i, j in assigned([[1 - value for value in row] for row in table]):
                found.append((ours[i].id, theirs[j].id, table[i][j]))
    return found


LABELS = (
    *("person", "person", "person", "dog", "cat", "car", "chair", "chair", "table", "bottle"),
    *("cup", "tree", "tree", "bench", "bicycle", "umbrella", "book", "ball", "boat", "horse"),
)
"""Some more often than others, as in photos."""
VALUES = {
    "color": ("red", "dark red", "blue", "light blue", "green", "white", "black", "gray", "brown"),
    "material": ("wood", "wooden", "metal", "plastic", "glass", "stone", "leather"),
    "size": ("small", "big", "large", "tiny"),
    "body position": ("standing", "sitting", "lying", "running", "walking"),
    "pattern type": ("striped", "plain", "spotted", "checkered"),
}
PREDICATES = (
    *("on", "under", "left of", "right of", "near", "next to", "behind", "in front of", "holding"),
    *("carrying", "sitting on", "standing on", "looking at", "riding", "leaning on", "beside"),
)


def scene(rng: random.Random, objects: int) -> SceneGraph:
    """Return a scene of ``objects`` with half again as many relations.

    Each object has up to four attributes.
    """
    items = []
    for at in range(objects):
        keys = rng.sample(sorted(VALUES), rng.randint(0, 4))
        values = {key: rng.choice(VALUES[key]) for key in keys}
        items.append(SceneObject(id=f"o{at}", name=rng.choice(LABELS), attributes=values))
    relations: set[tuple[str, str, str]] = set()
    while len(relations) < objects * 3 // 2:
        source, target = rng.sample(items, 2)
        relations.add((source.id, rng.choice(PREDICATES), target.id))
    return SceneGraph(objects=tuple(items), relations=_relations(sorted(relations)))


def drawn(rng: random.Random, scene: SceneGraph) -> SceneGraph:
    """Return ``scene`` as an extractor might see it in a picture.

    In another order, under other ids, an object in eight missing, a value in four and a predicate
    in three another, an edge in five missing.
    """
    kept = [item for item in scene.objects if rng.random() > 1 / 8] or [scene.objects[0]]
    rng.shuffle(kept)
    ids = {item.id: f"s{at}" for at, item in enumerate(kept)}
    items = tuple(
        SceneObject(
            id=ids[item.id],
            name=item.name,
            attributes={
                key: rng.choice(VALUES[key]) if rng.random() < 1 / 4 else value
                for key, value in item.attributes.items()
            },
        )
        for item in kept
    )
    relations = {
        (
            ids[relation.source],
            rng.choice(PREDICATES) if rng.random() < 1 / 3 else relation.predicate,
            ids[relation.target],
        )
        for relation in scene.relations
        if relation.source in ids and relation.target in ids and rng.random() > 1 / 5
    }
    return SceneGraph(objects=items, relations=_relations(sorted(relations)))


def _relations(triples: list[tuple[str, str, str]]) -> tuple[Relation, ...]:
    return tuple(Relation(source=s, predicate=p, target=t) for s, p, t in triples)


SIZES = (5, 10, 20)
Pairs = list[tuple[SceneGraph, SceneGraph]]


def scenes(objects: int, pairs: int, seed: int) -> Pairs:
    """Return scenes, each with a damaged copy."""
    rng = random.Random(f"{objects}:{seed}")
    found = []
    for _ in range(pairs):
        whole = scene(rng, objects)
        found.append((whole, drawn(rng, whole)))
    return found


def plainly(pairs: Pairs, similarity: TextSimilarity) -> list[float]:
    """Return total likeness of each pair by the plain implementation."""
    known: dict[tuple[str, str], float] = {}

    def alike(left: str, right: str) -> float:
        if (left, right) not in known:
            known[left, right] = float(similarity.similarities([(left, right)])[0])
        return known[left, right]

    return [sum(value for *_, value in plain_match(*pair, alike)) for pair in pairs]


def timed(work: Callable[..., Any], *given: Any) -> tuple[float, Any]:
    """Return seconds, and what came of it."""
    with (clock := Clock()):
        found = work(*given)
    return clock.wall, found


def compared(
    make: Callable[[], TextSimilarity], objects: int, pairs: int, plain: int, repeats: int
) -> dict[str, Any]:
    """Return figures of one similarity and size."""
    rows: list[dict[str, float]] = []
    differences = [0.0]
    for seed in range(repeats):
        given = scenes(objects, pairs, seed)
        took, matches = timed(match_many, given, make())
        ours, _ = timed(match_many, given[:plain], make())
        theirs, totals = timed(plainly, given[:plain], make())
        differences += [
            abs(total - sum(node.similarity for node in match.nodes))
            for total, match in zip(totals, matches, strict=False)
        ]
        others = match_many(given, make(), edges="directed")
        maps = [(one.mapping, other.mapping) for one, other in zip(matches, others, strict=True)]
        changed = sum(there.get(key) != seen for here, there in maps for key, seen in here.items())
        rows.append(
            {
                "seconds_per_1000_pairs": took * 1000 / pairs,
                "ratio": theirs / ours,
                "otherwise_directed": changed / sum(len(match.nodes) for match in matches),
            }
        )
    return intervals(rows) | {"difference": max(differences)}


def sentences(model: str, objects: int, pairs: int, repeats: int) -> dict[str, Any]:
    """Return seconds with the sentence model: the first time, and with all vectors in the store."""
    first, kept = [], []
    loaded = SentenceSimilarity(model)
    loaded.similarities([("a", "b")])
    for seed in range(repeats):
        given = scenes(objects, pairs, seed)
        with tempfile.TemporaryDirectory() as folder:
            store = Path(folder) / "vectors.sqlite"
            fresh = SentenceSimilarity(model, store=store)
            # The network is loaded once in a process, and not what is measured.
            fresh.__dict__["_model"] = loaded._model
            first.append(timed(match_many, given, fresh)[0] * 1000 / pairs)
            again = SentenceSimilarity(model, store=store)
            _ = again.id
            kept.append(timed(match_many, given, again)[0] * 1000 / pairs)
    return {"first": interval(first), "kept": interval(kept)}


@benchmark(
    "fewer pairs",
    measures=("scenewright.evals.metrics.graph_matching",),
    model=Option(DEFAULT_MODEL, "sentence model: name or folder"),
)
def main(options: Namespace) -> tuple[int, dict[str, Any]]:
    """Measure all similarities."""
    pairs, plain, repeats = (100, 10, 2) if options.quick else (1000, 100, 10)
    figures: dict[str, Any] = {}
    difference = 0.0
    made: dict[str, Callable[[], TextSimilarity]] = {
        "lexical": LexicalSimilarity,
        "exact": ExactSimilarity,
    }
    for name, make in made.items():
        for objects in SIZES:
            found = compared(make, objects, pairs, plain, repeats)
            difference = max(difference, found.pop("difference"))
            figures |= {f"{key}.{name}.{objects}": value for key, value in found.items()}
    figures["largest_difference"] = difference
    figures["seconds_per_1000_pairs"] = figures["seconds_per_1000_pairs.lexical.10"]
    if find_sentence_model(options.model) is None:
        print(f"no sentence model {options.model} on this machine: not measured")
        return pairs, figures
    few = max(10, pairs // 10)
    for objects in SIZES[:1] if options.quick else SIZES:
        for key, value in sentences(options.model, objects, few, min(repeats, 3)).items():
            figures[f"seconds_per_1000_pairs.sentences.{key}.{objects}"] = value
    return pairs, figures


if __name__ == "__main__":
    main()
