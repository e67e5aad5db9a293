"""Plots of the study of statistical power."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scenewright.evals.studies.panel.parts.power_found import Power, curve

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


def plot_power(study: Power) -> Plot:
    """Power against images, one line a difference: with the smallest and the largest panel."""
    from scenewright.evals.studies import plots

    sizes = list(dict.fromkeys((0, len(study.judges) - 1)))
    made, axes = plots.figure(1, len(sizes), (3.8 * len(sizes) + 0.4, 4.0))
    ns = [int(n) for n in np.unique(np.geomspace(10, 20_000, 60).astype(int))]
    for axis, at in zip(axes.flat, sizes, strict=True):
        for number, effect in enumerate(study.effects):
            color = plots.COLORS[number % len(plots.COLORS)]
            axis.plot(
                ns, [100 * power for power in curve(study, effect, at, ns)], color=color,
                linestyle=plots.LINES[number % len(plots.LINES)], linewidth=1.5,
                label=f"{100 * effect:g} points",
            )  # fmt: skip
            for done in study.simulated:
                if (done.effect, done.judges) == (effect, study.judges[at]):
                    share = done.share.times(100)
                    axis.errorbar(
                        done.images, share.value or 0.0, yerr=plots.errors([share]), color=color,
                        marker=plots.MARKERS[number % len(plots.MARKERS)], capsize=2.5,
                        markersize=5, linestyle="none",
                    )  # fmt: skip
        axis.axhline(100 * study.powers[0], color="#555555", linewidth=0.9, linestyle=":")
        axis.set_xscale("log")
        axis.set_ylim(0, 102)
        n = study.judges[at]
        axis.set_title("1 judge" if n == 1 else f"{n} judges", fontsize=10)
        axis.set_xlabel("images of each model")
    axes.flat[0].set_ylabel("power (%)")
    made.suptitle("Lines by the formula, marks by simulation", fontsize=10)
    plots.legend(made, axes.flat[0], columns=5)
    drawn: Plot = made
    return drawn
