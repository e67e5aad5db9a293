"""The words that triplet lines and bare attributes are read with, as data."""

from __future__ import annotations

from scenewright.core.inflection import WEAK_VERBS, ing_form, third_person, verb_base
from scenewright.core.vocabulary import (
    BEHIND_VERBS,
    FURTHER_LINES,
    NOT_IN_LINES,
    STATE_VERBS,
    VERB_KINDS,
    WORDINGS,
)


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_HUES = _words("red orange yellow green blue purple pink brown gray grey")
_SHADES = _words("light dark bright pale")
COLORS: frozenset[str] = frozenset(
    {
        *_HUES,
        *_words("black white golden silver beige tan turquoise violet magenta cyan maroon"),
        *_words("navy teal cream"),
        *(f"{shade} {hue}" for shade in _SHADES for hue in _HUES),
    }
)
SIZES: frozenset[str] = frozenset(
    _words("small little tiny big large huge giant tall short long thick thin wide narrow")
)
MATERIALS: frozenset[str] = frozenset(
    _words("wooden wood metal metallic plastic glass leather stone brick concrete paper ceramic")
    + _words("fabric rubber steel marble cotton")
)
ADJECTIVES: dict[str, str] = {
    **dict.fromkeys(COLORS, "color"),
    **dict.fromkeys(SIZES, "size"),
    **dict.fromkeys(MATERIALS, "material"),
}
"""Word (or two words) → attribute key."""

ARTICLES: frozenset[str] = frozenset({"a", "an", "the", "one"})
ANOTHER: frozenset[str] = frozenset({"another"})
VAGUE: frozenset[str] = frozenset({"some", "several", "many", "few", "no", "any"})
NUMBERS: dict[str, int] = {
    **{word: n for n, word in enumerate(("two", "three", "four", "five", "six"), 2)},
    **{str(n): n for n in range(2, 7)},
}
ORDINALS: dict[str, int] = {
    word: n for n, word in enumerate(("first", "second", "third", "fourth", "fifth", "sixth"), 1)
}

# Verbs with a place behind them.
_POSTURES = (
    *STATE_VERBS,
    *(ing_form(v) for v, kind in VERB_KINDS.items() if kind in ("posture", "locomotion")),
)


def _finite(phrase: str) -> tuple[str, ...]:
    """``wear`` and ``wears`` of a phrase with ``wearing``, unless a noun reads so."""
    first, _, rest = phrase.partition(" ")
    base = verb_base(first)
    if base is None or base in WEAK_VERBS or first != ing_form(base):
        return ()
    return tuple(f"{form} {rest}".rstrip() for form in (base, third_person(base)))


_PROGRESSIVE = (
    *(f"{posture} {place}" for posture in _POSTURES for place in BEHIND_VERBS),
    *FURTHER_LINES,
    *WORDINGS,
)
PREDICATES: frozenset[tuple[str, ...]] = frozenset(
    _words(phrase)
    for known in _PROGRESSIVE
    for phrase in (known, *_finite(known))
    if phrase not in NOT_IN_LINES
)
"""Every known predicate as its words; longer ones win over shorter ones."""
LONGEST_PREDICATE: int = max(map(len, PREDICATES))


def key_of(value: str) -> str | None:
    """``"color"``, ``"size"`` or ``"material"`` of a known attribute word, else none."""
    return ADJECTIVES.get(value.casefold())
