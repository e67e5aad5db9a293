"""Training sets by rank and the numbers made of them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import f1_score

from scenewright.evals.studies.real.augmentation import (
    AugmentationError,
    Comparison,
    Example,
    chosen,
    equal_epochs,
    macro_f1,
    over_seeds,
)
from scenewright.evals.studies.real.ranking import HOW, Ranked

LABELS = ("owl", "wren")
REAL = [Example(Image.new("RGB", (4, 4), (at, 0, 0)), LABELS[at % 2]) for at in range(4)]
POOL = {
    f"{label} {at}": Image.new("RGB", (4, 4), (0, at, 9)) for label in LABELS for at in range(6)
}
RANKED = [Ranked(name, name.split()[0], float(name.split()[1])) for name in POOL]


def added(how: str, seed: int = 0, k: int = 2) -> list[tuple[str, int]]:
    """Class and number of what is added to the real pictures."""
    found = chosen(LABELS, POOL, RANKED, how, k, seed)  # type: ignore[arg-type]
    return [(row.label, POOL[row.image].getpixel((0, 0))[1]) for row in found]


def test_each_set_adds_the_pictures_of_its_rank() -> None:
    assert sorted(added("high")) == [("owl", 4), ("owl", 5), ("wren", 4), ("wren", 5)]
    assert sorted(added("low")) == [("owl", 0), ("owl", 1), ("wren", 0), ("wren", 1)]
    assert added("none") == []
    assert len(added("random")) == 4
    assert len({tuple(added("random", seed)) for seed in range(8)}) > 1


@pytest.mark.parametrize("how", HOW)
def test_only_a_set_without_the_pool_does_without_scores(how: str) -> None:
    lost = [Ranked(row.image, row.label, None) for row in RANKED]
    if how == "none":
        assert chosen(LABELS, POOL, lost, "none", 2) == []
    else:
        with pytest.raises(AugmentationError, match=r"fewer of owl \(0\), wren \(0\)"):
            chosen(LABELS, POOL, lost, how, 2)  # type: ignore[arg-type]


def test_a_pool_that_does_not_fit_is_told() -> None:
    with pytest.raises(AugmentationError, match="pictures of 'crow'"):
        chosen(LABELS, POOL, [*RANKED, Ranked("crow 1", "crow", 1.0)], "high", 2)
    with pytest.raises(AugmentationError, match="owl 9 is ranked but not in the pool"):
        chosen(LABELS, POOL, [*RANKED, Ranked("owl 9", "owl", 1.0)], "high", 2)


def test_sets_take_as_many_steps_as_the_paper_gives_them() -> None:
    assert equal_epochs(10, 10, 5) == 20
    assert equal_epochs(10, 10, 10) == 10
    for wrong in ((0, 10, 5), (10, 10, 0), (10, 5, 10)):
        with pytest.raises(AugmentationError, match="cannot be made equal"):
            equal_epochs(*wrong)


def test_macro_f1_of_a_table_worked_by_hand() -> None:
    truth = ["a", "a", "a", "b", "b", "c"]
    said = ["a", "a", "b", "b", "c", "d"]
    # a: 4 / (2 + 3), b: 2 / (2 + 2), c: 0 / (1 + 1); d is nowhere true.
    assert macro_f1(truth, said) == pytest.approx((4 / 5 + 1 / 2 + 0) / 3)


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1))
def test_macro_f1_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    truth, said = [list(side) for side in zip(*pairs, strict=True)]
    labels = sorted(set(truth))
    expected = f1_score(truth, said, labels=labels, average="macro", zero_division=0)
    assert macro_f1(truth, said) == pytest.approx(expected)


def test_macro_f1_of_nothing_is_no_number() -> None:
    for truth, said in (([], []), (["a"], [])):
        with pytest.raises(AugmentationError, match="predictions for"):
            macro_f1(truth, said)


def test_the_interval_over_seeds_is_students() -> None:
    found = over_seeds([0.5, 0.6, 0.7, 0.6, 0.6], items=30)
    # sd = √(0.02 / 4); t(0.975, 4) = 2.776.
    half = 2.776445 * math.sqrt(0.005) / math.sqrt(5)
    assert found.value == pytest.approx(0.6)
    assert found.low == pytest.approx(0.6 - half, abs=1e-6)
    assert found.high == pytest.approx(0.6 + half, abs=1e-6)
    assert (found.seeds, found.n) == (5, 30)
    one = over_seeds([0.4])
    assert (one.value, one.low, one.seeds) == (0.4, None, 1)
    with pytest.raises(AugmentationError, match="no seed"):
        over_seeds([])


def test_sets_are_compared_seed_by_seed() -> None:
    # The seeds differ widely, the sets by 0.1 in each: only pairs show that surely.
    comparison = Comparison(
        "F1", {"high": [0.2, 0.5, 0.9], "low": [0.1, 0.4, 0.8], "none": [0.1, 0.5, 0.8]}, 12
    )
    found = comparison.difference("high", "low")
    assert found.value == pytest.approx(0.1)
    wide = comparison.mean("high")
    assert found.low is not None
    assert found.low > 0.09
    assert wide.low is not None
    assert wide.low < 0.2
    table = comparison.markdown()
    assert "| high | 0.533 |" in table
    assert "| high − low | +0.100 |" in table
    assert "random" not in table
    with pytest.raises(AugmentationError, match="other numbers of seeds"):
        Comparison("F1", {"high": [0.1], "low": [0.1, 0.2]})
