"""Other ways to put a question."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.labelled_facts import LabelledFact, Picture
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.perturbations import (
    claimed,
    claimed_not,
    hinted,
    hinted_against,
    negated,
    premises,
    reordered,
    rephrased,
    tagged,
)
from tests.doubles import painted

FACTS = [labelled.fact for labelled in synthetic_facts(6, seed=2)]
BINARY = [fact for fact in FACTS if fact.is_binary]
CHOICES = [fact for fact in FACTS if not fact.is_binary]


def asked(question: str, value: str | None = None, expected: str = "yes") -> Fact:
    return Fact(
        id="f", kind="attribute" if value else "object", subject="", value=value,
        statement=question, question=question, expected=expected,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("fact", "complement"),
    [
        (asked("Is there a dog in the image?"), "Is there no dog in the image?"),
        (asked("Is there an umbrella?"), "Is there no umbrella?"),
        (
            asked("Are there at least 2 dogs in the image?"),
            "Are there fewer than 2 dogs in the image?",
        ),
        (asked("Are there rams?"), "Are there no rams?"),
        (asked("Is the hat blue?", "blue"), "Is the hat not blue?"),
        (
            asked("Is the boy gripping the ball?"),
            "Is no the right answer to this question: Is the boy gripping the ball?",
        ),
        (
            asked("Does the car play soccer?"),
            "Is no the right answer to this question: Does the car play soccer?",
        ),
    ],
)  # fmt: skip
def test_a_question_and_its_complement(fact: Fact, complement: str) -> None:
    found = negated(fact)
    assert found is not None
    assert found.question == complement
    assert found.expected == "no"
    back = negated(asked(fact.question, fact.value, expected="no"))
    assert back is not None
    assert back.expected == "yes"


@pytest.mark.parametrize(
    ("fact", "claim"),
    [
        (asked("Is there a dog in the image?"), "The picture shows a dog, doesn't it?"),
        (asked("Is there a dog?"), "The picture shows a dog, doesn't it?"),
        (
            asked("Are there at least 2 dogs in the image?"),
            "The picture shows at least 2 dogs, doesn't it?",
        ),
        (asked("Is the hat blue?", "blue"), "The hat is blue, isn't it?"),
        (asked("Does it rain?"), 'Does it rain? It is "yes", isn\'t it?'),
        (
            asked("Is there a dog?", expected="no"),
            'Is there a dog? It is "no", isn\'t it?',
        ),
    ],
)
def test_a_claim_asks_for_agreement_that_the_fact_holds(fact: Fact, claim: str) -> None:
    assert tagged(fact).question == claim
    assert tagged(fact).expected == fact.expected


@given(st.sampled_from(FACTS))
def test_every_form_is_a_fact_of_its_own_question(fact: Fact) -> None:
    made = [*rephrased(fact), *reordered(fact), tagged(fact), hinted(fact), hinted_against(fact)]
    made += [found for by in (negated, claimed, claimed_not) if (found := by(fact)) is not None]
    for found in made:
        assert found.id == fact.id
        assert found.kind == fact.kind
        assert (found.question, found.options) != (fact.question, fact.options)
    for one, other in pairwise(made):
        assert (one.question, one.options) != (other.question, other.options)


@given(st.sampled_from(CHOICES))
def test_a_choice_becomes_a_claim_and_its_complement(fact: Fact) -> None:
    assert negated(fact) is None
    one, other = claimed(fact), claimed_not(fact)
    assert one is not None
    assert other is not None
    assert (one.options, one.expected, other.expected) == (("yes", "no"), "yes", "no")
    assert fact.statement in one.question
    assert fact.statement in other.question


@given(st.sampled_from(BINARY))
def test_a_yes_no_question_is_no_choice(fact: Fact) -> None:
    assert claimed(fact) is None
    assert claimed_not(fact) is None


def test_people_s_own_choices_are_claimed_with_their_answer() -> None:
    fact = Fact(
        id="f", kind="object", subject="", statement="What is it?", question="What is it?",
        options=("cat", "dog"), expected="dog",
    )  # fmt: skip
    found = claimed(fact)
    assert found is not None
    assert found.question == 'Does the picture show this: "What is it? dog"?'


@given(st.sampled_from(FACTS))
def test_hints_differ_in_what_they_suggest_alone(fact: Fact) -> None:
    towards, away = hinted(fact), hinted_against(fact)
    assert f'"{fact.expected}"' in towards.question
    other = NO_RELATION if NO_RELATION in fact.options else "no"
    assert away.question == towards.question.replace(f'"{fact.expected}"', f'"{other}"')


def labelled(picture: str, *questions: str) -> list[LabelledFact]:
    image = Picture(picture, lambda: painted((8, 8)))
    return [LabelledFact(image, asked(question), True) for question in questions]


def test_premises_are_of_other_pictures_and_none_of_their_own_words() -> None:
    facts = [
        *labelled("one", "Is there a dog?", "Is there a red ball?"),
        *labelled("two", "Is there a cat?", "Are the dogs asleep?"),
        *labelled("three", "Is there a boat?"),
    ]
    found = premises(facts, 5)
    by_picture = {
        name: {f.fact.question for f in found if f.picture.name == name}
        for name in ("one", "two", "three")
    }
    assert by_picture["one"] == {"Is there a cat?", "Is there a boat?"}
    # Dogs are asked about in words of their own.
    assert by_picture["two"] == {"Is there a red ball?", "Is there a boat?"}
    assert len(by_picture["three"]) == 3
    assert not any(f.holds for f in found)
    assert all(f.group == "absent" for f in found)


def test_premises_are_bounded_and_the_same_each_time() -> None:
    facts = [
        f
        for number in range(9)
        for f in labelled(str(number), f"Is there a {'abcdefghi'[number]}xx?")
    ]
    found = premises(facts, 2, seed=4)
    assert len(found) == 18
    assert found == premises(facts, 2, seed=4)
    assert [f.fact.question for f in found] != [f.fact.question for f in premises(facts, 2, seed=5)]
    assert len({(f.picture.name, f.fact.id) for f in found}) == 18
