"""Sample sizes: means and standard deviations against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from scenewright.evals.studies.scene_bench.reliability import spreads


def test_spreads_fall_with_the_root_of_the_size() -> None:
    rng = np.random.default_rng(1)
    values = rng.normal(0.6, 0.2, (320, 4))
    found = spreads(values)
    assert [spread.size for spread in found] == [20, 40, 80, 160, 320]
    for spread in found:
        # Scenes and seeds are drawn anew: the spread is that of one value over the root.
        assert spread.sd_samples == pytest.approx(
            100 * values.std() / np.sqrt(spread.size), rel=0.12
        )
        assert spread.sd_seeds is not None
        assert spread.sd_seeds == pytest.approx(100 * 0.2 / np.sqrt(spread.size), rel=0.8)
        assert spread.mean == pytest.approx(60, abs=15)
    assert found[-1].against_all.value is None
    assert found[-1].mean == pytest.approx(100 * values.mean())


def test_scenes_drawn_alike_by_all_seeds_have_no_spread_over_seeds() -> None:
    values = np.repeat(np.random.default_rng(2).random((64, 1)), 3, axis=1)
    for spread in spreads(values):
        assert spread.sd_seeds == pytest.approx(0.0, abs=1e-9)
        assert spread.sd_samples > 0


def test_a_part_against_the_whole() -> None:
    values = np.random.default_rng(3).random((100, 2))
    for spread in spreads(values)[:-1]:
        assert spread.against_all.value == pytest.approx(spread.mean - 100 * values.mean())


def test_one_seed_and_lost_scenes() -> None:
    values = np.random.default_rng(4).random((20, 1))
    values[3:8] = np.nan
    found = spreads(values)
    assert found[-1].size == 15
    assert all(spread.sd_seeds is None for spread in found)
    assert spreads(np.full((5, 2), np.nan)) == []
