"""Agreement of raters: the figures of tables whose results are known."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scenewright.agents.panel.aggregation import cohen_kappa
from scenewright.evals.statistics.agreement import alpha, cohen, fleiss, sameness
from scenewright.evals.statistics.figures import Bootstrap
from tests.evals.krippendorff import krippendorff_alpha

NAN = float("nan")
few = settings(max_examples=60, deadline=None)
TABLES = hnp.arrays(
    np.float64,
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=7),
    elements=st.sampled_from([1.0, 2.0, 3.0, 5.0, NAN]),
    fill=st.nothing(),
)
# Fleiss (1971), as in the encyclopaedia's worked example: ten subjects, fourteen raters, five
# categories.
FLEISS = [
    [0, 0, 0, 0, 14], [0, 2, 6, 4, 2], [0, 0, 3, 5, 6], [0, 3, 9, 2, 0], [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0], [3, 2, 6, 3, 0], [2, 5, 3, 2, 2], [6, 5, 2, 1, 0], [0, 2, 2, 3, 7],
]  # fmt: skip


def spread(counts: list[list[int]]) -> Any:
    """(subjects, raters) from how many raters chose each category."""
    return np.array([np.repeat(np.arange(len(row)), row) for row in counts], float)


def plain_fleiss(table: Any) -> float:
    """Fleiss' κ, fact by fact."""
    rows = [row[~np.isnan(row)] for row in np.asarray(table, float)]
    rows = [row for row in rows if len(row) >= 2]
    said = np.concatenate(rows) if rows else np.array([])
    codes = np.unique(said)
    if len(codes) < 2:
        return NAN
    pairs = [[a == b for a, b in itertools.combinations(row, 2)] for row in rows]
    same = np.mean([np.mean(row) for row in pairs])
    chance = sum((said == code).mean() ** 2 for code in codes)
    return float((same - chance) / (1.0 - chance))


def boot(n: int) -> Bootstrap:
    return Bootstrap(n, 0, 200)


def test_fleiss_of_the_worked_example() -> None:
    table = spread(FLEISS)
    found = fleiss(boot(10), np.arange(10), table)
    assert found.value == pytest.approx(0.210, abs=5e-4)
    assert found.low is not None
    assert found.high is not None
    assert found.low < 0.210 < found.high
    assert found.n == 10


def test_fleiss_by_hand() -> None:
    # Two facts, three judges: P = (1 + 1/3) / 2; shares 4/6 and 2/6, so P_e = 20/36.
    def value(*rows: list[float]) -> float | None:
        return fleiss(boot(2), np.arange(2), np.array(rows, float)).value

    assert value([1, 1, 1], [0, 0, 1]) == pytest.approx((2 / 3 - 5 / 9) / (4 / 9))
    assert value([1, 1], [1, 1]) is None
    assert value([1, NAN], [NAN, 0]) is None


@given(TABLES)
@few
def test_one_table_gives_what_the_plain_formulas_give(table: Any) -> None:
    items = np.arange(len(table))
    for level in ("nominal", "interval"):
        plain = krippendorff_alpha(table, level)  # type: ignore[arg-type]
        found = alpha(boot(len(table)), items, table, level).value  # type: ignore[arg-type]
        assert (found is None) == np.isnan(plain)
        assert found is None or found == pytest.approx(plain, abs=1e-9)
    plain = plain_fleiss(table)
    found = fleiss(boot(len(table)), items, table).value
    assert (found is None) == np.isnan(plain)
    assert found is None or found == pytest.approx(plain, abs=1e-9)


@given(
    st.lists(st.tuples(st.sampled_from([0.0, 1.0, NAN]), st.sampled_from([0.0, 1.0, NAN])),
             min_size=1, max_size=20)
)  # fmt: skip
@few
def test_kappa_of_votes_is_that_of_the_judges(pairs: list[tuple[float, float]]) -> None:
    a, b = (np.array(side) for side in zip(*pairs, strict=True))
    plain = cohen_kappa(a, b)
    found = cohen(boot(len(a)), np.arange(len(a)), a, b).value
    assert (found is None) == np.isnan(plain)
    assert found is None or found == pytest.approx(plain, abs=1e-12)


@given(st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=2, max_size=30))
@few
def test_kappa_is_that_of_a_well_known_library(pairs: list[tuple[int, int]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    a, b = (np.array(side, float) for side in zip(*pairs, strict=True))
    if len({*a, *b}) < 2:
        return
    for weights in ("same", "quadratic"):
        peer = metrics.cohen_kappa_score(
            a, b, weights=None if weights == "same" else weights, labels=[1, 2, 3, 4, 5]
        )
        found = cohen(boot(len(a)), np.arange(len(a)), a, b, weights).value  # type: ignore[arg-type]
        assert found is not None
        assert found == pytest.approx(peer, abs=1e-9)


def test_quadratic_weights_forgive_what_is_near() -> None:
    a, near = np.array([1.0, 2, 3, 4, 5]), np.array([2.0, 3, 4, 5, 4])
    far = np.array([5.0, 1, 1, 1, 1])
    items = np.arange(5)
    close = cohen(boot(5), items, a, near, "quadratic").value
    apart = cohen(boot(5), items, a, far, "quadratic").value
    assert close is not None
    assert apart is not None
    assert close > 0.6 > 0 > apart


def test_pairs_who_said_the_same_by_hand() -> None:
    # Of three raters one pair of three agrees; of the two of the next item, all.
    table = np.array([[1.0, 1.0, 2.0], [2.0, 2.0, NAN], [1.0, NAN, NAN]])
    assert sameness(boot(3), np.arange(3), table).value == pytest.approx((1 / 3 + 1) / 2)


def test_rows_of_one_item_are_drawn_together() -> None:
    """Copies of each row within an item tell nothing new: the interval stays as wide."""
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (30, 3)).astype(float)
    once = alpha(boot(30), np.arange(30), table, "nominal")
    copied = alpha(boot(30), np.repeat(np.arange(30), 20), np.repeat(table, 20, axis=0), "nominal")
    assert once.low is not None
    assert once.high is not None
    assert copied.low is not None
    assert copied.high is not None
    assert copied.high - copied.low == pytest.approx(once.high - once.low, rel=0.1)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    """Two raters who agree with 0.8: chance is one half, so α is about 0.6."""
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(60):
        first = rng.integers(0, 2, 120).astype(float)
        second = np.where(rng.random(120) < 0.8, first, 1 - first)
        found = alpha(boot(120), np.arange(120), np.stack([first, second], 1), "nominal")
        assert found.low is not None
        assert found.high is not None
        held += found.low <= 0.6 <= found.high
    assert held >= 51
