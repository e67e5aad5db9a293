"""What loops keep."""

from __future__ import annotations

import numpy as np
import pytest

from scenewright.evals.statistics.figures import Bootstrap
from scenewright.evals.studies.panel.selection import columns_of, rounds_of, trajectories_of
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn


def table_of(images: list[ImageRow], said: list[list[float]]) -> AnswerTable:
    """One fact an image."""
    return AnswerTable(
        "t",
        tuple(JudgeColumn(name) for name in ("loop", "other")),
        tuple(images),
        tuple(FactRow(str(at), at) for at in range(len(images))),
        np.array(said),
    )


TABLE = table_of(
    [
        ImageRow("a0", "a", "loop", 0),
        ImageRow("b0", "b", "loop", 0),
        ImageRow("a1", "a", "loop", 1),
        ImageRow("a2", "a", "loop", 2),
        ImageRow("c0", "c", "once", 0),
    ],
    [[0.5, 0.6], [0.9, 0.8], [0.8, 0.5], [0.8, 0.9], [0.1, 0.1]],
)


def test_a_loop_keeps_its_best_and_the_earliest_of_equals() -> None:
    loops = trajectories_of(TABLE, TABLE.said[:, 0])
    # Item a keeps round 1, as round 2 is no better; item b ended and keeps round 0; c is no loop.
    np.testing.assert_array_equal(loops.kept, [[0, 2, 2], [1, 1, 1]])
    np.testing.assert_array_equal(loops.drew, [[1, 1, 1], [1, 0, 0]])


def test_the_gap_of_a_round_is_what_others_do_not_see() -> None:
    loops = trajectories_of(TABLE, TABLE.said[:, 0])
    found = rounds_of(loops, TABLE.said[:, 0], TABLE.said[:, 1], Bootstrap(3))
    assert [one["drew"] for one in found] == [2, 1, 1]
    last = found[-1]
    # Item a gains 0.3 and loses 0.1 by the other; item b changes nothing.
    assert last["gain"].value == pytest.approx(0.15)
    assert last["reported"].value == pytest.approx(-0.05)
    assert last["gap"].value == pytest.approx(0.2)
    assert last["steering"].value == pytest.approx(0.85)
    assert last["reporting"].value == pytest.approx(0.65)
    assert found[0]["gap"].value == 0.0


def test_gains_are_in_the_units_of_each_score() -> None:
    loops = trajectories_of(TABLE, TABLE.said[:, 0])
    last = rounds_of(loops, TABLE.said[:, 0], TABLE.said[:, 1], Bootstrap(3), (0.5, 0.25))[-1]
    assert last["gain"].value == pytest.approx(0.3)
    assert last["reported"].value == pytest.approx(-0.2)


def test_several_seeds_of_an_item_are_loops_of_their_own() -> None:
    images = [ImageRow(str(at), "a", "loop", at % 2) for at in range(4)]
    table = table_of(images, [[0.1, 0.1], [0.2, 0.2], [0.8, 0.8], [0.3, 0.3]])
    loops = trajectories_of(table, table.said[:, 0])
    np.testing.assert_array_equal(loops.kept, [[0, 1], [2, 2]])
    assert loops.items.tolist() == [0, 0]


def test_a_loop_without_its_first_round_is_left_out() -> None:
    images = [ImageRow("0", "a", "loop", 0), ImageRow("1", "a", "loop", 1)]
    table = table_of(images, [[np.nan, 0.5], [0.9, 0.9]])
    assert not len(trajectories_of(table, table.said[:, 0]).kept)


def test_columns_by_who_steered() -> None:
    assert columns_of(TABLE, ("loop", "gone")) == ([0], [1])
    assert columns_of(TABLE, ()) == ([], [0, 1])
