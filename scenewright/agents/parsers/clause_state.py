"""State of the reader of a sentence: its place, and the subjects of the next words.

The rules here only look: :class:`~scenewright.agents.parsers.clauses.Clause` acts on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.agents.parsers.cursor import Cursor
from scenewright.agents.parsers.links import (
    BLOWS,
    GIVES,
    OF_PARTS,
    OF_THINGS,
    SURFACES,
    WEAPONS,
    WRITES,
    Link,
    is_of_sources,
)
from scenewright.agents.parsers.mentions import Item, Mention
from scenewright.agents.parsers.tagging import END, Token
from scenewright.agents.parsers.things import Thing, Things

_PREDICATES = frozenset(
    {"be", "have", "verb", "auxiliary", "ing", "participle", "preposition", "place"}
)
_SEEING = frozenset({"eye", "head", "face"})
_WRITTEN = frozenset({"written", "printed", "painted", "spelled", "embroidered", "carved"})
_WHERE = frozenset({"on", "in", "across", "inside", "along"})
_MADE = frozenset({"made of", "made from", "made by", "made out of", "made up of"})
DOES = frozenset({"do", "does", "did"})
OBJECT_PRONOUNS = frozenset({"it", "them", "him", "her", "its", "their", "his"})
"""They mean what was named; the last three stand in "to its left"."""


class ClauseState(Cursor):
    """Content of a sentence so far."""

    def __init__(self, things: Things, items: Sequence[Item]) -> None:
        super().__init__(items)
        self._things = things
        self._subject: list[Thing] = []
        self._each = False
        """Whether what is said of the subject is said of each."""
        self._last: list[Thing] = []
        self._link: Link | None = None
        self._verb_sources: list[Thing] = []
        self._fronted: Link | None = None
        self._fronted_place = ""
        self._hangs = ""
        """State of the subject that follows its verb: "above the door hangs a clock"."""
        self._antecedent: list[Thing] = []
        """Subject of a clause of its own: "the boy that the dog follows"."""
        self._made: list[Thing] = []
        """Thing whose material the last words named: "made of bread and" goes on with it."""
        self._deed: Link | None = None
        """The last link of a subject: "so does a gecko" repeats it."""
        self._bearing = Link([], [])
        """The last link whose objects its sources have with them."""
        self._reference: list[Thing] = []
        """Thing of the place before: "to the left of the tree …, to the right of it …"."""
        self._coordinate: str = ""
        self._joined = ""
        self._copula = False
        self._existential = False
        self._relative = False
        self._main: list[Thing] = []
        """The subject that a clause such as "that is red" stands within."""
        self._finite = False
        self._told = False
        self._read_to = 0
        self._last_item: Item = END
        """The item that was read last; :data:`END` at the beginning."""
        self._texts = 0
        self._prefix = ""
        """Noun before the verb that it belongs to: "is car surfing"."""
        self._lettered_last: list[Thing] = []
        """Thing that the last text is written on."""
        self._written: list[str] = []
        """Texts whose bearer has not been named yet."""

    @property
    def _waiting(self) -> Link | None:
        """The link, if it has no object yet."""
        return self._link if self._link is not None and self._link.waits else None

    def _repeats_deed(self) -> bool:
        """Return whether "so" is that of "so does a gecko"."""
        verb = self.peek()
        does = isinstance(verb, Token) and (verb.lower in DOES or verb.tag in ("be", "have"))
        return does and self._deed is not None and isinstance(self.peek(2), Mention)

    def _is_given(self, link: Link, mention: Mention) -> bool:
        """Return whether a second object follows the first at once: "gives a woman a flower"."""
        direct = isinstance(self._last_item, Mention) and link.base in GIVES and bool(link.targets)
        return direct and len(link.words) == 1 and not self._joined and not mention.pronoun

    def _is_contact(self, mention: Mention) -> bool:
        """Return whether a clause about what was named last begins without "that"."""
        first = self._last_item
        beside = isinstance(first, Mention) and not first.pronoun and not first.bare
        beside = beside and not self._joined and bool(self._last)
        after = self.tag_after()
        if mention.pronoun in ("he", "she", "they"):
            return beside and after in ("verb", "participle", "be")
        return beside and not mention.bare and after == "verb" and self._last == self._subject

    @property
    def _names_subject(self) -> bool:
        """Whether a noun phrase here is another name of the subject: "The dog is a poodle"."""
        open_ = self._copula and not self._joined and not self._existential
        return open_ and bool(self._subject) and self._fronted is None

    def _bears(self, link: Link, pronoun: str) -> bool:
        """Return whether a pronoun means what has the sources of ``link``: "with toast on it"."""
        bearing = self._bearing
        if not link.sources or any(one not in bearing.targets for one in link.sources):
            return False
        alive = all(thing.animate for thing in bearing.sources)
        return agrees(bearing.sources, pronoun) and (alive or pronoun not in ("him", "her", "his"))

    def _continues(self, mention: Mention) -> bool:
        """Return whether a noun phrase after "and" or a comma continues the list before it."""
        if not self._coordinate or not self._last:
            return False
        if self._joined == "comma" and not self.is_list():
            return False
        link, nxt = self._link, self.peek()
        after = self.tag_after()
        told = after in _PREDICATES or after == "adjective" or mention.attributes
        if mention.part and not mention.name and told:
            # "One holding a balloon and the other …", "three black, two white".
            return False
        if self._coordinate == "subject" and self._told and mention.is_part:
            # "And the right arm straight back".
            return after not in _PREDICATES and nxt.tag not in ("adverb", "adjective")
        if self._coordinate == "subject":
            # After "a man is standing and" there is another clause, if it goes on at all.
            return not self._told or after not in _PREDICATES
        if mention.again and all(thing.name != mention.name for thing in self._last):
            return False
        if after in ("be", "have", "verb", "auxiliary"):
            if mention.owner is not None and mention.is_part:
                # "A bear standing on rocks and his ears are up".
                return False
            # What the subject has with it does nothing: "with a hat and a cane waves".
            worn = link is not None and not mention.animate and (link.has or link.clothes)
            worn = worn and bool(self._subject) and all(one.animate for one in self._subject)
            # "A man in a suit and a hat is": the verb is the first one, so the subject stays.
            return not self._finite and (after == "be" or worn)
        if after in ("ing", "participle"):
            if mention.bare and link is not None and link.has:
                return True
            if after == "ing" and mention.new and link is not None and link.tells_state:
                # "A cat sleeping on a sofa and a ball lying under it".
                return False
            acts = mention.animate and self._told
            return not (acts or after == "participle" or mention.is_part)
        if after == "preposition":
            word = nxt.lower if isinstance(nxt, Token) else ""
            if word == "of" and link is not None and link.predicate == "of":
                # "The leg of a table and the leg of a chair".
                return False
            if self._finite and mention.new and self.has_verb():
                # "A man is wearing a coat and a woman with a dog is …".
                return False
            if word == "with" and link is not None and self._is_beside(link, mention):
                return False
            alike = any(thing.animate for thing in self._last) == mention.animate
            other = mention.new or not (mention.known or mention.bare)
            return word in ("of", "with") or not (other or (mention.animate and not alike))
        return True

    def _is_beside(self, link: Link, mention: Mention) -> bool:
        """Return whether a thing with parts is none of what was told of another one.

        "A man with a beard and a woman with long hair".
        """
        if not link.has or not link.targets or not mention.new:
            return False
        if mention.is_piece or mention.is_clothes:
            return False
        if all(thing.is_piece or thing.is_clothes for thing in link.targets):
            return True
        doers = mention.animate and all(thing.animate for thing in link.sources)
        return doers and not any(thing.animate for thing in link.targets)

    def _sources_of(self, token: Token, base: str) -> list[Thing]:
        if self._relative:
            return self._last
        if self._copula:
            return self._subject
        if self._joined:
            return self._verb_sources or self._subject
        link, named = self._link, self._last_item
        aims = isinstance(named, Token) and named.lower.endswith(" to")
        if token.tag == "verb" and not (aims and not self._finite):
            # But "a tractor about to run over a hat".
            return self._subject or self._last
        if isinstance(named, Mention) and link is not None and link.targets:
            back = self.peek(2) if self.is_word(1, "preposition") else END
            of_it = isinstance(back, Mention) and back.pronoun in ("it", "them")
            held = base in OF_PARTS | OF_THINGS and (base != "look" or named.head in _SEEING)
            own = held if named.is_part else named.known or of_it
            if own and link.words[-1:] == ["with"]:
                # "With the sun setting behind them".
                return self._last
        if self._subject and (self._after_part or self._after_scenery):
            return self._subject
        if link is not None and link.targets and is_of_sources(link, base):
            return link.sources
        parts = base in OF_PARTS and any(thing.is_part for thing in self._last)
        if base == "look":
            parts = any(thing.head in _SEEING for thing in self._last)
        acts = base not in OF_THINGS and not any(thing.animate for thing in self._last)
        acts = acts and token.tag != "participle" and not parts
        if acts and any(thing.animate for thing in self._subject):
            return self._subject
        return self._last or self._subject

    @property
    def _after_part(self) -> bool:
        """Whether a deed is that of the whole: "a knife with a silver blade resting on a board"."""
        link = self._link
        if link is None or link.verb is not None or not link.parts:
            return False
        return not any(thing.is_part for thing in link.targets)

    @property
    def _after_scenery(self) -> bool:
        """Whether a state is that of what is at a place: "a boat in the water filled with men"."""
        link = self._link
        if link is None or link.verb is not None or not link.targets:
            return False
        places = all(thing.is_scenery for thing in link.targets)
        return places and link.sources == self._subject

    def _lettered(self, link: Link | None) -> list[Thing]:
        """Return what a text that follows "with" is written on."""
        if self._joined and self._subject:
            return self._subject
        if link is not None and self._last and all(thing.is_part for thing in self._last):
            # "A thought bubble over its head with the words …".
            return link.sources
        return self._last or self._subject

    def _is_of_depiction(self, link: Link | None, word: str, after: Item) -> bool:
        """Return whether a place is that of a picture: "a painting of a corgi on the wall"."""
        if link is None or link.predicate != "of" or not isinstance(after, Mention):
            return False
        if not all(thing.is_depiction for thing in link.sources) or word in ("of", "with"):
            return False
        borne = after.head in SURFACES
        return borne or after.pronoun in OBJECT_PRONOUNS or after.owner is not None

    def _is_lettering(self, after: Item) -> bool:
        """Return whether "in" tells how the text before it is written."""
        last, link = self._last_item, self._link
        manner = isinstance(after, Mention) and _is_manner(after)
        written = link is not None and link.base in WRITES and bool(link.targets)
        if written and isinstance(after, Mention) and after.bare and not after.ignored:
            return manner
        quoted = isinstance(last, Token) and (last.tag == "quote" or last.lower in _WRITTEN)
        return quoted and bool(self._texts) and (manner or after.tag == "adjective")

    def _is_inverted(self) -> bool:
        """Return whether the subject comes after the place that the next item ends.

        "… and on the table is a vase", "… and to the right of it a bike".
        """
        after, following = self.tag_after(1), self.peek(2)
        if after == "there":
            return True
        if isinstance(following, Mention):
            return following.new and not following.pronoun
        return after == "be" and self.tag_after(2) == "noun"

    def _is_tool(self, after: Item) -> bool:
        """Return whether "with" tells what somebody acts with: "sweeping sand with a broom"."""
        if not isinstance(after, Mention) or after.pronoun or not self._told:
            return False
        doers = bool(self._subject) and all(thing.animate for thing in self._subject)
        if not doers or self._last is self._subject:
            return False
        if any(thing.animate for thing in self._last):
            blow = self._link is not None and self._link.base in BLOWS
            return blow and after.head in WEAPONS
        return not after.is_piece

    def _bearer_after(self, at: int) -> int:
        """Return the place of what the text at ``at`` stands on; 0 if it does not follow."""
        step = at + 1 - self.at
        while self.is_word(step, "participle", _WRITTEN):
            step += 1
        bearer = self.peek(step + 1)
        if not self.is_word(step, "preposition", _WHERE | _MADE) or bearer is END:
            return 0
        inside = self.is_word(step, "preposition", {"in"})
        if not isinstance(bearer, Mention) or bearer.ignored or (inside and _is_manner(bearer)):
            # "In red paint on a wall": how it is written, then where.
            return self._bearer_after(self.at + step + 1) if inside else 0
        return 0 if bearer.is_writing else self.at + step + 1


def _is_manner(mention: Mention) -> bool:
    """Return whether "in" and a noun phrase tell how a text is written: "in bold letters"."""
    several = mention.least > 1 and not mention.is_writing
    return mention.ignored or (mention.bare and not several)


def agrees(things: Sequence[Thing], pronoun: str) -> bool:
    """Return whether a pronoun's number is that of ``things``."""
    several = len(things) > 1 or any(thing.least > 1 for thing in things)
    return several == (pronoun in ("them", "their"))
