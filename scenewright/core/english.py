"""English of a scene: labels as noun phrases, and attribute values as adjectives or clauses.

A value stands before its noun ("red dog"), after "is" ("standing", "in the background") or behind
the noun ("made of cookies"). Questions, facts and composed prompts read the same forms. Words are
told apart by their endings, the list of verbs, and small closed lists (``english.toml``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scenewright.core.inflection import (
    IRREGULAR_VERBS,
    WEAK_VERBS,
    WordLists,
    ing_form,
    is_plural,
    plural,
    verb_base,
)
from scenewright.core.scene import SceneObject
from scenewright.core.vocabulary import canonical_key

LISTS = WordLists.of(__package__, "english.toml")
_MASS = LISTS.words("nouns", "mass")
_COUNTED = LISTS.words("nouns", "counted")
ONE = LISTS.words("nouns", "one")
"""Nouns of which there is one: "the sky"."""
_ADJECTIVES = LISTS.words("values", "adjectives")
_NOT_VERBS = LISTS.words("values", "not_verbs")
_ADVERBS = LISTS.words("values", "adverbs")
PREPOSITIONS = LISTS.words("values", "prepositions")
_NOUNS = LISTS.words("values", "nouns")
_MATERIALS = LISTS.words("values", "materials")
_SHAPES = LISTS.words("values", "shapes")
_ENDINGS = tuple(LISTS.ordered("values", "endings"))
_MADE_ENDINGS = ("en", "ed", "llic", "lline", "like")
"""Endings of adjectives of materials: "wooden", "metallic"."""
SIDES = LISTS.words("values", "sides")
"""Places of a picture."""
_UNDETERMINED = LISTS.words("values", "undetermined")
_DETERMINED = LISTS.words("nouns", "determined")
_PRONOUNS = LISTS.words("nouns", "pronouns")
YES = frozenset({"yes", "true"})
NO = frozenset({"no", "false"})
"""Values that only say whether their key holds: ``open: yes``."""
_RANKS = {key: int(rank) for key, rank in LISTS.pairs("values", "ranks").items()}
"""Attribute key → its rank before the noun."""
_OTHER_RANK = 6
_LONGEST_ADJECTIVE = 4
"""Most words of a value that is placed before its noun."""
_BEFORE_NOUN = frozenset({"noun", "participle", "and"})
_DEGREES = frozenset({"very", "half", "well", "upside", "straight"})

_SOUNDS_LIKE_YOU = re.compile(
    r"uni(?!n|m)|us[aeiu]|ut[eio]|eu|ewe|one\b|once\b|ukulele|u(?:s|sb|fo|v|k|n|i|rl)s?\b",
    re.IGNORECASE,
)
_LETTERS = re.compile(r"[fhlmnrsx][b-df-hj-np-tv-xz0-9]*(?:[^\w]|$)|8|1[18](?!\d)", re.IGNORECASE)
"""Abbreviations that are spelled: "an HD screen", "an SVG"."""
_SILENT_H = re.compile(r"hour|honest|honou?r|heir", re.IGNORECASE)

Part = Literal["noun", "participle", "ing", "verb", "weak", "and", "adverb", "preposition"]
"""Parts of speech of a value's word; adjectives stand where nouns do."""
Place = Literal["before", "state", "behind", "text"]


def article(phrase: str) -> str:
    """Return ``a`` or ``an``, by the sound ``phrase`` begins with."""
    if _SILENT_H.match(phrase) or _LETTERS.match(phrase):
        return "an"
    vowel = phrase[:1].lower() in ("a", "e", "i", "o", "u")
    return "an" if vowel and not _SOUNDS_LIKE_YOU.match(phrase) else "a"


def is_mass(name: str) -> bool:
    """Return whether a label takes no article: ``grass``, ``orange juice``."""
    if name.endswith("ism") and name.rpartition(" ")[2] not in _COUNTED:
        return True
    low = name.casefold()
    # "A cup of coffee" is a cup.
    front, _, head = low.partition(" of ")[0].rpartition(" ")
    return (head in _MASS and not (front and head in _COUNTED)) or low.replace(" ", "-") in _MASS


def is_many(name: str) -> bool:
    """Return whether a label takes "are": ``legs``, ``people``."""
    last = name.rpartition(" ")[2]
    greek = last[:1].isupper() and last.endswith(("is", "os", "as"))
    return is_plural(name) and not is_mass(name) and not greek


def takes_article(name: str, proper: bool = False) -> bool:
    """Return whether "the" may precede the label."""
    first = name.split()[0].casefold()
    return not (proper or first in _DETERMINED or name.casefold() in _PRONOUNS)


def indefinite(name: str, adjectives: str = "", proper: bool = False) -> str:
    """Return the first mention of a label with its adjectives: ``a red ball``, ``water``.

    >>> indefinite("ball", "red"), indefinite("snow"), indefinite("scissors"), indefinite("sky")
    ('a red ball', 'snow', 'scissors', 'the sky')
    """
    phrase = f"{adjectives} {name}".strip()
    if name.casefold() in ONE:
        return f"{article(phrase) if adjectives else 'the'} {phrase}"
    if is_many(name) or is_mass(name) or not takes_article(name, proper):
        return phrase
    return f"{article(phrase)} {phrase}"


@dataclass(frozen=True, slots=True)
class Described:
    """The attributes of an object in English."""

    before: tuple[str, ...] = ()
    """Adjectives, in their order before the noun."""
    states: tuple[str, ...] = ()
    """Predicates after "is"."""
    behind: tuple[str, ...] = ()
    """Words after the noun: "made of cookies"."""
    texts: tuple[str, ...] = ()
    """Texts that are written on it."""


@lru_cache(maxsize=4096)
def described(item: SceneObject, keys: tuple[str, ...] | None = None) -> Described:
    """Split the attributes of ``item`` into adjectives, predicates and words behind the noun.

    Of ``keys`` (None: all). Values that the label or another key repeats are left out.
    """
    said = {item.name.casefold(), *item.name.casefold().split()}
    before: list[tuple[int, str]] = []
    rest: dict[Place, list[str]] = {"state": [], "behind": [], "text": []}
    for key, value in item.attributes.items():
        if keys is not None and key not in keys:
            continue
        for place, words in _placed(key, " ".join(value.split())):
            if words.casefold() in said:
                continue
            said.add(words.casefold())
            if place == "before":
                before.append((_RANKS.get(canonical_key(key), _OTHER_RANK), words))
            else:
                rest[place].append(words)
    ordered = tuple(words for _, words in sorted(before, key=lambda pair: pair[0]))
    return Described(ordered, *(tuple(rest[place]) for place in ("state", "behind", "text")))


def _placed(key: str, value: str) -> Iterator[tuple[Place, str]]:
    """Yield place and words of a value, which may join several."""
    low, known = value.casefold(), canonical_key(key)
    if low in YES:
        yield "before", key
    elif low in NO:
        yield "state", f"not {key}"
    elif known == "text":
        yield "text", value
    elif known == "material" and not _is_adjectival(low, _MADE_ENDINGS):
        short = low in _MASS or low in _MATERIALS
        yield ("before", value) if short else ("behind", f"made of {value}")
    elif known == "shape" and " " not in low and not _is_adjectival(low):
        yield "before", f"{value}-shaped"
    elif _is_adjective(known, low):
        yield "before", value
    else:
        parts = value.split(" and ")
        adjectives = [part for part in parts if _is_adjective(known, part.casefold())]
        if adjectives:
            yield "before", listed(adjectives)
        yield from (("state", _state(part)) for part in parts if part not in adjectives)


def _is_adjectival(value: str, endings: tuple[str, ...] = _ENDINGS) -> bool:
    """Return whether a shape or material is an adjective by its form: "wooden", "circular"."""
    last = value.rpartition(" ")[2]
    if last in _MASS or last in _MATERIALS:
        return False
    return last in _SHAPES or last.endswith(endings) or last in _ADJECTIVES


@lru_cache(maxsize=8192)
def _part(word: str) -> Part:
    if word in ("and", "or", "&"):
        return "and"
    if word in _ADJECTIVES or word in _NOT_VERBS:
        return "noun"
    if word in _ADVERBS:
        return "adverb"
    if word in PREPOSITIONS:
        return "preposition"
    base = verb_base(word)
    if word.endswith("ing") and len(word) > 4 and word != base:
        return "ing"
    if (word in IRREGULAR_VERBS and word != base) or (word.endswith("ed") and len(word) > 3):
        return "participle"
    if base is not None:
        return "weak" if base in WEAK_VERBS else "verb"
    return "adverb" if word.endswith("ly") and len(word) > 5 else "noun"


def _is_adjective(key: str, value: str) -> bool:
    """Return whether a lower-case value stands before its noun."""
    words = value.split()
    parts = [_part(word) for word in words]
    if key in ("place", "location", "position") or len(words) > _LONGEST_ADJECTIVE or "," in value:
        return False
    doing = key not in _RANKS or key == "state"
    if len(words) == 1:
        return parts[0] in _BEFORE_NOUN or not (doing or parts[0] in ("preposition", "adverb"))
    if "and" in (parts[0], parts[-1]) or words[-1].isdigit():
        return False
    if parts[0] == "participle" and parts[-1] == "noun" and doing:
        return False
    fits = "preposition" not in parts
    if doing:
        fits = all(
            part in _BEFORE_NOUN or word.endswith("ly") or word in _DEGREES
            for word, part in zip(words, parts, strict=True)
        )
    return fits and parts[-1] != "adverb"


def _state(value: str) -> str:
    """Return the predicate after "is": ``lean forward`` becomes ``leaning forward``."""
    first, _, rest = value.partition(" ")
    low = first.casefold()
    if low in ("have", "has"):
        return f"having {rest}".strip()
    if _part(low) == "preposition":
        words = rest.casefold().split()
        side = words and words[-1] in SIDES and words[0] not in _DETERMINED | _UNDETERMINED
        return f"{first} the {rest}" if side or (words == ["top"] and low != "on") else value
    if _part(low) in ("verb", "weak"):
        return f"{ing_form(verb_base(low) or low)} {rest}".strip()
    front, _, last = value.rpartition(" ")
    if front and _part(last) in ("verb", "weak") and " " not in front:
        # "Roller skate".
        return f"{front} {ing_form(verb_base(last) or last)}"
    return value


def state_follows_noun(state: str) -> bool:
    """Return whether a state may follow its noun alone: ``sitting``, ``in the air``."""
    first = state.split()[0]
    return _part(first) in ("ing", "preposition")


def predicative(key: str, value: str, many: bool = False) -> str:
    """Return a value as it stands after "is", or "are" of ``many``.

    >>> predicative("state", "work out"), predicative("place", "in background")
    ('working out', 'in the background')
    >>> predicative("material", "stone"), predicative("age", "baby"), predicative("color", "red")
    ('made of stone', 'a baby', 'red')
    """
    low, known = value.casefold(), canonical_key(key)
    if low in _NOUNS:
        return plural(value) if many else f"{article(value)} {value}"
    if known == "material" and not _is_adjectival(low, _MADE_ENDINGS):
        return f"made of {value}"
    return listed([words for _, words in _placed(key, value)])


def attribute_question(item: SceneObject, key: str, subject: str, many: bool) -> str:
    """Return the question whether ``subject``, which means ``item``, has its value of ``key``."""
    value = item.attributes[key]
    if canonical_key(key) == "text":
        return f'{"Do" if many else "Does"} {subject} say "{value}"?'
    be = "Are" if many else "Is"
    low = value.casefold()
    if canonical_key(key) == "type" and not many and low not in YES | NO | _NOUNS:
        ends = low.split()[-1:] == item.name.casefold().split()[-1:]
        kind = value if ends else f"{value} {item.name}"
        return f"{be} {subject} {indefinite(kind.rpartition(' ')[2], kind.rpartition(' ')[0])}?"
    return f"{be} {subject} {predicative(key, value, many)}?"


def listed(parts: Iterable[str]) -> str:
    """Return ``a, b and c``."""
    words = tuple(parts)
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])} and {words[-1]}"
