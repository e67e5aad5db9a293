"""Plots of the study of attacks and drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.evals.studies.panel.parts.attacks_found import CHANGED, SAYS, Attacked

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Plot


def plot_attacks(study: Attacked) -> Plot:
    """Quality against the share of bad judges, one panel an attack."""
    from scenewright.evals.studies import plots

    kinds = list(study.enlarged)
    columns = min(3, len(kinds))
    rows = -(-len(kinds) // columns)
    made, axes = plots.figure(rows, columns, (3.3 * columns + 0.6, 2.9 * rows + 0.7))
    for at, axis in enumerate(axes.flat):
        if at >= len(kinds):
            axis.set_axis_off()
            continue
        by_name = study.enlarged[kinds[at]]
        for number, (name, found) in enumerate(by_name.items()):
            known = [(100 * x, e) for x, e in zip(found.shares, found.curve, strict=True)
                     if e.value is not None]  # fmt: skip
            shares = [x for x, _ in known]
            style: dict[str, Any] = {"color": plots.COLORS[number % len(plots.COLORS)]}
            axis.plot(
                shares, [e.value for _, e in known], label=name, markersize=4, linewidth=1.4,
                marker=plots.MARKERS[number % len(plots.MARKERS)],
                linestyle=plots.LINES[number % len(plots.LINES)], **style,
            )  # fmt: skip
            spread = [(x, e.low, e.high) for x, e in known if e.low is not None]
            low_high = list(zip(*spread, strict=True))
            if low_high:
                axis.fill_between(*low_high, alpha=0.12, linewidth=0, **style)
        axis.axhline(study.chance, color="#555555", linewidth=0.9, linestyle=":")
        axis.set_title(f"judges that {SAYS[kinds[at]]}", fontsize=10)
        axis.set_xlabel("bad judges (% of the panel)")
        if at % columns == 0:
            axis.set_ylabel(study.measure)
    plots.legend(made, axes.flat[0], columns=3)
    drawn: Plot = made
    return drawn


def plot_updates(study: Attacked) -> Plot:
    """Share of streams in which CUSUM has told, against the images since the update."""
    from scenewright.evals.studies import plots

    changes = list(dict.fromkeys(change for change, _ in study.watched))
    made, axes = plots.figure(1, len(changes), (3.6 * len(changes) + 0.6, 3.6))
    for axis, change in zip(axes.flat, changes, strict=True):
        shifts = [shift for kind, shift in study.watched if kind == change]
        for number, shift in enumerate(shifts):
            every = study.watched[change, shift]
            last = every[0].watched
            grid = np.unique(np.linspace(0, last, 121).astype(int))
            curves = np.array([[(s.delays <= x).mean() for x in grid] for s in every]) * 100
            style: dict[str, Any] = {"color": plots.COLORS[number % len(plots.COLORS)]}
            axis.plot(
                grid, curves.mean(0), label=f"{100 * shift:.0f} % changed",
                linestyle=plots.LINES[number % len(plots.LINES)], linewidth=1.6, **style,
            )  # fmt: skip
            axis.fill_between(grid, curves.min(0), curves.max(0), alpha=0.15, linewidth=0, **style)
        axis.set_ylim(0, 101)
        axis.set_title(f"an update that {CHANGED[change].format('some')}", fontsize=10)
        axis.set_xlabel("images since the update")
    axes.flat[0].set_ylabel("streams with an alarm (%)")
    made.suptitle("CUSUM on agreement: mean of the judges, band from least to most", fontsize=10)
    plots.legend(made, axes.flat[0], columns=3)
    drawn: Plot = made
    return drawn


def plot_slow(study: Attacked) -> Plot:
    """Quality, and answers given up, against the seconds of an image."""
    from scenewright.evals.studies import plots

    made, axes = plots.figure(1, 2, (8.2, 3.6))
    wall = np.array([np.nanmean(cut.wall) for cut in study.cuts])
    for number, name in enumerate(study.names):
        known = [(x, by[name][0]) for x, by in zip(wall, study.slow, strict=True)]
        points = [(x, e) for x, e in known if e.value is not None]
        spread = [(x, e.low, e.high) for x, e in points if e.low is not None]
        if spread:
            axes[0][0].fill_between(
                *zip(*spread, strict=True), alpha=0.1, linewidth=0,
                color=plots.COLORS[number % len(plots.COLORS)],
            )  # fmt: skip
        axes[0][0].plot(
            [x for x, _ in points], [e.value for _, e in points], label=name, markersize=5,
            color=plots.COLORS[number % len(plots.COLORS)], linewidth=1.4,
            marker=plots.MARKERS[number % len(plots.MARKERS)],
            linestyle=plots.LINES[number % len(plots.LINES)],
        )  # fmt: skip
    axes[0][0].set_ylabel(study.measure)
    lost = [100 * cut.lost for cut in study.cuts]
    axes[0][1].plot(wall, lost, color=plots.COLORS[0], marker="o", linewidth=1.4)
    # Labels of limits that are close would cover each other; having none is told in any case.
    shown: list[tuple[float, float]] = []
    for x, y, cut in reversed(list(zip(wall, lost, study.cuts, strict=True))):
        apart = (np.hypot((x - a) / np.ptp(wall), (y - b) / max(1.0, max(lost))) for a, b in shown)
        if all(gap > 0.08 for gap in apart):
            text = "no limit" if np.isinf(cut.limit) else f"{cut.limit:.2g} s"
            axes[0][1].annotate(text, (x, y), xytext=(4, 5), textcoords="offset points", fontsize=8)
            shown.append((x, y))
    axes[0][1].set_ylim(bottom=-1)
    axes[0][1].margins(x=0.12)
    axes[0][1].set_ylabel("answers given up (%)")
    for axis in axes.flat:
        axis.set_xlabel("seconds an image" + (" (modelled)" if study.modelled else ""))
    plots.legend(made, axes[0][0], columns=3)
    drawn: Plot = made
    return drawn
