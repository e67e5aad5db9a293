"""The things that a caption has named so far, and which of them a later phrase means.

"It", "both animals", "one of them" and "the second" mean what was named before; so does a label
that is named again, unless it is another one. A thing of several may have members of which more is
said: "two dogs: one is brown, the other is white".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import product

from scenewright.agents.parsers.mentions import MOST_INSTANCES, Mention
from scenewright.agents.parsers.tagging import (
    ORDINALS,
    PEOPLE_PRONOUNS,
    PLURAL_PRONOUNS,
    THING_PARTS,
    THING_PRONOUNS,
    Named,
    is_person,
    words,
)
from scenewright.core.inflection import singular
from scenewright.core.intent import CountKind
from scenewright.core.scene import MAX_OBJECTS, MAX_RELATIONS

_MEMORY = 40
"""Number of last things that a pronoun or a shortened label can mean."""


@dataclass(slots=True, eq=False)
class Thing(Named):
    """A named thing: a class label and its number of instances."""

    name: str
    """The class label, in the singular."""
    least: int = 1
    """Least number of instances."""
    number: int | None = None
    """The number that was said, if one was."""
    count: CountKind | None = None
    """Meaning of its number; None for one thing."""
    members: dict[int, Thing] = field(default_factory=dict)
    """Instances of which more is said than of the others, by their place from 0."""
    attributes: dict[str, list[str]] = field(default_factory=dict)
    """Attribute key → values, in the order of the words."""

    def add(self, key: str, value: str) -> None:
        """Add an attribute value; one that is there already is not repeated."""
        values = self.attributes.setdefault(key, [])
        if value not in values:
            values.append(value)

    def add_all(self, mention: Mention) -> None:
        """Add the attributes that a noun phrase says."""
        for key, value in mention.attributes:
            self.add(key, value)

    def as_many_as(self, other: Thing) -> None:
        """Let there be one for each of ``other``."""
        if self.least == 1 and self.number is None:
            self.least, self.number, self.count = other.least, other.number, other.count


class Things:
    """All things of a caption, in order of first mention."""

    def __init__(self) -> None:
        self.all: list[Thing] = []
        self.relations: dict[tuple[int, str, int], tuple[Thing, str, Thing]] = {}
        self.texts: list[str] = []
        """Texts to be written that nothing bears."""
        self.listing = False
        """Whether the sentence that is read follows a colon."""
        self.told: Thing | None = None
        """Instances that the next sentences describe one by one, if any."""
        self.understood: set[str] = set()
        """Words that meant something that was named before."""
        self.together: list[Thing] = []
        """The last things that "and" joined."""
        self.doers: list[Thing] = []
        """Persons or animals that were the last subjects together."""
        self._subjects: list[Thing] = []
        self._named: dict[str, list[Thing]] = {}

    def relate(self, sources: Sequence[Thing], predicate: str, targets: Sequence[Thing]) -> None:
        """Relate each source to each target, no single thing to itself."""
        for source, target in product(sources, targets):
            related = source is not target or source.least > 1
            if related and len(self.relations) < MAX_RELATIONS:
                self.relations[(id(source), predicate, id(target))] = (source, predicate, target)

    def forget(self, source: Thing, predicate: str, target: Thing) -> None:
        """Take back a relation, if it is known."""
        self.relations.pop((id(source), predicate, id(target)), None)

    def spoken_of(self, subjects: list[Thing]) -> None:
        """Remember the subjects of a clause: later pronouns mean them."""
        self._subjects.extend(subjects)
        del self._subjects[:-_MEMORY]

    def resolve(self, mention: Mention, apart: list[Thing]) -> list[Thing]:
        """Return the things that a mention means: earlier ones, or new ones while there is room.

        ``apart`` are the things that it is related to, which it cannot be: "a chair beside a
        chair". Nothing for a pronoun without a thing to mean.
        """
        several = len(apart) > 1 or any(thing.least > 1 for thing in apart)
        if mention.part == "other" and mention.each and several:
            # "A cat and a dog look at each other", "two dogs look at each other".
            return apart
        if mention.part and (not mention.name or self._several(mention)):
            return self._parted(mention)
        if mention.pronoun:
            return self._meant(mention.pronoun, apart)
        if mention.name in GENERIC and mention.known and (found := self._named_before(mention)):
            return found
        if (self.listing or self.told is not None) and (listed := self._listed(mention)):
            return listed
        # "The other dog" is not the one that was spoken of.
        spoken = self._subjects[-1:] if mention.part == "other" else []
        thing = None if mention.new else self._same(mention, [*apart, *spoken])
        new = thing is None
        if thing is None:
            if len(self.all) >= MAX_OBJECTS:
                return []
            thing = Thing(mention.name, mention.least, mention.number, mention.count)
            if mention.each and thing.count is None:
                thing.least, thing.count = 2, "open"
            self.all.append(thing)
            self._named.setdefault(mention.name.casefold(), []).append(thing)
        else:
            thing.least = max(thing.least, mention.least)
            thing.number = thing.number or mention.number
            thing.count = thing.count or mention.count
        if mention.told:
            self.told = thing
        thing.add_all(mention)
        if mention.text:
            thing.add("text", mention.text)
        if mention.contents is not None:
            predicate, held = mention.contents
            for inner in held:
                # Each cup has coffee of its own, unless it is spoken of again.
                inner.new = inner.new or (new and not inner.known)
                self.relate(self.resolve(inner, [thing]), predicate, [thing])
        if mention.cover is not None:
            predicate, cover = mention.cover
            self.relate([thing], predicate, self.resolve(cover, [thing]))
        if mention.owner is not None:
            holder = mention.owner
            if holder.pronoun == "its" and (mention.is_part or self._is_of_animal(mention)):
                # A body has arms and ears, whatever stands nearer.
                holder = Mention("", pronoun="his")
            owners = self.resolve(holder, [thing]) or self.resolve(mention.owner, [thing])
            # Things are compared by identity.
            owners = [one for one in owners if one is not thing and one not in apart]
            self.relate(owners, "has", [thing])
        return [thing]

    def _parted(self, mention: Mention) -> list[Thing]:
        """Return those of several that "one of them", "the other" or "the second" means."""
        several = self._several(mention)
        named = self.together
        newer = len(named) > 1 and (not several or self._newer_together(several[0]))
        if newer and not mention.name:
            # "A cat and a dog. The former …, both …"
            if mention.part == "all":
                return named
            if mention.part in ("1", "2", "3", "last"):
                place = -1 if mention.part == "last" else int(mention.part) - 1
                self.understood.update(_RANKS[mention.part])
                return named[place : place + 1 or None]
        if mention.part in ("other", "others", "rest", "another"):
            several = [t for t in several if t.members] or several
        if not several and mention.part == "all" and not mention.name:
            # "A cube on a cylinder, both in a box".
            return self.together or (self.all[:] if len(self.all) == 2 else [])
        if not several:
            return self._new_one(mention)
        group = several[0]
        if mention.part == "all":
            return [group]
        free = [at for at in range(group.least) if at not in group.members]
        self.understood.add(mention.part.removesuffix(" of"))
        self.understood.update(_RANKS.get(mention.part, ()))
        if mention.part.isdigit():
            places = [int(mention.part) - 1]
        elif mention.part == "last":
            places = [group.least - 1]
        elif mention.part in ("others", "rest"):
            places = free
        elif mention.part.endswith(" of"):
            wanted = int(mention.part.removesuffix(" of"))
            places = free[:wanted] if wanted <= len(free) else []
        else:
            places = free[:1] or ([group.least] if group.count == "open" else [])
        return [self._member(group, at, mention) for at in places if at < MOST_INSTANCES]

    def _new_one(self, mention: Mention) -> list[Thing]:
        """Return a further one of what was named last: "one cat is black, another is white"."""
        before = (self._subjects or self.all)[-1:]
        if mention.part == "one" and mention.known:
            # "The white one".
            fitting = [thing for thing in reversed(self.all) if _has_all(mention, thing)]
            return fitting[:1]
        parts = ("another", "other", "one")
        if mention.part not in parts or not before or len(self.all) >= MAX_OBJECTS:
            return []
        if before[0].name.endswith(("one", "body")) and before[0].name in _GENERIC_PEOPLE:
            # "Someone stands with one foot up and one down" is one person.
            return []
        thing = Thing(before[0].name)
        thing.add_all(mention)
        self.all.append(thing)
        self._named.setdefault(thing.name.casefold(), []).append(thing)
        return [thing]

    def _several(self, mention: Mention) -> list[Thing]:
        """Return the things of which there are several, the last first."""
        spoken = self._subjects[-1:] + self.all[::-1]
        several = [t for t in spoken if (t.number or t.least) > 1]
        return [t for t in several if not mention.name or t.name == singular(mention.name)]

    def _member(self, group: Thing, at: int, mention: Mention) -> Thing:
        group.least = max(group.least, at + 1)
        member = group.members.setdefault(at, Thing(group.name))
        member.add_all(mention)
        return member

    def _listed(self, mention: Mention) -> list[Thing]:
        """Return those of a number that are told one by one: "three boats: a red boat …"."""
        group = self.told or (self.all[-1] if self.all else None)
        if group is None or (group.number or 0) < 2:
            return []
        kind = singular(group.name.rpartition(" ")[2].lower()) in HYPERNYMS and self.listing
        side, _, name = mention.name.rpartition(" ")
        if side in _PLACES and name == group.name:
            # "The middle book" of a stack.
            mention.attributes.append(("place", _PLACES[side]))
            mention.name = name
        elif mention.name != group.name and not kind:
            return []
        if mention.known and (not mention.attributes or self._fitting(group, mention) is not None):
            return []
        free = [at for at in range(group.least) if at not in group.members]
        found = [self._member(group, at, mention) for at in free[: mention.least]]
        for member in found:
            member.name = mention.name
        self.understood.add(str(mention.number))
        return found

    def _fitting(self, group: Thing, mention: Mention) -> Thing | None:
        """Return the one of several of which all that a mention says was said, the last first."""
        fitting = (one for one in reversed(group.members.values()) if _has_all(mention, one))
        return next(fitting, None)

    def _newer_together(self, group: Thing) -> bool:
        """Return whether a list such as "a cat and a dog" was named after ``group``."""
        places = {id(thing): at for at, thing in enumerate(self.all)}
        newest = max((places.get(id(one), -1) for one in self.together), default=-1)
        return newest > places.get(id(group), -1)

    def _named_before(self, mention: Mention) -> list[Thing]:
        """Return what "both animals" means of what was named; nothing where it can be new."""
        if mention.name in self._named:
            return []
        fits = GENERIC[mention.name]
        both = mention.number == 2 or mention.least > 1
        named = self.together if both else self.all[-_MEMORY:]
        meant = [thing for thing in named if fits == "any" or _FITS_KIND[fits](thing)]
        if meant and (
            (both and len(meant) == len(named))
            or (len(meant) == 1 and (meant[0].least > 1 or not both))
        ):
            self.understood.add(mention.name)
            return meant
        # What must mean something that was named is nothing new: a thing that is in no scene.
        return [Thing(mention.name)] if mention.number == 2 else []

    def _is_of_animal(self, mention: Mention) -> bool:
        """Return whether "its NAME" is of the animal that the clause is about.

        "An elephant sprays water on its calf"; a part of a thing is of what stands nearer.
        """
        if not self._subjects or mention.head in THING_PARTS:
            return False
        newest = self._subjects[-1]
        return newest.animate and newest.least == 1 and not is_person(newest.name)

    def _same(self, mention: Mention, apart: list[Thing]) -> Thing | None:
        name = mention.name.casefold()
        rivals = self._named.get(name, [])
        for thing in reversed(rivals):
            member = self._fitting(thing, mention)
            if member is not None and not any(member is other for other in apart):
                return member
            if not any(thing is other for other in apart) and _fits(mention, thing):
                if thing.least > 1 and mention.singled:
                    # "Two dogs run. The brown dog barks."
                    free = [at for at in range(thing.least) if at not in thing.members]
                    return self._member(thing, free[0], mention) if free else thing
                return thing
        if mention.known and (person := self._person(mention)) is not None:
            return person
        if mention.known:
            for thing in reversed(self.all[-_MEMORY:]):
                if thing.name.casefold().endswith(f" {name}") and thing not in apart:
                    return thing
        return None

    def _person(self, mention: Mention) -> Thing | None:
        """Return the only person named so far, whom "the man" can mean: "a person …, the man"."""
        persons = [thing for thing in self.all if is_person(thing.name)]
        if mention.name not in _GENERIC_PEOPLE or len(persons) != 1 or persons[0].least > 1:
            return None
        (thing,) = persons
        self.understood |= {thing.name, mention.name}
        if thing.name in NEUTRAL:
            thing.name = mention.name
            self._named.setdefault(mention.name, []).append(thing)
        return None if thing.name in _GENERIC_PEOPLE and thing.name != mention.name else thing

    def _meant(self, pronoun: str, apart: list[Thing]) -> list[Thing]:
        plural = pronoun in PLURAL_PRONOUNS or pronoun == "their"
        pair = self.doers
        if plural and len(pair) > 1 and not any(one in apart for one in pair):
            several = [thing for thing in self._subjects if thing.least > 1]
            if self._subjects[-1:] == pair[:1] or not several:
                return list(pair)
        for fits in _WANTED.get(pronoun, ()):
            for named in (self._subjects, self.all[-_MEMORY:]):
                for thing in reversed(named):
                    if thing not in apart and _FITS[fits](thing):
                        return [thing]
        return []


def _has_all(mention: Mention, thing: Thing) -> bool:
    """Return whether all that a mention says was said of a thing; not where it says nothing."""
    said = (value in thing.attributes.get(key, ()) for key, value in mention.attributes)
    return bool(mention.attributes) and all(said)


def _fits(mention: Mention, thing: Thing) -> bool:
    """Return whether the statements about one can be true of the other."""
    return all(
        key not in thing.attributes or value in thing.attributes[key] or key == "state"
        for key, value in mention.attributes
    )


_FITS_KIND: dict[str, Callable[[Thing], bool]] = {
    "person": lambda thing: is_person(thing.name),
    "animal": lambda thing: thing.animate and not is_person(thing.name),
    "thing": lambda thing: not thing.animate,
}
GENERIC: dict[str, str] = {
    word: kind for kind in ("person", "animal", "thing", "any") for word in words("generic", kind)
}
"""Nouns that mean what was named before ("both animals"), and of which kind it is."""
HYPERNYMS = words("generic", "hypernyms")
NEUTRAL = words("generic", "neutral")
_GENERIC_PEOPLE = words("nouns", "generic_people")
_RANKS = {
    part: [word for word, one in ORDINALS.items() if one == part] for part in ORDINALS.values()
}
"""Which of several → its words."""
_PLACES = {
    **{"top": "on top", "bottom": "at bottom", "middle": "in middle"},
    **{"left": "on left", "right": "on right"},
}
""""The middle book" as a place."""
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
"""Pronoun → preferred meaning; the last subject before the last thing named."""


def add_to(things: Sequence[Thing], key: str, value: str) -> None:
    """Add an attribute value to each of ``things``."""
    for thing in things:
        thing.add(key, value)
