"""The damage study: what its scores do with real graphs, and what it says of known ones."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest

from scenewright.config.settings import Settings
from scenewright.evals.metrics.graph_matching.embeddings import similarity_of
from scenewright.evals.runner.progress import Progress
from scenewright.evals.studies.psg.graph_damage import (
    DAMAGES,
    MOST_EDITS,
    MOST_GRAPHS,
    STUDY,
    Measured,
    measure,
    outcome,
)
from scenewright.evals.studies.study import Setup
from scenewright.evals.studies.xtc.grading import grader_of
from tests.evals.studies.scene_bench.study_results import made_damage


@pytest.fixture(scope="module")
def measured() -> tuple[Measured, list[Progress]]:
    said: list[Progress] = []
    found = measure(1, similarity_of("exact"), grader_of("exact"), said.append)
    return asyncio.run(found), said


def test_every_edit_lowers_the_psg_style_score(
    measured: tuple[Measured, list[Progress]],
) -> None:
    for damage in DAMAGES:
        curve = measured[0].values["psg", damage.key][0]
        assert curve.shape == (1 + MOST_EDITS,)
        assert curve[0] == 1.0
        assert (np.diff(curve) < -1e-6).all(), damage.key


def test_g_falls_where_the_reference_is_wrong_and_sees_no_addition(
    measured: tuple[Measured, list[Progress]],
) -> None:
    for damage in DAMAGES:
        curve = measured[0].values["xtc", damage.key][0]
        assert curve[0] == 1.0
        assert (np.diff(curve) <= 1e-9).all(), damage.key
        if damage.way == "add":
            assert (curve == 1.0).all()
        else:
            assert curve[-1] < 0.95


def test_progress_is_told(measured: tuple[Measured, list[Progress]]) -> None:
    assert [now.items for now in measured[1]] == [1]


def test_the_outcome_says_what_is_not_seen() -> None:
    found = outcome(Setup(), Settings(), (made_damage(12),))
    assert [table.id for table in found.tables] == ["damage_psg", "damage_xtc"]
    for table in found.tables:
        assert len(table.rows) == len(DAMAGES)
        for row in table.rows:
            falls = row.cells[-1].measured
            assert falls is not None
            blind = table.id == "damage_xtc" and "/add/" in row.key
            assert falls.value == (0.0 if blind else 100.0)
    notes = " ".join(found.notes)
    assert "G does not see: add node, add attribute, add edge" in notes
    assert "falls at 1,296 of 1,296 single edits" in notes
    assert found.data["falling_steps"]["xtc"] == {"fall": 864, "same": 432, "rise": 0}


def test_it_draws_nothing_and_bounds_its_graphs() -> None:
    for n, graphs in ((2, 2), (100, MOST_GRAPHS)):
        (trial,) = STUDY.requirements(Setup(n=n), Settings())
        assert (trial.items, trial.unit) == (graphs, "graphs")  # type: ignore[union-attr]
