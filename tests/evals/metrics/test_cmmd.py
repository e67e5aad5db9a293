"""CMMD: against the whole matrix of pairs, and what each estimate keeps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from scenewright.evals.metrics import set_metrics
from scenewright.evals.metrics.base import MetricError, SetMetric
from scenewright.evals.metrics.set_metrics import CMMD
from scenewright.evals.store.journal import Features
from tests.evals.metrics.vectors import Given, blocks, gaussian


def value(x: object, y: object, size: int = 1024, **options: object) -> float:
    found = CMMD(Given(), **options).compute(blocks(x, size), blocks(y, size)).value  # type: ignore[arg-type]
    assert found is not None
    return found


def whole(x: Features, y: Features, unbiased: bool = False, sigma: float = 10.0) -> float:
    """All pairs at once, in double precision."""
    a, b = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (x, y))

    def kernel(p: Features, q: Features) -> Features:
        return np.exp(-cdist(p.astype(float), q.astype(float), "sqeuclidean") / (2 * sigma**2))

    xx, yy, xy = kernel(a, a), kernel(b, b), kernel(a, b)
    if unbiased:
        m, n = len(a), len(b)
        within = (xx.sum() - m) / (m * (m - 1)) + (yy.sum() - n) / (n * (n - 1))
    else:
        within = xx.mean() + yy.mean()
    return float(1000 * (within - 2 * xy.mean()))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 40), m=st.integers(2, 40), width=st.integers(2, 12),
    seed=st.integers(0, 1000), size=st.integers(1, 50), unbiased=st.booleans(),
)  # fmt: skip
def test_it_is_the_mean_over_all_pairs_whatever_the_blocks(
    n: int, m: int, width: int, seed: int, size: int, unbiased: bool
) -> None:
    x, y = gaussian(n, width, seed), gaussian(m, width, seed + 1, shift=0.5)
    estimator = "unbiased" if unbiased else "biased"
    found = value(x, y, size, estimator=estimator)
    close = {"rel": 1e-5, "abs": 1e-6}
    assert found == pytest.approx(whole(x, y, unbiased), **close)
    assert value(y, x, estimator=estimator) == pytest.approx(found, **close)
    turn = ortho_group.rvs(width, random_state=seed)
    assert value(x @ turn, y @ turn, estimator=estimator) == pytest.approx(
        found, rel=1e-3, abs=1e-4
    )
    if not unbiased:
        assert found >= 0
        assert value(x, x) == pytest.approx(0, abs=1e-9)


def test_large_blocks_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y = gaussian(50, 4, 0), gaussian(40, 4, 1)
    plain = value(x, y)
    monkeypatch.setattr(set_metrics, "ROWS", 7)
    met: list[int] = []
    between = CMMD._less_one
    monkeypatch.setattr(
        CMMD, "_less_one", lambda self, p, q: met.append(max(len(p), len(q))) or between(self, p, q)
    )
    assert value(x, y) == pytest.approx(plain, rel=1e-12)
    assert max(met) == 7


def test_the_unbiased_estimate_is_even_around_zero_for_one_distribution() -> None:
    found = [
        value(gaussian(60, 5, s, skew=False), gaussian(60, 5, s + 500, skew=False),
              estimator="unbiased")
        for s in range(60)
    ]  # fmt: skip
    error = np.std(found) / len(found) ** 0.5
    assert abs(np.mean(found)) < 3 * error
    assert min(found) < 0
    biased = [value(gaussian(60, 5, s), gaussian(60, 5, s)[::-1] + 1e-3) for s in range(3)]
    assert min(biased) >= 0


def test_two_points_have_a_closed_form() -> None:
    x, y = np.eye(3)[[0] * 4], np.eye(3)[[1] * 5]
    assert value(x, y) == pytest.approx(2000 * (1 - np.exp(-2 / 200)), rel=1e-12)
    assert value(x, 7 * y, normalise=False, sigma=1.0, scale=1.0) == pytest.approx(
        2 * (1 - np.exp(-25)), rel=1e-12
    )


def test_what_cannot_be_compared_is_told() -> None:
    x = gaussian(9, 4, 0)
    metric = CMMD(Given())
    zero = x.copy()
    zero[2] = 0
    with pytest.raises(MetricError, match="original photos"):
        metric.compute(blocks(x), None)
    with pytest.raises(MetricError, match="there are 0 and 9"):
        metric.compute(blocks(x[:0]), blocks(x))
    with pytest.raises(MetricError, match="length 0"):
        metric.compute(blocks(zero), blocks(x))
    with pytest.raises(MetricError, match="different extractors"):
        metric.compute(blocks(x), blocks(gaussian(9, 5, 0)))
    with pytest.raises(MetricError, match="cmmd needs 2 pictures or more: there are 1 and 9 orig"):
        CMMD(Given(), estimator="unbiased").compute(blocks(x[:1]), blocks(x))


@pytest.mark.parametrize(
    "options", [{"sigma": 0}, {"scale": -1}, {"estimator": "median"}, {"normalise": 1}]
)
def test_wrong_options_are_told(options: dict[str, object]) -> None:
    with pytest.raises(MetricError, match=next(iter(options))):
        value(gaussian(3, 3, 0), gaussian(3, 3, 0), **options)


def test_the_version_tells_options_apart() -> None:
    assert isinstance(CMMD(Given()), SetMetric)
    given: list[dict[str, object]] = [
        {}, {"sigma": 5}, {"scale": 1}, {"estimator": "unbiased"}, {"normalise": False},
    ]  # fmt: skip
    assert len({CMMD(Given(), **o).version for o in given}) == len(given)  # type: ignore[arg-type]
