"""Kinds of plots that several parts draw, each from figures with their intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.statistics.figures import Figure
from scenewright.evals.studies import plots
from scenewright.evals.studies.panel.presentation import estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

INK, GREY = "#222222", "#9aa3ab"
Drawings = Mapping[str, "Callable[[], Plot]"]
"""File stem → function that draws the plot."""
Points = Iterable[tuple[float, Figure | Estimate]]
"""x → figure."""


def panes(columns: int, size: tuple[float, float], rows: int = 1) -> tuple[Any, list[Any]]:
    """Return a figure and its axes, row by row; ``size`` (width, height) in inches."""
    made, axes = plots.figure(rows, columns, size)
    return made, list(axes.flat)


def finished(made: Any, axis: Axes | None = None, columns: int = 3, title: str = "") -> Plot:
    """Return the figure with the legend of ``axis`` below it and a ``title`` above all axes."""
    if title:
        made.suptitle(title, fontsize=11)
    if axis is not None:
        plots.legend(made, axis, columns=columns)
    plot: Plot = made
    return plot


def labelled(axis: Axes, x: str = "", y: str = "", title: str = "", small: bool = True) -> None:
    """Set the labels of an axis."""
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    if title:
        axis.set_title(title, fontsize=10 if small else None)


def scaled(found: Figure | Estimate, factor: float = 1.0) -> Estimate:
    """Return a figure times ``factor``."""
    return estimate(found, factor) if isinstance(found, Figure) else found.times(factor)


def looks(at: int) -> dict[str, Any]:
    """Return colour, marker and line of series number ``at``."""
    return {
        "color": plots.COLORS[at % len(plots.COLORS)],
        "marker": plots.MARKERS[at % len(plots.MARKERS)],
        "linestyle": plots.LINES[at % len(plots.LINES)],
    }


def curve(
    axis: Axes,
    at: int,
    label: str,
    points: Points,
    factor: float = 1.0,
    band: bool = False,
    **style: Any,
) -> None:
    """Draw series number ``at`` with its intervals, as bars or as a ``band``."""
    known = [(x, scaled(f, factor)) for x, f in points if f.value is not None]
    if not known:
        return
    xs, values = [x for x, _ in known], [e.value or 0.0 for _, e in known]
    style = looks(at) | {"linewidth": 1.4, "markersize": 5, "label": label} | style
    if not band:
        axis.errorbar(
            xs, values, yerr=plots.errors([e for _, e in known]),
            elinewidth=0.8, capsize=2.5, **style,
        )  # fmt: skip
        return
    axis.plot(xs, values, **style)
    ends = [(x, e.low, e.high) for x, e in known if e.low is not None and e.high is not None]
    if ends:
        x, low, high = (np.array(side) for side in zip(*ends, strict=True))
        axis.fill_between(x, low, high, alpha=0.12, linewidth=0, color=style["color"])


def scatter(
    axis: Axes, at: int, label: str, points: Sequence[tuple[Any, Any]], **style: Any
) -> None:
    """Draw (x, y) of series number ``at`` as marks."""
    found = {"s": 18, "linewidths": 0} | looks(at) | style | {"label": label}
    found.pop("linestyle")
    axis.scatter([x for x, _ in points], [y for _, y in points], **found)


def bars(
    axis: Axes,
    names: Sequence[str],
    series: Mapping[str, Sequence[Figure | Estimate]],
    factor: float = 1.0,
    zero: bool = True,
) -> None:
    """Draw horizontal bars of every series, and with ``zero`` a line at 0."""
    found = {name: [scaled(f, factor) for f in each] for name, each in series.items()}
    plots.bars(axis, names, found, horizontal=True)
    if zero:
        axis.axvline(0.0, color=INK, linewidth=0.9)


def bar_chart(
    names: Sequence[str],
    series: Mapping[str, Sequence[Figure | Estimate]],
    *,
    x: str,
    title: str = "",
    factor: float = 1.0,
    limits: tuple[float, float] | None = None,
    lines: Sequence[tuple[str, float]] = (),
    columns: int = 3,
) -> Plot:
    """Return a figure of horizontal bars alone, with dashed ``lines`` (name, place) across."""
    high = 1.4 + 0.24 * len(names) * (len(series) + 0.8)
    made, (axis,) = panes(1, (7.4, high))
    bars(axis, names, series, factor, zero=limits is None)
    for at, (name, place) in enumerate(lines, 1):
        axis.axvline(
            place, color=plots.COLORS[at], linestyle=plots.LINES[at], linewidth=1.2, label=name
        )
    if limits:
        axis.set_xlim(*limits)
    labelled(axis, x, title=title, small=False)
    return finished(made, axis, columns)


def heat(
    axis: Axes,
    values: Array,
    rows: Sequence[str],
    columns: Sequence[str],
    *,
    most: float,
    colors: str,
    digits: int = 1,
    sign: bool = False,
    bold: Array | None = None,
) -> Any:
    """Draw a grid of numbers from −``most`` to ``most``; NaN stays empty. Return its image."""
    shown = axis.imshow(values, cmap=colors, vmin=-most, vmax=most, aspect="auto")
    for (y, x), value in np.ndenumerate(values):
        if not np.isnan(value):
            axis.text(
                x, y, number(float(value), digits, sign), ha="center", va="center", fontsize=8,
                fontweight="bold" if bold is not None and bold[y, x] else "normal",
                color="white" if abs(value) > 0.62 * most else INK,
            )  # fmt: skip
    axis.set_xticks(range(len(columns)), columns, rotation=35, ha="right")
    axis.set_yticks(range(len(rows)), rows)
    axis.grid(visible=False)
    return shown


def noted(axis: Axes, text: str, place: tuple[float, float], at: int = -1, up: float = 5) -> None:
    """Write a small ``text`` beside a point, in the colour of series number ``at``."""
    color = "#444444" if at < 0 else plots.COLORS[at % len(plots.COLORS)]
    axis.annotate(text, place, fontsize=8, xytext=(4, up), textcoords="offset points", color=color)
