"""The benchmark of the gate: its noise, its peers and its figures."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchmarks.gate import (
    LOSSES,
    RULE,
    GroupSequential,
    Noise,
    figures_of,
    gate,
    normal,
    pairs_of,
    t_values,
    trials_of,
)

STEPS = np.array([-0.5, -0.25, 0.0, 0.25, 0.5])
CHANCES = np.array([0.06, 0.12, 0.68, 0.1, 0.04])


def noise(n: int = 400) -> Noise:
    rng = np.random.default_rng(2)
    return Noise("old-new", rng.choice(STEPS, n, p=CHANCES), rng.random(n))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("mean", [0.0, -0.03, -0.1])
def test_tilting_gives_the_mean_and_keeps_the_values(mean: float, sign: float) -> None:
    values, weights = noise().tilted(mean, sign)
    assert float(weights @ values) == pytest.approx(mean, abs=1e-9)
    assert weights.sum() == pytest.approx(1.0)
    assert set(values) <= set(sign * STEPS)


def test_the_cases_have_their_means() -> None:
    found = trials_of(noise(), 1000, 0)
    means = {case: float(d.mean()) for case, d in found.drawn.items()}
    for loss in LOSSES[1:]:
        assert means[f"loss_{loss}"] == pytest.approx(-loss / 100, abs=0.002)
    assert means["failures"] == pytest.approx(-RULE.margin, abs=0.002)
    for case in ("same", "skewed", "mirrored"):
        assert means[case] == pytest.approx(0.0, abs=0.002)
    assert found.drawn["loss_3"].shape[1] >= 3 * found.size


def test_the_group_sequential_peer_has_the_errors_on_normal_differences() -> None:
    groups = GroupSequential(20_000)
    size = 300
    rng = np.random.default_rng(4)
    deviation = RULE.margin * np.sqrt(size) / 2.926
    for mean, low, high in ((0.0, 0.03, 0.07), (-RULE.margin, 0.88, 0.93)):
        d = rng.normal(mean, deviation, (3000, groups.most(size)))
        worse, _, scenes = groups(d, size)
        assert low <= worse.mean() <= high
        assert scenes.mean() < size


@pytest.mark.parametrize("test", [gate, normal])
def test_each_test_decides_once(test: object) -> None:
    d = trials_of(noise(), 200, 1).drawn["loss_6"]
    worse, sound, scenes = test(d)
    assert not (worse & sound).any()
    assert worse.mean() > 0.9
    assert (scenes <= d.shape[1]).all()


def test_t_is_that_of_the_textbook() -> None:
    d = np.random.default_rng(0).normal(0.1, 1.0, (3, 50))
    expected = d.mean(1) / d.std(1, ddof=1) * np.sqrt(50)
    assert t_values(d)[:, -1] == pytest.approx(expected)


def test_pairs_have_the_worse_arm_second() -> None:
    scores = np.array([[0.9, 0.5, 0.7], [0.8, 0.6, 0.6], [np.nan, 0.5, 0.5]])
    found = {pair.name: pair for pair in pairs_of(scores, ("a", "b", "c"))}
    assert set(found) == {"a-b", "a-c", "c-b"}
    assert found["c-b"].differences == pytest.approx([-0.2, 0.0])
    assert found["a-b"].difficulty == pytest.approx([0.7, 0.6])


def test_the_figures_are_complete_and_plain() -> None:
    found = figures_of([noise(), noise(300)], 200, GroupSequential(2000))
    assert json.loads(json.dumps(found)) == found
    assert 0.8 < found["power"]["mean"] <= 1.0
    assert found["false_alarms"]["mean"] < 0.1
    for name in ("sample_share", "sample_share.failures", "sample_share.loss_0", "scenes"):
        assert found[name]["mean"] > 0
    for peer in ("normal", "group_sequential"):
        assert 0.7 < found[f"{peer}.power"]["mean"] <= 1.0
    assert found["peeking.false_alarms"]["mean"] > found["fixed.false_alarms"]["mean"]
