"""Report of an evaluation: a folder of static pages that needs no server and no network."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.reporting.blind import blind_of
from scenewright.evals.reporting.comparison import Comparison, Difference, compare
from scenewright.evals.reporting.evaluations import About, Opened, Side, about, pairs_of
from scenewright.evals.reporting.grids import (
    Grid,
    Grids,
    column_title,
    main_columns,
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
from scenewright.evals.reporting.score_matrix import (
    Facet,
    ScoreMatrix,
    higher_is_better,
    item_ids,
    load_score_matrix,
)
from scenewright.evals.reporting.words import count, dollars, probability, whole
from scenewright.evals.runner.independence import reporter
from scenewright.evals.statistics.estimates import PAIRED_RESAMPLES
from scenewright.evals.store.results import IMAGES, Results
from scenewright.runs.report.words import duration

MOST_REASONS = 40
MOST_LABELS = 15
Lines = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Listed:
    """A plain table of text."""

    title: str
    heads: tuple[str, ...]
    rows: Lines
    note: str = ""


def stats(about: About, score_matrix: ScoreMatrix, tally: Tally) -> list[tuple[str, str, str]]:
    """Return label, value and note of the figures at the top."""
    pictures = sum(each.pictures for each in tally.drawings.values())
    verdicts = sum(sum(states.values()) for states in tally.facts.values())
    unknown = sum(states["unscored"] for states in tally.facts.values())
    failed = int(score_matrix.failed.sum())
    spent = about.totals.get("usd")
    found = [
        ("items", whole(len(score_matrix.items)), about.dataset),
        (
            "arms",
            whole(len(score_matrix.arms)),
            f"{count(len(score_matrix.ways), 'way')} of drawing",
        ),
        ("pictures", whole(pictures), f"{whole(failed)} failed" if failed else "none failed"),
        ("facts judged", whole(verdicts), f"{whole(unknown)} without a verdict"),
    ]
    if spent is not None:
        seconds = about.totals.get("seconds")
        found.append(("cost", dollars(spent), duration(seconds) if seconds else ""))
    return found


def lacking(about: About, score_matrix: ScoreMatrix, tally: Tally) -> list[Listed]:
    """Return all that is missing from the scores, with reasons, and self-reports.

    Nothing is left out without a line here.
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
    found = [
        Listed(
            "Self-reports",
            ("judged by", "arm", "models"),
            [
                (reporter(panel), arm, ", ".join(names))
                for panel, arms in about.self_reports.items()
                for arm, names in arms.items()
            ],
            "These models steered the loops that they judge: the scores are too good.",
        ),
        Listed(
            "Models behind the judges",
            ("served versions",),
            [(text,) for text in about.model_changes],
        ),
        Listed(
            "Entries of the set that were left out",
            ("reason", "entries"),
            [
                (str(why), whole(n) if isinstance(n, int | float) else str(n))
                for why, n in about.left_out.items()
            ],
        ),
        Listed(
            "Pictures that failed",
            ("arm", "reason", "attempts"),
            _reasons(score_matrix.failures.items()),
        ),
        Listed(
            "Prompts that were not read to their end",
            ("arm", "prompts", "tokens", "facts"),
            [(arm, *_dropped(each)) for arm, each in tally.drawings.items() if each.cut],
            "The image model did not see the end of these prompts.",
        ),
        Listed(
            "Pictures not drawn",
            ("arm", "items"),
            [(arm, whole(n)) for arm, n in tally.unfinished.items() if n],
            "There is neither a picture nor a failure: run the evaluation again to finish them.",
        ),
        Listed(
            "Facts without a verdict",
            ("arm", "panel", "reason", "facts"),
            _reasons(tally.reasons.items()),
        ),
        Listed(
            "Pictures without a score",
            ("score", "arm", "reason", "pictures"),
            _reasons(unscored.items()),
        ),
        Listed(
            "Scores of a part only",
            ("score", "arm", "what is not in it", "scores"),
            _reasons(partly.items()),
            "Each is of the parts that did not fail; --retry tries the others again.",
        ),
        Listed(
            "Rows that were passed over",
            ("what", "rows"),
            [("rows of unknown items", whole(strangers))] if strangers else [],
            "They name no item of the table of items, and are in no figure here.",
        ),
    ]
    return [table for table in found if table.rows]


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


def recalls(score_matrix: ScoreMatrix, tally: Tally) -> Listed | None:
    """Return the verdicts by kind of fact, arm and panel."""
    rows: Lines = []
    for (arm, panel, kind), states in sorted(tally.facts.items()):
        asked = states["yes"] + states["no"] + states["void"]
        rows.append(
            (arm, panel, kind, probability(states["yes"], asked), whole(states["yes"]),
             whole(states["no"]), whole(states["void"]), whole(states["unscored"]))
        )  # fmt: skip
    heads = ("arm", "panel", "kind", "hold", "yes", "no", "void", "unscored")
    note = (
        "Void facts were not asked because their object is absent: they count as not satisfied. "
        "Unscored ones are outside of the share."
    )
    return Listed("Facts by kind", heads, rows, note) if rows else None


def worst(score_matrix: ScoreMatrix, labels: Labels, panel: str) -> Listed | None:
    """Return the facts that fail most often, by arm."""
    totals: Counter[str] = Counter()
    for (_, of, label), n in labels.counts.items():
        if of == panel:
            totals[label] += n
    arms = [arm.name for arm in score_matrix.arms]
    rows: Lines = [
        (label, whole(n), *(whole(labels.counts[arm, panel, label]) for arm in arms))
        for label, n in sorted(totals.items(), key=lambda entry: (-entry[1], entry[0]))[
            :MOST_LABELS
        ]
    ]
    if not rows:
        return None
    note = "Pictures in which it does not hold; the browser of items filters by it."
    return Listed("What fails most", ("fact", "in all", *arms), rows, note)


def judges(about: About, tally: Tally) -> Listed | None:
    """Return every judge's answers, share of unscored ones, and costs."""
    rows: Lines = []
    for (panel, judge), found in sorted(tally.judges.items()):
        usable = found.yes + found.no
        pictures = max(1, tally.judged[panel])
        prints = about.panels.get(panel, {})
        rows.append(
            (panel, judge, (prints.get(judge) or about.judges.get(judge, ""))[:12],
             whole(found.answers), probability(found.yes, usable),
             probability(found.unscored, found.answers), probability(found.against, found.decided),
             f"{whole(found.tokens_in / pictures)} / {whole(found.tokens_out / pictures)}",
             dollars(found.usd / pictures))
        )  # fmt: skip
    heads = ("panel", "judge", "fingerprint", "answers", "yes", "unscored", "against its panel",
             "tokens in / out a picture", "USD a picture")  # fmt: skip
    return Listed("Judges", heads, rows) if rows else None


def costs(tally: Tally) -> list[Listed]:
    """Return tokens and USD an image beside the paper's, and the costs of drawing."""
    rows: Lines = []
    for panel, pictures in tally.judged.items():
        if not pictures:
            continue
        of = [found for (name, _), found in tally.judges.items() if name == panel]
        spent = [sum(getattr(f, key) for f in of) for key in ("tokens_in", "tokens_out", "usd")]
        rows.append(
            (f"panel {panel} ({count(len(of), 'judge')})", whole(pictures),
             whole(spent[0] / pictures), whole(spent[1] / pictures), dollars(spent[2] / pictures))
        )  # fmt: skip
    rows.append(
        ("the paper: one judge, Gemini 1.5 Flash", "5,000", whole(PAPER_TOKENS_IN),
         whole(PAPER_TOKENS_OUT), dollars(PAPER_USD))
    )  # fmt: skip
    note = (
        "The last row is from Scene-Bench, appendix D.4 (March 2025): another model, other "
        "pictures. Local judges cost no money."
    )
    judging = ("judged by", "pictures", "tokens in", "tokens out", "USD an image")
    found = [Listed("Judging, for one picture", judging, rows, note)]
    rows = []
    for arm, drawing in tally.drawings.items():
        n = max(1, drawing.pictures)
        rows.append(
            (arm, whole(drawing.pictures), f"{drawing.drawn / n:.2f}",
             duration(drawing.seconds / n),
             f"{whole(drawing.tokens_in / n)} / {whole(drawing.tokens_out / n)}",
             dollars(drawing.usd / n), *_dropped(drawing))
        )  # fmt: skip
    if rows:
        heads = ("arm", "pictures kept", "drawn for one", "time for one",
                 "tokens in / out for one", "USD for one", "prompts cut", "tokens dropped",
                 "facts dropped")  # fmt: skip
        note = (
            "Loops included: composing, reference images, and the judges that steer. Prompts of "
            "kept pictures that the image model did not read to their end are cut; dropped are "
            "the tokens in all, and the facts whose words these are."
        )
        found.append(Listed("Drawing, for one picture", heads, rows, note))
    return found


def _dropped(drawing: Drawing) -> tuple[str, str, str]:
    """Return how much of an arm's prompts was not read."""
    if not drawing.counted:
        return ("not known",) * 3
    return whole(drawing.cut), whole(drawing.tokens_dropped), whole(drawing.facts_dropped)


def significant(comparison: Comparison | None) -> tuple[list[Difference], list[Difference]]:
    """Return the differences over all items, and those by level."""
    if comparison is None:
        return [], []
    every = comparison.differences
    return [d for d in every if not d.scope], [d for d in every if d.scope]


def provenance(about: About) -> Sequence[tuple[str, Mapping[str, str]]]:
    """Return what is needed to repeat the evaluation: models, prompts, versions, settings."""
    settings = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in about.config.items()
    }
    sections: list[tuple[str, Mapping[str, Any]]] = [
        ("Set", _known(about)),
        ("Backends", about.backends),
        ("Judges", about.judges),
        ("Prompts", about.prompts),
        ("Versions", about.versions),
        ("Settings", settings),
    ]
    return [(title, entries) for title, entries in sections if entries]


def _known(about: About) -> dict[str, str]:
    found = {
        "name": about.dataset,
        "source": about.source,
        "licence": about.licence,
        "fingerprint": about.fingerprint,
    }
    return {key: value for key, value in found.items() if value}


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
        _pages(results, score_matrix, said, comparison, tally, labels, lost, folder)
    return Built(place / "index.html", len(score_matrix.items), lost)


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
    overall, by_level = significant(comparison)
    panels = _panels(score_matrix, said)
    chosen = main_columns(score_matrix.columns())
    page = render(
        "report.html.j2",
        policy=POLICY,
        about=said,
        stats=stats(said, score_matrix, tally),
        lost=lost,
        lacking=lacking(said, score_matrix, tally),
        grids=score_grids(grids),
        kinds=recalls(score_matrix, tally),
        blind=blind_of(results),
        worst=worst(score_matrix, labels, panels[0]) if panels else None,
        judges=judges(said, tally),
        costs=costs(tally),
        plots=plots,
        notes=notes,
        comparison=comparison,
        overall=overall,
        by_level=by_level,
        verdict=_verdict(chosen[0].metric if chosen else "", overall),
        provenance=provenance(said),
        several_panels=len(panels) > 1,
    )
    (folder / "index.html").write_text(page, encoding="utf-8", errors="replace")
    items = render(
        "items.html.j2", policy=POLICY_WITH_SCRIPTS, about=said, items=len(score_matrix.items),
        scripts=_SCRIPTS,
    )  # fmt: skip
    (folder / "items.html").write_text(items, encoding="utf-8", errors="replace")


def _verdict(metric: str, overall: list[Any]) -> str:
    """Return a sentence on how many differences in the main score are significant."""
    of = [d for d in overall if d.metric == metric and not d.part]
    if not of:
        return ""
    counted = Counter(bool(d.significant) for d in of)
    n = f"{counted[True]} of {len(of)} " + ("difference" if len(of) == 1 else "differences")
    return f"{n} between arms in {metric} over all items: significant after Holm’s correction."
