"""The words of the prompts, as data in ``words.toml``, and the vocabularies that are made of them.

Source: PSG-Bench, supplement A.3, and GenEval for colours and counts. The supplement announces 53
regions of COCO and prints 52; they are taken as printed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from scenewright.agents.composers.rules import BARE
from scenewright.core.inflection import plural, read_data
from scenewright.evals.datasets.base import DatasetError

Kind = Literal["person", "animal", "object", "region"]
NAMES = ("coco", "ade20k", "both", "paper", "miniature")
"""Lists of names: COCO-133, ADE20K-150 or both, each with the supplement's own nouns; these alone;
the kinds of the painted world."""

DATA: Mapping[str, Any] = read_data("scenewright.evals.datasets.psg_prompts", "words.toml")


class PsgError(DatasetError):
    """Prompts that cannot be made; says what to change."""


@dataclass(frozen=True, slots=True)
class Noun:
    """A name that objects of a scene may have."""

    name: str
    """Class label, as in the list: ``wall-brick``; of ADE20K the first of several."""
    kind: Kind
    """What it is a name of."""
    synonyms: tuple[str, ...] = ()
    """Names that mean the same."""

    @property
    def label(self) -> str:
        """As a scene and its prompt say it: ``brick wall``."""
        return spoken(self.name)

    @property
    def can_be_counted(self) -> bool:
        """Whether there may be several, and whether it may stand beside something."""
        # "Two sheep" looks like one: a text that says it cannot be checked.
        many = plural(self.label) != self.label
        return self.kind != "region" and self.name not in BARE and many


@dataclass(frozen=True, slots=True)
class Verb:
    """A relation that says no place (supplement A.3)."""

    predicate: str
    """As in scenes: ``watching``."""
    pairs: tuple[tuple[Noun, Noun], ...]
    """Who may do it to whom."""


@dataclass(frozen=True, slots=True)
class Trait:
    """An attribute that things of some kinds may have."""

    key: str
    """Attribute key."""
    values: tuple[str, ...]
    """Its values."""
    kinds: frozenset[Kind]
    """Kinds that may have it."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """All words of a draw."""

    name: str
    """One of :data:`NAMES`."""
    nouns: tuple[Noun, ...]
    """In the order of the list."""
    contrastive: tuple[str, ...]
    """Spatial predicates that turn with their nouns."""
    spatial: tuple[str, ...]
    """The other ones."""
    verbs: tuple[Verb, ...]
    """Those that some of the nouns can do."""
    colors: tuple[str, ...]
    """Values of ``color``."""
    traits: tuple[Trait, ...]
    """Other attributes; empty in a world without any."""
    counts: tuple[int, ...]
    """How many of one thing there may be."""
    painted: bool = False
    """Whether every scene must fit on the grid of :mod:`scenewright.core.layout`."""


def spoken(name: str) -> str:
    """A name as it is said: ``floor-wood`` is a wood floor; a sign-board stays one."""
    head, dash, rest = name.partition("-")
    return f"{rest} {head}" if dash and head in ("floor", "wall") else name


@lru_cache(maxsize=8)
def vocabulary(name: str) -> Vocabulary:
    """The words of the list ``name``; ``PsgError`` for one that there is not."""
    if name not in NAMES:
        raise PsgError(f"there are no names {name!r}: use {', '.join(NAMES)}")
    if name == "miniature":
        return _miniature()
    nouns = _nouns(name)
    return Vocabulary(
        name=name,
        nouns=nouns,
        contrastive=tuple(DATA["spatial"]["contrastive"]),
        spatial=tuple(DATA["spatial"]["other"]),
        verbs=tuple(verb for row in DATA["verbs"] if (verb := _verb(row, nouns)).pairs),
        colors=tuple(DATA["colors"]["values"]),
        traits=tuple(
            Trait(row["key"], tuple(row["values"]), frozenset(row["fits"]))
            for row in DATA["attributes"]
        ),
        counts=tuple(range(DATA["counts"]["least"], DATA["counts"]["most"] + 1)),
    )


def _nouns(name: str) -> tuple[Noun, ...]:
    given = DATA["nouns"]
    own = [*given["persons"], *given["animals"], *given["objects"]]
    coco = [*DATA["coco"]["things"], *DATA["coco"]["stuff"]]
    ade: list[str] = list(DATA["ade20k"]["names"])
    lists: Mapping[str, Sequence[str]] = {
        "paper": own,
        "coco": [*own, *coco],
        "ade20k": [*own, *ade],
        "both": [*own, *coco, *ade],
    }
    found: dict[str, Noun] = {}
    for entry in lists[name]:
        first, *others = entry.split("/")
        found.setdefault(first, Noun(first, kind_of(first), tuple(others)))
    return tuple(found.values())


def kind_of(name: str) -> Kind:
    """What a name of the lists is a name of."""
    given = DATA["nouns"]
    if name in given["persons"] or name in given["other_persons"]:
        return "person"
    if name in given["animals"] or name in given["other_animals"]:
        return "animal"
    return "region" if name in given["regions"] else "object"


def _verb(row: Mapping[str, Any], nouns: Sequence[Noun]) -> Verb:
    def meant(named: Sequence[str]) -> list[Noun]:
        return [noun for noun in nouns if noun.name in named or noun.kind in named]

    pairs = tuple(
        (one, other)
        for one in meant(row["subjects"])
        for other in meant(row["objects"])
        if one != other
    )
    return Verb(str(row["predicate"]), pairs)


def _miniature() -> Vocabulary:
    """The painted world's own words: what its painter draws and its judges know."""
    from scenewright.miniature.world import COLORS, CONTACTS, DIRECTIONS, can_hold
    from scenewright.miniature.world import KINDS as PAINTED

    nouns = tuple(Noun(name, kind_of(name)) for name in PAINTED)
    verbs = tuple(
        Verb(
            predicate,
            tuple(
                (one, other)
                for one in nouns
                for other in nouns
                if one != other and can_hold(one.name, predicate, other.name)
            ),
        )
        for predicate in CONTACTS
    )
    return Vocabulary(
        name="miniature",
        nouns=nouns,
        contrastive=tuple(DIRECTIONS),
        spatial=("near",),
        verbs=verbs,
        colors=tuple(COLORS),
        traits=(),
        counts=tuple(range(2, DATA["miniature"]["most"] + 1)),
        painted=True,
    )
