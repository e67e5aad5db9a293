"""State of the reader of a sentence: its place, and the subjects of the next words.

The rules here only look: :class:`~scenewright.agents.parsers.clauses.Clause` acts on them.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.agents.parsers.links import (
    BLOWS,
    GIVES,
    OF_PARTS,
    OF_THINGS,
    SURFACES,
    WEAPONS,
    WRITES,
    Link,
    has_piece,
    is_clothes,
    is_depiction,
    is_of_sources,
    is_piece,
    is_scenery,
)
from scenewright.agents.parsers.lookahead import is_list, is_token, is_told, tag_after
from scenewright.agents.parsers.mentions import (
    Item,
    Mention,
    is_part,
    is_writing,
)
from scenewright.agents.parsers.tagging import (
    Token,
)
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


class Standing:
    """Content of a sentence so far."""

    def __init__(self, things: Things) -> None:
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
        self._last_item: Item | None = None
        self._texts = 0
        self._prefix = ""
        """Noun before the verb that it belongs to: "is car surfing"."""
        self._lettered_last: list[Thing] = []
        """Thing that the last text is written on."""
        self._written: list[str] = []
        """Texts whose bearer has not been named yet."""

    def _is_turned(self, items: Sequence[Item], at: int) -> bool:
        """Return whether "so" is that of "so does a gecko"."""
        if at + 2 >= len(items) or self._deed is None or not isinstance(items[at + 2], Mention):
            return False
        verb = items[at + 1]
        return isinstance(verb, Token) and (verb.lower in DOES or verb.tag in ("be", "have"))

    def _is_echo(self, items: Sequence[Item], at: int) -> bool:
        """Return whether somebody does what was done before: "and a gecko does too"."""
        too = tag_after(items, at) in ("end", "and", "comma", "clause")
        return too and isinstance(self._last_item, Mention) and self._deed is not None

    def _is_given(self, link: Link, mention: Mention) -> bool:
        """Return whether a second object follows the first at once: "gives a woman a flower"."""
        first = self._last_item
        direct = isinstance(first, Mention) and link.base in GIVES and bool(link.targets)
        return direct and len(link.words) == 1 and not self._joined and not mention.pronoun

    def _is_contact(self, mention: Mention, items: Sequence[Item], at: int) -> bool:
        """Return whether a clause about what was named last begins without "that"."""
        first = self._last_item
        beside = isinstance(first, Mention) and not first.pronoun and not first.bare
        beside = beside and not self._joined and bool(self._last)
        after = tag_after(items, at)
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

    def _continues(self, mention: Mention, items: Sequence[Item], at: int) -> bool:
        """Return whether a noun phrase after "and" or a comma continues the list before it."""
        if not self._coordinate or not self._last:
            return False
        if self._joined == "comma" and not is_list(items, at):
            return False
        after = tag_after(items, at)
        told = after in _PREDICATES or after == "adjective" or mention.attributes
        if mention.part and not mention.name and told:
            # "One holding a balloon and the other …", "three black, two white".
            return False
        if self._coordinate == "subject" and self._told and is_part(mention.name):
            # "And the right arm straight back".
            return after not in _PREDICATES and not _is_posed(items, at)
        if self._coordinate == "subject":
            # After "a man is standing and" there is another clause, if it goes on at all.
            return not self._told or after not in _PREDICATES
        if mention.again and all(thing.name != mention.name for thing in self._last):
            return False
        if after in ("be", "have", "verb", "auxiliary"):
            if mention.owner is not None and is_part(mention.name):
                # "A bear standing on rocks and his ears are up".
                return False
            # "A man in a suit and a hat is": the verb is the first one, so the subject stays.
            return not self._finite and (after == "be" or self._is_worn(mention))
        if after in ("ing", "participle"):
            if mention.bare and self._link is not None and self._link.has:
                return True
            if after == "ing" and mention.new and self._link is not None and self._link.tells_state:
                # "A cat sleeping on a sofa and a ball lying under it".
                return False
            acts = mention.animate and self._told
            return not (acts or after == "participle" or is_part(mention.name))
        if after == "preposition":
            nxt = items[at + 1]
            word = nxt.lower if isinstance(nxt, Token) else ""
            if word == "of" and self._link is not None and self._link.predicate == "of":
                # "The leg of a table and the leg of a chair".
                return False
            if self._finite and mention.new and is_told(items, at):
                # "A man is wearing a coat and a woman with a dog is …".
                return False
            if word == "with" and self._is_beside(mention):
                return False
            alike = any(thing.animate for thing in self._last) == mention.animate
            other = mention.new or not (mention.known or mention.bare)
            return word in ("of", "with") or not (other or (mention.animate and not alike))
        return True

    def _is_beside(self, mention: Mention) -> bool:
        """Return whether a thing with parts is none of what was told of another one.

        "A man with a beard and a woman with long hair".
        """
        link = self._link
        if link is None or not link.has or not link.targets or not mention.new:
            return False
        if is_piece(mention.name) or is_clothes(mention.name):
            return False
        if all(is_piece(thing.name) or is_clothes(thing.name) for thing in link.targets):
            return True
        doers = mention.animate and all(thing.animate for thing in link.sources)
        return doers and not any(thing.animate for thing in link.targets)

    def _is_worn(self, mention: Mention) -> bool:
        """Whether it is what the subject has with it, no doer: "with a hat and a cane waves"."""
        link = self._link
        if link is None or mention.animate or not (link.has or link.clothes):
            return False
        return bool(self._subject) and all(thing.animate for thing in self._subject)

    def _owned_name(self, mention: Mention) -> str:
        """Return a label with its owner's: "shaped like a lion's head"."""
        owner = mention.owner
        return f"{owner.name}'s {mention.name}" if owner and owner.name else mention.name

    def _sources_of(self, token: Token, base: str, of_it: bool) -> list[Thing]:
        if self._relative:
            return self._last
        if self._copula:
            return self._subject
        if self._joined:
            return self._verb_sources or self._subject
        before = self._last_item
        aims = isinstance(before, Token) and before.lower.endswith(" to")
        if token.tag == "verb" and not (aims and not self._finite):
            # But "a tractor about to run over a hat".
            return self._subject or self._last
        if self._is_absolute(base, of_it):
            return self._last
        if self._subject and (self._after_part or self._after_scenery):
            return self._subject
        link = self._link
        if link is not None and link.targets and is_of_sources(link, base):
            return link.sources
        parts = base in OF_PARTS and any(is_part(thing.name) for thing in self._last)
        if base == "look":
            parts = any(thing.name.rpartition(" ")[2] in _SEEING for thing in self._last)
        if token.tag == "participle" or parts:
            return self._last or self._subject
        acts = base not in OF_THINGS and not any(thing.animate for thing in self._last)
        if acts and any(thing.animate for thing in self._subject):
            return self._subject
        return self._last or self._subject

    def _is_absolute(self, base: str, of_it: bool) -> bool:
        """Return whether "with" has a clause of its own: "with the sun setting behind them"."""
        link, named = self._link, self._last_item
        if not isinstance(named, Mention):
            return False
        seeing = base != "look" or named.name.rpartition(" ")[2] in _SEEING
        held = seeing and base in OF_PARTS | OF_THINGS
        own = held if is_part(named.name) else named.known or of_it
        return own and link is not None and link.words[-1:] == ["with"] and bool(link.targets)

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
        places = all(is_scenery(thing.name) for thing in link.targets)
        return places and link.sources == self._subject

    def _lettered(self, link: Link | None) -> list[Thing]:
        """Return what a text that follows "with" is written on."""
        if self._joined and self._subject:
            return self._subject
        if link is not None and self._last and all(is_part(thing.name) for thing in self._last):
            # "A thought bubble over its head with the words …".
            return link.sources
        return self._last or self._subject

    def _is_of_depiction(self, link: Link | None, word: str, after: Item | None) -> bool:
        """Return whether a place is that of a picture: "a painting of a corgi on the wall"."""
        if link is None or link.predicate != "of" or not isinstance(after, Mention):
            return False
        if not all(is_depiction(thing.name) for thing in link.sources) or word in ("of", "with"):
            return False
        borne = after.name.rpartition(" ")[2].lower() in SURFACES
        return borne or after.pronoun in OBJECT_PRONOUNS or after.owner is not None

    def _of_whole(self, link: Link, after: Item | None) -> bool:
        """Return whether a part is that of what has parts: "has a white belly with brown wings"."""
        parts = bool(link.targets) and all(is_part(thing.name) for thing in link.targets)
        return parts and isinstance(after, Mention) and is_part(after.name)

    def _is_on_it(self, after: Item | None) -> bool:
        """Return whether the subject has what follows: a part, or a picture on a wall."""
        if not isinstance(after, Mention):
            return False
        walls = all(thing.name.rpartition(" ")[2] in SURFACES for thing in self._subject)
        return has_piece(after) or (walls and is_depiction(after.name))

    @property
    def _owns_now(self) -> bool:
        """Whether what was named last can have what is "his" or "hers"."""
        return any(thing.animate for thing in self._last)

    def _is_lettering(self, after: Item | None) -> bool:
        """Return whether "in" tells how the text before it is written."""
        last = self._last_item
        link = self._link
        written = link is not None and link.base in WRITES and bool(link.targets)
        quoted = isinstance(last, Token) and (last.tag == "quote" or last.lower in _WRITTEN)
        if written and isinstance(after, Mention) and after.bare and not after.ignored:
            return _is_manner(after)
        lettered = (isinstance(after, Mention) and _is_manner(after)) or (
            isinstance(after, Token) and after.tag == "adjective"
        )
        return quoted and bool(self._texts) and lettered

    def _is_inverted(self, items: Sequence[Item], at: int) -> bool:
        """Return whether the subject comes after the place that ends at ``at``.

        "… and on the table is a vase", "… and to the right of it a bike".
        """
        after = tag_after(items, at)
        if after == "there":
            return True
        following = items[at + 1] if at + 1 < len(items) else None
        if isinstance(following, Mention):
            return following.new and not following.pronoun
        return after == "be" and tag_after(items, at + 1) == "noun"

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
        return not is_piece(after.name)

    @property
    def _opens(self) -> bool:
        """Whether the sentence has only begun: nothing but small words and commas before."""
        return self._last_item is None

    def _bearer_after(self, items: Sequence[Item], at: int) -> int:
        """Return the place of what the text at ``at`` stands on; 0 if it does not follow."""
        step = at + 1
        while is_token(items, step, "participle", _WRITTEN):
            step += 1
        if not is_token(items, step, "preposition", _WHERE | _MADE) or step + 1 >= len(items):
            return 0
        bearer = items[step + 1]
        inside = is_token(items, step, "preposition", {"in"})
        if not isinstance(bearer, Mention) or bearer.ignored or (inside and _is_manner(bearer)):
            # "In red paint on a wall": how it is written, then where.
            return self._bearer_after(items, step + 1) if inside else 0
        return 0 if is_writing(bearer.name) else step + 1


def _is_posed(items: Sequence[Item], at: int) -> bool:
    """Return whether what follows at once says how a part is held: "right arm straight back"."""
    item = items[at + 1] if at + 1 < len(items) else None
    return isinstance(item, Token) and item.tag in ("adverb", "adjective")


def _is_manner(mention: Mention) -> bool:
    """Return whether "in" and a noun phrase tell how a text is written: "in bold letters"."""
    several = mention.least > 1 and not is_writing(mention.name)
    return mention.ignored or (mention.bare and not several)


def agrees(things: Sequence[Thing], pronoun: str) -> bool:
    """Return whether a pronoun's number is that of ``things``."""
    several = len(things) > 1 or any(thing.least > 1 for thing in things)
    return several == (pronoun in ("them", "their"))
