"""Which detected object is the one that a scene speaks of."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Detection
from scenewright.tools.vision.realism.pictures import assign_objects, candidates

SIZE = (100, 100)


def thing(side: float, name: str = "dog", score: float = 0.9, stuff: bool = False) -> Detection:
    """A square of ``side`` pixels."""
    return Detection(name, (0, 0, side, side), score, stuff=stuff)


def sides(found: list[Detection]) -> list[float]:
    return [one.box[2] for one in found]


def test_candidates_are_the_sure_instances_of_the_class() -> None:
    found = [
        thing(30),
        thing(50, score=0.49),
        thing(60, "cat"),
        thing(90, stuff=True),
        thing(40, "Dog"),
    ]
    assert sides(candidates(found, "dog", 1, SIZE)) == [40, 30]
    assert candidates(found, "horse", 1, SIZE) == []


def test_a_fleck_is_a_candidate_only_where_something_lacks() -> None:
    found = [thing(8), thing(30), thing(5), thing(20)]
    assert sides(candidates(found, "dog", 1, SIZE)) == [30, 20]
    assert sides(candidates(found, "dog", 2, SIZE)) == [30, 20]
    assert sides(candidates(found, "dog", 3, SIZE)) == [30, 20, 8]
    assert sides(candidates(found, "dog", 9, SIZE)) == [30, 20, 8, 5]


def test_without_likeness_the_first_gets_the_largest() -> None:
    assert assign_objects(["dog", "dog"], [thing(10), thing(30), thing(20)]) == [1, 2]
    assert assign_objects(["dog", "dog", "dog"], [thing(10), thing(30)]) == [1, 0, None]
    assert assign_objects(["dog"], []) == [None]
    assert assign_objects([], [thing(9)]) == []


def test_likeness_decides_for_all_together() -> None:
    # Alone each phrase would take the second; together the first gains more from it.
    likeness = np.array([[0.1, 0.9], [0.7, 0.8]], np.float32)
    assert assign_objects(["red dog", "blue dog"], [thing(10), thing(20)], likeness) == [1, 0]
    likeness = np.array([[0.1], [0.4]], np.float32)
    assert assign_objects(["red dog", "blue dog"], [thing(10)], likeness) == [None, 0]


def test_equal_phrases_are_served_by_size() -> None:
    likeness = np.array([[0.5, 0.4, 0.1], [0.5, 0.4, 0.1], [0.9, 0.1, 0.9]], np.float32)
    objects = [thing(10), thing(30), thing(20)]
    assert assign_objects(["dog", "dog", "red dog"], objects, likeness) == [1, 0, 2]


def test_likenesses_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="one finite number a phrase and object"):
        assign_objects(["dog"], [thing(9)], np.zeros((2, 1), np.float32))
    with pytest.raises(ValueError, match="finite"):
        assign_objects(["dog"], [thing(9)], np.full((1, 1), np.nan, np.float32))


@given(data=st.data(), phrases=st.integers(1, 4), objects=st.integers(1, 4))
def test_an_assignment_is_the_best_there_is(
    data: st.DataObject, phrases: int, objects: int
) -> None:
    values = st.lists(
        st.lists(st.integers(-50, 50), min_size=objects, max_size=objects),
        min_size=phrases,
        max_size=phrases,
    )
    likeness = np.array(data.draw(values), np.float32)
    things = [thing(10 + at) for at in range(objects)]
    found = assign_objects([f"dog {at}" for at in range(phrases)], things, likeness)
    taken = [at for at in found if at is not None]
    assert len(set(taken)) == len(taken) == min(phrases, objects)
    total = sum(likeness[row, at] for row, at in enumerate(found) if at is not None)
    few, many = min(phrases, objects), max(phrases, objects)
    table = likeness if phrases <= objects else likeness.T
    best = max(
        sum(table[row, column] for row, column in enumerate(columns))
        for columns in itertools.permutations(range(many), few)
    )
    assert total == best
