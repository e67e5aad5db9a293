"""Sentences that people read instead of triplets and ids: facts, relations and scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from scenewright.core.facts import Fact
from scenewright.core.inflection import is_plural, plural, third_person, verb_base
from scenewright.core.questions import (
    Protocol,
    article,
    attribute_fact_id,
    distinguishing_keys,
    instance_order,
    noun_phrase,
    object_fact_id,
    option_text,
    relation_fact_id,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, without_be

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


_STATES = {"belongs": "belong", "consists": "consist", "owns": "own", "resembles": "resemble"}
"""Verbs that are in no list of actions, in the form in which scenes have them."""


def verb_phrase(predicate: str, many: bool = False) -> str:
    """Return ``predicate`` as the verb of a sentence; ``many``: its subject is plural.

    >>> verb_phrase("left of"), verb_phrase("wear"), verb_phrase("belongs to", many=True)
    ('is left of', 'is wearing', 'belong to')
    """
    words = without_be(predicate)
    first, *rest = words
    base = verb_base(first.casefold()) or _STATES.get(first.casefold())
    if base == "have" or option_text(predicate) == "has":
        return " ".join(["have" if many else "has", *(rest if base == "have" else ())])
    if base is not None and first.casefold() == third_person(base):
        return " ".join([base if many else first, *rest])
    text, full = option_text(predicate), canonical(predicate)
    # "left" alone says no place.
    text = full if full.startswith(f"{text} ") else text
    return f"{'are' if many else 'is'} {text}"


def there_is(phrase: str, count: int = 1) -> str:
    """Return that ``phrase`` is there, or that there are at least ``count`` of it.

    >>> there_is("owl"), there_is("red dog", 2), there_is("scissors")
    ('There is an owl.', 'There are at least two red dogs.', 'There are scissors.')
    """
    if count > 1:
        shown = _NUMBERS[count] if count < len(_NUMBERS) else str(count)
        return f"There are at least {shown} {plural(phrase)}."
    return f"There are {phrase}." if is_plural(phrase) else f"There is {article(phrase)} {phrase}."


def relation_parts(scene: SceneGraph, relation: Relation) -> tuple[str, str, str]:
    """Return subject, verb and object of a relation by class label: the dog, is left of, the ball.

    For pages that mark the two things in the picture; two of one class are the dog and the other
    dog.
    """
    source, target = scene.object(relation.source), scene.object(relation.target)
    other = "the other" if source.name == target.name else "the"
    verb = verb_phrase(relation.predicate, is_plural(source.name))
    return f"the {source.name}", verb, f"{other} {target.name}"


def fact_sentences(scene: SceneGraph, protocol: Protocol = "grounded") -> dict[str, str]:
    """Return a sentence for each fact of ``scene`` by its id.

    Several instances of a class are counted and told apart as the questions of ``grounded`` do; in
    ``scene-bench`` they are meant by their label alone.
    """
    grounded = protocol == "grounded"
    order = {
        name: instance_order(scene, name)
        for name in dict.fromkeys(item.name for item in scene.objects)
    }
    found: dict[str, str] = {}
    for item in scene.objects:
        place = order[item.name].index(item.id) + 1 if grounded else 1
        found[object_fact_id(item.id)] = there_is(item.name, place)
    for name, ids in order.items():
        same: Counter[tuple[str, str]] = Counter()
        for item in map(scene.object, ids):
            for key, value in item.attributes.items():
                same[key, value] += 1
                alone = not grounded or len(ids) == 1
                be = "are" if is_plural(name) else "is"
                found[attribute_fact_id(item.id, key)] = (
                    f"The {name} {be} {value}."
                    if alone
                    else there_is(noun_phrase(item, (key,)), same[key, value])
                )
    for relation in scene.relations:
        ends = (scene.object(relation.source), scene.object(relation.target))
        first, second = (_meant(scene, item, grounded) for item in ends)
        many = is_plural(ends[0].name) and not first.startswith("one of ")
        verb = verb_phrase(relation.predicate, many)
        found[relation_fact_id(relation)] = f"{first[0].upper()}{first[1:]} {verb} {second}."
    return found


def _meant(scene: SceneGraph, item: SceneObject, grounded: bool) -> str:
    if not grounded:
        return f"the {item.name}"
    keys = distinguishing_keys(scene, item)
    if keys is None:
        return f"one of the {plural(noun_phrase(item))}"
    return f"the {noun_phrase(item, keys)}"


def worded_facts(facts: Sequence[Fact], scene: SceneGraph | None) -> tuple[Fact, ...]:
    """Return ``facts`` with statements that are sentences.

    Facts that are not those of ``scene``, as questions that a data set brings, state their question
    and, where it is not yes, the answer to it.
    """
    protocol: Protocol = "grounded" if any(fact.parents for fact in facts) else "scene-bench"
    known = {} if scene is None else fact_sentences(scene, protocol)
    return tuple(fact.model_copy(update={"statement": _statement(fact, known)}) for fact in facts)


def _statement(fact: Fact, known: Mapping[str, str]) -> str:
    if fact.id in known:
        return known[fact.id]
    if fact.expected == "yes":
        return fact.question
    return f"{fact.question} – {fact.expected}"


def scene_sentences(scene: SceneGraph) -> tuple[str, ...]:
    """Return each relation as a sentence, then every object that stands in none."""
    found = []
    for relation in scene.relations:
        ends = (scene.object(relation.source), scene.object(relation.target))
        first, second = (_one(noun_phrase(item)) for item in ends)
        verb = verb_phrase(relation.predicate, is_plural(ends[0].name))
        found.append(f"{first[0].upper()}{first[1:]} {verb} {second}.")
    related = {end for one in scene.relations for end in (one.source, one.target)}
    found += [there_is(noun_phrase(item)) for item in scene.objects if item.id not in related]
    return tuple(found)


def _one(phrase: str) -> str:
    return phrase if is_plural(phrase) else f"{article(phrase)} {phrase}"
