"""Facts as typed questions."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.decisions.questions import (
    copies,
    kind_of,
    levels,
    problem_of,
    restored,
    sheet_of,
    shortened,
)
from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION, facts_of, realism_facts_of
from scenewright.tools.vision.realism.judged import figure_facts, object_facts
from tests.agents.judges.conformance import HOSTILE, scene

FACTS = (*facts_of(scene()), *realism_facts_of(scene()))
NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12)


def choice(options: tuple[str, ...], question: str = "Which?") -> Fact:
    return Fact(
        id="q:1", kind="relation", subject="a", statement="s", question=question,
        options=options, expected=options[0],
    )  # fmt: skip


def test_every_kind_of_fact_has_its_type() -> None:
    kinds = {fact.kind: kind_of(fact) for fact in FACTS}
    assert kinds == {
        "object": "yes_no", "attribute": "yes_no", "relation": "choice", "realism": "score",
    }  # fmt: skip
    counts = [fact for fact in FACTS if fact.counts]
    assert counts
    assert {kind_of(fact) for fact in counts} == {"yes_no"}


def test_objects_are_rated_and_texts_of_vqascore_are_not() -> None:
    assert [kind_of(fact) for fact in object_facts("dog")] == ["score"] * 3
    assert [kind_of(fact) for fact in figure_facts("dog")] == ["yes_no"] * 3


def test_one_order_is_one_question_a_fact() -> None:
    sheet = sheet_of(FACTS)
    assert [question.name for question in sheet.questions] == [
        f"f{at}" for at in range(1, len(FACTS) + 1)
    ]
    assert sheet.of == tuple(range(len(FACTS)))
    assert [question.text for question in sheet.questions] == [fact.question for fact in FACTS]


def test_short_words_ask_the_same_and_name_all_that_the_question_names() -> None:
    full, short = (sheet_of(FACTS, wording=wording).questions for wording in ("full", "short"))
    assert [question.options for question in short] == [question.options for question in full]
    for long, brief in zip(full, short, strict=True):
        assert restored(brief.text) == long.text == restored(long.text)
        assert restored(brief.claim or long.text) == long.text
        assert len(brief.text) <= len(long.text)
        if long.kind == "yes_no":
            assert len(brief.statement) <= len(long.statement)
    dog = next(fact for fact in FACTS if fact.kind == "object")
    first, turned_round = sheet_of([dog], 2, turns=True, wording="short").questions
    about = dog.question.removeprefix("Is there ").removesuffix(" in the image?")
    assert (first.text, first.statement) == (f"Is there {about}?", f"There is {about}.")
    assert turned_round.statement == f"Is there {about}? No."


@given(NAMES, st.sampled_from(["Is there a {}?", "Which of {} is it?", "There is a {}."]))
def test_questions_of_other_forms_stay_as_they_are(name: str, form: str) -> None:
    question = form.format(name)
    if not question.endswith(" in the image?"):
        assert shortened(question) == (question, "")


@pytest.mark.parametrize(
    ("question", "short", "claim"),
    [
        ("Is there a dog in the image?", "Is there a dog?", "There is a dog."),
        ("Are there at least 2 red dogs in the image?",
         "Are there at least 2 red dogs?", "There are at least 2 red dogs."),
        ("What is the relationship between the cat and the mat and the hat in the image?",
         "How are the cat and the mat and the hat related?", ""),
        ("Is the dog red?", "Is the dog red?", ""),
    ],
)  # fmt: skip
def test_what_short_words_are(question: str, short: str, claim: str) -> None:
    assert shortened(question) == (short, claim)


def test_a_relation_is_a_choice_of_its_options_and_nothing_is_added() -> None:
    for fact, question in zip(FACTS, sheet_of(FACTS).questions, strict=True):
        if question.kind == "choice":
            assert question.values == fact.options
            assert question.values.count(NO_RELATION) == 1
        elif question.kind == "score":
            assert [label for _, label in question.options] == list(levels())
            assert len(levels()) == 5


@pytest.mark.parametrize("turns", [False, True])
def test_two_orders_ask_choices_the_other_way_round(turns: bool) -> None:
    sheet = sheet_of(FACTS, 2, turns=turns)
    again = sheet.questions[len(FACTS) :]
    assert len(sheet.questions) == sum(copies(fact, 2, turns=turns) for fact in FACTS)
    assert {question.kind for question in again} == ({"choice", "yes_no"} if turns else {"choice"})
    for question, at in zip(again, sheet.of[len(FACTS) :], strict=True):
        first = sheet.questions[at]
        assert question.name == f"g{at + 1}"
        assert question.text == first.text
        if question.kind == "choice":
            # The paper's last option stays the last.
            assert question.values == (*first.values[-2::-1], NO_RELATION)
        else:
            assert question.values == first.values[::-1]


def test_a_yes_no_question_is_a_statement_that_can_be_turned() -> None:
    sheet = sheet_of(FACTS[:1], 2, turns=True)
    assert [question.statement for question in sheet.questions] == [
        "Is there a dog in the image? Yes.", "Is there a dog in the image? No.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("on", "under", "beside"), "3 options: offer at most 2"),
        (("on", "\x00 "), "an option without text: give each a word"),
        (("on", " on"), "two options look the same: make them different"),
        (("on", "under"), ""),
        (("yes", "no"), ""),
    ],
)
def test_what_cannot_be_put_says_why(options: tuple[str, ...], problem: str) -> None:
    assert problem_of(choice(options), 2) == problem


@given(st.lists(NAMES, min_size=2, max_size=9, unique=True), NAMES)
def test_any_options_are_asked_as_different_clean_values_or_not_at_all(
    options: list[str], question: str
) -> None:
    fact = choice(tuple(options), question)
    if problem_of(fact, 9):
        with pytest.raises(ValueError, match="q:1"):
            sheet_of([fact])
        return
    asked = sheet_of([fact], 2).questions
    assert len(asked) == 2
    for one in asked:
        assert len(set(one.values)) == len(options)
        assert all(value and value == value.strip() for value in one.values)
        assert not any(unicodedata.category(c) == "Cc" for c in "".join((one.text, *one.values)))
        assert len(one.text) <= len(question)


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_data(name: str) -> None:
    fact = choice((name, "no"), f"What is {name}?")
    question = sheet_of([fact]).questions[0]
    assert question.text == f"What is {name}?"
    assert question.values == (name, "no")
