"""Plots declared by columns of rows: which is along, which is up, which names series and panes.

A :class:`Chart` takes the rows of a :class:`~scenewright.evals.reporting.frames.Frame`, or some of
them, and is drawn as a matplotlib figure in the style of
:mod:`~scenewright.evals.reporting.plots`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scenewright.evals.reporting import plots
from scenewright.evals.reporting.frames import Rows
from scenewright.evals.reporting.sentences import short_names
from scenewright.evals.statistics.estimates import Estimate, Measured
from scenewright.evals.statistics.figures import side_of_zero

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_SIZES = {1: (7.0, 4.4), 2: (9.0, 4.2)}
"""Inches of a plot of so many panes side by side."""


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot.

    ``lines`` and ``bars`` are drawn with the intervals of their figures; ``bars`` are horizontal,
    one group a value of ``x``. ``heat`` is a grid of numbers with ``x`` across and ``series`` down.
    """

    name: str
    """Stem of its file."""
    rows: Rows
    """What it shows."""
    x: str
    """Column along: numbers, or the names of groups."""
    y: str
    """Column of the values: figures or numbers; rows without a value are left out."""
    kind: Literal["lines", "bars", "heat"] = "lines"
    """How values are drawn."""
    series: str = ""
    """Column that names the series; empty: one series without a name."""
    pane: str = ""
    """Column that names the panes; empty: one pane."""
    title: str = ""
    """Above the plot; it also stands for the plot where it is not seen."""
    xlabel: str = ""
    """Below."""
    ylabel: str = ""
    """Beside."""
    factor: float = 1.0
    """By which values are multiplied: 100 for shares in percent."""
    marks: Rows = ()
    """Further rows of ``lines``, drawn as points alone."""
    band: bool = False
    """Whether intervals of lines are bands."""
    text: str = ""
    """Column of small texts beside the points."""
    styles: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Series → what is drawn otherwise, in matplotlib's words."""
    rules: Mapping[str, float] = field(default_factory=dict)
    """Name → place of a line across: upright through bars, level through lines."""
    log: bool = False
    """Whether the axis along is logarithmic."""
    limits: tuple[float | None, float | None] | None = None
    """Ends of the axis of values."""
    shared: bool = False
    """Whether panes of lines have one range of values."""
    size: tuple[float, float] | None = None
    """Inches, width and height."""

    def draw(self) -> Drawing:
        """Return the figure."""
        if self.kind == "heat":
            return self._heat()
        names = _values(self.rows, self.pane)
        series = _values(self.rows, self.series)
        across = min(3, len(names))
        down = -(-len(names) // across)
        if self.size:
            size = self.size
        elif self.kind == "bars":
            groups = len(_values(self.rows, self.x))
            size = (7.4, 1.4 + 0.24 * groups * ((1 if self.pane else len(series)) + 0.8))
        else:
            width, height = _SIZES.get(across, (10.5, 3.8))
            size = (width, height if down == 1 else 0.7 + 2.9 * down)
        made, axes = plots.panes(across, size, down)
        for axis, name in zip(axes, names, strict=False):
            rows, marks = (
                [row for row in of if row.get(self.pane) == name] for of in (self.rows, self.marks)
            )
            if self.kind == "bars":
                self._bars(axis, rows, series)
            else:
                self._lines(axis, rows, series)
                others = [one for one in _values(self.marks, self.series) if one not in series]
                self._lines(axis, marks, [*series, *others], len(series))
                self._finish(axis)
            plots.labelled(axis, self.xlabel, title=str(name) if self.pane else "")
        for axis in axes[len(names) :]:
            axis.set_axis_off()
        if self.shared:
            ends = [axis.get_ylim() for axis in axes[: len(names)]]
            for axis in axes[: len(names)]:
                axis.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
        if self.kind == "bars":
            for axis in axes[1:]:
                axis.set_yticklabels([])
        else:
            for axis in axes[: len(names) : across]:
                axis.set_ylabel(self.ylabel)
        longest = max(len(str(name)) for name in (*series, *_values(self.marks, self.series)))
        # About twelve letters of the legend to an inch.
        columns = max(1, min(4, int(12 * size[0]) // (longest + 6)))
        return plots.legend(made, axes[0], columns, self.title)

    def _lines(self, axis: Axes, rows: Rows, series: Sequence[Any], lines: int = -1) -> None:
        """Draw ``series`` as lines, or as points without lines those of so many that have lines."""
        for at, name in enumerate(series):
            known = [
                (_estimate(row[self.x]), _estimate(row[self.y]), row)
                for row in rows
                if row.get(self.series) == name and _estimate(row[self.y]).value is not None
            ]
            xs = [x for x, _, _ in known]
            style: dict[str, Any] = {}
            if lines >= 0:
                style = {"linestyle": "none"}
            elif any(x.low is not None for x in xs):
                style = {"xerr": plots.errors(xs), "linestyle": "none"}
            elif self.band and len(known) > 30:
                style = {"marker": ""}
            style |= self.styles.get(str(name), {})
            points = [(x.value or 0.0, y) for x, y, _ in known]
            band = self.band and lines < 0
            label = "" if at < lines else str(name or "")
            plots.curve(axis, at, label, points, self.factor, band, **style)
            texts = [(x, y.value or 0.0, str(row.get(self.text) or ""))
                     for (x, y), (_, _, row) in zip(points, known, strict=True)]  # fmt: skip
            for x, y, text in _apart(texts):
                plots.noted(axis, text, (x, y * self.factor), at, 5 if at % 2 == 0 else -12)

    def _finish(self, axis: Axes) -> None:
        for name, place in self.rules.items():
            axis.axhline(place, color="#555555", linewidth=0.9, linestyle=":", label=name)
        if self.log:
            axis.set_xscale("log")
        elif self.rows and all(isinstance(row[self.x], int) for row in self.rows):
            places = sorted({row[self.x] for row in self.rows})
            axis.set_xticks(places if len(places) <= 12 else axis.get_xticks())
        if self.limits:
            axis.set_ylim(*self.limits)

    def _bars(self, axis: Axes, rows: Rows, series: Sequence[Any]) -> None:
        groups = _values(self.rows, self.x)
        drawn = {
            str(name or ""): [self._cell(rows, group, name) for group in groups] for name in series
        }
        # Where each group has a value in one series alone, series are only colours.
        cells = [[one[at].value is not None for one in drawn.values()] for at in range(len(groups))]
        beside = any(sum(there) > 1 for there in cells)
        names = short_names(map(str, groups))
        plots.bars(axis, names, drawn, self.factor, horizontal=True, beside=beside)
        for at, (name, place) in enumerate(self.rules.items(), 1):
            axis.axvline(
                place, color=plots.COLORS[at], linestyle=plots.LINES[at], linewidth=1.2, label=name
            )
        if self.limits:
            axis.set_xlim(*self.limits)
        else:
            axis.axvline(0.0, color=plots.INK, linewidth=0.9)

    def _cell(self, rows: Rows, x: Any, series: Any) -> Estimate:
        """Return the value of the first row at ``x`` in ``series``."""
        found = (r for r in rows if r[self.x] == x and r.get(self.series) == series)
        return _estimate(next(found, {}).get(self.y))

    def _heat(self) -> Drawing:
        columns, rows = _values(self.rows, self.x), _values(self.rows, self.series)
        grid = [[self._cell(self.rows, x, y) for x in columns] for y in rows]
        values = self.factor * np.array(
            [[np.nan if one.value is None else one.value for one in row] for row in grid]
        )
        size = self.size or (2.6 + 0.72 * len(columns), 2.2 + 0.36 * len(rows))
        made, axis = plots.chart(self.title, size=size)
        known = values[~np.isnan(values)]
        counts = bool((known == np.round(known)).all())
        shown = plots.heat(
            axis, values, short_names(map(str, rows)), [str(name) for name in columns],
            colors="PuOr_r", sign=bool((known < 0.0).any()),
            digits=0 if counts else 1 if self.factor > 1.0 else 2,
            most=max(1.0, float(np.nanmax(np.abs(values), initial=0.0))),
            bold=np.array([[side_of_zero(one) != 0 for one in row] for row in grid]),
        )  # fmt: skip
        made.colorbar(shown, ax=axis, label=self.ylabel)
        return plots.legend(made)


def _apart(texts: Sequence[tuple[float, float, str]]) -> list[tuple[float, float, str]]:
    """Return the texts that do not cover each other: of those that are close, the last."""
    places = np.array([[x, y] for x, y, _ in texts]).reshape(-1, 2)
    scale = np.where(np.ptp(places, axis=0) > 0.0, np.ptp(places, axis=0), 1.0) if texts else 1.0
    kept: list[int] = []
    for at in range(len(texts))[::-1]:
        gaps = (np.hypot(*((places[at] - places[other]) / scale)) for other in kept)
        if texts[at][2] and all(gap > 0.06 for gap in gaps):
            kept.append(at)
    return [texts[at] for at in kept]


def _values(rows: Rows, name: str) -> list[Any]:
    """Return the different values of a column in their order; of none the one None."""
    return list(dict.fromkeys(row.get(name) for row in rows)) if name else [None]


def _estimate(cell: Any) -> Estimate:
    """Return a cell as a figure; NaN and None have no value."""
    if isinstance(cell, Estimate):
        return cell
    if isinstance(cell, Measured):
        return Estimate(**cell.model_dump())
    return Estimate(value=None if cell is None or cell != cell else float(cell))
