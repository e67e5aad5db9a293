"""Whether a change gains facts and loses none, by the answers of judges that err."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel.change import ASSUMED, FIXED, LOSS, change_between, evidence_of
from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Answer, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of

BALL = facts_of(load_scene("ball"))[0]


def answer(judge: str, probability: float) -> Answer:
    holds = probability > 0.5
    return Answer(
        fact_id=BALL.id,
        judge_id=judge,
        state="yes" if holds else "no",
        probability=probability,
        method="logprob",
    )


def verdicts(**states: str) -> dict[str, Verdict]:
    return {name: Verdict(fact_id=name, state=state) for name, state in states.items()}


def test_the_evidence_of_judges_adds_up() -> None:
    sensitivity, specificity = ASSUMED
    yes = math.log(sensitivity / (1 - specificity))
    no = math.log((1 - sensitivity) / specificity)
    panel = Panel()
    assert evidence_of(BALL, [answer("a", 1.0)], panel) == pytest.approx(yes)
    assert evidence_of(BALL, [answer("a", 1.0), answer("b", 0.0)], panel) == pytest.approx(yes + no)
    assert evidence_of(BALL, [], panel) == 0.0
    silent = Answer(fact_id=BALL.id, judge_id="a", state="unscored", reason="busy")
    assert evidence_of(BALL, [silent], panel) == 0.0


def test_the_odds_are_those_of_bayes() -> None:
    change = change_between(["x"], {"y": 0.1}, verdicts(x="yes", y="yes"), {"x": 2.0, "y": 1.0})
    gained = 1 / (1 + math.exp(-(math.log(FIXED / (1 - FIXED)) + 2.0)))
    kept = 1 / (1 + math.exp(-(math.log(9.0) + 1.0)))
    better = gained * kept
    assert change.log_odds == pytest.approx(math.log(better / (1 - better)))
    assert change.expected == pytest.approx(gained - (1 - kept))
    assert (change.gained, change.lost) == (("x",), ())


def test_a_lost_fact_weighs_as_much_as_the_judges_know() -> None:
    after = verdicts(x="yes", y="no")
    sure = change_between(["x"], {"y": 0.1}, after, {"x": 5.0, "y": -5.0})
    unsure = change_between(["x"], {"y": 0.1}, after, {"x": 5.0, "y": -0.1})
    assert sure.lost == unsure.lost == ("y",)
    assert sure.log_odds < 0 < unsure.log_odds


@given(gains=st.lists(st.floats(-6, 6), max_size=5), losses=st.lists(st.floats(-6, 6), max_size=5))
def test_a_change_is_worth_what_it_gains_less_three_times_what_it_loses(
    gains: list[float], losses: list[float]
) -> None:
    missing = [f"x{at}" for at in range(len(gains))]
    held = {f"y{at}": 0.1 for at in range(len(losses))}
    evidence = dict(zip([*missing, *held], [*gains, *losses], strict=True))
    after = verdicts(**{name: "yes" if found > 0 else "no" for name, found in evidence.items()})
    change = change_between(missing, held, after, evidence)
    found = sum(1 / (1 + math.exp(-odds)) for odds in gains if odds > 0)
    gone = sum(1 / (1 + 9 * math.exp(odds)) for odds in losses)
    assert change.expected == pytest.approx(found - gone)
    assert change.worth == pytest.approx(found - LOSS * gone)
    # A change that loses nothing more is worth no less.
    assert change.worth <= change_between(missing, {}, after, evidence).worth


def test_nothing_gained_is_never_better() -> None:
    change = change_between(["x"], {}, verdicts(x="no"), {"x": 5.0})
    assert change.log_odds < -10
    assert change.expected == 0


def test_evidence_for_what_the_panel_does_not_find_does_not_count() -> None:
    void = change_between(["x"], {"y": 0.2}, verdicts(x="yes", y="void"), {"x": 5.0, "y": 5.0})
    none = change_between(["x"], {"y": 0.2}, verdicts(x="yes", y="void"), {"x": 5.0})
    assert void.log_odds == none.log_odds
