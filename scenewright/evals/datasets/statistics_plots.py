"""Plots and word clouds of a set's statistics, as files."""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.statistics import LEVELS, Statistics, commonest

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito's colours, told apart by people of any colour vision.
BLUE, ORANGE, GREEN, GREY = "#0072b2", "#d55e00", "#009e73", "#8c8c8c"
OF_LEVEL = dict(zip(LEVELS, (GREEN, BLUE, ORANGE), strict=True))
_TOP = 25
_MOST_WORDS = 200
_MOST_CLASSES = 40
_LONGEST = 40
_STYLE: Any = {
    "svg.hashsalt": "scenewright",
    "svg.fonttype": "path",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    # A dollar sign is a name's, not the beginning of a formula.
    "text.parse_math": False,
}


def write_plots(found: Statistics, folder: Path) -> list[Path]:
    """Write the plots of ``found`` as SVG files into ``folder``; those that were written.

    ``complexity.svg`` (scenes by relations, in the colours of the levels), ``sizes.svg`` (objects
    and attributes of a scene), ``names.svg`` and ``predicates.svg`` (the commonest),
    ``classes.svg`` (groups and categories); what the set does not have is left out. Raises
    ``DatasetError`` where the folder cannot be written.
    """
    plots: dict[str, Callable[[], Figure]] = {}
    if found.scenes:
        plots["complexity"] = lambda: _complexity(found)
        plots["sizes"] = lambda: _sizes(found)
    if found.names:
        plots["names"] = lambda: _bars(
            found.names, "Commonest objects", f"objects (of {len(found.names):,} classes)", BLUE
        )
    if found.predicates:
        predicates = f"relations (of {len(found.predicates):,} predicates)"
        plots["predicates"] = lambda: _bars(
            found.predicates, "Commonest relations", predicates, ORANGE
        )
    if any(group or category for group, category in found.classes):
        plots["classes"] = lambda: _classes(found)
    import matplotlib

    def write(file: Path, make: Callable[[], Figure]) -> None:
        with matplotlib.rc_context(_STYLE):
            # Without a date equal sets give equal files.
            make().savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")

    return _written(folder, {f"{name}.svg": make for name, make in plots.items()}, write)


def write_clouds(found: Statistics, folder: Path) -> list[Path]:
    """Write word clouds of objects and of relations (as in the paper's Fig. 6) as PNG and SVG
    files into ``folder``; those that were written.

    Raises ``DatasetError`` where the folder cannot be written or the library ``wordcloud`` is
    missing.
    """
    clouds = {
        name: counts
        for name, counts in (("objects", found.names), ("relations", found.predicates))
        if counts
    }
    if not clouds:
        return []
    try:
        from wordcloud import WordCloud
    except ImportError as error:
        raise DatasetError(
            "word clouds need the library wordcloud: pip install 'scenewright[evals]'"
        ) from error
    import matplotlib

    # It has more scripts than the library's own font, and is the same on every machine.
    font = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"
    drawn: dict[str, Any] = {}
    for name, counts in clouds.items():
        cloud = WordCloud(
            width=1200,
            height=675,
            background_color="white",
            font_path=str(font),
            color_func=_word_colour,
            min_font_size=9,
            max_words=_MOST_WORDS,
            # One seed: the same set gives the same cloud.
            random_state=0,
            relative_scaling=0.5,
        )
        drawn[name] = cloud.generate_from_frequencies(dict(commonest(counts, _MOST_WORDS)))

    def write(file: Path, cloud: Any) -> None:
        if file.suffix == ".png":
            cloud.to_image().save(file, format="PNG")
        else:
            # The font travels with the file; which of its tables it drops is no news to anyone.
            logging.getLogger("fontTools.subset").setLevel(logging.ERROR)
            file.write_text(cloud.to_svg(embed_font=True), encoding="utf-8")

    named = {f"cloud-{name}{end}": c for name, c in drawn.items() for end in (".png", ".svg")}
    return _written(folder, named, write)


def _word_colour(word: str, **how: Any) -> str:
    """A colour by the word alone, dark enough to be read on white."""
    return ("#005a8f", "#a34700", "#00694d", "#5c5c5c")[zlib.crc32(word.encode()) % 4]


def _written(folder: Path, parts: dict[str, Any], write: Callable[[Path, Any], None]) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, part in parts.items():
            write(folder / name, part)
    except OSError as error:
        raise DatasetError(
            f"{folder} cannot be written: {error.strerror or error}: name a folder of yours"
        ) from error
    return [folder / name for name in parts]


def _figure(width: float, height: float, panels: int = 1) -> tuple[Figure, Sequence[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    made = figure.subplots(1, panels, squeeze=False)
    return figure, list(made[0])


def _whole_numbers(axis: Any) -> None:
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def _complexity(found: Statistics) -> Figure:
    figure, (axes,) = _figure(7.5, 3.8)
    for level in LEVELS:
        sizes = [size for size in sorted(found.relations) if _level(size) == level]
        share = found.levels[level] / found.scenes
        axes.bar(
            sizes,
            [found.relations[size] for size in sizes],
            color=OF_LEVEL[level],
            hatch={"simple": "", "medium": "//", "hard": ".."}[level],
            edgecolor="white",
            width=0.9,
            label=f"{level}: {found.levels[level]:,} ({share:.0%})",
        )
    axes.set_title(f"Complexity of {found.name}")
    axes.set_xlabel("relations of a scene (complexity, γ = 0)")
    axes.set_ylabel("scenes")
    _whole_numbers(axes.xaxis)
    _whole_numbers(axes.yaxis)
    axes.legend(frameon=False)
    return figure


def _level(size: int) -> str:
    return "simple" if size <= 3 else "medium" if size <= 7 else "hard"


def _sizes(found: Statistics) -> Figure:
    figure, panels = _figure(7.5, 3.2, 2)
    for axes, what, sizes, colour in (
        (panels[0], "objects", found.objects, BLUE),
        (panels[1], "attributes", found.attributes, GREEN),
    ):
        axes.bar(list(sizes), list(sizes.values()), color=colour, width=0.9)
        axes.set_title(what.capitalize())
        axes.set_xlabel(f"{what} of a scene")
        axes.set_ylabel("scenes")
        _whole_numbers(axes.xaxis)
        _whole_numbers(axes.yaxis)
    return figure


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"


def _bars(counts: Counter[str], title: str, label: str, colour: str) -> Figure:
    entries = list(reversed(commonest(counts, _TOP)))
    figure, (axes,) = _figure(7.5, 1.1 + 0.24 * len(entries))
    # Places, not names: two names may be cut to one.
    places = range(len(entries))
    bars = axes.barh(places, [n for _, n in entries], color=colour)
    axes.set_yticks(places, [_short(name) for name, _ in entries])
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_ylim(-0.6, len(entries) - 0.4)
    axes.set_title(title)
    axes.set_xlabel(label)
    return figure


def _classes(found: Statistics) -> Figure:
    groups: Counter[str] = Counter()
    for (group, _), n in found.classes.items():
        groups[group] += n
    rank = {group: at for at, (group, _) in enumerate(commonest(groups, len(groups)))}
    entries = sorted(found.classes.items(), key=lambda e: (rank[e[0][0]], -e[1], e[0]))
    shown = list(reversed(entries[:_MOST_CLASSES]))
    figure, (axes,) = _figure(7.5, 1.2 + 0.24 * len(shown))
    colours = [(BLUE, ORANGE, GREEN, GREY)[rank[group] % 4] for (group, _), _ in shown]
    bars = axes.barh(range(len(shown)), [n for _, n in shown], color=colours)
    names = [" · ".join(filter(None, pair)) or "(none)" for pair, _ in shown]
    axes.set_yticks(range(len(shown)), [_short(name) for name in names])
    axes.bar_label(bars, fmt="{:,.0f}", padding=3, fontsize=8)
    axes.set_ylim(-0.6, len(shown) - 0.4)
    left = len(entries) - len(shown)
    axes.set_title("Groups and categories" + (f" ({left} more not shown)" if left else ""))
    axes.set_xlabel("items")
    return figure
