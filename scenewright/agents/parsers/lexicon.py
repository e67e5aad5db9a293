"""The words that captions are read with, as data in ``words.toml``.

Closed classes (determiners, prepositions, auxiliaries) are complete enough to know the rest by
position: a word that no list holds names a thing. So there is no list of nouns, but one of
adjectives by attribute key and one of verbs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from scenewright.core.formats.vocabulary import COLORS, MATERIALS, SIZES
from scenewright.core.inflection import IRREGULAR, WEAK_VERBS, verb_base
from scenewright.core.plurals import singular
from scenewright.core.word_lists import WordLists

Rough = Literal[
    "article", "determiner", "possessive", "pronoun", "number", "and", "relative", "clause",
    "be", "have", "auxiliary", "not", "adverb", "preposition", "adjective", "either",
    "ing", "participle", "verb", "weak", "noun", "there",
]  # fmt: skip
"""What a word is by itself; ``either`` is an adjective or a noun, ``weak`` a verb or a noun."""

_LISTS = WordLists.of("scenewright.agents.parsers", "words.toml")
words, phrases = _LISTS.words, _LISTS.phrases

ARTICLES = words("closed", "articles") | words("closed", "demonstratives")
POSSESSIVES = words("closed", "possessives")
PEOPLE_PRONOUNS = words("closed", "people_pronouns")
THING_PRONOUNS = words("closed", "thing_pronouns")
PLURAL_PRONOUNS = words("closed", "plural_pronouns")
OWN_PRONOUNS = words("closed", "own_pronouns")
PARTICLES = words("closed", "particles")
BE = words("closed", "be")
NUMBER_WORDS = _LISTS.ordered("numbers", "words")
"""``one``, ``two``, …"""
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(NUMBER_WORDS, 1)},
    **{word: int(n) for word, n in _LISTS.pairs("numbers", "more").items()},
}
GROUPS: dict[str, int] = {
    **dict.fromkeys(words("groups", "two"), 2),
    **dict.fromkeys(words("groups", "three"), 3),
    **dict.fromkeys(words("groups", "one"), 1),
}
"""Word before "of" → the least number of what follows that it promises."""
VAGUE: dict[str, int] = {
    **dict.fromkeys(("several", "many", "various", "numerous", "countless", "multiple"), 3),
    **dict.fromkeys(("few", "plenty"), 3),
    "both": 2,
}
"""Determiner → the least number that it promises."""
ING_NOUNS = words("verbs", "intransitive_ing_nouns")
ED_NOUNS = words("verbs", "ed_nouns")
SIDES = words("adjectives", "sides")
EMPTY = words("adjectives", "empty")
SHADES = words("adjectives", "shades")
_SUFFIXES = tuple(words("adjectives", "suffixes"))
KEYS = ("color", "size", "material", "shape", "texture", "age", "gender", "state")
ADJECTIVES: dict[str, str] = {
    word: key for key in reversed(KEYS) for word in words("adjectives", key)
}
"""Adjective → attribute key."""
ADJECTIVES.update(
    (word, key)
    for key, known in (("color", COLORS), ("size", SIZES), ("material", MATERIALS))
    for word in known
    if " " not in word
)
_MATERIALS = {word for word, key in ADJECTIVES.items() if key == "material"}
_EITHER = (_MATERIALS | SIDES | words("adjectives", "nouns_too")) - words("adjectives", "no_nouns")
_CLOSED: tuple[tuple[Rough, frozenset[str]], ...] = (
    ("there", frozenset({"there", "theres", "there's"})),
    ("article", ARTICLES),
    ("possessive", POSSESSIVES),
    ("number", frozenset(NUMBERS)),
    ("determiner", words("closed", "determiners") | frozenset(VAGUE)),
    ("pronoun", PEOPLE_PRONOUNS | THING_PRONOUNS | PLURAL_PRONOUNS | OWN_PRONOUNS),
    ("and", words("closed", "conjunctions")),
    ("relative", words("closed", "relatives")),
    ("clause", words("closed", "clause_words")),
    ("be", BE),
    ("have", words("closed", "have")),
    ("auxiliary", words("closed", "auxiliaries")),
    ("not", words("closed", "negations")),
    ("preposition", words("prepositions", "single")),
    ("adverb", words("closed", "adverbs")),
)
_ROUGH_OF: dict[str, Rough] = {word: kind for kind, group in reversed(_CLOSED) for word in group}

PREPOSITIONS = frozenset((word,) for word in words("prepositions", "single")) | frozenset(
    phrases("prepositions", "phrases")
)
NO_RELATION = frozenset(" ".join(p) for p in phrases("prepositions", "none")) | frozenset(
    phrases("prepositions", "none")[0]
)
"""Prepositions that state no relation between two things."""
PLACES = frozenset(phrases("places", "phrases"))
AUXILIARY_PHRASES = frozenset(phrases("closed", "auxiliary_phrases"))
AGENTIVE = words("verbs", "agentive")
OF_PARTS = words("verbs", "of_parts")
NO_STATES = words("verbs", "no_states")
EMPTY_STATES = words("verbs", "empty_states")
COMPOUNDS = frozenset(phrases("nouns", "compounds"))
PEOPLE = words("nouns", "people")
"""Nouns for which "who" stands."""
ANIMATE = PEOPLE | words("nouns", "animate")
PARTS = words("nouns", "parts")
IGNORED = words("nouns", "ignored")
STYLE = words("style", "heads")
LEADS = words("style", "leads")
LEAD_ADJECTIVES = words("style", "lead_adjectives")
SITES = words("style", "sites")
FRAME_NOUNS = words("style", "frame")
FRAMES = tuple(
    sorted(
        {
            tuple(image if word == "{image}" else word for word in phrase)
            for phrase in phrases("frames", "phrases")
            for image in FRAME_NOUNS
        },
        key=lambda phrase: (-len(phrase), phrase),
    )
)
"""Phrases that frame a description ("in this image we can see"), longest first."""


def is_animate(label: str) -> bool:
    """Return whether the last word of a label names a person or an animal."""
    return singular(label.rpartition(" ")[2].lower()) in ANIMATE


def is_person(label: str) -> bool:
    """Return whether the last word of a label names a person: "who" may stand for it."""
    return singular(label.rpartition(" ")[2].lower()) in PEOPLE


@lru_cache(maxsize=16384)
def rough(word: str) -> Rough:
    """What a word in lower case is by itself, before the words beside it are looked at."""
    known = _ROUGH_OF.get(word)
    if known is not None:
        return known
    if word[:1].isdigit():
        return "number" if word.replace(",", "").isdigit() else "adjective"
    if word in _EITHER:
        return "either"
    if word in ADJECTIVES:
        return "adjective"
    if word.endswith("ing") and len(word) > 4:
        return "noun" if word in ING_NOUNS else "ing"
    base = verb_base(word)
    if word in IRREGULAR and not word.endswith("ing"):
        return "participle"
    if word.endswith("ed") and len(word) > 3 and word not in ED_NOUNS:
        return "participle"
    if base is not None:
        return "weak" if base in WEAK_VERBS else "verb"
    if word.endswith("ly") and len(word) > 4 and word not in _LY_NOUNS:
        return "adverb"
    if _is_adjective_by_ending(word):
        return "adjective"
    return "noun"


_LY_NOUNS = words("nouns", "in_ly")
_SUFFIX_NOUNS = words("nouns", "like_adjectives")


def _is_adjective_by_ending(word: str) -> bool:
    if len(word) < 6 or word in _SUFFIX_NOUNS or word.endswith("table"):
        return False
    return word.endswith(_SUFFIXES)


def key_of(value: str) -> str:
    """The attribute key of an adjective; participles and unknown ones are states.

    >>> key_of("light blue"), key_of("wooden"), key_of("parked")
    ('color', 'material', 'state')
    """
    return ADJECTIVES.get(value.rpartition(" ")[2], "state")
