"""Power: textbook numbers, closed forms, and agreement of the formula with drawn studies."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from scipy.stats import norm

from scenewright.evals.studies.panel.power import (
    Differences,
    Moments,
    Slopes,
    Spread,
    Test,
    all_pairs,
    detectable,
    drawn_power,
    holm_power,
    images_by_rates,
    images_needed,
    observed_share,
    paired_differences,
    pooled,
    power_at,
    single_images,
)
from scenewright.evals.studies.panel.simulator import (
    SimulatedJudge,
    SimulatedModel,
    SimulationSpec,
    simulate,
)
from scenewright.evals.studies.panel.table import PanelStudyError
from tests.evals.studies.panel.panel_tables import random_table

UNPAIRED = Test(paired=False)


@pytest.mark.parametrize(
    ("d", "paired", "power", "n"),
    [
        # Two groups (Cohen, 1988, table 2.4.1, which rounds n for 90 % to 85).
        (0.5, False, 0.8, 64),
        (0.8, False, 0.8, 26),
        (0.2, False, 0.8, 394),
        (0.5, False, 0.9, 86),
        # One group of differences: 34 for 80 %, 44 for 90 %.
        (0.5, True, 0.8, 34),
        (0.5, True, 0.9, 44),
    ],
)
def test_images_needed_are_those_of_the_textbook(
    d: float, paired: bool, power: float, n: int
) -> None:
    test = Test(paired=paired, power=power)
    assert images_needed(d, 1.0 if paired else 2.0, test=test) == n
    # The smallest: one fewer is not enough.
    variance = 1.0 if paired else 2.0
    assert power_at(n, d, variance, test) >= power > power_at(n - 1, d, variance, test)


def test_many_images_are_those_of_the_normal_test() -> None:
    z = float(norm.isf(0.025) + norm.ppf(0.8))
    assert images_needed(0.01, 0.1) == pytest.approx((z / 0.01) ** 2 * 0.1, abs=4)
    # Errors of judges that halve the difference cost four times the images.
    assert images_needed(0.01, 0.1, slope=0.5) == pytest.approx(
        4 * images_needed(0.01, 0.1), rel=1e-3
    )


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 3000),
    effect=st.floats(0.001, 1.0),
    variance=st.floats(1e-3, 2.0),
    paired=st.booleans(),
)
def test_power_grows_with_images_and_effect(
    n: int, effect: float, variance: float, paired: bool
) -> None:
    test = Test(paired=paired)
    here = power_at(n, effect, variance, test)
    assert test.level - 1e-9 <= here <= 1.0
    assert power_at(n + 1, effect, variance, test) >= here - 1e-7
    assert power_at(n, 1.1 * effect, variance, test) >= here - 1e-7
    assert power_at(n, effect, 1.1 * variance, test) <= here + 1e-7
    assert power_at(n, -effect, variance, test) == here
    assert power_at(n, effect, variance, Test(paired=paired, comparisons=3)) <= here + 1e-7


@settings(max_examples=40, deadline=None)
@given(n=st.integers(5, 5000), variance=st.floats(1e-3, 1.0), slope=st.floats(0.2, 1.0))
def test_the_detectable_difference_is_the_one_that_needs_these_images(
    n: int, variance: float, slope: float
) -> None:
    found = detectable(n, variance, slope=slope)
    assert power_at(n, found * slope, variance) == pytest.approx(0.8, abs=1e-6)
    assert images_needed(found * (1 + 1e-7), variance, slope=slope) == n


def test_edges() -> None:
    assert power_at(10, 0.0, 1.0) == 0.05
    assert power_at(10, 0.1, 0.0) == 1.0
    assert images_needed(0.1, 0.0) == 2
    assert detectable(10, 0.0) == 0.0
    assert power_at(10_000, 1.0, 0.01) == 1.0
    for call in (
        lambda: images_needed(0.0, 1.0),
        lambda: images_needed(0.1, 1.0, slope=0.0),
        lambda: images_needed(1e-6, 1.0),
        lambda: images_needed(0.1, -1.0),
        lambda: detectable(1, 1.0),
        lambda: detectable(10, 1.0, slope=-1.0),
        lambda: power_at(1, 0.1, 1.0),
        lambda: all_pairs(1),
        lambda: Spread(item=0, fact=0, judge_item=0, judge_fact=0).variance(0, 1),
    ):
        with pytest.raises(PanelStudyError):
            call()
    with pytest.raises(ValidationError, match="chance alone"):
        Test(power=0.04)
    assert all_pairs(5) == 10
    assert math.isclose(Test(comparisons=10).level, 0.005)


@pytest.mark.parametrize(
    ("first", "second", "n"), [(0.5, 0.6, 388), (0.1, 0.2, 199), (0.7, 0.8, 294)]
)
def test_two_shares_need_the_images_of_the_tables(first: float, second: float, n: int) -> None:
    """Fleiss, Levin & Paik (2003), without the correction for continuity."""
    assert images_by_rates(first, second) == n
    assert images_by_rates(second, first) == n


def test_errors_of_a_judge_cost_images_and_facts_that_agree_give_little() -> None:
    sharp = images_by_rates(0.6, 0.7)
    dull = images_by_rates(0.6, 0.7, sensitivity=0.9, specificity=0.7)
    assert observed_share(0.7, 0.9, 0.7) - observed_share(0.6, 0.9, 0.7) == pytest.approx(0.06)
    assert dull > sharp * 2
    assert images_by_rates(0.6, 0.7, facts=8) == math.ceil(sharp / 8 - 0.2)
    assert images_by_rates(0.6, 0.7, facts=8, agreement=1.0) == sharp
    with pytest.raises(PanelStudyError, match="same share of yes"):
        images_by_rates(0.6, 0.7, sensitivity=0.5, specificity=0.5)
    with pytest.raises(PanelStudyError, match="shares from 0 to 1"):
        images_by_rates(1.6, 0.7)


def components(n: int, f: int, j: int, spread: Spread, seed: int = 0) -> Differences:
    rng = np.random.default_rng(seed)
    item, fact = rng.standard_normal((n, 1, 1)), rng.standard_normal((n, f, 1))
    both, own = rng.standard_normal((n, 1, j)), rng.standard_normal((n, f, j))
    values = (
        np.sqrt(spread.item) * item + np.sqrt(spread.fact) * fact
        + np.sqrt(spread.judge_item) * both + np.sqrt(spread.judge_fact) * own
    )  # fmt: skip
    return Differences(
        ("a", "b"), values.reshape(n * f, j), np.repeat(np.arange(n), f), np.arange(n)
    )


def test_components_that_were_put_in_are_found() -> None:
    put_in = Spread(item=0.02, fact=0.05, judge_item=0.015, judge_fact=0.06)
    found = Moments(components(6000, 5, 4, put_in)).spread()
    for name, value in put_in.model_dump().items():
        assert getattr(found, name) == pytest.approx(value, abs=0.003), name


def test_the_variance_of_the_table_itself_is_its_sample_variance() -> None:
    put_in = Spread(item=0.05, fact=0.05, judge_item=0.05, judge_fact=0.05)
    gaps = components(200, 5, 3, put_in)
    moments = Moments(gaps)
    assert moments.facts == pytest.approx(5.0)
    expected = gaps.by_item.mean(1).var(ddof=1)
    assert moments.spread().variance(3, 5) == pytest.approx(expected)
    twice = moments.spread(np.full(200, 2.0))
    assert twice.variance(3, 5) == pytest.approx(expected * 199 / 200 * 400 / 399)
    one = Moments(components(200, 5, 1, put_in)).spread()
    assert one.judge_item == one.judge_fact == 0.0
    with pytest.raises(PanelStudyError, match="two items"):
        Moments(components(1, 5, 3, put_in))
    with pytest.raises(PanelStudyError, match="no differences"):
        pooled([])


@pytest.mark.parametrize("test", [Test(), UNPAIRED])
@pytest.mark.parametrize("judges", [1, 3])
def test_drawn_studies_have_the_power_of_the_formula(test: Test, judges: int) -> None:
    put_in = Spread(item=0.02, fact=0.05, judge_item=0.02, judge_fact=0.06)
    gaps = components(400, 5, 3, put_in)
    factor = 1.0 if test.paired else 2.0
    variance = factor * Moments(gaps).spread().variance(judges, 5)
    n = images_needed(0.05, variance, test=test)
    share, studies = drawn_power(gaps, n, 0.05, judges, test=test, simulations=1500)
    assert studies == 1500
    assert share == pytest.approx(0.8, abs=4 * math.sqrt(0.16 / 1500) + 0.01)
    null, _ = drawn_power(gaps, 100, 0.0, judges, test=test, simulations=1500)
    assert null == pytest.approx(0.05, abs=4 * math.sqrt(0.0475 / 1500))
    with pytest.raises(PanelStudyError, match="cannot be drawn"):
        drawn_power(gaps, 10, 0.05, 4)


def test_holm_finds_at_least_what_bonferroni_does() -> None:
    test = Test(comparisons=all_pairs(4))
    n = images_needed(0.05, 0.1, test=test)
    found = holm_power(n, 0.05, 0.1, 4, simulations=400)
    assert found > 0.8 - 3 * math.sqrt(0.16 / 400)
    assert found < holm_power(2 * n, 0.05, 0.1, 4, simulations=400)
    assert holm_power(n, 0.05, 0.1, 2, simulations=400) == pytest.approx(
        power_at(n, 0.05, 0.1), abs=0.06
    )
    with pytest.raises(PanelStudyError, match="2 or more of each"):
        holm_power(n, 0.05, 0.1, 1)


def test_the_slope_of_votes_is_youdens_index_and_shrinks_differences() -> None:
    """A simulated table with the truth known: λ is Se + Sp − 1, and what is seen λ·Δ."""
    spec = SimulationSpec(
        judges=tuple(
            SimulatedJudge(id=f"{at}", sensitivity=0.9, specificity=0.75, votes_only=True)
            for at in range(2)
        ),
        models=(SimulatedModel(id="a", prevalence=0.8), SimulatedModel(id="b", prevalence=0.6)),
        n_items=1500,
        dependent=False,
    )
    table = simulate(spec)
    slopes = Slopes(table)
    assert slopes.labelled
    assert slopes.of() == pytest.approx([0.65, 0.65], abs=0.02)
    (gaps,) = paired_differences(table)
    assert gaps.models == ("a", "b")
    assert gaps.by_item.mean() == pytest.approx(0.65 * 0.2, abs=0.01)
    counts = np.ones((2, table.n_items))
    assert slopes.of(counts)[1] == pytest.approx(slopes.of())


def test_pairs_are_of_facts_that_all_judges_answered_about_both() -> None:
    table = random_table(0, n_items=10, missing=0.2)
    (gaps,) = paired_differences(table)
    values = np.stack([table.voided(column) for column in table.said.T], 1)
    rows: dict[tuple[int, str, str], int] = {}
    for row, fact in enumerate(table.facts):
        if not np.isnan(values[row]).any():
            rows[int(table.item_of[row]), fact.id, table.images[fact.image].model] = row
    both = sorted({k[:2] for k in rows if (*k[:2], "x") in rows and (*k[:2], "y") in rows})
    assert len(gaps.facts) == len(both)
    for at, (item, fact_id) in enumerate(both):
        gap = values[rows[item, fact_id, "x"]] - values[rows[item, fact_id, "y"]]
        assert gaps.facts[at] == pytest.approx(gap)
        assert gaps.items[gaps.item[at]] == item
    alone = single_images(table)
    assert [one.models for one in alone] == [("x", "x"), ("y", "y")]


def test_more_judges_and_facts_lower_the_variance() -> None:
    spread = Spread(item=0.1, fact=0.1, judge_item=0.1, judge_fact=0.1)
    by_judges = [spread.variance(j, 4) for j in (1, 2, 3, 10)]
    by_facts = [spread.variance(2, f) for f in (1, 2, 3, 10)]
    assert all(a > b for a, b in [*pairwise(by_judges), *pairwise(by_facts)])
    assert spread.variance(2, 4) == pytest.approx(0.1 + 0.025 + 0.05 + 0.0125)
