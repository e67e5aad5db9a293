"""Sentences that people read instead of triplets and ids: facts, relations and scenes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from scenewright.core.english import (
    article,
    described,
    is_many,
    is_mass,
    predicative,
    takes_article,
)
from scenewright.core.facts import Fact
from scenewright.core.inflection import is_plural, plural, third_person, verb_base
from scenewright.core.questions import Protocol, attribute_fact_id, object_fact_id, relation_fact_id
from scenewright.core.referring import (
    distinguishing_keys,
    instance_order,
    keys_of_one,
    noun_phrase,
    option_text,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, without_be
from scenewright.core.wording import Names

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
        return f"There are at least {_number(count)} {plural(phrase)}."
    return f"There are {phrase}." if is_plural(phrase) else f"There is {article(phrase)} {phrase}."


def _number(count: int) -> str:
    return _NUMBERS[count] if count < len(_NUMBERS) else str(count)


def _existence_sentence(item: SceneObject, proper: bool, *keys: str) -> str:
    """Return that an object is there, with its values of ``keys``."""
    phrase = noun_phrase(item, keys)
    return f"There {'are' if is_many(item.name) else 'is'} {_with_article(item, phrase, proper)}."


def _with_article(item: SceneObject, phrase: str, proper: bool = False) -> str:
    bare = is_many(item.name) or is_mass(item.name) or not takes_article(item.name, proper)
    return phrase if bare else f"{article(phrase)} {phrase}"


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
    names = Names(scene)
    for item in scene.objects:
        place = order[item.name].index(item.id) + 1 if grounded else 1
        proper = names.is_proper(item.name)
        found[object_fact_id(item.id)] = (
            there_is(item.name, place) if place > 1 else _existence_sentence(item, proper)
        )
    for name, ids in order.items():
        same: Counter[tuple[str, str]] = Counter()
        for item in map(scene.object, ids):
            for key, value in item.attributes.items():
                same[key, value] += 1
                alone = not grounded or len(ids) == 1
                number = same[key, value]
                if alone:
                    said = _value_sentence(item, key, names.is_proper(name))
                elif number == 1:
                    said = _existence_sentence(item, False, key)
                else:
                    several = noun_phrase(item, (key,), many=True)
                    said = f"There are at least {_number(number)} {several}."
                found[attribute_fact_id(item.id, key)] = said
    told: Counter[str] = Counter()
    for relation in scene.relations:
        ends = (scene.object(relation.source), scene.object(relation.target))
        first, second = (_meant(scene, item, grounded) for item in ends)
        of_many = first.startswith("one of ")
        verb = verb_phrase(relation.predicate, is_plural(ends[0].name) and not of_many)
        said = f"{first} {verb} {second}"
        told[said] += 1
        if grounded and told[said] > 1:
            # Alike relations are counted, as their questions are.
            least = f"at least {_number(told[said])} of "
            if of_many:
                verb = verb_phrase(relation.predicate, True)
                said = f"{least}{first.removeprefix('one of ')} {verb} {second}"
            else:
                said = f"{first} {verb} {least}{second.removeprefix('one of ')}"
        found[relation_fact_id(relation)] = f"{said[0].upper()}{said[1:]}."
    return found


def _value_sentence(item: SceneObject, key: str, proper: bool) -> str:
    """Return that the only object of its label has its value of ``key``."""
    name = item.name if not takes_article(item.name, proper) else f"the {item.name}"
    many = is_many(item.name) and not proper
    value = item.attributes[key]
    if described(item, (key,)).texts:
        said = f'{"say" if many else "says"} "{value}"'
    else:
        said = f"{'are' if many else 'is'} {predicative(key, value, many)}"
    return f"{name[0].upper()}{name[1:]} {said}."


def _meant(scene: SceneGraph, item: SceneObject, grounded: bool) -> str:
    if not grounded:
        return f"the {item.name}"
    keys = distinguishing_keys(scene, item)
    if keys is None:
        return f"one of the {noun_phrase(item, keys_of_one(scene, item), many=True)}"
    return f"the {noun_phrase(item, keys)}"


def worded_facts(facts: Sequence[Fact], scene: SceneGraph | None) -> tuple[Fact, ...]:
    """Return ``facts`` with statements that are sentences.

    Facts that are not those of ``scene``, as questions that a data set brings, state their question
    and, where it is not yes, the answer to it.
    """
    protocol: Protocol = "scene-bench"
    if any(fact.parents or fact.counts for fact in facts):
        protocol = "grounded"
    known = {} if scene is None else fact_sentences(scene, protocol)
    if scene is not None:
        beside = (fact for fact in facts if fact.kind in ("count", "text", "wish"))
        known |= {fact.id: said for fact in beside if (said := _beside_sentence(fact, scene))}
    worded = []
    for fact in facts:
        answer = "" if fact.expected == "yes" else f" – {fact.expected}"
        statement = known.get(fact.id, f"{fact.question}{answer}")
        worded.append(fact.model_copy(update={"statement": statement}))
    return tuple(worded)


def _beside_sentence(fact: Fact, scene: SceneGraph) -> str:
    """Return what was said beside the graph as a sentence; empty of a set's own question."""
    if fact.kind == "text" and fact.value:
        return f'The text "{fact.value}" is written in the picture.'
    if fact.kind == "wish" and fact.value:
        return f'"{fact.value}" describes the picture.'
    if fact.kind != "count" or not fact.classes or not (fact.key or "").isdecimal():
        return ""
    name, number = fact.classes[0], int(fact.key or 0)
    if number:
        noun = name if number == 1 else plural(name)
        return f"There {'is' if number == 1 else 'are'} exactly {_number(number)} {noun}."
    if fact.subject in scene:
        bearer = _meant(scene, scene.object(fact.subject), grounded=True)
        return f"{bearer[0].upper()}{bearer[1:]} has no {name}."
    return f"There {'are' if is_plural(name) else 'is'} no {name}."


def scene_sentences(scene: SceneGraph) -> tuple[str, ...]:
    """Return each relation as a sentence, then every object that stands in none."""
    found = []
    for relation in scene.relations:
        ends = (scene.object(relation.source), scene.object(relation.target))
        # What an object does is told by its relation.
        names = (" ".join([*described(item).before, item.name]) for item in ends)
        first, second = (_with_article(*end) for end in zip(ends, names, strict=True))
        verb = verb_phrase(relation.predicate, is_plural(ends[0].name))
        found.append(f"{first[0].upper()}{first[1:]} {verb} {second}.")
    related = {end for one in scene.relations for end in (one.source, one.target)}
    found += [
        _existence_sentence(item, False, *item.attributes)
        for item in scene.objects
        if item.id not in related
    ]
    return tuple(found)
