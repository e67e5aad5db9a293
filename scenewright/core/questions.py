"""Questions that check a scene graph.

Two protocols. ``scene-bench`` asks exactly as the paper does: by class label, one
yes/no question an object and one multiple-choice question a relation, fixed forms.
``grounded`` (the default) also tells several instances of a class apart, by counts
and by the smallest distinguishing attribute set, and shuffles options with a seed.
Attribute questions are an addition of ours in both (the paper has none).

``scene-bench`` asks every fact, whether or not its objects were found: its facts have no parents,
go out in one wave and are never void. In ``grounded`` an attribute depends on its object and a
relation on both ends. The facts of several instances of a class count them ("at least two dogs"),
the busiest instance first; which one is absent is decided once all is answered
(:func:`scenewright.core.facts.assign_verdicts`), so what is asked of an instance depends on the
class being there and not on the instance's own fact.

A rule of ``grounded`` keeps one error from becoming several: an object of which the panel is unsure
is asked on about, and is there if what is found shows it
(:func:`scenewright.core.facts.resolve_verdicts`).
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from scenewright.core.english import (
    ONE,
    SIDES,
    article,
    attribute_question,
    described,
    indefinite,
    is_many,
    is_mass,
    listed,
    state_follows_noun,
    takes_article,
)
from scenewright.core.facts import (
    ASPECTS,
    SOUNDNESS,
    WELL_FORMED,
    Counting,
    Fact,
    FactError,
    RealismAspect,
)
from scenewright.core.inflection import ing_form, plural, verb_base
from scenewright.core.intent import Exclusion
from scenewright.core.predicate_statistics import DEFAULT, PredicateStatistics, load_predicates
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import (
    canonical,
    converse,
    is_weak,
    names_no_place,
    turned,
    without_be,
)
from scenewright.core.wishes import wish_question
from scenewright.core.wording import Names

Protocol = Literal["scene-bench", "grounded"]
PROTOCOLS: tuple[Protocol, ...] = ("scene-bench", "grounded")
NO_RELATION = "no visible relationship"
ALL_WHOLE = "Is every object in the image whole and well formed?"
"""Question for a picture without a malformed object; expected is yes."""

_ASPECT_WORDS: dict[RealismAspect, str] = {
    "shape": "shape and structure",
    "texture": "texture, color and shade",
}
"""Names of the aspects in OcR's prompts (Liang et al., Sec. 4.1)."""
_LOOKS_REAL = " has a realistic {}"


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


class _Scene:
    """A scene with what its questions look up again and again."""

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
        self._alike: Counter[tuple[str, str, str]] = Counter()
        for name, ids in self.orders.items():
            for id_ in ids:
                for key, value in self.items[id_].attributes.items():
                    self._alike[name, key, value] += 1
                    self.sharing[id_, key] = self._alike[name, key, value]
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

    def counting(self, item: SceneObject, key: str | None = None) -> Counting | None:
        """Return how the facts of a class, or of those with a value of ``key``, are counted.

        None where one fact says it all.
        """
        if key is None:
            least, wanted = self.places[item.id], len(self.orders[item.name])
            exact = item.name in self.exact
        else:
            least, exact = self.sharing[item.id, key], False
            wanted = self._alike[item.name, key, item.attributes[key]]
        if wanted + exact < 2:
            return None
        keys = () if key is None else (key,)
        some = noun_phrase(item, keys, many=True)
        said = some if wanted > 1 else noun_phrase(item, keys)
        return Counting(
            question=_how_many(some),
            statement=f"{'exactly' if exact else 'at least'} {wanted} {said}",
            least=least,
            wanted=wanted,
            exact=exact,
        )

    def meant(self, item: SceneObject, other: SceneObject, protocol: Protocol) -> frozenset[str]:
        """Return ids of the objects that :meth:`phrase` may mean."""
        if protocol == "grounded" and (
            self.keys(item) is not None or self.telling(item, other) is not None
        ):
            return frozenset((item.id,))
        return frozenset(self.orders[item.name])

    def holding(
        self, source: SceneObject, target: SceneObject, protocol: Protocol
    ) -> frozenset[str]:
        """Return the predicates that hold between the source and target of a question."""
        ones = self.meant(source, target, protocol)
        others = self.meant(target, source, protocol)
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


class RelationOptions(NamedTuple):
    """Options of a relation question."""

    offered: tuple[str, ...]
    """The options in their order, the last one :data:`NO_RELATION`."""
    settled: bool
    """Whether the two classes alone give the answer away."""


def relation_options(
    predicate: str,
    shuffle_key: tuple[object, ...],
    classes: tuple[str, str],
    holding: Collection[str] = (),
    predicates: PredicateStatistics | None = None,
) -> RelationOptions:
    """Return the options of a relation question.

    They are three predicates, the asked one among them, then the paper's last option,
    :data:`NO_RELATION`. ``classes`` are the labels of source and target, ``holding`` predicates
    that hold of them as well and so are not wrong options. ``shuffle_key`` decides the order.
    ``predicates`` are the statistics behind wrong options (default: ``general``). Source:
    Scene-Bench, Sec. 3.2.
    """
    key = "\x1f".join(map(str, (*shuffle_key, predicate)))
    rng = random.Random(hashlib.sha256(key.encode()).digest())
    known = predicates if predicates is not None else load_predicates()
    wrong = known.wrong_options(classes[0], predicate, classes[1], rng, holding)
    # Worded like the asked one: on the left of → on the right of.
    mirrored = turned(predicate)
    offered = [option_text(predicate)]
    offered += [
        mirrored if canonical(mirrored) == one else option_text(one) for one in wrong.predicates
    ]
    rng.shuffle(offered)
    return RelationOptions((*offered, NO_RELATION), not wrong.matched)


def _part(text: str) -> str:
    """Return ``text`` within a fact id: separators get a backslash."""
    return re.sub(r"([\\:|])", r"\\\1", text)


def object_fact_id(object_id: str) -> str:
    """Return id of the fact that the object is there: ``o:dog.1``."""
    return f"o:{object_id}"


def attribute_fact_id(object_id: str, key: str) -> str:
    """Return id of the fact that an attribute holds: ``a:dog.1:color``."""
    return f"a:{_part(object_id)}:{_part(key)}"


def relation_fact_id(relation: Relation) -> str:
    """Return id of the fact that a relation holds: ``r:dog.1|left of|ball.1``."""
    parts = (relation.source, relation.predicate, relation.target)
    return f"r:{'|'.join(map(_part, parts))}"


def realism_fact_id(object_id: str, aspect: RealismAspect) -> str:
    """Return id of the fact that an object looks real in one aspect: ``real:dog.1:shape``."""
    return f"real:{_part(object_id)}:{aspect}"


def number_fact_id(name: str, number: int) -> str:
    """Return id of the fact that there are not more than ``number`` of a class: ``n:dog:2``."""
    return f"n:{_part(name)}:{number}"


def wish_id(kind: str, text: str) -> str:
    """Return id of a wish for the whole picture: ``w:medium:oil painting``."""
    return f"w:{kind}:{_part(text)}"


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


def _counted(scene: _Scene, item: SceneObject, count: int) -> str:
    """Return id of the fact that there are at least ``count`` objects of the class of ``item``."""
    return object_fact_id(scene.orders[item.name][count - 1])


def _object_question(scene: _Scene, item: SceneObject, protocol: Protocol) -> tuple[str, str]:
    """Return the question, and the statement for people."""
    if protocol == "scene-bench":
        return f"Is there {article(item.name)} {item.name} in the image?", item.name
    ordinal = scene.places[item.id]
    if ordinal == 1:
        return _is_there(scene, item), item.name
    return (
        f"Are there at least {ordinal} {plural(item.name)} in the image?",
        f"{item.name} (number {ordinal})",
    )


def _is_there(scene: _Scene, item: SceneObject, key: str | None = None) -> str:
    """Return the question whether one is there, with its value of ``key``."""
    if scene.is_proper(item):
        named = item.name if scene.takes_no_article(item) else f"the {item.name}"
        return f"Is {named} in the image?"
    phrase = noun_phrase(item, () if key is None else (key,))
    seen = _seen(item, key)
    if is_many(item.name):
        return f"Are there {seen}?"
    if key is None and item.name.casefold() in ONE:
        return f"Is the {item.name} in the image?"
    single = len(scene.orders[item.name]) == 1
    bare = (is_mass(item.name) and single) or not takes_article(item.name)
    begin = "" if bare else f"{article(phrase)} "
    return f"Is there {begin}{seen}?"


def _seen(item: SceneObject, key: str | None, many: bool = False) -> str:
    """Return what is asked for in the image: ``dog sitting in the image``."""
    phrase = noun_phrase(item, () if key is None else (key,), many)
    front, said, state = phrase.partition(
        " that are " if many or is_many(item.name) else " that is "
    )
    if said and state_follows_noun(state):
        return f"{front} {_in_image(state)}"
    return _in_image(phrase)


def _in_image(words: str) -> str:
    """Return words with the image: ``sitting in the image``, ``in the background of the image``."""
    place = words.partition(" ")[0] in ("in", "on", "at")
    of = place and words.split()[-1] in SIDES - {"air", "sky", "back", "side", "front"}
    return f"{words} {'of' if of else 'in'} the image"


def _how_many(some: str) -> str:
    """Return the question for the number of ``dogs``, or of ``dogs that are sitting``."""
    front, _, state = some.partition(" that are ")
    return f"How many {front} are {_in_image(state or 'there')}?"


def _attribute_question(scene: _Scene, item: SceneObject, key: str, protocol: Protocol) -> str:
    if protocol == "scene-bench":
        return f"Is the {item.name} {item.attributes[key]}?"
    if len(scene.orders[item.name]) == 1:
        subject = item.name if scene.takes_no_article(item) else f"the {item.name}"
        many = is_many(item.name) and not scene.is_proper(item)
        return attribute_question(item, key, subject, many)
    ordinal = scene.sharing[item.id, key]
    if ordinal == 1:
        return _is_there(scene, item, key)
    return f"Are there at least {ordinal} {_seen(item, key, many=True)}?"


def _relation_question(first: str, second: str) -> str:
    return f"What is the relationship between {first} and {second} in the image?"


def _relation_facts(
    scene: _Scene, protocol: Protocol, seed: int, predicates: PredicateStatistics | None
) -> Iterator[Fact]:
    """Yield the facts of the relations.

    No two of ``grounded`` share a question: of those that would, alike ones are asked by number,
    and others, which join the same two in another way, are asked as they are stated.
    """
    facts = [_relation_fact(scene, r, protocol, seed, predicates) for r in scene.graph.relations]
    if protocol != "scene-bench" and not scene.taught:
        same: dict[str, dict[str, list[Fact]]] = defaultdict(lambda: defaultdict(list))
        for fact in facts:
            same[fact.question][canonical(str(fact.predicate))].append(fact)
        stated = {
            fact.id: fact
            for alike in same.values()
            for some in alike.values()
            if len(alike) > 1 or len({(fact.subject, fact.target) for fact in some}) > 1
            for fact in _numbered(scene, some)
        }
        facts = [stated.get(fact.id, fact) for fact in facts]
    yield from facts


def _numbered(scene: _Scene, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield relations that no words tell apart as yes/no questions about how many there are.

    The i-th source has its j-th target: at least i of the dogs are next to at least j of the
    trees. Sources with most targets come first, so that each number includes those below it.
    """
    targets: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        if fact.target not in targets[fact.subject]:
            targets[fact.subject].append(str(fact.target))
    sources = sorted(targets, key=lambda source: -len(targets[source]))
    single = len(sources) == 1
    source, target = (scene.items[end] for end in (facts[0].subject, str(facts[0].target)))
    first, second = scene.phrase(source, target), scene.phrase(target, source)
    single, counted = len(sources) == 1, len(facts) > 1
    wanted = len(targets[sources[0]]) if single else len(sources)
    for fact in facts:
        i = sources.index(fact.subject) + 1
        j = targets[fact.subject].index(str(fact.target)) + 1
        many = is_many(source.name) if single else i > 1
        who = first if single else _at_least(i, first)
        whom = _at_least(j, second) if j > 1 or (single and counted) else second
        of = (second if single else first).removeprefix("one of ")
        verb, does = _verb(str(fact.predicate), is_many(source.name) or not single)
        said = f"{verb} {first} {does}" if single else f"{verb} {does} {second}"
        if not single and verb == "do":
            said = f"{does} {second}"
        verb, _ = _verb(str(fact.predicate), many)
        counting = Counting(
            question=f"How many of {of} {said} in the image?",
            statement=f"{fact.statement} ({wanted} times)",
            least=j if single else i,
            wanted=wanted,
        )
        update = {
            "question": f"{verb.capitalize()} {who} {does} {whom} in the image?",
            "options": ("yes", "no"),
            "expected": "yes",
            "settled": False,
            # One number answers all of them only where one end alone is counted.
            "counting": counting if counted and max(len(sources), wanted) == len(facts) else None,
        }
        yield fact.model_copy(update=update)


def _verb(predicate: str, many: bool) -> tuple[str, str]:
    """Return the words of a yes/no question before and behind its subject."""
    if canonical(predicate) == "having":
        return ("do" if many else "does"), "have"
    return ("are" if many else "is"), option_text(predicate)


def _at_least(number: int, phrase: str) -> str:
    """Return ``at least 2 of the red dogs`` for ``one of the red dogs``."""
    some = "one" if number == 1 else str(number)
    return f"at least {some} of {phrase.removeprefix('one of ')}"


def _relation_fact(
    scene: _Scene,
    relation: Relation,
    protocol: Protocol,
    seed: int,
    predicates: PredicateStatistics | None,
) -> Fact:
    source, target = scene.items[relation.source], scene.items[relation.target]
    if relation.predicate.casefold() == NO_RELATION:
        raise FactError(
            f"'{relation}' asks for no relation, which no question can confirm: remove it"
        )
    if protocol == "scene-bench":
        first, second = f"the {source.name}", f"the {target.name}"
        shuffle_key: tuple[object, ...] = (source.name, target.name)
    else:
        first, second = scene.phrase(source, target), scene.phrase(target, source)
        shuffle_key = (seed, relation.source, relation.target)
    parents: tuple[str, ...] = ()
    if protocol != "scene-bench":
        # Both ends of one class need two of it.
        counts = (1, 2) if source.name == target.name else (1, 1)
        ends = zip((source, target), counts, strict=True)
        parents = tuple(_counted(scene, item, count) for item, count in ends)
    options = relation_options(
        relation.predicate,
        shuffle_key,
        (source.name, target.name),
        scene.holding(source, target, protocol),
        predicates,
    )
    return Fact(
        id=relation_fact_id(relation),
        kind="relation",
        subject=source.id,
        target=target.id,
        predicate=relation.predicate,
        classes=(source.name, target.name),
        parents=parents,
        statement=relation_statement(source, relation.predicate, target),
        question=_relation_question(first, second),
        options=options.offered,
        expected=option_text(relation.predicate),
        settled=options.settled,
    )


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """Form of the questions about a scene; equal scenes and forms give equal facts."""

    protocol: Protocol = "grounded"
    """Question protocol: the paper's or ours."""
    predicates: str | PredicateStatistics = DEFAULT
    """Source of wrong options: a name or file of :func:`load_predicates`, or counts."""
    realism: bool = False
    """Whether facts of realism follow those of the scene."""

    def facts(self, scene: SceneGraph) -> tuple[Fact, ...]:
        """Return the facts of ``scene``; raises what :func:`facts_of` raises."""
        return _facts_in(scene, self)

    def soundness(self, scene: SceneGraph) -> tuple[Fact, ...]:
        """Return the facts of :func:`soundness_facts_of`; none by the paper's protocol."""
        return () if self.protocol == "scene-bench" else soundness_facts_of(scene)


# Every node of a loop needs the facts of its scene.
@lru_cache(maxsize=64)
def _facts_in(scene: SceneGraph, form: QuestionForm) -> tuple[Fact, ...]:
    known = form.predicates
    if isinstance(known, str):
        known = load_predicates(known)
    stated = facts_of(scene, form.protocol, predicates=known)
    wishes = () if form.protocol == "scene-bench" else wishes_of(scene)
    return (*stated, *wishes, *(realism_facts_of(scene) if form.realism else ()))


def facts_of(
    scene: SceneGraph,
    protocol: Protocol = "grounded",
    seed: int = 0,
    predicates: PredicateStatistics | None = None,
) -> tuple[Fact, ...]:
    """Return all facts of ``scene``: objects, then attributes, then relations, in its order.

    ``grounded`` adds what a sentence says beside the graph: exact numbers, exclusions, and texts
    that no object bears. Deterministic in its arguments; ``seed`` orders the options of the
    ``grounded`` protocol, ``predicates`` says where wrong options come from (default:
    ``general``). Source: Scene-Bench Sec. 3.2. Raises ``ValueError`` for an unknown protocol and
    ``FactError`` for a relation that says "no visible relationship".
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}: use one of {', '.join(PROTOCOLS)}")
    facts: list[Fact] = []
    known = _Scene(scene, taught=predicates is not None and bool(predicates.fixed))
    for item in scene.objects:
        question, statement = _object_question(known, item, protocol)
        counts = protocol != "scene-bench" and len(known.orders[item.name]) > 1
        facts.append(
            Fact(
                id=object_fact_id(item.id),
                kind="object",
                subject=item.id,
                key=str(known.places[item.id]) if counts else None,
                classes=(item.name,),
                statement=statement,
                question=question,
                counting=None if protocol == "scene-bench" else known.counting(item),
            )
        )
    for item in scene.objects:
        for key, value in item.attributes.items():
            facts.append(
                Fact(
                    id=attribute_fact_id(item.id, key),
                    kind="attribute",
                    subject=item.id,
                    key=key,
                    value=value,
                    classes=(item.name,),
                    parents=(
                        ()
                        if protocol == "scene-bench"
                        else (_counted(known, item, known.sharing[item.id, key]),)
                    ),
                    statement=f"{item.name} is {value}",
                    question=_attribute_question(known, known.items[item.id], key, protocol),
                    counting=None if protocol == "scene-bench" else known.counting(item, key),
                )
            )
    facts.extend(_relation_facts(known, protocol, seed, predicates))
    if protocol != "scene-bench" and scene.intent:
        facts.extend(_numbers(known))
        facts.extend(_exclusion_fact(known, one) for one in scene.intent.exclusions)
        facts.extend(
            Fact(
                id=f"t:{_part(text)}",
                kind="text",
                subject="",
                value=text,
                statement=f'the text "{text}"',
                question=f'Is the text "{text}" written in the image?',
            )
            for text in scene.intent.texts
        )
    return _each_once(facts)


def _each_once(facts: Iterable[Fact]) -> tuple[Fact, ...]:
    """Return ``facts`` without those that were said more than once, whose ids are equal."""
    return tuple({fact.id: fact for fact in facts}.values())


def _numbers(scene: _Scene) -> Iterator[Fact]:
    """Yield a fact for each class whose number is exact: that there are not more of it."""
    first = {item.name: item for item in reversed(scene.graph.objects)}
    for name in dict.fromkeys(item.name for item in scene.graph.objects):
        counting = scene.counting(first[name])
        if counting is None or not counting.exact:
            continue
        number = counting.wanted
        yield Fact(
            id=number_fact_id(name, number),
            kind="count",
            subject=first[name].id,
            key=str(number),
            classes=(name,),
            parents=(_counted(scene, first[name], number),),
            statement=counting.statement,
            question=f"Are there at least {number + 1} {plural(name)} in the image?",
            expected="no",
            counting=counting.model_copy(update={"least": number + 1}),
        )


def _exclusion_fact(scene: _Scene, excluded: Exclusion) -> Fact:
    name = excluded.name
    # One is too many, and judges that know few words know this question.
    question = f"Is there {indefinite(name)} in the image?"
    parents: tuple[str, ...] = ()
    if excluded.of is not None:
        bearer = scene.items[excluded.of]
        referred = scene.referring_phrase(bearer)
        does = "Do" if is_many(bearer.name) and not referred.startswith("one of ") else "Does"
        question = f"{does} {referred} have {indefinite(name)}?"
        parents = (_counted(scene, bearer, 1),)
    return Fact(
        id=f"{number_fact_id(name, 0)}{f':{_part(excluded.of)}' if excluded.of else ''}",
        kind="count",
        subject=excluded.of or "",
        key="0",
        classes=(name,),
        parents=parents,
        statement=excluded.text,
        question=question,
        expected="no",
    )


def wishes_of(scene: SceneGraph) -> tuple[Fact, ...]:
    """Return a fact for each wish of a sentence for the whole picture, but its quality and format.

    Judges with a closed vocabulary are not asked them.
    """
    asked = (one for one in scene.intent.globals if one.kind not in ("quality", "aspect"))
    return _each_once(
        Fact(
            id=wish_id(one.kind, one.text),
            kind="wish",
            subject="",
            key=one.kind,
            value=one.text,
            statement=one.text,
            question=wish_question(one),
        )
        for one in asked
    )


def realism_facts_of(scene: SceneGraph) -> tuple[Fact, ...]:
    """Return two facts per object: that its shape, and that its texture, looks real.

    Each depends on the object being there. They are not facts of the scene: they go along with
    those of :func:`facts_of` where realism is wanted, after them. The aspects are those of OcR
    (object-centric realism, Sec. 3.2). Objects that no words tell apart are asked for
    by size, the largest first, so that no two objects share a question.
    """
    known = _Scene(scene)
    phrases: dict[str, list[str]] = {}
    for item in scene.objects:
        phrases.setdefault(noun_phrase(item), []).append(item.id)
    referred: dict[str, str] = {}
    for item in scene.objects:
        same = phrases[phrase := noun_phrase(item)]
        number = same.index(item.id) + 1
        by_size = f"the {phrase} that is number {number} of {len(same)} by size"
        referred[item.id] = known.referring_phrase(item) if len(same) == 1 else by_size
    return tuple(
        Fact(
            id=realism_fact_id(item.id, aspect),
            kind="realism",
            subject=item.id,
            key=aspect,
            value=item.name,
            classes=(item.name,),
            parents=(object_fact_id(item.id),),
            statement=f"{noun_phrase(item)}{_LOOKS_REAL.format(aspect)}",
            question=(
                f"Does {referred[item.id]} have realistic {_ASPECT_WORDS[aspect]}, as in a photo?"
            ),
        )
        for item in scene.objects
        for aspect in ASPECTS
    )


def nothing_else_question(things: Iterable[tuple[str, int]]) -> str:
    """Return the question for anything beside ``things`` (class, number); expected is no.

    >>> nothing_else_question([("dog", 1), ("cat", 2)])
    'Besides a dog and 2 cats, is there anything else in the image?'
    """
    asked = (
        indefinite(name) if number == 1 else f"{number} {plural(name)}" for name, number in things
    )
    return f"Besides {listed(asked)}, is there anything else in the image?"


def soundness_facts_of(scene: SceneGraph) -> tuple[Fact, ...]:
    """Return the facts that no object is malformed, and that nothing is there unasked.

    None of a scene without objects.
    They are not facts of the scene: no score counts them, and nothing depends on them.
    """
    things = Counter(item.name for item in scene.objects)
    questions = (ALL_WHOLE, nothing_else_question(things.items())) if things else ()
    return tuple(
        Fact(
            id=id_,
            kind="soundness",
            subject="",
            classes=() if id_ == WELL_FORMED else tuple(things),
            statement=statement,
            question=question,
            expected="yes" if id_ == WELL_FORMED else "no",
        )
        for (id_, statement), question in zip(SOUNDNESS.items(), questions, strict=False)
    )


def object_in_words(fact: Fact) -> str:
    """Return the object of a fact of realism with all its attributes: ``red dog``."""
    return fact.statement.removesuffix(_LOOKS_REAL.format(fact.key))
