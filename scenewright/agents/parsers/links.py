"""Links: predicates that wait for their objects, and what some of them mean.

"Made of wood", "in the shape of a heart" and "in black" say attributes, not relations.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scenewright.agents.parsers.lexicon import NO_STATES, key_of
from scenewright.agents.parsers.mentions import Mention, is_part
from scenewright.agents.parsers.things import Thing

_MATERIAL_LINKS = frozenset({"made of", "made from", "made out of", "made up of"})
_SHAPE_LINKS = frozenset({"in the shape of", "in shape of", "shaped like", "in the form of"})
_FAR = frozenset({"on", "at", "under", "down", "along", "across", "through", "over", "near"})


@dataclass(slots=True)
class Link:
    """A predicate that waits for its objects."""

    sources: list[Thing]
    words: list[str]
    verb: str | None = None
    """The verb as a state of its sources, if there is one."""
    base: str = ""
    """The verb's base form."""
    targets: list[Thing] = field(default_factory=list)
    adverbs: list[str] = field(default_factory=list)

    @property
    def predicate(self) -> str:
        """As it stands in a relation."""
        return " ".join(self.words)

    @property
    def waits(self) -> bool:
        """Whether it has no object yet."""
        return not self.targets

    @property
    def tells_state(self) -> bool:
        """Whether its verb is a state besides the relation: who sits on a bench sits."""
        return self.verb is not None and len(self.words) > 1 and self.base not in NO_STATES

    def attribute_key(self, mention: Mention) -> str | None:
        """The attribute that an object of this link states, if it is no thing."""
        if self.predicate in _MATERIAL_LINKS and mention.bare:
            return "material"
        if self.predicate in _SHAPE_LINKS:
            return "shape"
        if self.predicate.endswith(" in") and mention.bare and key_of(mention.name) == "color":
            return "color"
        return None


def is_far(link: Link, word: str) -> bool:
    """Whether a preposition after "man riding a bike" tells of the man."""
    if link.base == "wear" and word not in ("of", "with"):
        return True
    doer = link.verb is not None and all(thing.animate for thing in link.sources)
    return doer and word in _FAR and not any(is_part(thing.name) for thing in link.targets)


def paint(things: list[Thing], mention: Mention) -> None:
    """ "In black color": the colour of ``things``."""
    for key, value in mention.attributes:
        if key == "color":
            for thing in things:
                thing.add(key, value)
