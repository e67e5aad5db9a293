"""The Inception Score: against the published formula, torchmetrics and known mixtures."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import softmax

from scenewright.evals.metrics.base import MetricError, MetricScore, SetMetric
from scenewright.evals.metrics.set_metrics import InceptionScore
from tests.evals.metrics.vectors import Given, blocks, gaussian


def score(logits: object, size: int = 1024, **options: object) -> MetricScore:
    return InceptionScore(Given(), **options).compute(blocks(logits, size), None)  # type: ignore[arg-type]


def published(logits: np.ndarray, splits: int) -> tuple[float, float]:
    """As in the code of the paper: rows in their order, ``exp`` of the mean divergence."""
    p = softmax(logits.astype(float), axis=1)
    found = []
    for k in range(splits):
        part = p[k * len(p) // splits : (k + 1) * len(p) // splits]
        found.append(np.exp((part * (np.log(part) - np.log(part.mean(0)))).sum(1).mean()))
    return float(np.mean(found)), float(np.std(found))


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(10, 60), classes=st.integers(2, 9), seed=st.integers(0, 1000),
    splits=st.integers(1, 10), size=st.integers(1, 70),
)  # fmt: skip
def test_it_is_the_published_formula_whatever_the_blocks(
    n: int, classes: int, seed: int, splits: int, size: int
) -> None:
    logits = 3 * gaussian(n, classes, seed)
    mean, std = published(logits, splits)
    found = score(logits, size, splits=splits, shuffle=False)
    assert found.value == pytest.approx(mean, rel=1e-9)
    assert found.parts["std"] == pytest.approx(std, abs=1e-9)
    assert 1 <= found.value <= classes + 1e-9


def test_it_is_what_torchmetrics_says_of_the_same_logits() -> None:
    module = pytest.importorskip("torchmetrics.image.inception")
    logits = 3 * gaussian(200, 12, 0)
    other = module.InceptionScore(torch.nn.Flatten(), splits=1)
    other.update(torch.from_numpy(logits)[:, :, None, None])
    assert score(logits, splits=1).value == pytest.approx(float(other.compute()[0]), rel=1e-5)


def test_sure_and_even_classes_give_their_number() -> None:
    even = 200 * np.tile(np.eye(8), (40, 1))
    assert score(even, splits=1).value == pytest.approx(8)
    # Huge logits are no overflow, and a class without a picture is no logarithm of 0.
    assert score(1e4 * np.eye(8)[[0, 1] * 20], splits=1).value == pytest.approx(2)


def test_pictures_of_one_class_or_of_no_class_give_one() -> None:
    assert score(np.zeros((50, 8))).value == pytest.approx(1)
    assert score(100 * np.eye(8)[[3] * 50]).value == pytest.approx(1)


def test_chance_deals_pictures_to_the_splits_unless_told_otherwise() -> None:
    sorted_by_class = 100 * np.repeat(np.eye(5), 40, axis=0)
    in_order, shuffled = score(sorted_by_class, shuffle=False), score(sorted_by_class)
    assert in_order.value == pytest.approx(1)
    assert shuffled.value is not None
    assert shuffled.value > 4
    assert score(sorted_by_class, seed=1).value != shuffled.value
    assert score(sorted_by_class).value == shuffled.value


def test_fewer_pictures_than_splits_are_told() -> None:
    with pytest.raises(MetricError, match="10 needs 10 pictures or more: there are 9"):
        score(gaussian(9, 4, 0))
    assert score(gaussian(9, 4, 0), splits=3).value is not None


def test_broken_logits_are_told() -> None:
    logits = gaussian(20, 4, 0)
    logits[2, 2] = np.inf
    with pytest.raises(MetricError, match="not finite"):
        score(logits)


def test_a_set_that_miscounts_itself_is_told() -> None:
    class Miscounted:
        def __init__(self, said: int) -> None:
            self.said = said

        def __iter__(self) -> object:
            return iter([gaussian(20, 4, 0)])

        def __len__(self) -> int:
            return self.said

    for said in (15, 25):
        with pytest.raises(MetricError, match="gives another number"):
            InceptionScore(Given()).compute(Miscounted(said), None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options", [{"splits": 0}, {"splits": 2.5}, {"shuffle": "no"}, {"seed": -1}]
)
def test_wrong_options_are_told(options: dict[str, object]) -> None:
    with pytest.raises(MetricError, match=next(iter(options))):
        score(gaussian(20, 4, 0), **options)


def test_the_version_tells_options_apart() -> None:
    assert isinstance(InceptionScore(Given()), SetMetric)
    versions = {
        InceptionScore(Given(), *rest).version for rest in ((10,), (5,), (10, False), (10, True, 1))
    }
    assert len(versions) == 4
