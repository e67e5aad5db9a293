"""Reference graphs of known layers, and graded damage of them: one edit after the other."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject

Element = Literal["node", "attribute", "edge"]
Way = Literal["delete", "add", "change"]
Layer = Literal["foreground", "background"]
ELEMENTS: tuple[Element, ...] = get_args(Element)
WAYS: tuple[Way, ...] = get_args(Way)
LAYERS: tuple[Layer, ...] = get_args(Layer)
MOST_EDITS = 6

_EACH = 8
"""Objects of each layer, and relations within it: two more than are ever damaged."""
_ACROSS = 4
"""Relations from the foreground to the background. With the others there are 16 objects and 20
relations, a little more than XTC-Bench's images have (10.5 and 16.8, Table 1)."""
_NAMES: dict[Layer, tuple[str, ...]] = {
    "foreground": ("person", "dog", "cat", "horse", "bicycle", "car", "bench", "umbrella",
                   "backpack", "suitcase", "skateboard", "kite", "bottle", "laptop"),
    "background": ("tree", "building", "fence", "mountain", "road", "river", "bridge", "wall",
                   "house", "cloud", "lamp post", "hill", "rock", "window"),
}  # fmt: skip
_NEW_NAMES = ("elephant", "guitar", "teapot", "anchor", "lantern", "cactus", "drum", "ladder")
_VALUES: dict[str, tuple[str, ...]] = {
    "color": ("red", "blue", "green", "yellow", "black", "white", "brown", "purple"),
    "material": ("wood", "metal", "stone", "glass", "plastic", "fabric"),
}
_NEW_KEY = "size"
_SIZES = ("small", "large", "tiny", "huge")
# Drawn into made-up graphs, whatever they mean.
_PREDICATES = ("on", "under", "next to", "behind", "in front of", "holding", "touching", "facing")


@dataclass(frozen=True, slots=True)
class Damage:
    """A kind of damage."""

    element: Element
    """What is damaged."""
    way: Way
    """How."""
    layer: Layer
    """Where: of an edge, both of its ends."""

    @property
    def key(self) -> str:
        """``node/delete/foreground``."""
        return f"{self.element}/{self.way}/{self.layer}"


DAMAGES: tuple[Damage, ...] = tuple(
    Damage(element, way, layer) for element in ELEMENTS for way in WAYS for layer in LAYERS
)
"""Every kind, as tables show them."""


@dataclass(frozen=True, slots=True)
class Layered:
    """A graph, and which of its objects are in the background."""

    scene: SceneGraph
    """The graph."""
    background: frozenset[str]
    """Object ids."""

    def inside(self, layer: Layer) -> list[str]:
        """Ids of the objects of ``layer``, in the graph's order."""
        behind = layer == "background"
        return [o.id for o in self.scene.objects if (o.id in self.background) == behind]


def reference_graph(seed: int) -> Layered:
    """A made-up graph of 16 objects, half of them in the background, and 20 relations.

    Every object has a colour, every second one a material; no object name stands in it more than
    twice. The same ``seed`` gives the same graph.
    """
    rng = random.Random(f"damage/{seed}")
    objects: list[SceneObject] = []
    ids: dict[Layer, list[str]] = {}
    for layer, names in _NAMES.items():
        ids[layer] = []
        for at, name in enumerate(rng.sample([*names, *names[:4]], _EACH)):
            number = 1 + sum(other.name == name for other in objects)
            said = {"color": rng.choice(_VALUES["color"])}
            if at % 2:
                said["material"] = rng.choice(_VALUES["material"])
            one = SceneObject(id=f"{name}.{number}", name=name, attributes=Attributes(said))
            objects.append(one)
            ids[layer].append(one.id)
    pairs = [pair for layer in LAYERS for pair in rng.sample(_pairs(ids[layer]), _EACH)]
    crossing = [(a, b) for a in ids["foreground"] for b in ids["background"]]
    pairs += rng.sample(crossing, _ACROSS)
    relations = tuple(
        Relation(source=a, predicate=rng.choice(_PREDICATES), target=b) for a, b in pairs
    )
    scene = SceneGraph(objects=tuple(objects), relations=relations)
    return Layered(scene, frozenset(ids["background"]))


def _pairs(ids: Sequence[str]) -> list[tuple[str, str]]:
    return [(a, b) for at, a in enumerate(ids) for b in ids[at + 1 :]]


def damaged(reference: Layered, damage: Damage, seed: int) -> Iterator[Layered]:
    """``reference``, then with one edit, with that and another, … up to :data:`MOST_EDITS`.

    Each edit is of another element. Deleting a node takes its relations with it; a node that is
    added is bare; a change gives another name, value or predicate that the graph has nowhere near.
    """
    rng = random.Random(f"{damage.key}/{seed}")
    steps = _STEPS[damage.element](reference, damage, rng)
    yield reference
    for _ in range(MOST_EDITS):
        yield next(steps)


def _nodes(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    targets = rng.sample(graph.inside(damage.layer), MOST_EDITS)
    names = rng.sample(_NEW_NAMES, MOST_EDITS)
    scene, behind = graph.scene, graph.background
    for target, name in zip(targets, names, strict=True):
        objects, relations = scene.objects, scene.relations
        if damage.way == "delete":
            objects = tuple(o for o in objects if o.id != target)
            relations = tuple(r for r in relations if target not in (r.source, r.target))
            behind = behind - {target}
        elif damage.way == "change":
            objects = tuple(
                o.model_copy(update={"name": name}) if o.id == target else o for o in objects
            )
        else:
            new = SceneObject(id=f"{name}.1", name=name)
            objects = (*objects, new)
            if damage.layer == "background":
                behind = behind | {new.id}
        scene = SceneGraph(objects=objects, relations=relations)
        yield Layered(scene, behind)


def _attributes(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    scene = graph.scene
    for target in rng.sample(graph.inside(damage.layer), MOST_EDITS):
        objects = []
        for one in scene.objects:
            if one.id == target:
                said = dict(one.attributes)
                if damage.way == "delete":
                    del said["color"]
                elif damage.way == "change":
                    others = [c for c in _VALUES["color"] if c != said["color"]]
                    said["color"] = rng.choice(others)
                else:
                    said[_NEW_KEY] = rng.choice(_SIZES)
                one = one.model_copy(update={"attributes": Attributes(said)})
            objects.append(one)
        scene = SceneGraph(objects=tuple(objects), relations=scene.relations)
        yield Layered(scene, graph.background)


def _edges(graph: Layered, damage: Damage, rng: random.Random) -> Iterator[Layered]:
    scene, inside = graph.scene, graph.inside(damage.layer)
    there = [r for r in scene.relations if r.source in inside and r.target in inside]
    targets = rng.sample(there, MOST_EDITS)
    taken = {(r.source, r.target) for r in scene.relations}
    new = rng.sample([pair for pair in _pairs(inside) if pair not in taken], MOST_EDITS)
    for target, (a, b) in zip(targets, new, strict=True):
        if damage.way == "add":
            more = Relation(source=a, predicate=rng.choice(_PREDICATES), target=b)
            relations = (*scene.relations, more)
        elif damage.way == "delete":
            relations = tuple(r for r in scene.relations if r != target)
        else:
            others = [p for p in _PREDICATES if p != target.predicate]
            changed = target.model_copy(update={"predicate": rng.choice(others)})
            relations = tuple(changed if r == target else r for r in scene.relations)
        scene = SceneGraph(objects=scene.objects, relations=relations)
        yield Layered(scene, graph.background)


_STEPS = {"node": _nodes, "attribute": _attributes, "edge": _edges}
