"""The report of an evaluation: a folder of static pages that needs no server and no network."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import overview
from scenewright.evals.reporting.about import About, about
from scenewright.evals.reporting.blind import blind_of
from scenewright.evals.reporting.browser_data import Writer
from scenewright.evals.reporting.buckets import gather
from scenewright.evals.reporting.building import building
from scenewright.evals.reporting.comparison import Comparison, compare
from scenewright.evals.reporting.drawing import main_columns, plots_of
from scenewright.evals.reporting.entries import Labels, Maker
from scenewright.evals.reporting.flags import MEANINGS
from scenewright.evals.reporting.grids import Grids
from scenewright.evals.reporting.render import POLICY, POLICY_WITH_SCRIPTS, asset, render
from scenewright.evals.reporting.score_matrix import (
    ScoreMatrix,
    higher_is_better,
    item_ids,
    load_score_matrix,
)
from scenewright.evals.reporting.sides import Opened, Side, pairs_of
from scenewright.evals.reporting.tables import write_tables
from scenewright.evals.reporting.tally import Tally
from scenewright.evals.reporting.thumbs import Thumbs
from scenewright.evals.statistics.paired import RESAMPLES
from scenewright.evals.store.results import IMAGES, Results

REPORT = "report"
"""Folder of the report below that of the evaluation."""
THUMBS = "thumbs"
_SCRIPTS = ("items-data.js", "items-view.js", "items.js")
_STYLES = ("style.css", "report.css")

Progress = Callable[[int, int], None]
"""Is told how many of how many items are done."""


@dataclass(frozen=True, slots=True)
class Built:
    """A report that was written."""

    page: Path
    """Its first page."""
    items: int
    """Items that its browser shows."""
    lost: int
    """Pictures that the tables name and that could not be read."""


def build_report(
    results: Results,
    out: Path | None = None,
    *,
    copy_pictures: bool = False,
    resamples: int = RESAMPLES,
    progress: Progress | None = None,
) -> Built:
    """Write the report of an evaluation into ``out`` (default: ``report`` in its folder).

    It appears whole or not at all, in place of an older one; its small pictures are made once and
    kept. Full pictures are linked where they lie in the evaluation, or copied with
    ``copy_pictures``, so that the report can be moved. ``resamples`` is for tests of differences.
    Raises ``EvalError`` for tables that cannot be read or a folder that cannot be written.
    """
    place = (out or results.folder / REPORT).absolute()
    score_matrix = load_score_matrix(results)
    if not score_matrix.items:
        raise EvalError(f"{results.folder} has no items: run it first")
    said = about(results)
    comparison = _compared(results, said, score_matrix, resamples)
    with building(place, THUMBS) as folder:
        tally, labels, lost = _items(
            results, score_matrix, said, folder, place, copy_pictures, progress
        )
        _pages(results, score_matrix, said, comparison, tally, labels, lost, folder)
    return Built(place / "index.html", len(score_matrix.items), lost)


def _compared(
    results: Results, said: About, score_matrix: ScoreMatrix, resamples: int
) -> Comparison | None:
    """All pairs of ways of drawing; none where there is one way, or no score."""
    opened = Opened(results.folder, said, score_matrix, results.manifest)
    sides = [Side(way, way, opened, tuple(arms)) for way, arms in score_matrix.ways.items()]
    if len(sides) < 2 or not score_matrix.columns():
        return None
    return compare(pairs_of([[side] for side in sides]), by="level", resamples=resamples)


def _items(
    results: Results,
    score_matrix: ScoreMatrix,
    said: About,
    folder: Path,
    place: Path,
    copy_pictures: bool,
    progress: Progress | None,
) -> tuple[Tally, Labels, int]:
    tally, labels = Tally(), Labels()
    panels = _panels(score_matrix, said)
    thumbs = Thumbs(folder / THUMBS, results.folder / IMAGES)
    scratch = folder / "scratch"
    scratch.mkdir()
    writer = Writer(folder / "data", score_matrix)
    try:
        arms = [arm.name for arm in score_matrix.arms]
        maker = Maker(arms, panels, thumbs.of_hash, thumbs.of_file, tally, labels)
        found = gather(results, item_ids(results), ("rounds", "verdicts", "answers"), scratch)
        for done, one in enumerate(found, start=1):
            entry, details = maker.make(one)
            if copy_pictures:
                _copy(details, results.folder / IMAGES, folder / IMAGES)
            writer.add(one.number, entry, details)
            if done % 50 == 0:
                thumbs.wait()
            if progress is not None:
                progress(done, len(score_matrix.items))
        thumbs.wait()
    finally:
        thumbs.close()
    better = {c: higher_is_better(c.metric, results.manifest) for c in score_matrix.columns()}
    images = IMAGES if copy_pictures else _address(results.folder / IMAGES, place)
    meanings = {int(flag): text for flag, text in MEANINGS.items()}
    writer.finish(panels, labels, images, better, meanings)
    shutil.rmtree(scratch)
    return tally, labels, thumbs.lost


def _panels(score_matrix: ScoreMatrix, said: About) -> list[str]:
    """Panels with scores, in the order of the scores; else those of the configuration."""
    scored = list(dict.fromkeys(c.panel for c in score_matrix.values if c.panel))
    return scored or list(said.panels)


def _address(images: Path, place: Path) -> str:
    """Where the pictures are, as seen from the report's pages."""
    try:
        return Path(os.path.relpath(images.resolve(), place.resolve())).as_posix()
    except ValueError:
        return images.resolve().as_uri()


def _copy(details: dict[str, Any], images: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    for arm in details["arms"]:
        for shot in arm["rounds"]:
            file = images / f"{shot['image']}.png"
            if shot["thumb"] and not (target / file.name).exists():
                shutil.copyfile(file, target / file.name)


def _pages(
    results: Results,
    score_matrix: ScoreMatrix,
    said: About,
    comparison: Comparison | None,
    tally: Tally,
    labels: Labels,
    lost: int,
    folder: Path,
) -> None:
    differences = comparison.differences if comparison is not None else ()

    def better(metric: str) -> bool:
        return higher_is_better(metric, results.manifest)

    grids = Grids(score_matrix, better, differences)
    plots, notes = plots_of(grids)
    (folder / "plots").mkdir()
    for plot in plots:
        (folder / "plots" / f"{plot.name}.svg").write_text(plot.svg, encoding="utf-8")
    for name in _STYLES:
        (folder / name).write_text(asset(name), encoding="utf-8")
    for name in _SCRIPTS:
        (folder / name).write_text(asset(name), encoding="utf-8")
    write_tables(folder / "tables", score_matrix, grids, comparison, tally)
    overall, by_level = overview.significant(comparison)
    panels = _panels(score_matrix, said)
    chosen = main_columns(score_matrix.columns())
    page = render(
        "report.html.j2",
        policy=POLICY,
        about=said,
        stats=overview.stats(said, score_matrix, tally),
        lost=lost,
        lacking=overview.lacking(said, score_matrix, tally),
        grids=overview.score_grids(grids),
        kinds=overview.recalls(score_matrix, tally),
        blind=blind_of(results),
        worst=overview.worst(score_matrix, labels, panels[0]) if panels else None,
        judges=overview.judges(said, tally),
        costs=overview.costs(tally),
        plots=plots,
        notes=notes,
        comparison=comparison,
        overall=overall,
        by_level=by_level,
        verdict=_verdict(chosen[0].metric if chosen else "", overall),
        provenance=overview.provenance(said),
        several_panels=len(panels) > 1,
    )
    (folder / "index.html").write_text(page, encoding="utf-8", errors="replace")
    items = render(
        "items.html.j2", policy=POLICY_WITH_SCRIPTS, about=said, items=len(score_matrix.items),
        scripts=_SCRIPTS,
    )  # fmt: skip
    (folder / "items.html").write_text(items, encoding="utf-8", errors="replace")


def _verdict(metric: str, overall: list[Any]) -> str:
    """One sentence: how many of the differences in the main score are significant."""
    of = [d for d in overall if d.metric == metric and not d.part]
    if not of:
        return ""
    counted = Counter(bool(d.significant) for d in of)
    n = f"{counted[True]} of {len(of)} " + ("difference" if len(of) == 1 else "differences")
    return f"{n} between arms in {metric} over all items: significant after Holm’s correction."
