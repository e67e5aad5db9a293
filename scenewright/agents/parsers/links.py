"""Links: predicates that wait for their objects, and what a word after them is said of.

"A man in a suit on a bench": the man is on the bench. "A boat in the water filled with sand": the
boat is. The rules here say of which of two things a verb or a place is said.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from scenewright.agents.parsers.mentions import Mention
from scenewright.agents.parsers.tagging import POSTURES, key_of, words
from scenewright.agents.parsers.things import Thing

OF_THINGS = words("verbs", "of_things")
OF_PARTS = words("verbs", "of_parts")
NO_STATES = words("verbs", "no_states")
OF_TARGETS = words("verbs", "of_targets")
"""A place after them and their object is the object's."""
BLOWS = words("verbs", "blows")
"""Actions on somebody with one of :data:`WEAPONS`."""
EMPTY_STATES = words("verbs", "empty_states")
GIVES = words("verbs", "gives")
"""Deeds with what is given and who gets it."""
SAYS = words("verbs", "says")
WRITES = words("verbs", "writes")
FIGURES = words("nouns", "figures")
"""Depictions that stand somewhere."""
SURFACES = words("nouns", "surfaces")
"""Things with pictures on them."""
WALLS = words("nouns", "walls")
"""Things that hang or are shown there are no persons."""
WEAPONS = words("nouns", "weapons")
_MATERIAL_LINKS = frozenset({"made of", "made from", "made out of", "made up of"})
_SHAPE_LINKS = frozenset({"in the shape of", "in shape of", "shaped like", "in the form of"})
_FILLED = frozenset({"filled with", "full of", "covered with", "covered in", "topped with"})
"""A place after "a plate filled with food" is the plate's."""
SEES = words("verbs", "sees")
_OF_DOERS = words("verbs", "of_doers")
TURNED = words("verbs", "turned")
_POSTURES = words("verbs", "manners")
_LIKE = frozenset({"looking like", "like", "dressed like", "dressed as", "as"})
_LOOKS = frozenset({"wear", "hold", "carry", "have"})
"""Verbs whose subject goes on to do what follows; after "a man that looks like Santa" too."""
_BESIDE = frozenset({"next to", "beside", "behind", "in front of", "by", "above", "below"})
_ONTO = frozenset({"into", "onto", "toward", "towards", "through"})
_FAR = frozenset(
    {"on", "at", "under", "down", "along", "across", "through", "over", "near", "toward", "towards"}
)


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
        """Wording in a relation."""
        return " ".join(self.words)

    @property
    def state(self) -> str:
        """The verb with its adverbs: "standing together"; empty without a verb."""
        return " ".join([self.verb, *self.adverbs]) if self.verb is not None else ""

    @property
    def posture(self) -> str:
        """The verb as a state beside a relation, without the adverbs of directions."""
        kept = [word for word in self.adverbs if word in _POSTURES]
        return " ".join([self.verb, *kept]) if self.verb is not None else ""

    @property
    def waits(self) -> bool:
        """Whether it has no object yet."""
        return not self.targets

    @property
    def tells_state(self) -> bool:
        """Whether its verb is also a state of the subject: who sits on a bench sits."""
        return self.verb is not None and len(self.words) > 1 and self.base not in NO_STATES

    def attribute_key(self, mention: Mention) -> str | None:
        """Return the key of the attribute that an object of this link states, if any."""
        if self.predicate in _MATERIAL_LINKS and mention.bare:
            return "material"
        if self.predicate in _SHAPE_LINKS:
            return "shape"
        if self.predicate.endswith(" in") and mention.bare and key_of(mention.name) == "color":
            return "color"
        return None

    @property
    def has(self) -> bool:
        """Whether its objects are what its sources have with them."""
        return self.predicate in ("with", "has")

    @property
    def stands(self) -> bool:
        """Whether its objects are limbs on which its sources stand or sit."""
        return (
            self.base in POSTURES
            and bool(self.targets)
            and all(thing.is_part for thing in self.targets)
        )

    @property
    def fills(self) -> bool:
        """Whether its objects are what its sources hold or are made of: "full of"."""
        return self.predicate in (*_FILLED, *_MATERIAL_LINKS) and bool(self.targets)

    @property
    def clothes(self) -> bool:
        """Whether its objects are what a person or an animal wears: "in", "wearing"."""
        dressed = self.base == "wear" or self.words in (["in"], ["dressed", "in"])
        return dressed and bool(self.sources) and all(thing.animate for thing in self.sources)

    @property
    def parts(self) -> bool:
        """Whether its objects are parts of its sources: "a knife with a silver blade"."""
        with_them = self.predicate == "with" and bool(self.targets)
        return with_them and all(thing.is_piece for thing in self.targets)


def is_of_sources(link: Link, base: str) -> bool:
    """Return whether a verb after the object of a link is said of its subject."""
    if link.predicate in _FILLED:
        return True
    if link.predicate in _LIKE:
        return base in _LOOKS
    if link.words == ["in"] and all(thing.is_clothes for thing in link.targets):
        return base not in OF_THINGS
    if link.predicate == "of":
        return base == "make" and all(thing.is_depiction for thing in link.sources)
    return (
        link.base in _LOOKS
        and base not in OF_THINGS
        and not any(thing.animate for thing in link.targets)
    )


def is_of_whole(link: Link) -> bool:
    """Return whether what follows "X of Y" is said of X: "a map of Norway", "a statue of a horse".

    After a picture of persons and animals it is said of them.
    """
    if link.waits or not all(thing.is_depiction for thing in link.sources):
        return False
    figures = all(thing.head in FIGURES for thing in link.sources)
    return figures or not any(thing.animate for thing in link.targets)


def is_far(link: Link, word: str) -> bool:
    """Return whether a preposition after "man riding a bike" refers to the man."""
    if link.base == "wear" and word not in ("of", "with"):
        return True
    if link.base in SEES and link.verb is not None:
        # Who looks from a window is there, what is looked at on a wall is on it.
        return word.startswith("from")
    if link.words == ["in"] and all(thing.is_clothes for thing in link.targets):
        return word not in ("of", "with") and all(thing.animate for thing in link.sources)
    if link.predicate == "of":
        return word not in ("of", "with") and is_of_whole(link)
    if link.predicate in _FILLED or (
        link.parts and not any(t.animate or t.is_scenery for t in link.sources)
    ):
        return word in _FAR or word in _BESIDE
    if link.stands and word not in ("of", "with"):
        # "Standing on one leg in the water".
        return True
    if link.verb is not None and len(link.words) > 1 and not link.parts:
        # "Milk pouring from a glass into a bowl", "moved on water by oars".
        passive = not link.words[0].endswith("ing")
        if word in _ONTO or (word == "by" and passive):
            return True
    if link.base in OF_TARGETS:
        return False
    if link.predicate in _LIKE and word in ("with", "in"):
        return True
    doer = link.verb is not None and all(thing.animate for thing in link.sources)
    if doer and link.words[1:] == ["with"] and word != "of":
        # "Fighting with swords in front of a castle".
        return word != "with"
    if doer and word == "in" and link.base in _OF_DOERS:
        return not any(thing.animate or thing.is_part for thing in link.targets)
    if doer and word in _BESIDE and all(thing.is_scenery for thing in link.targets):
        return True
    return doer and word in _FAR and not any(thing.is_part for thing in link.targets)
