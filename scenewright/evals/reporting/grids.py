"""Tables of mean scores with intervals: ways of drawing × scores, or × classes of items."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.core.questions import PROTOCOLS
from scenewright.evals.reporting.comparison import Difference
from scenewright.evals.reporting.facets import TITLES, Facet, in_order
from scenewright.evals.reporting.score_matrix import Column, ScoreMatrix, SetScore
from scenewright.evals.statistics.figures import Bootstrap, Figure

Better = Callable[[str], bool]
"""Whether more of a metric is better."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One score of one way of drawing."""

    figure: Figure
    """Mean over items with its interval; ``n`` counts the items."""
    lacking: int = 0
    """Items without this score."""
    best: bool = False
    """Whether no other way has a better mean."""
    tied: bool = False
    """Whether it is not the best but its difference from the best is not significant."""
    reason: str = ""
    """Why there is no value."""


@dataclass(frozen=True, slots=True)
class Grid:
    """A table."""

    title: str
    """What it shows."""
    heads: tuple[str, ...]
    """One a column of cells."""
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Name of a way of drawing, and its cells."""
    note: str = ""
    """What to know of it."""
    corner: str = "arm"
    """What the rows are."""


_WORDS = {
    "scene-bench": "the paper's protocol (strict: scene-bench)",
    "grounded": "the house protocol (grounded)",
}


def column_title(column: Column, panels: int = 2) -> str:
    """``sgscore by report``; the panel is left out where there is one."""
    part = f" {column.part}" if column.part else ""
    by = f" by {column.panel}" if column.panel and panels > 1 else ""
    return f"{column.metric}{part}{by}"


def _protocols(panels: Iterable[str]) -> str:
    """What to know of panels that ask by a protocol of their own; empty without any."""
    said = []
    for panel in sorted(panels):
        name, _, protocol = panel.rpartition(":")
        if name and protocol in PROTOCOLS:
            (main,) = (other for other in PROTOCOLS if other != protocol)
            said.append(
                f"{panel} is the panel {name} asking by {_WORDS[protocol]}, beside {name}, which "
                f"asks by {_WORDS[main]}."
            )
    return " ".join(said)


class Grids:
    """Makes the tables of one board; intervals are over the same resamples of its items."""

    def __init__(
        self,
        score_matrix: ScoreMatrix,
        better: Better,
        differences: Sequence[Difference] = (),
        seed: int = 0,
    ) -> None:
        """``differences`` of all pairs of ways tell which of them differ significantly."""
        self.score_matrix = score_matrix
        self._better = better
        self._boot = Bootstrap(max(1, len(score_matrix.items)), seed)
        self._found = {
            (d.metric, d.part, d.panel, d.scope, frozenset((d.before, d.after))): d.significant
            for d in differences
        }
        self.panels = len({column.panel for column in score_matrix.values if column.panel})

    def overall(self) -> Grid:
        """All scores of single pictures over all items."""
        columns = self.score_matrix.columns()
        return Grid(
            "Scores", self._heads(columns),
            self._rows([(column, None, "") for column in columns]),
            _protocols({column.panel for column in columns}),
        )  # fmt: skip

    def parts(self, metric: str, panel: str) -> Grid | None:
        """What a judged score is made of; none if it has no parts."""
        columns = [
            c for c in self.score_matrix.values if c.part and (c.metric, c.panel) == (metric, panel)
        ]
        if not columns:
            return None
        title = f"Parts of {column_title(Column(metric, '', panel), self.panels)}"
        heads = tuple(column.part for column in columns)
        return Grid(title, heads, self._rows([(column, None, "") for column in columns]))

    def by(self, facet: Facet, column: Column) -> Grid | None:
        """One score by class of items; none where there are fewer than two classes."""
        classes = in_order(facet, self.score_matrix.facets[facet])
        if len(classes) < 2:
            return None
        of = self.score_matrix.facets[facet]
        heads = tuple(f"{name} (n = {int((of == name).sum())})" for name in classes)
        rows = self._rows([(column, of == name, f"{facet}={name}") for name in classes])
        return Grid(f"{column_title(column, self.panels)} by {TITLES[facet]}", heads, rows)

    def by_seed(self, column: Column) -> Grid | None:
        """One score by seed, to show how far seeds scatter; none with a single seed."""
        seeds = sorted({arm.seed for arm in self.score_matrix.arms})
        if len(seeds) < 2:
            return None
        rows = []
        for way, arms in self.score_matrix.ways.items():
            of = {self.score_matrix.arms[at].seed: at for at in arms}
            cells = [
                self._cell(self.score_matrix.values[column][:, of[seed]], None)
                if seed in of
                else Cell(Figure(value=None))
                for seed in seeds
            ]
            rows.append((way, tuple(cells)))
        title = f"{column_title(column, self.panels)} by seed"
        return Grid(title, tuple(f"seed {seed}" for seed in seeds), tuple(rows))

    def figures(self, column: Column, mask: NDArray[np.bool_] | None = None) -> list[Figure]:
        """One figure a way of drawing."""
        return [
            self._cell(self.score_matrix.over_seeds(column, arms), mask).figure
            for arms in self.score_matrix.ways.values()
        ]

    def _heads(self, columns: Sequence[Column]) -> tuple[str, ...]:
        return tuple(
            column_title(c, self.panels) + (" ↑" if self._better(c.metric) else " ↓")
            for c in columns
        )

    def _rows(
        self, wanted: Sequence[tuple[Column, NDArray[np.bool_] | None, str]]
    ) -> tuple[tuple[str, tuple[Cell, ...]], ...]:
        ways = self.score_matrix.ways
        by_column = []
        for column, mask, scope in wanted:
            cells = [
                self._cell(self.score_matrix.over_seeds(column, at), mask) for at in ways.values()
            ]
            by_column.append(self._ranked(list(ways), cells, column, scope))
        return tuple((way, tuple(cells[at] for cells in by_column)) for at, way in enumerate(ways))

    def _cell(self, scores: NDArray[np.float64], mask: NDArray[np.bool_] | None) -> Cell:
        at = np.arange(len(scores)) if mask is None else np.flatnonzero(mask)
        known = at[~np.isnan(scores[at])]
        if not len(known):
            return Cell(Figure(value=None), lacking=len(at))
        figure = self._boot.share(known, scores[known])
        if len(known) < 2:
            figure = Figure(value=figure.value, n=1)
        return Cell(figure, lacking=len(at) - len(known))

    def _ranked(
        self, ways: Sequence[str], cells: Sequence[Cell], column: Column, scope: str
    ) -> list[Cell]:
        sign = 1.0 if self._better(column.metric) else -1.0
        known = [cell.figure.value for cell in cells if cell.figure.value is not None]
        if len(known) < 2:
            return list(cells)
        top = max(sign * value for value in known)
        best = [c.figure.value is not None and sign * c.figure.value == top for c in cells]
        first = ways[best.index(True)]
        ranked = []
        for way, cell, is_best in zip(ways, cells, best, strict=True):
            key = (column.metric, column.part, column.panel, scope, frozenset((first, way)))
            tied = not is_best and cell.figure.value is not None and self._found.get(key) is False
            ranked.append(Cell(cell.figure, cell.lacking, is_best, tied, cell.reason))
        return ranked


def set_grids(sets: Sequence[SetScore], order: Sequence[str]) -> list[Grid]:
    """Scores of whole sets, one table a metric: arms × parts of the set."""
    found = []
    for metric, part in dict.fromkeys((score.metric, score.part) for score in sets):
        of = [score for score in sets if (score.metric, score.part) == (metric, part)]
        scopes = sorted({score.scope for score in of})
        at = {(score.arm, score.scope): score for score in of}
        rows = []
        for arm in order:
            cells = []
            for scope in scopes:
                score = at.get((arm, scope))
                if score is None:
                    cells.append(Cell(Figure(value=None)))
                    continue
                cells.append(Cell(Figure(value=score.value, n=score.n), reason=score.reason))
            rows.append((arm, tuple(cells)))
        title = f"{metric} {part}".strip()
        heads = tuple(scope or "all items" for scope in scopes)
        found.append(Grid(title, heads, tuple(rows)))
    return found
