"""What kind of fact a question asks about: XTC-Bench's dimensions of attributes and classes of
predicates, as data.

The six dimensions are those of Sec. 6.4.1, the four classes those of Sec. 6.1.1. The keys of all
30 meta-classes (Table 11) and all predicates of Table 10 are sorted; words that no table has go by
their last word (attributes) or by their verb and preposition (predicates), and are
:data:`OTHER` where that tells nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from scenewright.agents.parsers.tagging import NO_RELATION, rough
from scenewright.core.inflection import read_data, verb_base
from scenewright.core.vocabulary import VERB_KINDS, canonical_key, kind_of, names_no_place
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.base import Question

_DATA = read_data("scenewright.evals.studies.xtc", "categories.toml")
ATTRIBUTE_DIMENSIONS: tuple[str, ...] = tuple(_DATA["dimensions"].values())
"""As the paper calls them: ``Color & Material`` …"""
PREDICATE_NAMES: tuple[str, ...] = ("Spatial", "Posture", "Locomotion", "Social")
"""The classes of predicates, as the paper calls them."""
OTHER = "Other"
"""Category of what cannot be sorted."""

_NUMBER = re.compile(r"[ _]?[0-9]+$")


@dataclass(frozen=True, slots=True)
class KeyForm:
    """How an attribute key is sorted and said."""

    dimension: str
    """One of :data:`ATTRIBUTE_DIMENSIONS`, or :data:`OTHER`."""
    asked: str
    """What stands in "What is the … of the car?"."""
    said: str
    """What stands before a quoted value: ``upper clothing``."""
    rank: int
    """Place among adjectives: those of low rank are said first."""
    adjective: bool = False
    """Whether a value is said by itself, without its key."""
    made: bool = False
    """Whether a value that is a noun stands behind "made of"."""
    like: bool = False
    """Whether the key says nothing, so that one asks what the thing is like."""
    there: str = ""
    """What a yes or no speaks of: ``visible text on``; empty: the key itself."""


def _form(key: str, row: dict[str, Any], rank: int) -> KeyForm:
    asked = row.get("asked", key)
    return KeyForm(
        dimension=_DATA["dimensions"].get(row["dimension"], OTHER),
        asked=asked,
        said=row.get("said", asked),
        rank=rank,
        adjective=row.get("adjective", False),
        made=row.get("made", False),
        like=row.get("like", False),
        there=row.get("there", ""),
    )


_FORMS: dict[str, KeyForm] = {
    key: _form(key, row, rank) for rank, (key, row) in enumerate(_DATA["keys"].items())
}


def _plain(key: str) -> str:
    return " ".join(key.replace("_", " ").casefold().split())


@lru_cache(maxsize=4096)
def form_of(key: str) -> KeyForm:
    """How ``key`` is sorted and said; of a key that no table has by its words.

    A number at the end (``color 2``, a second value of a key) asks for another one.
    """
    plain = _plain(key)
    for name in (plain, canonical_key(plain)):
        if name in _FORMS:
            return _FORMS[name]
    bare = _NUMBER.sub("", plain)
    if bare != plain and bare in _FORMS:
        form = _FORMS[bare]
        return KeyForm(
            dimension=form.dimension,
            asked=f"other {form.asked}",
            said=f"other {form.said}",
            rank=form.rank,
            adjective=form.adjective,
            made=form.made,
            like=form.like,
            there=form.there,
        )
    words = re.findall(r"\w+", bare)
    known = [_FORMS[word].dimension for word in reversed(words) if word in _FORMS]
    asked = re.sub(r"\s*/\s*", " or ", bare) or plain
    return KeyForm(known[0] if known else OTHER, asked, asked, rank=len(_FORMS))


def dimension_of(key: str) -> str:
    """The attribute dimension of ``key``: one of :data:`ATTRIBUTE_DIMENSIONS`, or :data:`OTHER`."""
    return form_of(key).dimension


@lru_cache(maxsize=4096)
def predicate_class(predicate: str) -> str:
    """One of :data:`PREDICATE_NAMES`, or :data:`OTHER`: of verbs in any form (``ride``, ``rides``).

    A verb goes before the preposition behind it: ``perched on`` is a posture.
    """
    words = folded(predicate).split()
    for known in (kind_of(predicate), kind_of(words[0])):
        if known is not None:
            return known.capitalize()
    if _says_where(words[0]):
        return "Spatial"
    bases = (verb_base(word) or word for word in words)
    by_verb = next((VERB_KINDS[base] for base in bases if _tells(base)), None)
    if by_verb is not None:
        return by_verb.capitalize()
    return "Spatial" if _says_where(words[-1]) or words[-1] == "of" else OTHER


def _tells(base: str) -> bool:
    """Whether the verb tells the class: of one that says a place its preposition does."""
    return VERB_KINDS.get(base, "spatial") != "spatial"


def _says_where(word: str) -> bool:
    """Whether ``word`` is a preposition by which one thing stands to another."""
    return rough(word) == "preposition" and word not in NO_RELATION | {"like"}


def says_a_place(predicate: str) -> bool:
    """Whether ``predicate`` answers where the subject is relative to the object."""
    return predicate_class(predicate) == "Spatial" and not names_no_place(predicate)


def category_of(question: Question) -> str:
    """The attribute dimension or class of predicate that ``question`` asks about.

    Of parallel edges the class of the first predicate that has one; empty for a retrieval.
    """
    if question.kind == "attribute":
        return dimension_of(question.key or "")
    if question.kind == "retrieval":
        return ""
    classes = [predicate_class(predicate) for predicate in question.predicates]
    return next((name for name in classes if name != OTHER), OTHER)


EMPTY_VALUES: frozenset[str] = frozenset(_DATA["values"]["empty"])
"""Values that tell nothing about how a thing looks, in small letters."""
_SPOKEN_LABELS: dict[str, str] = _DATA["labels"]
_ENDINGS = re.compile(r"(-(other|merged|stuff))+$")


def spoken_label(label: str) -> str:
    """A class label as it is said: ``grass-merged`` is ``grass``, ``sports_ball`` is
    ``sports ball``."""
    found = _SPOKEN_LABELS.get(label.casefold())
    return found or _ENDINGS.sub("", label).replace("_", " ").strip() or label
