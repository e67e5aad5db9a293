"""Names within noun phrases: which words are part of one, and how adjectives are told by key."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from scenewright.agents.parsers.spelling import is_known, nearest, parts_of_speech
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    ANIMATE,
    CLOTHES,
    COMPOUNDS,
    EMPTY,
    PARTS,
    PLANTS,
    PLURAL_MODIFIERS,
    SCENERY,
    SHADES,
    THING_PARTS,
    VESSELS,
    WHOLES,
    Token,
    is_animate,
    is_person,
    key_of,
    rough,
    words,
)
from scenewright.core.inflection import singular, verb_base

_NOT_WHOLES = words("nouns", "not_wholes")
_COMPOUNDS = frozenset(map(" ".join, COMPOUNDS))
_WEARS = frozenset({"wearing", "wears", "wear", "wore", "with", "in", "has", "have"})


def is_proper_adjective(tokens: Sequence[Token], at: int) -> bool:
    """Return whether an adjective belongs to a name: "New" in "near New York City"."""
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    proper = tokens[at].tag == "adjective" and tokens[at].text[:1].isupper()
    named = follows is not None and follows.tag == "noun" and follows.text[:1].isupper()
    if at == 0:
        # A sentence begins with a capital: "Red Ferraris", but "Supreme Court Justices".
        further = tokens[2] if len(tokens) > 2 else None
        named = (
            named and further is not None and further.text[:1].isupper() and further.tag == "noun"
        )
        proper = proper and key_of(tokens[0].lower) == "state"
    return proper and named


def name_of(words: Sequence[str], at: int) -> int:
    """Return how many words are a name: "the geyser Old Faithful", "Winnie the Pooh"."""
    first, the, last = [*words[at : at + 3], "", ""][:3]
    if the == "the" and first.istitle() and last.istitle() and rough(first.lower()) == "noun":
        return 0 if "VERB" in parts_of_speech(first.lower()) else 3
    if not at or not words[at - 1].islower() or rough(words[at - 1]) != "noun":
        return 0
    size = 0
    while at + size < len(words) and words[at + size].istitle():
        if rough(words[at + size].lower()) != "adjective":
            return 0
        size += 1
    return size if size > 1 else 0


def is_counted(token: Token) -> bool:
    """Return whether a noun is a plural, which a number before it counts."""
    return token.tag == "noun" and singular(token.lower) != token.lower and token.text.islower()


def joined_names(tokens: Sequence[Token], nouns: list[int]) -> int:
    """Add the rest of "Chapel of Bones" to the places of its nouns; return the place after it."""
    at = nouns[-1] + 1
    if nouns[-1] == 0 or not tokens[nouns[-1]].text[:1].isupper() or not says(tokens, at, "of"):
        return at
    step = at + 1
    while says(tokens, step, "the"):
        step += 1
    end = step
    while end < len(tokens) and tokens[end].tag == "noun" and tokens[end].text[:1].isupper():
        end += 1
    if end == step:
        return at
    nouns += range(at, end)
    return end


def says(tokens: Sequence[Token], at: int, *words: str) -> bool:
    """Return whether one of ``words`` is at ``at``."""
    return at < len(tokens) and tokens[at].lower in words


@lru_cache(maxsize=1)
def _known() -> frozenset[str]:
    named = (ANIMATE, CLOTHES, PARTS, THING_PARTS, VESSELS, SCENERY, ADJECTIVES, WHOLES, PLANTS)
    return frozenset(word for group in named for word in group if word.isalpha())


def misspelt(word: str) -> str:
    """Return the word that a word of no dictionary probably is; empty for any other."""
    if not word.islower() or word in PLURAL_MODIFIERS or rough(word) != "noun":
        return ""
    return nearest(word, _known())


def is_proper(tokens: Sequence[Token], nouns: Sequence[int]) -> bool:
    """Return whether the last word is a name and no plural: "Jeff Bezos", "Paris"."""
    last = tokens[nouns[-1]].text
    if not last[:1].isupper() or last.isupper() or singular(last) == last:
        return False
    if is_person(last):
        return False
    if len(nouns) > 1 and nouns[0] > 0 and all(tokens[at].text[:1].isupper() for at in nouns):
        return True
    common = parts_of_speech(singular(last).lower()) and "NOUN" in parts_of_speech(last.lower())
    return not common or (len(nouns) == 1 and nouns[0] > 0 and not parts_of_speech(last.lower()))


def is_eyewear(tokens: Sequence[Token], nouns: Sequence[int]) -> bool:
    """Return whether "glasses" are worn: a pair of them, or of a person before them."""
    after = nouns[-1] + 1
    if says(tokens, after, "of", "filled", "full of", "filled with"):
        return False
    if says(tokens, after, "on") and any(
        is_animate(t.lower) for t in tokens[after + 1 : after + 3]
    ):
        return True
    before = tokens[: nouns[0]]
    if any(verb_base(token.lower) == "wear" for token in before[-3:]):
        return True
    if before and before[-1].tag == "possessive":
        return True
    if any(token.tag in ("number", "determiner") for token in before[-2:]):
        return False
    if before and before[-1].lower == "of" and "pair" in {token.lower for token in before[-3:]}:
        return True
    worn = any(token.lower in _WEARS for token in before[-5:])
    return worn and any(token.tag == "noun" and is_animate(token.lower) for token in before)


def whole_of(texts: Sequence[str]) -> str:
    """Return the owner in "car window" and "horse head"; empty for other compounds."""
    whole, part = singular(" ".join(texts[:-1]).lower()), singular(texts[-1].lower())
    last = whole.rpartition(" ")[2]
    if f"{whole} {part}" in _COMPOUNDS or last in _NOT_WHOLES:
        return ""
    of_thing = last in WHOLES and part in THING_PARTS
    of_body = is_animate(last) and part in PARTS
    return whole if of_thing or of_body else ""


def cased(tokens: Sequence[Token], at: int) -> str:
    """Return the word in lower case unless it is a proper name inside the sentence."""
    text = tokens[at].text
    if text.isupper() and text.isalpha() and len(text) > 3 and _shouts(tokens):
        return text.lower()
    if at > 0:
        return text
    follows = tokens[at + 1] if at + 1 < len(tokens) else None
    proper = (
        follows is not None
        and follows.text[:1].isupper()
        and follows.tag in ("noun", "adjective", "number")
    )
    unknown = " " not in text and _is_unknown(text.lower())
    return text if proper or unknown else text.lower()


def _shouts(tokens: Sequence[Token]) -> bool:
    """Return whether most words are in capitals; a single one is a name: "the NASA logo"."""
    spoken = [token.text for token in tokens if token.tag != "quote" and token.text.isalpha()]
    titled = len(spoken) == 1 < len(tokens)
    return not titled and 2 * sum(map(str.isupper, spoken)) > len(spoken)


@lru_cache(maxsize=4096)
def _is_unknown(word: str) -> bool:
    """Return whether a word is in no dictionary, and no compound or mistake: "Pinocchio"."""
    return rough(word) == "noun" and not is_known(word) and not nearest(word, _known())


def is_degree(word: str) -> bool:
    """Return whether an adverb belongs to the adjective after it: "slightly bent"."""
    return word == "half" or (word.endswith("ly") and rough(word) == "adverb")


def attributes_of(words: Sequence[str]) -> list[tuple[str, str]]:
    """Return keys and values of adjectives in order; "red and white" is one value.

    >>> attributes_of(["light", "blue", "and", "white", "wooden"])
    [('color', 'light blue and white'), ('material', 'wooden')]
    """
    found: list[tuple[str, str]] = []
    joined = False
    shade = ""
    colors = [word for word in words if key_of(word) == "color"]
    if len(colors) > 1 and colors[0] in ("colored", "coloured"):
        # "Is colored yellow".
        words = [word for word in words if word not in ("colored", "coloured")]
    for at, word in enumerate(words):
        if word in ("and", ","):
            joined = True
            continue
        after = words[at + 1] if at + 1 < len(words) else ""
        if is_degree(word) and after and after not in ("and", ","):
            shade = f"{shade}{word} "
            continue
        if word in SHADES and key_of(after) == "color" and after in ADJECTIVES:
            shade = f"{shade}{word} "
            continue
        if word in EMPTY or rough(word) == "number":
            joined = False
            continue
        key, value = key_of(shade + word), shade + word
        if found and joined and found[-1][0] == key:
            found[-1] = (key, f"{found[-1][1]} and {value}")
        else:
            found.append((key, value))
        joined, shade = False, ""
    return found
