"""Forms of English verbs: base form, ``-ing`` form, third person and participle.

The verbs and their irregular forms are data (``inflection.toml``). Plurals of nouns are in
:mod:`scenewright.core.plurals`.
"""

from __future__ import annotations

from functools import lru_cache

from scenewright.core.word_lists import WordLists

_LISTS = WordLists.of(__package__, "inflection.toml")
STRONG_VERBS = _LISTS.words("verbs", "strong")
"""Base forms that are no common names of things."""
WEAK_VERBS = _LISTS.words("verbs", "weak")
"""Base forms that name things as often as deeds."""
VERBS: frozenset[str] = STRONG_VERBS | WEAK_VERBS
IRREGULAR = _LISTS.pairs("verbs", "irregular")
"""Irregular form → base form."""
_PARTICIPLES: dict[str, str] = {
    **{base: form for form, base in IRREGULAR.items()},
    **_LISTS.pairs("verbs", "participles"),
}
_DOUBLED = _LISTS.words("verbs", "doubled")
_VOWELS = "aeiou"


def _undone(stem: str) -> str | None:
    """The verb whose form without ``-ing`` or ``-ed`` is ``stem``."""
    if stem in VERBS:
        return stem
    if f"{stem}e" in VERBS:
        return f"{stem}e"
    if len(stem) > 2 and stem[-1] == stem[-2] and stem[:-1] in VERBS:
        return stem[:-1]
    if stem.endswith("i") and f"{stem[:-1]}y" in VERBS:
        return f"{stem[:-1]}y"
    return None


@lru_cache(maxsize=4096)
def verb_base(word: str) -> str | None:
    """Return the base form of a form of a known verb; None for other words.

    >>> verb_base("riding"), verb_base("carries"), verb_base("worn"), verb_base("lamp")
    ('ride', 'carry', 'wear', None)
    """
    if word in IRREGULAR:
        return IRREGULAR[word]
    if word in VERBS:
        return word
    if word.endswith("ing") and len(word) > 4:
        return _undone(word[:-3])
    if word.endswith("ed") and len(word) > 3:
        return _undone(word[:-2]) or (word[:-1] if word[:-1] in VERBS else None)
    if word.endswith("s") and not word.endswith("ss"):
        if word[:-1] in VERBS:
            return word[:-1]
        if word.endswith("es"):
            return _undone(word[:-2])
    return None


def _doubles(base: str) -> bool:
    """Whether the last consonant is doubled before ``-ing`` and ``-ed`` (``sitting``)."""
    if base in _DOUBLED:
        return True
    sounded = base.replace("qu", "q")
    short = len(sounded) > 2 and base[-1] not in f"{_VOWELS}wxyh" and base[-2] in _VOWELS
    return short and sounded[-3] not in _VOWELS and sum(c in _VOWELS for c in sounded) == 1


@lru_cache(maxsize=4096)
def ing_form(base: str) -> str:
    """Return the ``-ing`` form of a verb's base form.

    >>> ing_form("ride"), ing_form("sit"), ing_form("lie"), ing_form("overlap")
    ('riding', 'sitting', 'lying', 'overlapping')
    """
    if base.endswith("ie"):
        return f"{base[:-2]}ying"
    if base.endswith("e") and not base.endswith(("ee", "oe", "ye")):
        return f"{base[:-1]}ing"
    return f"{base}{base[-1]}ing" if _doubles(base) else f"{base}ing"


@lru_cache(maxsize=4096)
def third_person(base: str) -> str:
    """Return the third person singular of a verb's base form.

    >>> third_person("ride"), third_person("carry"), third_person("catch"), third_person("have")
    ('rides', 'carries', 'catches', 'has')
    """
    if base in ("have", "be"):
        return {"have": "has", "be": "is"}[base]
    if base.endswith("y") and base[-2:-1] not in _VOWELS:
        return f"{base[:-1]}ies"
    return f"{base}es" if base.endswith(("s", "x", "z", "ch", "sh", "o")) else f"{base}s"


@lru_cache(maxsize=4096)
def participle(base: str) -> str:
    """Return the past participle of a verb's base form.

    >>> participle("wear"), participle("park"), participle("carry"), participle("drag")
    ('worn', 'parked', 'carried', 'dragged')
    """
    known = _PARTICIPLES.get(base)
    if known is not None:
        return known
    if base.endswith("e"):
        return f"{base}d"
    if base.endswith("y") and base[-2:-1] not in _VOWELS:
        return f"{base[:-1]}ied"
    return f"{base}{base[-1]}ed" if _doubles(base) else f"{base}ed"
