"""Which choice TIFA expects, by the prompt."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scenewright.core.formats.published_questions import read_choices
from scenewright.evals.studies.panel.sources.dsg_release import expected_answer

SAMPLE = Path(__file__).resolve().parents[6] / "shared/data/tifa" / "sample_question_answers.json"


@pytest.mark.parametrize(
    ("question", "choices", "prompt", "expected"),
    [
        ("is this a dog?", ["yes", "no"], "no dog at all", "yes"),
        ("how many zebras are there?", ["1", "2", "3", "4"], "Three zebras eat hay.", "3"),
        ("how many red hats?", ["1", "2", "3"], "two red hats and three white hats", "2"),
        ("how many white hats?", ["1", "2", "3"], "two red hats and three white hats", "3"),
        ("how many cats are there?", ["1", "2"], "a cat", "1"),
        # A word of another choice elsewhere in the prompt does not make it right.
        ("what color is the bike?", ["red", "black"], "A red bike at a black pole.", "red"),
        ("what is the man doing?", ["playing", "surfing"], "He plays on a wave.", "playing"),
        (
            "is the blue book on the top or the bottom?",
            ["top", "bottom"],
            "A green book is on the top. The blue book is on the bottom.",
            "bottom",
        ),
    ],
)
def test_the_prompt_makes_a_choice_right(
    question: str, choices: list[str], prompt: str, expected: str
) -> None:
    assert expected_answer(question, choices, prompt) == expected


def test_without_choices_nothing_is_expected() -> None:
    with pytest.raises(ValueError, match="has no choices"):
        expected_answer("is it?", [], "a dog")


def test_choices_are_read_of_the_text_that_was_asked() -> None:
    asked = "Question: what is it? Choices: a dog, a cat. Answer:"
    assert read_choices(asked) == ("what is it?", ("a dog", "a cat"))
    assert read_choices(" what is it? ") == ("what is it?", ())


@pytest.mark.skipif(not SAMPLE.is_file(), reason="TIFA's sample is not beside the repository")
def test_the_key_of_tifas_sample_comes_out() -> None:
    questions = json.loads(SAMPLE.read_text("utf-8"))
    assert len(questions) == 19
    for entry in questions:
        found = expected_answer(entry["question"], entry["choices"], entry["caption"])
        assert found == entry["answer"], entry
