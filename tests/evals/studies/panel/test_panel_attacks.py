"""Attacks, clones, quality and breakdown points: known panels, whose breakdown can be counted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.statistics.ranks import spearman, weighted_pearson, weighted_ranks
from scenewright.evals.studies.panel.attacks import (
    ATTACKS,
    Attack,
    Learning,
    attacked,
    breakdown_points,
    combined,
    enlarged,
    first_broken,
)
from scenewright.evals.studies.panel.metrics import Quality
from scenewright.evals.studies.panel.resampling import ItemResamples, RankCorrelation, image_counts
from scenewright.evals.studies.panel.simulator import SimulatedJudge, SimulationSpec, simulate
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table


def sure_of(table: AnswerTable, judges: int, confidence: float = 1.0) -> AnswerTable:
    """Judges who are always right, with this probability."""
    right = 0.5 + (table.truth - 0.5) * (2 * confidence - 1)
    wide = enlarged(table, judges)
    return wide.with_said(np.repeat(right[:, None], judges, axis=1))


def points(table: AnswerTable, *names: str, **attack: Any) -> dict[str, Any]:
    return dict(
        breakdown_points(
            table, names, Attack.model_validate(attack), judges=0, repeats=2, resamples=20
        )
    )


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=2, max_size=12), st.data())
def test_weighted_ranks_are_those_of_the_resample_written_out(
    values: list[int], data: st.DataObject
) -> None:
    counts = np.array(
        [data.draw(st.lists(st.integers(0, 3), min_size=len(values), max_size=len(values)))], float
    )
    given_ = np.array(values, float)
    other = np.array(data.draw(st.permutations(values)), float)
    written, second = (np.repeat(v, counts[0].astype(int)) for v in (given_, other))
    found = weighted_pearson(weighted_ranks(given_, counts), weighted_ranks(other, counts), counts)
    expected = spearman(written, second)
    assert found[0] == pytest.approx(expected, abs=1e-9, nan_ok=True)


def test_resampled_rank_correlations_are_those_of_every_resample() -> None:
    table = random_table(3, n_items=12)
    scores = table.image_scores(table.said.mean(1))
    scores[5] = np.nan
    draws = ItemResamples(table, 30, 1)
    rank = RankCorrelation(table.ratings, image_counts(draws.counts, table.item_of_image))
    slow = draws.drawn(lambda images: spearman(scores[images], table.ratings[images]))
    assert rank.drawn(scores) == pytest.approx(slow, nan_ok=True)
    assert rank.value(scores) == pytest.approx(spearman(scores, table.ratings))
    # Scores that miss other images do not meet the ranks kept from before.
    assert rank.drawn(table.ratings) == pytest.approx(np.ones(30))
    with pytest.raises(ValueError, match="no rank"):
        weighted_ranks(np.array([1.0, np.nan]), np.ones((1, 2)))


def test_quality_is_balanced_accuracy_and_leaves_out_what_nobody_answered() -> None:
    table = random_table(0, n_items=8)
    likely = np.where(np.arange(len(table.truth)) % 3 == 0, np.nan, 0.8)
    quality = Quality(table, 25)
    assert (quality.measure, quality.chance) == ("balanced accuracy", 0.5)
    assert quality.of(likely).value == 0.5
    assert quality.of(table.truth).value == 1.0
    assert quality.of(1.0 - table.truth).value == 0.0
    assert set(quality.of(table.truth).resamples) == {1.0}
    assert quality.scored(likely) == pytest.approx(float((~np.isnan(likely)).mean()), abs=0.02)
    assert np.isnan(quality.of(np.full(len(likely), np.nan)).value)
    people = Quality(replace(table, truth=np.full(len(table.truth), np.nan)), 25)
    assert (people.measure, people.chance, len(people)) == ("Spearman with people", 0.0, 16)
    with pytest.raises(PanelStudyError, match="neither facts of known truth"):
        Quality(random_table(0, truth=False, rated=False))


@pytest.mark.parametrize("hard", [True, False])
def test_clones_have_exactly_the_rates_of_their_judge(hard: bool) -> None:
    table = random_table(2, n_items=20, hard=hard, missing=0.0)
    wide = enlarged(table, 7, seed=5)
    assert wide.judge_ids == ("judge-0", "judge-1", "judge-2", "judge-0#2", "judge-1#2",
                              "judge-2#2", "judge-0#3")  # fmt: skip
    assert np.array_equal(wide.said[:, :3], table.said)
    assert len(set(wide.families[3:])) == 4
    for at in range(3, 7):
        for kind in np.unique(table.kinds):
            for holds in (0.0, 1.0):
                rows = (table.kinds == kind) & (table.truth == holds)
                assert sorted(wide.said[rows, at]) == sorted(table.said[rows, at % 3])
    assert not np.array_equal(wide.said[:, 3], table.said[:, 0])
    assert enlarged(table, 2) is table
    assert np.array_equal(enlarged(table, 7, seed=5).said, wide.said)
    unknown = enlarged(replace(table, truth=np.full(len(table.truth), np.nan)), 5)
    assert sorted(unknown.said[:, 3]) == sorted(table.said[:, 0])


@pytest.mark.parametrize("kind", ATTACKS)
def test_attacks_change_the_bad_judges_alone(kind: str) -> None:
    table = random_table(4, n_items=30, missing=0.2)
    asked = table.asked.copy()
    asked[::7, 1] = False
    said = np.where(asked, table.said, np.nan)
    table = replace(table, said=said, votes=np.where(asked, table.votes, np.nan), asked=asked)
    attack = Attack.model_validate({"kind": kind})
    found = attacked(table, attack, [1, 2], np.random.default_rng(0))
    assert np.array_equal(found.said[:, 0], table.said[:, 0], equal_nan=True)
    at = table.asked[:, 1:]
    bad = found.said[:, 1:]
    assert np.isnan(bad[~at]).all()
    if kind == "missing":
        assert np.isnan(bad).all()
        assert found.asked[:, 1:].sum() == at.sum()
        return
    if kind == "copies":
        source = np.where(at[:, 1], table.said[:, 1], np.nan)
        assert np.array_equal(bad[:, 1], source, equal_nan=True)
        return
    assert set(bad[at]) <= {0.0, 1.0}
    assert np.array_equal(found.votes[:, 1:], bad, equal_nan=True)
    wanted = {"yes": 1.0, "no": 0.0}.get(kind)
    if wanted is not None:
        assert (bad[at] == wanted).all()
    if kind == "adversarial":
        assert (bad + table.truth[:, None] == 1.0)[at].all()
    if kind == "random":
        assert abs(bad[at].mean() - 0.5) < 4 * 0.5 / np.sqrt(at.sum())


def test_adversaries_oppose_the_panel_where_the_truth_is_not_known() -> None:
    table = random_table(4, n_items=10, missing=0.0)
    panel = table.said.mean(1) > 0.5
    blind = replace(table, truth=np.full(len(table.truth), np.nan))
    found = attacked(blind, Attack(kind="adversarial"), [0], np.random.default_rng(0))
    assert np.array_equal(found.said[:, 0] == 1.0, ~panel)


def test_strength_and_kind_limit_an_attack() -> None:
    table = random_table(4, n_items=400, missing=0.0)
    table = table.with_said(np.full(table.said.shape, 0.7))
    rng = np.random.default_rng(0)
    none = attacked(table, Attack(kind="no", strength=0.0), [0], rng)
    assert np.array_equal(none.said, table.said)
    half = attacked(table, Attack(kind="no", strength=0.5, facts="attribute"), [0], rng)
    hit = half.said[:, 0] != table.said[:, 0]
    assert set(table.kinds[hit]) == {"attribute"}
    n = int((table.kinds == "attribute").sum())
    assert abs(hit.sum() / n - 0.5) < 4 * 0.5 / np.sqrt(n)
    with pytest.raises(PanelStudyError, match="not columns"):
        attacked(table, Attack(kind="no"), [0, 0], rng)


def test_copies_err_together_as_much_as_is_asked_for() -> None:
    """Judges with equal rates whose errors are independent; the correlation is that of errors."""
    judges = tuple(SimulatedJudge(id=f"{at}", sensitivity=0.8, specificity=0.8) for at in range(4))
    spec = SimulationSpec(judges=judges, n_items=2500, dependent=False)
    table = simulate(spec)
    for wanted in (0.0, 0.36, 1.0):
        copied = attacked(
            table, Attack(kind="copies", strength=wanted), [0, 1, 2, 3], np.random.default_rng(1)
        )
        wrong = (copied.votes != table.truth[:, None]).astype(float)
        found = np.corrcoef(wrong[:, 1:].T)[np.triu_indices(3, 1)]
        assert found == pytest.approx(wanted, abs=5 / np.sqrt(len(table.truth)))


@pytest.mark.parametrize(
    ("kind", "name", "bad"),
    [
        # Of nine sure judges five make the majority, whatever the rule.
        *[("adversarial", name, 5) for name in ("mean", "median", "majority", "trimmed")],
        *[("yes", name, 5) for name in ("mean", "median", "majority", "trimmed")],
        *[("no", name, 5) for name in ("mean", "median", "majority", "trimmed")],
        # Only where nobody is left to answer.
        ("missing", "mean", 9),
        ("missing", "dawid_skene", 9),
        ("copies", "median", None),
    ],
)
def test_breakdown_of_sure_judges_is_at_half(kind: str, name: str, bad: int | None) -> None:
    table = sure_of(random_table(0, n_items=12), 9)
    found = points(table, name, kind=kind)[name]
    assert found.bad == bad
    assert found.share == (None if bad is None else bad / 9)
    assert found.curve[0].value == 1.0
    assert len(found.curve) == len(found.shares) == 10
    if bad == 5:
        assert (found.low, found.high, found.worse) == (5 / 9, 5 / 9, 5)


@pytest.mark.parametrize(("judges", "mean_breaks", "median_breaks"), [(3, 1, 2), (9, 2, 5)])
def test_one_sure_liar_breaks_the_mean_of_timid_judges(
    judges: int, mean_breaks: int, median_breaks: int
) -> None:
    """Honest judges say 0.6 and 0.4: k liars move the mean to 0.6 (1 − k/n), the median not."""
    table = sure_of(random_table(0, n_items=12), judges, confidence=0.6)
    found = points(table, "mean", "median", kind="adversarial")
    assert (found["mean"].bad, found["median"].bad) == (mean_breaks, median_breaks)


def test_added_judges_count_in_the_panel() -> None:
    table = sure_of(random_table(0, n_items=12), 3)
    found = points(table, "mean", kind="adversarial", added=True)["mean"]
    # With as many liars as honest judges the mean is ½ throughout, which is no.
    assert (found.bad, found.share) == (3, 0.5)
    assert found.shares[-1] == pytest.approx(6 / 9)


def test_dawid_skene_sees_through_liars_while_they_are_few() -> None:
    judges = tuple(SimulatedJudge(id=f"{at}", sensitivity=0.8, specificity=0.8) for at in range(9))
    table = simulate(SimulationSpec(judges=judges, n_items=60, dependent=False))
    found = points(table, "mean", "dawid_skene", kind="adversarial")
    assert found["dawid_skene"].curve[2].value > found["mean"].curve[2].value + 0.1
    assert found["dawid_skene"].curve[9].value < 0.2


def test_aggregators_without_anything_to_learn_from_are_left_out() -> None:
    table = replace(random_table(0, n_items=12), truth=np.zeros(0))
    assert set(points(table, "calibrated", "mean", kind="yes")) == {"mean"}
    with pytest.raises(PanelStudyError, match="unknown aggregator 'modal'"):
        points(table, "modal", kind="yes")
    with pytest.raises(PanelStudyError, match="draws of bad judges"):
        breakdown_points(table, ("mean",), Attack(kind="yes"), repeats=0)


def test_the_same_seed_gives_the_same_breakdown() -> None:
    table = random_table(0, n_items=12)
    one, two = (points(table, "mean", kind="random")["mean"] for _ in range(2))
    assert one == two


def test_what_learns_from_truth_never_learns_from_the_attacked_fold() -> None:
    table = random_table(0, n_items=20)
    learning = Learning(table, None, seed=3)
    seen = np.zeros(len(table.images), int)
    for images, rows, other in learning.folds:
        seen += images
        mine = {image.item for image, there in zip(table.images, images, strict=True) if there}
        assert not mine & {image.item for image in other.images}
        assert np.array_equal(rows, images[table.image_of])
    assert (seen == 1).all()
    likely = combined("calibrated", table, learning)
    flipped = replace(table, truth=np.where(learning.folds[0][1], 1 - table.truth, table.truth))
    changed = combined("calibrated", flipped, Learning(flipped, None, seed=3))
    rows = learning.folds[0][1]
    # Its own truth does not reach a fold's answers; it does reach the others'.
    assert np.array_equal(likely[rows], changed[rows], equal_nan=True)
    assert not np.array_equal(likely[~rows], changed[~rows], equal_nan=True)


@given(
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=8),
    st.floats(0.0, 0.9),
)
def test_first_broken_is_the_first_place_with_half_the_excess(
    values: list[float], chance: float
) -> None:
    at = int(first_broken(np.array(values)[:, None], chance)[0])
    clean = values[0] - chance
    if clean <= 0:
        assert at == -1
        return
    broken = [place for place, v in enumerate(values) if not v - chance > clean / 2]
    assert at == (broken[0] if broken else -1)


def test_what_is_undefined_is_broken() -> None:
    assert first_broken(np.array([[1.0], [0.9], [np.nan]]), 0.5)[0] == 2
