"""Plots of a report as SVG files that are legible on light and on dark backgrounds.

Colours are names with a value for each colour scheme in the file's style sheet; series also differ
by marker and line, so that no information depends on colour alone.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scenewright.evals.reporting.grids import Grids, column_title
from scenewright.evals.reporting.score_matrix import Column, Facet, in_order
from scenewright.evals.statistics.figures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

# On light paper, on dark paper.
_INK = ("#1d1c1a", "#edecea")
_MUTED = ("#66625b", "#a3a19b")
_RULE = ("#d9d5cb", "#3a3f45")
_SERIES = (
    ("#3d4fc4", "#9aa8ff"),
    ("#bf3d0c", "#ff9460"),
    ("#0a7558", "#4ccf9f"),
    ("#7a3fc0", "#c5a3ff"),
    ("#8a6a00", "#e0b84a"),
    ("#0b7393", "#5cc8ea"),
    ("#a8326e", "#ff8fc0"),
    ("#5c6066", "#a9adb5"),
)
_MARKERS = ("o", "s", "D", "^", "v", "P", "X", "*")
_LINES = ("-", "--", "-.", ":")
_NAMES = {"ink": _INK, "muted": _MUTED, "rule": _RULE} | {
    f"s{at}": pair for at, pair in enumerate(_SERIES)
}
_FONT = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",Arial,sans-serif'
_WIDTH = 7.6
"""Inches; the pages scale plots to their column."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a plot."""

    name: str
    """As the legend says."""
    figures: tuple[Figure, ...]
    """One a place; what has no value is left out."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot and its texts."""

    name: str
    """File name without ending."""
    title: str
    """Above it."""
    svg: str
    """The file."""
    alt: str
    """All that it shows, in words."""


def dots(name: str, title: str, places: Sequence[str], series: Sequence[Series], axis: str) -> Plot:
    """Draw means as dots with their 95 % intervals, one line a place, series side by side."""
    with _plain_text(name):
        return _dots(name, title, places, series, axis)


def _dots(
    name: str, title: str, places: Sequence[str], series: Sequence[Series], axis: str
) -> Plot:
    height = 0.9 + len(places) * max(0.36, 0.2 * len(series)) + (0.3 if len(series) > 1 else 0.0)
    drawing, axes = _paper(height)
    for at, one in enumerate(series):
        shift = (at - (len(series) - 1) / 2) * 0.7 / max(1, len(series))
        for place, figure in enumerate(one.figures):
            if figure.value is None:
                continue
            label = _label(one.name) if place == _first(one) else None
            _dot(axes, figure, place + shift, at, label)
    axes.set_yticks(range(len(places)), [_short(place) for place in places])
    axes.set_ylim(len(places) - 0.5, -0.5)
    axes.set_xlabel(axis)
    axes.grid(axis="x", color=_RULE[0], linewidth=0.8)
    return _done(drawing, axes, name, title, places, series)


def lines(name: str, title: str, places: Sequence[str], series: Sequence[Series], axis: str,
          along: str) -> Plot:  # fmt: skip
    """Draw means as joined points with their 95 % intervals, over ordered classes."""
    with _plain_text(name):
        return _lines(name, title, places, series, axis, along)


def _lines(name: str, title: str, places: Sequence[str], series: Sequence[Series], axis: str,
           along: str) -> Plot:  # fmt: skip
    drawing, axes = _paper(3.6)
    for at, one in enumerate(series):
        shift = (at - (len(series) - 1) / 2) * 0.36 / max(1, len(series))
        known = [(x + shift, f) for x, f in enumerate(one.figures) if f.value is not None]
        if not known:
            continue
        xs, ys = [x for x, _ in known], [f.value or 0.0 for _, f in known]
        axes.plot(
            xs, ys, _LINES[at % len(_LINES)], color=_colour(at), marker=_MARKERS[at % 8],
            markersize=6, linewidth=1.8, label=_label(one.name),
        )  # fmt: skip
        for x, figure in known:
            if figure.low is not None and figure.high is not None:
                axes.plot([x, x], [figure.low, figure.high], color=_colour(at), linewidth=1.3)
    axes.set_xticks(range(len(places)), [_short(place) for place in places])
    axes.set_xlabel(along)
    axes.set_ylabel(axis)
    axes.grid(axis="y", color=_RULE[0], linewidth=0.8)
    return _done(drawing, axes, name, title, places, series)


@contextmanager
def _plain_text(salt: str) -> Iterator[None]:
    """Keep text as text: names are not formulas, and the reader's fonts are used."""
    import matplotlib

    settings: Any = {"svg.fonttype": "none", "svg.hashsalt": salt, "text.parse_math": False}
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        # Widths are measured with a font that lacks some scripts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _first(series: Series) -> int:
    return next((at for at, figure in enumerate(series.figures) if figure.value is not None), -1)


def _colour(at: int) -> str:
    return _SERIES[at % len(_SERIES)][0]


def _label(name: str) -> str:
    # A name that begins with an underscore would be kept out of the legend.
    return f"\u200b{_short(name)}" if name.startswith("_") else _short(name)


def _short(text: str) -> str:
    return text if len(text) <= 34 else text[:33] + "…"


def _paper(height: float) -> tuple[Drawing, Axes]:
    # Without pyplot: it keeps figures alive, and belongs to the main thread.
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Drawing

    drawing = Drawing(figsize=(_WIDTH, height), layout="constrained")
    FigureCanvasSVG(drawing)
    axes = drawing.add_subplot()
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(_MUTED[0])
    axes.tick_params(colors=_MUTED[0], labelcolor=_INK[0], labelsize=10)
    axes.xaxis.label.set_color(_MUTED[0])
    axes.yaxis.label.set_color(_MUTED[0])
    axes.set_axisbelow(True)
    return drawing, axes


def _dot(axes: Axes, figure: Figure, y: float, at: int, label: str | None) -> None:
    colour = _colour(at)
    if figure.low is not None and figure.high is not None:
        axes.plot([figure.low, figure.high], [y, y], color=colour, linewidth=2.0)
    axes.plot(
        [figure.value or 0.0], [y], color=colour, marker=_MARKERS[at % len(_MARKERS)],
        markersize=7, linestyle="none", label=label,
    )  # fmt: skip


def _done(
    drawing: Drawing,
    axes: Axes,
    name: str,
    title: str,
    places: Sequence[str],
    series: Sequence[Series],
) -> Plot:
    if len(series) > 1:
        drawing.legend(
            loc="outside upper left", ncols=min(3, len(series)), frameon=False, fontsize=10,
            labelcolor=_INK[0], handletextpad=0.4, columnspacing=1.4,
        )  # fmt: skip
    buffer = io.StringIO()
    drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return Plot(name, title, _themed(buffer.getvalue()), _alt(title, places, series))


def _themed(svg: str) -> str:
    """Return the file with colours by name, and a style sheet that defines them."""
    start = svg.index("<svg")
    body = svg[start:]
    for name, (light, _) in _NAMES.items():
        body = re.sub(re.escape(light), f"var(--{name})", body, flags=re.IGNORECASE)
    values = [
        "".join(f"--{name}:{pair[scheme]};" for name, pair in _NAMES.items()) for scheme in (0, 1)
    ]
    style = (
        f"<style>svg{{color-scheme:light dark;{values[0]}}}"
        f"@media(prefers-color-scheme:dark){{svg{{{values[1]}}}}}"
        f"text{{font-family:{_FONT}!important}}</style>"
    )
    head, _, rest = body.partition(">")
    return f"{head}>{style}{rest}"


def _alt(title: str, places: Sequence[str], series: Sequence[Series]) -> str:
    said = []
    for one in series:
        figures = [
            f"{place} {figure.text(2)}"
            for place, figure in zip(places, one.figures, strict=True)
            if figure.value is not None
        ]
        prefix = f"{one.name}: " if len(series) > 1 else ""
        said.append(prefix + (", ".join(figures) or "nothing measured"))
    return f"{title}. {'; '.join(said)}."


MAIN = "sgscore"
MOST_WAYS = 8
"""Ways of drawing in a plot of several series: as many as there are markers."""


def main_columns(columns: list[Column]) -> list[Column]:
    """Return the scores in the plots: SGScore by each panel, else the first score."""
    found = [column for column in columns if column.metric == MAIN and not column.part]
    return found or columns[:1]


def plots_of(grids: Grids) -> tuple[list[Plot], list[str]]:
    """Return the plots, and notes on what was left out of them."""
    score_matrix = grids.score_matrix
    chosen = main_columns(score_matrix.columns())
    if not chosen or not score_matrix.arms:
        return [], []
    column, ways = chosen[0], list(score_matrix.ways)
    name = "SGScore" if column.metric == MAIN else column.metric
    by = f" by {column.panel}" if len(chosen) > 1 else ""
    notes = []
    found = [
        dots("arms", f"{name}{by}, by arm", ways,
             [Series(column_title(column), tuple(grids.figures(column)))], name)
    ]  # fmt: skip
    if len(chosen) > 1:
        series = [Series(each.panel, tuple(grids.figures(each))) for each in chosen[:MOST_WAYS]]
        found.append(dots("panels", f"{name} by each panel of judges", ways, series, name))
    if len(ways) > MOST_WAYS:
        notes.append(
            f"Plots by class show the first {MOST_WAYS} of {len(ways)} arms; the tables have all."
        )
    complexity = _by(grids, column, "complexity", ways[:MOST_WAYS])
    if complexity is not None:
        places, series = complexity
        title = f"{name}{by}, by complexity"
        found.append(lines("complexity", title, places, series, name, "relations of the scene"))
    facets: tuple[Facet, ...] = ("level", "group", "category")
    for facet in facets:
        classes = _by(grids, column, facet, ways[:MOST_WAYS])
        if classes is not None:
            places, series = classes
            found.append(dots(facet, f"{name}{by}, by {facet}", places, series, name))
    return found, notes


def _by(
    grids: Grids, column: Column, facet: Facet, ways: list[str]
) -> tuple[list[str], list[Series]] | None:
    of = grids.score_matrix.facets[facet]
    places = in_order(facet, of)
    if len(places) < 2:
        return None
    table = [grids.figures(column, of == place) for place in places]
    return places, [Series(way, tuple(row[at] for row in table)) for at, way in enumerate(ways)]
