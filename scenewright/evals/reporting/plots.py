"""Plots of reports and studies: SVG, legible, with marks, lines and hatches as well as colours.

Colours are those of Okabe and Ito (2008), which people with any common colour blindness can tell
apart. Plots of a report (:class:`Plot`) carry their alternative text, and their colours are names
with a value for light and one for dark backgrounds; study plots are matplotlib figures that
:func:`save` writes.
"""

from __future__ import annotations

import io
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.evals.statistics.estimates import Array, Estimate, number
from scenewright.evals.statistics.figures import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

_DARK = {
    "#0072B2": "#5cb8f0",
    "#D55E00": "#ff9460",
    "#009E73": "#4ccf9f",
    "#CC79A7": "#e9a5cb",
    "#E69F00": "#ffc14d",
    "#56B4E9": "#8fd0f7",
    "#000000": "#edecea",
    "#8A7A00": "#e0b84a",
    "#1d1c1a": "#edecea",
    "#66625b": "#a3a19b",
    "#dfe3e6": "#3a3f45",
}
"""Colour on light paper → on dark paper; the first are those of series."""
COLORS = tuple(_DARK)[:8]
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), "-", "--")
HATCHES = ("", "///", "\\\\\\", "xxx", "---", "+++", "|||", "//")
INK, GREY = "#222222", "#9aa3ab"
_TEXT, _MUTED, _RULE = "#1d1c1a", "#66625b", "#dfe3e6"
_FONT = 'ui-sans-serif,system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",Arial,sans-serif'
WIDE, NARROW = 7.6, 3.6
"""Inches of a plot's width, on a desk and on a phone."""
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
    "grid.color": _RULE,
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    # Text stays text, and names are not formulas.
    "svg.fonttype": "none",
    "text.parse_math": False,
    # Equal figures give equal files.
    "svg.hashsalt": "scenewright",
}
_THEMED_STYLE: Any = _STYLE | {
    "text.color": _TEXT,
    "axes.edgecolor": _MUTED,
    "axes.labelcolor": _MUTED,
    **{f"{axis}tick.{what}": colour for axis in "xy"
       for what, colour in (("color", _MUTED), ("labelcolor", _TEXT))},
}  # fmt: skip
_WHISKER: dict[str, Any] = {"fmt": "none", "ecolor": INK, "elinewidth": 0.9, "capsize": 2}

Measured = Figure | Estimate
Points = Iterable[tuple[float, Measured]]
"""x → figure."""
Drawings = Mapping[str, Callable[[], "Drawing"]]
"""File stem → function that draws the plot."""


def name_of(condition: str) -> str:
    """Return ``condition`` in words."""
    return CONDITIONS.get(condition, condition)


def figure(
    rows: int = 1, columns: int = 1, size: tuple[float, float] = (7.0, 4.2)
) -> tuple[Drawing, Any]:
    """Return a new figure, and its axes as an array (rows, columns).

    ``size`` is (width, height) in inches.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(_STYLE):
        made = Drawing(figsize=size, layout="constrained")
        return made, made.subplots(rows, columns, squeeze=False)


def panes(columns: int, size: tuple[float, float], rows: int = 1) -> tuple[Drawing, list[Axes]]:
    """Return a new figure and its axes, row by row."""
    made, axes = figure(rows, columns, size)
    return made, list(axes.flat)


def chart(
    title: str, xlabel: str = "", ylabel: str = "", size: tuple[float, float] = (7.0, 4.2)
) -> tuple[Drawing, Axes]:
    """Return a new figure with one pair of axes, and these."""
    made, (axis,) = panes(1, size)
    axis.set(title=title, xlabel=xlabel, ylabel=ylabel)
    return made, axis


def labelled(axis: Axes, x: str = "", y: str = "", title: str = "") -> None:
    """Set the labels of one of several panes."""
    axis.set(xlabel=x, ylabel=y)
    if title:
        axis.set_title(title, fontsize=10)


def legend(made: Drawing, axis: Axes | None = None, columns: int = 3, title: str = "") -> Drawing:
    """Return the figure with one legend for all axes below them, and a title above them."""
    if title:
        made.suptitle(title, fontsize=11)
    handles, labels = ([], []) if axis is None else axis.get_legend_handles_labels()
    if labels:
        made.legend(handles, labels, loc="outside lower center", ncols=columns, frameon=False)
    return made


def save(made: Drawing, path: Path, title: str) -> None:
    """Write ``made`` as SVG; ``title`` is the title in the file."""
    import matplotlib as mpl

    with mpl.rc_context(_STYLE):
        made.savefig(path, format="svg", metadata={"Date": None, "Title": title})


def errors(found: Sequence[Measured]) -> list[list[float]]:
    """Return how far the intervals reach below and above the values.

    Without an interval the spread over seeds is taken.
    """
    below, above = [], []
    for one in found:
        value = one.value or 0.0
        spread = (one.sd if isinstance(one, Estimate) else None) or 0.0
        low = value - spread if one.low is None else one.low
        high = value + spread if one.high is None else one.high
        # A percentile interval need not hold its own mean.
        below.append(max(0.0, value - low))
        above.append(max(0.0, high - value))
    return [below, above]


def looks(at: int) -> dict[str, Any]:
    """Return colour, marker and line of series number ``at``."""
    return {
        "color": COLORS[at % len(COLORS)],
        "marker": MARKERS[at % len(MARKERS)],
        "linestyle": LINES[at % len(LINES)],
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
    known = [(x, f.times(factor)) for x, f in points if f.value is not None]
    if not known:
        return
    xs, values = [x for x, _ in known], [f.value or 0.0 for _, f in known]
    style = looks(at) | {"linewidth": 1.4, "markersize": 5, "label": label} | style
    if not band:
        axis.errorbar(
            xs, values, yerr=errors([f for _, f in known]), elinewidth=0.8, capsize=2.5, **style
        )
        return
    axis.plot(xs, values, **style)
    ends = [(x, f.low, f.high) for x, f in known if f.low is not None and f.high is not None]
    if ends:
        x, low, high = (np.array(side) for side in zip(*ends, strict=True))
        axis.fill_between(x, low, high, alpha=0.12, linewidth=0, color=style["color"])


def lines(
    axis: Axes, series: Mapping[str, Sequence[tuple[float, Estimate]]], factor: float = 1.0
) -> None:
    """Draw one line a series over x, side by side, with 95 % intervals."""
    for at, (name, points) in enumerate(series.items()):
        shift = (at - (len(series) - 1) / 2) * 0.06
        curve(axis, at, name, [(x + shift, one) for x, one in points], factor)


def bars(
    axis: Axes,
    groups: Sequence[str],
    series: Mapping[str, Sequence[Measured]],
    factor: float = 1.0,
    horizontal: bool = False,
    beside: bool = True,
) -> None:
    """Draw bars of every series with 95 % intervals, in each group ``beside`` each other or not."""
    width = 0.8 / max(1, len(series) if beside else 1)
    for at, (name, figures) in enumerate(series.items()):
        known = [
            (group + (at - (len(series) - 1) / 2) * width * beside, one.times(factor))
            for group, one in enumerate(figures) if one.value is not None
        ]  # fmt: skip
        places, values = [place for place, _ in known], [one.value or 0.0 for _, one in known]
        draw: Any = axis.barh if horizontal else axis.bar
        draw(
            places, values, width * 0.92, color=COLORS[at % len(COLORS)],
            hatch=HATCHES[at % len(HATCHES)], edgecolor="white", linewidth=0.4, label=name,
        )  # fmt: skip
        if known:
            reach = errors([one for _, one in known])
            if horizontal:
                axis.errorbar(values, places, xerr=reach, **_WHISKER)
            else:
                axis.errorbar(places, values, yerr=reach, **_WHISKER)
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
) -> Drawing:
    """Return a figure of :func:`bars` alone, from 0 to 100 %, with its legend in ``columns``."""
    made, axis = chart(title, xlabel, ylabel, size)
    bars(axis, groups, series)
    axis.set_ylim(0, 100)
    return legend(made, axis, columns=columns)


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
    color = "#444444" if at < 0 else COLORS[at % len(COLORS)]
    axis.annotate(text, place, fontsize=8, xytext=(4, up), textcoords="offset points", color=color)


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a report's plot."""

    name: str
    """As the legend says."""
    figures: tuple[Figure, ...]
    """One a place; what has no value is left out."""


@dataclass(frozen=True, slots=True)
class Plot:
    """A plot of a report and its texts."""

    name: str
    """File name without ending."""
    title: str
    """Above it."""
    svg: str
    """The file."""
    narrow: str
    """The file for a phone: as wide as its screen, with letters of the same size."""
    alt: str
    """All that it shows, in words."""


def dot_plot(
    name: str,
    title: str,
    places: Sequence[str],
    series: Sequence[Series],
    axis: str,
    *,
    zero: bool = False,
) -> Plot:
    """Draw means as dots with their 95 % intervals, one line a place, series side by side.

    ``zero`` draws a line at 0, for differences.
    """

    def draw(width: float) -> tuple[Drawing, Axes]:
        names = [_tick(place, width) for place in places]
        line = max(0.36, 0.2 * len(series), 0.17 * max(name.count("\n") + 1.5 for name in names))
        made, axes = _paper(width, 0.9 + len(places) * line + _above(series, width))
        for at, one in enumerate(series):
            shift = (at - (len(series) - 1) / 2) * 0.7 / max(1, len(series))
            known = [(y + shift, f) for y, f in enumerate(one.figures) if f.value is not None]
            if known:
                axes.errorbar(
                    [f.value or 0.0 for _, f in known], [y for y, _ in known],
                    xerr=errors([f for _, f in known]), label=_label(one.name), markersize=7,
                    elinewidth=2.0, **looks(at) | {"linestyle": "none"},
                )  # fmt: skip
        if zero:
            axes.axvline(0.0, color=_TEXT, linewidth=1.0)
        axes.set_yticks(range(len(places)), names)
        axes.set_ylim(len(places) - 0.5, -0.5)
        axes.set_xlabel(axis)
        axes.grid(axis="y", visible=False)
        return made, axes

    return _plot(draw, name, title, places, series)


def line_plot(name: str, title: str, places: Sequence[str], series: Sequence[Series], axis: str,
              along: str) -> Plot:  # fmt: skip
    """Draw means as joined points with their 95 % intervals, over ordered classes."""

    def draw(width: float) -> tuple[Drawing, Axes]:
        made, axes = _paper(width, 3.3 + _above(series, width))
        for at, one in enumerate(series):
            shift = (at - (len(series) - 1) / 2) * 0.36 / max(1, len(series))
            points = [(x + shift, figure) for x, figure in enumerate(one.figures)]
            curve(axes, at, _label(one.name), points, linewidth=1.8, markersize=6)
        axes.set_xticks(range(len(places)), [_short(place) for place in places])
        axes.set(xlabel=along, ylabel=axis)
        axes.grid(axis="x", visible=False)
        return made, axes

    return _plot(draw, name, title, places, series)


@contextmanager
def _themed(salt: str) -> Iterator[None]:
    import matplotlib as mpl

    with mpl.rc_context(_THEMED_STYLE | {"svg.hashsalt": salt}), warnings.catch_warnings():
        # Widths are measured with a font that lacks some scripts.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def _paper(width: float, height: float) -> tuple[Drawing, Axes]:
    # Without pyplot: it keeps figures alive, and belongs to the main thread.
    from matplotlib.figure import Figure as Drawing

    made = Drawing(figsize=(width, height), layout="constrained")
    return made, made.add_subplot()


def _columns(series: Sequence[Series], width: float) -> int:
    """Return how many names of series the legend has side by side."""
    return min(3 if width == WIDE else 1, len(series))


def _above(series: Sequence[Series], width: float) -> float:
    """Return the inches that the legend takes."""
    if len(series) < 2:
        return 0.0
    return 0.3 if width == WIDE else 0.12 + 0.2 * -(-len(series) // _columns(series, width))


def _tick(name: str, width: float) -> str:
    """Return the name of a place beside the axis: in lines where the plot is narrow."""
    short = _short(name)
    if width == WIDE:
        return short
    # Ids such as ``miniature/feedback`` are best cut at their slash.
    return textwrap.fill(short.replace("/", "/ "), 17).replace("/ ", "/") or short


def _label(name: str) -> str:
    # A name that begins with an underscore would be kept out of the legend.
    return f"\u200b{_short(name)}" if name.startswith("_") else _short(name)


def _short(text: str) -> str:
    return text if len(text) <= 34 else text[:33] + "…"


def _plot(
    draw: Callable[[float], tuple[Drawing, Axes]],
    name: str,
    title: str,
    places: Sequence[str],
    series: Sequence[Series],
) -> Plot:
    """Return the plot that ``draw`` makes of a width in inches, at both widths."""
    files = []
    for width, salt in ((WIDE, name), (NARROW, f"{name} narrow")):
        with _themed(salt):
            made, axes = draw(width)
            if len(series) > 1:
                made.legend(
                    *axes.get_legend_handles_labels(), loc="outside upper left",
                    ncols=_columns(series, width), handletextpad=0.4, columnspacing=1.4,
                )  # fmt: skip
            buffer = io.StringIO()
            made.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
        files.append(_with_themes(buffer.getvalue()))
    wide, narrow = files
    return Plot(name, title, wide, narrow, _alt(title, places, series))


def _with_themes(svg: str) -> str:
    """Return the file with colours by name, and a style sheet that defines them."""
    names = {light: f"c{at}" for at, light in enumerate(_DARK)}
    body = svg[svg.index("<svg") :]
    for light, name in names.items():
        body = re.sub(re.escape(light), f"var(--{name})", body, flags=re.IGNORECASE)
    light, dark = (
        "".join(f"--{names[pair[0]]}:{pair[scheme]};" for pair in _DARK.items())
        for scheme in (0, 1)
    )
    head, _, rest = body.partition(">")
    return (
        f"{head}><style>svg{{color-scheme:light dark;{light}}}"
        f"@media(prefers-color-scheme:dark){{svg{{{dark}}}}}"
        f"text{{font-family:{_FONT}!important}}</style>{rest}"
    )


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
