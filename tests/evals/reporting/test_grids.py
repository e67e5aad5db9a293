"""Tables of means, what is marked in them, and plots."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from scenewright.evals.reporting.comparison import compare
from scenewright.evals.reporting.evaluations import open_sides, pairs_of
from scenewright.evals.reporting.grids import Grids, plots_of, set_grids
from scenewright.evals.reporting.plots import Series, dot_plot, line_plot
from scenewright.evals.reporting.score_matrix import (
    Column,
    ScoreMatrix,
    SetScore,
    higher_is_better,
    load_score_matrix,
)
from scenewright.evals.reporting.words import dollars, p_value, probability, score, signed
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.store.results import Results
from tests.evals.reporting.made import Made, write_evaluation

MAIN = Column("sgscore", "", "report")


@pytest.fixture
def score_matrix(tmp_path: Path) -> ScoreMatrix:
    made = Made(
        items=60, conditions=("a", "b", "c"), quality={"a": 0.9, "b": 0.9, "c": 0.3},
        seeds=(0, 1), failing=0.1, pictures=False,
    )  # fmt: skip
    return load_score_matrix(Results(write_evaluation(tmp_path, made)))


def better(metric: str) -> bool:
    return higher_is_better(metric, {})


def test_cells_are_means_over_items_of_means_over_seeds(score_matrix: ScoreMatrix) -> None:
    grid = Grids(score_matrix, better).overall()
    assert grid.heads == ("sgscore ↑", "clipscore ↑")
    for way, cells in grid.rows:
        block = score_matrix.values[MAIN][:, score_matrix.ways[way]]
        per_item = [np.nanmean(row) for row in block if not np.isnan(row).all()]
        assert cells[0].figure.value == pytest.approx(np.mean(per_item))
        assert cells[0].figure.n == len(per_item)
        assert cells[0].lacking == 60 - len(per_item)


def test_the_best_is_marked_and_what_is_not_clearly_worse(tmp_path: Path) -> None:
    made = Made(items=60, conditions=("a", "b", "c"), quality={"a": 0.9, "b": 0.9, "c": 0.3},
                pictures=False)  # fmt: skip
    folder = write_evaluation(tmp_path, made)
    found = compare(pairs_of(open_sides([str(folder)])), resamples=500)
    grid = Grids(load_score_matrix(Results(folder)), better, found.differences).overall()
    marks = {way: (cells[0].best, cells[0].tied) for way, cells in grid.rows}
    assert sorted(marks.values()) == [(False, False), (False, True), (True, False)]
    assert marks["miniature/c"] == (False, False)


def test_classes_add_up_to_the_whole(score_matrix: ScoreMatrix) -> None:
    grids = Grids(score_matrix, better)
    grid = grids.by("level", MAIN)
    assert grid is not None
    whole = dict(grids.overall().rows)
    for way, cells in grid.rows:
        parts = sum((c.figure.value or 0.0) * c.figure.n for c in cells)
        assert sum(c.figure.n for c in cells) == whole[way][0].figure.n
        mean = whole[way][0].figure.value
        assert mean is not None
        assert parts == pytest.approx(mean * whole[way][0].figure.n)


def test_one_class_or_one_seed_needs_no_table(tmp_path: Path) -> None:
    made = Made(items=1, pictures=False, conditions=("a",))
    grids = Grids(load_score_matrix(Results(write_evaluation(tmp_path, made))), better)
    assert grids.by("level", MAIN) is None
    assert grids.by_seed(MAIN) is None
    cell = grids.overall().rows[0][1][0]
    assert (cell.figure.low, cell.best) == (None, False)


def test_scores_of_sets_keep_their_reasons() -> None:
    sets = [
        SetScore("a/b/0", "fid", "", "", 12.5, "", 100),
        SetScore("a/b/0", "fid", "", "level=hard", None, "too few pictures", 3),
    ]
    (grid,) = set_grids(sets, ["a/b/0", "a/c/0"])
    assert grid.heads == ("all items", "level=hard")
    assert [(c.figure.value, c.reason) for c in grid.rows[0][1]] == [
        (12.5, ""), (None, "too few pictures"),
    ]  # fmt: skip
    assert grid.rows[1][1][0].figure.value is None


def test_a_report_of_many_classes_has_its_plots(score_matrix: ScoreMatrix) -> None:
    plots, notes = plots_of(Grids(score_matrix, better))
    assert [plot.name for plot in plots] == ["arms", "complexity", "level", "group", "category"]
    assert notes == []
    for plot in plots:
        assert ElementTree.fromstring(plot.svg).tag.endswith("svg")
        assert "prefers-color-scheme:dark" in plot.svg
        assert "miniature/a" in plot.alt
        # Every colour goes by name, or it would be lost on one of the papers.
        body = plot.svg.partition("</style>")[2]
        assert not [c for c in ("#0072B2", "#0072b2", "#1d1c1a", "#000000", "fill: #") if c in body]


@pytest.mark.parametrize("name", ["<b>&", "$x^2_{$", "a" * 90, "日本語", "_hidden"])
def test_any_name_can_stand_in_a_plot(name: str) -> None:
    figures = (Figure(value=0.5, low=0.4, high=0.6, n=9), Figure(value=None))
    two = [Series(name, figures), Series("other", figures[::-1])]
    for plot in (
        dot_plot("p", "Title", [name, "b"], two, "score"),
        line_plot("p", "Title", [name, "b"], two, "score", "along"),
    ):
        ElementTree.fromstring(plot.svg)
        assert f"{name} 0.50 [0.40, 0.60]" in plot.alt
        assert "".join(ElementTree.fromstring(plot.svg).itertext()).count(name[:30]) >= 2


def test_numbers_never_round_to_what_is_not_so() -> None:
    assert [probability(n, 10_000) for n in (0, 1, 5000, 9999, 10_000)] == [
        "0.0%", "<0.1%", "50.0%", ">99.9%", "100.0%",
    ]  # fmt: skip
    assert probability(0, 0) == "–"
    assert [p_value(p) for p in (None, 0.0001, 0.0314, 1.0)] == ["–", "<0.001", "0.031", "1.000"]
    assert [dollars(v) for v in (None, 0.0, 0.0003, 0.00002, 1234.5)] == [
        "–", "$0", "$0.0003", "$2.0e-05", "$1,234.50",
    ]  # fmt: skip
    assert [signed(-0.25), signed(0.1, 1), signed(None)] == ["−0.250", "+0.1", "–"]
    assert [score(0.5), score(123.456), score(None)] == ["0.500", "123.5", "–"]
