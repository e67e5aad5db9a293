"""Clauses: subjects, predicates and objects from noun phrases and the words between them.

A state machine over one sentence. A link is a predicate with its subjects, waiting for its objects:
"holding", "on top of", "sitting on". A link without an object becomes a state of its subjects.
"Made of wood", "in the shape of a heart" and "in black" become attributes rather than relations.
"""

from __future__ import annotations

from collections.abc import Sequence

from scenewright.agents.parsers.links import (
    EMPTY_STATES,
    GIVES,
    NO_STATES,
    SAYS,
    SEES,
    TURNED,
    WALLS,
    WRITES,
    Link,
    has_piece,
    is_clothes,
    is_depiction,
    is_far,
    is_piece,
    paint,
)
from scenewright.agents.parsers.lookahead import has_its, is_token, tag_after
from scenewright.agents.parsers.mentions import (
    Item,
    Mention,
    is_part,
    is_writing,
    place_within,
)
from scenewright.agents.parsers.naming import attributes_of, is_degree
from scenewright.agents.parsers.standing import DOES, OBJECT_PRONOUNS, Standing, agrees
from scenewright.agents.parsers.tagging import (
    ARTICLES,
    COVERS,
    NO_RELATION,
    PARTICLES,
    SIDE_NAMES,
    Token,
    phrases,
    words,
)
from scenewright.agents.parsers.things import Thing
from scenewright.core.inflection import ing_form, singular, verb_base

_WHEN = frozenset({"before", "after", "until", "since"})
_TOLD = frozenset({"be", "have", "verb", "auxiliary", "participle"})
_SEEMS = words("verbs", "seems")
_LABELS = words("verbs", "labels")
_GUISES = frozenset(map(" ".join, phrases("prepositions", "guises")))
"""Words after which nothing is a further thing: "dressed as a pirate"."""


class Clause(Standing):
    """Reader of one sentence into ``things``."""

    def read(self, items: Sequence[Item]) -> None:
        """Read the sentence. Call once."""
        for at, item in enumerate(items):
            if at < self._read_to:
                continue
            if isinstance(item, Mention):
                self._mention(item, items, at)
            else:
                self._token(item, items, at)
            self._last_item = item
        self._flush()
        self._things.texts += self._written
        if len(items) == 1 and len(self._subject) == 1 and self._subject[0].count == "exact":
            # "Three boats. A red boat …"
            self._things.told = self._subject[0]

    def _token(self, token: Token, items: Sequence[Item], at: int) -> None:
        match token.tag:
            case "be":
                self._flush()
                if self._relative and self._last and self._last != self._subject:
                    self._main, self._subject = self._subject, self._last
                self._copula = True
                self._finite = self._told = True
                self._joined = ""
            case "have" if tag_after(items, at) in ("participle", "adjective"):
                # "A man who has fallen asleep".
                self._flush()
                self._finite = self._told = True
            case "have":
                sources = self._last if self._relative else self._subject
                self._start(Link(list(sources), ["has"]))
                self._relative = False
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
                self._place(token.lower, items, at)
            case "adjective":
                self._adjective(items, at)
            case "quote":
                self._quote(token, items, at)
            case "relative":
                self._flush()
                after = items[at + 1] if at + 1 < len(items) else None
                if isinstance(after, Mention) and after.name and self._last:
                    self._antecedent = list(self._last)
                    self._subject, self._last, self._copula = [], [], False
                    return
                self._relative, self._joined, self._coordinate = True, "", ""
                self._relate_to(token.lower)
            case "and" | "comma":
                self._join(token)
            case "auxiliary" if token.lower in DOES and self._is_echo(items, at):
                self._echo(self._subject)
            case "clause" | "adverb" if token.lower in ("so", "as") and self._is_turned(items, at):
                # "…, and so does a gecko".
                self._flush()
                done, self._joined, self._coordinate = self._deed, "", ""
                doer = items[at + 2]
                assert isinstance(doer, Mention)
                self._mention(doer, items, at + 2)
                self._echo(self._subject, done)
                self._read_to = at + 3
            case "adverb" if is_degree(token.lower) and is_token(items, at + 1, "adjective", None):
                self._adjective(items, at)
            case "adverb" if token.lower == "half" and is_token(items, at + 1, "participle", None):
                self._prefix = token.lower
            case "adverb":
                self._adverb(token)
            case "clause":
                self._flush()
                self._things.texts += self._written
                self._written = []
                self._coordinate = ""
                self._copula = False
            case _:
                pass

    def _echo(self, things: list[Thing], done: Link | None = None) -> None:
        """Let ``things`` do the last deed as well."""
        done = done or self._deed
        if done is None:
            return
        for thing in things:
            for target in done.targets:
                self._things.relate(thing, done.predicate, target)
            if done.state and (not done.targets or done.tells_state):
                thing.add("state", done.posture if done.targets else done.state)

    def _relate_to(self, word: str) -> None:
        """Let "who" mean the person or animal before it: "a judge with white hair who is …"."""
        if word != "who" or not self._last or all(thing.animate for thing in self._last):
            return
        doers = [thing for thing in (*self._subject,) if thing.animate]
        if doers:
            self._last = self._subject = doers

    def _join(self, token: Token) -> None:
        link = self._link
        if link is not None and link.waits:
            self._flush()
        self._joined = "and" if token.tag == "and" or self._joined == "and" else "comma"
        if token.tag == "and":
            self._relative = False
        if self._main:
            self._subject, self._main, self._copula = self._main, [], False

    # Noun phrases

    def _mention(self, mention: Mention, items: Sequence[Item], at: int) -> None:
        link = self._link
        if mention.ignored:
            if link is not None and link.waits and link.words == ["in"]:
                paint(link.sources, mention)
            self._ignored(mention, items, at)
            return
        if mention.owner is not None and mention.owner.pronoun == "whose":
            holders, mention.owner = self._last, None
            self._flush()
            self._relative = False
            found = self._new_subject(mention)
            for holder in holders:
                for thing in found:
                    self._things.relate(holder, "has", thing)
            self._last = found
            return
        waiting = link is not None and link.waits
        if link is not None and self._is_given(link, mention):
            self._give(link, self._things.resolve(mention, link.sources))
            return
        if (
            link is None
            and self._joined == "and"
            and self._made
            and tag_after(items, at) not in _TOLD
        ):
            for thing in self._made:
                thing.add("material", mention.name)
            return
        if link is not None and waiting:
            if self._as_attribute(link, mention):
                return
            if mention.pronoun.endswith(("self", "selves")):
                # "Looks at himself in a mirror".
                for source in link.sources:
                    source.add("state", f"{link.predicate} {mention.pronoun}")
                self._link, self._last = None, link.sources
                return
            if link.base == "wear" and mention.owner is not None and mention.owner.new:
                # "A dog wearing a man's hat": nobody else is there.
                owner = mention.owner.name
                mention.name, mention.owner = f"{owner}'s {mention.name}", None
            if link is self._fronted and mention.pronoun in OBJECT_PRONOUNS and self._reference:
                things = self._reference
            elif mention.pronoun in OBJECT_PRONOUNS and self._bears(link, mention.pronoun):
                things = self._verb_sources = self._bearing.sources
            else:
                things = self._things.resolve(mention, link.sources)
            if mention.part and not things:
                self._link = None
                return
            if mention.pronoun in OBJECT_PRONOUNS:
                self._without_with(link, things)
            self._aim(link, things)
            self._share_out(link, mention, things)
        elif self._joined and self._continues(mention, items, at):
            # "A man and his dog": he is the owner.
            things = self._things.resolve(mention, self._last if mention.owner is None else [])
            if self._coordinate == "target" and link is not None:
                self._aim(link, things)
                self._share_out(link, mention, things)
                self._last = [*self._last, *things]
                self._things.together = list(self._last)
            else:
                self._subject = [*self._subject, *things]
                self._last = self._subject
                self._things.together = list(self._subject)
                if all(thing.animate for thing in self._subject):
                    self._things.doers = list(self._subject)
                self._place_fronted(things)
            self._joined = ""
            return
        elif self._is_contact(mention, items, at):
            # "The mouse the cat watches".
            self._antecedent = list(self._last)
            self._subject, self._last = [], []
            things = self._new_subject(mention)
        elif self._names_subject and mention.bare and tag_after(items, at) == "ing":
            # "A bear is car surfing".
            self._prefix = mention.name
            return
        elif self._names_subject:
            self._predicate_noun(mention)
            return
        else:
            things = self._new_subject(mention)
        if things:
            self._last = things
            self._bear(things, mention)
        self._joined = ""

    def _bear(self, things: list[Thing], mention: Mention) -> None:
        """Give the texts to what they are written on: "the words 'KEEP OFF' on a wall"."""
        if self._joined == "comma":
            self._things.texts += self._written
            self._written = []
        if self._written and mention.name and not is_writing(mention.name):
            for thing in things:
                for text in self._written:
                    thing.add("text", text)
            self._written = []

    def _give(self, link: Link, things: list[Thing]) -> None:
        """Make ``things`` what is given to the object before them."""
        taker = link.targets[-1]
        for source in link.sources:
            self._things.forget(source, link.predicate, taker)
            self._things.relate(source, f"{link.words[0]} to", taker)
            for thing in things:
                self._things.relate(source, link.words[0], thing)
        self._last = things

    def _without_with(self, link: Link, owners: list[Thing]) -> None:
        """Take back what "with" says no better than the rest: "a pan with a pizza on it"."""
        for owner in owners:
            for source in link.sources:
                self._things.forget(owner, "with", source)

    def _aim(self, link: Link, things: list[Thing]) -> None:
        """Make ``things`` the objects of ``link``."""
        link.targets.extend(things)
        if link.has:
            self._bearing = link
        if link.predicate == "dressed in" and link.verb is not None:
            link.words, link.verb = ["wearing"], None
        if link.predicate == "of":
            for source in link.sources:
                for thing in things:
                    if is_piece(source.name):
                        self._things.relate(thing, "has", source)
                    elif where := place_within(source.name):
                        self._things.relate(thing, where, source)
                    elif is_depiction(source.name):
                        self._things.relate(source, "of", thing)
        if link is not self._fronted and link.predicate not in NO_RELATION:
            for source in link.sources:
                for thing in things:
                    self._things.relate(source, link.predicate, thing)
        if link.verb is not None and link.tells_state:
            for source in link.sources:
                source.add("state", link.posture)
        self._coordinate = "target"

    def _share_out(self, link: Link, mention: Mention, things: list[Thing]) -> None:
        """Let each of several have one: "each plate has a fork", "a fork next to each"."""
        if mention.each and mention.part != "other":
            for source in link.sources:
                source.as_many_as(things[0])
        elif mention.new and self._each and link.sources == self._subject:
            for thing in things:
                thing.as_many_as(link.sources[0])

    def _new_subject(self, mention: Mention) -> list[Thing]:
        self._flush()
        things = self._things.resolve(mention, self._fronted.targets if self._fronted else [])
        if not things:
            self._subject, self._last = [], []
            return []
        self._subject = things
        self._each = mention.each
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
            if self._hangs:
                thing.add("state", self._hangs)
            if self._fronted_place:
                thing.add("place", self._fronted_place)
            if self._fronted is not None and self._fronted.predicate not in NO_RELATION:
                for target in self._fronted.targets:
                    self._things.relate(thing, self._fronted.predicate, target)

    def _ignored(self, mention: Mention, items: Sequence[Item], at: int) -> None:
        link = self._link
        if link is not None and link.waits:
            after = items[at + 1] if at + 1 < len(items) else None
            if link.verb is None:
                self._link = None
                if tag_after(items, at) == "relative":
                    # "Over a background that is a sketch": nothing named before is one.
                    self._subject, self._last = [], []
                if mention.name in SIDE_NAMES and link.words[-1].split()[-1] in ("in", "on", "at"):
                    # "A crown with a ruby in its center".
                    for thing in link.sources:
                        thing.add("place", f"{link.predicate} {mention.name}")
            elif isinstance(after, Token) and after.lower == "of" and mention.name in SIDE_NAMES:
                # "Touching the bottom of a cheek" is one predicate.
                link.words = [*link.words, *(["the"] if mention.known else []), mention.name, "of"]
                self._read_to = at + 2
                return
            else:
                if mention.owner is not None and mention.name in SIDE_NAMES:
                    # "Turned on its side".
                    link.verb = f"{link.predicate} {mention.owner.pronoun} {mention.name}"
                self._flush()
                self._last = list(link.sources)
        elif not self._joined or tag_after(items, at) in ("be", "have", "verb"):
            self._subject, self._last, self._coordinate = [], [], ""
        self._copula = False

    def _as_attribute(self, link: Link, mention: Mention) -> bool:
        """Return whether the object of ``link`` is a material, a shape or a colour."""
        if link.predicate in _GUISES and not mention.pronoun:
            for source in link.sources:
                source.add("state", f"{link.predicate} {mention.name}")
            self._link = None
            return True
        labeled = link.base in _LABELS and len(link.words) == 1
        key = "text" if labeled and mention.bare else link.attribute_key(mention)
        if key is None:
            return False
        for source in link.sources:
            if key == "color" and source.animate:
                # The clothes have the colour, not the wearer.
                source.add("state", f"dressed in {mention.name}")
            else:
                source.add(
                    key,
                    self._owned_name(mention)
                    if key == "shape"
                    else " ".join([*(value for _, value in mention.attributes), mention.name]),
                )
        self._made = link.sources if key == "material" else []
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
        self._made = []
        self._link = link
        self._joined = ""
        self._copula = False
        if link.sources and link.sources == self._subject:
            self._deed = link

    def _flush(self) -> None:
        """Turn links without objects into states of their subjects."""
        link = self._link
        if self._antecedent and link is not None and link.waits:
            for source in link.sources:
                for thing in self._antecedent:
                    self._things.relate(source, link.predicate, thing)
            self._subject = self._last = self._antecedent
            self._antecedent, self._verb_sources = [], self._subject
        elif link is not None and link.waits and link.verb is not None:
            state = link.state
            if state not in EMPTY_STATES:
                for source in link.sources:
                    source.add("state", state)
        if link is not None and link is self._fronted and not link.targets:
            self._fronted = None
        self._link = None

    def _verb(self, token: Token, items: Sequence[Item], at: int) -> None:
        word = token.lower
        base = verb_base(word) or (singular(word) if token.tag == "verb" else word)
        quoted = isinstance(self._last_item, Token) and self._last_item.tag == "quote"
        if quoted and token.tag == "participle" and base in WRITES:
            return
        if token.tag == "participle" and self._prefix != "half":
            said = word
        elif token.tag == "verb":
            said = ing_form(base)
        else:
            said = f"{self._prefix} {word}".strip()
        self._prefix = ""
        if token.tag == "verb" and self._link is not None and not self._link.targets:
            self._flush()
        after = items[at + 1] if at + 1 < len(items) else None
        fronted = self._fronted is not None and bool(self._fronted.targets)
        placed = fronted or bool(self._fronted_place)
        if placed and not self._subject and token.tag == "verb" and isinstance(after, Mention):
            # "Above the door hangs a clock".
            self._hangs = said if base not in NO_STATES else ""
            return
        if self._main and token.tag == "verb":
            self._subject, self._main, self._copula = self._main, [], False
        if base in _SEEMS and token.tag == "verb" and tag_after(items, at) == "adjective":
            self._token(Token(token.text, "be"), items, at)
            return
        back = items[at + 2] if is_token(items[:-1], at + 1, "preposition", None) else None
        of_it = isinstance(back, Mention) and back.pronoun in ("it", "them")
        sources = self._sources_of(token, base, of_it)
        self._start(Link(list(sources), [said], said, base))
        self._finite = self._finite or token.tag == "verb"
        self._told = self._told or not self._relative
        self._relative = False
        if sources:
            self._verb_sources = sources

    def _preposition(self, word: str, items: Sequence[Item], at: int) -> None:
        link = self._link
        after = items[at + 1] if at + 1 < len(items) else None
        if word in _WHEN and isinstance(after, Mention) and tag_after(items, at + 1) in _TOLD:
            # "Before his friend takes over".
            self._token(Token(word, "clause"), items, at)
            return
        if word == "in" and self._is_lettering(after):
            # "'SALE' in bold letters": how it is written, and nothing that is there.
            self._read_to = at + 2
            while is_token(items, self._read_to, "adjective", None):
                self._read_to += 1
            return
        if self._joined and isinstance(after, Mention) and self._is_inverted(items, at + 1):
            self._flush()
            self._reference = self._fronted.targets if self._fronted is not None else []
            self._subject, self._last, self._fronted_place, self._hangs = [], [], "", ""
            self._fronted, link = None, None
        if link is not None and link.waits and link.verb is not None and self._antecedent:
            # "The kite he made for his wife".
            self._flush()
            link = self._link
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
        if link is not None and word == "to" and link.base in GIVES and link.targets:
            # "Giving an apple to a bird" is done to the bird.
            self._start(Link(list(link.sources), [link.words[0], "to"]))
            return
        if link is not None and word == "at" and link.base in SEES and link.words[1:] != ["at"]:
            # "Looking out of a window at a mountain".
            self._start(Link(list(link.sources), [link.words[0], "at"]))
            return
        if word == "with" and isinstance(after, Token) and after.tag == "quote":
            self._start(Link(self._lettered(link), [word]))
            return
        back = isinstance(after, Mention) and after.pronoun in OBJECT_PRONOUNS
        owned = after.owner.pronoun if isinstance(after, Mention) and after.owner else ""
        if self._copula:
            sources = self._subject
        elif self._is_of_depiction(link, word, after):
            sources = link.sources if link is not None else self._last
        elif word == "with" and owned in ("his", "her", "their") and not self._owns_now:
            # "A woman close to the camera with her mouth open".
            sources = [thing for thing in self._subject if thing.animate] or self._last
        elif word == "with" and link is not None and link.has and self._of_whole(link, after):
            sources = link.sources
        elif word == "with" and link is not None and link.fills and not has_piece(after):
            # "A shelf full of books with a cat on it".
            sources = link.sources
        elif link is not None and (
            self._joined
            or (word == "in" and _is_worn(link, after))
            or (is_far(link, word) and not back and not _is_near(word, after))
        ):
            sources = link.sources or self._last
        elif (word == "with" and self._is_tool(after) and not has_its(items, at)) or (
            self._after_scenery
            and (word.partition(" ")[0] in COVERS or (word == "with" and self._is_on_it(after)))
        ):
            sources = self._subject
        else:
            sources = self._last or self._subject
            named = self._last_item
            if word == "with" and self._coordinate == "target" and isinstance(named, Mention):
                # "A table with a lamp and a vase with flowers".
                sources = sources[-1:] if named.new and len(sources) > 1 else sources
        self._start(Link(list(sources), [word]))

    def _place(self, word: str, items: Sequence[Item], at: int) -> None:
        link = self._link
        doing = link.sources if link is not None and link.waits and link.verb is not None else []
        if link is not None and link.waits:
            self._flush()
        place = " ".join(part for part in word.split() if part not in ARTICLES)
        after = items[at + 1] if at + 1 < len(items) else None
        leads = isinstance(after, Mention) or tag_after(items, at) in ("be", "there", "verb")
        if self._subject and leads and (self._joined or self._opens) and not self._copula:
            # "… and at the bottom is a dog": the place is that of what follows.
            self._subject, self._last, self._fronted, self._hangs = [], [], None, ""
        if not self._subject:
            self._fronted_place = place
            return
        things = doing or (self._subject if self._copula else self._last)
        if (
            place in ("on top", "in front", "behind")
            and link is not None
            and link.has
            and things is self._last
        ):
            # "A horse with a man on top": it is on top of the horse.
            predicate = place if place == "behind" else f"{place} of"
            for thing in things:
                for source in link.sources:
                    self._things.relate(thing, predicate, source)
            return
        if len(things) > 1 and not doing:
            # "A dog on the left and a cat on the right": each has its own.
            things = [thing for thing in things if not thing.attributes.get("place")] or things
        for thing in things:
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
            elif is_degree(item.lower):
                words.append(item.lower)
        link = self._link
        worn = link is not None and link.waits and link.clothes
        if link is not None and link.waits and link.words == ["of"]:
            # "A bottle of white in a case".
            self._link = None
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
        elif word in TURNED and link is not None and isinstance(self._last_item, Mention):
            # "Wearing a cap backwards".
            for thing in self._last:
                thing.add("state", word)
        elif self._last and (self._copula or self._link is None):
            things = self._subject if self._copula else self._last
            self._start(Link(list(things), [], word))

    def _quote(self, token: Token, items: Sequence[Item], at: int) -> None:
        link = self._link
        things = self._last
        self._texts += 1
        writes = link is not None and link.waits and link.base in WRITES
        told = link is not None and link.waits and link.base in SAYS
        if self._subject and not told and (where := self._bearer_after(items, at)):
            # "With the word 'STOP' written on a sign", but "a sign that says 'STOP' on a wall".
            self._write_on(items, where, token.text)
            return
        if link is not None and link.waits:
            things = [] if writes else link.sources or self._last
            self._link = None
        elif self._joined and at > 1 and is_token(items, at - 2, "quote", None):
            # "With the words 'salt' and 'pepper'".
            things = self._lettered_last
        elif self._joined:
            things = []
        self._lettered_last = things
        for thing in things:
            thing.add("text", token.text)
        if writes:
            self._things.texts.append(token.text)
        elif not things:
            self._written.append(token.text)

    def _write_on(self, items: Sequence[Item], where: int, text: str) -> None:
        link, bearer, place = self._link, items[where], items[where - 1]
        assert isinstance(bearer, Mention)
        assert isinstance(place, Token)
        self._read_to = where + 1
        sources = link.sources if link is not None else self._last
        if bearer.pronoun and agrees(sources, bearer.pronoun):
            things = sources
        else:
            things = self._things.resolve(bearer, [] if bearer.known else sources)
        for thing in things:
            thing.add("text", text)
        if link is not None and link.waits and things is not sources:
            if link.base in WRITES:
                link.words = [*link.words, place.lower]
                self._aim(link, things)
            elif bearer.new:
                self._aim(link, things)
        self._last, self._link = things, None


def _is_worn(link: Link, after: Item | None) -> bool:
    """Return whether a person is in what follows: "a woman with tan skin in blue jeans"."""
    alone = link.has and not any(thing.animate for thing in link.targets)
    return alone and isinstance(after, Mention) and is_clothes(after.name)


def _is_near(word: str, after: Item | None) -> bool:
    """Return whether a place is that of the thing before it: "a clock on the wall"."""
    if word != "on" or not isinstance(after, Mention):
        return False
    worn = after.owner is not None and bool(after.owner.pronoun) and is_part(after.name)
    return worn or after.name.rpartition(" ")[2].lower() in WALLS
