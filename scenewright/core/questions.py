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
import random
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple

from scenewright.core.english import (
    ONE,
    SIDES,
    article,
    attribute_question,
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
from scenewright.core.inflection import plural
from scenewright.core.intent import Exclusion
from scenewright.core.predicate_statistics import DEFAULT, PredicateStatistics, load_predicates
from scenewright.core.referring import (
    ReferringPhrases,
    noun_phrase,
    option_text,
    relation_statement,
)
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import canonical, turned
from scenewright.core.wishes import wish_question

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


class RelationOptions(NamedTuple):
    """Options of a relation question."""

    offered: tuple[str, ...]
    """The options in their order, the last one :data:`NO_RELATION`."""
    guessable: bool
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


def _counting(
    scene: ReferringPhrases, item: SceneObject, key: str | None = None
) -> Counting | None:
    """Return how the facts of a class, or of those with a value of ``key``, are counted.

    None where one fact says it all.
    """
    if key is None:
        least, wanted = scene.places[item.id], len(scene.orders[item.name])
        exact = item.name in scene.exact
    else:
        least, exact = scene.sharing[item.id, key], False
        wanted = scene.alike[item.name, key, item.attributes[key]]
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


def _counted(scene: ReferringPhrases, item: SceneObject, count: int) -> str:
    """Return id of the fact that there are at least ``count`` objects of the class of ``item``."""
    return object_fact_id(scene.orders[item.name][count - 1])


def _object_question(
    scene: ReferringPhrases, item: SceneObject, protocol: Protocol
) -> tuple[str, str]:
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


def _is_there(scene: ReferringPhrases, item: SceneObject, key: str | None = None) -> str:
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


def _attribute_question(
    scene: ReferringPhrases, item: SceneObject, key: str, protocol: Protocol
) -> str:
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
    scene: ReferringPhrases, protocol: Protocol, seed: int, predicates: PredicateStatistics | None
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


def _numbered(scene: ReferringPhrases, facts: Sequence[Fact]) -> Iterator[Fact]:
    """Yield relations that no words tell apart as yes/no questions about how many there are.

    The i-th source has its j-th target: at least i of the dogs are next to at least j of the
    trees. Sources with most targets come first, so that each number includes those below it.
    """
    targets: dict[str, list[str]] = defaultdict(list)
    for fact in facts:
        if fact.target not in targets[fact.subject]:
            targets[fact.subject].append(str(fact.target))
    sources = sorted(targets, key=lambda source: -len(targets[source]))
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
            "guessable": False,
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
    scene: ReferringPhrases,
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
        scene.holding(source, target, protocol == "grounded"),
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
        guessable=options.guessable,
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
    known = ReferringPhrases(scene, taught=predicates is not None and bool(predicates.fixed))
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
                counting=None if protocol == "scene-bench" else _counting(known, item),
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
                    counting=None if protocol == "scene-bench" else _counting(known, item, key),
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


def _numbers(scene: ReferringPhrases) -> Iterator[Fact]:
    """Yield a fact for each class whose number is exact: that there are not more of it."""
    first = {item.name: item for item in reversed(scene.graph.objects)}
    for name in dict.fromkeys(item.name for item in scene.graph.objects):
        counting = _counting(scene, first[name])
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


def _exclusion_fact(scene: ReferringPhrases, excluded: Exclusion) -> Fact:
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
    known = ReferringPhrases(scene)
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
            classes=tuple(things),
            statement=statement,
            question=question,
            expected="yes" if id_ == WELL_FORMED else "no",
        )
        for (id_, statement), question in zip(SOUNDNESS.items(), questions, strict=False)
    )


def object_in_words(fact: Fact) -> str:
    """Return the object of a fact of realism with all its attributes: ``red dog``."""
    return fact.statement.removesuffix(_LOOKS_REAL.format(fact.key))
