"""Pairs of pictures of one item, with ties."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.statistics.pairs import ItemPairs

VALUES = st.lists(st.integers(0, 3), min_size=8, max_size=8)
ITEMS = np.array([0, 0, 0, 0, 1, 1, 1, 2])


def total(sums: Any) -> float:
    right, every = sums.sum(0)
    return float(right / every)


@settings(max_examples=50)
@given(VALUES, VALUES)
def test_sums_are_those_of_all_pairs_written_out(scores: list[int], ratings: list[int]) -> None:
    s, r = np.array(scores, float), np.array(ratings, float)
    pairs = ItemPairs.of(s, r, ITEMS, 3)
    every = [(a, b) for a, b in combinations(range(8), 2) if ITEMS[a] == ITEMS[b]]
    same = [np.sign(s[a] - s[b]) == np.sign(r[a] - r[b]) for a, b in every]
    assert total(pairs.accuracy()) == pytest.approx(np.mean(same))
    signs = [np.sign(s[a] - s[b]) * np.sign(r[a] - r[b]) for a, b in every if r[a] != r[b]]
    if signs:
        assert total(pairs.kendall()) == pytest.approx(np.mean(signs))
        assert total(pairs.in_order()) == pytest.approx(np.mean(signs) / 2 + 0.5)


@settings(max_examples=50)
@given(st.lists(st.floats(0, 1), min_size=8, max_size=8), VALUES)
def test_no_threshold_agrees_better_than_the_calibrated_one(
    scores: list[float], ratings: list[int]
) -> None:
    pairs = ItemPairs.of(np.array(scores), np.array(ratings, float), ITEMS, 3)
    best = total(pairs.accuracy(pairs.tie_threshold()))
    for threshold in (0.0, *np.abs(pairs.judged).tolist()):
        assert best >= total(pairs.accuracy(threshold)) - 1e-12


def test_a_score_that_ties_gains_nothing_within_items() -> None:
    ratings, scores = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.0, 0.0, 0.0, 1.0])
    pairs = ItemPairs.of(scores, ratings, np.zeros(4, np.intp), 1)
    assert total(pairs.kendall()) == pytest.approx(0.5)
    assert total(pairs.accuracy()) == pytest.approx(0.5)


def test_images_without_a_score_or_a_rating_are_in_no_pair() -> None:
    pairs = ItemPairs.of(
        np.array([0.1, np.nan, 0.3]), np.array([1.0, 2.0, np.nan]), np.zeros(3, np.intp), 1
    )
    assert len(pairs.judged) == 0
    assert pairs.tie_threshold() == 0.0
