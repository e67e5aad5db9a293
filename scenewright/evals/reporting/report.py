"""Report of an evaluation: a folder of static pages that needs no server and no network."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.blind import blind_of
from scenewright.evals.reporting.comparison import Comparison, compare
from scenewright.evals.reporting.evaluations import About, Opened, Side, about, pairs_of
from scenewright.evals.reporting.grids import (
    Grid,
    Grids,
    column_title,
    plots_of,
    set_grids,
    write_tables,
)
from scenewright.evals.reporting.items import (
    MEANINGS,
    PAPER_TOKENS_IN,
    PAPER_TOKENS_OUT,
    PAPER_USD,
    Drawing,
    Labels,
    Maker,
    Tally,
    Writer,
    gather,
)
from scenewright.evals.reporting.pages import (
    POLICY,
    POLICY_WITH_SCRIPTS,
    Thumbs,
    asset,
    building,
    render,
)
from scenewright.evals.reporting.readings import Readings
from scenewright.evals.reporting.score_matrix import (
    Facet,
    ScoreMatrix,
    higher_is_better,
    item_ids,
    load_score_matrix,
    main_columns,
    shown_name,
)
from scenewright.evals.reporting.words import count, dollars, whole
from scenewright.evals.runner.independence import reporter
from scenewright.evals.statistics.answers import PlainAnswer, level_answer
from scenewright.evals.statistics.estimates import PAIRED_RESAMPLES
from scenewright.evals.store.results import IMAGES, Results

MOST_REASONS = 40
MOST_LABELS = 15
Lines = list[tuple[str, ...]]


def lacking(about: About, score_matrix: ScoreMatrix, tally: Tally) -> dict[str, Lines]:
    """Return all that is missing from the scores, with reasons, and self-reports.

    Nothing is left out without a line here; the template has a title for each of them.
    """
    unscored: Counter[tuple[str, ...]] = Counter()
    for (column, arm, why), n in score_matrix.reasons.items():
        if not column.part:
            unscored[column_title(column), arm, why] += n
    partly: Counter[tuple[str, ...]] = Counter()
    for (column, arm, why), n in score_matrix.partly.items():
        partly[column_title(column), arm, why] += n
    for score in score_matrix.sets:
        if score.unscored and not score.part:
            title = f"{score.metric} ({score.scope or 'all items'})"
            partly[title, score.arm, score.reason or "no reason"] += 1
    strangers = score_matrix.strangers
    return {
        "self_reports": [
            (reporter(panel), arm, ", ".join(names))
            for panel, arms in about.self_reports.items()
            for arm, names in arms.items()
        ],
        "model_changes": [(text,) for text in about.model_changes],
        "weighed": [(text,) for text in about.weighed],
        "left_out": [
            (str(why), whole(n) if isinstance(n, int | float) else str(n))
            for why, n in about.left_out.items()
        ],
        "failed": _reasons(score_matrix.failures.items()),
        "cut": [(arm, *_dropped(each)) for arm, each in tally.drawings.items() if each.cut],
        "unfinished": [(arm, whole(n)) for arm, n in tally.unfinished.items() if n],
        "without_verdict": _reasons(tally.reasons.items()),
        "unscored": _reasons(unscored.items()),
        "partly": _reasons(partly.items()),
        "strangers": [("rows of unknown items", whole(strangers))] if strangers else [],
    }


def _reasons(counted: Iterable[tuple[tuple[str, ...], int]]) -> Lines:
    every = sorted(counted, key=lambda entry: (-entry[1], entry[0]))
    rows: Lines = [(*key, whole(n)) for key, n in every[:MOST_REASONS]]
    if len(every) > MOST_REASONS:
        rest = sum(n for _, n in every[MOST_REASONS:])
        blank = ("",) * (len(every[0][0]) - 1)
        more = f"{len(every) - MOST_REASONS} more reasons (all are in tables/reasons.csv)"
        rows.append((more, *blank, whole(rest)))
    return rows


def score_grids(grids: Grids) -> dict[str, list[Grid]]:
    """Return the tables of scores: all items, parts, classes, seeds, and whole sets."""
    score_matrix = grids.score_matrix
    columns = score_matrix.columns()
    chosen = main_columns(columns)
    facets: tuple[Facet, ...] = ("level", "group", "category", "complexity")
    rest = [column for column in columns if column not in chosen]
    return {
        "overall": [grids.overall()] if columns else [],
        "parts": _there(grids.parts(column.metric, column.panel) for column in columns),
        "classes": _there(grids.by(facet, column) for facet in facets for column in chosen),
        "others": _there(grids.by(facet, column) for column in rest for facet in facets),
        "seeds": _there(grids.by_seed(column) for column in columns),
        "sets": set_grids(score_matrix.sets, [arm.name for arm in score_matrix.arms]),
    }


def _there(found: Iterable[Grid | None]) -> list[Grid]:
    return [grid for grid in found if grid is not None]


def worst(score_matrix: ScoreMatrix, labels: Labels, panel: str) -> Lines:
    """Return the facts that fail most often, by arm."""
    totals: Counter[str] = Counter()
    for (_, of, label), n in labels.counts.items():
        if of == panel:
            totals[label] += n
    arms = [arm.name for arm in score_matrix.arms]
    most = sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))[:MOST_LABELS]
    return [
        (label, whole(n), *(whole(labels.counts[arm, panel, label]) for arm in arms))
        for label, n in most
    ]


def judging_costs(tally: Tally) -> Lines:
    """Return tokens and USD an image by each panel."""
    rows: Lines = []
    for panel, pictures in tally.judged.items():
        of = [found for (name, _), found in tally.judges.items() if name == panel]
        spent = [sum(getattr(f, key) for f in of) for key in ("tokens_in", "tokens_out", "usd")]
        if pictures:
            rows.append(
                (f"panel {panel} ({count(len(of), 'judge')})", whole(pictures),
                 *(whole(n / pictures) for n in spent[:2]), dollars(spent[2] / pictures))
            )  # fmt: skip
    paper = (whole(PAPER_TOKENS_IN), whole(PAPER_TOKENS_OUT), dollars(PAPER_USD))
    return [*rows, ("the paper: one judge, Gemini 1.5 Flash", "5,000", *paper)]


def _dropped(drawing: Drawing) -> tuple[str, str, str]:
    """Return how much of an arm's prompts was not read."""
    if not drawing.counted:
        return ("not known",) * 3
    return whole(drawing.cut), whole(drawing.tokens_dropped), whole(drawing.facts_dropped)


REPORT = "report"
"""Folder of the report below that of the evaluation."""
THUMBS = "thumbs"
_SCRIPTS = ("items-data.js", "items-view.js", "items.js")
_STYLES = ("style.css", "report.css")

Progress = Callable[[int, int], None]
"""Is told how many of how many items are done."""


@dataclass(frozen=True, slots=True)
class Built:
    """A written report."""

    page: Path
    """Its first page."""
    items: int
    """Items that its browser shows."""
    lost: int
    """Pictures that the tables name and that could not be read."""
    answer: PlainAnswer | None
    """Which arm is the best; None without a score of single pictures."""


def build_report(
    results: Results,
    out: Path | None = None,
    *,
    copy_pictures: bool = False,
    resamples: int = PAIRED_RESAMPLES,
    progress: Progress | None = None,
) -> Built:
    """Write the report of an evaluation into ``out`` (default: ``report`` in its folder).

    It appears as a whole, in place of an older one, and reuses its thumbnails. Full pictures are
    linked to the evaluation, or copied with ``copy_pictures``, so that the report can be moved.
    ``resamples`` is for tests of differences. Raises ``EvalError`` for tables that cannot be read
    or a folder that cannot be written.
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
        answer = _pages(results, score_matrix, said, comparison, tally, labels, lost, folder)
    return Built(place / "index.html", len(score_matrix.items), lost, answer)


def answer_of(results: Results, resamples: int = PAIRED_RESAMPLES) -> PlainAnswer | None:
    """Return the sentence that leads the report of an evaluation.

    None without a score of single pictures. Raises ``EvalError`` for tables that cannot be read.
    """
    score_matrix = load_score_matrix(results)
    comparison = _compared(results, about(results), score_matrix, resamples)
    grids = _grids(results, score_matrix, comparison)
    return _answer(score_matrix, comparison, grids, Readings.of(results))


def _answer(
    score_matrix: ScoreMatrix, comparison: Comparison | None, grids: Grids, readings: Readings
) -> PlainAnswer | None:
    """Return which arm is the best or, of a single arm, how good it is, and what is left out."""
    answer = None if comparison is None else comparison.answer
    for column in main_columns(score_matrix.columns()) if answer is None else ():
        for way, figure in zip(score_matrix.ways, grids.figures(column), strict=True):
            answer = answer or level_answer(way, figure, shown_name(column.metric), n=figure.n)
    if answer is None or not readings.sentence:
        return answer
    return answer.model_copy(update={"sentence": f"{answer.sentence} {readings.sentence}"})


def _grids(results: Results, score_matrix: ScoreMatrix, comparison: Comparison | None) -> Grids:
    def better(metric: str) -> bool:
        return higher_is_better(metric, results.manifest)

    return Grids(score_matrix, better, comparison.differences if comparison is not None else ())


def _compared(
    results: Results, said: About, score_matrix: ScoreMatrix, resamples: int
) -> Comparison | None:
    """Return the comparison of all pairs of arms, or None with one arm or no score."""
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
    """Return the panels with scores in their order, else those of the configuration."""
    scored = list(dict.fromkeys(c.panel for c in score_matrix.values if c.panel))
    return scored or list(said.panels)


def _address(images: Path, place: Path) -> str:
    """Return the path of the pictures relative to the report's pages."""
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
) -> PlainAnswer | None:
    """Write the pages, plots and tables; return the sentence that leads them."""
    grids = _grids(results, score_matrix, comparison)
    readings = Readings.of(results)
    answer = _answer(score_matrix, comparison, grids, readings)
    plots, notes = plots_of(grids)
    # A single arm has nothing beside it in the first plot.
    first = 1 if len(score_matrix.ways) == 1 and len(plots) > 1 else 0
    (folder / "plots").mkdir()
    for plot in plots:
        (folder / "plots" / f"{plot.name}.svg").write_text(plot.svg, encoding="utf-8")
        (folder / "plots" / f"{plot.name}-narrow.svg").write_text(plot.narrow, encoding="utf-8")
    for name in _STYLES:
        (folder / name).write_text(asset(name), encoding="utf-8")
    for name in _SCRIPTS:
        (folder / name).write_text(asset(name), encoding="utf-8")
    write_tables(folder / "tables", score_matrix, grids, comparison, tally)
    panels = _panels(score_matrix, said)
    page = render(
        "report.html.j2",
        policy=POLICY,
        about=said,
        matrix=score_matrix,
        tally=tally,
        lost=lost,
        lacking={**lacking(said, score_matrix, tally), "readings": readings.lines},
        grids=score_grids(grids),
        blind=blind_of(results),
        worst=worst(score_matrix, labels, panels[0]) if panels else [],
        judging=judging_costs(tally),
        drawing={arm: (each, _dropped(each)) for arm, each in tally.drawings.items()},
        answer=answer,
        lead=plots[first] if plots else None,
        plots=[*plots[:first], *plots[first + 1 :]],
        notes=notes,
        comparison=comparison,
    )
    (folder / "index.html").write_text(page, encoding="utf-8", errors="replace")
    items = render(
        "items.html.j2", policy=POLICY_WITH_SCRIPTS, about=said, items=len(score_matrix.items),
        scripts=_SCRIPTS,
    )  # fmt: skip
    (folder / "items.html").write_text(items, encoding="utf-8", errors="replace")
    return answer
