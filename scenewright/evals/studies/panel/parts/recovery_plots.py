"""Plots of the study ``recovery``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from scenewright.evals.statistics.estimates import Estimate
from scenewright.evals.studies.panel.recovering import ESTIMATORS, Recovered, Recovery

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot

_WAYS = ("with labels", "without labels: Dawid–Skene", "without labels: model of families")
_PARTS = {
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "correlation": "error correlation",
    "temperature": "temperature",
    "ece": "calibration error (ECE)",
    "prevalence": "prevalence",
}


def plot_estimates(rows: Sequence[Recovered]) -> Plot:
    """Every estimate against its truth."""
    from scenewright.evals.studies.plots import COLORS, MARKERS, figure, legend

    made, axes = figure(2, 3, size=(9.0, 6.4))
    for axis, (part, title) in zip(axes.ravel(), _PARTS.items(), strict=True):
        names = [name for name in ESTIMATORS if name.startswith(f"{part}.")]
        ends: list[float] = []
        for name in names:
            points = [
                (row.truth, row.estimate)
                for row in rows
                if row.estimator == name and not np.isnan(row.estimate)
            ]
            if not points:
                continue
            at = _way(name)
            axis.scatter(
                *zip(*points, strict=True),
                s=12,
                alpha=0.55,
                color=COLORS[at],
                marker=MARKERS[at],
                linewidths=0,
                label=_WAYS[at],
            )
            ends += [value for point in points for value in point]
        _diagonal(axis, ends)
        axis.set_title(title)
        axis.set_xlabel("put in")
        axis.set_ylabel("estimated")
    legend(made, axes[0][0])
    plot: Plot = made
    return plot


def _way(estimator: str) -> int:
    """Number in :data:`_WAYS`."""
    way = estimator.partition(".")[2]
    return {"dawid_skene": 1, "unlabelled": 1, "families": 2}.get(way, 0)


def _diagonal(axis: Axes, ends: Sequence[float]) -> None:
    if ends:
        low, high = min(ends), max(ends)
        axis.plot([low, high], [low, high], color="#222222", linewidth=0.9, linestyle="--")


def plot_coverage(found: Mapping[str, Recovery]) -> Plot:
    """Share of each estimator's intervals that hold."""
    from scenewright.evals.studies.plots import bars, figure

    kept = {name: each for name, each in found.items() if each.coverage.value is not None}
    made, axes = figure(size=(7.5, 0.42 * len(kept) + 1.2))
    axis = axes[0][0]
    cells = [
        Estimate(value=each.coverage.value, low=each.coverage.low, high=each.coverage.high)
        for each in kept.values()
    ]
    names = [ESTIMATORS[name] for name in kept]
    bars(axis, names, {"coverage": cells}, factor=100.0, horizontal=True)
    axis.axvline(95.0, color="#222222", linewidth=1.0, linestyle="--")
    axis.set_xlim(0, 100)
    axis.set_xlabel("95 % intervals that hold the truth, %")
    plot: Plot = made
    return plot


def plot_errors(rows: Sequence[Recovered]) -> Plot:
    """Errors of rates by the correlation of errors that was put in."""
    from scenewright.evals.studies.plots import COLORS, MARKERS, figure, legend

    made, axes = figure(1, 2, size=(8.5, 3.8))
    for axis, part in zip(axes[0], ("sensitivity", "specificity"), strict=True):
        for way in ("labelled", "dawid_skene", "families"):
            points = _by_simulation(rows, f"{part}.{way}")
            if not points:
                continue
            at = _way(f"{part}.{way}")
            axis.scatter(
                [x for x, _ in points],
                [y for _, y in points],
                s=18,
                color=COLORS[at],
                marker=MARKERS[at],
                label=_WAYS[at],
            )
        axis.axhline(0.0, color="#222222", linewidth=0.9, linestyle="--")
        axis.set_title(part)
        axis.set_xlabel("mean error correlation put in")
        axis.set_ylabel("mean of estimate − truth")
    legend(made, axes[0][0])
    plot: Plot = made
    return plot


def _by_simulation(rows: Sequence[Recovered], estimator: str) -> list[tuple[float, float]]:
    """(correlation put in, mean error of its judges) of each simulated table."""
    errors: dict[int, list[float]] = {}
    at: dict[int, float] = {}
    for row in rows:
        if row.estimator == estimator and not np.isnan(row.estimate):
            errors.setdefault(row.simulation, []).append(row.estimate - row.truth)
            at[row.simulation] = row.correlation
    return [(at[number], float(np.mean(values))) for number, values in errors.items()]
