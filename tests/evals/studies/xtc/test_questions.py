"""Questions of a scene: each is about one fact, names one object and gives no answer away."""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.formats import load_scene
from scenewright.core.questions import attribute_fact_id, facts_of, object_fact_id, relation_fact_id
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets import dsg
from scenewright.evals.studies.xtc.base import QUESTION_KINDS, Question, QuestionSheet, XtcError
from scenewright.evals.studies.xtc.questions import object_phrase, questions_of, retrieval_text

DATA = Path(__file__).resolve().parents[5] / "shared" / "data"
LABELS = ("car", "dog", "orange")
KEYS = ("color", "size", "state", "upper clothing type/color", "breed")
VALUES = (
    *("red", "dark red", "reddish", "big", "Big red", "parked", "orange", "leaning on a wall"),
    *("wooden", "yes", "unknown", "12", "on", "holding"),
)
PREDICATES = ("on", "left of", "holding", "riding", "parked on", "has")


def graph(text: str) -> SceneGraph:
    return load_scene(text, format="triplets")


def texts(sheet: QuestionSheet) -> list[str]:
    return [question.text for question in sheet.questions]


def by_fact(scene: SceneGraph) -> dict[str, Question | str]:
    """The question for each fact, or why there is none."""
    sheet = questions_of(scene)
    found: dict[str, Question | str] = {item.fact: item.reason for item in sheet.unasked}
    return found | {fact: question for question in sheet.questions for fact in question.facts}


def asked(scene: SceneGraph, fact: str) -> Question | str:
    return by_fact(scene)[fact]


def said(scene: SceneGraph, fact: str) -> str:
    found = asked(scene, fact)
    return found.text if isinstance(found, Question) else found


CARS = graph(
    "car.1 [color=red, state=parked]; car.2 [color=red, state=moving];"
    "car.3 [color=blue, state=parked]; person.1 left of car.1; person.1 holding ball.1"
)


def test_the_forms_of_the_paper() -> None:
    assert said(CARS, "a:car.3:color") == "no attributes tell car.3 from car.1"
    assert said(CARS, "a:car.3:state") == "What is the state of the blue car?"
    assert said(CARS, "o:car.1") == "What object is red and parked?"
    relation = asked(CARS, "r:person.1|left of|car.1")
    assert isinstance(relation, Question)
    assert (
        relation.text
        == "What is the spatial position of the person relative to the parked red car?"
    )
    assert relation.answer == "left of"
    assert relation.phrases == ("person", "parked red car")
    assert said(CARS, "r:person.1|holding|ball.1") == "What is the person doing with the ball?"


def test_questions_name_what_they_are_about() -> None:
    sheet = questions_of(CARS)
    by_id = {question.id: question for question in sheet.questions}
    assert by_id["attribute:car.3:state"].key == "state"
    assert by_id["retrieval:car.2"].phrases == ("moving",)
    assert by_id["retrieval:car.2"].answer == "car"
    edge = by_id["relation:person.1|car.1"]
    assert (edge.subject, edge.target, edge.predicates) == ("person.1", "car.1", ("left of",))


def test_parallel_edges_are_one_question() -> None:
    scene = graph("dog.1 on mat.1; mat.1 under dog.1; dog.1 near mat.1; dog.1 biting mat.1")
    there, back = questions_of(scene).questions
    assert there.facts == (*("r:dog.1|on|mat.1", "r:dog.1|near|mat.1", "r:dog.1|biting|mat.1"),)
    assert there.answer == "on and near and biting"
    assert there.text == "What is the relationship between the dog and the mat?"
    assert back.text == "What is the spatial position of the mat relative to the dog?"


def test_an_object_is_named_without_what_is_asked_for() -> None:
    scene = graph("dog.1 [color=red, size=big]; dog.2 [color=blue, size=small]")
    assert texts(questions_of(scene))[:4] == [
        "What is the color of the big dog?",
        "What is the size of the red dog?",
        "What is the color of the small dog?",
        "What is the size of the blue dog?",
    ]


@pytest.mark.parametrize(
    ("one", "other"), [("red", "dark red"), ("red", "REDDISH"), ("light blue", "Light green")]
)
def test_values_that_share_a_word_or_a_part_tell_nothing_apart(one: str, other: str) -> None:
    scene = SceneGraph(
        objects=tuple(
            SceneObject(
                id=f"dog.{at}", name="dog", attributes=Attributes({"color": color, "size": size})
            )
            for at, (color, size) in enumerate([(one, "big"), (other, "big")], 1)
        )
    )
    assert said(scene, "a:dog.1:size") == "no attributes tell dog.1 from dog.2"
    assert said(scene, "o:dog.2") == "no attributes tell dog.2 from dog.1"


def test_a_retrieval_looks_at_every_class() -> None:
    scene = graph("dog.1 [color=red, size=big]; cat.1 [color=red, size=tiny]; ball.1")
    assert said(scene, "o:dog.1") == "What object is big?"
    assert said(scene, "o:cat.1") == "What object is tiny?"
    assert said(scene, "o:ball.1") == "ball.1 has no attributes to ask by"


def test_a_compound_competes_for_its_head() -> None:
    scene = graph("car.1 [color=red]; police car.1 [color=blue]; dog.1 near car.1")
    assert said(scene, "r:dog.1|near|car.1").endswith("relative to the red car?")
    assert said(scene, "a:car.1:color") == "no attributes tell car.1 from police car.1"
    assert said(scene, "a:police car.1:color") == "What is the color of the police car?"
    hot = graph("dog.1 [color=red]; hot dog.1 [color=blue]")
    assert said(hot, "a:dog.1:color") == "What is the color of the dog?"


def test_what_the_label_says_is_not_asked() -> None:
    orange = SceneObject(id="orange.1", name="orange", attributes=Attributes({"color": "orange"}))
    assert said(SceneGraph(objects=(orange,)), "a:orange.1:color") == (
        "the label 'orange' says 'orange' already"
    )
    assert said(SceneGraph(objects=(orange,)), "o:orange.1") == (
        "no attribute of orange.1 can be asked by"
    )


def test_a_relation_that_says_there_is_none_is_refused() -> None:
    scene = SceneGraph(
        objects=(SceneObject(id="a", name="dog"), SceneObject(id="b", name="cat")),
        relations=(Relation(source="a", predicate="No visible relationship", target="b"),),
    )
    with pytest.raises(XtcError, match="remove it"):
        questions_of(scene)


def test_separators_in_ids_do_not_make_two_questions_one() -> None:
    def named(*ids: str) -> tuple[SceneObject, ...]:
        return tuple(SceneObject(id=id_, name=f"thing {at}") for at, id_ in enumerate(ids))

    objects = named("a|b", "c", "a", "b|c")
    scene = SceneGraph(
        objects=objects,
        relations=(
            Relation(source="a|b", predicate="near", target="c"),
            Relation(source="a", predicate="near", target="b|c"),
        ),
    )
    first, second = questions_of(scene).questions
    assert first.id == r"relation:a\|b|c"
    assert first.id != second.id


def test_an_empty_scene_has_no_questions() -> None:
    assert questions_of(SceneGraph()) == QuestionSheet(questions=())


def test_many_objects_with_many_attributes_take_no_time() -> None:
    scene = SceneGraph(
        objects=tuple(
            SceneObject(
                id=f"car.{at}",
                name="car",
                attributes=Attributes(
                    {f"key {k}": f"v{(at >> (k % 6)) & 1}{k}" for k in range(12)}
                ),
            )
            for at in range(64)
        )
    )
    sheet = questions_of(scene)
    assert len(sheet.questions) + len(sheet.unasked) == 64 * 13
    assert any("it takes more than 5 attributes" in item.reason for item in sheet.unasked)


# An implementation of its own, straight from the definition: all subsets, nothing clever.


def words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]+", text.lower()))


def clash(one: str, other: str) -> bool:
    low, high = one.lower(), other.lower()
    return bool(words(one) & words(other)) or low in high or high in low


def voids(value: str, rival: SceneObject) -> bool:
    if words(value) & words(rival.name):
        return False
    return not any(clash(value, other) for other in rival.attributes.values())


def shortest(
    item: SceneObject, keys: list[str], rivals: list[SceneObject], least: int
) -> list[tuple[str, ...]]:
    """All smallest sets of keys that rule out each rival; none if no set does."""
    for size in range(least, len(keys) + 1):
        fits = [
            subset
            for subset in itertools.combinations(keys, size)
            if all(any(voids(item.attributes[k], rival) for k in subset) for rival in rivals)
        ]
        if fits:
            return fits
    return []


def content(text: str) -> set[str]:
    return words(text) - {"a", "on"} or words(text)


def usable(item: SceneObject, answers: list[str], hidden: str | None) -> list[str]:
    return [
        key
        for key, value in item.attributes.items()
        if key != hidden
        and value not in ("yes", "unknown")
        and not words(value) <= words(item.name)
        and not any((words(value) - {"a"}) & (words(a) - {"a"}) for a in answers)
        and not (hidden and clash(value, item.attributes[hidden]))
    ]


@st.composite
def scenes(draw: st.DrawFn) -> SceneGraph:
    objects = []
    for at in range(draw(st.integers(0, 6))):
        keys = draw(st.sets(st.sampled_from(KEYS), max_size=4))
        attributes = {key: draw(st.sampled_from(VALUES)) for key in sorted(keys)}
        name = draw(st.sampled_from(LABELS))
        objects.append(SceneObject(id=f"x{at}", name=name, attributes=Attributes(attributes)))
    relations = []
    if len(objects) > 1:
        ends = st.permutations([item.id for item in objects])
        for _ in range(draw(st.integers(0, 6))):
            source, target = draw(ends)[:2]
            predicate = draw(st.sampled_from(PREDICATES))
            relations.append(Relation(source=source, predicate=predicate, target=target))
    return SceneGraph(objects=tuple(objects), relations=tuple(dict.fromkeys(relations)))


def same_class(scene: SceneGraph, item: SceneObject) -> list[SceneObject]:
    return [other for other in scene.objects if other.name == item.name and other.id != item.id]


def others(scene: SceneGraph, item: SceneObject) -> list[SceneObject]:
    return [other for other in scene.objects if other.id != item.id]


def phrases_that_fit(
    scene: SceneGraph, item: SceneObject, answers: list[str], hidden: str | None = None
) -> set[str]:
    """Every shortest description of ``item`` that gives none of ``answers`` away."""
    if any(words(answer) <= words(item.name) for answer in answers):
        return set()
    sets = shortest(item, usable(item, answers, hidden), same_class(scene, item), 0)
    return {object_phrase(item, subset) for subset in sets}


@settings(max_examples=60)
@given(scenes())
def test_descriptions_single_out_and_none_shorter_does(scene: SceneGraph) -> None:
    known = by_fact(scene)
    for item in scene.objects:
        for key, value in item.attributes.items():
            found = known[attribute_fact_id(item.id, key)]
            fits = phrases_that_fit(scene, item, [value], key)
            assert (found.phrases[0] in fits) if isinstance(found, Question) else not fits
        found = known[object_fact_id(item.id)]
        keys = [
            key
            for key, value in item.attributes.items()
            if value not in ("yes", "unknown") and not words(value) & words(item.name)
        ]
        sets = shortest(item, keys, others(scene, item), 1)
        wanted = {retrieval_text(item, subset) for subset in sets}
        assert (found.text in wanted) if isinstance(found, Question) else not wanted
    for relation in scene.relations:
        edge = [
            r.predicate
            for r in scene.relations
            if (r.source, r.target) == (relation.source, relation.target)
        ]
        found = known[relation_fact_id(relation)]
        ends = [scene.object(relation.source), scene.object(relation.target)]
        both = [phrases_that_fit(scene, end, edge) for end in ends]
        if isinstance(found, Question):
            assert all(phrase in fits for phrase, fits in zip(found.phrases, both, strict=True))
        else:
            assert not all(both)


@settings(max_examples=40)
@given(scenes())
def test_every_fact_is_asked_once_or_left_with_a_reason(scene: SceneGraph) -> None:
    sheet = questions_of(scene)
    met = [fact for question in sheet.questions for fact in question.facts]
    met += [item.fact for item in sheet.unasked]
    assert Counter(met) == Counter(fact.id for fact in facts_of(scene))
    assert all(item.reason for item in sheet.unasked)
    assert len({question.id for question in sheet.questions}) == len(sheet.questions)
    kinds = [QUESTION_KINDS.index(question.kind) for question in sheet.questions]
    assert kinds == sorted(kinds)
    assert all(len(q.facts) == 1 for q in sheet.questions if q.kind != "relation")


@settings(max_examples=40)
@given(scenes())
def test_no_answer_is_given_away(scene: SceneGraph) -> None:
    for question in questions_of(scene).questions:
        shown = words(" ".join(question.phrases))
        if question.kind == "retrieval":
            assert not words(question.answer) & shown
        elif question.kind == "attribute":
            assert not words(question.answer) <= shown
        else:
            assert not any(words(predicate) <= shown for predicate in question.predicates)


@settings(max_examples=60)
@given(scenes())
def test_the_same_scene_gets_the_same_questions_whatever_its_ids(scene: SceneGraph) -> None:
    renamed = {item.id: f"other {len(scene.objects) - at}" for at, item in enumerate(scene.objects)}
    twin = SceneGraph(
        objects=tuple(i.model_copy(update={"id": renamed[i.id]}) for i in scene.objects),
        relations=tuple(
            Relation(source=renamed[r.source], predicate=r.predicate, target=renamed[r.target])
            for r in scene.relations
        ),
    )
    sheet = questions_of(scene)
    assert sheet == questions_of(SceneGraph.model_validate_json(scene.model_dump_json()))
    assert [(q.text, q.answer, q.phrases) for q in sheet.questions] == [
        (q.text, q.answer, q.phrases) for q in questions_of(twin).questions
    ]
    assert [renamed[q.subject] for q in sheet.questions] == [
        q.subject for q in questions_of(twin).questions
    ]


def real_scenes() -> Iterator[SceneGraph]:
    """300 prompts of DSG-1k as graphs, and the graphs of SG2Im's figures."""
    items = dsg.load(DATA / "dsg" / "dsg-1k-anns.csv")
    yield from (item.scene for item in itertools.islice(items, 300) if item.scene is not None)
    for path in sorted((DATA / "sg2im").glob("*.json")):
        for entry in json.loads(path.read_text(encoding="utf-8")):
            yield load_scene(json.dumps([entry]), format="sg2im")


@pytest.mark.skipif(not DATA.is_dir(), reason="the shared public data is not on this machine")
@pytest.mark.filterwarnings("ignore")
def test_questions_of_real_scene_graphs() -> None:
    kinds: Counter[str] = Counter()
    left = facts = 0
    for scene in real_scenes():
        sheet = questions_of(scene)
        met = [fact for question in sheet.questions for fact in question.facts]
        assert Counter([*met, *(item.fact for item in sheet.unasked)]) == Counter(
            fact.id for fact in facts_of(scene.graph)
        )
        kinds.update(question.kind for question in sheet.questions)
        left += len(sheet.unasked)
        facts += len(met) + len(sheet.unasked)
    assert min(kinds.values()) > 100
    assert kinds["relation"] > kinds["retrieval"]
    assert 0.0 < left / facts < 0.6
