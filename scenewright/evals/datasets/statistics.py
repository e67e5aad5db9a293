"""Statistics of a set, counted in one pass, with plots and word clouds.

Memory grows with the vocabulary, not with the number of items.
"""

from __future__ import annotations

import logging
import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from scenewright.core.facts import FactKind, reported_kinds
from scenewright.core.scene import Level
from scenewright.evals.datasets.base import Dataset, DatasetError, Item

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS: tuple[Level, ...] = get_args(Level)
T = TypeVar("T")
BALANCED = 0.5
"""A set is balanced if its rarest level has at least this share of its commonest one's scenes;
the paper's 15,000/20,000/15,000 have 0.75."""


@dataclass
class Statistics:
    """Counts over the items of a set."""

    name: str
    items: int = 0
    scenes: int = 0
    """Items with a scene graph."""
    prompts: int = 0
    """Items with a text."""
    images: int = 0
    """Items with a photo on this machine."""
    asked: int = 0
    """Items with questions of their own."""
    boxes: int = 0
    """Detections of all items."""
    objects: Counter[int] = field(default_factory=Counter)
    """Objects of a scene → scenes."""
    relations: Counter[int] = field(default_factory=Counter)
    """Relations of a scene, its complexity for γ = 0 → scenes."""
    attributes: Counter[int] = field(default_factory=Counter)
    """Attributes of a scene → scenes."""
    levels: Counter[str] = field(default_factory=Counter)
    """Level → scenes."""
    classes: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(group, category) → items; both may be empty."""
    names: Counter[str] = field(default_factory=Counter)
    """Class label → objects (where there is no scene: detections)."""
    predicates: Counter[str] = field(default_factory=Counter)
    """Predicate → relations."""
    values: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(attribute key, value) → objects."""
    facts: Counter[FactKind] = field(default_factory=Counter)
    """Kind → facts of the set's own."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Reason → entries that the reader left out."""

    def add(self, item: Item) -> None:
        """Count ``item``."""
        self.items += 1
        self.prompts += bool(item.prompt)
        self.images += item.image is not None
        self.asked += bool(item.facts)
        self.boxes += len(item.detections)
        self.classes[item.group, item.category] += 1
        self.facts.update(fact.kind for fact in item.facts)
        if item.scene is None:
            self.names.update(found.name for found in item.detections)
            return
        self.scenes += 1
        self.objects[len(item.scene.objects)] += 1
        self.relations[len(item.scene.relations)] += 1
        self.attributes[sum(len(each.attributes) for each in item.scene.objects)] += 1
        self.levels[item.scene.level()] += 1
        self.names.update(each.name for each in item.scene.objects)
        self.predicates.update(each.predicate for each in item.scene.relations)
        self.values.update(pair for each in item.scene.objects for pair in each.attributes.items())

    @property
    def triplets(self) -> int:
        """Relations of all scenes."""
        return sum(size * n for size, n in self.relations.items())

    @property
    def balanced(self) -> bool | None:
        """Whether the levels are about as frequent (:data:`BALANCED`); none without a scene."""
        if not self.scenes:
            return None
        counts = [self.levels[level] for level in LEVELS]
        return min(counts) >= BALANCED * max(counts)

    def table1(self) -> dict[str, str]:
        """Return the set as a row of the paper's Table 1: heading → cell."""
        balanced = {None: "–", True: "yes", False: "no"}[self.balanced]
        return {
            "Dataset": self.name,
            "Images": f"{self.images:,}" if self.images else "–",
            "Obj. / Rel.": f"{len(self.names):,} / {len(self.predicates):,}",
            "Samples": f"{self.items:,}",
            "Triplets": f"{self.triplets:,}",
            "Balanced": balanced,
        }

    def as_json(self, top: int = 50) -> dict[str, Any]:
        """Return all of it as plain values; of vocabularies the ``top`` most frequent."""
        return {
            "name": self.name,
            **{key: getattr(self, key) for key in _COUNTS},
            "triplets": self.triplets,
            "balanced": self.balanced,
            "levels": {level: self.levels[level] for level in LEVELS},
            **{key: _sizes(getattr(self, key)) for key in ("objects", "relations", "attributes")},
            "classes": [
                {"group": group, "category": category, "items": n}
                for (group, category), n in sorted(self.classes.items())
            ],
            "vocabulary": {
                "names": len(self.names),
                "predicates": len(self.predicates),
                "values": len(self.values),
            },
            "names": dict(commonest(self.names, top)),
            "predicates": dict(commonest(self.predicates, top)),
            "values": [
                {"key": key, "value": value, "objects": n}
                for (key, value), n in commonest(self.values, top)
            ],
            "facts": {kind: self.facts[kind] for kind in reported_kinds(self.facts)},
            "left_out": dict(self.left_out),
        }


_COUNTS = ("items", "scenes", "prompts", "images", "asked", "boxes")


def collect(dataset: Dataset, on_item: Callable[[Item], None] | None = None) -> Statistics:
    """Return the statistics of ``dataset``, read once; ``on_item`` is called for each item."""
    found = Statistics(dataset.name)
    for item in dataset:
        found.add(item)
        if on_item is not None:
            on_item(item)
    found.left_out = dict(dataset.left_out)
    return found


def commonest(counts: Counter[T], top: int) -> list[tuple[T, int]]:
    """Return the ``top`` commonest entries.

    Of equally common ones the first by name, so that the same set gives the same list.
    """
    return sorted(counts.items(), key=lambda entry: (-entry[1], str(entry[0])))[:top]


def mean(sizes: Mapping[int, int]) -> float | None:
    """Return the mean of ``sizes`` (size → count); None if it is empty."""
    total = sum(sizes.values())
    return sum(size * n for size, n in sizes.items()) / total if total else None


def _sizes(sizes: Counter[int]) -> dict[str, Any]:
    return {
        "mean": mean(sizes),
        "most": max(sizes, default=None),
        "histogram": {str(size): sizes[size] for size in sorted(sizes)},
    }


# Okabe and Ito's colours, distinguishable with any colour vision.
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
        plots["complexity"] = partial(_complexity, found)
        plots["sizes"] = partial(_plot_sizes, found)
    for key, counts, title, label, colour in (
        ("names", found.names, "Commonest objects", "objects (of {:,} classes)", BLUE),
        ("predicates", found.predicates, "Commonest relations",
         "relations (of {:,} predicates)", ORANGE),
    ):  # fmt: skip
        if counts:
            shown = commonest(counts, _TOP)
            plots[key] = partial(_bars, shown, title, label.format(len(counts)), colour)
    if any(group or category for group, category in found.classes):
        plots["classes"] = partial(_classes, found)
    import matplotlib

    def write(file: Path, make: Callable[[], Figure]) -> None:
        with matplotlib.rc_context(_STYLE):
            # Without a date equal sets give equal files.
            make().savefig(file, format="svg", metadata={"Date": None}, bbox_inches="tight")

    return _written(folder, {f"{name}.svg": make for name, make in plots.items()}, write)


def write_clouds(found: Statistics, folder: Path) -> list[Path]:
    """Write word clouds of objects and of relations (as in the paper's Fig. 6); return the files.

    They are PNG and SVG files in ``folder``. Raises ``DatasetError`` where the folder cannot be
    written or the library ``wordcloud`` is missing.
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
    """Return a colour by the word alone, dark enough to be read on white."""
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


def _plot_sizes(found: Statistics) -> Figure:
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


def _bars(
    entries: Sequence[tuple[str, int]], title: str, label: str, colours: str | Sequence[str]
) -> Figure:
    """Draw ``entries`` (name, count) as bars, the first one on top."""
    figure, (axes,) = _figure(7.5, 1.1 + 0.24 * len(entries))
    shown = entries[::-1]
    # Places, not names: two names may be cut to one.
    places = range(len(shown))
    colour = colours if isinstance(colours, str) else colours[::-1]
    bars = axes.barh(places, [n for _, n in shown], color=colour)
    axes.set_yticks(places, [_short(name) for name, _ in shown])
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
    left = len(entries) - len(shown := entries[:_MOST_CLASSES])
    return _bars(
        [(" · ".join(filter(None, pair)) or "(none)", n) for pair, n in shown],
        "Groups and categories" + (f" ({left} more not shown)" if left > 0 else ""),
        "items",
        [(BLUE, ORANGE, GREEN, GREY)[rank[group] % 4] for (group, _), _ in shown],
    )
