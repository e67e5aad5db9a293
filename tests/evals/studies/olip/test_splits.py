"""Parts of a set: by picture, as given, and the same however the set is ordered."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.rated_objects import RatedObject, Split
from scenewright.evals.studies.olip.splits import split_objects

PARTS: tuple[Split, ...] = ("train", "validation", "test")


def rated(number: int, picture: int, split: Split | None = None) -> RatedObject:
    return RatedObject(
        id=str(number), image=f"{picture}.png", category="dog", box=(0, 0, 4, 4), shape=3,
        texture=3, split=split,
    )  # fmt: skip


@given(
    counts=st.lists(st.integers(1, 5), min_size=3, max_size=80),
    seed=st.integers(0, 9),
    share=st.floats(0.01, 0.3),
)
def test_every_object_is_in_one_part_and_every_picture_in_no_two(
    counts: list[int], seed: int, share: float
) -> None:
    objects = [rated(0, at) for at, count in enumerate(counts) for _ in range(count)]
    splits = split_objects(objects, seed=seed, test=share, validation=share)
    assert sorted(at for part in PARTS for at in splits.of(part)) == list(range(len(objects)))
    pictures = [{objects[at].image for at in splits.of(part)} for part in PARTS]
    assert all(pictures)
    assert sum(map(len, pictures)) == len(set().union(*pictures)) == len(counts)
    assert len(pictures[1]) == len(pictures[2]) == max(1, round(share * len(counts)))


def test_the_papers_shares_of_a_hundred_pictures() -> None:
    splits = split_objects([rated(at, at) for at in range(100)])
    assert [len(splits.of(part)) for part in PARTS] == [90, 5, 5]


def test_order_decides_nothing_and_the_seed_does() -> None:
    objects = [rated(at, at // 3) for at in range(90)]
    shuffled = random.Random(0).sample(objects, len(objects))

    def test_of(some: list[RatedObject], seed: int) -> set[str]:
        return {some[at].id for at in split_objects(some, seed=seed).test}

    assert test_of(objects, 0) == test_of(shuffled, 0)
    assert len({frozenset(test_of(objects, seed)) for seed in range(6)}) > 1


def test_given_parts_are_obeyed_and_not_added_to() -> None:
    objects = [rated(at, at, "test" if at < 3 else None) for at in range(40)]
    splits = split_objects(objects)
    assert splits.test == (0, 1, 2)
    assert len(splits.validation) == 2
    assert len(splits.train) == 35


def test_a_set_that_names_all_parts_is_left_as_it_is() -> None:
    objects = [rated(at, at, PARTS[at % 3]) for at in range(9)]
    assert [split_objects(objects, seed=4).of(part) for part in PARTS] == [
        (0, 3, 6), (1, 4, 7), (2, 5, 8),
    ]  # fmt: skip


def test_an_object_without_a_part_follows_its_picture() -> None:
    objects = [rated(0, 0, "test"), rated(1, 0), *(rated(at, at) for at in range(2, 12))]
    assert split_objects(objects).test == (0, 1)


def test_a_picture_in_two_parts_is_refused() -> None:
    objects = [rated(0, 0, "test"), rated(1, 0, "train"), rated(2, 1), rated(3, 2)]
    with pytest.raises(RealismError, match=r"0\.png has objects in test and in train"):
        split_objects(objects)


def test_too_few_pictures_and_none_are_named() -> None:
    with pytest.raises(RealismError, match="holds no objects"):
        split_objects([])
    with pytest.raises(RealismError, match="of the 2 in the set"):
        split_objects([rated(0, 0), rated(1, 1)])
