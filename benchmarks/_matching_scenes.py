"""Scenes and what a model might have drawn of them, for the benchmark of matching."""

from __future__ import annotations

import random

from scenewright.core.scene import Relation, SceneGraph, SceneObject

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
    """A scene of ``objects`` with up to four attributes each and one and a half times as many
    relations."""
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
    """``scene`` as an extractor might see it in a picture: in another order, under other ids, an
    object in eight missing, a value in four and a predicate in three another, an edge in five
    missing."""
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
