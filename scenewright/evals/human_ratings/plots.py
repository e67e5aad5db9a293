"""Plots of a rating report, PNG and SVG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.evals.human_ratings.choices import Confusion
from scenewright.evals.human_ratings.report import RatingReport
from scenewright.evals.human_ratings.study import RatingError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, ACCENT, RULE = "#1d1c1a", "#3d4fc4", "#c9c4b8"
_MOST_CONFUSIONS = 4
MEANS = {
    "choice": "share of raters who chose it",
    "facts": "share of facts that hold, by people",
    "score": "mean score",
}


def draw_plots(report: RatingReport, folder: Path) -> dict[str, str]:
    """Draw the plots that ``report`` has figures for; file name without ending → what it shows.

    Raises ``RatingError`` if a file cannot be written.
    """
    drawn: dict[str, str] = {}

    def save(name: str, about: str, size: tuple[float, float], draw: Callable[[Any], None]) -> None:
        save_plot(folder / name, size, draw)
        drawn[name] = about

    if any(arm.value.value is not None for arm in report.arms):
        height = 1.1 + 0.42 * len(report.arms)
        save("arms", f"The arms: {MEANS[report.kind]}", (6.4, height), lambda a: _arms(a, report))
    if report.agreement.pairs and len(report.raters) > 2:
        side = 2.4 + 0.5 * len(report.raters)
        save(
            "raters", "Cohen's κ of each pair of raters", (side, side), lambda a: _pairs(a, report)
        )
    for number, table in enumerate(report.confusions[:_MOST_CONFUSIONS]):
        side = 2.6 + 0.7 * len(table.arms)
        save(
            "choices" if number == 0 else f"choices-{number + 1}",
            f"People's choice and that of {table.metric}, in items",
            (side, side),
            lambda a, t=table: _confusion(a, t),  # type: ignore[misc]
        )
    if report.correlations:
        height = 1.1 + 0.5 * len(report.correlations)
        save(
            "metrics",
            "How far metrics rank pictures as people do",
            (6.4, height),
            lambda a: _correlations(a, report),
        )
    return drawn


def save_plot(stem: Path, size: tuple[float, float], draw: Callable[[Any], None]) -> None:
    """Draw one plot of ``size`` (inches) into ``stem`` with .png and .svg.

    Raises ``RatingError`` if a file cannot be written.
    """
    # Not pyplot, which keeps figures of other threads and wants a screen.
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Without a date and with fixed ids the same report gives the same file.
    with rc_context({"svg.hashsalt": "scenewright", "svg.fonttype": "none"}):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure.add_subplot())
        try:
            figure.savefig(stem.with_suffix(".png"), dpi=160)
            figure.savefig(stem.with_suffix(".svg"), metadata={"Date": None})
        except OSError as error:
            raise RatingError(f"{stem}: cannot be written: {error.strerror or error}") from error


def short_names(arms: Sequence[str]) -> list[str]:
    """The parts of the arms' names that tell them apart."""
    parts = [arm.split("/") for arm in arms]
    if len({len(part) for part in parts}) != 1:
        return list(arms)
    differ = [at for at in range(len(parts[0])) if len({part[at] for part in parts}) > 1]
    return ["/".join(part[at] for at in differ) or "/".join(part) for part in parts]


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)


def _arms(axes: Axes, report: RatingReport) -> None:
    names = short_names([arm.arm for arm in report.arms])
    for at, arm in enumerate(reversed(report.arms)):
        figure = arm.value
        if figure.value is None:
            continue
        axes.barh(at, figure.value, color=ACCENT, height=0.6)
        if figure.low is not None and figure.high is not None:
            axes.plot([figure.low, figure.high], [at, at], color=INK, linewidth=1.6)
        end = figure.value if figure.high is None else figure.high
        axes.annotate(f"{figure.value:.3f}", (end, at), (5, 0), textcoords="offset points",
                      va="center", fontsize=9)  # fmt: skip
    axes.set_yticks(range(len(names)), names[::-1])
    if report.kind == "choice":
        axes.axvline(1 / len(names), color=RULE, linewidth=1, linestyle="--")
    axes.set_xlim(1 if report.kind == "score" else 0, None)
    axes.margins(x=0.15)
    axes.set_xlabel(MEANS[report.kind], fontsize=9)
    _plain(axes)


def _pairs(axes: Axes, report: RatingReport) -> None:
    import numpy as np

    names = [card.rater for card in report.raters]
    place = {name: at for at, name in enumerate(names)}
    table = np.full((len(names), len(names)), np.nan)
    for pair in report.agreement.pairs:
        a, b = place[pair.first], place[pair.second]
        value = np.nan if pair.kappa.value is None else pair.kappa.value
        table[a, b] = table[b, a] = value
    _heat(axes, table, names, names, "{:.2f}", (-1.0, 1.0) if np.nanmin(table) < 0 else (0.0, 1.0))


def _confusion(axes: Axes, confusion: Confusion) -> None:
    import numpy as np

    table = np.array(confusion.table)
    names = short_names(confusion.arms)
    _heat(axes, table, names, names, "{:.4g}", (0.0, float(table.max()) or 1.0))
    axes.set_ylabel("people's choice", fontsize=9)
    axes.set_xlabel(f"choice by {confusion.metric}", fontsize=9)


def _heat(
    axes: Axes,
    table: Any,
    rows: Sequence[str],
    columns: Sequence[str],
    form: str,
    limits: tuple[float, float],
) -> None:
    import numpy as np

    axes.imshow(table, cmap="Blues", vmin=limits[0], vmax=limits[1])
    middle = (limits[0] + limits[1]) / 2
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            axes.text(column, row, form.format(value), ha="center", va="center", fontsize=9,
                      color="white" if value > middle * 1.1 else INK)  # fmt: skip
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    axes.tick_params(labelsize=9, length=0)
    axes.spines[:].set_visible(False)


def _correlations(axes: Axes, report: RatingReport) -> None:
    shown = list(reversed(report.correlations))
    for offset, name, mark in ((0.15, "spearman", "o"), (-0.15, "kendall", "s")):
        for at, found in enumerate(shown):
            figure = getattr(found, name)
            if figure.value is None:
                continue
            color = ACCENT if name == "spearman" else INK
            if figure.low is not None:
                axes.plot([figure.low, figure.high], [at + offset] * 2, color=color, linewidth=1.4)
            axes.plot(figure.value, at + offset, mark, color=color, markersize=5)
    axes.axvline(0.0, color=RULE, linewidth=1)
    axes.set_yticks(range(len(shown)), [found.metric for found in shown])
    axes.set_ylim(-0.6, len(shown) - 0.4)
    axes.set_xlabel(
        "rank correlation with people: Spearman's (dots), Kendall's τ-b (squares)", fontsize=9
    )
    _plain(axes)
