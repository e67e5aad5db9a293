"""The sequential test of a gate: its errors, and what its decisions depend on."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.statistics.sequential import (
    Rule,
    crossings,
    decide,
    fixed_size,
    log_wealth,
    mean_interval,
    oracle_share,
)

RULE = Rule()
TRIALS = 1500
# Differences of scenes with a few facts: most are 0, the others are steps of an eighth.
STEPS = np.array([-0.5, -0.25, -0.125, 0.0, 0.125, 0.25, 0.5])
SAME = np.array([0.02, 0.05, 0.08, 0.7, 0.08, 0.05, 0.02])
"""Probabilities of the steps where nothing changed."""
differences = st.lists(st.floats(-1.0, 1.0), min_size=1, max_size=40)


def drawn(
    probabilities: np.ndarray, n: int, seed: int = 0, steps: np.ndarray = STEPS
) -> np.ndarray:
    return np.random.default_rng(seed).choice(steps, (TRIALS, n), p=probabilities)


def shares(d: np.ndarray, rule: Rule = RULE) -> tuple[float, float, float]:
    """Shares of "worse" and "not worse", and the mean number of scenes."""
    worse, sound = crossings(d, rule)
    end = np.minimum(np.minimum(worse, sound), d.shape[1])
    return (
        float((worse < sound).mean()),
        float((sound < worse).mean()),
        float(end.mean()),
    )


def lost(points: float) -> np.ndarray:
    """The same steps with so many points less on average: gains become losses."""
    flipped = points / (2 * float((SAME * STEPS)[4:].sum()))
    moved = SAME[4:] * flipped
    found = SAME.copy()
    found[4:] -= moved
    found[:3] += moved[::-1]
    assert math.isclose(float((found * STEPS).sum()), -points)
    return found


def test_false_alarms_are_rare_however_often_one_looks() -> None:
    worse, _, _ = shares(drawn(SAME, 600))
    # Three standard errors of a share of .05 in so many trials.
    assert worse <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / TRIALS)
    # Looking at the fixed test after each scene would not be.
    d = drawn(SAME, 600)
    n = np.arange(1, 601)
    t = np.cumsum(d, 1) / np.sqrt(np.maximum(np.cumsum(d * d, 1), 1e-9))
    assert (t[:, n >= 20] < -1.645).any(1).mean() > 0.15


def test_a_loss_of_the_margin_is_found_sooner_than_by_a_fixed_sample() -> None:
    d = drawn(lost(RULE.margin), 600)
    worse, sound, scenes = shares(d)
    size = fixed_size(float(d.std()), RULE)
    assert worse >= RULE.power - 0.02
    assert sound <= 1 - RULE.power + 0.02
    assert oracle_share(RULE) * size * 0.8 < scenes < 0.85 * size


def test_a_larger_loss_is_found_much_sooner() -> None:
    _, _, scenes = shares(drawn(lost(RULE.margin), 600))
    worse, _, sooner = shares(drawn(lost(2 * RULE.margin), 600))
    assert worse > 0.99
    assert sooner < 0.6 * scenes


def test_a_candidate_without_a_loss_is_passed() -> None:
    _, sound, scenes = shares(drawn(SAME, 600))
    assert sound > 0.9
    assert scenes < fixed_size(float((SAME * STEPS**2).sum() ** 0.5), RULE)


def test_the_wealth_is_a_supermartingale_where_its_hypothesis_holds() -> None:
    """The mean of both processes stays at 1 or below, after every number of scenes."""
    rare = np.array([0.0, 0.25, -0.25, 0.6, -0.6]), np.array([0.9, 0.03, 0.03, 0.02, 0.02])
    # A few scenes gain all that can be gained, the others lose a little.
    repairing = np.array([1.0, -0.03 / 0.97]), np.array([0.03, 0.97])
    for steps, chances in (rare, repairing):
        worse, _ = log_wealth(drawn(chances, 60, steps=steps), RULE)
        wealth = np.exp(worse)
        error = wealth.std(0) / math.sqrt(TRIALS)
        assert (wealth.mean(0) <= 1 + 4 * error).all()
    # Against the other hypothesis: the mean is just at −margin, with the loss in rare scenes.
    sparse = np.array([-1.0, 0.0])
    _, sound = log_wealth(drawn(np.array([0.03, 0.97]), 60, steps=sparse), RULE)
    wealth = np.exp(sound)
    assert (wealth.mean(0) <= 1 + 4 * wealth.std(0) / math.sqrt(TRIALS)).all()


@given(differences, st.floats(0.005, 0.5))
def test_one_step_of_either_bet_is_fair(before: list[float], margin: float) -> None:
    """Given the past, no symmetric difference and no difference of mean −margin gains anything."""
    rule = Rule(margin=margin)
    start = [x[-1] for x in log_wealth(before, rule)]

    def after(d: float) -> tuple[float, float]:
        worse, sound = log_wealth([*before, d], rule)
        return math.exp(worse[-1] - start[0]), math.exp(sound[-1] - start[1])

    for size in (0.05, 0.5, 1.0):
        assert (after(size)[0] + after(-size)[0]) / 2 == pytest.approx(1.0)
    # −1 with probability p, else 0, has the mean −margin at p = margin.
    fair = margin * after(-1.0)[1] + (1 - margin) * after(0.0)[1]
    assert fair == pytest.approx(1.0)


@given(differences, st.integers(0, 40))
def test_a_decision_does_not_change_with_further_scenes(d: list[float], more: int) -> None:
    first = decide(d, RULE)
    later = decide([*d, *np.linspace(-1, 1, more)], RULE)
    if first.decision != "undecided":
        assert (later.decision, later.at) == (first.decision, first.at)
    else:
        assert later.decision == "undecided" or later.at > len(d)


@given(differences)
def test_crossings_and_decide_agree(d: list[float]) -> None:
    found = decide(d, RULE)
    worse, sound = (int(x[0]) for x in crossings([d], RULE))
    if found.decision == "undecided":
        assert min(worse, sound) > len(d)
    else:
        assert found.at == min(worse, sound)
        assert (found.decision == "worse") == (worse <= sound)


def test_the_interval_holds_the_mean_whenever_one_stops() -> None:
    rng = np.random.default_rng(3)
    missed = 0
    for _ in range(60):
        d = rng.choice(STEPS, 150, p=SAME)
        low, high = mean_interval(d, RULE, step=0.005)
        missed += not low <= 0.0 <= high
    assert missed <= 6
    assert mean_interval([], RULE) == (-1.0, 1.0)


def test_the_interval_does_not_depend_on_the_sign() -> None:
    d = np.random.default_rng(5).choice(STEPS, 80, p=lost(0.03))
    low, high = mean_interval(d, RULE)
    assert mean_interval(-d, RULE) == pytest.approx((-high, -low))
    assert low <= d.mean() <= high


def test_the_fixed_size_is_that_of_the_textbook() -> None:
    # (1.645 + 1.282)² · 0.2² / 0.03² = 380.6
    assert fixed_size(0.2, RULE) == 381
    assert 0.55 < oracle_share(RULE) < 0.56


@pytest.mark.parametrize("field", ["margin", "alpha", "power"])
@pytest.mark.parametrize("value", [-0.1, 0.0, 1.0, math.nan])
def test_a_rule_has_possible_values(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=field):
        Rule(**{field: value})


@pytest.mark.parametrize("wrong", [[0.0, 1.1], [math.nan]])
def test_differences_are_those_of_scores_between_0_and_1(wrong: list[float]) -> None:
    with pytest.raises(ValueError, match="between −1 and 1"):
        log_wealth(wrong, RULE)


def test_without_differences_nothing_is_decided() -> None:
    assert decide([], RULE).decision == "undecided"
