"""Noun phrases that name things: class labels with their numbers, attributes and owners."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from scenewright.agents.parsers.tagging import VESSELS, Named, Tag, Token, is_animate, words
from scenewright.core.inflection import singular
from scenewright.core.intent import CountKind

MOST_INSTANCES = 12
"""A greater number becomes this many instances: what is asked is "at least"."""
_FLAT = words("nouns", "flat_vessels")
_EXPANSES = words("nouns", "expanses")
"""Places that are named by what fills them: "a field of daisies"."""


@dataclass(slots=True)
class Mention(Named):
    """A parsed noun phrase."""

    tag: ClassVar[Tag] = "phrase"
    name: str
    """The class label, in the singular."""
    least: int = 1
    """Least number of instances."""
    number: int | None = None
    """The number that was said, if one was: "three", "a pair of"."""
    count: CountKind | None = None
    """Meaning of the number; None for one thing."""
    group: int | None = None
    """Number of groups: 4 for "four pairs"."""
    told: bool = False
    """Whether its things may be told one by one: "a stack of three plates"."""
    part: str = ""
    """Which of several it is: "one", "other", "others", "2" for the second, "last"."""
    prefix: str = ""
    """Numbers of its name: "2019" in "a 2019 Toyota"."""
    new: bool = False
    """Whether it has "a" or "another": a new thing."""
    each: bool = False
    """Whether what is said of it is said of each: "a fork next to each plate"."""
    known: bool = False
    """Whether it has "the" or a possessive."""
    bare: bool = False
    """Whether it has no determiner or number."""
    attributes: list[tuple[str, str]] = field(default_factory=list)
    """Attribute key and value, in the order of the words."""
    owner: Mention | None = None
    """Owner."""
    cover: tuple[str, Mention] | None = None
    """Predicate and mention of what covers or fills it: "a snow covered hill"."""
    text: str = ""
    """Text written on it."""
    contents: tuple[str, list[Mention]] | None = None
    """Predicate and mentions of what it holds: "a cup of coffee"."""
    again: bool = False
    """Whether it is "one": named after what was named before."""
    pronoun: str = ""
    """Pronoun; then there is no name."""
    place: tuple[int, int] = (-1, -1)
    """Begin and end in the caption."""
    ignored: bool = False
    """Whether its head cannot be drawn ("the left side")."""

    @property
    def singled(self) -> bool:
        """Whether it tells one of several from the others: "the brown dog"."""
        one = self.known and self.least == 1 and self.count is None
        return one and bool(self.attributes) and self.owner is None

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name) or self.pronoun not in ("", "it", "itself")

    def take_article(self, other: Mention) -> None:
        """Be as new or as well known as another phrase."""
        self.new, self.known, self.bare = other.new, other.known, other.bare

    def take_number(self, other: Mention) -> None:
        """Be as many as another phrase says."""
        self.number, self.least, self.count = other.number, other.least, other.count


Item = Mention | Token


def place_within(name: str) -> str:
    """Return how what a thing is "of" lies in it: "in" for a cup; empty for what holds nothing."""
    head = singular(name.rpartition(" ")[2].lower())
    return "on" if head in _FLAT else "in" if head in VESSELS or head in _EXPANSES else ""
