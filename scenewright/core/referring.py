"""Words by which questions and sentences mean one of the objects of a scene.

A referring expression names the smallest set of attributes that no other instance of the class has
or, where attributes do not tell two apart, a relation that does.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cache

from scenewright.core.english import described, is_many, listed, takes_article
from scenewright.core.inflection import ing_form, plural, verb_base
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import (
    canonical,
    converse,
    is_weak,
    names_no_place,
    without_be,
)
from scenewright.core.wording import Names


def noun_phrase(item: SceneObject, keys: Iterable[str] | None = None, many: bool = False) -> str:
    """Return the object with its attributes: ``red metal box``, ``beaver that is standing``.

    ``keys`` selects attributes (None: all), ``many`` asks for the plural. Values that the label or
    another key repeats are left out.
    """
    said = described(item, None if keys is None else tuple(keys))
    ordered = said.before
    name = plural(item.name) if many else item.name
    several = many or is_many(item.name)
    clauses = [f"{'are' if several else 'is'} {listed(said.states)}"] if said.states else []
    for text in said.texts:
        clauses.append(f'{"say" if several else "says"} "{text}"')
    behind = [*said.behind, *([f"that {listed(clauses)}"] if clauses else [])]
    return " ".join([*ordered, name, *behind])


def relation_statement(source: SceneObject, predicate: str, target: SceneObject) -> str:
    """Return a relation in the scene's words, with the adjectives of its ends."""
    first, second = (" ".join([*described(item).before, item.name]) for item in (source, target))
    return f"{first} {predicate} {second}"


def distinguishing_keys(scene: SceneGraph, item: SceneObject) -> tuple[str, ...] | None:
    """Return the smallest attribute set whose values no other instance of the class has.

    Sizes 0, 1, 2, … in key order. None if no set of attributes tells ``item`` apart.
    Values count without their keys and without case, for the phrase shows only them:
    ``the red dog`` is not a name where one dog is red and another's collar is. Of more than
    ``SETS_TRIED`` sets the rest is not tried: the keys without those that are not needed are
    returned then.
    """
    return _Class(_same_class(scene, item.name)).distinguishing_keys(item)


def keys_of_one(scene: SceneGraph, item: SceneObject) -> tuple[str, ...]:
    """Return the keys by which "one of the red dogs" means ``item``.

    What all instances of the class are doing tells nothing.
    """
    return _Class(_same_class(scene, item.name)).keys_of_one(item)


SETS_TRIED = 4096
"""Attribute sets that are tried for the smallest one: all of an object with 12 attributes."""


class _Class:
    """The objects of one class, by their attribute values.

    Sets of objects are the bits of a number: a scene may have hundreds that are told apart by a
    few values.
    """

    def __init__(self, items: Sequence[SceneObject]) -> None:
        self.items = items
        self._bits = {one.id: 1 << at for at, one in enumerate(items)}
        self._having: dict[str, int] = defaultdict(int)
        self._values = Counter(pair for one in items for pair in one.attributes.items())
        for one in items:
            for value in one.attributes.values():
                self._having[value.casefold()] |= self._bits[one.id]

    def distinguishing_keys(self, item: SceneObject) -> tuple[str, ...] | None:
        """Return as the function of this name."""
        others = ((1 << len(self.items)) - 1) & ~self._bits.get(item.id, 0)
        having = {
            key: self._having.get(value.casefold(), 0) for key, value in item.attributes.items()
        }

        def alone(keys: Iterable[str]) -> bool:
            left = others
            for key in keys:
                left &= having[key]
            return not left

        if not alone(having):
            return None
        subsets = itertools.chain.from_iterable(
            itertools.combinations(having, size) for size in range(len(having) + 1)
        )
        for subset in itertools.islice(subsets, SETS_TRIED):
            if alone(subset):
                return subset
        keys = tuple(having)
        for key in reversed(keys):
            fewer = tuple(one for one in keys if one != key)
            if alone(fewer):
                keys = fewer
        return keys

    def keys_of_one(self, item: SceneObject) -> tuple[str, ...]:
        """Return as the function of this name."""
        return tuple(
            pair[0]
            for pair in item.attributes.items()
            if self._values[pair] < len(self.items) or not described(item, pair[:1]).states
        )


def instance_order(scene: SceneGraph, name: str) -> tuple[str, ...]:
    """Return the ids of a class's objects in counting order.

    Those with most relations, then attributes, are first.
    """
    return _ordered(_same_class(scene, name), _ends_of(scene))


def _same_class(scene: SceneGraph, name: str) -> list[SceneObject]:
    return [item for item in scene.objects if item.name == name]


def _ends_of(scene: SceneGraph) -> Counter[str]:
    return Counter(end for one in scene.relations for end in (one.source, one.target))


def _ordered(same: Iterable[SceneObject], ends: Counter[str]) -> tuple[str, ...]:
    ordered = sorted(same, key=lambda item: (-ends[item.id], -len(item.attributes)))
    return tuple(item.id for item in ordered)


def option_text(predicate: str) -> str:
    """Return a predicate as an option says it: a verb in its ``-ing`` form, else as it stands.

    All options of a question then have one form, so that the form does not give the answer away.

    >>> option_text("wear"), option_text("Holds"), option_text("to the left of")
    ('wearing', 'holding', 'to the left of')
    """
    plain = " ".join(without_be(predicate))
    first, _, rest = plain.partition(" ")
    base = verb_base(first.casefold())
    said = canonical(plain).partition(" ")[0]
    if base is None or said != ing_form(base) or first.casefold() == said:
        return "has" if canonical(plain) == "having" else plain
    return f"{said} {rest}" if rest else said


class ReferringPhrases:
    """A scene with the words by which questions mean its objects, looked up again and again."""

    def __init__(self, graph: SceneGraph, taught: bool = False) -> None:
        """``taught``: for judges that know no forms but those that they were taught."""
        self.graph = graph
        self.taught = taught
        self._names = Names(graph)
        self.items = {item.id: self._names.as_written(item) for item in graph.objects}
        same: dict[str, list[SceneObject]] = defaultdict(list)
        for item in graph.objects:
            same[item.name].append(item)
        self.classes = {name: _Class(items) for name, items in same.items()}
        ends = _ends_of(graph)
        self.orders = {name: _ordered(items, ends) for name, items in same.items()}
        """:func:`instance_order` of each class."""
        self.places = {id_: at for ids in self.orders.values() for at, id_ in enumerate(ids, 1)}
        """Position, from 1, of each object in the counting order of its class."""
        self.sharing: dict[tuple[str, str], int] = {}
        """Position, from 1, of an object in its class among equal values of a key."""
        self.alike: Counter[tuple[str, str, str]] = Counter()
        for name, ids in self.orders.items():
            for id_ in ids:
                for key, value in self.items[id_].attributes.items():
                    self.alike[name, key, value] += 1
                    self.sharing[id_, key] = self.alike[name, key, value]
        said = (count for count in graph.intent.counts if count.kind == "exact")
        exact = {id_ for one in said if one.number == len(one.objects) for id_ in one.objects}
        self.exact = {name for name, ids in self.orders.items() if exact.issuperset(ids)}
        """Classes of which there must not be more."""
        self._leaving: dict[str, list[Relation]] = defaultdict(list)
        self._arriving: dict[str, list[Relation]] = defaultdict(list)
        for relation in graph.relations:
            self._leaving[relation.source].append(relation)
            self._arriving[relation.target].append(relation)
        self._holding: dict[tuple[frozenset[str], frozenset[str]], frozenset[str]] = {}
        self.keys = cache(lambda item: self.classes[item.name].distinguishing_keys(item))
        """Returns :func:`distinguishing_keys` of an object."""
        self.referring_phrase = cache(self._refer)
        """Returns the words by which a question means an object."""

    def _refer(self, item: SceneObject) -> str:
        keys = self.keys(item)
        if keys is None:
            shown = self.classes[item.name].keys_of_one(item)
            return f"one of the {noun_phrase(item, shown, many=True)}"
        phrase = noun_phrase(item, keys)
        return phrase if keys == () and self.takes_no_article(item) else f"the {phrase}"

    def telling(self, item: SceneObject, other: SceneObject) -> Relation | None:
        """Return a relation that tells ``item`` from its like where attributes do not.

        None of it to ``other``, of which the question is, nor to its class.
        """
        if self.taught or self.keys(item) is not None:
            return None
        like = [id_ for id_ in self.orders[item.name] if id_ != item.id]
        same = {
            (canonical(r.predicate), self.items[r.target].name)
            for id_ in like
            for r in self._leaving.get(id_, ())
        }
        for relation in self._leaving.get(item.id, ()):
            target, predicate = self.items[relation.target], canonical(relation.predicate)
            says = not is_weak(predicate) and not names_no_place(predicate)
            alone = (predicate, target.name) not in same and self.keys(target) is not None
            if says and alone and target.name not in (item.name, other.name):
                return relation
        return None

    def phrase(self, item: SceneObject, other: SceneObject) -> str:
        """Return the words for ``item`` in a question about it and ``other``."""
        said = self.referring_phrase(item)
        relation = self.telling(item, other)
        if relation is None:
            return said
        whom = self.referring_phrase(self.items[relation.target])
        named = noun_phrase(item, self.classes[item.name].keys_of_one(item))
        return f"the {named} {option_text(relation.predicate)} {whom}"

    def takes_no_article(self, item: SceneObject) -> bool:
        """Return whether a label takes no article: "Mona Lisa", "someone"."""
        if not takes_article(item.name):
            return True
        return self.is_proper(item) and self._names.article_of(item.name) != "the"

    def is_proper(self, item: SceneObject) -> bool:
        """Return whether a label is a proper name."""
        return self._names.is_proper(item.name)

    def meant(self, item: SceneObject, other: SceneObject, apart: bool) -> frozenset[str]:
        """Return ids of the objects that :meth:`phrase` may mean; not ``apart``: of the class."""
        if apart and (self.keys(item) is not None or self.telling(item, other) is not None):
            return frozenset((item.id,))
        return frozenset(self.orders[item.name])

    def holding(self, source: SceneObject, target: SceneObject, apart: bool) -> frozenset[str]:
        """Return the predicates that hold between the source and target of a question."""
        ones = self.meant(source, target, apart)
        others = self.meant(target, source, apart)
        if (ones, others) not in self._holding:
            found = [r.predicate for r in self._between(ones, others)]
            # It is unknown whether a target looks back at its source: no wrong option.
            turned = (converse(r.predicate) or r.predicate for r in self._between(others, ones))
            self._holding[ones, others] = frozenset((*found, *turned))
        return self._holding[ones, others]

    def _between(self, ones: frozenset[str], others: frozenset[str]) -> Iterator[Relation]:
        """Return the relations from the first objects to the others."""
        if len(ones) <= len(others):
            for one in ones:
                yield from (r for r in self._leaving.get(one, ()) if r.target in others)
        else:
            for other in others:
                yield from (r for r in self._arriving.get(other, ()) if r.source in ones)
