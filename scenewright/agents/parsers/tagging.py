"""The words that captions are read with: what each can be by itself.

The lexicon is data in ``words.toml``. Closed classes (determiners, prepositions, auxiliaries) are
complete enough to know the rest by position: a word of no list names a thing. So there is no list
of nouns, but one of adjectives by attribute key and one of verbs. :mod:`.settling` says what a word
is where it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar

from scenewright.agents.parsers.spelling import parts_of_speech
from scenewright.agents.parsers.splitting import LISTS, Word
from scenewright.core.formats.phrases import COLORS, MATERIALS, SIZES
from scenewright.core.inflection import IRREGULAR_VERBS, WEAK_VERBS, singular, verb_base

Rough = Literal[
    "article", "determiner", "possessive", "pronoun", "number", "and", "relative", "clause",
    "be", "have", "auxiliary", "not", "adverb", "preposition", "adjective", "either",
    "ing", "participle", "verb", "weak", "noun", "there",
]  # fmt: skip
"""Tag of a word without context; ``either`` is an adjective or a noun, ``weak`` a verb or a noun.
"""

words, phrases = LISTS.words, LISTS.phrases

ARTICLES = words("closed", "articles") | words("closed", "demonstratives")
POSSESSIVES = words("closed", "possessives")
PEOPLE_PRONOUNS = words("closed", "people_pronouns")
THING_PRONOUNS = words("closed", "thing_pronouns")
PLURAL_PRONOUNS = words("closed", "plural_pronouns")
OWN_PRONOUNS = words("closed", "own_pronouns")
PARTICLES = words("closed", "particles")
BE = words("closed", "be")
NUMBER_WORDS = LISTS.ordered("numbers", "words")
"""``one``, ``two``, …"""
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(NUMBER_WORDS, 1)},
    **{word: int(n) for word, n in LISTS.pairs("numbers", "more").items()},
}
EXACT_GROUPS = {word: int(n) for word, n in LISTS.pairs("groups", "exact").items()}
"""Word before "of" → number of what follows: "a pair of"."""
GROUPS: dict[str, int] = {
    **EXACT_GROUPS,
    **dict.fromkeys(words("groups", "three"), 3),
    **dict.fromkeys(words("groups", "one"), 1),
}
"""Word before "of" → least number of what follows."""
VAGUE: dict[str, int] = {
    **dict.fromkeys(("several", "many", "various", "numerous", "countless", "multiple"), 3),
    **dict.fromkeys(("few", "plenty"), 3),
    "both": 2,
}
"""Determiner → least number."""
FEW = frozenset({"several", "few"})
"""They say a least number; the other vague ones leave it open."""
AT_LEAST, MORE_THAN, AT_MOST = (
    frozenset(map(" ".join, phrases("numbers", name)))
    for name in ("at_least", "more_than", "at_most")
)
QUANTIFIERS = AT_LEAST | MORE_THAN | AT_MOST
OR_SO = frozenset({"or so", "or more", "and more"})
"""They follow a number that is not exact."""
ORDINALS = {word: str(at) for at, word in enumerate(LISTS.ordered("numbers", "ordinals"), 1)} | {
    "former": "1",
    "latter": "last",
    "last": "last",
    "remaining": "others",
}
WRITINGS = words("nouns", "writings")
"""Nouns for a text, which their bearer has written on it."""
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
MADE_OF = {word for word, key in ADJECTIVES.items() if key == "material"}
"""Adjectives of materials."""
_EITHER = (MADE_OF | SIDES | words("adjectives", "nouns_too")) - words("adjectives", "no_nouns")
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
    phrases("prepositions", "phrases") + phrases("prepositions", "guises")
)
NO_RELATION = frozenset(" ".join(p) for p in phrases("prepositions", "none")) | frozenset(
    phrases("prepositions", "none")[0]
)
"""Prepositions without a relation between two things."""
PLACES = frozenset(phrases("places", "phrases"))
AUXILIARY_PHRASES = frozenset(phrases("closed", "auxiliary_phrases"))
POSTURES = words("verbs", "postures")
"""Verbs that need no object: "standing couple" begins with an adjective."""
COVERS = words("verbs", "covers")
ACTIVITIES = frozenset(phrases("verbs", "activities"))
"""Participles between two nouns: "a snow covered hill"."""
COMPOUNDS = frozenset(phrases("nouns", "compounds"))
PEOPLE = words("nouns", "people")
"""Nouns that "who" may mean."""
ANIMATE = PEOPLE | words("nouns", "animate")
_INANIMATE = frozenset(map(" ".join, phrases("nouns", "inanimate")))
PARTS = words("nouns", "parts")
THING_PARTS = words("nouns", "thing_parts")
"""Parts of vehicles, buildings and furniture."""
WHOLES = words("nouns", "wholes")
"""Wholes with such parts: a "car window" is a window that a car has."""
CLOTHES = words("nouns", "clothes")
PLANTS = words("nouns", "plants")
VESSELS = words("nouns", "vessels")
SCENERY = words("nouns", "scenery")
"""Places that are rarely what a participle after them is said of."""
PLURAL_MODIFIERS = words("nouns", "plural_modifiers")
IGNORED = words("nouns", "ignored")
SIDE_NAMES = words("prepositions", "sides")
DEPICTIONS = words("nouns", "depictions")


def is_animate(label: str) -> bool:
    """Return whether the last word of a label names a person or an animal."""
    lower = singular(label.lower())
    return lower not in _INANIMATE and lower.rpartition(" ")[2] in ANIMATE


def is_person(label: str) -> bool:
    """Return whether the last word of a label names a person."""
    return singular(label.rpartition(" ")[2].lower()) in PEOPLE


def is_group(word: str) -> bool:
    """Return whether a noun says how many: "a group of"."""
    return word in GROUPS or singular(word) in GROUPS


@lru_cache(maxsize=16384)
def rough(word: str) -> Rough:
    """Return the tag of a lower-case word without context."""
    known = _ROUGH_OF.get(word)
    if known is not None:
        return known
    if word[:1].isdigit() and word[1:2] == " " and word[2:3].isdigit():
        # "Katowice 2 0 1 4" as some prompts have it.
        return "noun"
    if word[:1].isdigit():
        return "number" if word.replace(",", "").isdigit() else "adjective"
    if word in _EITHER:
        return "either"
    if word in ADJECTIVES:
        return "adjective"
    if word.endswith("ing") and len(word) > 4:
        return "noun" if word in ING_NOUNS else "ing"
    base = verb_base(word)
    if word in IRREGULAR_VERBS and not word.endswith("ing"):
        return "participle"
    if word.endswith("ed") and len(word) > 3 and word not in ED_NOUNS:
        return "participle"
    if base is not None:
        return "weak" if base in WEAK_VERBS else "verb"
    if word.endswith("ly") and len(word) > 4 and word not in _LY_NOUNS:
        return "adverb"
    if _is_adjective_by_ending(word) or graded(word):
        return "adjective"
    return _by_dictionary(word)


def _by_dictionary(word: str) -> Rough:
    """Return the tag of a word of no list: a noun, unless it never is one."""
    parts = parts_of_speech(word)
    if not parts or "NOUN" in parts:
        return "noun"
    return "adjective" if "ADJ" in parts else "verb" if "VERB" in parts else "adverb"


_GRADED_NOUNS = words("nouns", "like_comparatives")


@lru_cache(maxsize=16384)
def graded(word: str) -> str | None:
    """Return the adjective of which ``word`` is the comparative or the superlative, if any.

    >>> graded("older"), graded("biggest"), graded("happier"), graded("corner")
    ('old', 'big', 'happy', None)
    """
    ending = next((ending for ending in ("est", "er") if word.endswith(ending)), "")
    if not ending or word in _GRADED_NOUNS:
        return None
    stem = word.removesuffix(ending)
    tried = [stem, f"{stem}e"]
    if stem.endswith("i"):
        tried.append(f"{stem[:-1]}y")
    if len(stem) > 2 and stem[-1] == stem[-2]:
        tried.append(stem[:-1])
    return next((base for base in tried if base in ADJECTIVES), None)


_LY_NOUNS = words("nouns", "in_ly")
_SUFFIX_NOUNS = words("nouns", "like_adjectives")


def _is_adjective_by_ending(word: str) -> bool:
    if len(word) < 6 or word in _SUFFIX_NOUNS or word.endswith("table"):
        return False
    return word.endswith(_SUFFIXES)


def key_of(value: str) -> str:
    """Return the attribute key of an adjective; participles and unknown ones are states.

    >>> key_of("light blue"), key_of("wooden"), key_of("parked")
    ('color', 'material', 'state')
    """
    last = value.rpartition(" ")[2]
    return ADJECTIVES.get(last) or ADJECTIVES.get(graded(last) or "", "state")


Tag = Literal[
    "article", "determiner", "possessive", "pronoun", "number", "and", "comma", "relative",
    "clause", "be", "have", "auxiliary", "not", "adverb", "preposition", "place", "adjective",
    "ing", "participle", "verb", "noun", "owner", "quote", "there", "phrase", "end",
]  # fmt: skip
"""Tag of a word in its sentence; ``phrase`` is a noun phrase, ``end`` what follows the last."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, or a phrase treated as one, with its tag."""

    text: str
    """As written; a phrase has its words joined by spaces."""
    tag: Tag

    @property
    def lower(self) -> str:
        """In lower case."""
        return self.text.lower()

    @property
    def place(self) -> tuple[int, int]:
        """Begin and end in the caption; (-1, -1) for a word without a place."""
        return (self.text.start, self.text.end) if isinstance(self.text, Word) else (-1, -1)


END = Token("", "end")
_T = TypeVar("_T")


def peek(items: Sequence[_T], at: int) -> _T | Token:
    """Return the item at ``at``; :data:`END` outside of ``items``."""
    return items[at] if 0 <= at < len(items) else END


class Named:
    """A thing, or a noun phrase that names one."""

    __slots__ = ()
    name: str
    """The class label, in the singular."""

    @property
    def head(self) -> str:
        """Last word of the label, in lower case."""
        return self.name.rpartition(" ")[2].lower()

    @property
    def animate(self) -> bool:
        """Whether it can hold, wear and ride."""
        return is_animate(self.name)

    @property
    def is_part(self) -> bool:
        """Whether it is a part of a body."""
        return self.head in PARTS

    @property
    def is_piece(self) -> bool:
        """Whether it is a part of a body or a thing."""
        return self.head in PARTS or self.head in THING_PARTS

    @property
    def is_clothes(self) -> bool:
        """Whether it is worn."""
        return self.head in CLOTHES

    @property
    def is_scenery(self) -> bool:
        """Whether it is a place."""
        return self.head in SCENERY

    @property
    def is_depiction(self) -> bool:
        """Whether it shows something: a place after it may be its own."""
        return self.head in DEPICTIONS

    @property
    def is_writing(self) -> bool:
        """Whether it is a text: "word", "big letters"."""
        return self.head in WRITINGS
