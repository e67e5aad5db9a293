"""Facts as a sheet of questions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.sheet import (
    MAX_OPTION,
    MAX_QUESTION,
    clean,
    labels_of,
    sheet_of,
    sheet_schema,
)
from scenewright.facts import Fact
from scenewright.prompts import load_prompt
from scenewright.questions import facts_of
from tests.agents.judges.conformance import scene

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)


def choice(question: str, *options: str) -> Fact:
    return Fact(
        id="r",
        kind="relation",
        subject="a",
        statement="s",
        question=question,
        options=options,
        expected=options[0],
    )


def lines(text: str) -> list[str]:
    return text[text.index('[1,"') :].split("\n")


def test_the_sheet_has_the_contracts_form() -> None:
    dog = Fact(id="o", kind="object", subject="a", statement="s", question="Is there a dog?")
    sheet = sheet_of([dog, choice("How?", "left of", "on")])
    assert lines(sheet.text) == [
        '[1,"Is there a dog?"]',
        '[2,"How?",{"A":"left of","B":"on"}]',
    ]
    assert sheet.labels == (("yes", "no"), ("A", "B"))
    assert sheet.prompt == load_prompt("judge_sheet")
    assert sheet.text.startswith(sheet.prompt.text.partition("{questions}")[0])


@given(ANY_TEXT, ANY_TEXT)
def test_whatever_the_names_a_line_is_a_question(name: str, other: str) -> None:
    facts = [choice(f"Is {name} there?", f"1{name}", f"2{other}")] * 2
    found = [json.loads(line) for line in lines(sheet_of(facts).text)]
    options = {"A": clean(f"1{name}"), "B": clean(f"2{other}")}
    assert found == [[at, clean(f"Is {name} there?"), options] for at in (1, 2)]
    assert len(sheet_of(facts).text.splitlines()) == len(sheet_of(facts).text.split("\n"))
    sheet_of(facts).text.encode()


@given(ANY_TEXT)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert len(clean(text)) == len(text)


@given(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=40))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


def test_questions_are_capped() -> None:
    (line,) = lines(sheet_of([choice("q" * 9999, "o" * 9999, "b")]).text)
    _, question, options = json.loads(line)
    assert len(question) == MAX_QUESTION
    assert len(options["A"]) == MAX_OPTION
    assert question.endswith("…")


def test_every_key_of_the_schema_is_required() -> None:
    schema = sheet_schema()
    items = schema["properties"]["answers"]["items"]
    assert set(items["required"]) == set(items["properties"])
    assert schema["additionalProperties"] is items["additionalProperties"] is False
    assert sheet_of(facts_of(scene())).schema == schema


def test_what_cannot_be_asked_is_an_error() -> None:
    with pytest.raises(ValueError, match="a sheet needs a fact"):
        sheet_of([])
    with pytest.raises(ValueError, match="27 options"):
        labels_of(choice("q", *map(str, range(27))))
    assert labels_of(choice("q", *map(str, range(26))))[-1] == "Z"
