"""Raw answers of decision models, and the states they end in."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.decisions.questions import (
    MISSING,
    REFUSED,
    Decided,
    DecisionReading,
    DecisionSheet,
    JsonObject,
    Question,
    decide,
    parse_json,
    parts_of,
    read_listed,
    read_named,
    sheet_of,
)
from scenewright.core.questions import facts_of, realism_facts_of
from scenewright.providers.clients.base import MalformedReply
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from tests.agents.judges.conformance import scene

FACTS = (*facts_of(scene()), *realism_facts_of(scene()))
YES_NO = Question("f1", "yes_no", "Is it?", (("yes", ""), ("no", "")))
CHOICE = Question("f2", "choice", "Which?", (("on", ""), ("under", ""), ("none", "")))
SHARES = st.lists(st.floats(0.001, 1.0), min_size=2, max_size=12)


def spread(*pairs: tuple[str, object], choice: object = None) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "choice", "probabilities": JsonObject(pairs)}
    return found if choice is None else {**found, "choice": choice}


def answers_to(sheet: DecisionSheet, first: float = 0.75) -> list[tuple[str, dict[str, Any]]]:
    """An answer to each question that gives its first option ``first``."""
    found: list[tuple[str, dict[str, Any]]] = []
    for question in sheet.questions:
        rest = (1 - first) / (len(question.options) - 1)
        shares = [(value, first if at == 0 else rest) for at, value in enumerate(question.values)]
        answer: dict[str, Any] = {"type": "noul", "noul": first}
        if question.kind != "yes_no":
            answer = {"type": question.kind, "probabilities": JsonObject(shares)}
        found.append((question.name, answer))
    return found


def listed(sheet: DecisionSheet, *, named: bool = True) -> list[dict[str, Any]]:
    """The same answers in a list, each with its name."""
    return [{**answer, **({"name": name} if named else {})} for name, answer in answers_to(sheet)]


LISTED = {"type": "choice", "probabilities": [{"value": True, "probability": 0.5}]}


@pytest.mark.parametrize(
    ("question", "answer", "reason"),
    [
        (YES_NO, {"type": "refusal"}, REFUSED),
        (YES_NO, 7, "answered 7"),
        (YES_NO, {"type": "score"}, "answered a score where a yes_no was asked"),
        (YES_NO, {"noul": 1.2}, "gave the probability 1.2"),
        (YES_NO, {"noul": True}, "gave the probability True"),
        (YES_NO, {"noul": None}, "gave the probability None"),
        (YES_NO, {"noul": "0.9"}, "gave the probability '0.9'"),
        (YES_NO, {"noul": float("nan")}, "probability nan"),
        (YES_NO, {"type": "predicate", "noul": 0.5}, "gave the probability None"),
        (CHOICE, {"type": "choice"}, "gave as probabilities None"),
        (CHOICE, spread(("on", 0.5), ("under", 0.5)), "gave no probability to 'none'"),
        (CHOICE, spread(("on", 0.5), ("off", 0.5)), "'off': not one of the options"),
        (CHOICE, LISTED, "True: not one of the options"),
        (CHOICE, spread(("on", 0.5), ("on", 0.5)), "gave two probabilities to 'on'"),
        (CHOICE, spread(("on", -0.1), ("under", 0.5), ("none", 0.6)), "probability -0.1"),
        (CHOICE, spread(("on", 0.5), ("under", 0.2), ("none", 0.2)), "add up to 0.9"),
        (
            CHOICE,
            spread(("on", 0.7), ("under", 0.2), ("none", 0.1), choice="under"),
            "answered 'under', but gave 'on' more",
        ),
        (
            CHOICE,
            spread(("on", 0.7), ("under", 0.2), ("none", 0.1), choice="off"),
            "answered 'off': not one of the options",
        ),
    ],
)
def test_what_is_no_answer_says_why(question: Question, answer: Any, reason: str) -> None:
    decided = decide(question, answer)
    assert decided.shares is None
    assert reason in decided.reason
    assert decided.final == (reason == REFUSED)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.99, 1.0])
def test_the_ends_and_clipped_values_stay(share: float) -> None:
    for answer in ({"noul": share}, {"type": "predicate", "probability": share}):
        assert decide(YES_NO, answer).shares == (share, 1 - share)


@given(SHARES, st.integers(2, 4))
def test_rounding_is_tolerated_and_mended(weights: list[float], digits: int) -> None:
    total = sum(weights)
    exact = [weight / total for weight in weights]
    question = Question("f2", "choice", "?", tuple((f"o{at}", "") for at in range(len(exact))))
    given_ = ((f"o{at}", round(share, digits)) for at, share in enumerate(exact))
    shares = decide(question, spread(*given_)).shares
    assert shares is not None
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    assert shares == pytest.approx(exact, abs=0.03 * len(exact))


def test_an_answer_that_rounding_makes_equal_is_no_contradiction() -> None:
    raw = spread(("on", 0.34), ("under", 0.33), ("none", 0.33), choice="under")
    assert decide(CHOICE, raw).shares == pytest.approx((0.34, 0.33, 0.33))


@given(st.integers(0, 10**6))
def test_a_shuffled_list_ends_as_one_in_order(seed: int) -> None:
    sheet = sheet_of(FACTS, 2, turns=True)
    given_ = listed(sheet)
    shuffled = random.Random(seed).sample(given_, len(given_))
    assert read_listed(sheet.questions, shuffled) == read_listed(sheet.questions, given_)


def test_names_that_are_left_out_go_by_their_places() -> None:
    sheet = sheet_of(FACTS)
    bare = listed(sheet, named=False)
    assert read_listed(sheet.questions, bare) == read_listed(sheet.questions, listed(sheet))


def test_a_list_without_names_that_is_too_short_matches_nothing() -> None:
    sheet = sheet_of(FACTS)
    found = read_listed(sheet.questions, listed(sheet, named=False)[1:])
    assert {one.shares for one in found} == {None}
    assert all("one without a name" in one.reason for one in found)


def test_missing_unknown_and_doubled_names_cost_their_questions_alone() -> None:
    sheet = sheet_of(FACTS[:4])
    first, second, third, _ = answers_to(sheet)
    other = ("f9", {"noul": 0.1})
    found = read_named(sheet.questions, [first, second, second, third, other])
    assert [one.shares is None for one in found] == [False, True, False, True]
    assert found[1].reason == "was answered 2 times"
    assert found[3].reason == f"{MISSING}, but 'f9'"


def test_parts_hold_the_probability_of_the_expected_option() -> None:
    sheet = sheet_of(FACTS)
    reading = DecisionReading(read_listed(sheet.questions, listed(sheet)), Usage())
    for fact, question, part in zip(FACTS, sheet.questions, parts_of(reading, sheet), strict=True):
        assert part.method == "decision"
        assert part.probability is not None
        if question.kind == "choice":
            assert part.distribution is not None
            assert list(part.distribution) == list(fact.options)
            assert part.probability == part.distribution[fact.expected]
            assert part.choice == fact.options[0]
        elif question.kind == "yes_no":
            assert (part.choice, part.probability, part.distribution) == ("yes", 0.75, None)
        else:
            # Levels 0 to 4 with 0.75 at the least, the rest evenly: (1 + 2 + 3 + 4) / 16 / 4.
            assert part.probability == pytest.approx(10 / 64)
            assert part.choice == "no"


def test_two_orders_take_out_what_the_first_place_gets() -> None:
    sheet = sheet_of(FACTS, 2, turns=True)
    # Whoever stands first gets 0.75: an answer of the order alone.
    reading = DecisionReading(read_listed(sheet.questions, listed(sheet)), Usage())
    for fact, part in zip(FACTS, parts_of(reading, sheet), strict=True):
        if fact.kind in ("object", "attribute"):
            assert part.probability == pytest.approx(0.5)
        elif fact.kind == "relation":
            assert part.distribution is not None
            *shares, _ = part.distribution.values()
            assert shares == pytest.approx(shares[::-1])


def test_one_order_of_two_that_failed_leaves_the_other() -> None:
    sheet = sheet_of(FACTS[:1], 2, turns=True)
    answers = (Decided(reason="x"), Decided((0.2, 0.8)))
    part = parts_of(DecisionReading(answers, Usage()), sheet)[0]
    assert (part.choice, part.probability) == ("yes", 0.8)


def test_refusals_are_final_and_stand_beside_answers() -> None:
    sheet = sheet_of(FACTS[:2])
    answers = (Decided(reason=REFUSED, final=True), Decided((0.9, 0.1)))
    refused, answered = parts_of(DecisionReading(answers, Usage()), sheet)
    assert (refused.choice, refused.reason, refused.final) == (None, REFUSED, True)
    assert answered.choice == "yes"


def test_a_reply_of_refusals_alone_is_read_and_one_without_use_is_not() -> None:
    sheet = sheet_of(FACTS[:2])
    refused = Decided(reason=REFUSED, final=True)
    parts = parts_of(DecisionReading((refused, refused), Usage()), sheet)
    assert [part.reason for part in parts] == [REFUSED, REFUSED]
    with pytest.raises(UnusableReply, match="no usable answer: x"):
        parts_of(DecisionReading((refused, Decided(reason="x")), Usage(tokens_in=5)), sheet)


def test_keys_that_stand_twice_are_seen() -> None:
    found = parse_json('{"a": {"b": 1, "b": 2}, "c": 3}')
    assert isinstance(found, JsonObject)
    assert found["a"].pairs == (("b", 1), ("b", 2))
    assert found["a"] == {"b": 2}
    assert [key for key, _ in found.pairs] == ["a", "c"]
    with pytest.raises(MalformedReply, match="no JSON"):
        parse_json("{")
