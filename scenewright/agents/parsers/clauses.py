"""Clauses: subjects, predicates and objects from noun phrases and the words between them.

A state machine over one sentence. A link is a predicate with its subjects, waiting for its objects:
"holding", "on top of", "sitting on". A link without an object becomes a state of its subjects.
"Made of wood", "in the shape of a heart" and "in black" become attributes rather than relations.
"""

from __future__ import annotations

from scenewright.agents.parsers.clause_state import DOES, OBJECT_PRONOUNS, ClauseState, agrees
from scenewright.agents.parsers.links import (
    EMPTY_STATES,
    GIVES,
    NO_STATES,
    SAYS,
    SEES,
    SURFACES,
    TURNED,
    WALLS,
    WRITES,
    Link,
    is_far,
)
from scenewright.agents.parsers.mentions import Item, Mention, place_within
from scenewright.agents.parsers.naming import attributes_of, is_degree
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
from scenewright.agents.parsers.things import Thing, add_to
from scenewright.core.inflection import ing_form, singular, verb_base

_WHEN = frozenset({"before", "after", "until", "since"})
_TOLD = frozenset({"be", "have", "verb", "auxiliary", "participle"})
_SEEMS = words("verbs", "seems")
_LABELS = words("verbs", "labels")
_GUISES = frozenset(map(" ".join, phrases("prepositions", "guises")))
"""Words after which nothing is a further thing: "dressed as a pirate"."""


class Clause(ClauseState):
    """Reader of one sentence into things."""

    def read(self) -> None:
        """Read the sentence. Call once."""
        at = 0
        while at < len(self.items):
            self.at, item = at, self.items[at]
            if isinstance(item, Mention):
                self.read_mention(item)
            else:
                self.read_token(item)
            self._last_item = item
            at = max(at + 1, self._read_to)
        self._flush()
        self._things.texts += self._written
        if len(self.items) == 1 and len(self._subject) == 1 and self._subject[0].count == "exact":
            # "Three boats. A red boat …"
            self._things.told = self._subject[0]

    def read_token(self, token: Token) -> None:
        """Read a word."""
        after = self.tag_after()
        match token.tag:
            case "be":
                self._flush()
                if self._relative and self._last and self._last != self._subject:
                    self._main, self._subject = self._subject, self._last
                self._copula = True
                self._finite = self._told = True
                self._joined = ""
            case "have" if after in ("participle", "adjective"):
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
                self.read_verb(token)
            case "preposition":
                self.read_preposition(token.lower)
            case "place":
                self.read_place(token.lower)
            case "adjective":
                self._adjective()
            case "quote":
                self.read_quote(token)
            case "relative":
                self._flush()
                named = self.peek()
                if isinstance(named, Mention) and named.name and self._last:
                    self._antecedent = list(self._last)
                    self._subject, self._last, self._copula = [], [], False
                    return
                self._relative, self._joined, self._coordinate = True, "", ""
                doers = [thing for thing in self._subject if thing.animate]
                lifeless = not all(thing.animate for thing in self._last)
                if token.lower == "who" and doers and lifeless:
                    # "A judge with white hair who is …".
                    self._last = self._subject = doers
            case "and" | "comma":
                if self._waiting:
                    self._flush()
                closes = token.tag == "and"
                self._joined = "and" if closes or self._joined == "and" else "comma"
                if closes:
                    self._relative = False
                if self._main:
                    self._subject, self._main, self._copula = self._main, [], False
            case "auxiliary" if (
                token.lower in DOES
                and after in ("end", "and", "comma", "clause")
                and isinstance(self._last_item, Mention)
            ):
                # "And a gecko does too".
                self._echo(self._deed)
            case "clause" | "adverb" if token.lower in ("so", "as") and self._repeats_deed():
                # "…, and so does a gecko".
                self._flush()
                done, self._joined, self._coordinate = self._deed, "", ""
                self.at += 2
                doer = self.items[self.at]
                assert isinstance(doer, Mention)
                self.read_mention(doer)
                self._echo(done)
                self._read_to = self.at + 1
            case "adverb" if is_degree(token.lower) and self.is_word(1, "adjective"):
                self._adjective()
            case "adverb" if token.lower == "half" and self.is_word(1, "participle"):
                self._prefix = token.lower
            case "adverb" if token.lower in PARTICLES:
                link = self._link
                if self._waiting:
                    self._waiting.adverbs.append(token.lower)
                elif token.lower in TURNED and link and isinstance(self._last_item, Mention):
                    # "Wearing a cap backwards".
                    add_to(self._last, "state", token.lower)
                elif self._last and (self._copula or link is None):
                    things = self._subject if self._copula else self._last
                    self._start(Link(list(things), [], token.lower))
            case "clause":
                self._flush()
                self._things.texts += self._written
                self._written = []
                self._coordinate = ""
                self._copula = False
            case _:
                pass

    def _echo(self, done: Link | None) -> None:
        """Let the subject do a deed as well."""
        if done is None:
            return
        self._things.relate(self._subject, done.predicate, done.targets)
        if done.state and (not done.targets or done.tells_state):
            add_to(self._subject, "state", done.posture if done.targets else done.state)

    # Noun phrases

    def read_mention(self, mention: Mention) -> None:
        """Read a noun phrase."""
        link, waiting = self._link, self._waiting
        if mention.ignored:
            self.read_ignored(mention)
            return
        if mention.owner is not None and mention.owner.pronoun == "whose":
            holders, mention.owner = self._last, None
            self._flush()
            self._relative = False
            found = self._new_subject(mention)
            self._things.relate(holders, "has", found)
            self._last = found
            return
        if link is not None and self._is_given(link, mention):
            things = self._things.resolve(mention, link.sources)
            taker = link.targets[-1]
            for source in link.sources:
                self._things.forget(source, link.predicate, taker)
                self._things.relate([source], f"{link.words[0]} to", [taker])
                self._things.relate([source], link.words[0], things)
            self._last = things
            return
        goes_on = link is None and self._joined == "and" and self._made
        if goes_on and self.tag_after() not in _TOLD:
            add_to(self._made, "material", mention.name)
            return
        if waiting:
            if self._as_attribute(waiting, mention):
                return
            if mention.pronoun.endswith(("self", "selves")):
                # "Looks at himself in a mirror".
                add_to(waiting.sources, "state", f"{waiting.predicate} {mention.pronoun}")
                self._link, self._last = None, waiting.sources
                return
            if waiting.base == "wear" and mention.owner is not None and mention.owner.new:
                # "A dog wearing a man's hat": nobody else is there.
                mention.name, mention.owner = f"{mention.owner.name}'s {mention.name}", None
            back = mention.pronoun in OBJECT_PRONOUNS
            if waiting is self._fronted and back and self._reference:
                things = self._reference
            elif back and self._bears(waiting, mention.pronoun):
                things = self._verb_sources = self._bearing.sources
            else:
                things = self._things.resolve(mention, waiting.sources)
            if mention.part and not things:
                self._link = None
                return
            if back:
                # "A pan with a pizza on it": "with" says no better than the rest.
                for owner in things:
                    for source in waiting.sources:
                        self._things.forget(owner, "with", source)
            self._aim(waiting, things)
            self._share_out(waiting, mention, things)
        elif self._joined and self._continues(mention):
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
        elif self._is_contact(mention):
            # "The mouse the cat watches".
            self._antecedent = list(self._last)
            self._subject, self._last = [], []
            things = self._new_subject(mention)
        elif self._names_subject and mention.bare and self.tag_after() == "ing":
            # "A bear is car surfing".
            self._prefix = mention.name
            return
        elif self._names_subject:
            # "The dog is a poodle".
            for thing in self._subject if not mention.pronoun else ():
                thing.add_all(mention)
                if mention.name.casefold() != thing.name.casefold():
                    thing.add("type", mention.name)
            self._copula = False
            return
        else:
            things = self._new_subject(mention)
        if things:
            self._last = things
            if self._joined == "comma":
                self._things.texts += self._written
                self._written = []
            if mention.name and not mention.is_writing:
                # "The words 'KEEP OFF' on a wall".
                for text in self._written:
                    add_to(things, "text", text)
                self._written = []
        self._joined = ""

    def _aim(self, link: Link, things: list[Thing]) -> None:
        """Make ``things`` the objects of ``link``."""
        link.targets.extend(things)
        if link.has:
            self._bearing = link
        if link.predicate == "dressed in" and link.verb is not None:
            link.words, link.verb = ["wearing"], None
        for source in link.sources if link.predicate == "of" else ():
            if source.is_piece:
                self._things.relate(things, "has", [source])
            elif where := place_within(source.name):
                self._things.relate(things, where, [source])
            elif source.is_depiction:
                self._things.relate([source], "of", things)
        if link is not self._fronted and link.predicate not in NO_RELATION:
            self._things.relate(link.sources, link.predicate, things)
        if link.tells_state:
            add_to(link.sources, "state", link.posture)
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
        self._subject = self._verb_sources = things
        self._each = mention.each
        self._things.spoken_of(things)
        self._coordinate = "subject"
        self._existential = self._copula = self._relative = self._finite = self._told = False
        self._place_fronted(things)
        return things

    def _place_fronted(self, things: list[Thing]) -> None:
        if self._hangs:
            add_to(things, "state", self._hangs)
        if self._fronted_place:
            add_to(things, "place", self._fronted_place)
        if self._fronted is not None and self._fronted.predicate not in NO_RELATION:
            self._things.relate(things, self._fronted.predicate, self._fronted.targets)

    def read_ignored(self, mention: Mention) -> None:
        """Read a noun phrase that names nothing that can be drawn."""
        link = self._waiting
        after = self.peek()
        sided = mention.name in SIDE_NAMES
        if link and link.words == ["in"]:
            # "In black color".
            for key, value in mention.attributes:
                if key == "color":
                    add_to(link.sources, key, value)
        if link and link.verb is None:
            self._link = None
            if self.tag_after() == "relative":
                # "Over a background that is a sketch": nothing named before is one.
                self._subject, self._last = [], []
            if sided and link.words[-1].split()[-1] in ("in", "on", "at"):
                # "A crown with a ruby in its center".
                add_to(link.sources, "place", f"{link.predicate} {mention.name}")
        elif link and isinstance(after, Token) and after.lower == "of" and sided:
            # "Touching the bottom of a cheek" is one predicate.
            link.words = [*link.words, *(["the"] if mention.known else []), mention.name, "of"]
            self._read_to = self.at + 2
            return
        elif link:
            if mention.owner is not None and sided:
                # "Turned on its side".
                link.verb = f"{link.predicate} {mention.owner.pronoun} {mention.name}"
            self._flush()
            self._last = list(link.sources)
        elif not self._joined or self.tag_after() in ("be", "have", "verb"):
            self._subject, self._last, self._coordinate = [], [], ""
        self._copula = False

    def _as_attribute(self, link: Link, mention: Mention) -> bool:
        """Return whether the object of ``link`` is a material, a shape or a colour."""
        if link.predicate in _GUISES and not mention.pronoun:
            add_to(link.sources, "state", f"{link.predicate} {mention.name}")
            self._link = None
            return True
        labeled = link.base in _LABELS and len(link.words) == 1
        key = "text" if labeled and mention.bare else link.attribute_key(mention)
        if key is None:
            return False
        value = " ".join([*(said for _, said in mention.attributes), mention.name])
        if key == "shape":
            # "Shaped like a lion's head".
            owner = mention.owner
            value = f"{owner.name}'s {mention.name}" if owner and owner.name else mention.name
        for source in link.sources:
            if key == "color" and source.animate:
                # The clothes have the colour, not the wearer.
                source.add("state", f"dressed in {mention.name}")
            else:
                source.add(key, value)
        self._made = link.sources if key == "material" else []
        self._link = None
        return True

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
        link = self._waiting
        if link and self._antecedent:
            self._things.relate(link.sources, link.predicate, self._antecedent)
            self._verb_sources = self._subject
            self._subject = self._last = self._antecedent
            self._antecedent = []
        elif link and link.verb is not None and link.state not in EMPTY_STATES:
            add_to(link.sources, "state", link.state)
        if link and link is self._fronted:
            self._fronted = None
        self._link = None

    def read_verb(self, token: Token) -> None:
        """Read a form of a verb."""
        word = token.lower
        finite = token.tag == "verb"
        base = verb_base(word) or (singular(word) if finite else word)
        if token.tag == "participle" and base in WRITES and self._last_item.tag == "quote":
            return
        if token.tag == "participle" and self._prefix != "half":
            said = word
        elif finite:
            said = ing_form(base)
        else:
            said = f"{self._prefix} {word}".strip()
        self._prefix = ""
        if finite and self._waiting:
            self._flush()
        fronted = self._fronted is not None and bool(self._fronted.targets)
        placed = fronted or bool(self._fronted_place)
        if finite and placed and not self._subject and isinstance(self.peek(), Mention):
            # "Above the door hangs a clock".
            self._hangs = said if base not in NO_STATES else ""
            return
        if finite and self._main:
            self._subject, self._main, self._copula = self._main, [], False
        if finite and base in _SEEMS and self.tag_after() == "adjective":
            self.read_token(Token(token.text, "be"))
            return
        sources = self._sources_of(token, base)
        self._start(Link(list(sources), [said], said, base))
        self._finite = self._finite or finite
        self._told = self._told or not self._relative
        self._relative = False
        if sources:
            self._verb_sources = sources

    def read_preposition(self, word: str) -> None:
        """Read a preposition."""
        after = self.peek()
        named = isinstance(after, Mention)
        if word in _WHEN and named and self.tag_after(1) in _TOLD:
            # "Before his friend takes over".
            self.read_token(Token(word, "clause"))
            return
        if word == "in" and self._is_lettering(after):
            # "'SALE' in bold letters": how it is written, and nothing that is there.
            self._read_to = self.at + 2
            while self.is_word(self._read_to - self.at, "adjective"):
                self._read_to += 1
            return
        if self._joined and named and self._is_inverted():
            self._flush()
            self._reference = self._fronted.targets if self._fronted is not None else []
            self._subject, self._last, self._fronted_place, self._hangs = [], [], "", ""
            self._fronted = None
        if self._waiting and self._waiting.verb is not None and self._antecedent:
            # "The kite he made for his wife".
            self._flush()
        link = self._link
        if self._waiting:
            one = self._waiting.verb is not None and len(self._waiting.words) == 1
            self._waiting.words = [*self._waiting.words[: 1 if one else None], word]
            return
        if not self._subject and not self._last:
            self._fronted = Link([], [word])
            self._start(self._fronted)
            return
        # "Giving an apple to a bird" is done to the bird.
        given = link is not None and word == "to" and link.base in GIVES
        # "Looking out of a window at a mountain".
        seen = link is not None and word == "at" and link.base in SEES and link.words[1:] != ["at"]
        if link is not None and (given or seen):
            self._start(Link(list(link.sources), [link.words[0], word]))
            return
        if word == "with" and after.tag == "quote":
            self._start(Link(self._lettered(link), [word]))
            return
        self._start(Link(list(self._sources_of_place(link, word, after)), [word]))

    def _sources_of_place(self, link: Link | None, word: str, after: Item) -> list[Thing]:
        """Return what a preposition and its object are said of."""
        named = after if isinstance(after, Mention) else Mention("")
        owned = named.owner.pronoun if named.owner else ""
        if self._copula:
            return self._subject
        if link is not None and self._is_of_depiction(link, word, after):
            return link.sources
        owns = owned in ("his", "her", "their")
        if word == "with" and owns and not any(thing.animate for thing in self._last):
            # "A woman close to the camera with her mouth open".
            return [thing for thing in self._subject if thing.animate] or self._last
        if link is not None and word == "with":
            parts = bool(link.targets) and all(thing.is_part for thing in link.targets)
            if link.has and parts and named.is_part:
                # "Has a white belly with brown wings".
                return link.sources
            if link.fills and not named.is_piece:
                # "A shelf full of books with a cat on it".
                return link.sources
        if link is not None:
            alone = link.has and not any(thing.animate for thing in link.targets)
            # "A woman with tan skin in blue jeans".
            worn = word == "in" and alone and named.is_clothes
            # "A clock on the wall": the place is that of the thing before it.
            near = word == "on" and ((bool(owned) and named.is_part) or named.head in WALLS)
            far = is_far(link, word) and not near and named.pronoun not in OBJECT_PRONOUNS
            if self._joined or worn or far:
                return link.sources or self._last
        if word == "with" and self._is_tool(after) and not self.is_on_it():
            return self._subject
        if self._after_scenery:
            walls = all(thing.head in SURFACES for thing in self._subject)
            shown = named.is_piece or (walls and named.is_depiction)
            if word.partition(" ")[0] in COVERS or (word == "with" and shown):
                return self._subject
        sources = self._last or self._subject
        last = self._last_item
        if word == "with" and self._coordinate == "target" and isinstance(last, Mention):
            # "A table with a lamp and a vase with flowers".
            return sources[-1:] if last.new and len(sources) > 1 else sources
        return sources

    def read_place(self, word: str) -> None:
        """Read a place in the picture."""
        link = self._link
        doing = link.sources if link is not None and link.waits and link.verb is not None else []
        if self._waiting:
            self._flush()
        place = " ".join(part for part in word.split() if part not in ARTICLES)
        leads = self.tag_after() in ("be", "there", "verb") or isinstance(self.peek(), Mention)
        opens = bool(self._joined) or self.at == 0
        if self._subject and leads and opens and not self._copula:
            # "… and at the bottom is a dog": the place is that of what follows.
            self._subject, self._last, self._fronted, self._hangs = [], [], None, ""
        if not self._subject:
            self._fronted_place = place
            return
        things = doing or (self._subject if self._copula else self._last)
        ahead = place in ("on top", "in front", "behind")
        if ahead and link is not None and link.has and things is self._last:
            # "A horse with a man on top": it is on top of the horse.
            predicate = place if place == "behind" else f"{place} of"
            self._things.relate(things, predicate, link.sources)
            return
        if len(things) > 1 and not doing:
            # "A dog on the left and a cat on the right": each has its own.
            things = [thing for thing in things if not thing.attributes.get("place")] or things
        add_to(things, "place", place)

    def _adjective(self) -> None:
        """Read adjectives after a form of "be" or a noun."""
        words: list[str] = []
        for step, item in enumerate(self.items[self.at :], self.at):
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
        link = self._waiting
        things = self._subject if self._copula else self._last
        worn = link is not None and link.clothes
        if link and (worn or link.words == ["of"]):
            # "A bottle of white in a case".
            self._link = None
            things = link.sources if worn else things
        for key, value in attributes_of(words):
            if worn and key == "color":
                add_to(things, "state", f"dressed in {value}")
            else:
                add_to(things, key, value)

    def read_quote(self, token: Token) -> None:
        """Read a text that is written on something."""
        link = self._waiting
        things = self._last
        self._texts += 1
        writes = link is not None and link.base in WRITES
        told = link is not None and link.base in SAYS
        where = self._bearer_after(self.at) if self._subject and not told else 0
        if where:
            # "With the word 'STOP' written on a sign", but "a sign that says 'STOP' on a wall".
            self.write_on(where, token.text)
            return
        if link:
            things = [] if writes else link.sources or self._last
            self._link = None
        elif self._joined and self.at > 1 and self.is_word(-2, "quote"):
            # "With the words 'salt' and 'pepper'".
            things = self._lettered_last
        elif self._joined:
            things = []
        self._lettered_last = things
        add_to(things, "text", token.text)
        if writes:
            self._things.texts.append(token.text)
        elif not things:
            self._written.append(token.text)

    def write_on(self, where: int, text: str) -> None:
        """Give a text to the thing at ``where``."""
        link, bearer, place = self._link, self.items[where], self.items[where - 1]
        assert isinstance(bearer, Mention)
        assert isinstance(place, Token)
        self._read_to = where + 1
        sources = link.sources if link is not None else self._last
        if bearer.pronoun and agrees(sources, bearer.pronoun):
            things = sources
        else:
            things = self._things.resolve(bearer, [] if bearer.known else sources)
        add_to(things, "text", text)
        if self._waiting and things is not sources:
            if self._waiting.base in WRITES:
                self._waiting.words = [*self._waiting.words, place.lower]
                self._aim(self._waiting, things)
            elif bearer.new:
                self._aim(self._waiting, things)
        self._last, self._link = things, None
