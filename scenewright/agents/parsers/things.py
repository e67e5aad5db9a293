"""What a caption has named so far: things, their attributes, and relations between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from scenewright.agents.parsers.lexicon import (
    PEOPLE_PRONOUNS,
    PLURAL_PRONOUNS,
    THING_PRONOUNS,
    is_animate,
)
from scenewright.agents.parsers.mentions import Mention
from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS

_MEMORY = 40
"""How many of the last things a pronoun or a shortened label can mean."""


@dataclass(slots=True, eq=False)
class Thing:
    """Something named: one class label with the number of its instances."""

    name: str
    """The class label, in the singular."""
    least: int = 1
    """The least number of instances that the words promise."""
    attributes: dict[str, list[str]] = field(default_factory=dict)
    """Attribute key → values, in the order of the words."""

    def add(self, key: str, value: str) -> None:
        """Add an attribute value; one that is there already is not repeated."""
        values = self.attributes.setdefault(key, [])
        if value not in values:
            values.append(value)

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name)


class Things:
    """Everything a caption names, in order of first mention."""

    def __init__(self) -> None:
        self.all: list[Thing] = []
        self.relations: dict[tuple[int, str, int], tuple[Thing, str, Thing]] = {}
        self._subjects: list[Thing] = []
        self._named: dict[str, list[Thing]] = {}

    def relate(self, source: Thing, predicate: str, target: Thing) -> None:
        """Add a relation; of a thing to itself, or one that is there already, none."""
        if source is not target and len(self.relations) < MAX_RELATIONS:
            self.relations[(id(source), predicate, id(target))] = (source, predicate, target)

    def related(self, source: Thing, target: Thing) -> bool:
        """Whether any relation leads from ``source`` to ``target``."""
        return any(s is source and t is target for s, _, t in self.relations.values())

    def spoken_of(self, subjects: list[Thing]) -> None:
        """Remember the subjects of a clause: later pronouns mean them."""
        self._subjects.extend(subjects)
        del self._subjects[:-_MEMORY]

    def resolve(self, mention: Mention, apart: list[Thing]) -> list[Thing]:
        """What a mention means: a thing named before, or a new one while there is room.

        ``apart`` are the things that it is related to, which it cannot be: "a chair beside a
        chair". Nothing for a pronoun without a thing to mean.
        """
        if mention.pronoun:
            return self._meant(mention.pronoun, apart)
        thing = None if mention.new else self._same(mention, apart)
        if thing is None:
            if len(self.all) >= MAX_OBJECTS:
                return []
            thing = Thing(mention.name, mention.least)
            self.all.append(thing)
            self._named.setdefault(mention.name.casefold(), []).append(thing)
        else:
            thing.least = max(thing.least, mention.least)
        for key, value in mention.attributes:
            thing.add(key, value)
        if mention.owner is not None:
            for owner in self.resolve(mention.owner, [thing]):
                if owner is not thing and not any(owner is other for other in apart):
                    self.relate(owner, "has", thing)
        return [thing]

    def _same(self, mention: Mention, apart: list[Thing]) -> Thing | None:
        name = mention.name.casefold()
        rivals = self._named.get(name, [])
        for thing in reversed(rivals):
            if not any(thing is other for other in apart) and _fits(mention, thing):
                return thing
        if mention.known and " " not in name:
            for thing in reversed(self.all[-_MEMORY:]):
                if thing.name.casefold().endswith(f" {name}") and thing not in apart:
                    return thing
        return None

    def _meant(self, pronoun: str, apart: list[Thing]) -> list[Thing]:
        for fits in _WANTED.get(pronoun, ()):
            for named in (self._subjects, self.all[-_MEMORY:]):
                for thing in reversed(named):
                    if thing not in apart and _FITS[fits](thing):
                        return [thing]
        return []


def _fits(mention: Mention, thing: Thing) -> bool:
    """Whether what is said of the one can be true of the other."""
    return all(
        key not in thing.attributes or value in thing.attributes[key] or key == "state"
        for key, value in mention.attributes
    )


_FITS: dict[str, Callable[[Thing], bool]] = {
    "person": lambda thing: thing.animate and thing.least == 1,
    "people": lambda thing: thing.animate and thing.least > 1,
    "animate": lambda thing: thing.animate,
    "object": lambda thing: not thing.animate and thing.least == 1,
    "many": lambda thing: thing.least > 1,
    "any": lambda thing: True,
}
_WANTED: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PEOPLE_PRONOUNS | {"his", "her"}, ("person", "animate")),
    **dict.fromkeys(PLURAL_PRONOUNS | {"their"}, ("people", "animate", "many", "any")),
    **dict.fromkeys(THING_PRONOUNS | {"its"}, ("object", "any")),
}
"""Pronoun → what it means by preference; the last subject before the last thing named."""
