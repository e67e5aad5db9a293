"""Stacked panels: what is learnt, what a calibration file keeps of it, and how a run uses it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scenewright.agents.panel.aggregation import Array, expit, log_odds
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import Calibration, CalibrationError, load_calibration
from scenewright.agents.panel.scores import score_intervals
from scenewright.agents.panel.stacking import (
    PanelStack,
    fit_stack,
    folds_of_groups,
    prior_log_odds,
    ridge_logistic,
)
from scenewright.core.facts import Answer, Fact

linear_model = pytest.importorskip("sklearn.linear_model")

BALL = Fact(id="ball", kind="object", subject="ball", statement="a ball", question="a ball?")
JUDGES = {"good": "1", "eager": "2", "copy": "3"}


def answers(n: int = 600, seed: int = 0) -> tuple[Array, Array, list[str]]:
    """What a good judge, an eager one and a copy of the eager one say; truth; kinds."""
    rng = np.random.default_rng(seed)
    truth = (rng.random(n) < 0.5).astype(float)
    good = np.where(rng.random(n) < 0.9, truth, 1.0 - truth)
    eager = (rng.random(n) < np.where(truth == 1.0, 0.95, 0.6)).astype(float)
    said = np.stack([good, eager, eager], 1) * 0.9 + 0.05
    return said, truth, [("object", "attribute")[at % 2] for at in range(n)]


def measured(n: int = 600) -> Calibration:
    """A calibration of the three."""
    said, truth, kinds = answers(n)
    rows = [
        LabelledAnswer(
            image=str(at // 6),
            fact_id=str(at),
            kind="object" if kinds[at] == "object" else "attribute",
            judge_id=judge,
            holds=bool(truth[at]),
            probability=float(said[at, column]),
        )
        for at in range(n)
        for column, judge in enumerate(JUDGES)
    ]
    panels = [("good", "eager"), ("good", "eager", "copy")]
    return calibrate(rows, judges=JUDGES, about="a test", panels=panels)


def stack_of(said: Array, truth: Array, kinds: list[str]) -> PanelStack:
    """Learnt of all."""
    return fit_stack(said, truth, kinds, tuple(JUDGES), np.arange(len(truth)) // 6)


def test_bare_votes_of_one_judge_get_the_log_odds_that_were_counted() -> None:
    # Of 1,000 facts that hold 900 got a yes, of 1,000 that do not 300.
    votes = np.repeat([1.0, 0.0, 1.0, 0.0], [900, 100, 300, 700])[:, None]
    truth = np.repeat([1.0, 0.0], 1000)
    stack = fit_stack(votes, truth, ["object"] * 2000, ("a",), np.arange(2000))
    found = stack.evidence(np.array([[1.0], [0.0]]), ["object"] * 2, ["a"])[:, 0]
    np.testing.assert_allclose(
        found + stack.intercept, [np.log(0.9 / 0.3), np.log(0.1 / 0.7)], atol=0.01
    )


def test_copies_together_weigh_what_the_original_weighs() -> None:
    said, truth, kinds = answers()
    stack = stack_of(said, truth, kinds)
    three = stack.evidence(said, kinds, tuple(JUDGES))
    plain = fit_stack(said[:, :2], truth, kinds, ("good", "eager"), np.arange(600) // 6)
    two = plain.evidence(said[:, :2], kinds, ("good", "eager"))
    np.testing.assert_allclose(
        stack.intercept + three.sum(1), plain.intercept + two.sum(1), atol=0.15
    )
    np.testing.assert_allclose(three[:, 1], three[:, 2])


def test_missing_answers_say_nothing_and_the_order_does_not_matter() -> None:
    said, truth, kinds = answers()
    stack = stack_of(said, truth, kinds)
    holed = said.copy()
    holed[::3, 1] = np.nan
    found = stack.evidence(holed, kinds, tuple(JUDGES))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(holed))
    turned = stack.evidence(holed[:, ::-1], kinds, tuple(JUDGES)[::-1])
    np.testing.assert_array_equal(turned, found[:, ::-1])
    assert np.isfinite(stack.evidence(said, ["realism"] * 600, tuple(JUDGES))).all()


def test_a_judge_without_answers_weighs_nothing() -> None:
    said, truth, kinds = answers()
    said[:, 2] = np.nan
    stack = stack_of(said, truth, kinds)
    assert stack.judges[2].weight == 0.0
    assert stack.judges[0].weight > 0.0


def test_one_truth_is_not_enough() -> None:
    said, truth, kinds = answers(60)
    with pytest.raises(ValueError, match="facts that do not"):
        stack_of(said, np.ones_like(truth), kinds)


def test_logistic_regression_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3))
    y = (rng.random(200) < expit(x @ np.array([1.0, -2.0, 0.0]))).astype(float)
    peer = linear_model.LogisticRegression(C=1.0 / 3.0, fit_intercept=False, tol=1e-10).fit(x, y)
    found = ridge_logistic(x, y, np.full(3, 3.0), np.zeros(3))
    np.testing.assert_allclose(found, peer.coef_[0], atol=1e-5)


def test_separable_answers_have_an_answer() -> None:
    x = np.array([[1.0, -5.0], [1.0, 5.0]])
    found = ridge_logistic(x, np.array([0.0, 1.0]), np.array([0.1, 0.1]), np.zeros(2))
    assert np.isfinite(found).all()
    assert found[1] > 0.0


def test_priors_are_drawn_towards_all_facts() -> None:
    truth = np.array([1.0] * 30 + [0.0] * 10)
    overall, of_kind = prior_log_odds(truth, ["object"] * 30 + ["relation"] * 10)
    share = 30.5 / 41.0
    assert overall == pytest.approx(np.log(share / (1.0 - share)))
    mine = (0.0 + 10.0 * share) / 20.0
    assert of_kind["relation"] == pytest.approx(np.log(mine / (1.0 - mine)))


def test_groups_share_a_fold() -> None:
    groups = np.repeat(np.arange(23), 4)
    folds = folds_of_groups(groups, 5)
    assert (folds.reshape(23, 4) == folds.reshape(23, 4)[:, :1]).all()
    assert np.bincount(folds).max() - np.bincount(folds).min() <= 4


def test_log_odds_stay_finite() -> None:
    found = log_odds(np.array([0.0, 0.5, 1.0, np.nan]))
    np.testing.assert_allclose(found[:3], [-np.log(999.0), 0.0, np.log(999.0)])
    assert np.isnan(found[3])


def said_of(judge: str, value: float) -> Answer:
    return Answer(
        fact_id="ball", judge_id=judge, state="yes" if value > 0.5 else "no", probability=value
    )


def test_a_stacked_panel_takes_the_weights_of_its_calibration(tmp_path: Path) -> None:
    calibration = measured()
    path = tmp_path / "calibration.json"
    calibration.save(path)
    panel = Panel("stacked", calibration=load_calibration(path))
    torn = panel.verdict(BALL, [said_of("good", 0.05), said_of("eager", 0.95)])
    assert torn.state == "no"
    stack = calibration.stack(("good", "eager"))
    assert stack.judge_ids == ("eager", "good")
    expected = stack.evidence(np.array([[0.05, 0.95]]), ["object"], ["good", "eager"]).sum()
    assert torn.probability == pytest.approx(float(expit(expected)))
    # Facts that hold and facts that do not are equally likely beforehand.
    agreed = panel.verdict(BALL, [said_of("good", 0.95), said_of("eager", 0.95)])
    assert agreed.probability is not None
    assert agreed.probability > 0.85


def test_the_smallest_measured_panel_that_holds_the_judges_is_taken() -> None:
    calibration = measured()
    assert len(calibration.stack(("good",)).judges) == 2
    assert len(calibration.stack(("copy", "good")).judges) == 3
    with pytest.raises(CalibrationError, match=r"no entry for new"):
        calibration.stack(("good", "new"))
    none = calibration.model_copy(update={"stacks": ()})
    with pytest.raises(CalibrationError, match=r"no weights.*scenewright judges calibrate"):
        Panel("stacked", calibration=none).verdict(BALL, [said_of("good", 0.9)])
    with pytest.raises(CalibrationError, match="a stacked panel needs a calibration"):
        Panel("stacked").verdict(BALL, [said_of("good", 0.9)])


def test_files_of_earlier_versions_are_read_and_keep_their_digest() -> None:
    calibration = measured(120).model_copy(update={"stacks": ()})
    old = calibration.model_dump(mode="json")
    del old["stacks"]
    again = Calibration.model_validate(old)
    assert again.stacks == ()
    assert again.digest == calibration.digest
    assert again.digest != measured(120).digest


def test_a_stack_of_unknown_judges_is_refused() -> None:
    calibration = measured(120).model_dump(mode="json")
    calibration["stacks"][0]["judges"][0]["judge_id"] = "stranger"
    with pytest.raises(ValueError, match="was not measured"):
        Calibration.model_validate(calibration)


def test_intervals_of_a_stacked_panel_hold_its_score() -> None:
    calibration = measured()
    panel = Panel("stacked", calibration=calibration)
    facts = [
        BALL.model_copy(update={"id": f"ball.{at}", "subject": f"ball.{at}"}) for at in range(6)
    ]
    table = {
        judge: [
            said_of(judge, value).model_copy(update={"fact_id": fact.id})
            for fact, value in zip(facts, values, strict=True)
        ]
        for judge, values in (
            ("good", (0.95, 0.95, 0.05, 0.95, 0.05, 0.95)),
            ("eager", (0.95, 0.95, 0.95, 0.95, 0.95, 0.05)),
        )
    }
    verdicts = panel.verdicts(facts, table)
    share = sum(verdict.state == "yes" for verdict in verdicts) / 6
    found = score_intervals(facts, table, verdicts, panel, resamples=200)
    assert found.objects is not None
    assert found.objects[0] <= share <= found.objects[1]
