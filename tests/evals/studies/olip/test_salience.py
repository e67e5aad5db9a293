"""Which ranks of size tell how real a picture is."""

from __future__ import annotations

import numpy as np
import pytest

from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.studies.olip.evaluation import eliminated, select_ranks

WEIGHTS = (0.5, 0.3, 0.2, 0.0, 0.0, 0.0)


def pictures(count: int, noise: float, fewest: int = 6) -> list[RatedObject]:
    """Pictures whose realism is that of their three largest objects, weighted."""
    rng = np.random.default_rng(3)
    found = []
    for at in range(count):
        n = int(rng.integers(fewest, 7))
        scores = rng.uniform(1, 5, n)
        whole = float(np.dot(scores, WEIGHTS[:n]) / sum(WEIGHTS[:n]) + rng.normal(0, noise))
        found += [
            RatedObject(
                id=f"{at}.{rank}", image=f"{at}", category="dog", box=(0, 0, 90 - rank, 50),
                shape=float(score), texture=float(score), image_realism=min(5.0, max(1.0, whole)),
            )
            for rank, score in enumerate(scores)
        ]  # fmt: skip
    return found


def test_the_ranks_that_matter_are_kept_and_explain_the_rest() -> None:
    found = select_ranks(pictures(60, 0.05))
    assert [len(one.kept) for one in found] == [0, 1, 2, 3, 4, 5, 6]
    assert [one.kept for one in found[:4]] == [(), (1,), (1, 2), (1, 2, 3)]
    # The mean of four folds says next to nothing of the fifth.
    constant = found.pop(0)
    assert constant.r2.value == pytest.approx(0, abs=0.1)
    assert constant.r2.value < 0
    r2 = [one.r2.value or 0.0 for one in found]
    mse = [one.mse.value or 0.0 for one in found]
    assert r2[0] < r2[1] < r2[2]
    assert r2[2] > 0.97
    # Ranks that say nothing add nothing.
    assert r2[5] == pytest.approx(r2[2], abs=0.02)
    assert 0.5 * 0.05**2 < mse[2] < 2 * 0.05**2
    low, high = found[2].mse.low, found[2].mse.high
    assert low is not None
    assert high is not None
    assert low < mse[2] < high


def test_elimination_by_hand() -> None:
    x = np.array([[0.0, 0, 1], [1, 0, 0], [0, 1, 0], [1, 1, 1], [2, 1, 0], [1, 2, 1]])
    y = 3 * x[:, 0] - 5 * x[:, 1] + 0.1 * x[:, 2] + 7
    assert [kept.tolist() for kept in eliminated(x, y)] == [[0, 1, 2], [0, 1], [1], []]


def test_folds_judge_what_they_have_not_seen() -> None:
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        objects = [
            RatedObject(
                id=f"{at}.{rank}", image=f"{at}", category="dog", box=(0, 0, 90 - rank, 50),
                shape=float(rng.uniform(1, 5)), texture=3, image_realism=whole,
            )
            for at, whole in enumerate(rng.uniform(1, 5, 40))
            for rank in range(8)
        ]  # fmt: skip
        found.append(select_ranks(objects)[-1].r2.value or 0.0)
    # Eight ranks fit forty pictures of pure noise a little; unseen ones worse than their mean.
    assert np.mean(found) < 0


def test_pictures_of_other_sizes_are_left_out_and_short_ones_filled() -> None:
    few = pictures(40, 0.05, fewest=5)
    assert [one.mse.n for one in select_ranks(few)] == [40] * 7
    only = [o for o in few if sum(p.image == o.image for p in few) == 6]
    found = select_ranks(few, fewest=6)
    assert found[0].mse.n == len({o.image for o in only})
    assert select_ranks(few, seed=1)[3].mse.value != select_ranks(few)[3].mse.value


def test_too_few_pictures_are_told() -> None:
    with pytest.raises(RealismError, match=r"9 pictures .* 5 folds need 10 or more"):
        select_ranks(pictures(9, 0.1))
