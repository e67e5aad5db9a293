"""English for composers: predicates as verb phrases, attributes as adjectives, labels, articles.

Scene graphs name predicates in many forms (``holding``, ``hold``, ``wears``, ``is on a``,
``left of``, ``parked``). Word forms come from the lexicon of the caption parser; what forms alone
do not tell is data in ``english.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scenewright.agents.parsers.lexicon import (
    ARTICLES,
    BE,
    NUMBER_WORDS,
    PEOPLE_PRONOUNS,
    PREPOSITIONS,
    THING_PRONOUNS,
    key_of,
    rough,
)
from scenewright.core.inflection import IRREGULAR, ing_form, third_person, verb_base
from scenewright.core.plurals import is_plural
from scenewright.core.questions import article
from scenewright.core.scene import SceneObject
from scenewright.core.vocabulary import canonical_key
from scenewright.core.word_lists import WordLists

_LISTS = WordLists.of("scenewright.agents.composers", "english.toml")
_SAID = _LISTS.pairs("predicates", "said", ",")
_JOINED = _LISTS.pairs("predicates", "joined")
_STATES = _LISTS.words("predicates", "states")
_BEHIND = _LISTS.words("predicates", "behind")
_ONGOING = _LISTS.words("predicates", "ongoing")
_MASS = _LISTS.words("nouns", "mass")
_ONE = _LISTS.words("nouns", "one")
_ORDINALS = _LISTS.ordered("numbers", "order")
# Larger numbers are said in digits.
_NUMBERS = ("zero", *NUMBER_WORDS)[: len(_ORDINALS)]
_BEING = BE | {"been", "be", "being"}
_PRONOUNS = PEOPLE_PRONOUNS | THING_PRONOUNS | {"someone", "somebody", "something", "they", "them"}
_YES = frozenset({"yes", "true"})
_NO = frozenset({"no", "false"})
_RANKS = {
    **{"state": 0, "size": 1, "scale": 1, "length": 1, "age": 2, "shape": 3, "texture": 4},
    **{"pattern": 4, "color": 5, "material": 7, "gender": 8, "type": 9},
}
"""Attribute key → its place before the noun."""
_OTHER_RANK = 6
_LONGEST_ADJECTIVE = 4
"""Words of a value that still stands before its noun."""
_BEFORE_NOUN = frozenset({"adjective", "either", "noun", "participle", "and", "number"})
_SPATIAL = frozenset({"preposition", "adverb", "place"})

Place = Literal["be", "verb", "behind"]


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate in English."""

    place: Place
    """``be``: after "is" (``holding``); ``verb``: a verb of its own (``contain``); ``behind``:
    right behind the noun (``with``)."""
    words: str
    """The words; of a verb, in its base form."""

    def finite(self, many: bool) -> str:
        """The verb with its ending: ``contains``, of ``many`` subjects ``contain``."""
        first, _, rest = self.words.partition(" ")
        return " ".join(filter(None, (first if many else third_person(first), rest)))


@lru_cache(maxsize=4096)
def predicate_in_english(predicate: str) -> Predicate:
    """How a predicate is said of its subject.

    >>> predicate_in_english("wears"), predicate_in_english("left of").words
    (Predicate(place='be', words='wearing'), 'to the left of')
    """
    words = predicate.casefold().replace("_", " ").split()
    while words and words[0] in _BEING:
        words = words[1:]
    while len(words) > 1 and words[-1] in ("a", "an", "the"):
        words = words[:-1]
    phrase = _SAID.get(" ".join(words), " ".join(words))
    words = phrase.split()
    if not words:
        return Predicate("be", "")
    if phrase in _BEHIND:
        return Predicate("behind", phrase)
    first, rest = words[0], words[1:]
    if first in ("has", "have", "had", "having"):
        return Predicate("verb", " ".join(["have", *rest]))
    if tuple(words) in PREPOSITIONS or rough(first) in _SPATIAL:
        return Predicate("be", phrase)
    base = verb_base(first)
    if base is None:
        # A verb that no list holds shows its ending; what shows none is said as it stands.
        unknown = first.endswith("s") and not first.endswith("ss") and rough(first) == "noun"
        return (
            Predicate("verb", " ".join([first[:-1], *rest])) if unknown else Predicate("be", phrase)
        )
    form = rough(first)
    if base in _STATES and form != "participle":
        return Predicate("verb", " ".join([base, *rest]))
    past = first in IRREGULAR and first != base and not first.endswith("ing")
    if past or (first.endswith("ed") and first != base):
        if not rest and first in _JOINED:
            return Predicate("be", f"{first} {_JOINED[first]}")
        if rest and (base not in _ONGOING or rest[0] in ("by", "in", "from")):
            return Predicate("be", phrase)
    return Predicate("be", " ".join([ing_form(base), *rest]))


@dataclass(frozen=True, slots=True)
class Described:
    """The attributes of an object in English."""

    before: tuple[str, ...] = ()
    """Adjectives, in their order before the noun."""
    states: tuple[str, ...] = ()
    """What follows "is"."""
    behind: tuple[str, ...] = ()
    """What follows the noun."""


@lru_cache(maxsize=4096)
def described(item: SceneObject) -> Described:
    """The attributes of ``item``: adjectives where they are short, predicates where they are not.

    A value that the label says already, or that another key has said, is left out.
    """
    said = {item.name.casefold(), *item.name.casefold().split()}
    before: list[tuple[int, str]] = []
    states: list[str] = []
    behind: list[str] = []
    for key, value in item.attributes.items():
        for place, words in _attribute(key.casefold(), " ".join(value.split())):
            if words.casefold() in said:
                continue
            said.add(words.casefold())
            if place == "before":
                before.append((_rank(key.casefold(), words), words))
            else:
                (states if place == "state" else behind).append(words)
    ordered = tuple(words for _, words in sorted(before, key=lambda pair: pair[0]))
    return Described(ordered, tuple(states), tuple(behind))


def _rank(key: str, words: str) -> int:
    known = canonical_key(key)
    if known not in _RANKS or known == "state":
        known = key_of(words.casefold())
    return _RANKS.get(known, _OTHER_RANK)


def _attribute(key: str, value: str) -> Iterator[tuple[str, str]]:
    """(``before``, ``state`` or ``behind``; words) of a value, which may join several."""
    low = value.casefold()
    if low in _YES:
        yield "before", key
    elif low in _NO:
        yield "state", f"not {key}"
    elif key == "text":
        yield "behind", f'with the text "{value}"'
    elif _is_adjective(key, low):
        yield "before", value
    else:
        for part in value.split(" and "):
            low = part.casefold()
            yield ("before", part) if _is_adjective(key, low) else ("state", _state(part))


def _is_adjective(key: str, value: str) -> bool:
    words = value.split()
    kinds = [rough(word) for word in words]
    if key == "place" or len(words) > _LONGEST_ADJECTIVE or "," in value:
        return False
    if len(words) == 1:
        doing = canonical_key(key) not in _RANKS or canonical_key(key) == "state"
        return kinds[0] in _BEFORE_NOUN or not (doing or kinds[0] in _SPATIAL)
    if kinds[0] == "and" or kinds[-1] == "and" or kinds[-1] == "number":
        return False
    if kinds[0] == "participle" and kinds[-1] == "noun":
        return False
    return (
        all(
            kind in _BEFORE_NOUN or (kind == "adverb" and word not in ("up", "down", "out"))
            for word, kind in zip(words, kinds, strict=True)
        )
        and kinds[-1] != "adverb"
    )


def _state(value: str) -> str:
    """What follows "is": ``lean forward`` becomes ``leaning forward``."""
    first, _, rest = value.partition(" ")
    low = first.casefold()
    base = verb_base(low)
    if low in ("have", "has"):
        return f"having {rest}".strip()
    if base is None or rough(low) not in ("verb", "weak") or low in IRREGULAR:
        return value
    return f"{ing_form(base)} {rest}".strip()


def number_word(number: int) -> str:
    """``two``; digits beyond twelve."""
    return _NUMBERS[number] if number < len(_NUMBERS) else str(number)


def ordinal(number: int) -> str:
    """``second``; digits beyond twelve."""
    return _ORDINALS[number] if number < len(_ORDINALS) else f"{number}th"


def is_many(name: str) -> bool:
    """Whether a label takes "are": ``legs``, ``people``."""
    return is_plural(name) and name.casefold() not in _MASS


def is_mass(name: str) -> bool:
    """Whether a label takes no article: ``grass``, ``orange juice``."""
    return name.rpartition(" ")[2].casefold() in _MASS


def is_name(name: str, small: bool) -> bool:
    """Whether a label is a proper name; ``small``: others of the scene begin with small letters."""
    words = name.split()
    capital = all(word[:1].isupper() and not word.isupper() for word in words)
    return capital and (small or len(words) > 1)


def indefinite(name: str, adjectives: str, proper: bool = False) -> str:
    """A label with its adjectives as it is first named: ``a red ball``, ``water``, ``the sky``."""
    phrase = f"{adjectives} {name}".strip()
    first = phrase.split()[0].casefold()
    if name.casefold() in _ONE:
        return f"{article(phrase) if adjectives else 'the'} {phrase}"
    if is_many(name) or is_mass(name) or not takes_article(name, proper):
        return phrase
    bare = first in ARTICLES or rough(first) == "possessive"
    return phrase if bare else f"{article(phrase)} {phrase}"


def takes_article(name: str, proper: bool = False) -> bool:
    """Whether "the" may stand before the label."""
    first = name.split()[0].casefold()
    determined = first in ARTICLES or rough(first) == "possessive"
    return not (proper or determined or name.casefold() in _PRONOUNS)


def listed(parts: Sequence[str]) -> str:
    """``a, b and c``."""
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
