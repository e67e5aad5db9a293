"""From a scene graph to the questions that check it.

Two protocols. ``scene-bench`` asks exactly as the paper does: by class label, one
yes/no question an object and one multiple-choice question a relation, fixed forms.
``grounded`` (the default) also tells several instances of a class apart, by counts
and by the smallest distinguishing attribute set, and shuffles options with a seed.
Attribute questions are an addition of ours in both (the paper has none).
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Iterable, Mapping
from typing import Literal

from scenewright.facts import Fact
from scenewright.scene import Relation, SceneGraph, SceneObject

Protocol = Literal["scene-bench", "grounded"]
PROTOCOLS: tuple[Protocol, ...] = ("scene-bench", "grounded")
NO_RELATION = "no visible relationship"

# Predicates that exclude each other: a wrong option must not be a second right one.
_RIVALS: tuple[tuple[str, ...], ...] = (
    ("left of", "right of", "above", "below"),
    ("to the left of", "to the right of", "above", "below"),
    ("in front of", "behind"),
    ("on", "under", "left of", "right of"),
    ("on top of", "underneath", "beside"),
    ("holding", "wearing", "riding", "inside"),
    ("near", "holding", "wearing", "inside"),
    ("kicking", "throwing", "holding", "catching"),
)
_FALLBACK = ("holding", "wearing", "riding", "inside", "behind", "eating", "pulling")


def article(phrase: str) -> str:
    """``a`` or ``an``, by the first letter of ``phrase``."""
    return "an" if phrase[:1].lower() in "aeiou" and not phrase.startswith("uni") else "a"


def noun_phrase(item: SceneObject, keys: Iterable[str] | None = None) -> str:
    """Attribute values (all, or those of ``keys``) before the class label: ``red metal box``."""
    chosen = item.attributes if keys is None else [k for k in item.attributes if k in set(keys)]
    return " ".join([*(item.attributes[key] for key in chosen), item.name])


def distinguishing_keys(scene: SceneGraph, item: SceneObject) -> tuple[str, ...] | None:
    """The smallest attribute set that no other instance of the class shares.

    Sizes 0, 1, 2, … in key order. None if no set of attributes tells ``item`` apart.
    """
    rivals = [o for o in scene.objects if o.name == item.name and o.id != item.id]
    keys = tuple(item.attributes)
    for size in range(len(keys) + 1):
        for subset in itertools.combinations(keys, size):
            if all(
                any(rival.attributes.get(k) != item.attributes[k] for k in subset)
                for rival in rivals
            ):
                return subset
    return None


def _referring_phrase(scene: SceneGraph, item: SceneObject) -> str:
    keys = distinguishing_keys(scene, item)
    if keys is None:
        return f"one of the {noun_phrase(item)}s"
    return f"the {noun_phrase(item, keys)}"


def rivals_of(predicate: str) -> tuple[str, ...]:
    """Predicates that cannot hold where ``predicate`` does: wrong options for its question."""
    found: list[str] = []
    for group in _RIVALS:
        if predicate in group:
            found.extend(other for other in group if other not in (predicate, *found))
    for other in _FALLBACK:
        if len(found) >= 3:
            break
        if other != predicate and other not in found:
            found.append(other)
    return tuple(found)


def _rng(*parts: object) -> random.Random:
    text = "\x1f".join(str(part) for part in parts)
    return random.Random(hashlib.sha256(text.encode()).digest())


def relation_options(predicate: str, shuffle_key: tuple[object, ...]) -> tuple[str, ...]:
    """Three predicates, the asked one among them, in an order drawn from ``shuffle_key``;
    then the paper's last option, :data:`NO_RELATION`."""
    rng = _rng(*shuffle_key, predicate)
    offered = [predicate, *rng.sample(rivals_of(predicate), 2)]
    rng.shuffle(offered)
    return (*offered, NO_RELATION)


def _object_question(scene: SceneGraph, item: SceneObject, protocol: Protocol) -> tuple[str, str]:
    """The question, and the statement for people."""
    same = [o for o in scene.objects if o.name == item.name]
    ordinal = [o.id for o in same].index(item.id) + 1
    if protocol == "scene-bench" or ordinal == 1:
        return f"Is there {article(item.name)} {item.name} in the image?", item.name
    return (
        f"Are there at least {ordinal} {item.name}s in the image?",
        f"{item.name} (number {ordinal})",
    )


def _attribute_question(scene: SceneGraph, item: SceneObject, key: str, protocol: Protocol) -> str:
    value = item.attributes[key]
    same = [o for o in scene.objects if o.name == item.name]
    if protocol == "scene-bench" or len(same) == 1:
        return f"Is the {item.name} {value}?"
    sharing = [o.id for o in same if o.attributes.get(key) == value]
    ordinal = sharing.index(item.id) + 1
    phrase = f"{value} {item.name}"
    if ordinal == 1:
        return f"Is there {article(phrase)} {phrase} in the image?"
    return f"Are there at least {ordinal} {phrase}s in the image?"


def _relation_fact(
    scene: SceneGraph,
    relation: Relation,
    items: Mapping[str, SceneObject],
    protocol: Protocol,
    seed: int,
) -> Fact:
    source, target = items[relation.source], items[relation.target]
    if protocol == "scene-bench":
        first, second = f"the {source.name}", f"the {target.name}"
        shuffle_key: tuple[object, ...] = (source.name, target.name)
    else:
        first, second = _referring_phrase(scene, source), _referring_phrase(scene, target)
        shuffle_key = (seed, relation.source, relation.target)
    return Fact(
        id=f"r:{relation.source}|{relation.predicate}|{relation.target}",
        kind="relation",
        subject=source.id,
        target=target.id,
        predicate=relation.predicate,
        parents=(f"o:{source.id}", f"o:{target.id}"),
        statement=f"{noun_phrase(source)} {relation.predicate} {noun_phrase(target)}",
        question=f"What is the relationship between {first} and {second} in the image?",
        options=relation_options(relation.predicate, shuffle_key),
        expected=relation.predicate,
    )


def facts_of(
    scene: SceneGraph, protocol: Protocol = "grounded", seed: int = 0
) -> tuple[Fact, ...]:
    """All facts of ``scene``: objects, then attributes, then relations, in the scene's order.

    Deterministic in (scene, protocol, seed); ``seed`` orders the options of the
    ``grounded`` protocol. Source: Scene-Bench Sec. 3.2.
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}: use one of {', '.join(PROTOCOLS)}")
    facts: list[Fact] = []
    for item in scene.objects:
        question, statement = _object_question(scene, item, protocol)
        facts.append(
            Fact(
                id=f"o:{item.id}",
                kind="object",
                subject=item.id,
                statement=statement,
                question=question,
            )
        )
    for item in scene.objects:
        for key, value in item.attributes.items():
            facts.append(
                Fact(
                    id=f"a:{item.id}:{key}",
                    kind="attribute",
                    subject=item.id,
                    key=key,
                    value=value,
                    parents=(f"o:{item.id}",),
                    statement=f"{item.name} is {value}",
                    question=_attribute_question(scene, item, key, protocol),
                )
            )
    items = {item.id: item for item in scene.objects}
    facts.extend(_relation_fact(scene, r, items, protocol, seed) for r in scene.relations)
    return tuple(facts)
