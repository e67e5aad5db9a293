"""What the graph of a drawn picture answers to a question."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import same_key
from scenewright.evals.metrics.graph_matching.matching import match_graphs
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.studies.xtc.base import Question, XtcError
from scenewright.evals.studies.xtc.lookup import MISSING, DrawnAnswer, answer_of

KEYS = (
    *("color", "Primary_Color", "main colour", "upper clothing color", "lower clothing color"),
    *("material", "material type", "state", "door open/closed", "text visible", "text on sign"),
)
REFERENCE = SceneGraph(
    objects=(
        SceneObject(
            id="dog.1", name="dog", attributes={"color": "brown", "body position": "lying"}
        ),
        SceneObject(id="dog.2", name="dog", attributes={"color": "white"}),
        SceneObject(id="mat.1", name="mat", attributes={"primary color": "red"}),
        SceneObject(id="cat.1", name="cat", attributes={"color": "gray"}),
    ),
    relations=(
        Relation(source="dog.1", predicate="on", target="mat.1"),
        Relation(source="dog.1", predicate="looking at", target="mat.1"),
        Relation(source="dog.2", predicate="near", target="mat.1"),
        Relation(source="mat.1", predicate="under", target="dog.1"),
        Relation(source="cat.1", predicate="near", target="dog.2"),
    ),
)
SEEN = SceneGraph(
    objects=(
        SceneObject(id="a", name="Dog", attributes={"Color": "white"}),
        SceneObject(id="b", name="dog", attributes={"color": "dark brown", "position": "asleep"}),
        SceneObject(id="m", name="mat", attributes={"color": "red and blue"}),
    ),
    relations=(
        Relation(source="b", predicate="lying on", target="m"),
        Relation(source="b", predicate="near", target="m"),
        Relation(source="m", predicate="beside", target="a"),
    ),
)
MATCH = match_graphs(REFERENCE, SEEN, ExactSimilarity())


def asked(kind: str, subject: str, **more: Any) -> Question:
    return Question(
        id=f"{kind}:{subject}",
        kind=kind,
        text="?",
        answer="x",
        facts=("f",),
        subject=subject,
        **more,
    )


def answer(question: Question) -> DrawnAnswer:
    return answer_of(MATCH, REFERENCE, SEEN, question)


def test_the_dogs_are_matched_by_colour_and_edges() -> None:
    assert MATCH.mapping == {"dog.1": "b", "dog.2": "a", "mat.1": "m"}


def test_an_attribute_is_the_partners_value() -> None:
    assert answer(asked("attribute", "dog.1", key="color")) == DrawnAnswer("dark brown")
    assert answer(asked("attribute", "dog.2", key="color")) == DrawnAnswer("white")


def test_another_name_of_the_key_stands_in() -> None:
    found = answer(asked("attribute", "mat.1", key="primary color"))
    assert (found.text, found.missing) == ("red and blue", False)
    assert found.reason == "primary color is read from color"


@pytest.mark.parametrize(
    ("asked_for", "there"),
    [
        ("upper clothing color", "lower clothing color"),
        ("upper clothing color", "color"),
        ("upper clothing color", "upper clothing type"),
        ("body position", "position"),
        ("text visible", "content visible"),
    ],
)
def test_no_answer_from_a_key_that_differs_in_a_word(asked_for: str, there: str) -> None:
    reference, seen = (
        SceneGraph(objects=(SceneObject(id=id_, name="man", attributes={key: "blue"}),))
        for id_, key in (("p", asked_for), ("q", there))
    )
    match = match_graphs(reference, seen, ExactSimilarity())
    found = answer_of(match, reference, seen, asked("attribute", "p", key=asked_for))
    assert found == DrawnAnswer(MISSING, f"q in the drawn graph has no {asked_for}", True)


@given(st.sampled_from(KEYS), st.sampled_from(KEYS))
def test_matching_and_look_up_take_the_same_keys_for_one(one: str, other: str) -> None:
    reference, seen = (
        SceneGraph(objects=(SceneObject(id=id_, name="man", attributes={key: "blue"}),))
        for id_, key in (("p", one), ("q", other))
    )
    match = match_graphs(reference, seen, ExactSimilarity())
    found = answer_of(match, reference, seen, asked("attribute", "p", key=one))
    assert match.nodes[0].similarity == float(not found.missing) == float(same_key(one, other))


def test_a_key_that_another_question_asks_for_does_not_stand_in() -> None:
    reference = SceneGraph(
        objects=(SceneObject(id="p", name="man", attributes={"hat color": "red", "color": "x"}),)
    )
    seen = SceneGraph(objects=(SceneObject(id="q", name="man", attributes={"color": "blue"}),))
    match = match_graphs(reference, seen, ExactSimilarity())
    found = answer_of(match, reference, seen, asked("attribute", "p", key="hat color"))
    assert found == DrawnAnswer(MISSING, "q in the drawn graph has no hat color", True)


def test_an_unlike_key_does_not_stand_in() -> None:
    found = answer(asked("attribute", "dog.2", key="breed"))
    assert found == DrawnAnswer(MISSING, "a in the drawn graph has no breed", True)


def test_a_retrieval_is_the_partners_label() -> None:
    assert answer(asked("retrieval", "dog.2")) == DrawnAnswer("Dog")


def test_parallel_relations_are_joined() -> None:
    assert answer(asked("relation", "dog.1", target="mat.1")) == DrawnAnswer("lying on and near")


def test_a_relation_that_is_not_there_is_missing() -> None:
    found = answer(asked("relation", "mat.1", target="dog.1"))
    assert (found.text, found.missing, found.matched) == (MISSING, True, True)
    assert found.reason == (
        "nothing relates m to b in the drawn graph, only the other way round: "
        "b lying on m, b near m"
    )
    found = answer(asked("relation", "dog.2", target="mat.1"))
    assert "only the other way round: m beside a" in found.reason


@pytest.mark.parametrize(
    "question",
    [
        asked("attribute", "cat.1", key="color"),
        asked("retrieval", "cat.1"),
        asked("relation", "cat.1", target="dog.2"),
        asked("relation", "dog.2", target="cat.1"),
    ],
)
def test_an_object_that_was_not_drawn_answers_nothing(question: Question) -> None:
    found = answer(question)
    assert (found.text, found.missing, found.matched) == (MISSING, True, False)
    assert found.reason == "cat.1 has no partner in the drawn graph"


def test_a_perfect_drawing_answers_everything_right() -> None:
    match = match_graphs(REFERENCE, REFERENCE, ExactSimilarity())
    for item in REFERENCE.objects:
        found = answer_of(match, REFERENCE, REFERENCE, asked("retrieval", item.id))
        assert found == DrawnAnswer(item.name)
        for key, value in item.attributes.items():
            question = asked("attribute", item.id, key=key)
            assert answer_of(match, REFERENCE, REFERENCE, question) == DrawnAnswer(value)
    question = asked("relation", "dog.1", target="mat.1")
    assert answer_of(match, REFERENCE, REFERENCE, question).text == "on and looking at"


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (asked("attribute", "dog.1"), "names no key"),
        (asked("relation", "dog.1"), "names no target"),
        (asked("retrieval", "zebra"), "not a question of the reference graph"),
        (asked("relation", "dog.1", target="zebra"), "not a question of the reference graph"),
    ],
)
def test_a_question_of_something_else_is_refused(question: Question, says: str) -> None:
    with pytest.raises(XtcError, match=says):
        answer(question)


def test_a_match_of_other_graphs_is_refused() -> None:
    with pytest.raises(XtcError, match="match is one of other graphs"):
        answer_of(MATCH, REFERENCE, REFERENCE, asked("retrieval", "dog.1"))
