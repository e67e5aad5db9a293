"""Categories and challenges: the rules on the paper's own examples, and what a model answers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.parsers.classes import (
    CHALLENGES,
    EXAMPLES,
    PROMPT_CATEGORIES,
    Classes,
    classify,
    with_precedence,
)
from scenewright.evals.annotation.psg_making import read_classes
from scenewright.evals.datasets.psg_prompts.rows import PAPER
from scenewright.prompts import load_prompt

BAROQUE = "A Renaissance-style oil painting of a horse resting beneath an ancient oak tree."
VAN_GOGH = (
    "A raccoon wearing formal clothes, holding a cane, and a garbage bag, painted in the style of "
    "Vincent van Gogh"
)


@pytest.mark.parametrize(
    ("prompt", "category"),
    [
        # Table 6.
        ("Eiffel Tower in Paris", "WORLD KNOWLEDGE"),
        ("'300'; '101'; 'the golden ratio'; the 'Fibonacci number'", "ABSTRACT"),
        ("A woolly mammoth standing on an iceberg", "ANIMALS"),
        ("Two cats gathered around a chessboard", "ANIMALS"),
        (BAROQUE, "ARTS"),
        ("a schematic of neural pathways;", "ILLUSTRATIONS"),
        ("Two giraffes are eating grass in a zoo.", "OUTDOOR SCENES"),
        (
            "A formal inauguration or opening ceremony, where two individuals cut a red ribbon.",
            "PEOPLE",
        ),
        (
            "This image captures a busy urban street scene with a mixture of vehicles and "
            "pedestrians.",
            "VEHICLES",
        ),
        # Section A.2.
        ("a painting of a street in Paris", "WORLD KNOWLEDGE"),
        (VAN_GOGH, "ARTS"),
        ("a team playing baseball at the beach", "PEOPLE"),
        # Ours.
        ("A photo of three women in Paris.", "PEOPLE"),
        ("A horse next to a bus.", "ANIMALS"),
        ("A painting next to a chair.", "OTHER"),
        ("a cup on a table", "OTHER"),
    ],
)
def test_categories(prompt: str, category: str) -> None:
    assert classify(prompt).category == category


@pytest.mark.parametrize(("challenge", "prompt"), EXAMPLES.items())
def test_challenges_of_table_6(challenge: str, prompt: str) -> None:
    assert classify(prompt).challenge == challenge


@pytest.mark.parametrize(
    ("prompt", "challenge"),
    [
        ("A bird is flying.", "NONE"),
        ("An airplane flying over a field", "NONE"),
        ("A dog that is driving a car", "IMAGINATION"),
        ("a red apple", "NONE"),
        ("A photo of one car", "NONE"),
        ("several dogs", "QUANTITY"),
    ],
)
def test_challenges_by_their_words(prompt: str, challenge: str) -> None:
    assert classify(prompt).challenge == challenge


def test_the_classes_are_those_of_the_prompt_and_of_table_6() -> None:
    schema = load_prompt("classify_challenges").output
    assert schema is not None
    asked = schema["properties"]["classes"]["items"]["properties"]
    assert set(asked["category"]["enum"]) == set(PROMPT_CATEGORIES)
    assert set(asked["challenge"]["enum"]) == set(CHALLENGES)
    assert set(PAPER) == {*PROMPT_CATEGORIES, *CHALLENGES} - {"OTHER", "NONE"}
    rarer = [PAPER[name] for name in PROMPT_CATEGORIES[3:-1]]
    assert rarer == sorted(rarer)
    assert [PAPER[name] for name in CHALLENGES[:-1]] == sorted(PAPER[n] for n in CHALLENGES[:-1])


@given(st.text(max_size=80))
def test_any_text_has_one_class_of_each(text: str) -> None:
    found = classify(text)
    assert found.category in PROMPT_CATEGORIES
    assert found.challenge in CHALLENGES
    assert found == classify(text)


def test_the_papers_precedence_goes_over_a_model() -> None:
    def corrected(category: str, prompt: str) -> Classes:
        return with_precedence(Classes(category, "NONE", "x:y"), prompt)

    found = corrected("OUTDOOR SCENES", "a team playing baseball at the beach")
    assert (found.category, found.by) == ("PEOPLE", "x:y")
    assert "'team'" in found.note
    assert "OUTDOOR SCENES" in found.note
    assert corrected("ARTS", "a painting of a street in Paris").category == "WORLD KNOWLEDGE"
    assert corrected("ARTS", VAN_GOGH) == Classes("ARTS", "NONE", "x:y")
    assert corrected("PEOPLE", "a cup").category == "PEOPLE"


def row(number: Any, category: Any = "ANIMALS", challenge: Any = "NONE") -> dict[str, Any]:
    return {"number": number, "category": category, "challenge": challenge}


@pytest.mark.parametrize(
    ("rows", "problem", "lost"),
    [
        ([row(1)], "number 2: the model left it out", {2: "left it out"}),
        ([row(1), row(2), row(3)], "no number 3", {}),
        ([row(1), row(1), row(2)], "number 1: the model gave two answers", {1: "two answers"}),
        ([row(1), row(2, "DOGS")], "'DOGS' is not a category", {2: "'DOGS' is not a category"}),
        ([row(1), row(2, challenge="X")], "'X' is not a challenge", {2: "'X' is not a challenge"}),
        ([row(1), row(2), row(True)], "no number True", {}),
    ],
)
def test_unusable_numbers_are_told_then_left_unclassified(
    rows: list[Any], problem: str, lost: dict[int, str]
) -> None:
    with pytest.raises(ValueError, match=problem):
        read_classes({"classes": rows}, 2, "x:y", last=False)
    found = read_classes({"classes": rows}, 2, "x:y", last=True)
    assert set(found) == {1, 2}
    for number, classes in found.items():
        assert bool(classes.category) is (number not in lost)
        assert lost.get(number, "") in classes.note


def test_a_reply_without_a_list_is_no_reply() -> None:
    with pytest.raises(ValueError, match="not a list"):
        read_classes({"classes": "ANIMALS"}, 1, "x:y", last=True)
