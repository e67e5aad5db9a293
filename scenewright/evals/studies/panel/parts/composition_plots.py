"""Plots of the study of a panel's composition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scenewright.evals.statistics.estimates import number
from scenewright.evals.studies.panel.metric_evaluator import MEASURES
from scenewright.evals.studies.panel.wording import estimate
from scenewright.evals.studies.plots import COLORS, MARKERS, bars, figure, legend, lines

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot

    from scenewright.evals.studies.panel.parts.composition_result import Composition


def sizes(found: Composition) -> Plot:
    """Quality by the number of judges: every panel, and the mean of each size."""
    made, axes = figure(size=(7.0, 4.4))
    axis = axes[0][0]
    main = found.names[0]
    points = [
        (len(members), one.value)
        for members in found.panels
        if (one := found.figure(members)).value is not None
    ]
    # Told apart from the means, which stand at the whole number.
    spread = np.random.default_rng(0).uniform(-0.16, 0.16, len(points))
    axis.scatter(
        [size + shift for (size, _), shift in zip(points, spread, strict=True)],
        [value for _, value in points],
        s=12, color="#9aa3ab", alpha=0.8, linewidths=0, zorder=1, label=f"a panel ({main})",
    )  # fmt: skip
    lines(
        axis,
        {
            f"mean of the size ({name})": [(of.size, estimate(of.mean)) for of in of_name]
            for name, of_name in found.sizes.items()
        },
    )
    honest = [(o.size, o.best_elsewhere) for o in found.sizes[main] if o.best_elsewhere is not None]
    if honest:
        axis.plot(
            [size for size, _ in honest],
            [value for _, value in honest],
            color="#444444", linestyle=":", marker="x", markersize=5, linewidth=1.2,
            label=f"best, chosen on other items ({main})",
        )  # fmt: skip
    axis.set_xticks(sorted({size for size, _ in points}))
    axis.set_xlabel("judges in the panel")
    axis.set_ylabel(MEASURES[found.measure].title)
    axis.set_title("Panels by size")
    legend(made, axis, columns=2)
    plot: Plot = made
    return plot


def members(found: Composition) -> Plot:
    """What each judge adds to all the others, and in whatever order the panel is put together."""
    series = {"added to all the others": found.adds[found.names[0]]}
    if found.shapley:
        series["Shapley value"] = found.shapley
    made, axes = figure(1, len(series), size=(7.0, 1.6 + 0.42 * len(found.everyone)))
    for at, (title, figures) in enumerate(series.items()):
        axis = axes[0][at]
        bars(axis, found.short, {title: [estimate(f) for f in figures]}, horizontal=True)
        axis.axvline(0.0, color="#222222", linewidth=0.8)
        axis.set_title(title, fontsize=10)
        if at:
            axis.set_yticklabels([])
    made.supxlabel(f"{MEASURES[found.measure].title}, difference ({found.names[0]})", fontsize=10)
    plot: Plot = made
    return plot


def pairs(found: Composition) -> Plot:
    """Correlation of each two judges' errors, or agreement of their votes."""
    n = len(found.everyone)
    made, axes = figure(size=(2.6 + 0.62 * n, 2.0 + 0.55 * n))
    axis = axes[0][0]
    grid = np.full((n, n), np.nan)
    for (a, b), one in found.pairs.items():
        if one.value is not None:
            grid[b, a] = one.value
    order = sorted(found.everyone, key=lambda at: found.table.families[at])
    full = np.where(np.isnan(grid), grid.T, grid)[np.ix_(order, order)]
    full[np.triu_indices(n)] = np.nan
    image = axis.imshow(full[1:, :-1], cmap="RdBu_r", vmin=-1.0, vmax=1.0)
    for y in range(1, n):
        for x in range(y):
            if not np.isnan(full[y, x]):
                shade = "white" if abs(full[y, x]) > 0.6 else "#222222"
                axis.text(x, y - 1, number(full[y, x], 2), ha="center", va="center", color=shade)
    names = [found.short[at] for at in order]
    axis.set_xticks(range(n - 1), names[:-1], rotation=35, ha="right")
    axis.set_yticks(range(n - 1), names[1:])
    axis.grid(visible=False)
    axis.set_title(
        "Correlation of errors given the truth" if found.pairs_are_errors else "κ of votes",
        fontsize=10,
    )
    made.colorbar(image, ax=axis, shrink=0.8)
    plot: Plot = made
    return plot


def cost(found: Composition) -> Plot:
    """Quality of every panel over what it takes for an image."""
    made, axes = figure(size=(7.0, 4.2))
    axis = axes[0][0]
    for at, size in enumerate(sorted({len(members) for members in found.panels})):
        mine = [
            (found.prices[m], one.value)
            for m in found.panels
            if len(m) == size and (one := found.figure(m)).value is not None
        ]
        axis.scatter(
            [x for x, _ in mine], [y for _, y in mine],
            s=26, color=COLORS[at % len(COLORS)], marker=MARKERS[at % len(MARKERS)],
            label=f"{size} judge{'s' if size > 1 else ''}",
        )  # fmt: skip
    axis.set_xlabel({"usd": "dollars an image", "tokens": "tokens an image"}[found.price])
    axis.set_ylabel(MEASURES[found.measure].title)
    axis.set_title(f"Quality and cost of every panel ({found.names[0]})")
    legend(made, axis, columns=4)
    plot: Plot = made
    return plot
