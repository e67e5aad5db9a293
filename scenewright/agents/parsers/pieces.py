"""Words of a sentence joined where several stand as one: phrases, measures, texts, owners."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from scenewright.agents.parsers import tagging as lexicon
from scenewright.agents.parsers.naming import name_of
from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import BREAK, capitals, spanning
from scenewright.agents.parsers.tagging import Tag, is_animate, rough, words
from scenewright.core.inflection import singular, verb_base

_LONGEST = max(
    len(phrase)
    for group in (lexicon.PREPOSITIONS, lexicon.PLACES, lexicon.COMPOUNDS)
    for phrase in group
)
DETERMINING = frozenset({"article", "possessive", "number", "determiner"})
STARTS_NOUN_PHRASE = DETERMINING | {"pronoun"}
NOUNLIKE = frozenset({"noun", "either", "weak"})
NAMING = NOUNLIKE | {"adjective"}
_BODIED = words("adjectives", "bodied")
_MAKING = frozenset({"hand", "home", "half", "machine"})
"""Before a participle they are one adjective with it: "a hand painted sign"."""
_LABELS = words("verbs", "labels")
_UNITS = words("nouns", "units")
_APART = frozenset({"in", "above", "below", "behind", "away", "apart", "from", "off", "ahead"})
_BEFORE_SIDE = words("prepositions", "before_sides")
_NEEDS_ARTICLE = frozenset({"inside", "outside", "foot", "tip", "base"})
_NO_SIDE = frozenset({"of", "for", "with", "without", "about", "like", "as"})
PARTS_AND_CLOTHES = lexicon.PARTS | lexicon.THING_PARTS | lexicon.CLOTHES
_FULL_FORMS = frozenset({"it's", "there's", "he's", "she's", "that's", "let's"})


class Piece(NamedTuple):
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


def joined_pieces(words: Sequence[str], said: dict[str, str]) -> list[Piece]:
    """Return the words of a sentence as pieces; ``said`` are the texts of its quotations."""
    found: list[Piece] = []
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
            found.append(Piece(spanning(words, at, size, said.get(word, "")), known))
        elif lower[at] in ("'s", "’s", "'", "’") and found and found[-1].known in (None, "noun"):
            # Captions that a tokenizer has split: "zebra 's head".
            before = found[-1].text
            if rough(before.lower()) in ("pronoun", "there", "relative"):
                found.append(Piece(spanning(words, at, 1, "is"), "be"))
            else:
                found[-1] = Piece(before, "noun")
                found.append(Piece(spanning(words, at, 1, "'s"), "owner"))
        elif (
            # Misspelt for "its": "on it's side".
            at > 0
            and lower[at] in ("it's", "it’s")
            and rough(lower[at - 1]) in ("preposition", "ing", "verb")
            and rough(lower[min(at + 1, len(lower) - 1)]) in ("noun", "either")
        ):
            found.append(Piece(spanning(words, at, 1, "its"), "possessive"))
        elif owner and lower[at] not in _FULL_FORMS:
            found.append(Piece(spanning(words, at, 1, owner[1] or owner[2]), "noun"))
            found.append(Piece(spanning(words, at, 1, "'s"), "owner"))
        elif owner and owner[1]:
            found.append(Piece(spanning(words, at, 1, owner[1]), None))
            found.append(Piece(spanning(words, at, 1, "is"), "be"))
        else:
            found.append(Piece(word, None))
        at += size
    return found


def _is_number(word: str) -> bool:
    return word in lexicon.NUMBERS or word[:1].isdigit()


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
    if _is_number(first) and second in _UNITS and head in lexicon.ADJECTIVES:
        return 3
    particle = second in ("up", "out", "off", "down")
    if not (particle or second in _BODIED or first in _MAKING or second.endswith("ed")):
        return 0
    kind, form, after = rough(first), rough(second), rough(head)
    before = rough(lower[at - 1]) if at else ""
    nounlike = after in NOUNLIKE
    if first in _MAKING:
        bodied = form == "participle" and after in NAMING
    else:
        stem = singular(second.removesuffix("ed"))
        has = second.endswith("ed") and bool({stem, f"{stem}e"} & PARTS_AND_CLOTHES)
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
            and is_deed(follows, rough(then))
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
        sided = last in lexicon.SIDES and follows[0].isalnum() and rough(follows) in NOUNLIKE
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


def is_deed(word: str, follows: str) -> bool:
    """Return whether a word after "trying to" is a verb: "open a coconut"."""
    return follows in STARTS_NOUN_PHRASE and "VERB" in parts_of_speech(word)
