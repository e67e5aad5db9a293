"""What the first page of a report shows, as plain data."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scenewright.evals.reporting.about import About
from scenewright.evals.reporting.comparison import Comparison, Difference
from scenewright.evals.reporting.drawing import main_columns
from scenewright.evals.reporting.entries import Labels
from scenewright.evals.reporting.facets import Facet
from scenewright.evals.reporting.grids import Grid, Grids, column_title, set_grids
from scenewright.evals.reporting.score_matrix import ScoreMatrix
from scenewright.evals.reporting.tally import (
    PAPER_TOKENS_IN,
    PAPER_TOKENS_OUT,
    PAPER_USD,
    Drawing,
    Tally,
)
from scenewright.evals.reporting.words import count, dollars, probability, whole
from scenewright.evals.runner.independence import reporter
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
    """Label, value and note of the figures at the head."""
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
    """All that is missing from the scores or makes them no independent report, with reasons;
    nothing is left out in silence."""
    found = []
    rows: Lines = [
        (reporter(panel), arm, ", ".join(names))
        for panel, arms in about.self_reports.items()
        for arm, names in arms.items()
    ]
    if rows:
        note = "These models steered the loops that they judge: the scores are too good."
        found.append(Listed("Self-reports", ("judged by", "arm", "models"), rows, note))
    if about.model_changes:
        rows = [(text,) for text in about.model_changes]
        title = "Models behind the judges"
        found.append(Listed(title, ("what the answers tell",), rows))
    rows = [
        (str(why), whole(n) if isinstance(n, int | float) else str(n))
        for why, n in about.left_out.items()
    ]
    if rows:
        title = "Entries of the set that were left out"
        found.append(Listed(title, ("reason", "entries"), rows))
    rows = _reasons(((arm, why), n) for (arm, why), n in score_matrix.failures.items())
    if rows:
        found.append(Listed("Pictures that failed", ("arm", "reason", "attempts"), rows))
    rows = [(arm, *_dropped(each)) for arm, each in tally.drawings.items() if each.cut]
    if rows:
        note = (
            "What stands at the end of these prompts is not in what the pictures were drawn from."
        )
        heads = ("arm", "prompts", "tokens", "facts")
        found.append(Listed("Prompts that were not read to their end", heads, rows, note))
    rows = [(arm, whole(n)) for arm, n in tally.unfinished.items() if n]
    if rows:
        note = "There is neither a picture nor a failure: run the evaluation again to finish them."
        found.append(Listed("Pictures not drawn", ("arm", "items"), rows, note))
    rows = _reasons((key, n) for key, n in tally.reasons.items())
    if rows:
        title = "Facts without a verdict"
        found.append(Listed(title, ("arm", "panel", "reason", "facts"), rows))
    unscored: Counter[tuple[str, ...]] = Counter()
    for (column, arm, why), n in score_matrix.reasons.items():
        if not column.part:
            unscored[column_title(column), arm, why] += n
    if unscored:
        heads = ("score", "arm", "reason", "pictures")
        found.append(Listed("Pictures without a score", heads, _reasons(unscored.items())))
    partly: Counter[tuple[str, ...]] = Counter()
    for (column, arm, why), n in score_matrix.partly.items():
        partly[column_title(column), arm, why] += n
    for score in score_matrix.sets:
        if score.unscored and not score.part:
            title = f"{score.metric} ({score.scope or 'all items'})"
            partly[title, score.arm, score.reason or "no reason"] += 1
    if partly:
        heads = ("score", "arm", "what is not in it", "scores")
        note = "Each is of the parts that did not fail; --retry tries the others again."
        found.append(Listed("Scores of a part only", heads, _reasons(partly.items()), note))
    if score_matrix.strangers:
        note = "They name no item of the table of items, and are in no figure here."
        rows = [("rows of unknown items", whole(score_matrix.strangers))]
        found.append(Listed("Rows that were passed over", ("what", "rows"), rows, note))
    return found


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
    """Tables of scores: over all items, their parts, by class, by seed, and of sets."""
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
    """Verdicts by kind of fact, arm and panel."""
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
    """What fails most often, by arm."""
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
    """Every judge: what it says, how often it stays silent, and what it takes."""
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
    """Tokens and USD an image beside the paper's, and what drawing took."""
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
    """How much of an arm's prompts was not read."""
    if not drawing.counted:
        return ("not known",) * 3
    return whole(drawing.cut), whole(drawing.tokens_dropped), whole(drawing.facts_dropped)


def significant(comparison: Comparison | None) -> tuple[list[Difference], list[Difference]]:
    """Differences over all items, and those by level."""
    if comparison is None:
        return [], []
    every = comparison.differences
    return [d for d in every if not d.scope], [d for d in every if d.scope]


def provenance(about: About) -> Sequence[tuple[str, Mapping[str, str]]]:
    """What to know to do it again: models, prompts, versions, settings."""
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
