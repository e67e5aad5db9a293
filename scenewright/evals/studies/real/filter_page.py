"""The page of a filter: of each class what is kept and what is dropped, side by side, and why."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from scenewright.core.flushing import write_text
from scenewright.evals.reporting.render import POLICY
from scenewright.evals.reporting.thumbs import Thumbs
from scenewright.evals.reporting.words import whole
from scenewright.evals.studies.real.filtering import WHY, Filtered, FilterPlan, Tally, tallies

PAGE, THUMBS = "index.html", "thumbs"
MOST = 24
"""Pictures of a class that are shown on each side."""


@dataclass(frozen=True, slots=True)
class Shown:
    """A picture on the page."""

    one: Filtered
    """What became of it."""
    thumb: str
    """Name of its thumbnail; empty if it could not be read."""


@dataclass(frozen=True, slots=True)
class ClassShown:
    """A class on the page."""

    tally: Tally
    """It in numbers."""
    kept: tuple[Shown, ...]
    """The best of what is kept."""
    dropped: tuple[Shown, ...]
    """What is dropped: the best ranks first, then what has none."""


def write_page(
    rows: Sequence[Filtered],
    files: Mapping[str, Path],
    folder: Path,
    plan: FilterPlan,
    source: str = "",
) -> Path:
    """Write ``index.html`` and the thumbnails; ``rows`` in the order of the manifest,
    :data:`MOST` pictures a class on each side. Raises ``OSError``."""
    thumbs = Thumbs(folder / THUMBS, folder)
    try:
        classes = [
            ClassShown(
                tally,
                *(
                    tuple(
                        Shown(row, thumbs.of_file(str(files[row.image])))
                        for row in _some(inside, kept, MOST)
                    )
                    for kept in (True, False)
                ),
            )
            for tally in tallies(rows)
            for inside in [[row for row in rows if row.label == tally.label]]
        ]
        thumbs.wait()
    finally:
        thumbs.close()
    there = {file.stem for file in (folder / THUMBS).glob("*.webp")}
    style = resources("scenewright.runs.report").joinpath("assets", "style.css").read_text("utf-8")
    text = _environment().get_template("filter.html.j2").render(
        classes=classes, plan=plan, source=source, why=WHY, policy=POLICY, style=Markup(style),
        folder=THUMBS, there=there, counts={w: sum(r.why == w for r in rows) for w in WHY},
        pictures=len(rows),
    )  # fmt: skip
    write_text(folder / PAGE, text)
    return folder / PAGE


def _some(rows: Sequence[Filtered], kept: bool, most: int) -> list[Filtered]:
    """At most ``most``; where some must go, each reason keeps its first ones in turn."""
    inside = [row for row in rows if row.kept == kept]
    turns: dict[str, int] = {}
    places: list[tuple[int, int]] = []
    for at, row in enumerate(inside):
        places.append((turns.get(row.why, 0), at))
        turns[row.why] = turns.get(row.why, 0) + 1
    return [inside[at] for at in sorted(at for _, at in sorted(places)[:most])]


@functools.cache
def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader("scenewright.evals.studies.real", "assets"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "whole": whole,
        "score": lambda value: "–" if value is None else f"{value:.3f}",
        "name": lambda path: Path(path).name,
    }
    return made
