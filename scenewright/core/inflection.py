"""Forms of English nouns and verbs, and the word lists of the package.

The word lists are TOML files: words separated by white space, phrases by commas. Verbs and their
irregular forms are data (``inflection.toml``). Plurals are a small rule set with its exceptions as
data, enough for the labels of COCO, Visual Genome and SG2Im. ``person`` becomes ``persons`` by the
rule, so that the label stays recognisable as the class that was asked for.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


def read_data(package: str, name: str) -> dict[str, Any]:
    """Return the TOML file ``name`` in ``package``."""
    return tomllib.loads((files(package) / name).read_text(encoding="utf-8"))


def described(
    options: Mapping[str, str], shared: Mapping[str, Mapping[str, str]]
) -> dict[str, str]:
    """Return option → description; ``@NAME`` stands for that option's text in ``shared[NAME]``."""
    return {
        option: shared[text[1:]][option] if text.startswith("@") else text
        for option, text in options.items()
    }


@dataclass(frozen=True)
class WordLists:
    """The sections of one file."""

    data: dict[str, Any]
    """The parsed TOML file."""

    @classmethod
    def of(cls, package: str, name: str) -> WordLists:
        """Return the lists of the file ``name`` in ``package``."""
        return cls(read_data(package, name))

    def ordered(self, section: str, key: str) -> tuple[str, ...]:
        """Return the words of a list in its order."""
        return tuple(self.data[section][key].split())

    def words(self, section: str, key: str) -> frozenset[str]:
        """Return the words of a list."""
        return frozenset(self.ordered(section, key))

    def phrases(self, section: str, key: str) -> tuple[tuple[str, ...], ...]:
        """Return the phrases of a list, each as its words."""
        return split_phrases(self.data[section][key])

    def pairs(self, section: str, key: str, separator: str | None = None) -> dict[str, str]:
        """Return a list of ``word=other`` as a dict.

        Phrases are separated by the ``separator`` ``,``.
        """
        parts = (part.strip() for part in self.data[section][key].split(separator))
        return dict(part.split("=") for part in parts if part)


def split_phrases(text: str) -> tuple[tuple[str, ...], ...]:
    """Return the phrases of ``text``, each as its words."""
    return tuple(tuple(part.split()) for part in text.split(",") if part.strip())


_LISTS = WordLists.of(__package__, "inflection.toml")
STRONG_VERBS = _LISTS.words("verbs", "strong")
"""Base forms that rarely name things."""
WEAK_VERBS = _LISTS.words("verbs", "weak")
"""Base forms that name things as often as actions."""
VERBS: frozenset[str] = STRONG_VERBS | WEAK_VERBS
IRREGULAR_VERBS = _LISTS.pairs("verbs", "irregular")
"""Irregular form → base form."""
_PARTICIPLES: dict[str, str] = {
    **{base: form for form, base in IRREGULAR_VERBS.items()},
    **_LISTS.pairs("verbs", "participles"),
}
_DOUBLED = _LISTS.words("verbs", "doubled")
_VOWELS = "aeiou"
IRREGULAR_NOUNS = _LISTS.pairs("nouns", "irregular")
"""Singular → plural."""
_SINGULAR = {many: one for one, many in IRREGULAR_NOUNS.items()}
_ENDS_IN_S = _LISTS.words("nouns", "ends_in_s")
_ENDS_IN_E = _LISTS.words("nouns", "ends_in_e")
_ENDS_IN_MEN = _LISTS.words("nouns", "ends_in_men")
_ENDS_IN_MAN = _LISTS.words("nouns", "ends_in_man")
_PLURAL_ONLY = _LISTS.words("nouns", "plural_only")


def _is_plural(word: str) -> bool:
    if word in _SINGULAR or word in _PLURAL_ONLY or _is_men(word):
        return True
    if word in IRREGULAR_NOUNS or word in _ENDS_IN_S or len(word) < 3:
        return False
    return word.endswith("s") and not word.endswith(("ss", "us"))


def _is_men(word: str) -> bool:
    """Return whether a word is a plural such as "groomsmen"."""
    return word.endswith("men") and len(word) > 4 and word not in _ENDS_IN_MEN


def _head(name: str) -> tuple[str, str, str]:
    """Split a label into the words before its head noun, the head noun, and the rest.

    ``glass of water`` gives ``("", "glass", " of water")``.
    """
    front, of, back = name.partition(" of ")
    before, space, head = front.rpartition(" ")
    return before + space, head, of + back


def _cased(like: str, word: str) -> str:
    if like.isupper() and len(like) > 1:
        return word.upper()
    return word[:1].upper() + word[1:] if like[:1].isupper() else word


def is_plural(name: str) -> bool:
    """Return whether a label names several things: "legs", "people", "glasses of water".

    Labels with equal singular and plural ("sheep") count as singular.
    """
    word = _head(name)[1].lower()
    return _is_plural(word) and IRREGULAR_NOUNS.get(word) != word


def plural(name: str) -> str:
    """Return the plural of a class label; one that is plural already or not Latin stays as it is.

    >>> plural("sports ball"), plural("bus"), plural("glass of water"), plural("jeans")
    ('sports balls', 'buses', 'glasses of water', 'jeans')
    """
    before, head, after = _head(name)
    word = head.lower()
    if not word or _is_plural(word):
        return name
    if word in IRREGULAR_NOUNS:
        many = IRREGULAR_NOUNS[word]
    elif not (word.isascii() and word[-1].isalpha()):
        return name
    elif word.endswith("man") and word not in _ENDS_IN_MAN:
        many = f"{word[:-2]}en"
    elif word.endswith(("s", "x", "z", "ch", "sh")):
        many = word + "es"
    elif word.endswith("y") and word[-2:-1] not in ("", "a", "e", "i", "o", "u"):
        many = word[:-1] + "ies"
    else:
        many = word + "s"
    if many.startswith(word):
        return before + head + many[len(word) :] + after
    return before + _cased(head, many) + after


@lru_cache(maxsize=16384)
def singular(name: str) -> str:
    """Return the singular of a label in the plural; any other label stays as it is.

    >>> singular("sports balls"), singular("buses"), singular("leaves"), singular("bus")
    ('sports ball', 'bus', 'leaf', 'bus')
    """
    before, head, after = _head(name)
    word = head.lower()
    if word in _SINGULAR:
        return before + _cased(head, _SINGULAR[word]) + after
    if word in _PLURAL_ONLY or not _is_plural(word):
        return name
    if _is_men(word):
        return f"{before}{head[:-2]}an{after}"
    if word[:-1] in _ENDS_IN_E:
        return before + head[:-1] + after
    if word.endswith("ies") and len(word) > 4:
        return before + head[:-3] + "y" + after
    us = word.endswith("uses") and not word.endswith("ouses")
    sibilant = us or word.endswith(("sses", "xes", "zzes", "ches", "shes"))
    cut = 2 if sibilant or word[:-2] in _ENDS_IN_S else 1
    return before + head[:-cut] + after


def _undone(stem: str) -> str | None:
    """Return the verb whose form without ``-ing`` or ``-ed`` is ``stem``."""
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
    if word in IRREGULAR_VERBS:
        return IRREGULAR_VERBS[word]
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
    """Return whether the last consonant is doubled before ``-ing`` and ``-ed`` (``sitting``)."""
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


_SHORT_ING = 5
_ENDINGS = ("er", "est", "y", "en", "ly", "ed", "ish")


@lru_cache(maxsize=16384)
def stems(word: str) -> frozenset[str]:
    """Return the words of which a lower-case word may be a form, itself included.

    They are for comparing: two forms of a word have one in common.

    >>> sorted(stems("dogs")), bool(stems("happier") & stems("happy"))
    (['dog', 'dogs'], True)
    """
    found = {word, singular(word)}
    base = verb_base(word)
    if base is not None:
        found.add(base)
    elif word.endswith("ing") and len(word) > _SHORT_ING:
        # A verb that no list holds: "wagging", "spewing", "skiing".
        stem = word.removesuffix("ing")
        found |= {stem, f"{stem}e"} | ({stem[:-1]} if stem[-1] == stem[-2] else set())
    for ending in _ENDINGS:
        stem = word.removesuffix(ending)
        if stem != word and len(stem) > 2:
            found.add(stem)
            if stem[-1] == stem[-2] or stem[-1] == "i":
                # "Bigger" and "big", "happier" and "happy".
                found.add(stem[:-1])
    return frozenset(found)
