"""From the tuples of a prompt to its scene graph, and what each tuple says of it.

- An entity is an object. Its owner is left off its label, and is related to it by *has* if it is an
  object of the scene too: ``man's hat`` gives ``man has hat``.
- ``other - count (dogs, ==3)`` makes three objects ``dog``; *few* and *several* make none.
- An attribute is one of its object, under its kind as key; those that say how the picture is made
  are left off (:data:`~scenewright.core.formats.published_questions.ASIDE`).
- A relation joins two objects; of several instances they take part in turn. An action without an
  object (``relation - action (dog, run)``) is an attribute, its state.
- A thing that is named in an attribute or relation alone becomes an object as well.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from scenewright.agents.parsers.tagging import NUMBERS
from scenewright.core.facts import FactKind
from scenewright.core.formats.base import numbered
from scenewright.core.formats.published_questions import ASIDE, Proposition, label, owner
from scenewright.core.inflection import singular
from scenewright.core.scene import (
    MAX_NAME_LENGTH,
    Attributes,
    Relation,
    SceneGraph,
    SceneObject,
    clean_name,
)

WHOLE = "image"
"""Subject of a fact about the picture as a whole."""
MOST_INSTANCES = 12
"""Of a larger number of things one object is made: no picture is asked for each of them."""
_NUMBER = re.compile(r"_[0-9]+$")


@dataclass(slots=True)
class _Thing:
    name: str
    count: int = 1
    attributes: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Said:
    """What a tuple says, before things have ids."""

    kind: FactKind
    subject: _Thing | None = None
    target: _Thing | None = None
    predicate: str | None = None
    key: str | None = None
    value: str | None = None
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a tuple says of the scene: fields of a :class:`~scenewright.core.facts.Fact`."""

    kind: FactKind
    subject: str
    statement: str
    target: str | None = None
    predicate: str | None = None
    key: str | None = None
    value: str | None = None


class _Reading:
    def __init__(self) -> None:
        self.things: dict[str, _Thing] = {}
        self.relations: dict[tuple[int, str, int], tuple[_Thing, str, _Thing]] = {}

    def thing(self, text: str) -> _Thing:
        """The thing that ``text`` names; a new one if none is named so yet."""
        found = self.things.get(text.casefold()) or self._alike(text)
        return found or self._new(text)

    def _new(self, text: str) -> _Thing:
        name = _NUMBER.sub("", label(text)).strip() or text
        thing = self.things[text.casefold()] = _Thing(name[:MAX_NAME_LENGTH])
        return thing

    def _alike(self, text: str) -> _Thing | None:
        plain = label(text).casefold()
        for wanted in (plain, singular(plain)):
            for key, thing in self.things.items():
                own = _NUMBER.sub("", label(key))
                if wanted in (own, singular(own)) and not (owner(text) and owner(key)):
                    return thing
        return next((t for key, t in self.things.items() if plain.endswith(f" {label(key)}")), None)

    def read(self, said: Proposition) -> _Said:
        """Take ``said`` into the scene."""
        parts = said.parts
        words = ", ".join(parts)
        if _is_entity(said):
            return self._entity(words)
        if said.broad in ("relation", "action") and len(parts) > 2:
            return self._relation(parts[0], " ".join(parts[2:]), parts[1])
        if said.broad in ("entity", "attribute", "relation", "action") and len(parts) > 1:
            key = said.kind if said.broad in ("entity", "attribute") else "state"
            return self._attribute(parts[0], key or "state", ", ".join(parts[1:]))
        if said.broad == "other" and said.kind == "count" and len(parts) == 2:
            return self._count(parts[0], parts[1].lstrip("=<> ").lower())
        if said.broad == "other" and len(parts) > 1:
            subject, value = self.thing(parts[0]), ", ".join(parts[1:])
            return _Said(
                "attribute", subject, key=said.kind, value=value, statement=f"{parts[0]}: {value}"
            )
        return _Said("attribute", key=said.broad, value=words, statement=words)

    def _entity(self, text: str) -> _Said:
        thing = self.things.get(text.casefold()) or self._new(text)
        return _Said("object", thing, statement=text)

    def join_parts(self) -> None:
        """Relate each thing that is named with its owner to it, if it is a thing too."""
        for text, thing in list(self.things.items()):
            whose = owner(text)
            holder = self._alike(whose) if whose else None
            if holder is not None and holder is not thing:
                self.relations[id(holder), "has", id(thing)] = (holder, "has", thing)

    def _attribute(self, text: str, key: str, value: str) -> _Said:
        thing = self.thing(text)
        if key not in ASIDE:
            for part in re.split(r"\s+and\s+|\s*,\s*", value):
                held = thing.attributes.setdefault(key, [])
                if part and part not in held:
                    held.append(part)
        return _Said("attribute", thing, key=key, value=value, statement=f"{thing.name}: {value}")

    def _relation(self, source: str, predicate: str, target: str) -> _Said:
        one, other = self.thing(source), self.thing(target)
        if one is not other:
            self.relations.setdefault((id(one), predicate, id(other)), (one, predicate, other))
        return _Said(
            *("relation", one, other, predicate),
            statement=f"{one.name} {predicate} {other.name}",
        )

    def _count(self, text: str, number: str) -> _Said:
        thing = self.thing(text)
        known = int(number) if number.isdecimal() else NUMBERS.get(number, 0)
        if 1 < known <= MOST_INSTANCES:
            thing.count, thing.name = known, singular(thing.name)
        return _Said("object", thing, key="count", value=number, statement=f"{number} {text}")


def _is_entity(said: Proposition) -> bool:
    return said.broad == "entity" and (said.kind in ("whole", "part") or len(said.parts) == 1)


def scene_of_tuples(
    propositions: list[Proposition | None],
) -> tuple[SceneGraph | None, list[Meaning | None]]:
    """The scene of ``propositions`` and what each of them says of it (none where it is none).

    There is no scene where no proposition names a thing.
    """
    reading = _Reading()
    # Things first: a relation may come before the entities that it joins.
    said: list[_Said | None] = [None] * len(propositions)
    for first in (True, False):
        for at, given in enumerate(propositions):
            if given is not None and _is_entity(given) == first:
                said[at] = reading.read(given)
        if first:
            reading.join_parts()
    ids = _ids(reading)
    meanings = [None if each is None else _meaning(each, ids) for each in said]
    return _scene(reading, ids), meanings


def _ids(reading: _Reading) -> dict[int, list[str]]:
    things = list(reading.things.values())
    fresh = iter(numbered(thing.name for thing in things for _ in range(thing.count)))
    return {id(thing): [next(fresh) for _ in range(thing.count)] for thing in things}


def _meaning(said: _Said, ids: dict[int, list[str]]) -> Meaning:
    return Meaning(
        kind=said.kind,
        subject=ids[id(said.subject)][0] if said.subject is not None else WHOLE,
        statement=said.statement,
        target=ids[id(said.target)][0] if said.target is not None else None,
        predicate=said.predicate,
        key=said.key,
        value=said.value,
    )


def _scene(reading: _Reading, ids: dict[int, list[str]]) -> SceneGraph | None:
    objects = tuple(
        SceneObject(
            id=name,
            name=thing.name,
            attributes=Attributes(
                {key: " and ".join(values) for key, values in thing.attributes.items() if values}
            ),
        )
        for thing in reading.things.values()
        for name in ids[id(thing)]
    )
    relations: dict[Relation, None] = {}
    for source, predicate, target in reading.relations.values():
        ones, others = ids[id(source)], ids[id(target)]
        for at in range(max(len(ones), len(others))):
            one, other = ones[at % len(ones)], others[at % len(others)]
            named = clean_name(predicate, "a predicate")
            relations[Relation(source=one, predicate=named, target=other)] = None
    return SceneGraph(objects=objects, relations=tuple(relations)) if objects else None
