"""The same question in other orders and words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.judge_reports.judge_runs import paraphrases_of, subject_of, variants_of

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="owl.1", name="owl"),
        SceneObject(id="owl.2", name="owl"),
    ),
    relations=(Relation(source="dog.1", predicate="on", target="owl.1"),),
)
DOG, OWL, OWLS, RED, ON = facts_of(SCENE)


def choice(options: tuple[str, ...], expected: str) -> Fact:
    return Fact(
        id="x", kind="relation", subject="", statement="s", question="Where is it?",
        options=options, expected=expected,
    )  # fmt: skip


def test_a_choice_is_turned_with_none_kept_last_and_with_all() -> None:
    forms = variants_of(ON)
    assert [v.form for v in forms] == [
        "plain",
        *["order"] * 2,
        *["turn"] * 3,
        *["paraphrase"] * 2,
    ]
    assert forms[0].fact == ON
    ordered = [v.fact.options for v in forms if v.form in ("plain", "order")]
    turned = [v.fact.options for v in forms if v.form in ("plain", "turn")]
    assert {options[-1] for options in ordered} == {NO_RELATION}
    for option in ON.options[:-1]:
        assert sorted(options.index(option) for options in ordered) == [0, 1, 2]
    for option in ON.options:
        assert sorted(options.index(option) for options in turned) == [0, 1, 2, 3]
    assert {v.fact.expected for v in forms} == {"on"}


def test_a_yes_no_question_says_its_options_in_either_order() -> None:
    _, first, second, *others = variants_of(DOG)
    assert first.fact.question == "Is there a dog in the image? Yes or no?"
    assert second.fact.question == "Is there a dog in the image? No or yes?"
    assert second.fact.options == ("no", "yes")
    assert [v.form for v in others] == ["paraphrase"] * 2


@pytest.mark.parametrize(
    ("fact", "first"),
    [
        (DOG, 'Does this figure show "a dog"?'),
        (OWLS, 'Does this figure show "at least 2 owls"?'),
        (RED, "In the picture, is the dog red?"),
        (ON, "How are the dog and one of the owls related in the picture?"),
        (choice(("a", "b"), "a"), "Look at the picture. Where is it?"),
    ],
)
def test_paraphrases_fit_the_form(fact: Fact, first: str) -> None:
    assert paraphrases_of(fact)[0] == first
    assert len({fact.question, *paraphrases_of(fact)}) == 3


@given(st.text(min_size=1))
def test_any_words_are_kept_whole_in_paraphrases(words: str) -> None:
    fact = DOG.model_copy(update={"question": f"Is there a {words} in the image?"})
    assert all(f"a {words}" in text for text in paraphrases_of(fact))
    other = DOG.model_copy(update={"question": words})
    assert all(words.removesuffix("?") in text or words in text for text in paraphrases_of(other))


@given(st.lists(st.text(min_size=1), min_size=2, max_size=7, unique=True))
def test_every_option_stands_in_every_place_once(options: list[str]) -> None:
    fact = choice(tuple(options), options[0])
    if fact.is_binary:
        return
    forms = [v.fact for v in variants_of(fact, paraphrases=0)]
    moved = options[:-1] if options[-1] == NO_RELATION and len(options) > 2 else options
    for option in moved:
        places = [f.options.index(option) for f in forms[: len(moved)]]
        assert sorted(places) == list(range(len(moved)))


def test_facts_that_rule_each_other_out_have_one_subject() -> None:
    blue = RED.model_copy(update={"question": "Is the dog blue?", "value": "blue"})
    back = ON.model_copy(update={"subject": ON.target, "target": ON.subject})
    assert subject_of(RED) == subject_of(blue)
    assert subject_of(ON) == subject_of(back)
    assert len({subject_of(fact) for fact in (DOG, OWL, OWLS, RED, ON)}) == 5


def test_plain_is_all_that_is_asked_for() -> None:
    assert [v.form for v in variants_of(ON, False, False, 0)] == ["plain"]
