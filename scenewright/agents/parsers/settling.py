"""From the words of a sentence to tagged words: tokens, and the part that each plays there.

One pass from left to right. A word that is ambiguous by the lexicon (an ``-ing`` form, a
participle, "plays") is settled by the tag before it and by what the word after it can be.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, cast

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.naming import name_of
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import BREAK, capitals, spanning
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    CLOTHES,
    GROUPS,
    NUMBERS,
    PARTS,
    THING_PARTS,
    Tag,
    Token,
    is_animate,
    rough,
    words,
)
from scenewright.core.inflection import IRREGULAR_VERBS, singular, verb_base

_LONGEST = max(
    len(phrase)
    for group in (lexicon.PREPOSITIONS, lexicon.PLACES, lexicon.COMPOUNDS)
    for phrase in group
)
_DETERMINING = frozenset({"article", "possessive", "number", "determiner"})
_OPENS_NOUN = _DETERMINING | {"adjective", "owner"}
_STARTS_NOUN_PHRASE = _DETERMINING | {"pronoun"}
_NOUNLIKE = frozenset({"noun", "either", "weak"})
_NAMING = _NOUNLIKE | {"adjective"}
_AFTER_NAME = frozenset({"end", "comma", "and", "preposition", "ing", "relative", "be"})
_BEFORE_MODIFIER = frozenset({None, "comma", "and", "verb", "ing", "preposition", "have"})
_BEFORE_VERB = frozenset({"noun", "pronoun", "relative", "quote"})
_AFTER_VERB = _STARTS_NOUN_PHRASE | {"preposition", "place", "quote"}
_ADVERBS = words("closed", "adverbs")
_BEFORE_NOUNS = words("adjectives", "adverbs_too")
_BODIED = words("adjectives", "bodied")
_MAKING = frozenset({"hand", "home", "half", "machine"})
"""Before a participle they are one adjective with it: "a hand painted sign"."""
_LABELS = words("verbs", "labels")
_UNITS = words("nouns", "units")
_APART = frozenset({"in", "above", "below", "behind", "away", "apart", "from", "off", "ahead"})
_WAYS = words("prepositions", "ways")
_BEFORE_SIDE = words("prepositions", "before_sides")
_NEEDS_ARTICLE = frozenset({"inside", "outside", "foot", "tip", "base"})
_NO_SIDE = frozenset({"of", "for", "with", "without", "about", "like", "as"})
_DIRECTED = ("hill", "stairs", "stream")
"""Endings of adverbs that lead to a thing too: "skating downhill a dune"."""
_SINGLE = frozenset({"a", "an", "one", "each", "every", "another", "this", "that"})
"""Determiners of a single thing."""
_ONE_OF_SEVERAL = frozenset({"one", "other", "another", "each", "either"})
"""They stand for a noun: "one sits, the other stands"."""
_POINTING = frozenset({"that", "this", "these", "those", "all", "both", "some", "each", "one"})
_PARTS = PARTS | THING_PARTS | CLOTHES
_NAMED_WITH = _PARTS | {f"{word}s" for word in _PARTS}
"""Parts named with the person or animal before them: "the dog ears"."""
_LISTED = frozenset({"color", "material", "texture"})
_FULL_FORMS = frozenset({"it's", "there's", "he's", "she's", "that's", "let's"})


class _Piece(NamedTuple):
    """A word, or several that stand as one."""

    text: str
    known: Tag | None
    """Its tag, if that does not depend on the pieces around it."""

    @property
    def lower(self) -> str:
        return self.text.lower()

    @property
    def kind(self) -> str:
        """Its tag, else that without context."""
        return self.known or rough(self.text.lower())


def tag(words: Sequence[str], said: dict[str, str]) -> list[Token]:
    """Tag the words of one sentence, with phrases joined and owners split off."""
    tokens: list[Token] = []
    pieces = _pieces(words, said)
    before: Tag | None = None
    for at, (text, known) in enumerate(pieces):
        if known is None:
            known = _Spot(pieces, at, before, tokens).tag()
        tokens.append(Token(text, known))
        if known != "adverb" or before is None:
            before = "comma" if text == BREAK else known
    return tokens


def _pieces(words: Sequence[str], said: dict[str, str]) -> list[_Piece]:
    found: list[_Piece] = []
    lower = [word.lower() for word in words]
    at = 0
    while at < len(words):
        word = words[at]
        known: Tag | None = "quote"
        if word in said:
            size = 1
        elif word in (",", BREAK):
            size, known = 1, "comma" if word == "," else "clause"
        elif size := capitals(words, at):
            pass
        elif size := _distance(lower, at):
            known = "adverb"
        elif size := _compound_adjective(lower, at):
            known = "adjective"
        elif size := name_of(words, at):
            known = "noun"
        else:
            size, known = _phrase_at(lower, at)
        owner = re.fullmatch(r"(.+?)['’]s|(.+s)['’]", word)
        if known is not None:
            found.append(_Piece(spanning(words, at, size, said.get(word, "")), known))
        elif lower[at] in ("'s", "’s", "'", "’") and found and found[-1].known in (None, "noun"):
            # Captions that a tokenizer has split: "zebra 's head".
            before = found[-1].text
            if rough(before.lower()) in ("pronoun", "there", "relative"):
                found.append(_Piece(spanning(words, at, 1, "is"), "be"))
            else:
                found[-1] = _Piece(before, "noun")
                found.append(_Piece(spanning(words, at, 1, "'s"), "owner"))
        elif (
            # Misspelt for "its": "on it's side".
            at > 0
            and lower[at] in ("it's", "it’s")
            and rough(lower[at - 1]) in ("preposition", "ing", "verb")
            and rough(lower[min(at + 1, len(lower) - 1)]) in ("noun", "either")
        ):
            found.append(_Piece(spanning(words, at, 1, "its"), "possessive"))
        elif owner and lower[at] not in _FULL_FORMS:
            found.append(_Piece(spanning(words, at, 1, owner[1] or owner[2]), "noun"))
            found.append(_Piece(spanning(words, at, 1, "'s"), "owner"))
        elif owner and owner[1]:
            found.append(_Piece(spanning(words, at, 1, owner[1]), None))
            found.append(_Piece(spanning(words, at, 1, "is"), "be"))
        else:
            found.append(_Piece(word, None))
        at += size
    return found


def _is_number(word: str) -> bool:
    return word in NUMBERS or word[:1].isdigit()


def _distance(lower: Sequence[str], at: int) -> int:
    """Return how many words say how far something is: "a few feet" before "in front of"."""
    size = int(lower[at] == "a")
    count, unit, link = [*lower[at + size : at + size + 3], "", "", ""][:3]
    counted = count in lexicon.FEW or (not size and _is_number(count))
    return size + 2 if counted and unit in _UNITS and link in _APART else 0


def _compound_adjective(lower: Sequence[str], at: int) -> int:
    """Return how many words at ``at`` are one adjective; 0 for any other words.

    Measures ("50 foot tall"), bodies ("a short haired dog"), particles ("a lit up bus") and doers
    ("a pedestrian saturated area"). What covers a thing is there itself, and who stands with an
    article does what follows.
    """
    if at + 2 >= len(lower):
        return 0
    first, second, head = lower[at : at + 3]
    if _is_number(first) and second in _UNITS and head in ADJECTIVES:
        return 3
    particle = second in ("up", "out", "off", "down")
    if not (particle or second in _BODIED or first in _MAKING or second.endswith("ed")):
        return 0
    kind, form, after = rough(first), rough(second), rough(head)
    before = rough(lower[at - 1]) if at else ""
    nounlike = after in _NOUNLIKE
    if first in _MAKING:
        bodied = form == "participle" and after in _NAMING
    else:
        stem = singular(second.removesuffix("ed"))
        has = second.endswith("ed") and (stem in _PARTS or f"{stem}e" in _PARTS)
        bodied = kind in ("adjective", "either") and (second in _BODIED or has)
        bodied = bodied and nounlike and first not in lexicon.EMPTY
    phrasal = (
        particle
        and nounlike
        and before in ("article", "adjective", "either", "possessive", "number")
    )
    phrasal = phrasal and kind in ("participle", "adjective") and first not in ("left", "right")
    if bodied or phrasal:
        return 2
    if not second.endswith("ed") or not nounlike or kind != "noun":
        return 0
    opens = before in ("preposition", "adjective", "either", "have", "ing")
    opens = opens or (before in ("article", "possessive", "number") and not is_animate(first))
    plain = singular(first) == first and second not in lexicon.COVERS
    plain = plain and verb_base(second) not in _LABELS
    return 2 if opens and plain and form in ("participle", "adjective") else 0


def _phrase_at(lower: Sequence[str], at: int) -> tuple[int, Tag | None]:
    before = lower[at - 1] if at else ""
    for size in range(min(_LONGEST, len(lower) - at), 1, -1):
        phrase = tuple(lower[at : at + size])
        text, last = " ".join(phrase), phrase[-1]
        follows, then = [*lower[at + size : at + size + 2], ".", "."][:2]
        if phrase in lexicon.AUXILIARY_PHRASES:
            parts = parts_of_speech(follows)
            base = verb_base(follows) == follows or ("VERB" in parts and "NOUN" not in parts)
            # "Going to dive", but "going to school".
            if last != "to" or base or rough(follows) == "be":
                return size, "auxiliary"
        if text in lexicon.QUANTIFIERS and _is_number(follows):
            return size, "determiner"
        if text in lexicon.OR_SO and _is_number(before):
            return size, "determiner"
        if phrase in lexicon.ACTIVITIES and at and rough(before) in ("noun", "be"):
            # "A person roller skating", but "a blue kite flying" and "dog walking".
            return size, "ing"
        if phrase == ("as", "well", "as"):
            return size, "and"
        if (
            last == "to"
            and rough(follows) in ("noun", "verb", "weak")
            and _is_deed(follows, rough(then))
            and singular(follows) == follows
        ):
            # "Swooping down to catch a mouse".
            continue
        if last == "at" and size == 2 and follows not in lexicon.ARTICLES:
            # "Up at the sky", but "an arm up at shoulder level".
            continue
        if phrase in lexicon.PREPOSITIONS:
            return size + _side_after(lower, at + size, phrase), "preposition"
        # "On the left" begins "on the left chair".
        sided = last in lexicon.SIDES and follows[0].isalnum() and rough(follows) in _NOUNLIKE
        if phrase in lexicon.PLACES and follows != "of" and not sided:
            return size, "place"
        if {phrase, (*phrase[:-1], singular(last))} & lexicon.COMPOUNDS:
            return size, "noun"
    one = (lower[at],)
    if one in lexicon.PREPOSITIONS and (side := _side_after(lower, at + 1, one)):
        return 1 + side, "preposition"
    if lower[at + 1 : at + 2] == ["than"] and lexicon.graded(lower[at]):
        return 2, "preposition"
    return 1, None


def _side_after(lower: Sequence[str], at: int, preposition: Sequence[str]) -> int:
    """Return how many words make a side of something: "the left side of" after "attached to"."""
    if preposition[-1] in _NO_SIDE:
        return 0
    step = at
    while step < len(lower) and step < at + 3 and lower[step] in _BEFORE_SIDE:
        step += 1
    # "On the back of" has a word that is both.
    for place in (step, step - 1):
        bare = place == at and place < len(lower) and lower[place] in _NEEDS_ARTICLE
        if at <= place and tuple(lower[place + 1 : place + 2]) == ("of",) and not bare:
            return place + 2 - at if lower[place] in lexicon.SIDE_NAMES else 0
    return 0


def _next_kind(pieces: Sequence[_Piece], at: int) -> str:
    """Return the tag of the next piece that is no adverb; ``end`` after the last."""
    return next((kind for one in pieces[at + 1 :] if (kind := one.kind) != "adverb"), "end")


def _is_deed(word: str, follows: str) -> bool:
    """Return whether a word after "trying to" is a verb: "open a coconut"."""
    return follows in _STARTS_NOUN_PHRASE and "VERB" in parts_of_speech(word)


def _is_one(word: str) -> bool:
    """Return whether a noun names one thing."""
    return singular(word) == word


class _Phrase:
    """The noun phrase that ends with the last of some tokens."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        spoken = [token for token in tokens if token.tag != "adverb"]
        self.head = spoken.pop().lower
        """Its last noun."""
        self.by: Token | None = None
        """Its first determiner, if it has one."""
        while spoken and spoken[-1].tag in ("noun", "adjective"):
            spoken.pop()
        while spoken and spoken[-1].tag in _DETERMINING:
            self.by = spoken.pop()
        self.after = spoken[-1].tag if spoken else None
        """Tag before it."""
        self.joined = self.after == "and"
        """Whether it goes on with a list: "a man and a dog"."""

    @property
    def single(self) -> bool:
        """Whether its determiner and its noun are those of one thing."""
        named = self.by is not None and self.by.lower in _SINGLE
        return named and _is_one(self.head) and self.head not in GROUPS

    @property
    def lacks_plural(self) -> bool:
        """Whether it has a number and no plural: "three security" (guards)."""
        number = self.by.lower if self.by is not None else ""
        several = NUMBERS.get(number, 2 if number[:1].isdigit() else 1) > 1
        several = several or number in lexicon.VAGUE
        return several and _is_one(self.head) and not lexicon.is_group(self.head)


class _Spot:
    """A word that its neighbours settle: the pieces of its sentence, and the tokens before it."""

    def __init__(
        self, pieces: Sequence[_Piece], at: int, before: Tag | None, tokens: Sequence[Token]
    ) -> None:
        self.pieces, self.at, self.before, self.tokens = pieces, at, before, tokens
        self.word = pieces[at].lower
        self.last = tokens[-1].lower if tokens else ""
        """The token before it."""
        self.follows = _next_kind(pieces, at)
        """Tag of the next piece that is no adverb."""
        self.third = singular(self.word) != self.word

    @cached_property
    def phrase(self) -> _Phrase:
        """The noun phrase before it."""
        return _Phrase(self.tokens)

    def kinds(self, number: int) -> list[str]:
        """Return the tags of the next pieces."""
        return [one.kind for one in self.pieces[self.at + 1 : self.at + 1 + number]]

    def tag(self) -> Tag:
        """Return the tag of the word here."""
        word, before, follows = self.word, self.before, self.follows
        kind = rough(word)
        after = self.pieces[self.at + 1].lower if self.at + 1 < len(self.pieces) else ""
        parts = parts_of_speech(word)
        if word in _BEFORE_NOUNS and before in _OPENS_NOUN and follows in _NAMING:
            return "adjective"
        if kind == "ing":
            return self.ing()
        if kind == "participle":
            return self.participle()
        if word == "half" and follows in ("participle", "adjective"):
            # "One of them half eaten", "a half empty glass".
            return "adverb"
        if word == "leaves" and before == "noun" and self.last in lexicon.PLANTS:
            return "noun"
        if kind in ("verb", "weak"):
            return self.verb(kind == "verb")
        deed = before == "auxiliary" and kind in ("adjective", "either", "noun")
        if deed and _is_deed(word, follows):
            return "verb"
        if kind == "either":
            return self.either()
        if kind == "there":
            return "there" if follows in ("be", "auxiliary") else "adverb"
        if word in lexicon.PARTICLES and kind in ("adverb", "preposition"):
            if word == "back" and before == "possessive":
                return "noun"
            leads = word in ("up", "down", "off", "over", "along", "around", "out")
            leads = leads and follows in _STARTS_NOUN_PHRASE | _NOUNLIKE
            return "preposition" if leads else "adverb"
        if word == "her":
            alone = follows in ("preposition", "end", "comma", "and")
            return "pronoun" if alone else "possessive"
        if word == "both" and after in ("a", "an"):
            # "Both a cat and a dog".
            return "adverb"
        if word in _POINTING:
            if word == "that" and before in ("noun", "pronoun"):
                return "relative"
            return "number" if word == "one" else "determiner"
        if word == "like":
            return "preposition" if before not in ("auxiliary", "pronoun") else "verb"
        aim = word == "to" and follows == "noun" and bool(after) and _is_one(after)
        if aim and _is_deed(after, _next_kind(self.pieces, self.at + 1)):
            # "To catch a mouse".
            return "auxiliary"
        if word == "to" and follows in ("verb", "weak") and before != "verb":
            return "auxiliary" if verb_base(after) == after else "preposition"
        if word.endswith("ing") and kind == "noun" and verb_base(word) is not None:
            doing = before == "noun" and is_animate(self.tokens[-1].text)
            return "ing" if doing or before == "be" else "noun"
        if kind == "noun" and before == "auxiliary" and follows in _STARTS_NOUN_PHRASE:
            return "verb"
        if kind == "noun" and before in _OPENS_NOUN and "ADJ" in parts:
            first, *second = [*self.kinds(2), ""]
            if first == "adjective" and second[0] in _NOUNLIKE:
                # "A partial solar eclipse".
                return "adjective"
        if kind == "noun" and before == "noun" and self.is_unlisted_verb():
            return "verb"
        plain = kind == "adjective" and ADJECTIVES.get(word) != "color" and before == "adjective"
        if plain and follows in _AFTER_NAME and not word.endswith(("ed", "ing")):
            # "In a grassy plain".
            return "noun" if "NOUN" in parts else "adjective"
        if kind == "adverb" and before == "article" and follows in _AFTER_NAME:
            # "Beside a well".
            return "noun" if "NOUN" in parts else "adverb"
        if kind == "preposition" and word in _ADVERBS and follows == "preposition":
            # "Eating outside from a plate".
            return "adverb"
        if kind == "adverb" and word.endswith(_DIRECTED) and before == "ing":
            return "preposition" if follows in _STARTS_NOUN_PHRASE else "adverb"
        return cast(Tag, kind)

    def is_unlisted_verb(self) -> bool:
        """Return whether a word of no list is what the noun before it does: "a yeti gnarfs a bone".

        Two noun phrases do not stand side by side, "a" is not said of several, and within a name
        the plural is rare. So a form that goes with the number of the noun before is a verb.
        """
        word, third, follows = self.word, self.third, self.follows
        if not word.isalpha() or self.pieces[self.at].text[:1].isupper():
            return False
        head, by = self.phrase.head, self.phrase.by
        if is_animate(word):
            # "Jack Sparrow pilots a plane".
            titled = len(self.tokens) > 1 and all(one.text.istitle() for one in self.tokens[-2:])
            return titled and third and _is_deed(singular(word), follows)
        if head in GROUPS or head in NUMBERS or word in lexicon.PLURAL_MODIFIERS:
            return False
        if third != _is_one(head) and not (self.phrase.joined and not third):
            return False
        if third and self.phrase.single:
            return True
        after = [one.lower for one in self.pieces[self.at + 1 :]]
        if follows in _STARTS_NOUN_PHRASE and after[0] != "that":
            return True
        if not is_animate(head) or word in _NAMED_WITH:
            return False
        if after and after[0].partition(" ")[0] in _WAYS:
            return True
        if follows not in ("noun", "either", "adjective") or by is None:
            return False
        # "Two women tennis players" are players.
        last = ""
        for one in self.pieces[self.at + 1 :]:
            if one.kind not in _NAMING:
                break
            last = one.lower
        return third or (by.tag in ("number", "determiner") and not is_animate(last))

    def ing(self) -> Tag:
        """Return the tag of an ``-ing`` form."""
        before, follows, tokens = self.before, self.follows, self.tokens
        base = verb_base(self.word)
        if before == "adjective" and len(tokens) > 1:
            link = tokens[-2].lower
            colored = link == "in" and ADJECTIVES.get(self.last) == "color"
            if verb_base(link) == "wear" or colored:
                # "A man in white holding …".
                return "ing"
        if self.tells_apart():
            return "ing"
        if before in ("and", "comma") and follows in _NOUNLIKE:
            listed = ("and", "comma", "adjective", "adverb")
            step = len(tokens) - 1
            while step >= 0 and tokens[step].tag in listed:
                step -= 1
            opens = _OPENS_NOUN | {"preposition", "have", "ing"}
            opened = step < 0 or tokens[step].tag in opens
            if opened and tokens[step + 1].tag == "adjective":
                # "A tall and smiling man".
                return "adjective"
        if before in _OPENS_NOUN and follows in ("and", "comma"):
            _, second, third = [*self.kinds(3), "", "", ""][:3]
            if second in ("adjective", "participle", "ing") and third in _NOUNLIKE:
                return "adjective"
        if before == "determiner" and self.last in ("both", "all", "each"):
            # "Both wearing hats".
            return "ing"
        nounlike = follows in _NAMING
        if before in _OPENS_NOUN:
            if nounlike or follows == "ing":
                return "adjective"
            if before == "number" and base is not None:
                return "ing"
            if before == "adjective" and follows in _STARTS_NOUN_PHRASE:
                # "A woman dressed in red carrying an umbrella".
                return "ing"
            return "noun" if before != "determiner" or follows == "end" else "ing"
        if before in (None, "comma", "and") and nounlike and base in lexicon.POSTURES:
            return "adjective"
        if before == "preposition" and (nounlike or follows == "verb"):
            return "adjective"
        named = self.last == "of" and follows not in _STARTS_NOUN_PHRASE | {"quote"}
        if before == "preposition" and (named or base is None):
            # "An explanation of milking".
            return "noun"
        return "ing"

    def tells_apart(self) -> bool:
        """Return whether the word before is one of several: "two cats, one eating fish …"."""
        said = [one.lower for one in self.pieces]
        if self.last not in ("one", "other", "another") or "one" not in said[: self.at]:
            return False
        if self.last == "one" and not {"other", "another"} & set(said[self.at :]):
            return False
        first = said.index("one")
        set_off = first > 0 and self.tokens[first - 1].tag in ("comma", "clause")
        return set_off and any(
            token.tag == "noun" and not _is_one(token.lower) for token in self.tokens[:first]
        )

    def participle(self) -> Tag:
        """Return the tag of a participle."""
        word, before, follows = self.word, self.before, self.follows
        if before in _OPENS_NOUN or before in _BEFORE_MODIFIER:
            nounlike = follows in _NAMING | {"ing", "participle"}
            if nounlike and word not in ("made", "seen"):
                return "adjective"
            named = before in ("article", "possessive", "owner")
            return "noun" if named and word in ("left", "cut", "cast", "lit") else "participle"
        if before == "auxiliary" and IRREGULAR_VERBS.get(word) == word:
            return "verb"
        if before in ("noun", "pronoun", "relative") and follows in _STARTS_NOUN_PHRASE:
            return "verb"
        return "participle"

    def verb(self, strong: bool) -> Tag:
        """Return the tag of a form of a verb; ``strong`` if it is seldom a noun."""
        before, follows, tokens = self.before, self.follows, self.tokens
        base = verb_base(self.word)
        third = self.word != base and self.word.endswith("s")
        phrase = self.phrase if before == "noun" else None
        if before == "auxiliary":
            return "verb"
        if third and phrase is not None and phrase.lacks_plural:
            return "noun"
        if before == "adjective" and strong and third and follows in _AFTER_VERB:
            return "verb"
        if third and before in ("number", "determiner") and self.last in _ONE_OF_SEVERAL:
            return "verb" if follows in _AFTER_VERB or follows == "end" else "noun"
        if before in _OPENS_NOUN or before in ("preposition", "be"):
            return "noun"
        if before == "comma" and third and follows in ("comma", "and"):
            return "noun"
        if before == "relative" and third and self.last != "that":
            return "verb"
        if before == "verb" and third and self.ends_clause():
            # "The girl who whistles walks a dog".
            return "verb" if follows in _AFTER_VERB else "noun"
        if strong:
            if phrase is not None and not third and phrase.single and not phrase.joined:
                # "A banana peel".
                return "noun"
            if before == "ing" and third and follows in _AFTER_VERB:
                return "verb"
            after = _BEFORE_VERB | {"and", "clause", "comma", "adverb", "participle"}
            opens = before is None and self.word == base
            return "verb" if opens or before in after else "noun"
        if before == "comma" and follows in ("comma", "and"):
            return "noun"
        joined = phrase is not None and not third and phrase.joined and is_animate(phrase.head)
        if joined and follows in _AFTER_VERB | _NOUNLIKE | {"end"}:
            # "A man and his dog walk along the beach".
            return "verb"
        if before in ("and", "clause"):
            return "verb" if follows in _STARTS_NOUN_PHRASE and third else "noun"
        if before not in _BEFORE_VERB:
            return "noun"
        if third and phrase is not None:
            if phrase.single or any(token.lower in ("how", "why") for token in tokens):
                # "A man walks", "how the engine works".
                return "verb"
            if phrase.after == "preposition" and phrase.by is None:
                # "With Christmas lights".
                return "noun"
        one = before == "relative" or not tokens or _is_one(self.last)
        if third != one and before not in ("pronoun", "relative"):
            # Notes such as "person ride bike" have no articles and no endings.
            note = not third and all(token.tag not in ("article", "adjective") for token in tokens)
            done = follows == "noun" and is_animate(tokens[-1].text)
            return "verb" if note and (done or follows == "preposition") else "noun"
        acts = bool(tokens) and is_animate(self.last)
        return "verb" if acts or follows in _AFTER_VERB else "noun"

    def ends_clause(self) -> bool:
        """Return whether the verb before is of a clause about a noun: "the mouse a cat watches"."""
        tokens, at = self.tokens, len(self.tokens) - 2
        if at >= 0 and tokens[at].tag == "relative":
            return True
        while at > 0 and tokens[at].tag in ("noun", "adjective"):
            at -= 1
        return at > 0 and tokens[at].tag in _DETERMINING and tokens[at - 1].tag == "noun"

    def either(self) -> Tag:
        """Return the tag of a word that is an adjective or a noun."""
        word, before, follows = self.word, self.before, self.follows
        key = ADJECTIVES.get(word)
        if is_animate(word) and before == "article" and self.at + 1 < len(self.pieces):
            after, known = self.pieces[self.at + 1]
            then = _next_kind(self.pieces, self.at + 1)
            third = after.lower().endswith("s")
            third = third and verb_base(after.lower()) not in (None, after.lower())
            third = third and then in _STARTS_NOUN_PHRASE | {"preposition", "end"}
            if known is None and third:
                # "A giant walks through".
                return "noun"
        if follows == "and":
            # "Silver and gold rings", but "a square and a circle".
            after = next((p.lower for p in self.pieces[self.at + 2 :] if p.known is None), "")
            kind = _next_kind(self.pieces, self.at + 1)
            if kind in ("adjective", "either"):
                same = ADJECTIVES.get(after) == key
                return "adjective" if same or before == "be" else "noun"
            ends = before == "adjective"
            ends = ends or (before == "possessive" and after in lexicon.ARTICLES)
            if ends and kind in _STARTS_NOUN_PHRASE:
                return "noun"
        if follows == "comma" and key in _LISTED and self.is_listed(key):
            return "adjective"
        if follows == "verb" and before in ("have", "preposition", "verb", "ing"):
            # "A box that has silver sparkles".
            return "adjective"
        if follows == "participle" and before in _OPENS_NOUN:
            # "Top rated car".
            return "adjective" if {*self.kinds(2)[1:]} & _NAMING else "noun"
        if before == "and" and follows == "end":
            # "Are red, yellow and orange".
            spoken = [t for t in self.tokens if t.tag not in ("and", "comma", "adverb")]
            listed = len(spoken)
            while listed and spoken[listed - 1].tag == "adjective":
                if ADJECTIVES.get(spoken[listed - 1].lower) != key:
                    break
                listed -= 1
            if 0 < listed < len(spoken) and spoken[listed - 1].tag == "be":
                return "adjective"
        if follows in _NAMING and before != "be":
            # "An ornament pine wreath".
            named = before == "noun" and word in lexicon.MADE_OF and self.tokens[-1].text.islower()
            return "noun" if named and follows == "noun" else "adjective"
        if before == "be":
            return "adjective"
        if follows == "and" and before in ("article", "adjective", "possessive", "comma"):
            return "adjective" if before != "article" else "noun"
        if word in ("left", "right") and before in ("noun", "ing", "verb", "participle"):
            return "adverb"
        return "noun"

    def is_listed(self, key: str) -> bool:
        """Return whether a list of its kind and then a noun go on: "pink, red dots"."""
        more = False
        for one in self.pieces[self.at + 1 :]:
            if one.kind in ("adjective", "either"):
                if ADJECTIVES.get(one.lower) != key:
                    return False
                more = True
            elif one.kind not in ("and", "comma", "adverb"):
                return more and one.kind in ("noun", "weak")
        return False
