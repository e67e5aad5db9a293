"""Page of a gate: the verdict, how it was reached, and the facts lost and gained with pictures."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from scenewright.evals.gate.result import Change, Comparison, FactChange, GateResult
from scenewright.evals.reporting.pages import POLICY, Thumbs, asset, building, render
from scenewright.evals.reporting.plots import chart, legend, save
from scenewright.evals.statistics.sequential import log_wealth

REPORT = "report"
"""Folder of the page below that of the gate."""
MOST_SCENES = 40
"""Scenes whose pictures are shown."""
_THUMBS = "thumbs"
_STYLES = ("style.css", "report.css")


@dataclass(frozen=True, slots=True)
class ShownScene:
    """A scene with changed facts, as the page shows it."""

    item: str
    before: float
    after: float
    thumbs: tuple[str, str]
    """Thumbnails of the baseline's and the candidate's picture of the first changed seed."""
    lost: tuple[str, ...]
    gained: tuple[str, ...]


def write_page(
    result: GateResult, found: Comparison, folder: Path, images: Sequence[Path] = ()
) -> Path:
    """Write the page of a finished gate below ``folder`` and return its address.

    ``images`` are the image stores of both sides; without them pictures are files. Raises
    ``EvalError`` if the folder cannot be written.
    """
    place = (folder / REPORT).absolute()
    with building(place, _THUMBS) as draft:
        scenes = _scenes(result, found, images, draft / _THUMBS)
        for name in _STYLES:
            (draft / name).write_text(asset(name), encoding="utf-8")
        _plot(result, found, draft / "evidence.svg")
        page = render(
            "gate.html.j2",
            policy=POLICY,
            result=result,
            kinds=_kinds(result),
            most={change: _most(result.facts, change) for change in ("lost", "gained")},
            scenes=scenes,
            changed=len({fact.item for fact in result.facts}),
        )
        (draft / "index.html").write_text(page, encoding="utf-8", errors="replace")
    return place / "index.html"


def _kinds(result: GateResult) -> list[tuple[str, ...]]:
    names = ("lost", "gained", "kept", "absent", "unscored")
    rows = [(kind, *(getattr(n, name) for name in names)) for kind, n in result.kinds.items()]
    if len(rows) > 1:
        rows.append(("all", *(sum(column) for column in zip(*(r[1:] for r in rows), strict=True))))
    return [tuple(map(str, row)) for row in rows]


def _most(facts: Sequence[FactChange], change: Change) -> list[tuple[str, str, str]]:
    """Return kind, statement and number of the facts that changed most often."""
    counts = Counter((fact.kind, fact.statement) for fact in facts if fact.change == change)
    most = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:15]
    return [(statement, kind, str(n)) for (kind, statement), n in most]


def _scenes(
    result: GateResult, found: Comparison, images: Sequence[Path], folder: Path
) -> list[ShownScene]:
    """Return the scenes whose score fell most, then those whose score rose most."""
    by_item: defaultdict[str, list[FactChange]] = defaultdict(list)
    for fact in result.facts:
        by_item[fact.item].append(fact)
    places = [at for at, item in enumerate(found.items) if item in by_item]
    places.sort(key=lambda at: found.differences[at])
    makers = [Thumbs(folder, place) for place in images or (folder, folder)]
    shown = []
    try:
        for at in places[:MOST_SCENES]:
            facts = by_item[found.items[at]]
            names = facts[0].image_before, facts[0].image_after
            one, two = (
                maker.of_hash(name) if images else maker.of_file(name)
                for maker, name in zip(makers, names, strict=True)
            )
            shown.append(
                ShownScene(
                    found.items[at],
                    float(found.before[at]),
                    float(found.after[at]),
                    (one, two),
                    tuple(f.statement for f in facts if f.change == "lost"),
                    tuple(f.statement for f in facts if f.change == "gained"),
                )
            )
        for maker in makers:
            maker.wait()
    finally:
        for maker in makers:
            maker.close()
    return shown


def _plot(result: GateResult, found: Comparison, file: Path) -> None:
    """Draw the evidence after each scene, with the levels at which a verdict is reached."""
    options = result.options
    worse, sound = (w / math.log(10) for w in log_wealth(found.differences, options.rule))
    scenes = range(1, len(worse) + 1)
    made, axis = chart("", "scenes", "evidence (log10)")
    levels = -math.log10(options.alpha), -math.log10(1 - options.power)
    for at, (name, wealth, level) in enumerate(
        (("worse", worse, levels[0]), ("not worse", sound, levels[1]))
    ):
        line = axis.plot(scenes, wealth, label=f"evidence for {name}")[0]
        axis.axhline(level, linestyle=("--", ":")[at], linewidth=1, color=line.get_color())
    save(legend(made, axis), file, "Evidence after each scene; the lines are the levels")
