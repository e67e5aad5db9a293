"""Clauses: subjects, predicates and objects from noun phrases and the words between them.

A state machine over one sentence. A link is a predicate with its subjects, waiting for its objects:
"holding", "on top of", "sitting on". A link without an object becomes a state of its subjects.
"Made of wood", "in the shape of a heart" and "in black" become attributes rather than relations.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from scenewright.agents.parsers.mentions import Item, Mention, Thing, Things, attributes_of, is_part
from scenewright.agents.parsers.tagging import (
    ARTICLES,
    BLOWS,
    CLOTHES,
    COVERS,
    EMPTY_STATES,
    NO_RELATION,
    NO_STATES,
    OF_PARTS,
    OF_TARGETS,
    OF_THINGS,
    PARTICLES,
    SCENERY,
    SIDE_NAMES,
    THING_PARTS,
    VESSELS,
    WEAPONS,
    Token,
    key_of,
)
from scenewright.core.inflection import ing_form, singular, verb_base

_MATERIAL_LINKS = frozenset({"made of", "made from", "made out of", "made up of"})
_SHAPE_LINKS = frozenset({"in the shape of", "in shape of", "shaped like", "in the form of"})
_FILLED = frozenset({"filled with", "full of", "covered with", "covered in", "topped with"})
"""A place after "a plate filled with food" is the plate's."""
_BESIDE = frozenset({"next to", "beside", "behind", "in front of", "by", "above", "below"})
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
    def clothes(self) -> bool:
        """Whether its objects are what a person or an animal wears: "in", "wearing"."""
        dressed = self.base == "wear" or self.words in (["in"], ["dressed", "in"])
        return dressed and bool(self.sources) and all(thing.animate for thing in self.sources)

    @property
    def parts(self) -> bool:
        """Whether its objects are parts of its sources: "a knife with a silver blade"."""
        return self.has and bool(self.targets) and all(_is_piece(t.name) for t in self.targets)


def _has_piece(item: Item | None) -> bool:
    return isinstance(item, Mention) and _is_piece(item.name)


def _is_clothes(name: str) -> bool:
    return name.rpartition(" ")[2].lower() in CLOTHES


def is_vessel(name: str) -> bool:
    """Return whether a label's head names what holds food or drink."""
    return name.rpartition(" ")[2].lower() in VESSELS


def _is_piece(name: str) -> bool:
    return is_part(name) or name.rpartition(" ")[2].lower() in THING_PARTS


def is_far(link: Link, word: str) -> bool:
    """Return whether a preposition after "man riding a bike" refers to the man."""
    if link.base == "wear" and word not in ("of", "with"):
        return True
    if link.words == ["in"] and all(map(_is_clothes, [thing.name for thing in link.targets])):
        return word not in ("of", "with") and all(thing.animate for thing in link.sources)
    if link.predicate == "of":
        return word in _FAR and all(is_vessel(thing.name) for thing in link.sources)
    if link.predicate in _FILLED or (
        link.parts and not any(thing.animate for thing in link.sources)
    ):
        return word in _FAR or word in _BESIDE
    if link.base in OF_TARGETS:
        return False
    doer = link.verb is not None and all(thing.animate for thing in link.sources)
    return doer and word in _FAR and not any(is_part(thing.name) for thing in link.targets)


def paint(things: list[Thing], mention: Mention) -> None:
    """Set the colour of ``things``: "in black color"."""
    for key, value in mention.attributes:
        if key == "color":
            for thing in things:
                thing.add(key, value)


_LONGEST_LIST = 60
_PREDICATES = frozenset({"be", "have", "verb", "auxiliary", "ing", "participle", "preposition"})
_DRESSED = frozenset({"dressed as", "dressed up as", "dressed like"})
_OBJECT_PRONOUNS = frozenset({"it", "them", "him", "her"})


class Clause:
    """Reader of one sentence into ``things``."""

    def __init__(self, things: Things) -> None:
        self._things = things
        self._subject: list[Thing] = []
        self._last: list[Thing] = []
        self._link: Link | None = None
        self._verb_sources: list[Thing] = []
        self._fronted: Link | None = None
        self._fronted_place = ""
        self._coordinate: str = ""
        self._joined = ""
        self._copula = False
        self._existential = False
        self._relative = False
        self._finite = False
        self._told = False
        self._read_to = 0

    def read(self, items: Sequence[Item]) -> None:
        """Read the sentence. Call once."""
        for at, item in enumerate(items):
            if at < self._read_to:
                continue
            if isinstance(item, Mention):
                self._mention(item, items, at)
            else:
                self._token(item, items, at)
        self._flush()

    def _token(self, token: Token, items: Sequence[Item], at: int) -> None:
        match token.tag:
            case "be":
                self._flush()
                self._copula = True
                self._finite = self._told = True
                self._joined = ""
            case "have":
                sources = self._last if self._relative else self._subject
                self._start(Link(list(sources), ["has"]))
                self._finite = self._told = True
            case "there":
                self._flush()
                self._existential = True
                self._subject = []
            case "ing" | "participle" | "verb":
                self._verb(token, items, at)
            case "preposition":
                self._preposition(token.lower, items, at)
            case "place":
                self._place(token.lower)
            case "adjective":
                self._adjective(items, at)
            case "adverb":
                self._adverb(token)
            case "quote":
                self._quote(token)
            case "relative":
                self._flush()
                self._relative, self._joined, self._coordinate = True, "", ""
            case "and" | "comma":
                self._join(token)
            case "clause":
                self._flush()
                self._coordinate = ""
                self._copula = False
            case _:
                pass

    def _join(self, token: Token) -> None:
        link = self._link
        if link is not None and link.waits:
            self._flush()
        self._joined = "and" if token.tag == "and" or self._joined == "and" else "comma"
        if token.tag == "and":
            self._relative = False

    # Noun phrases

    def _mention(self, mention: Mention, items: Sequence[Item], at: int) -> None:
        link = self._link
        if mention.ignored:
            if link is not None and link.waits and link.words == ["in"]:
                paint(link.sources, mention)
            self._ignored(mention, items, at)
            return
        waiting = link is not None and link.waits
        if link is not None and waiting:
            if self._as_attribute(link, mention):
                return
            things = self._things.resolve(mention, link.sources)
            if mention.pronoun in _OBJECT_PRONOUNS:
                self._without_with(link, things)
            self._aim(link, things)
        elif self._joined and self._continues(mention, items, at):
            things = self._things.resolve(mention, self._last)
            if self._coordinate == "target" and link is not None:
                self._aim(link, things)
                self._last = [*self._last, *things]
            else:
                self._subject = [*self._subject, *things]
                self._last = self._subject
                self._place_fronted(things)
            self._joined = ""
            return
        elif self._names_subject:
            self._predicate_noun(mention)
            return
        else:
            things = self._new_subject(mention)
        if things:
            self._last = things
        self._joined = ""

    @property
    def _names_subject(self) -> bool:
        """Whether a noun phrase here is another name of the subject: "The dog is a poodle"."""
        open_ = self._copula and not self._joined and not self._existential
        return open_ and bool(self._subject) and self._fronted is None

    def _without_with(self, link: Link, owners: list[Thing]) -> None:
        """Take back what "with" says no better than the rest: "a pan with a pizza on it"."""
        for owner in owners:
            for source in link.sources:
                self._things.forget(owner, "with", source)

    def _aim(self, link: Link, things: list[Thing]) -> None:
        """Make ``things`` the objects of ``link``."""
        link.targets.extend(things)
        if link.predicate == "dressed in" and link.verb is not None:
            link.words, link.verb = ["wearing"], None
        if link.predicate == "of":
            for source in link.sources:
                if _is_piece(source.name):
                    for thing in things:
                        self._things.relate(thing, "has", source)
        if link is not self._fronted and link.predicate not in NO_RELATION:
            for source in link.sources:
                for thing in things:
                    self._things.relate(source, link.predicate, thing)
        if link.verb is not None and link.tells_state:
            for source in link.sources:
                source.add("state", link.verb)
        self._coordinate = "target"

    def _new_subject(self, mention: Mention) -> list[Thing]:
        self._flush()
        things = self._things.resolve(mention, self._fronted.targets if self._fronted else [])
        if not things:
            return []
        self._subject = things
        self._existential = False
        self._things.spoken_of(things)
        self._verb_sources = things
        self._coordinate = "subject"
        self._copula = False
        self._relative = False
        self._finite = False
        self._told = False
        self._place_fronted(things)
        return things

    def _place_fronted(self, things: list[Thing]) -> None:
        for thing in things:
            if self._fronted_place:
                thing.add("place", self._fronted_place)
            if self._fronted is not None and self._fronted.predicate not in NO_RELATION:
                for target in self._fronted.targets:
                    self._things.relate(thing, self._fronted.predicate, target)

    def _continues(self, mention: Mention, items: Sequence[Item], at: int) -> bool:
        """Return whether a noun phrase after "and" or a comma continues the list before it."""
        if not self._coordinate or not self._last:
            return False
        if self._joined == "comma" and not _is_list(items, at):
            return False
        after = _tag_after(items, at)
        if self._coordinate == "subject":
            # After "a man is standing and" there is another clause, if it goes on at all.
            return not self._told or after not in _PREDICATES
        if mention.again and all(thing.name != mention.name for thing in self._last):
            return False
        if after in ("be", "have", "verb", "auxiliary"):
            # "A man in a suit and a hat is": the verb is the first one, so the subject stays.
            return not self._finite and (after == "be" or self._is_worn(mention))
        if after in ("ing", "participle"):
            if mention.bare and self._link is not None and self._link.has:
                return True
            return not (mention.animate or after == "participle" or is_part(mention.name))
        if after == "preposition":
            nxt = items[at + 1]
            word = nxt.lower if isinstance(nxt, Token) else ""
            return word in ("of", "with") or not mention.new
        return True

    def _is_worn(self, mention: Mention) -> bool:
        """Whether it is what the subject has with it, no doer: "with a hat and a cane waves"."""
        link = self._link
        if link is None or mention.animate or not (link.has or link.clothes):
            return False
        return bool(self._subject) and all(thing.animate for thing in self._subject)

    def _ignored(self, mention: Mention, items: Sequence[Item], at: int) -> None:
        link = self._link
        if link is not None and link.waits:
            after = items[at + 1] if at + 1 < len(items) else None
            if link.verb is None:
                self._link = None
            elif isinstance(after, Token) and after.lower == "of" and mention.name in SIDE_NAMES:
                # "Touching the bottom of a cheek" is one predicate.
                link.words = [*link.words, mention.name, "of"]
                self._read_to = at + 2
                return
            else:
                self._flush()
        elif not self._joined:
            self._subject, self._last, self._coordinate = [], [], ""
        self._copula = False

    def _as_attribute(self, link: Link, mention: Mention) -> bool:
        """Return whether the object of ``link`` is a material, a shape or a colour."""
        if link.predicate in _DRESSED and not mention.pronoun:
            for source in link.sources:
                source.add("state", f"{link.predicate} {mention.name}")
            self._link = None
            return True
        key = link.attribute_key(mention)
        if key is None:
            return False
        for source in link.sources:
            if key == "color" and source.animate:
                # The clothes have the colour, not the wearer.
                source.add("state", f"dressed in {mention.name}")
            else:
                source.add(key, mention.name)
        self._link = None
        return True

    def _predicate_noun(self, mention: Mention) -> None:
        """Merge the names of one thing: "The dog is a poodle"."""
        if not mention.pronoun:
            for thing in self._subject:
                for key, value in mention.attributes:
                    thing.add(key, value)
                if mention.name.casefold() != thing.name.casefold():
                    thing.add("type", mention.name)
        self._copula = False

    # Predicates

    def _start(self, link: Link) -> None:
        self._flush()
        self._link = link
        self._joined = ""
        self._copula = False

    def _flush(self) -> None:
        """Turn links without objects into states of their subjects."""
        link = self._link
        if link is not None and link.waits and link.verb is not None:
            state = " ".join([link.verb, *link.adverbs])
            if state not in EMPTY_STATES:
                for source in link.sources:
                    source.add("state", state)
        if link is not None and link is self._fronted and not link.targets:
            self._fronted = None
        self._link = None

    def _verb(self, token: Token, items: Sequence[Item], at: int) -> None:
        word = token.lower
        base = verb_base(word) or (singular(word) if token.tag == "verb" else word)
        if token.tag == "participle":
            said = word
        elif token.tag == "verb":
            said = ing_form(base)
        else:
            said = word
        if token.tag == "verb" and self._link is not None and not self._link.targets:
            self._flush()
        sources = self._sources_of(token, base)
        self._start(Link(list(sources), [said], said, base))
        self._finite = self._finite or token.tag == "verb"
        self._told = self._told or not self._relative
        self._relative = False
        if sources:
            self._verb_sources = sources

    def _sources_of(self, token: Token, base: str) -> list[Thing]:
        if self._relative:
            return self._last
        if self._copula:
            return self._subject
        if self._joined:
            return self._verb_sources or self._subject
        if token.tag == "verb":
            return self._subject or self._last
        if self._subject and (self._after_part or self._after_scenery):
            return self._subject
        parts = base in OF_PARTS and any(is_part(thing.name) for thing in self._last)
        if token.tag == "participle" or parts:
            return self._last or self._subject
        acts = base not in OF_THINGS and not any(thing.animate for thing in self._last)
        if acts and any(thing.animate for thing in self._subject):
            return self._subject
        return self._last or self._subject

    @property
    def _after_part(self) -> bool:
        """Whether a deed is that of the whole: "a knife with a silver blade resting on a board"."""
        link = self._link
        if link is None or link.verb is not None or not link.parts:
            return False
        return not any(is_part(thing.name) for thing in link.targets)

    @property
    def _after_scenery(self) -> bool:
        """Whether a state is that of what is at a place: "a boat in the water filled with men"."""
        link = self._link
        if link is None or link.verb is not None or not link.targets:
            return False
        places = all(thing.name.rpartition(" ")[2] in SCENERY for thing in link.targets)
        return places and link.sources == self._subject

    def _preposition(self, word: str, items: Sequence[Item], at: int) -> None:
        link = self._link
        if self._joined and _tag_after(items, at + 1) == "there":
            self._subject, self._last, self._fronted_place = [], [], ""
        if link is not None and link.waits:
            if link.verb is not None and len(link.words) == 1:
                link.words = [link.words[0], word]
            else:
                link.words = [*link.words, word]
            return
        if not self._subject and not self._last:
            self._fronted = Link([], [word])
            self._start(self._fronted)
            return
        after = items[at + 1] if at + 1 < len(items) else None
        back = isinstance(after, Mention) and after.pronoun in _OBJECT_PRONOUNS
        if self._copula:
            sources = self._subject
        elif link is not None and (self._joined or (is_far(link, word) and not back)):
            sources = link.sources or self._last
        elif (word == "with" and self._is_tool(after)) or (
            self._after_scenery
            and (word.partition(" ")[0] in COVERS or (word == "with" and _has_piece(after)))
        ):
            sources = self._subject
        else:
            sources = self._last or self._subject
        self._start(Link(list(sources), [word]))

    def _is_tool(self, after: Item | None) -> bool:
        """Return whether "with" tells what somebody acts with: "sweeping sand with a broom"."""
        if not isinstance(after, Mention) or after.pronoun or not self._told:
            return False
        doers = bool(self._subject) and all(thing.animate for thing in self._subject)
        if not doers or self._last is self._subject:
            return False
        if any(thing.animate for thing in self._last):
            blow = self._link is not None and self._link.base in BLOWS
            return blow and after.name.rpartition(" ")[2].lower() in WEAPONS
        return not _is_piece(after.name)

    def _place(self, word: str) -> None:
        link = self._link
        doing = link.sources if link is not None and link.waits and link.verb is not None else []
        if link is not None and link.waits:
            self._flush()
        place = " ".join(part for part in word.split() if part not in ARTICLES)
        if not self._subject or (self._joined and not self._copula and self._subject):
            self._fronted_place = place
            return
        for thing in doing or (self._subject if self._copula else self._last):
            thing.add("place", place)

    def _adjective(self, items: Sequence[Item], at: int) -> None:
        """Read adjectives after a form of "be" or a noun; return the position after them."""
        words: list[str] = []
        for step, item in enumerate(items[at:], at):
            if not isinstance(item, Token):
                break
            if item.tag == "adjective":
                words.append(item.lower)
                self._read_to = step + 1
            elif item.tag in ("and", "comma"):
                words.append("and")
            elif item.tag != "adverb":
                break
        link = self._link
        worn = link is not None and link.waits and link.clothes
        things = self._subject if self._copula else self._last
        if link is not None and worn:
            things, self._link = link.sources, None
        for key, value in attributes_of(words):
            for thing in things:
                if worn and key == "color":
                    thing.add("state", f"dressed in {value}")
                else:
                    thing.add(key, value)

    def _adverb(self, token: Token) -> None:
        word = token.lower
        link = self._link
        if word not in PARTICLES:
            return
        if link is not None and link.waits:
            link.adverbs.append(word)
        elif self._last and (self._copula or self._link is None):
            things = self._subject if self._copula else self._last
            self._start(Link(list(things), [], word))

    def _quote(self, token: Token) -> None:
        link = self._link
        things = self._last
        if link is not None and link.waits:
            things = link.sources or self._last
            self._link = None
        for thing in things:
            thing.add("text", token.text)


def _is_list(items: Sequence[Item], at: int) -> bool:
    """Return whether the noun phrase at ``at`` is one of a list that "and" closes."""
    for item in items[at + 1 : at + _LONGEST_LIST]:
        if isinstance(item, Token):
            if item.tag == "and":
                return True
            if item.tag != "comma":
                return False
    return False


def _tag_after(items: Sequence[Item], at: int) -> str:
    for item in items[at + 1 :]:
        if isinstance(item, Mention):
            return "noun"
        if item.tag != "adverb":
            return item.tag
    return "end"
