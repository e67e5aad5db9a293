"""What a replay of a cascade saves, and how often it agrees with the full panel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel.panel import Panel
from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import FactError
from scenewright.evals.judge_reports.cascade_replay import replay_cascade
from tests.agents.panel.test_cascade import FACTS, SPEC, answers


def test_a_replay_asks_the_dear_judge_only_what_the_cheap_one_is_unsure_of() -> None:
    given = answers(cheap=[0.95, 0.5, 0.05, 0.9, None, 0.9], dear=[0.9, 0.9, 0.4, 0.6, 0.7, 0.9])
    report = replay_cascade(FACTS, given, SPEC, Panel())
    # Full: three objects, of which the dog is surely absent (0.225), then RED and ON, by both.
    assert (report.full.calls, report.full.answers) == (4, 10)
    # Cascade: 3 + TABLE, then RED and ON + ON.
    assert (report.cascade.calls, report.cascade.answers) == (4, 7)
    assert report.cascade.tokens == 105 * 6
    assert report.cascade.usd == pytest.approx(4 * 0.001 + 2 * 0.01)
    assert report.saved["answers"] == pytest.approx(0.3)
    assert report.saved["calls"] == 0.0
    assert report.agreement() == 1.0
    assert (report.agreement("object"), report.kappa("object")) == (1.0, 1.0)


def test_where_the_cheap_judge_is_surely_wrong_the_verdicts_differ() -> None:
    given = answers(cheap=[0.05, 0.95, 0.95, 0.9, 0.9, 0.9], dear=[0.99, 0.9, 0.9, 0.9, 0.9, 0.9])
    report = replay_cascade(FACTS, given, SPEC, Panel())
    assert report.agreement("object") == pytest.approx(2 / 3)
    assert report.kappa("object") is not None
    # RED and ON are void without the ball.
    assert report.agreement("attribute") == 0.0
    assert report.agreement("relation") == 0.5
    assert report.saved["usd"] is not None
    assert report.saved["usd"] > 0.9
    twice = report + report
    assert twice.agreement() == report.agreement()
    assert twice.kappa() == report.kappa()
    assert twice.full.answers == 2 * report.full.answers


unit = st.floats(0, 1)


@given(st.lists(st.tuples(unit, unit), min_size=6, max_size=6))
def test_bounds_of_0_and_1_ask_everybody_everything(values: list[tuple[float, float]]) -> None:
    given = answers(cheap=[a for a, _ in values], dear=[b for _, b in values])
    everything = CascadeSpec(first=("cheap",), unsure=(0.0, 1.0))
    report = replay_cascade(FACTS, given, everything, Panel())
    assert report.full == report.cascade
    assert report.agreement() == 1.0
    some = replay_cascade(FACTS, given, SPEC, Panel())
    # Of an object of which the judges are unsure more is asked, which may be void in the end.
    asked_first = sum(n for (_, _, cascade), n in some.states.items() if cascade != "void")
    assert asked_first <= some.cascade.answers <= 2 * len(FACTS)


def test_below_the_quorum_the_others_are_asked() -> None:
    given = answers(cheap=[0.99] * 6, dear=[0.99] * 6)
    report = replay_cascade(FACTS, given, SPEC, Panel(quorum=2))
    assert report.saved["answers"] == 0.0


def test_a_replay_without_the_right_judges_is_an_error() -> None:
    with pytest.raises(FactError, match="no answers by cheap"):
        replay_cascade(FACTS, answers(dear=[0.9] * 6), SPEC, Panel())
    with pytest.raises(FactError, match="begins with all judges"):
        replay_cascade(FACTS, answers(cheap=[0.9] * 6), SPEC, Panel())
