"""The shortest descriptions that single out one object of a scene (XTC-Bench, Sec. 3.2.5).

A description is a set of attribute values. The paper searches sets of growing size until one does
"not overlap with those of competing instances": values are sets of lower-cased words, and two of
them overlap if they share a word or one is a part of the other as text. A set singles an object
out if each competing object is ruled out by one of its values at least, that is one which overlaps
with nothing that is said of that object. (Were each value to rule out all of them, no set of two
would ever be needed, and the search would be of no use.)

What the paper leaves open is read strictly:

- Phrases show values without their keys, so a value is compared with all values of a rival,
  whatever their keys.
- An object competes for a label if its own is the same, in singular or plural, or a compound of it
  ("police car" for "car"). The words of a label that differs count as said of the rival.
- A question must not give its answer away: values that share a word with it are left out of the
  description, and a label that says all of it makes the fact unaskable.
- Values such as "yes", "none" or "unknown" are never named by.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from scenewright.agents.composers.reading import NOT_COMPOUND
from scenewright.core.inflection import singular
from scenewright.core.scene import SceneGraph, SceneObject
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.categories import EMPTY_VALUES, spoken_label

MAX_VALUES = 5
"""Most values of a description: a longer one is no question that anybody could read."""
_WORD = re.compile(r"\w+")
_JOINTS = frozenset({"a", "an", "the", "of", "and", "or", "with", "to", "is"})


@lru_cache(maxsize=65_536)
def tokens(text: str) -> frozenset[str]:
    """The words of ``text`` in small letters; a text without any is one word."""
    return frozenset(_WORD.findall(text.casefold())) or frozenset({folded(text)})


def overlap(one: str, other: str) -> bool:
    """Whether two values share a word, or one is a part of the other as text."""
    if tokens(one) & tokens(other):
        return True
    first, second = folded(one), folded(other)
    return first in second or second in first


def content(text: str) -> frozenset[str]:
    """The words of ``text`` without articles and joints, unless it has no others."""
    return (tokens(text) - _JOINTS) or tokens(text)


def tells(shown: str, answer: str) -> bool:
    """Whether ``shown`` says all of ``answer``, so that one need not look at the picture."""
    return content(answer) <= tokens(shown)


def hints_at(shown: str, answer: str) -> bool:
    """Whether ``shown`` says a part of ``answer``."""
    return bool(content(shown) & content(answer))


def tells_nothing(value: str) -> bool:
    """Whether ``value`` is one such as "yes" or "unknown", which no object is named by."""
    return folded(value) in EMPTY_VALUES


@dataclass(frozen=True, slots=True)
class Unclear:
    """An object that cannot be singled out."""

    rivals: tuple[str, ...]
    """Ids of the objects that it is not told from, in the scene's order; empty if it has no value
    to be named by."""
    long: bool = False
    """Whether more than :data:`MAX_VALUES` values could."""


class Namer:
    """Singles out the objects of one scene."""

    def __init__(self, scene: SceneGraph) -> None:
        """Reads the scene once; descriptions are made when they are asked for."""
        self._items = scene.objects
        self._bits = {item.id: 1 << at for at, item in enumerate(scene.objects)}
        self._everyone = (1 << len(scene.objects)) - 1
        self._clashes: dict[str, int] = {}
        self._rivals: dict[str, int] = {}

    def named(
        self, item: SceneObject, answers: Sequence[str], hidden: str | None = None
    ) -> tuple[str, ...] | Unclear:
        """Keys of the fewest values that tell ``item`` from all objects competing for its label.

        Of equally many the first in the order of keys; none at all if nothing competes.
        ``answers``: what the question must not say; ``hidden``: the key that is asked for.
        """
        label = spoken_label(item.name)
        keys = [
            key
            for key, value in item.attributes.items()
            if key != hidden
            and not tells_nothing(value)
            and not tells(label, value)
            and not any(hints_at(value, answer) for answer in answers)
            and not (hidden is not None and overlap(value, item.attributes[hidden]))
        ]
        return self._smallest(item, keys, self._rivals_of(item), least=0)

    def retrieved(self, item: SceneObject) -> tuple[str, ...] | Unclear:
        """Keys of the fewest values, at least one, that fit no other object of the scene.

        Values that share a word with the label are not used.
        """
        label = spoken_label(item.name)
        keys = [
            key
            for key, value in item.attributes.items()
            if not tells_nothing(value)
            and not hints_at(value, item.name)
            and not hints_at(value, label)
        ]
        if not keys:
            return Unclear(())
        return self._smallest(item, keys, self._everyone & ~self._bits[item.id], least=1)

    def _smallest(
        self, item: SceneObject, keys: Sequence[str], rivals: int, least: int
    ) -> tuple[str, ...] | Unclear:
        out = [rivals & ~self._clash(item.attributes[key]) for key in keys]
        found = fewest(out, rivals, least, MAX_VALUES)
        if found is not None:
            return tuple(keys[at] for at in found)
        ruled_out = 0
        for mask in out:
            ruled_out |= mask
        left = rivals & ~ruled_out
        return Unclear(self._ids(left or rivals), long=not left)

    def _ids(self, mask: int) -> tuple[str, ...]:
        return tuple(item.id for item in self._items if self._bits[item.id] & mask)

    def _rivals_of(self, item: SceneObject) -> int:
        name = folded(spoken_label(item.name))
        if name not in self._rivals:
            self._rivals[name] = sum(
                self._bits[other.id] for other in self._items if _competes(name, other.name)
            )
        return self._rivals[name] & ~self._bits[item.id]

    @cached_property
    def _holders(self) -> dict[str, int]:
        """Value or, behind a colon, label → who has it."""
        found: dict[str, int] = {}
        for item in self._items:
            bit = self._bits[item.id]
            for value in item.attributes.values():
                found[folded(value)] = found.get(folded(value), 0) | bit
        return found

    @cached_property
    def _labelled(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for item in self._items:
            label = spoken_label(item.name)
            found[label] = found.get(label, 0) | self._bits[item.id]
        return found

    def _clash(self, value: str) -> int:
        """The objects of which something is said that overlaps with ``value``."""
        value = folded(value)
        if value not in self._clashes:
            mask = 0
            for other, holders in self._holders.items():
                if overlap(value, other):
                    mask |= holders
            for label, holders in self._labelled.items():
                if tokens(label) & tokens(value):
                    mask |= holders
            self._clashes[value] = mask
        return self._clashes[value]


def fewest(out: Sequence[int], everyone: int, least: int, most: int) -> tuple[int, ...] | None:
    """Indices of the fewest masks of ``out``, ``least`` to ``most``, whose union is ``everyone``.

    Of equally many the first in lexicographic order; None if there are none.
    """
    behind = [0] * (len(out) + 1)
    for at in range(len(out) - 1, -1, -1):
        behind[at] = behind[at + 1] | out[at]
    if behind[0] != everyone:
        return None

    def search(begin: int, left: int, covered: int) -> tuple[int, ...] | None:
        if not left:
            return () if covered == everyone else None
        for at in range(begin, len(out) - left + 1):
            if covered | behind[at] != everyone:
                return None
            found = search(at + 1, left - 1, covered | out[at])
            if found is not None:
                return (at, *found)
        return None

    for size in range(least, min(most, len(out)) + 1):
        found = search(0, size, 0)
        if found is not None:
            return found
    return None


@lru_cache(maxsize=16_384)
def _competes(name: str, label: str) -> bool:
    """Whether the folded label ``name`` may be heard as an object of the class ``label``."""
    other = folded(spoken_label(label))
    if singular(other) == singular(name):
        return True
    return singular(other).endswith(f" {singular(name)}") and singular(other) not in NOT_COMPOUND
