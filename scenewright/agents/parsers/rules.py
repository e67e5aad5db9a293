"""From a caption to a scene graph by rules: offline, deterministic, no model.

:func:`parse_caption` reads plain English descriptions. The steps: style is set aside
(:mod:`.style`), words are tagged (:mod:`.tagging`), noun phrases become mentions
(:mod:`.mentions`), clauses become attributes and relations (:mod:`.clauses`).
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from scenewright.agents.parsers.clauses import Clause
from scenewright.agents.parsers.mentions import MOST_INSTANCES, items
from scenewright.agents.parsers.style import without_style
from scenewright.agents.parsers.tagging import sentences, tag, without_frames
from scenewright.agents.parsers.things import Thing, Things
from scenewright.core.formats.base import numbered
from scenewright.core.scene import (
    MAX_NAME_LENGTH,
    MAX_OBJECTS,
    MAX_RELATIONS,
    Relation,
    SceneError,
    SceneGraph,
    SceneObject,
)

MAX_CHARACTERS = 5_000


class CaptionError(SceneError):
    """A caption without anything that can be drawn: says what a caption looks like."""


def parse_caption(text: str) -> SceneGraph:
    """The scene that an English caption describes.

    Objects are instances: "three dogs" are ``dog.1`` to ``dog.3``, a plural without a number
    two, "several" and "a group of" three, and no number more than
    :data:`~scenewright.agents.parsers.mentions.MOST_INSTANCES`. Attribute keys are ``color``,
    ``size``, ``material``, ``shape``, ``texture``, ``age``, ``gender``, ``state``, ``type``,
    ``place`` (where in the picture) and ``text`` (what is written on it). A relation of several
    holds for each of them. Phrases of style are left out.

    >>> [str(r) for r in parse_caption("a man wearing a red hat and holding an umbrella").relations]
    ['man.1 wearing hat.1', 'man.1 holding umbrella.1']

    Raises ``CaptionError`` if the caption names no object or is too long.
    """
    if len(text) > MAX_CHARACTERS:
        raise CaptionError(
            f"the caption has {len(text)} characters, the limit is {MAX_CHARACTERS}: "
            "describe one picture"
        )
    things = Things()
    for words, said in sentences(text):
        plain = without_style(without_frames(words))
        Clause(things).read(items(tag(plain, said)))
    scene = _scene(things)
    if not scene.objects:
        raise CaptionError(
            "the caption names no object: describe what is to be seen, for example "
            "'a red ball on a wooden table'"
        )
    return scene


def _scene(things: Things) -> SceneGraph:
    kept: list[Thing] = []
    room = MAX_OBJECTS
    for thing in things.all:
        name = _clean(thing.name)
        if name and room:
            thing.name = name
            thing.least = min(thing.least, MOST_INSTANCES, room)
            room -= thing.least
            kept.append(thing)
    ids = iter(numbered(thing.name for thing in kept for _ in range(thing.least)))
    instances = {id(thing): [next(ids) for _ in range(thing.least)] for thing in kept}
    relations: dict[Relation, None] = {}
    for source, predicate, target in things.relations.values():
        said = _clean(predicate)
        for one, other in _pairs(instances.get(id(source), []), instances.get(id(target), [])):
            if said and len(relations) < MAX_RELATIONS:
                relations[Relation(source=one, predicate=said, target=other)] = None
    return SceneGraph(
        objects=tuple(
            SceneObject(id=name, name=thing.name, attributes=attributes)
            for thing in kept
            for attributes in [_attributes(thing)]
            for name in instances[id(thing)]
        ),
        relations=tuple(relations),
    )


def _attributes(thing: Thing) -> dict[str, str]:
    joined = {key: _clean(" and ".join(values)) for key, values in thing.attributes.items()}
    return {key: value for key, value in joined.items() if value}


def _pairs(sources: Sequence[str], targets: Sequence[str]) -> list[tuple[str, str]]:
    """Each with each where one side is single; else in turn, so that all take part."""
    if not sources or not targets:
        return []
    count = max(len(sources), len(targets))
    return [(sources[at % len(sources)], targets[at % len(targets)]) for at in range(count)]


def _clean(text: str) -> str:
    """``text`` as a name that a scene can hold; empty if nothing is left."""
    composed = unicodedata.normalize("NFC", text)
    printable = "".join(char for char in composed if char.isprintable())
    return " ".join(printable.split())[:MAX_NAME_LENGTH].strip()
