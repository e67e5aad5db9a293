"""How what a parser says is compared with the human-checked facts of a caption.

Words are compared in lower case as singulars and base forms. Every fact is matched with one
other at most; equal ones first, then in the order of the caption. Two rules:

``exact``
    Labels, values and predicates must be equal.
``headline``
    - A label also matches a longer one that ends in it (*building*, *bricked building*): DSG
      itself puts the same adjective into the label of one caption and into an attribute of another.
    - A value also matches one that holds all its words (*bent*, *bent at the knee*).
    - A predicate also matches one with the same verb or the same preposition, where DSG does not
      keep to one of them (*standing on top of*, *on top of*, *on*); synonyms are those of the
      planner (:func:`scenewright.core.layout.canonical_predicate`). Its direction must be right.
    - Left aside on both sides, neither right nor wrong: an attribute that the other side says
      within a label; a relation between an owner and its part, which DSG states as a part.

``pairs`` is the headline rule for relations with the predicate left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Literal, TypeVar

from benchmarks._parser_gold import Facts, Pair, Triple
from scenewright.agents.parsers.tagging import PREPOSITIONS
from scenewright.core.inflection import singular, verb_base
from scenewright.core.layout import canonical_predicate
from scenewright.core.scene import SceneGraph

Rule = Literal["exact", "headline", "pairs"]
Count = tuple[int, int, int]
"""How many are right, said, and true."""
KINDS = ("objects", "attributes", "relations")
_T = TypeVar("_T")
_SMALL = frozenset(["a", "an", "the", "very", "is", "are", "be", "was", "of", "slightly", "being"])
_SAME_WORD = {
    **{"wooden": "wood", "metallic": "metal", "grey": "gray", "colour": "color"},
    **{"colourful": "colorful", "golden": "gold", "laying": "lie", "lay": "lie"},
    **{"woolen": "wool", "bricked": "brick", "people": "person"},
}


def said_by(scene: SceneGraph) -> Facts:
    """The facts of a scene graph by class label; its ``place`` and its counts become DSG's form.

    DSG states a place in the picture as a relation to it: ``relation - spatial (tree,
    background, in)``; a text to be rendered is no attribute there, so ``text`` is left out.
    """
    facts = Facts()
    names = {item.id: item.name for item in scene.objects}
    for item in scene.objects:
        facts.objects[item.name] = None
        facts.counts[item.name] = facts.counts.get(item.name, 0) + 1
        for key, value in item.attributes.items():
            if key == "place":
                preposition, _, place = value.partition(" ")
                facts.relations[(item.name, preposition, place)] = None
            elif key != "text":
                for part in value.split(" and "):
                    facts.attributes[(item.name, part)] = None
    for r in scene.relations:
        facts.relations[(names[r.source], r.predicate, names[r.target])] = None
    return facts


def compare(said: Facts, true: Facts, rule: Rule = "headline") -> dict[str, Count]:
    """Kind → how many facts are right, said and true."""
    if rule == "exact":
        return {
            "objects": _count(list(said.objects), list(true.objects), _same_label),
            "attributes": _count(list(said.attributes), list(true.attributes), _same_attribute),
            "relations": _count(list(said.relations), list(true.relations), _same_relation),
        }
    close = _close_relation if rule == "headline" else _close_ends
    matched, kept = _without_parts(said, true, close)
    attributes, asked = _attributes(said, true)
    return {
        "objects": _count(list(said.objects), list(true.objects), _close_label),
        "attributes": _count(attributes, asked, _close_attribute),
        "relations": (matched, kept, len(true.relations)),
    }


def _without_parts(
    said: Facts, true: Facts, close: Callable[[Triple, Triple], bool]
) -> tuple[int, int]:
    """How many relations are right, and how many count as said."""
    relations = list(said.relations)
    matched = _matching(relations, list(true.relations), close)
    kept = [r for at, r in enumerate(relations) if at in matched or not _is_part(r, true)]
    return len(matched), len(kept)


def aside(said: Facts, true: Facts) -> int:
    """How many relations the headline rule sets aside, for DSG states them as parts."""
    return len(said.relations) - _without_parts(said, true, _close_relation)[1]


def with_parts(said: Facts, true: Facts) -> Count:
    """Relations by the headline rule, where a part counts as the relation ``has``."""
    relations = [*true.relations, *((owner, "has", part) for owner, part in true.parts)]
    parts = {(owner, "has", part) for owner, part in true.parts}

    def close(said: Triple, true: Triple) -> bool:
        if true in parts:
            return _is_pair(said, true[0], true[2])
        return _close_relation(said, true)

    return _count(list(said.relations), relations, close)


def right_counts(said: Facts, true: Facts) -> Count:
    """Numbers of the objects that both name: how many are right, given, and given again."""
    found = [
        (number, counted)
        for name, number in true.counts.items()
        for counted in [
            next((n for other, n in said.counts.items() if _close_label(other, name)), None)
        ]
        if counted is not None
    ]
    return sum(number == counted for number, counted in found), len(found), len(found)


def _attributes(said: Facts, true: Facts) -> tuple[list[Pair], list[Pair]]:
    """The attributes of both sides without those that the other side says within a label."""

    def in_label(pair: Pair, labels: Iterable[str]) -> bool:
        words = set(_value(pair[1]))
        head = _label(pair[0])[-1:]
        return any(
            _label(name)[-1:] == head and words and words <= set(map(_word, _label(name)[:-1]))
            for name in labels
        )

    return (
        [p for p in said.attributes if p in true.attributes or not in_label(p, true.objects)],
        [p for p in true.attributes if p in said.attributes or not in_label(p, said.objects)],
    )


def _is_part(relation: Triple, true: Facts) -> bool:
    return any(_is_pair(relation, owner, part) for owner, part in true.parts)


def _is_pair(relation: Triple, owner: str, part: str) -> bool:
    source, _, target = relation
    straight = _close_label(source, owner) and _close_label(target, part)
    return straight or (_close_label(target, owner) and _close_label(source, part))


def _matching(said: Sequence[_T], true: Sequence[_T], same: Callable[[_T, _T], bool]) -> set[int]:
    """Places in ``said`` that have a partner in ``true``, each partner once, equal ones first."""
    free = dict(enumerate(true))
    found: set[int] = set()
    for test in (lambda a, b: a == b, same):
        for at, one in enumerate(said):
            if at in found:
                continue
            partner = next((place for place, other in free.items() if test(one, other)), None)
            if partner is not None:
                del free[partner]
                found.add(at)
    return found


def _count(said: Sequence[_T], true: Sequence[_T], same: Callable[[_T, _T], bool]) -> Count:
    return len(_matching(said, true, same)), len(said), len(true)


@lru_cache(maxsize=65536)
def _label(name: str) -> tuple[str, ...]:
    words = singular(" ".join(name.casefold().replace("-", " ").split())).split()
    return tuple(_SAME_WORD.get(word, word) for word in words if word not in ("a", "an", "the"))


def _word(word: str) -> str:
    return _SAME_WORD.get(word) or _SAME_WORD.get(verb_base(word) or "") or verb_base(word) or word


@lru_cache(maxsize=65536)
def _value(text: str) -> tuple[str, ...]:
    words = re.findall(r"[\w']+", text.casefold())
    kept = [word for word in words if word not in _SMALL] or words
    return tuple(_word(singular(word) if word.endswith("s") else word) for word in kept)


@lru_cache(maxsize=65536)
def _predicate(text: str) -> tuple[str, ...]:
    words = [word for word in text.casefold().split() if word not in _SMALL - {"of"}]
    return tuple(_word(word) for word in words)


@lru_cache(maxsize=65536)
def _senses(text: str) -> frozenset[str]:
    """The verb and the preposition of a predicate, the latter as the planner calls it."""
    words = text.casefold().split()
    found = set()
    for size in range(len(words), 0, -1):
        ending = tuple(words[-size:])
        if ending in PREPOSITIONS:
            phrase = " ".join(ending)
            short = phrase.replace("the ", "").removeprefix("to ")
            found.add(
                canonical_predicate(canonical_predicate(phrase) if short == phrase else short)
            )
            break
    first = next((word for word in words if word not in _SMALL), "")
    if verb_base(first) and (first,) not in PREPOSITIONS:
        found.add(f"to {_word(first)}")
    return frozenset(found) or frozenset({text.casefold()})


def _same_label(a: str, b: str) -> bool:
    return _label(a) == _label(b)


def _close_label(a: str, b: str) -> bool:
    one, other = _label(a), _label(b)
    short, long = sorted((one, other), key=len)
    return bool(short) and long[-len(short) :] == short


def _same_attribute(a: Pair, b: Pair) -> bool:
    return _same_label(a[0], b[0]) and _value(a[1]) == _value(b[1])


def _close_attribute(a: Pair, b: Pair) -> bool:
    one, other = set(_value(a[1])), set(_value(b[1]))
    return _close_label(a[0], b[0]) and bool(one and other) and (one <= other or other <= one)


def _same_relation(a: Triple, b: Triple) -> bool:
    ends = _same_label(a[0], b[0]) and _same_label(a[2], b[2])
    return ends and _predicate(a[1]) == _predicate(b[1])


def _close_ends(a: Triple, b: Triple) -> bool:
    return _close_label(a[0], b[0]) and _close_label(a[2], b[2])


def _close_relation(a: Triple, b: Triple) -> bool:
    if not _close_ends(a, b):
        return False
    return _predicate(a[1]) == _predicate(b[1]) or bool(_senses(a[1]) & _senses(b[1]))
