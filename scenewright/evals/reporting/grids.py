"""Tables of mean scores with intervals for pages, and CSV files for spreadsheets and papers."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scenewright.core.questions import PROTOCOLS
from scenewright.evals.reporting.comparison import Comparison, Difference
from scenewright.evals.reporting.items import Tally
from scenewright.evals.reporting.plots import Plot, Series, dot_plot, line_plot
from scenewright.evals.reporting.score_matrix import (
    FACETS,
    TITLES,
    Column,
    Facet,
    ScoreMatrix,
    SetScore,
    in_order,
    main_columns,
    shown_name,
)
from scenewright.evals.statistics.figures import Bootstrap, Figure

Better = Callable[[str], bool]
"""Whether more of a metric is better."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One score of one arm over its seeds."""

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
    heads: tuple[str, ...]
    """One a column of cells."""
    rows: tuple[tuple[str, tuple[Cell, ...]], ...]
    """Name of a way of drawing, and its cells."""
    note: str = ""
    corner: str = "arm"
    """Head of the first column."""


_WORDS = {
    "scene-bench": "the paper's protocol (strict: scene-bench)",
    "grounded": "the house protocol (grounded)",
}


def column_title(column: Column, panels: int = 2) -> str:
    """Return ``sgscore by report``; the panel is left out where there is one."""
    part = f" {column.part}" if column.part else ""
    by = f" by {column.panel}" if column.panel and panels > 1 else ""
    return f"{column.metric}{part}{by}"


def _protocols(panels: Iterable[str]) -> str:
    """Return a note on panels that ask by a protocol of their own; empty without any."""
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
    """Maker of tables; intervals are over the same resamples of the items."""

    def __init__(
        self,
        score_matrix: ScoreMatrix,
        better: Better,
        differences: Sequence[Difference] = (),
        seed: int = 0,
    ) -> None:
        """``differences`` of all pairs of arms decide which of them differ significantly."""
        self.score_matrix = score_matrix
        self._better = better
        self._boot = Bootstrap(max(1, len(score_matrix.items)), seed)
        self._found = {
            (d.metric, d.part, d.panel, d.scope, frozenset((d.before, d.after))): d.significant
            for d in differences
        }
        self.panels = len({column.panel for column in score_matrix.values if column.panel})

    def overall(self) -> Grid:
        """Return all scores of single pictures over all items."""
        columns = self.score_matrix.columns()
        return Grid(
            "Scores", self._heads(columns),
            self._rows([(column, None, "") for column in columns]),
            _protocols({column.panel for column in columns}),
        )  # fmt: skip

    def parts(self, metric: str, panel: str) -> Grid | None:
        """Return the parts of a judged score, or None if it has none."""
        columns = [
            c for c in self.score_matrix.values if c.part and (c.metric, c.panel) == (metric, panel)
        ]
        if not columns:
            return None
        title = f"Parts of {column_title(Column(metric, '', panel), self.panels)}"
        heads = tuple(column.part for column in columns)
        return Grid(title, heads, self._rows([(column, None, "") for column in columns]))

    def by(self, facet: Facet, column: Column) -> Grid | None:
        """Return one score by class of items, or None where there are fewer than two classes."""
        classes = in_order(facet, self.score_matrix.facets[facet])
        if len(classes) < 2:
            return None
        of = self.score_matrix.facets[facet]
        heads = tuple(f"{name} (n = {int((of == name).sum())})" for name in classes)
        rows = self._rows([(column, of == name, f"{facet}={name}") for name in classes])
        return Grid(f"{column_title(column, self.panels)} by {TITLES[facet]}", heads, rows)

    def by_seed(self, column: Column) -> Grid | None:
        """Return one score by seed, to show the variation, or None with a single seed."""
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
        """Return one figure for each arm over its seeds."""
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
    """Return the scores of whole sets, one table a metric: arms × parts of the set."""
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


MOST_WAYS = 8
"""Ways of drawing in a plot of several series: as many as there are markers."""


def plots_of(grids: Grids) -> tuple[list[Plot], list[str]]:
    """Return the plots, and notes on what was left out of them."""
    score_matrix = grids.score_matrix
    chosen = main_columns(score_matrix.columns())
    if not chosen or not score_matrix.arms:
        return [], []
    column, ways = chosen[0], list(score_matrix.ways)
    name = shown_name(column.metric)
    by = f" by {column.panel}" if len(chosen) > 1 else ""
    notes = []
    found = [
        dot_plot("arms", f"{name}{by}, by arm", ways,
             [Series(column_title(column), tuple(grids.figures(column)))], name)
    ]  # fmt: skip
    if len(chosen) > 1:
        series = [Series(each.panel, tuple(grids.figures(each))) for each in chosen[:MOST_WAYS]]
        found.append(dot_plot("panels", f"{name} by each panel of judges", ways, series, name))
    if len(ways) > MOST_WAYS:
        notes.append(
            f"Plots by class show the first {MOST_WAYS} of {len(ways)} arms; the tables have all."
        )
    complexity = _by(grids, column, "complexity", ways[:MOST_WAYS])
    if complexity is not None:
        places, series = complexity
        title = f"{name}{by}, by complexity"
        found.append(line_plot("complexity", title, places, series, name, "relations of the scene"))
    facets: tuple[Facet, ...] = ("level", "group", "category")
    for facet in facets:
        classes = _by(grids, column, facet, ways[:MOST_WAYS])
        if classes is not None:
            places, series = classes
            found.append(dot_plot(facet, f"{name}{by}, by {facet}", places, series, name))
    return found, notes


def _by(
    grids: Grids, column: Column, facet: Facet, ways: list[str]
) -> tuple[list[str], list[Series]] | None:
    of = grids.score_matrix.facets[facet]
    places = in_order(facet, of)
    if len(places) < 2:
        return None
    table = [grids.figures(column, of == place) for place in places]
    return places, [Series(way, tuple(row[at] for row in table)) for at, way in enumerate(ways)]


_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_tables(
    folder: Path,
    score_matrix: ScoreMatrix,
    grids: Grids,
    comparison: Comparison | None,
    tally: Tally,
) -> None:
    """Write ``scores.csv``, ``differences.csv`` and ``reasons.csv`` into a new ``folder``."""
    folder.mkdir()
    _write(
        folder / "scores.csv",
        ("arm", "metric", "part", "panel", "scope", "mean", "low", "high", "n"),
        _scores(score_matrix, grids),
    )
    if comparison is not None:
        write_differences(folder / "differences.csv", comparison)
    _write(
        folder / "reasons.csv",
        ("what", "arm", "score", "reason", "n"),
        _reasons(score_matrix, tally),
    )


def write_differences(file: Path, comparison: Comparison) -> None:
    """Write the differences of a comparison, one a line."""
    heads = (
        "before", "after", "metric", "part", "panel", "scope", "n", "score_before", "score_after",
        "difference", "low", "high", "dz", "p", "p_holm", "p_bh", "significant", "left_out",
        "seeds",
    )  # fmt: skip
    _write(file, heads, map(_difference, comparison.differences))


def _difference(d: Difference) -> Sequence[Any]:
    r = d.result
    return (
        d.before, d.after, d.metric, d.part, d.panel, d.scope, r.n, d.score_before, d.score_after,
        r.mean, r.low, r.high, r.dz, r.p, d.p_holm, d.p_bh, "yes" if d.significant else "no",
        "; ".join(f"{why}: {n}" for why, n in d.left_out.items()), d.seeds,
    )  # fmt: skip


def _scores(score_matrix: ScoreMatrix, grids: Grids) -> Iterable[Sequence[Any]]:
    for column in score_matrix.values:
        scopes: list[tuple[str, Any]] = [("", None)]
        for facet in FACETS:
            of = score_matrix.facets[facet]
            scopes += [(f"{facet}={name}", of == name) for name in in_order(facet, of)]
        for scope, mask in scopes:
            for way, f in zip(score_matrix.ways, grids.figures(column, mask), strict=True):
                yield (way, *column, scope, f.value, f.low, f.high, f.n)
    for s in score_matrix.sets:
        yield (s.arm, s.metric, s.part, "", s.scope, s.value, None, None, s.n)


def _reasons(score_matrix: ScoreMatrix, tally: Tally) -> Iterable[Sequence[Any]]:
    for (arm, why), n in score_matrix.failures.items():
        yield ("picture failed", arm, "", why, n)
    for arm, drawing in tally.drawings.items():
        for what, n in (("token", drawing.tokens_dropped), ("fact", drawing.facts_dropped)):
            if n:
                yield (
                    f"{what} of a prompt that was not read",
                    arm,
                    "",
                    "the prompt is too long",
                    n,
                )
    for (arm, panel, why), n in tally.reasons.items():
        yield ("fact without a verdict", arm, panel, why, n)
    for (column, arm, why), n in score_matrix.reasons.items():
        yield ("picture without a score", arm, " ".join(filter(None, column)), why, n)
    for (column, arm, why), n in score_matrix.partly.items():
        yield ("score of a part only", arm, " ".join(filter(None, column)), why, n)
    for s in score_matrix.sets:
        if s.unscored and not s.part:
            yield ("score of a part only", s.arm, f"{s.metric} {s.scope}".strip(), s.reason, 1)
    for (panel, judge), found in tally.judges.items():
        for why, n in found.reasons.items():
            yield ("answer not usable", judge, panel, why, n)


def _write(file: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(file, "w", newline="", encoding="utf-8", errors="replace") as opened:
        writer = csv.writer(opened)
        writer.writerow(heads)
        writer.writerows([_safe(value) for value in row] for row in rows)


def _safe(value: Any) -> Any:
    """Return a value for a spreadsheet; text that it would run as a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
