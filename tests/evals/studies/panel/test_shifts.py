"""How far answers move."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies.panel.live_queries import JudgeResponses
from scenewright.evals.studies.panel.shifts import Shifts, Voter, voters_of
from scenewright.evals.studies.panel.table import AnswerTable, FactRow, ImageRow, JudgeColumn

NAN = np.nan


def voter(*said: float) -> Voter:
    given = np.array(said)
    return Voter("v", False, given, np.where(np.isnan(given), NAN, given > 0.5))


def test_a_shift_by_hand() -> None:
    shifts = Shifts(np.arange(6), np.array([1, 1, 0, 0, 0, NAN]), 200, 0)
    before = voter(0.9, 0.8, 0.2, 0.4, 0.9, 0.6)
    after = voter(0.9, 0.3, 0.7, NAN, 0.1, 0.7)
    found = shifts.between([(before, after)])
    # The fourth fact has no second answer.
    assert found["signed"].n == 5
    assert found["signed"].value == pytest.approx((0.0 - 0.5 + 0.5 - 0.8 + 0.1) / 5)
    assert found["absolute"].value == pytest.approx((0.0 + 0.5 + 0.5 + 0.8 + 0.1) / 5)
    assert found["flips"].value == pytest.approx(3 / 5)
    assert found["lost_yes"].value == pytest.approx(2 / 4)
    assert found["gained_yes"].value == 1.0
    # Right before: facts 1, 2 and 3; after: facts 1 and 5. The sixth has no truth.
    assert found["accuracy"].value == pytest.approx(-1 / 4)
    assert found["accuracy"].n == 4
    assert found["false_yes"].value == pytest.approx(0.0)
    assert found["fooled"].value == 1.0
    assert found["fooled"].n == 1


def test_nothing_to_compare_has_no_value() -> None:
    shifts = Shifts(np.arange(2), np.array([1.0, 1.0]), 200, 0)
    found = shifts.between([(voter(0.9, NAN), voter(NAN, 0.2))])
    assert found["signed"] == Figure(value=None)
    assert found["fooled"].value is None
    assert found["n"] == 0


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(*[st.floats(0, 1)] * 4, st.sampled_from([0.0, 1.0])), min_size=3, max_size=20
    )
)
def test_a_panel_by_the_mean_moves_no_more_than_its_judges(
    rows: list[tuple[float, float, float, float, float]],
) -> None:
    data = np.array(rows)
    shifts = Shifts(np.arange(len(rows)), data[:, 4], 200, 0)
    judges = [
        shifts.between([(voter(*data[:, at]), voter(*data[:, at + 2]))])["absolute"]
        for at in (0, 1)
    ]
    panel = shifts.between([(voter(*data[:, :2].mean(1)), voter(*data[:, 2:4].mean(1)))])[
        "absolute"
    ]
    assert panel.value is not None
    assert panel.value <= sum(one.value or 0.0 for one in judges) / 2 + 1e-12


def test_intervals_go_by_items() -> None:
    truth = np.zeros(40)
    before, after = voter(*[0.1] * 40), voter(*np.repeat([0.9, 0.1], 20))
    alone = Shifts(np.arange(40), truth, 1000, 0).between([(before, after)])["flips"]
    together = Shifts(np.repeat(np.arange(4), 10), truth, 1000, 0).between([(before, after)])[
        "flips"
    ]
    assert alone.value == together.value == 0.5
    assert (together.high or 0) - (together.low or 0) > 1.5 * ((alone.high or 0) - (alone.low or 0))


def test_voters_are_judges_and_the_aggregators_that_can_be_used() -> None:
    table = AnswerTable(
        "t",
        (JudgeColumn("a"), JudgeColumn("b")),
        (ImageRow("0", "0"),),
        (FactRow("x", 0), FactRow("y", 0)),
        np.full((2, 2), 0.5),
    )
    said = np.array([[0.9, 0.3], [NAN, NAN]])
    heard = JudgeResponses(said, np.where(np.isnan(said), NAN, said > 0.5), np.ones(2), 0.0)
    found = {one.name: one for one in voters_of(table, heard, ("mean", "calibrated"))}
    # Nothing is known that a calibration could be learnt from.
    assert set(found) == {"a", "b", "mean"}
    np.testing.assert_allclose(found["mean"].said, [0.6, NAN])
    np.testing.assert_allclose(found["mean"].votes, [1.0, NAN])
    assert found["mean"].panel
    assert not found["a"].panel


def test_a_panel_that_flips_less_than_its_judges() -> None:
    shifts = Shifts(np.arange(3), np.ones(3), 200, 0)
    still = voter(0.9, 0.9, 0.9)
    single = [[(still, voter(0.1, 0.9, 0.9))], [(still, voter(0.9, 0.1, 0.9))]]
    found = shifts.steadier(single, [(still, still)])
    assert found.value == pytest.approx(-1 / 3)
