"""Questions by a language model: kept replies, and that what cannot be used is counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.datasets import dsg as dsg_set
from scenewright.evals.datasets import prompt_sets as tifa_set
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.store.ledger import Ledger
from scenewright.evals.studies.peers import questions
from scenewright.evals.studies.peers.questions import (
    DsgMaker,
    ItemQuestions,
    QuestionMaker,
    TifaMaker,
    read_questions,
    read_tuples,
    word_f1,
)
from tests.agents.replying import ReplyingChat

TEXT = "a red dog and two balls"


def made(
    folder: Path,
    replies: Sequence[Any],
    maker: Callable[[Ledger, TextModel], QuestionMaker],
    about: str = TEXT,
) -> tuple[ItemQuestions, ReplyingChat]:
    chat = ReplyingChat(replies=list(replies))
    with Ledger(folder / "q.db") as ledger:
        found = asyncio.run(maker(ledger, TextModel("replying", chat)).make(about))
    return found, chat


def question(words: str, answer: str = "yes", *others: str, kind: str = "object") -> dict[str, Any]:
    choices = [answer, *others] if others else ["yes", "no"]
    return {
        "element": "e", "type": kind, "question": words, "choices": choices, "answer": answer
    }  # fmt: skip


DOG = question("is there a dog?", kind="animal")
COLOUR = question("what color is the dog?", "red", "blue", "green", kind="color")
BALLS = question("how many balls are there?", "2", "1", "3", kind="counting")
GOOD = {"questions": [DOG, COLOUR, BALLS]}


def choices(*said: str) -> dict[str, Any]:
    return {"answers": [{"number": n, "choice": one} for n, one in enumerate(said, start=1)]}


def answers(*said: str) -> dict[str, Any]:
    return {"answers": [{"number": n, "answer": one} for n, one in enumerate(said, start=1)]}


def test_questions_stay_whose_choice_the_text_gives(tmp_path: Path) -> None:
    found, chat = made(tmp_path, [GOOD, choices("Yes", "blue", "2")], TifaMaker)
    assert [fact.question for fact in found.facts] == [
        "Is there a dog?",
        "How many balls are there?",
    ]
    assert [(fact.expected, fact.key) for fact in found.facts] == [
        ("yes", "animal/human"),
        ("2", "counting"),
    ]
    assert found.dropped == {questions.OTHER_CHOICE: 1}
    # The model that filters is not told which choice was meant to be right.
    assert '"answer"' not in chat.said()
    again, chat = made(tmp_path, [RuntimeError("not called")], TifaMaker)
    assert (again.facts, again.dropped, chat.sent) == (found.facts, found.dropped, [])


def test_free_answers_must_say_the_same_words(tmp_path: Path) -> None:
    def both(ledger: Ledger, model: TextModel) -> TifaMaker:
        return TifaMaker(ledger, model, "both")

    replies = [GOOD, choices("yes", "red", "2"), answers("a dark blue", "two")]
    found, _ = made(tmp_path, replies, both)
    assert [fact.expected for fact in found.facts] == ["yes", "2"]
    assert found.dropped == {questions.OTHER_WORDS: 1}


def test_without_a_filter_all_stay(tmp_path: Path) -> None:
    found, chat = made(tmp_path, [GOOD], lambda ledger, model: TifaMaker(ledger, model, "none"))
    assert (len(found.facts), len(chat.sent)) == (3, 1)


def test_what_the_filter_leaves_out_is_counted_once(tmp_path: Path) -> None:
    half = {"answers": [{"number": 1, "choice": "yes"}, {"number": 9, "choice": "x"}]}
    found, chat = made(tmp_path, [GOOD, half, half], TifaMaker)
    assert [fact.question for fact in found.facts] == ["Is there a dog?"]
    assert found.dropped == {questions.MISSING: 2, questions.UNKNOWN_NUMBER: 1}
    # Once for the questions, twice for the filter: it was told what was wrong.
    assert len(chat.sent) == 3
    assert questions.MISSING in chat.said()


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("no row", questions.NO_ROW),
        ({**DOG, "question": " "}, questions.NO_QUESTION),
        ({**DOG, "type": "verb"}, questions.UNKNOWN_TYPE),
        ({**DOG, "choices": ["yes"]}, tifa_set.FEW_CHOICES),
        ({**DOG, "choices": ["yes", "Yes"]}, tifa_set.FEW_CHOICES),
        ({**DOG, "choices": "yes, no"}, tifa_set.FEW_CHOICES),
        ({**DOG, "answer": "maybe"}, tifa_set.WRONG_ANSWER),
        ({**COLOUR, "question": DOG["question"].upper()}, tifa_set.TWICE),
    ],
)
def test_unusable_questions_are_counted(row: Any, why: str, tmp_path: Path) -> None:
    lost: Counter[str] = Counter()
    assert len(read_questions({"questions": [DOG, row]}, lost)) == 1
    assert lost == {why: 1}
    bad = {"questions": [DOG, row]}
    found, chat = made(tmp_path, [bad, bad, choices("yes")], TifaMaker)
    assert (len(found.facts), found.dropped) == (1, {why: 1})
    assert why in chat.said(1)


def test_a_model_that_fails_is_asked_again(tmp_path: Path) -> None:
    with pytest.raises(MetricError, match=r"replying wrote no questions \(tifa_questions\)"):
        made(tmp_path, ["no idea"], TifaMaker)
    found, _ = made(tmp_path, [GOOD, choices("yes", "red", "2")], TifaMaker)
    assert len(found.facts) == 3


@pytest.mark.parametrize(
    ("said", "expected", "value"),
    [
        ("two", "2", 1.0),
        ("red", "Red", 1.0),
        ("a red dog", "red", 0.5),
        ("dark red", "bright red", 0.5),
        ("blue", "red", 0.0),
        ("", "red", 0.0),
    ],
)
def test_f1_of_words(said: str, expected: str, value: float) -> None:
    assert word_f1(said, expected) == value


@given(st.lists(st.sampled_from("abc"), max_size=5), st.lists(st.sampled_from("abc"), max_size=5))
def test_f1_is_symmetric_and_one_for_the_same_words(one: list[str], other: list[str]) -> None:
    value = word_f1(" ".join(one), " ".join(other))
    assert 0.0 <= value <= 1.0
    assert value == word_f1(" ".join(other), " ".join(one))
    assert (value == 1.0) == (bool(one) and Counter(one) == Counter(other))


def tuple_(id_: Any, category: str, kind: str, *arguments: str) -> dict[str, Any]:
    return {"id": id_, "category": category, "kind": kind, "arguments": list(arguments)}


TUPLES = {
    "tuples": [
        tuple_(1, "entity", "whole", "dog"),
        tuple_(2, "attribute", "color", "dog", "red"),
        tuple_(3, "entity", "whole", "balls"),
        tuple_(4, "relation", "spatial", "dog", "balls", "next to"),
    ]
}


def depends(*parents: Sequence[Any]) -> dict[str, Any]:
    return {"dependencies": [{"id": n, "parents": list(p)} for n, p in enumerate(parents, 1)]}


def asks(*words: str) -> dict[str, Any]:
    return {"questions": [{"id": n, "question": one} for n, one in enumerate(words, 1)]}


ASKS = asks("Is there a dog?", "Is the dog red?", "Are there balls?", "Is the dog next to balls?")


def test_a_graph_of_questions_in_three_steps(tmp_path: Path) -> None:
    found, chat = made(tmp_path, [TUPLES, depends([], [1], [], [1, 3]), ASKS], DsgMaker)
    assert len(chat.sent) == 3
    by_id = {fact.id: fact for fact in found.facts}
    assert {id_: fact.parents for id_, fact in by_id.items()} == {
        "1": (),
        "2": ("1",),
        "3": (),
        "4": ("1", "3"),
    }
    four = by_id["4"]
    assert (four.kind, four.subject, four.predicate, four.target) == (
        "relation",
        "dog.1",
        "next to",
        "balls.1",
    )
    assert (by_id["2"].key, by_id["2"].value) == ("color", "red")
    assert found.dropped == {}
    again, chat = made(tmp_path, [RuntimeError("not called")], DsgMaker)
    assert (again.facts, chat.sent) == (found.facts, [])


def test_dependencies_that_cannot_be_are_cut_and_counted(tmp_path: Path) -> None:
    # 1 and 2 depend on each other, 3 on itself and on what is not there, 4 on a word.
    bad: Mapping[str, Any] = depends([2], [1], [3, 9], ["dog"])
    found, _ = made(tmp_path, [TUPLES, bad, bad, ASKS], DsgMaker)
    parents = {fact.id: fact.parents for fact in found.facts}
    assert sorted(parents) == ["1", "2", "3", "4"]
    assert parents["3"] == parents["4"] == ()
    assert sorted(map(len, (parents["1"], parents["2"]))) == [0, 1]
    assert found.dropped == {
        dsg_set.CIRCLE: 1,
        dsg_set.ITSELF: 1,
        dsg_set.LOST: 1,
        questions.NO_PARENT: 1,
    }
    order = [fact.id for fact in found.facts]
    assert all(order.index(p) < order.index(f.id) for f in found.facts for p in f.parents)


def test_a_tuple_without_a_question_gives_its_place_to_its_parents(tmp_path: Path) -> None:
    chain = depends([], [1], [2], [3])
    without = asks("Is there a dog?", "", "What is there?", "Is the dog next to balls?")
    found, _ = made(tmp_path, [TUPLES, chain, without], DsgMaker)
    assert {fact.id: fact.parents for fact in found.facts} == {"1": (), "4": ("1",)}
    assert found.dropped == {dsg_set.NO_QUESTION: 1, dsg_set.NOT_BINARY: 1}


def test_a_text_of_nothing_has_no_questions(tmp_path: Path) -> None:
    found, chat = made(tmp_path, [{"tuples": []}], DsgMaker)
    assert (found.facts, len(chat.sent)) == ((), 1)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (tuple_("2", "entity", "whole", "cat"), questions.NO_ID),
        (tuple_(True, "entity", "whole", "cat"), questions.NO_ID),
        (tuple_(1, "entity", "whole", "cat"), questions.NO_ID),
        (tuple_(2, "thing", "whole", "cat"), questions.UNKNOWN_CATEGORY),
        (tuple_(2, "entity", "whole", " "), questions.NO_ARGUMENTS),
        (tuple_(2, "entity", "whole", "Dog"), questions.SAME_TUPLE),
    ],
)
def test_unusable_tuples_are_counted(row: dict[str, Any], why: str) -> None:
    lost: Counter[str] = Counter()
    found = read_tuples({"tuples": [tuple_(1, "entity", "whole", "dog"), row]}, lost)
    assert found == {"1": "entity - whole (dog)"}
    assert lost == {why: 1}


def test_brackets_and_commas_cannot_break_a_tuple() -> None:
    row = tuple_(1, "attribute", "text (sign)", "sign", "no (dogs), please")
    found = read_tuples({"tuples": [row]}, Counter())
    assert found == {"1": "attribute - text sign (sign, no dogs please)"}


def test_other_models_and_filters_are_other_questions(tmp_path: Path) -> None:
    one, other = (TextModel("m", ReplyingChat(replies=["x"], model=name)) for name in "ab")
    with Ledger(tmp_path / "q.db") as ledger:
        makers: list[QuestionMaker] = [
            TifaMaker(ledger, one),
            TifaMaker(ledger, one, "both"),
            TifaMaker(ledger, other),
            DsgMaker(ledger, one),
            DsgMaker(ledger, other),
        ]
        assert len({maker.fingerprint for maker in makers}) == len(makers)
        with pytest.raises(MetricError, match="filter"):
            TifaMaker(ledger, one, "some")
