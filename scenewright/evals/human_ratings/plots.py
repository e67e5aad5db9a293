"""Plots and files of the reports on ratings: PNG and SVG beside a page that needs no server."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader
from markupsafe import Markup
from numpy.typing import ArrayLike
from pydantic import BaseModel

from scenewright.evals.human_ratings.study import RatingError, put_file
from scenewright.evals.reporting.pages import asset, environment
from scenewright.evals.statistics.figures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

PAGE, DATA = "index.html", "report.json"
Plot = tuple[str, str, "Drawing"]
"""File name without ending, caption, and the figure."""


COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7")
_STYLE: Any = {
    "svg.hashsalt": "scenewright",
    "svg.fonttype": "none",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "legend.frameon": False,
}
"""Equal reports give equal files."""


def chart(size: tuple[float, float], label: str = "") -> tuple[Drawing, Axes]:
    """Return a new figure of ``size`` in inches with one pair of axes, and these."""
    # Not pyplot, which keeps figures of other threads and wants a screen.
    from matplotlib import rc_context
    from matplotlib.figure import Figure as Drawing

    with rc_context(_STYLE):
        made = Drawing(figsize=size, layout="constrained")
        axes = made.add_subplot()
    axes.set_xlabel(label)
    return made, axes


def bars(
    names: Sequence[str], series: Mapping[str, Sequence[Figure]], label: str
) -> tuple[Drawing, Axes]:
    """Return a figure with a row a name, and in it a bar with its 95 % interval a series."""
    made, axes = chart((6.4, 1.2 + (0.2 + 0.2 * len(series)) * len(names)), label)
    height = 0.8 / len(series)
    for at, (name, figures) in enumerate(series.items()):
        shift = (at - (len(series) - 1) / 2) * height
        for row, one in enumerate(figures):
            axes.barh(
                row + shift, one.value or 0.0, height=0.94 * height, color=COLORS[at],
                label=None if row else name,
            )  # fmt: skip
            if one.low is not None and one.high is not None:
                axes.plot([one.low, one.high], [row + shift] * 2, color="black", linewidth=1.4)
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    if len(series) > 1:
        made.legend(loc="outside lower center", ncols=len(series))
    return made, axes


def heat(values: ArrayLike, rows: Sequence[str], columns: Sequence[str], form: str) -> Drawing:
    """Return a table as colours with its numbers by ``form``; what is not a number stays empty."""
    table = np.asarray(values, float)
    known = table[~np.isnan(table)]
    low, high = -1.0 if (known < 0).any() else 0.0, max(1.0, float(known.max(initial=0.0)))
    made, axes = chart((2.6 + 0.7 * len(columns), 2.6 + 0.6 * len(rows)))
    axes.imshow(table, cmap="Blues", vmin=low, vmax=high)
    for (row, column), value in np.ndenumerate(table):
        if not np.isnan(value):
            color = "white" if value > 0.55 * (low + high) else "black"
            axes.text(column, row, form.format(value), ha="center", va="center", color=color)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right")
    return made


def short_names(arms: Sequence[str]) -> list[str]:
    """Return the parts of the arms' names that differ."""
    parts = [arm.split("/") for arm in arms]
    if len({len(part) for part in parts}) != 1:
        return list(arms)
    differ = [at for at in range(len(parts[0])) if len({part[at] for part in parts}) > 1]
    return ["/".join(part[at] for at in differ) or "/".join(part) for part in parts]


def write_files(
    report: BaseModel, folder: Path, drawn: Iterable[Plot], template: str, **context: Any
) -> Path:
    """Write a report as HTML that needs no server, JSON and plots, and return the page's path.

    Raises ``RatingError`` if they cannot be written.
    """
    from matplotlib import rc_context

    captions = {}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with rc_context(_STYLE):
            for name, caption, drawing in drawn:
                drawing.savefig(folder / f"{name}.png", dpi=160)
                drawing.savefig(folder / f"{name}.svg", metadata={"Date": None})
                captions[name] = caption
    except OSError as error:
        raise RatingError(f"{folder} cannot be written: {error.strerror or error}") from error
    put_file(folder / DATA, report.model_dump_json(indent=2) + "\n")
    page = _templates().get_template(template)
    style = Markup(asset("style.css"))
    return put_file(
        folder / PAGE, page.render(report=report, plots=captions, style=style, **context)
    )


def figure_text(figure: Figure, digits: int = 3) -> str:
    """Return ``0.931 [0.902, 0.957]`` with a true minus sign, or a dash."""
    return figure.text(digits).replace("-", "−")


def number_text(value: float | None) -> str:
    """Return three decimals with a true minus sign, or a dash."""
    return "–" if value is None else f"{value:.3f}".replace("-", "−")


@functools.cache
def _templates() -> Environment:
    loader = PackageLoader("scenewright.evals.human_ratings", "assets")
    return environment(loader, figure=figure_text, number=number_text)
