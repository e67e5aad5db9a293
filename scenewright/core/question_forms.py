"""Question forms: which questions in free words are ones that a scene asks.

A model that learnt the questions of :mod:`scenewright.core.questions` answers any other one too,
without knowing: of a picture of a dog it says yes to "Is there a dog in the image?" and no to "Does
the image show a dog?". A question in free words is therefore compared with those that are made of
scenes with its own words. It is one of them, or asks in other words whether something is there,
or it has no form that such a model knows.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from scenewright.core.english import LISTS
from scenewright.core.facts import Fact, FactKind
from scenewright.core.inflection import plural
from scenewright.core.questions import NO_RELATION, Protocol, facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject

Words = tuple[str, ...]
T = TypeVar("T")
_WORD = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")
_MOST = 20
"""Largest number that is asked for."""
_MOST_MENTIONS = 2

_PICTURES = LISTS.words("questions", "pictures")
_DETERMINERS = {
    **dict.fromkeys([*LISTS.phrases("questions", "determiners"), ()], 1),
    ("at", "least", "one"): 1,
}
"""Words before a thing that is asked for, and the least number of them that is meant."""
_OPENINGS = frozenset(LISTS.phrases("questions", "openings"))
"""Beginnings that ask whether what follows is there."""
_ENDINGS = frozenset(
    (*state, *place)
    for state in ((), *LISTS.phrases("questions", "states"))
    for place in ((), *LISTS.phrases("questions", "places"))
)
"""Ends of such questions."""


@dataclass(frozen=True, slots=True)
class Mention:
    """A thing that a question names."""

    name: str
    """Its class."""
    start: int
    """The place of the first word that describes it."""
    end: int
    """The place after its last word."""
    values: tuple[tuple[str, str], ...] = ()
    """Attributes with their values, in the order of the words."""


@lru_cache(maxsize=4096)
def asked_form(
    question: str, options: Words, classes: Words, values: tuple[tuple[str, str], ...]
) -> str | None:
    """Return the question of a scene that ``question`` is or means; None if there is none.

    ``classes`` are the labels, ``values`` the attributes (key and value) of which the scene may be
    made; options that are not yes and no are predicates.
    """
    split = list(_split(question))
    # "This photo" reads "the image" if it is no class.
    for at, (one, word) in enumerate(itertools.pairwise(split), start=1):
        if one in ("the", "this", "that") and word in _PICTURES and word not in classes:
            split[at - 1 : at + 1] = "the", "image"
    words = tuple(split)
    found = _mentions(words, classes, values)
    binary = set(options) == {"yes", "no"}
    if not 1 <= len(found) <= _MOST_MENTIONS or (binary and len(found) > 1):
        return None
    asked = " ".join(words)
    for scene in _scenes(words, found, values, options, binary):
        for fact in _facts(scene):
            if fact.is_binary == binary and " ".join(_split(fact.question)) == asked:
                return fact.question
    return _presence(words, found[0]) if binary else None


def examples(classes: Sequence[str], values: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Return some of the questions about the first of these words."""
    if not classes:
        return ()
    kinds: tuple[FactKind, ...] = ("object", "attribute")
    scene = SceneGraph(objects=(_thing("one", classes[0], values[:1]),))
    return tuple(fact.question for fact in facts_of(scene) if fact.kind in kinds)


def _mentions(words: Words, classes: Words, values: tuple[tuple[str, str], ...]) -> list[Mention]:
    """Return the things in ``words``, each with the values that stand before its class."""
    names = {form: name for name in classes for form in (_split(plural(name)), _split(name))}
    known = {_split(value): (key, value) for key, value in values}
    found: list[Mention] = []
    told: list[tuple[str, str]] = []
    at, start = 0, None
    while at < len(words):
        name, size = _longest(words, at, names)
        pair, width = _longest(words, at, known)
        if name is not None and size >= width:
            first = at if start is None else start
            found.append(Mention(name, first, at + size, tuple(told)))
            at, start, told = at + size, None, []
        elif pair is not None:
            start = at if start is None else start
            told.append(pair)
            at += width
        else:
            at += 1
    return found


def _longest(words: Words, at: int, known: Mapping[Words, T]) -> tuple[T | None, int]:
    """Return what the longest known phrase at this place stands for, and its length."""
    for size in range(min(4, len(words) - at), 0, -1):
        if words[at : at + size] in known:
            return known[words[at : at + size]], size
    return None, 0


@lru_cache(maxsize=4096)
def _split(text: str) -> Words:
    return tuple(word.casefold() for word in _WORD.findall(text))


def _thing(id_: str, name: str, values: Iterable[tuple[str, str]] = ()) -> SceneObject:
    return SceneObject(id=id_, name=name, attributes=Attributes(dict(values)))


def _scenes(
    words: Words,
    found: Sequence[Mention],
    values: tuple[tuple[str, str], ...],
    options: Words,
    binary: bool,
) -> Iterator[SceneGraph]:
    """Yield scenes of what is named, whose questions may have these words."""
    one = found[0]
    if binary:
        # "Is the dog red?" says its value after the class.
        after = [(k, v) for k, v in values if _longest(words, one.end, {_split(v): v})[0]]
        numbers = [int(word) for word in words if word.isdecimal() and 0 < len(word) < 4]
        number = min(numbers[0], _MOST) if numbers and numbers[0] else 1
        yield from _counted(one.name, (*one.values, *after), number)
        return
    predicate = next((option for option in options if option != NO_RELATION), "")
    if not predicate or NO_RELATION not in options:
        return
    other = found[-1]
    # Others of its class, by which a thing is told apart or is one of several.
    for mine, theirs in itertools.product((None, (), one.values), (None, (), other.values)):
        objects = [_thing("a", one.name, one.values), _thing("b", other.name, other.values)]
        if mine is not None:
            objects.append(_thing("c", one.name, mine))
        if theirs is not None:
            objects.append(_thing("d", other.name, theirs))
        related = Relation(source="a", predicate=predicate, target="b")
        yield SceneGraph(objects=tuple(objects), relations=(related,))


def _counted(name: str, values: Iterable[tuple[str, str]], number: int) -> Iterator[SceneGraph]:
    """Yield ``number`` things of a class, alone and beside one that has none of the values."""
    some = [_thing(f"x{at}", name, values) for at in range(number)]
    yield SceneGraph(objects=tuple(some))
    yield SceneGraph(objects=(*some, _thing("y", name)))


@lru_cache(maxsize=512)
def _facts(scene: SceneGraph) -> tuple[Fact, ...]:
    protocols: tuple[Protocol, ...] = ("grounded", "scene-bench")
    return tuple(fact for protocol in protocols for fact in facts_of(scene, protocol))


def _presence(words: Words, thing: Mention) -> str | None:
    """Return the question of a scene whether ``thing`` is there, if that is what is asked."""
    before, after = words[: thing.start], words[thing.end :]
    number = None
    for size in range(3, -1, -1):
        said = before[len(before) - size :]
        if len(said) == size and said in _DETERMINERS:
            number = _DETERMINERS[said]
        elif size == 3 and said[:2] == ("at", "least") and said[2:] and said[2].isdecimal():
            number = int(said[2])
        if number is not None:
            before = before[: len(before) - size]
            break
    described = " ".join(words[thing.start : thing.end])
    plain = [" ".join(_split(value)) for _, value in thing.values]
    labels = (" ".join(_split(name)) for name in (thing.name, plural(thing.name)))
    alone = described in {" ".join((*plain, label)) for label in labels}
    opens = before in _OPENINGS or (before in (("is",), ("are",)) and bool(after))
    if not (opens and alone and after in _ENDINGS) or number is None or not 1 <= number <= _MOST:
        return None
    # A scene asks each attribute by itself: two are no question of one.
    if len(plain) > 1:
        return None
    kind = "attribute" if thing.values else "object"
    same, beside = _counted(thing.name, thing.values, number)
    for fact in facts_of(beside if thing.values else same):
        if fact.kind == kind and (fact.counting.least if fact.counting else 1) == number:
            return fact.question
    return None
