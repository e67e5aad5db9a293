"""The benchmark's scores: what is true counts as right, from either end, and nothing else does."""

from __future__ import annotations

import itertools

import pytest

from benchmarks.annotate import PARTS, Scores, names_of, related_pairs, score, truth_of
from scenewright.evals.annotation.panel_queries import Triple
from scenewright.miniature.world import PREDICATES


def true_triples(at: int) -> list[Triple]:
    truth = truth_of(at)
    back = {painted: seen for seen, painted in names_of(truth).items()}
    ids = [item.id for item in truth.scene.objects]
    return [
        (back[a], p, back[b])
        for a, b in itertools.permutations(ids, 2)
        for p in sorted(truth.relations_between(a, b))
    ]


@pytest.mark.parametrize("at", range(6))
def test_the_truth_is_right_and_finds_every_pair(at: int) -> None:
    row = dict(zip(PARTS, score(true_triples(at), truth_of(at)), strict=True))
    assert row["right"] == row["named"] > 0
    assert row["found"] == row["related"] == len(related_pairs(truth_of(at)))
    assert row["asked_found"] == row["asked"]


@pytest.mark.parametrize("at", range(6))
def test_what_does_not_hold_is_wrong(at: int) -> None:
    true = set(true_triples(at))
    ends = {(s, t) for s, _, t in true}
    false = [(s, p, t) for s, t in ends for p in PREDICATES if (s, p, t) not in true]
    row = dict(zip(PARTS, score(false, truth_of(at)), strict=True))
    assert (row["right"], row["found"], row["named"]) == (0, 0, len(false))


def test_a_gain_is_the_difference_over_the_same_photos() -> None:
    scores = Scores()
    for at in range(2):
        scores.by["all"].append(score(true_triples(at), truth_of(at)))
        scores.by["none"].append([0 if name in ("right", "found") else 1 for name in PARTS])
    gain = scores.gains("all", {"none": ("none",)})["gain.precision.over_none"]
    assert gain == {"mean": 1.0, "low": 1.0, "high": 1.0}
    assert scores.figures()["recall.all"]["mean"] == 1.0
