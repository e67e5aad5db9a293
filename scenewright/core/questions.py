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

Two rules of ``grounded`` keep one error from becoming several. A judge that sees no relationship
between objects that a question describes by attributes is asked once more by class label
(:attr:`Fact.by_label`): a wrong colour is an attribute's fact. An object of which the panel is
unsure is asked on about, and is there if what is found shows it
(:func:`scenewright.core.facts.settled`).
"""

from __future__ import annotations

import hashlib
import itertools
import random
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from scenewright.core.facts import ASPECTS, Fact, FactError, RealismAspect
from scenewright.core.inflection import ing_form, plural, verb_base
from scenewright.core.predicate_statistics import DEFAULT, PredicateStatistics, load_predicates
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, converse, turned, without_be

Protocol = Literal["scene-bench", "grounded"]
PROTOCOLS: tuple[Protocol, ...] = ("scene-bench", "grounded")
NO_RELATION = "no visible relationship"

_ASPECT_WORDS: dict[RealismAspect, str] = {
    "shape": "shape and structure",
    "texture": "texture, color and shade",
}
"""How OcR's prompts name the aspects (Liang et al., Sec. 4.1)."""
_LOOKS_REAL = " has a realistic {}"

_SOUNDS_LIKE_YOU = re.compile(
    r"uni(?!n|m)|us[aeiu]|ut[ei]|eu|ewe|one\b|once\b|ukulele", re.IGNORECASE
)
_SILENT_H = re.compile(r"hour|honest|honou?r|heir", re.IGNORECASE)


def article(phrase: str) -> str:
    """Return ``a`` or ``an``, by the sound ``phrase`` begins with."""
    if _SILENT_H.match(phrase):
        return "an"
    vowel = phrase[:1].lower() in ("a", "e", "i", "o", "u")
    return "an" if vowel and not _SOUNDS_LIKE_YOU.match(phrase) else "a"


def noun_phrase(item: SceneObject, keys: Iterable[str] | None = None) -> str:
    """Return the object with attribute values before the class label: ``red metal box``.

    ``keys`` selects attributes (None: all). Values that the label or another key repeats are left
    out.
    """
    wanted = None if keys is None else set(keys)
    said = set(item.name.casefold().split())
    words: list[str] = []
    for key, value in item.attributes.items():
        if (wanted is None or key in wanted) and value.casefold() not in said:
            said.add(value.casefold())
            words.append(value)
    return " ".join([*words, item.name])


def distinguishing_keys(scene: SceneGraph, item: SceneObject) -> tuple[str, ...] | None:
    """Return the smallest attribute set whose values no other instance of the class has.

    Sizes 0, 1, 2, … in key order. None if no set of attributes tells ``item`` apart.
    Values count without their keys and without case, for the phrase shows only them:
    ``the red dog`` is not a name where one dog is red and another's collar is.
    """
    rivals = [
        {value.casefold() for value in o.attributes.values()}
        for o in scene.objects
        if o.name == item.name and o.id != item.id
    ]
    keys = tuple(item.attributes)
    for size in range(len(keys) + 1):
        for subset in itertools.combinations(keys, size):
            values = {item.attributes[key].casefold() for key in subset}
            if not any(values <= rival for rival in rivals):
                return subset
    return None


def _referring_phrase(scene: SceneGraph, item: SceneObject) -> str:
    keys = distinguishing_keys(scene, item)
    if keys is None:
        return f"one of the {plural(noun_phrase(item))}"
    return f"the {noun_phrase(item, keys)}"


def _told_by_attributes(scene: SceneGraph, item: SceneObject) -> bool:
    """Whether :func:`_referring_phrase` names attributes of ``item``."""
    keys = distinguishing_keys(scene, item)
    return noun_phrase(item, keys) != item.name


def _rng(*parts: object) -> random.Random:
    text = "\x1f".join(str(part) for part in parts)
    return random.Random(hashlib.sha256(text.encode()).digest())


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


def _wrong_text(predicate: str, wrong: str) -> str:
    """Return ``wrong`` worded like the asked ``predicate``: on the left of → on the right of."""
    said = turned(predicate)
    return said if canonical(said) == wrong else option_text(wrong)


def relation_options(
    predicate: str,
    shuffle_key: tuple[object, ...],
    classes: tuple[str, str],
    holding: Collection[str] = (),
    predicates: PredicateStatistics | None = None,
) -> tuple[str, ...]:
    """Return the options of a relation question.

    They are three predicates, the asked one among them, then the paper's last option,
    :data:`NO_RELATION`. ``classes`` are the labels of source and target, ``holding`` predicates
    that hold of them as well and so are not wrong options. ``shuffle_key`` decides the order.
    ``predicates`` are the statistics behind wrong options (default: ``general``). Source:
    Scene-Bench, Sec. 3.2.
    """
    rng = _rng(*shuffle_key, predicate)
    known = predicates if predicates is not None else load_predicates()
    wrong = known.wrong_options(classes[0], predicate, classes[1], rng, holding)
    offered = [option_text(predicate), *(_wrong_text(predicate, other) for other in wrong)]
    rng.shuffle(offered)
    return (*offered, NO_RELATION)


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


def instance_order(scene: SceneGraph, name: str) -> tuple[str, ...]:
    """Return the ids of a class's objects in counting order.

    Those with most relations, then attributes, are first.
    """
    ends = [end for relation in scene.relations for end in (relation.source, relation.target)]
    same = [item for item in scene.objects if item.name == name]
    same.sort(key=lambda item: (-ends.count(item.id), -len(item.attributes)))
    return tuple(item.id for item in same)


def _counted(scene: SceneGraph, item: SceneObject, count: int) -> str:
    """Return id of the fact that there are at least ``count`` objects of the class of ``item``."""
    return object_fact_id(instance_order(scene, item.name)[count - 1])


def _object_question(scene: SceneGraph, item: SceneObject, protocol: Protocol) -> tuple[str, str]:
    """Return the question, and the statement for people."""
    ordinal = instance_order(scene, item.name).index(item.id) + 1
    if protocol == "scene-bench" or ordinal == 1:
        return f"Is there {article(item.name)} {item.name} in the image?", item.name
    return (
        f"Are there at least {ordinal} {plural(item.name)} in the image?",
        f"{item.name} (number {ordinal})",
    )


def _sharing(scene: SceneGraph, item: SceneObject, key: str) -> int:
    """Return the position, from 1, of ``item`` in its class among equal values of ``key``."""
    items = {one.id: one for one in scene.objects}
    order = instance_order(scene, item.name)
    same = [one for one in order if items[one].attributes.get(key) == item.attributes[key]]
    return same.index(item.id) + 1


def _attribute_question(scene: SceneGraph, item: SceneObject, key: str, protocol: Protocol) -> str:
    value = item.attributes[key]
    same = [o for o in scene.objects if o.name == item.name]
    if protocol == "scene-bench" or len(same) == 1:
        return f"Is the {item.name} {value}?"
    ordinal = _sharing(scene, item, key)
    phrase = noun_phrase(item, (key,))
    if ordinal == 1:
        return f"Is there {article(phrase)} {phrase} in the image?"
    return f"Are there at least {ordinal} {plural(phrase)} in the image?"


def _meant(scene: SceneGraph, item: SceneObject, protocol: Protocol) -> set[str]:
    """Return ids of the objects that the question's words for ``item`` may mean."""
    same = {other.id for other in scene.objects if other.name == item.name}
    told_apart = protocol == "grounded" and distinguishing_keys(scene, item) is not None
    return {item.id} if told_apart else same


def _holding(
    scene: SceneGraph, source: SceneObject, target: SceneObject, protocol: Protocol
) -> list[str]:
    """Return the predicates that hold between the source and target of a question."""
    ones, others = _meant(scene, source, protocol), _meant(scene, target, protocol)
    found = [r.predicate for r in scene.relations if r.source in ones and r.target in others]
    # It is unknown whether a target looks back at its source, so that is not a wrong option.
    turned = (
        converse(r.predicate) or r.predicate
        for r in scene.relations
        if r.source in others and r.target in ones
    )
    return list(dict.fromkeys([*found, *turned]))


def _relation_question(first: str, second: str) -> str:
    return f"What is the relationship between {first} and {second} in the image?"


def _relation_fact(
    scene: SceneGraph,
    relation: Relation,
    items: Mapping[str, SceneObject],
    protocol: Protocol,
    seed: int,
    predicates: PredicateStatistics | None,
) -> Fact:
    source, target = items[relation.source], items[relation.target]
    if relation.predicate.casefold() == NO_RELATION:
        raise FactError(
            f"'{relation}' asks for no relation, which no question can confirm: remove it"
        )
    if protocol == "scene-bench":
        first, second = f"the {source.name}", f"the {target.name}"
        shuffle_key: tuple[object, ...] = (source.name, target.name)
    else:
        first, second = _referring_phrase(scene, source), _referring_phrase(scene, target)
        shuffle_key = (seed, relation.source, relation.target)
    parents: tuple[str, ...] = ()
    by_label = ""
    if protocol != "scene-bench":
        if any(_told_by_attributes(scene, item) for item in (source, target)):
            by_label = _relation_question(f"the {source.name}", f"the {target.name}")
        # Both ends of one class need two of it.
        counts = (1, 2) if source.name == target.name else (1, 1)
        ends = zip((source, target), counts, strict=True)
        parents = tuple(_counted(scene, item, count) for item, count in ends)
    return Fact(
        id=relation_fact_id(relation),
        kind="relation",
        subject=source.id,
        target=target.id,
        predicate=relation.predicate,
        classes=(source.name, target.name),
        parents=parents,
        statement=f"{noun_phrase(source)} {relation.predicate} {noun_phrase(target)}",
        question=_relation_question(first, second),
        by_label=by_label,
        options=relation_options(
            relation.predicate,
            shuffle_key,
            (source.name, target.name),
            _holding(scene, source, target, protocol),
            predicates,
        ),
        expected=option_text(relation.predicate),
    )


@dataclass(frozen=True, slots=True)
class QuestionForm:
    """How a scene is asked about; equal scenes and forms give equal facts."""

    protocol: Protocol = "grounded"
    """Question protocol: the paper's or ours."""
    predicates: str | PredicateStatistics = DEFAULT
    """Source of wrong options: a name or file of :func:`load_predicates`, or counts."""
    realism: bool = False
    """Whether facts of realism follow those of the scene."""

    def facts(self, scene: SceneGraph) -> tuple[Fact, ...]:
        """Return the facts of ``scene``; raises what :func:`facts_of` raises."""
        return _facts_in(scene, self)


# Every node of a loop needs the facts of its scene.
@lru_cache(maxsize=64)
def _facts_in(scene: SceneGraph, form: QuestionForm) -> tuple[Fact, ...]:
    known = form.predicates
    if isinstance(known, str):
        known = load_predicates(known)
    stated = facts_of(scene, form.protocol, predicates=known)
    return (*stated, *realism_facts_of(scene)) if form.realism else stated


def facts_of(
    scene: SceneGraph,
    protocol: Protocol = "grounded",
    seed: int = 0,
    predicates: PredicateStatistics | None = None,
) -> tuple[Fact, ...]:
    """Return all facts of ``scene``: objects, then attributes, then relations, in its order.

    Deterministic in its arguments; ``seed`` orders the options of the ``grounded`` protocol,
    ``predicates`` says where wrong options come from (default: ``general``). Source: Scene-Bench
    Sec. 3.2. Raises ``ValueError`` for an unknown protocol and ``FactError`` for a relation that
    says "no visible relationship".
    """
    if protocol not in PROTOCOLS:
        raise ValueError(f"unknown protocol {protocol!r}: use one of {', '.join(PROTOCOLS)}")
    facts: list[Fact] = []
    for item in scene.objects:
        question, statement = _object_question(scene, item, protocol)
        order = instance_order(scene, item.name)
        counts = protocol != "scene-bench" and len(order) > 1
        facts.append(
            Fact(
                id=object_fact_id(item.id),
                kind="object",
                subject=item.id,
                key=str(order.index(item.id) + 1) if counts else None,
                classes=(item.name,),
                statement=statement,
                question=question,
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
                        else (_counted(scene, item, _sharing(scene, item, key)),)
                    ),
                    statement=f"{item.name} is {value}",
                    question=_attribute_question(scene, item, key, protocol),
                )
            )
    items = {item.id: item for item in scene.objects}
    facts.extend(
        _relation_fact(scene, r, items, protocol, seed, predicates) for r in scene.relations
    )
    return tuple(facts)


def realism_facts_of(scene: SceneGraph) -> tuple[Fact, ...]:
    """Return two facts per object: that its shape, and that its texture, looks real.

    Each depends on the object being there. They are not facts of the scene: they go along with
    those of :func:`facts_of` where realism is wanted, after them. The aspects are those of OcR
    (object-centric realism, Sec. 3.2). Objects that no words tell apart are asked for
    by size, the largest first, so that no two objects share a question.
    """
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
                f"Does {_one_of_size(scene, item)} have realistic {_ASPECT_WORDS[aspect]}, "
                "as in a photo?"
            ),
        )
        for item in scene.objects
        for aspect in ASPECTS
    )


def object_in_words(fact: Fact) -> str:
    """Return the object of a fact of realism with all its attributes: ``red dog``."""
    return fact.statement.removesuffix(_LOOKS_REAL.format(fact.key))


def _one_of_size(scene: SceneGraph, item: SceneObject) -> str:
    phrase = noun_phrase(item)
    same = [other.id for other in scene.objects if noun_phrase(other) == phrase]
    if len(same) == 1:
        return _referring_phrase(scene, item)
    return f"the {phrase} that is number {same.index(item.id) + 1} of {len(same)} by size"
