"""Plots of a report on objects, PNG and SVG: the layouts of Figs. 3 to 6 of Liang et al."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.evals.human_ratings.objects.analysis import Group
from scenewright.evals.human_ratings.objects.report import ObjectReport
from scenewright.evals.human_ratings.plots import ACCENT, INK, save_plot
from scenewright.evals.human_ratings.study import ASPECTS, POINTS, Aspect

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS: dict[Aspect, str] = {"shape": ACCENT, "texture": "#d98a1f"}
GAPS = ("0 to <1", "1 to <2", "2 to <3", "3 or more")
"""How far shape and texture of an object are apart."""
_GAP_COLORS = ("#3d4fc4", "#d98a1f", "#2f9e6b", "#c43d3d")
MOST_CATEGORIES = 40


def draw_object_plots(report: ObjectReport, folder: Path) -> dict[str, str]:
    """Draw the plots that ``report`` has figures for; file name without ending → what it shows.

    Raises ``RatingError`` if a file cannot be written.
    """
    drawn: dict[str, str] = {}

    def save(name: str, about: str, size: tuple[float, float], draw: Callable[[Any], None]) -> None:
        save_plot(folder / name, size, draw)
        drawn[name] = about

    if not report.counts.pictures:
        return drawn
    save("distribution", "Objects by score (Fig. 3)", (5.6, 3.2), lambda a: _histogram(a, report))
    groups = {"sources": report.sources, "categories": report.categories[:MOST_CATEGORIES]}
    titles = {"sources": "what made the picture (Fig. 4)", "categories": "category (Fig. 6)"}
    for name, found in groups.items():
        size = (6.4, 1.2 + 0.46 * len(found))
        save(name, f"Shape and texture by {titles[name]}", size, partial(_means, groups=found))
    size = (6.4, 1.4 + 0.36 * len(report.sources))
    save(
        "discrepancy",
        "How far shape and texture of an object are apart, by what made the picture (Fig. 5)",
        size,
        lambda a: _gaps(a, report.sources),
    )
    return drawn


def _histogram(axes: Axes, report: ObjectReport) -> None:
    for at, aspect in enumerate(ASPECTS):
        counts = report.histogram[aspect]
        places = [score + 0.36 * (at - 0.5) for score in range(1, POINTS + 1)]
        axes.bar(places, counts, width=0.34, color=COLORS[aspect], label=aspect)
    axes.set_xticks(range(1, POINTS + 1))
    axes.set_xlabel("mean score of the raters, halves rounded up", fontsize=9)
    axes.set_ylabel("objects", fontsize=9)
    axes.legend(frameon=False, fontsize=9)
    _plain(axes)


def _means(axes: Axes, groups: Sequence[Group]) -> None:
    for at, group in enumerate(reversed(groups)):
        for offset, aspect in zip((0.19, -0.19), ASPECTS, strict=True):
            figure = group.mean[aspect]
            if figure.value is None:
                continue
            axes.barh(
                at + offset, figure.value, height=0.36, color=COLORS[aspect],
                label=aspect if at == 0 else None,
            )  # fmt: skip
            if figure.low is not None and figure.high is not None:
                axes.plot([figure.low, figure.high], [at + offset] * 2, color=INK, linewidth=1.4)
    axes.set_yticks(range(len(groups)), [group.name for group in reversed(groups)])
    axes.set_xlim(1, POINTS)
    axes.set_xlabel("mean score", fontsize=9)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    _plain(axes)


def _gaps(axes: Axes, groups: Sequence[Group]) -> None:
    for at, group in enumerate(reversed(groups)):
        left = 0.0
        for share, color, name in zip(group.discrepancy, _GAP_COLORS, GAPS, strict=True):
            axes.barh(
                at, share, left=left, color=color, height=0.62, label=name if not at else None
            )
            left += share
    axes.set_yticks(range(len(groups)), [group.name for group in reversed(groups)])
    axes.set_xlim(0, 1)
    axes.set_xlabel("share of objects", fontsize=9)
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
