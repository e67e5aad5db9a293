"""Measures of aggregators against plain computations of each resample, and Holm's correction."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import (
    brier_score,
    expected_calibration_error,
    mean_probability,
)
from scenewright.evals.statistics.estimates import holm
from scenewright.evals.statistics.figures import Figure, side_of_zero
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.studies.panel.attacks import NOISE, noisy
from scenewright.evals.studies.panel.metrics import Measures, gains
from scenewright.evals.studies.panel.resampling import Drawn, ItemResamples
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulatedRaters,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import PanelStudyError

TABLE = simulate(
    SimulationSpec(
        judges=tuple(
            SimulatedJudge(id=name, sensitivity=0.9, specificity=0.6, unscored=0.1)
            for name in "abc"
        ),
        n_items=25,
        models=(SimulatedModel(id="one", prevalence=0.5), SimulatedModel(id="two")),
        raters=SimulatedRaters(number=3, noise=0.5),
    )
)
LIKELY = mean_probability(TABLE.said)


def test_values_are_those_of_plain_computations() -> None:
    found = Measures(TABLE, 5).of(LIKELY)
    known = ~np.isnan(LIKELY)
    p, truth = LIKELY[known], TABLE.truth[known]
    yes = p > 0.5
    inner = np.clip(p, 1e-3, 1 - 1e-3)
    expected = {
        "accuracy": (yes == truth).mean(),
        "balanced_accuracy": (yes[truth == 1].mean() + (~yes)[truth == 0].mean()) / 2,
        "brier": brier_score(p, truth),
        "log_loss": -np.log(np.where(truth == 1, inner, 1 - inner)).mean(),
        "ece": expected_calibration_error(p, truth),
    }
    scores = TABLE.image_scores(LIKELY)
    expected["spearman_truth"] = spearman(scores, TABLE.image_means(TABLE.truth))
    expected["spearman"] = spearman(scores, TABLE.ratings)
    expected["kendall"] = kendall(scores, TABLE.ratings)
    for key, value in expected.items():
        assert found[key].value == pytest.approx(value), key
    pairs = [np.flatnonzero(TABLE.item_of_image == item) for item in range(TABLE.n_items)]
    told = [
        np.sign(np.round(scores[a] - scores[b], 9)) * np.sign(TABLE.ratings[a] - TABLE.ratings[b])
        for two in pairs
        for a, b in combinations(two, 2)
        if abs(TABLE.ratings[a] - TABLE.ratings[b]) > 1e-9
    ]
    assert found["within_item"].value == pytest.approx(np.mean(told))


def test_resamples_are_those_of_the_images_written_out() -> None:
    found = Measures(TABLE, 6, seed=3).of(LIKELY)
    scores, shares = TABLE.image_scores(LIKELY), TABLE.image_means(TABLE.truth)
    for at, images in enumerate(ItemResamples(TABLE, 6, 3).images):
        rated = TABLE.ratings[images]
        assert found["spearman"].resamples[at] == pytest.approx(spearman(scores[images], rated))
        assert found["kendall"].resamples[at] == pytest.approx(kendall(scores[images], rated))
        assert found["spearman_truth"].resamples[at] == pytest.approx(
            spearman(scores[images], shares[images])
        )
        rows = np.concatenate([np.flatnonzero(TABLE.image_of == image) for image in images])
        rows = rows[~np.isnan(LIKELY[rows])]
        right = (LIKELY[rows] > 0.5) == TABLE.truth[rows]
        assert found["accuracy"].resamples[at] == pytest.approx(right.mean())
        assert found["ece"].resamples[at] == pytest.approx(
            expected_calibration_error(LIKELY[rows], TABLE.truth[rows])
        )


def test_only_what_is_known_is_measured() -> None:
    unrated = replace(TABLE, images=tuple(replace(i, ratings=()) for i in TABLE.images))
    assert "spearman" not in {one.key for one in Measures(unrated, 5).measures}
    untold = replace(TABLE, truth=np.full(len(TABLE.facts), np.nan))
    assert [one.key for one in Measures(untold, 5).measures] == [
        "spearman", "kendall", "within_item", "pairwise",
    ]  # fmt: skip
    with pytest.raises(PanelStudyError, match="nothing can be called better"):
        Measures(replace(unrated, truth=untold.truth), 5)


def test_gains_are_paired_and_less_is_better_where_it_is() -> None:
    measures = Measures(TABLE, 200)
    sharper = np.where(TABLE.truth == 1.0, np.maximum(LIKELY, 0.9), np.minimum(LIKELY, 0.1))
    found = {"mean": measures.of(LIKELY), "oracle": measures.of(sharper), "same": {}}
    found["same"] = found["mean"]
    for measure in measures.measures:
        gained = gains(found, "mean", measure, 50)
        assert gained["same"].verdict == "tied"
        assert gained["same"].p == 1.0
        if measure.key in ("brier", "log_loss", "accuracy", "spearman_truth"):
            assert gained["oracle"].verdict == "better", measure.key
            assert gained["oracle"].sure
            back = gains(found, "oracle", measure, 50)["mean"]
            assert back.verdict == "worse"
            assert back.figure.value == pytest.approx(-(gained["oracle"].figure.value or 0.0))


def test_nothing_is_called_better_where_resamples_are_undefined() -> None:
    measure = Measures(TABLE, 5).measures[0]
    nothing = Drawn(float("nan"), np.full(10, np.nan))
    some = Drawn(0.5, np.linspace(0.4, 0.6, 10))
    found = gains({"a": {measure.key: some}, "b": {measure.key: nothing}}, "a", measure, 1)
    assert found["b"].figure.value is None
    assert found["b"].verdict == "tied"


def test_holm_by_hand() -> None:
    found = holm([0.01, 0.04, 0.03, 0.005])
    # Sorted: .005·4, .01·3, .03·2, then .04·1 lifted to what came before.
    assert found == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0.0, 1.0), min_size=1))
def test_holm_lies_between_the_raw_values_and_bonferroni(raw: list[float]) -> None:
    found = holm(raw)
    for at, p in enumerate(raw):
        assert p <= found[at] <= min(1.0, len(raw) * p)
    ordered = sorted(range(len(raw)), key=raw.__getitem__)
    assert all(found[a] <= found[b] for a, b in pairwise(ordered))


@pytest.mark.parametrize("name", list(NOISE))
def test_noise_keeps_the_truth_and_is_the_same_each_time(name: str) -> None:
    hit = noisy(TABLE, name, 4)
    np.testing.assert_array_equal(hit.truth, TABLE.truth)
    np.testing.assert_array_equal(hit.said, noisy(TABLE, name, 4).said)
    # Only the last judge is touched, except where any answer may be missing.
    if name != "missing":
        np.testing.assert_array_equal(hit.said[:, :2], TABLE.said[:, :2])


def test_what_each_noise_does() -> None:
    there = ~np.isnan(TABLE.said[:, -1])
    assert (noisy(TABLE, "yes_sayer").said[there, -1] == 1.0).all()
    np.testing.assert_allclose(
        noisy(TABLE, "adversary").said[there, -1], 1.0 - TABLE.said[there, -1]
    )
    guessed = noisy(TABLE, "guesser").said[there, -1]
    assert abs(np.corrcoef(guessed, TABLE.truth[there])[0, 1]) < 3.0 / np.sqrt(there.sum())
    lost = np.isnan(noisy(TABLE, "missing").said[~np.isnan(TABLE.said)]).mean()
    assert lost == pytest.approx(0.4, abs=4.0 * np.sqrt(0.24 / TABLE.said.size))
    clique = noisy(TABLE, "clique")
    assert clique.families == ("a", "b", "c", "c", "c", "c")
    votes = clique.said[there, 2:] > 0.5
    assert (votes[:, 0] == votes[:, 1]).mean() > 0.75
    with pytest.raises(PanelStudyError, match="unknown noise model 'fog'"):
        noisy(TABLE, "fog")


def test_aggregators_that_come_out_alike_count_once() -> None:
    measures = Measures(TABLE, 100)
    sharper = np.clip(LIKELY * 1.3 - 0.1, 0.0, 1.0)
    found = {
        "mean": measures.of(LIKELY),
        "copy": measures.of(LIKELY),
        "one": measures.of(sharper),
        "two": measures.of(sharper),
        "three": measures.of(np.random.default_rng(0).random(len(LIKELY))),
    }
    measure = measures.measures[0]
    all_of_them = gains(found, "mean", measure, 10)
    once = gains({k: v for k, v in found.items() if k not in ("copy", "two")}, "mean", measure, 10)
    assert all_of_them["two"].same_as == "one"
    assert all_of_them["copy"].same_as == "mean"
    assert all_of_them["copy"].p_holm == 1.0
    for name in ("one", "three"):
        assert all_of_them[name].p_holm == once[name].p_holm
    assert all_of_them["two"].p_holm == once["one"].p_holm


def test_an_interval_that_is_shown_to_touch_0_is_not_clear() -> None:
    assert side_of_zero(Figure(value=-0.01, low=-0.02, high=-0.0004)) == 0
    assert side_of_zero(Figure(value=-0.01, low=-0.02, high=-0.0004), 4) == -1
    assert side_of_zero(Figure(value=0.01, low=0.001, high=0.02)) == 1
    assert side_of_zero(Figure(value=0.01)) == 0
