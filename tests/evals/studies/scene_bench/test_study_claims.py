"""Verdicts follow from intervals by the rule that is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.paper import Claim, Printed, Side, Verdict, replication_answer


def claim(side: Side, low: float | None, high: float | None, n: int = 50, **more: float) -> Claim:
    middle = 0.0 if low is None or high is None else (low + high) / 2
    return Claim(
        where="Table 4",
        says="feedback helps",
        side=side,
        measured=Estimate(value=middle, low=low, high=high, n=n),
        **more,
    )


@pytest.mark.parametrize(
    ("side", "low", "high", "verdict"),
    [
        ("above", 0.1, 2.0, "agrees"),
        ("above", -2.0, -0.1, "disagrees"),
        ("above", -0.1, 2.0, "open"),
        ("above", 0.0, 2.0, "open"),
        ("below", -2.0, -0.1, "agrees"),
        ("below", 0.1, 2.0, "disagrees"),
        ("above", None, None, "open"),
    ],
)
def test_directions(side: Side, low: float | None, high: float | None, verdict: Verdict) -> None:
    assert claim(side, low, high).verdict == verdict


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (-4.0, 4.9, "agrees"),
        (5.1, 9.0, "disagrees"),
        (-9.0, -5.1, "disagrees"),
        (-6.0, 4.0, "open"),
    ],
)
def test_margins(low: float, high: float, verdict: Verdict) -> None:
    assert claim("within", low, high, margin=5.0).verdict == verdict


@given(st.sampled_from(["above", "below", "within"]), st.floats(-50, 50), st.integers(0, 9))
def test_few_items_or_items_all_alike_decide_nothing(side: Side, at: float, n: int) -> None:
    assert claim(side, at, at + 1.0, n=n, margin=99.0).verdict == "open"
    assert claim(side, at, at, n=1000, margin=99.0).verdict == "open"


def test_what_was_not_measured_says_why() -> None:
    found = Claim(
        where="Table 2", says="IS falls", side="below", measured=Estimate(reason="no pictures")
    )
    assert found.verdict == "not measured"
    assert found.sentence() == "**Not measured** (Table 2): IS falls: no pictures."


def test_the_sentence_holds_figure_interval_and_paper() -> None:
    found = Claim(
        where="Table 4",
        says="feedback raises SGScore",
        side="above",
        measured=Estimate(value=3.21, low=1.0, high=5.5, n=100),
        paper=(Printed(model="SDXL", value=3.03),),
        digits=2,
        note="It is so.",
    )
    assert found.sentence() == (
        "**Agrees** (Table 4): Feedback raises SGScore: here +3.21 [+1.00, +5.50] points, n = 100; "
        "paper SDXL +3.03. It is so."
    )
    thin = claim("above", 1.0, 2.0, n=4).sentence()
    assert "too few to decide" in thin
    assert "all alike" in claim("above", 0.0, 0.0).sentence()
    assert "within ± 5.0" in claim("within", 0.0, 1.0, margin=5.0).sentence()


def test_the_answer_is_the_main_statement_and_how_many_hold() -> None:
    claims = [claim("above", 0.1, 2.0), claim("below", 0.1, 2.0), claim("above", -1.0, 1.0)]
    answer = replication_answer(claims)
    assert answer.verdict == "agrees"
    assert answer.sentence == (
        "Feedback helps, as the paper says: +1.1 [+0.1, +2.0] points, n = 50. Of all 3 "
        "statements, 1 agree in direction, 1 disagree, 1 are open."
    )
    turned = replication_answer(claims[1:2])
    assert turned.verdict == "no agreement"
    assert turned.sentence.startswith("Unlike in the paper it does not hold that feedback helps: ")
    open_ = replication_answer([claim("above", 0.1, 2.0, n=9)])
    assert open_.verdict == "too little data"
    assert open_.sentence.startswith("Too little data to tell whether feedback helps: ")
    with pytest.raises(ValueError, match="no claim"):
        replication_answer([])
