"""The Fréchet distance: against scipy, torchmetrics and closed forms, and as a stream."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import sqrtm
from scipy.stats import ortho_group

from scenewright.evals.metrics.base import MetricError, SetMetric
from scenewright.evals.metrics.set_metrics import FrechetDistance, Moments, frechet, root_trace
from scenewright.evals.store.journal import Features
from tests.evals.metrics.vectors import Given, blocks, gaussian

FID = FrechetDistance("fid", Given())


def value(pictures: object, originals: object, size: int = 1024) -> float:
    found = FID.compute(blocks(pictures, size), blocks(originals, size)).value
    assert found is not None
    return found


def published(x: Features, y: Features) -> float:
    """The formula as it stands in the paper, by scipy's square root of a matrix."""
    a, b = x.astype(float), y.astype(float)
    first, second = np.cov(a, rowvar=False), np.cov(b, rowvar=False)
    root = np.real(sqrtm(first @ second))
    step = a.mean(0) - b.mean(0)
    return float(step @ step + np.trace(first + second - 2 * root))


@pytest.mark.parametrize(("n", "m", "width"), [(60, 60, 5), (300, 200, 40), (50, 400, 16)])
def test_it_is_the_formula_by_scipys_root(n: int, m: int, width: int) -> None:
    x, y = gaussian(n, width, 1), gaussian(m, width, 2, shift=0.3)
    assert value(x, y) == pytest.approx(published(x, y), rel=1e-9)


def test_it_is_what_torchmetrics_says_of_the_same_vectors() -> None:
    fid = pytest.importorskip("torchmetrics.image.fid")
    x, y = gaussian(300, 24, 1), gaussian(200, 24, 2, shift=0.1)
    other = fid.FrechetInceptionDistance(torch.nn.Flatten(), input_img_size=(24, 1, 1))
    other.set_dtype(torch.float64)
    for rows, real in ((y, True), (x, False)):
        other.update(torch.from_numpy(rows)[:, :, None, None], real=real)
    assert value(x, y) == pytest.approx(float(other.compute()), rel=1e-5)


@given(
    st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3), st.floats(-2, 2)), min_size=1, max_size=8)
)
def test_two_gaussians_with_one_set_of_axes_have_a_closed_form(
    axes: list[tuple[float, float, float]],
) -> None:
    first, second, step = (np.array(values) for values in zip(*axes, strict=True))
    turn = ortho_group.rvs(len(axes), random_state=0) if len(axes) > 1 else np.eye(1)
    found = frechet(
        np.zeros(len(axes)), turn @ np.diag(first**2) @ turn.T,
        turn @ step, turn @ np.diag(second**2) @ turn.T,
    )  # fmt: skip
    assert found.means == pytest.approx(float((step**2).sum()), abs=1e-9)
    # Variances below the rounding error of the largest are taken for 0.
    assert found.covariances == pytest.approx(float(((first - second) ** 2).sum()), abs=1e-5)


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(2, 40), m=st.integers(2, 40), width=st.integers(1, 12),
    seed=st.integers(0, 1000), size=st.integers(1, 50),
)  # fmt: skip
def test_what_every_distance_of_sets_keeps(
    n: int, m: int, width: int, seed: int, size: int
) -> None:
    x, y = gaussian(n, width, seed), gaussian(m, width, seed + 1, shift=0.5)
    plain = value(x, y)
    close = {"rel": 1e-4, "abs": 1e-4}
    assert plain >= 0
    assert value(y, x) == pytest.approx(plain, rel=1e-9, abs=1e-9)
    assert value(x, y, size) == pytest.approx(plain, rel=1e-9, abs=1e-9)
    assert value(x, x) == pytest.approx(0, abs=1e-9)
    assert value(x[::-1], y) == pytest.approx(plain, rel=1e-9, abs=1e-9)
    if width > 1:
        turn = ortho_group.rvs(width, random_state=seed)
        assert value(x @ turn, y @ turn) == pytest.approx(plain, **close)
    assert value(x + 3, y + 3) == pytest.approx(plain, **close)
    assert value(2 * x, 2 * y) == pytest.approx(4 * plain, **close)


def test_moving_a_set_away_adds_the_squared_way() -> None:
    x = gaussian(400, 6, 0)
    assert value(x + np.float32(0.5), x) == pytest.approx(6 * 0.25, rel=1e-4)


def test_sets_of_lower_rank_than_their_width_are_exact() -> None:
    # The root of a singular product is where a general root loses half of its digits.
    x, y = gaussian(20, 64, 1).astype(float), gaussian(30, 64, 2).astype(float)
    a, b = x - x.mean(0), y - y.mean(0)
    nuclear = np.linalg.svd(a @ b.T, compute_uv=False).sum() / np.sqrt(19 * 29)
    found = root_trace(np.cov(x, rowvar=False), np.cov(y, rowvar=False))
    assert found == pytest.approx(nuclear, rel=1e-10)
    assert FID.compute(blocks(x), blocks(y)).parts["rank_deficient"] == 1
    assert (
        FID.compute(blocks(gaussian(65, 64, 1)), blocks(gaussian(65, 64, 2))).parts[
            "rank_deficient"
        ]
        == 0
    )


def test_a_far_off_mean_costs_no_digits() -> None:
    rows = np.random.default_rng(0).normal(size=(500, 4))
    moments = Moments(np.array_split(rows + 1e7, 9))
    assert np.allclose(moments.covariance, np.cov(rows, rowvar=False), rtol=1e-8, atol=1e-8)


class Endless:
    """Vectors that are made when they are read and never together in memory."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self.seed = seed

    def __iter__(self) -> Iterator[Features]:
        rng = np.random.default_rng(self.seed)
        for _ in range(self.count):
            yield rng.normal(size=(500, 32)).astype(np.float32)

    def __len__(self) -> int:
        return 500 * self.count


def peak(count: int) -> int:
    tracemalloc.start()
    FID.compute(Endless(count, 1), Endless(count, 2))
    size = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return size


def test_memory_does_not_grow_with_the_set() -> None:
    peak(2)
    assert peak(200) < 1.2 * peak(4)


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_pictures_are_told(rows: int) -> None:
    said = f"fid needs 2 pictures or more: there are {rows} and 9 originals"
    with pytest.raises(MetricError, match=said):
        FID.compute(blocks(gaussian(rows, 4, 0)), blocks(gaussian(9, 4, 0)))


def test_what_cannot_be_compared_is_told() -> None:
    x = gaussian(9, 4, 0)
    broken = x.copy()
    broken[3, 1] = np.nan
    with pytest.raises(MetricError, match="original photos"):
        FID.compute(blocks(x), None)
    with pytest.raises(MetricError, match="not finite"):
        FID.compute(blocks(broken), blocks(x))
    with pytest.raises(MetricError, match="different extractors"):
        FID.compute(blocks(x), blocks(gaussian(9, 5, 0)))
    with pytest.raises(MetricError, match="not a set"):
        FID.compute(blocks(x[0]), blocks(x))


def test_the_version_tells_extractors_apart() -> None:
    assert isinstance(FID, SetMetric)
    assert FID.version != FrechetDistance("fid", Given("1" * 64)).version
