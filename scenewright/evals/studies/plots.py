"""Plots of studies: SVG, legible, with marks and hatches as well as colours.

Colours are those of Okabe and Ito (2008), which people with any common colour blindness can tell
apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.evals.statistics.estimates import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A7A00")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-", "--")
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "+++", "|||", "//")
CONDITIONS: dict[str, str] = {
    "triplets": "triplets (baseline)",
    "composition": "+ scene composition",
    "feedback": "+ feedback",
    "feedback_whole": "+ feedback, whole picture",
    "lambda1_0": "IP-Adapter, λ1 = 0",
}
"""Condition → how tables and plots call it."""
_STYLE: Any = {
    "font.size": 10,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#dfe3e6",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "svg.fonttype": "none",
    # Equal figures give equal files.
    "svg.hashsalt": "scenewright",
}

_WHISKER: dict[str, Any] = {
    "fmt": "none",
    "ecolor": "#222222",
    "elinewidth": 0.9,
    "capsize": 2,
}


def name_of(condition: str) -> str:
    """Return ``condition`` in words."""
    return CONDITIONS.get(condition, condition)


def figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.0, 4.2)
) -> tuple[Figure, Any]:
    """Return a new figure, and its axes as an array (rows, columns).

    ``size`` is (width, height) in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(_STYLE):
        made = Figure(figsize=size, layout="constrained")
        return made, made.subplots(rows, columns, squeeze=False)


def chart(
    title: str, xlabel: str = "", ylabel: str = "", size: tuple[float, float] = (7.0, 4.2)
) -> tuple[Figure, Axes]:
    """Return a new figure with one pair of axes, and these."""
    made, axes = figure(size=size)
    axis: Axes = axes[0][0]
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return made, axis


def lines(
    axis: Axes, series: Mapping[str, Sequence[tuple[float, Estimate]]], factor: float = 1.0
) -> None:
    """Draw one line a series over x, with 95 % intervals.

    Without an interval the spread over seeds is drawn.
    """
    names = list(series)
    for at, name in enumerate(names):
        points = [(x, e.times(factor)) for x, e in series[name] if e.value is not None]
        if not points:
            continue
        shift = (at - (len(names) - 1) / 2) * 0.06
        axis.errorbar(
            [x + shift for x, _ in points],
            [e.value or 0.0 for _, e in points],
            yerr=errors([e for _, e in points]),
            color=COLORS[at % len(COLORS)],
            marker=MARKERS[at % len(MARKERS)],
            linestyle=LINES[at % len(LINES)],
            markersize=5,
            linewidth=1.5,
            capsize=2.5,
            elinewidth=0.9,
            label=name,
        )


def bars(
    axis: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    factor: float = 1.0,
    horizontal: bool = False,
) -> None:
    """Draw bars of every series side by side in each group, with 95 % intervals."""
    width = 0.8 / max(1, len(series))
    for at, (name, estimates) in enumerate(series.items()):
        places: list[float] = []
        found: list[Estimate] = []
        for group, estimate in enumerate(estimates):
            if estimate.value is not None:
                places.append(group + (at - (len(series) - 1) / 2) * width)
                found.append(estimate.times(factor))
        draw: Any = axis.barh if horizontal else axis.bar
        values = [e.value or 0.0 for e in found]
        draw(
            places,
            values,
            width * 0.92,
            color=COLORS[at % len(COLORS)],
            hatch=HATCHES[at % len(HATCHES)],
            edgecolor="white",
            linewidth=0.4,
            label=name,
        )
        if found:
            spread: dict[str, Any] = {"xerr" if horizontal else "yerr": errors(found)}
            along = (values, places) if horizontal else (places, values)
            whiskers: Any = axis.errorbar
            whiskers(*along, **spread, **_WHISKER)
    if horizontal:
        axis.set_yticks(range(len(groups)), list(groups))
        axis.invert_yaxis()
        axis.grid(axis="y", visible=False)
    else:
        axis.set_xticks(range(len(groups)), list(groups))
        axis.grid(axis="x", visible=False)


def percentages(
    groups: Sequence[str],
    series: Mapping[str, Sequence[Estimate]],
    *,
    ylabel: str,
    title: str,
    size: tuple[float, float],
    xlabel: str = "",
    columns: int = 3,
) -> Figure:
    """Return a figure of :func:`bars` alone, from 0 to 100 %, with its legend in ``columns``."""
    made, axis = chart(title, xlabel, ylabel, size)
    bars(axis, groups, series)
    axis.set_ylim(0, 100)
    legend(made, axis, columns=columns)
    return made


def legend(made: Figure, axis: Axes, columns: int = 3) -> None:
    """Add one legend for all axes, below them."""
    handles, labels = axis.get_legend_handles_labels()
    if labels:
        made.legend(handles, labels, loc="outside lower center", ncols=columns)


def save(made: Figure, path: Path, title: str) -> None:
    """Write ``made`` as SVG; ``title`` is the title in the file."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        made.savefig(path, format="svg", metadata={"Date": None, "Title": title})


def errors(found: Sequence[Estimate]) -> list[list[float]]:
    """Return how far the intervals reach below and above the values.

    Without an interval the spread over seeds is taken.
    """
    below, above = [], []
    for estimate in found:
        value = estimate.value or 0.0
        spread = estimate.sd or 0.0
        low = value - spread if estimate.low is None else estimate.low
        high = value + spread if estimate.high is None else estimate.high
        # A percentile interval need not hold its own mean.
        below.append(max(0.0, value - low))
        above.append(max(0.0, high - value))
    return [below, above]
