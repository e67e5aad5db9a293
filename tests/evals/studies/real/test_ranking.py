"""Ranks within classes and selections from them: deterministic, and nothing unscored is in any."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.studies.real.ranking import HOW, How, Ranked, by_rank, select, tied_at, ties

SCORES = st.one_of(st.none(), st.sampled_from([0.0, 0.25, 0.5, 0.5, 1.0]))


@st.composite
def tables(draw: st.DrawFn) -> list[Ranked]:
    """Pictures of two classes with many equal scores."""
    keys = draw(
        st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), unique=True, max_size=25)
    )
    return [Ranked(f"{at}.png", label, draw(SCORES)) for label, at in keys]


def names(rows: list[Ranked]) -> list[str]:
    return [row.image for row in rows]


TABLE = [
    Ranked("1", "a", 0.1),
    Ranked("2", "a", 0.9),
    Ranked("3", "a", None),
    Ranked("4", "a", 0.5),
    Ranked("5", "b", 0.2),
]


def test_high_are_the_best_and_low_the_worst_of_each_class() -> None:
    assert names(select(TABLE, 2, "high")) == ["2", "4", "5"]
    assert names(select(TABLE, 2, "low")) == ["1", "4", "5"]
    assert select(TABLE, 2, "none") == []


def test_a_class_of_unscored_pictures_stands_there_without_ranks() -> None:
    assert by_rank([Ranked("x", "c", None)]) == {"c": []}


@given(tables(), st.integers(0, 6), st.sampled_from(HOW), st.integers(0, 5), st.randoms())
def test_the_order_of_the_rows_is_of_no_matter(
    rows: list[Ranked], k: int, how: How, seed: int, rng: object
) -> None:
    mixed = list(rows)
    rng.shuffle(mixed)  # type: ignore[attr-defined]
    assert select(rows, k, how, seed) == select(mixed, k, how, seed)


@given(tables(), st.integers(0, 6), st.integers(0, 5))
def test_selections_hold_scored_pictures_alone_and_as_many_as_there_are(
    rows: list[Ranked], k: int, seed: int
) -> None:
    for how in ("high", "random", "low"):
        found = select(rows, k, how, seed)
        for label in "ab":
            there = [row for row in rows if row.label == label and row.score is not None]
            chosen = [row for row in found if row.label == label]
            assert len(chosen) == min(k, len(there))
            assert set(chosen) <= set(there)


@given(tables(), st.integers(1, 6))
def test_no_dropped_picture_scores_above_a_high_one(rows: list[Ranked], k: int) -> None:
    high = select(rows, k, "high")
    for label in "ab":
        kept = [row.score for row in high if row.label == label and row.score is not None]
        rest = [r.score for r in rows if r.label == label and r.score is not None and r not in high]
        assert not kept or not rest or min(kept) >= max(rest)


def test_high_and_low_share_nothing_though_all_scores_are_equal() -> None:
    rows = [Ranked(f"{at}.png", "a", 0.5) for at in range(10)]
    high, low = select(rows, 5, "high"), select(rows, 5, "low")
    assert not {*high} & {*low}


def test_equal_scores_are_ordered_by_content_and_not_by_place() -> None:
    here = [Ranked(f"here/{at}.png", "a", 0.5, digest=f"d{at}") for at in range(6)]
    there = [Ranked(f"there/{9 - at}.png", "a", 0.5, digest=f"d{at}") for at in range(6)]
    first, second = select(here, 3, "high"), select(there, 3, "high")
    assert [row.digest for row in first] == [row.digest for row in second]


def test_random_hangs_on_the_seed_and_not_on_the_scores() -> None:
    rows = [Ranked(f"{at}.png", "a", at / 40) for at in range(40)]
    assert select(rows, 5, "random", 1) == select(rows, 5, "random", 1)
    assert select(rows, 5, "random", 1) != select(rows, 5, "random", 2)
    turned = [Ranked(row.image, "a", 1 - (row.score or 0)) for row in rows]
    assert names(select(turned, 5, "random", 1)) == names(select(rows, 5, "random", 1))


@pytest.mark.parametrize(
    ("rows", "k", "how", "told"),
    [
        (TABLE, -1, "high", "-1 pictures"),
        (TABLE, 1, "best", "'best'"),
        ([*TABLE, TABLE[0]], 1, "high", "twice"),
        ([Ranked("x", "a", float("nan"))], 1, "high", "x has the score nan"),
    ],
)
def test_what_cannot_be_ranked_is_told(rows: list[Ranked], k: int, how: How, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        select(rows, k, how)


@pytest.mark.parametrize(
    ("scores", "k", "places"),
    [
        ((0.9, 0.8, 0.8, 0.8, 0.1), 2, (1, 2, 3)),
        ((0.9, 0.8, 0.8, 0.8, 0.1), 1, ()),
        ((0.9, 0.8, 0.8, 0.8, 0.1), 4, ()),
        ((0.5,) * 4, 2, (0, 1, 2, 3)),
        ((0.5,) * 4, 4, ()),
        ((0.5,) * 4, 9, ()),
        ((0.5,) * 4, 0, ()),
        ((), 2, ()),
    ],
)
def test_ties_at_the_cut_by_hand(
    scores: tuple[float, ...], k: int, places: tuple[int, ...]
) -> None:
    assert tuple(tied_at(scores, k)) == places


@given(
    scores=st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=1, max_size=12),
    k=st.integers(1, 5),
)
def test_without_a_tie_no_hash_decides(scores: list[float | None], k: int) -> None:
    rows = [Ranked(str(at), "a", score) for at, score in enumerate(scores)]
    renamed = [Ranked(str(at), "a", score, f"x{at}") for at, score in enumerate(scores)]
    for how in ("high", "low"):
        chosen = {row.image for row in select(rows, k, how)}
        if not ties(rows, k, how)["a"]:
            assert chosen == {row.image for row in select(renamed, k, how)}
        else:
            inside = [row.score for row in rows if row.image in chosen]
            outside = [
                row.score for row in rows if row.image not in chosen and row.score is not None
            ]
            assert set(inside) & set(outside)
