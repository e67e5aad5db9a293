"""Facts as a sheet of questions."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.sheet import (
    MAX_OPTION,
    MAX_QUESTION,
    REASONS,
    clean,
    labels_of,
    sheet_of,
    sheet_schema,
)
from scenewright.core.facts import Fact
from scenewright.core.questions import facts_of
from scenewright.mock_providers.sheets import sheet_of as questions_of
from scenewright.prompts import load_prompt
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


def things(*names: str) -> list[Fact]:
    return [
        Fact(id=f"o:{n}", kind="object", subject=n, statement=n, question=f"Is there a {n} here?")
        for n in names
    ]


def test_words_and_options_that_questions_share_are_written_once() -> None:
    facts = [
        *things("dog"),
        choice("Where is the dog of the cat?", "left", "on", "nowhere"),
        *things("red car"),
        choice("Where is the hat of the fat man?", "in", "on", "nowhere"),
        choice("How?", "left of", "on"),
    ]
    sheet = sheet_of(facts)
    assert sheet.text.splitlines() == [
        '["Is there a * here?",[1,"dog"],[3,"red car"]]',
        '["Where is the * of the *?",["C:nowhere"],[2,"dog","cat",["A:left","B:on"]],'
        '[4,"hat","fat man",["A:in","B:on"]]]',
        '[5,"How?",["A:left of","B:on"]]',
    ]
    assert sheet.labels[:2] == (("yes", "no"), ("A", "B", "C"))
    assert sheet.prompt == load_prompt("judge_sheet")
    whole = sheet_of(facts, stems=False)
    assert whole.text.splitlines()[0] == '[1,"Is there a dog here?"]'
    assert len(whole.text.splitlines()) == len(facts)
    assert whole.instructions == sheet.instructions


def test_options_that_all_share_stand_with_the_stem() -> None:
    levels = ("bad", "good")
    facts = [choice(f"How does the {name} look?", *levels) for name in ("dog", "cat")]
    assert sheet_of(facts).text == (
        '["How does the * look?",["A:bad","B:good"],[1,"dog"],[2,"cat"]]'
    )


NAMES = st.one_of(ANY_TEXT, st.sampled_from(["bread and butter", "*", "", "a", "?", "dog?"]))
FORMS = (
    "Is there a {} in the image?",
    "Is the {} {}?",
    "What is the relationship between the {} and the {} in the image?",
    "{}",
)


@given(
    st.lists(st.tuples(st.sampled_from(FORMS), NAMES, NAMES), min_size=1, max_size=8),
    st.booleans(),
)
def test_a_sheet_gives_back_its_questions(asked: list[tuple[str, str, str]], stems: bool) -> None:
    facts = []
    for form, one, other in asked:
        question = form.format(one, other) or "?"
        if form.count("{}") > 1:
            facts.append(choice(question, f"1{one}", f"2{other}", "none"))
        else:
            facts.append(things("x")[0].model_copy(update={"question": question}))
    sheet = sheet_of(facts, stems=stems)
    read = questions_of(sheet.text)
    assert [one.number for one in read] == list(range(1, len(facts) + 1))
    assert [one.text for one in read] == [clean(fact.question) for fact in facts]
    assert [tuple(one.options) for one in read] == list(sheet.labels)
    assert [tuple(one.options.values()) for one in read] == [
        tuple(map(clean, fact.options)) for fact in facts
    ]
    assert len(sheet.text.splitlines()) == len(sheet.text.split("\n"))
    assert len(sheet.text) <= len(sheet_of(facts, stems=False).text)
    sheet.text.encode()


@given(ANY_TEXT)
def test_cleaning_twice_is_cleaning_once(text: str) -> None:
    assert clean(clean(text)) == clean(text)
    assert len(clean(text)) == len(text)


@given(st.text(st.characters(categories=("L", "N", "P", "Zs")), max_size=40))
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert clean(text) == text


def test_questions_are_capped() -> None:
    _, question, options = json.loads(sheet_of([choice("q" * 9999, "o" * 9999, "b")]).text)
    assert len(question) == MAX_QUESTION
    assert len(options[0]) == MAX_OPTION + len("A:")
    assert question.endswith("…")


def test_every_key_of_the_schema_is_required() -> None:
    schema = sheet_schema()
    items = schema["properties"]["answers"]["items"]
    assert set(items["required"]) == set(items["properties"])
    assert schema["additionalProperties"] is items["additionalProperties"] is False
    facts = facts_of(scene())
    assert sheet_of(facts).schema == sheet_schema(questions=len(facts))
    assert set(schema["required"]) == set(schema["properties"]) == {"answers", "why"}


def test_reasons_are_asked_for_where_they_are_wanted() -> None:
    facts = things("dog")
    asked = {reasons: sheet_of(facts, reasons=reasons) for reasons in REASONS}
    assert len({sheet.instructions for sheet in asked.values()}) == len(REASONS)
    assert "why" not in asked["none"].schema["properties"]
    assert asked["none"].schema["required"] == ["answers"]
    assert sheet_schema("all") == sheet_schema()
    assert asked["all"].schema == asked["doubted"].schema == sheet_schema(questions=1)


def test_what_cannot_be_asked_is_an_error() -> None:
    with pytest.raises(ValueError, match="a sheet needs a fact"):
        sheet_of([])
    with pytest.raises(ValueError, match="27 options"):
        labels_of(choice("q", *map(str, range(27))))
    assert labels_of(choice("q", *map(str, range(26))))[-1] == "Z"
