"""The table metric × judge × aggregator of an evaluation, as Markdown, CSV, parquet and plots.

It holds means, differences between arms, and agreement with people. Intervals are over items, each
drawn with all its pictures. Differences between arms are paired by item. Correlations are over
pictures, in the same resamples for every voter.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.core.flushing import write_text
from scenewright.evals.errors import EvalError
from scenewright.evals.reporting import plots
from scenewright.evals.runner.independence import self_report_notes
from scenewright.evals.runner.served_versions import version_notes
from scenewright.evals.statistics.estimates import (
    Estimate,
    difference,
    mean,
    nothing,
    number,
    over_seeds,
)
from scenewright.evals.statistics.ranks import kendall, spearman
from scenewright.evals.store.files import write_table
from scenewright.evals.store.results import Results
from scenewright.evals.studies import readings
from scenewright.evals.studies.layout import Layout, Row, as_csv, columns_of
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.sources.ratings import Shown, with_ratings
from scenewright.evals.studies.panel.table import AnswerTable, ImageRow, JudgeColumn
from scenewright.evals.studies.peers.panel_metric import AGGREGATOR, JUDGE
from scenewright.evals.studies.readings import PromptsRead

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = "panel:"
"""Begins the voter of a metric that the evaluation's own panels score, such as ``sgscore``."""
_SCORES = (
    *("item", "arm", "backend", "condition", "seed", "panel", "round", "image"),
    *("metric", "version", "part", "value"),
)
_Agreement = tuple[ItemResamples, Array]
"""Resamples of items for every voter alike, and the rating of each picture."""


@dataclass(frozen=True, slots=True)
class Voted:
    """What one voter makes of a metric."""

    metric: str
    """The metric; with the end of its version where the evaluation has two of the name."""
    voter: str
    """``judge:ID``, ``aggregator:NAME``, ``panel:NAME``, or empty for a metric without voters."""
    values: Array
    """(items, arms, seeds), NaN where there is no score. Of a metric of sets (arms, seeds) in one
    row, see :attr:`of_set`."""
    of_set: bool = False
    """Whether it scores a set of pictures as a whole."""


@dataclass(frozen=True, slots=True)
class PeerScores:
    """All scores of an evaluation."""

    name: str
    """The evaluation."""
    items: tuple[str, ...]
    """Items with a score, in their order."""
    arms: tuple[str, ...]
    """``backend/condition``."""
    seeds: tuple[int, ...]
    """Seeds."""
    voted: tuple[Voted, ...]
    """By metric, in the order of the evaluation; judges, aggregators, panels."""
    pictures: tuple[ImageRow, ...]
    """The pictures with a score, item by item."""
    shown: tuple[Shown, ...]
    """The same, as ratings name them."""
    places: tuple[tuple[int, int, int], ...]
    """(item, arm, seed) of each picture, as indices of :attr:`Voted.values`."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""
    prompts: Mapping[str, PromptsRead | None] = field(default_factory=dict)
    """Arm → what of the prompts of its kept pictures was not read."""

    def table(self) -> AnswerTable:
        """Return the pictures as a table without answers, which ratings may be joined to."""
        return AnswerTable(self.name, (JudgeColumn("none"),), self.pictures, (), np.zeros((0, 1)))

    def of_pictures(self, voted: Voted) -> Array:
        """Return the scores of :attr:`pictures`, (n_pictures,); NaN for a metric of sets."""
        if voted.of_set:
            return np.full(len(self.pictures), np.nan)
        return np.array([voted.values[place] for place in self.places])


def peer_scores(results: Results) -> PeerScores:
    """Return the scores of the pictures that each arm gives.

    Raises ``EvalError`` where there are none, and where pandas is not installed.
    """
    scores = _frame(results)
    # Only now: without pandas the frame has said what to install.
    import pandas as pd

    of_set = scores["item"] == ""
    if scores.empty:
        raise EvalError(
            f"{results.folder} holds no scores: finish it with `scenewright eval run`, and name "
            "metrics in its configuration"
        )
    items = tuple(scores.loc[~of_set, "item"].unique())
    arms = tuple(scores["way"].unique())
    seeds = tuple(int(seed) for seed in sorted(scores["seed"].unique()))
    places = [
        pd.Index(categories).get_indexer_for(scores[column]).clip(0).tolist()
        for column, categories in (("item", items), ("way", arms), ("seed", seeds))
    ]
    scores = scores.assign(at=list(zip(*places, strict=True)), of_set=of_set)
    names = scores["metric"].unique()
    voted = []
    for (metric, voter, whole), rows in _voting(scores).groupby(["metric", "voter", "of_set"]):
        values = np.full((1 if whole else len(items), len(arms), len(seeds)), np.nan)
        for place, value in zip(rows["at"], rows["value"], strict=True):
            values[place] = value
        voted.append(Voted(metric, voter, values, bool(whole)))
    order = {name: at for at, name in enumerate(names)}
    pictures = scores[~of_set].drop_duplicates("at").sort_values("at")
    return PeerScores(
        name=str(results.manifest.get("name") or results.folder.name),
        items=items,
        arms=arms,
        seeds=seeds,
        voted=tuple(sorted(voted, key=lambda one: (order[one.metric], _kind(one.voter)))),
        pictures=tuple(
            ImageRow(f"{row.item}|{row.arm}", row.item, row.way) for row in pictures.itertuples()
        ),
        shown=tuple(Shown(row.item, row.arm, row.way, 0, True) for row in pictures.itertuples()),
        places=tuple(pictures["at"]),
        prompts=_prompts(results, arms),
        self_reports=(*self_report_notes(results.manifest), *version_notes(results.manifest)),
    )


def _frame(results: Results) -> pd.DataFrame:
    """Return the scores of kept pictures and of whole sets: metric, voter, way, value, place."""
    scores = results.frame("scores", [*_SCORES, "scope"])
    texts = scores.select_dtypes(exclude="number").columns
    scores[texts] = scores[texts].fillna("")
    part = scores["part"]
    wanted = (scores["scope"] == "") & ((part == "") | part.str.startswith((JUDGE, AGGREGATOR)))
    rounds = results.frame("rounds", ["item", "arm", "round", "kept"])
    kept = rounds[rounds["kept"] == True].drop(columns="kept").drop_duplicates()  # noqa: E712
    scores = scores[wanted].merge(kept, how="left", on=["item", "arm", "round"], indicator=True)
    scores = scores[(scores["item"] == "") | (scores["_merge"] == "both")]
    # Two metrics of one name are told apart by the ends of their versions.
    several = scores.groupby("metric")["version"].transform("nunique") > 1
    metric = scores["metric"].where(
        ~several, scores["metric"] + " (" + scores["version"].str[-8:] + ")"
    )
    panel = (PANEL + scores["panel"]).where(scores["panel"] != "", "")
    return scores.assign(
        metric=metric,
        voter=scores["part"].where(scores["part"] != "", panel),
        way=scores["backend"] + "/" + scores["condition"],
    )


def _voting(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of voters: what stands for a voter that is there already is left out."""
    by_metric = scores["metric"]
    judges = scores["voter"].where(scores["voter"].str.startswith(JUDGE))
    count = judges.groupby(by_metric).transform("nunique")
    voters = (scores["part"] != "").groupby(by_metric).transform("any")
    # The metric's own value is that of one of its aggregators; of one judge every one is the same.
    own = voters & (scores["part"] == "")
    return scores[~own & ~((count == 1) & scores["voter"].str.startswith(AGGREGATOR))]


def _prompts(results: Results, arms: tuple[str, ...]) -> dict[str, PromptsRead | None]:
    columns = ["backend", "condition", "kept", "tokens_dropped", "facts_dropped"]
    kept = [row for row in results.rows("rounds", columns) if row["kept"]]
    return {
        arm: PromptsRead.of(r for r in kept if f"{r['backend']}/{r['condition']}" == arm)
        for arm in arms
    }


def _kind(voter: str) -> int:
    kinds = (JUDGE, AGGREGATOR, PANEL)
    return next((at for at, start in enumerate(kinds) if voter.startswith(start)), len(kinds))


OnProgress = Callable[[int, int], None]
RANKS = {"Spearman": spearman, "Kendall": kendall}
"""Rank correlations; Kendall's is tau-b."""


@dataclass(frozen=True, slots=True)
class MetricRow:
    """A metric by one voter."""

    metric: str
    """The metric."""
    voter: str
    """Its voter, see :attr:`Voted.voter`."""
    of_set: bool
    """Whether it scores sets."""
    means: Mapping[str, Estimate]
    """Arm → mean over items."""
    differences: Mapping[str, Estimate]
    """Arm but the first → how much more than the first, paired by item."""
    agreement: Mapping[str, Estimate] = field(default_factory=dict)
    """Rank correlations with people's ratings, by :data:`RANKS`; empty without ratings."""


@dataclass(frozen=True, slots=True)
class PeerMatrix:
    """The table."""

    name: str
    """The evaluation."""
    items: int
    """Items with a score."""
    arms: tuple[str, ...]
    """``backend/condition``; the others are compared with the first."""
    lines: tuple[MetricRow, ...]
    """By metric; judges, aggregators, panels."""
    rated: int = 0
    """Pictures with ratings."""
    resamples: int = 0
    """Resamples behind the correlations."""
    notes: tuple[str, ...] = ()
    """What to know of the ratings."""
    prompts: Mapping[str, PromptsRead | None] = field(default_factory=dict)
    """Arm → what of the prompts of its kept pictures was not read."""
    self_reports: tuple[str, ...] = ()
    """Whose scores are by models that steered the loops of an arm, a sentence each."""

    def records(self) -> list[dict[str, Any]]:
        """Return one record a figure, unrounded."""
        found = []
        for line in self.lines:
            figures = [("mean", arm, "", e) for arm, e in line.means.items()]
            figures += [("difference", arm, self.arms[0], e) for arm, e in line.differences.items()]
            figures += [(name.lower(), "", "", e) for name, e in line.agreement.items()]
            for name, arm, base, e in figures:
                named = {"metric": line.metric, "voter": line.voter, "figure": name}
                numbers = e.model_dump(include={"value", "low", "high", "sd", "n", "seeds"})
                found.append(named | {"arm": arm, "base": base} | numbers | {"reason": e.reason})
        return found


def matrix_of(
    scores: PeerScores,
    ratings: str | Path | None = None,
    *,
    resamples: int = 1000,
    seed: int = 0,
    on_progress: OnProgress = lambda done, total: None,
) -> PeerMatrix:
    """Return the table of ``scores``.

    ``ratings`` is a CSV or parquet file of people's ratings, as
    :func:`~scenewright.evals.studies.panel.sources.ratings.with_ratings` reads it; ``on_progress``
    is called with the voters that are done. Raises ``PanelStudyError`` for ratings that cannot be
    used.
    """
    agreement: _Agreement | None = None
    notes: tuple[str, ...] = ()
    rated = 0
    if ratings is not None:
        table, notes = with_ratings(scores.table(), scores.shown, ratings)
        agreement = ItemResamples(table, resamples, seed), table.ratings
        rated = int((~np.isnan(table.ratings)).sum())
    lines = []
    for at, voted in enumerate(scores.voted):
        lines.append(_line(scores, voted, agreement, seed))
        on_progress(at + 1, len(scores.voted))
    return PeerMatrix(
        name=scores.name,
        items=len(scores.items),
        arms=scores.arms,
        lines=tuple(lines),
        rated=rated,
        resamples=resamples if rated else 0,
        notes=notes,
        prompts=scores.prompts,
        self_reports=scores.self_reports,
    )


def _line(scores: PeerScores, voted: Voted, agreement: _Agreement | None, seed: int) -> MetricRow:
    of_arm = {arm: voted.values[:, at] for at, arm in enumerate(scores.arms)}
    first = of_arm[scores.arms[0]]
    if voted.of_set:
        means = {arm: over_seeds(_known(values[0]), 0) for arm, values in of_arm.items()}
        gaps = {arm: over_seeds(_known((of_arm[arm] - first)[0]), 0) for arm in scores.arms[1:]}
        return MetricRow(voted.metric, voted.voter, True, means, gaps)
    line = MetricRow(
        voted.metric,
        voted.voter,
        False,
        {arm: mean(values, seed) for arm, values in of_arm.items()},
        {arm: difference(of_arm[arm], first) for arm in scores.arms[1:]},
    )
    if agreement is None:
        return line
    drawn, ratings = agreement
    mine = scores.of_pictures(voted)
    n = int((~np.isnan(mine) & ~np.isnan(ratings)).sum())

    def correlation(rank: Callable[[Array, Array], float]) -> Estimate:
        if n < 3:
            return nothing(f"{n} pictures have both a score and a rating: three are needed")
        found = drawn.figure(lambda at: rank(mine[at], ratings[at]))
        if found.value is None:
            return nothing("all scores, or all ratings, are alike")
        return Estimate(value=found.value, low=found.low, high=found.high, n=n)

    return replace(line, agreement={name: correlation(rank) for name, rank in RANKS.items()})


def _known(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


STEM = "peers"
_DIGITS = 3
_BESIDE = 3
"""Plots in a row."""
_ALONE = "(alone)"
_LABEL = 34
"""Letters of a voter's name in a plot."""


@dataclass(frozen=True, slots=True)
class Written:
    """The files."""

    page: Path
    """Markdown with the tables, and the plots in it."""
    files: tuple[Path, ...]
    """All of them."""


def layouts(matrix: PeerMatrix) -> tuple[Layout, ...]:
    """Return the tables of the matrix.

    They are scores by arm, differences from the first arm, agreement with people, and how much of
    the prompts was not read.
    """
    alone = [one for one in matrix.lines if not one.of_set]
    kinds = (
        ("scores", "means", "Mean over items, with its 95 % interval", matrix.lines),
        ("differences", "differences", f"How much more than {matrix.arms[0]}, paired by item",
         matrix.lines),
        ("agreement", "agreement", f"Rank correlation with the ratings of {matrix.rated} pictures",
         alone),
    )  # fmt: skip
    found = []
    for id_, name, title, lines in kinds:
        figures: list[Mapping[str, Estimate]] = [getattr(one, name) for one in lines]
        if not figures or not figures[0]:
            continue
        rows = tuple(
            Row.measured(f"{e.metric}|{e.voter}", f"{e.metric} · {said(e)}", mine.values())
            for e, mine in zip(lines, figures, strict=True)
        )
        columns = columns_of({column: column for column in figures[0]}, _DIGITS)
        found.append(
            Layout(id=id_, title=title, head="Metric · voter", columns=columns, rows=rows,
                   of_paper=False)
        )  # fmt: skip
    read = readings.layout(matrix.prompts, "Arm")
    return (*found, *(() if read is None else (read,)))


def findings(matrix: PeerMatrix) -> tuple[str, ...]:
    """Return sentences about what the intervals decide, metric by metric; self-reports first."""
    found = list(matrix.self_reports)
    for metric in dict.fromkeys(line.metric for line in matrix.lines):
        lines = [line for line in matrix.lines if line.metric == metric and not line.of_set]
        for arm in matrix.arms[1:] if lines else ():
            found.append(
                _compared(metric, arm, matrix.arms[0], [one.differences[arm] for one in lines])
            )
    rated = [
        (one.value, line, one)
        for line in matrix.lines
        if (one := line.agreement.get("Spearman")) is not None and one.value is not None
    ]
    if rated:
        _, best, figure = max(rated, key=lambda one: one[0])
        found.append(
            f"The highest Spearman correlation with people is that of {best.metric} by "
            f"{said(best)}, {figure.text(_DIGITS)}, over {figure.n} pictures; of {len(rated)} that "
            "were compared, the highest is biased upwards by that choice."
        )
    return tuple(found)


def _compared(metric: str, arm: str, base: str, gaps: Sequence[Estimate]) -> str:
    known = [gap for gap in gaps if gap.low is not None and gap.high is not None]
    above = sum(gap.low > 0.0 for gap in known if gap.low is not None)
    below = sum(gap.high < 0.0 for gap in known if gap.high is not None)
    if not known:
        return f"{metric}: no voter has an interval of {arm} against {base}."
    spread = [gap.value for gap in known if gap.value is not None]
    low, high = (number(end, _DIGITS, sign=True) for end in (min(spread), max(spread)))
    span = low if low == high else f"{low} to {high}"
    if len(known) == 1:
        gap = known[0].text(_DIGITS, sign=True)
        verdict = "is above" if above else "is below" if below else "cannot be told apart from"
        return f"{metric}: {arm} {verdict} {base}; the difference is {gap}."
    return (
        f"{metric}: of {len(known)} voters {above} put {arm} above {base}, {below} below, and "
        f"{len(known) - above - below} cannot tell (95 % intervals); differences are {span}."
    )


def said(line: MetricRow) -> str:
    """Return a voter in words."""
    for start, words in ((JUDGE, "judge "), (AGGREGATOR, "all judges, ")):
        if line.voter.startswith(start):
            return words + line.voter.removeprefix(start)
    return line.voter.replace(":", " ", 1) or _ALONE


def draw(matrix: PeerMatrix, agreement: bool = False) -> Figure:
    """Draw one plot a metric: its voters from top to bottom, a mark an arm, with intervals.

    ``agreement`` draws the correlations with people in the same way.
    """
    lines = [one for one in matrix.lines if not (agreement and one.of_set)]
    metrics = list(dict.fromkeys(line.metric for line in lines))
    across = min(_BESIDE, max(1, len(metrics)))
    down = max(1, -(-len(metrics) // across))
    most = max((sum(one.metric == m for one in lines) for m in metrics), default=1)
    made, axes = plots.figure(down, across, (4.6 * across, down * (1.3 + 0.26 * most) + 0.4))
    places = [axis for row in axes for axis in row]
    for axis, metric in zip(places, metrics, strict=False):
        mine = [one for one in lines if one.metric == metric]
        _dots(axis, metric, mine, [one.agreement if agreement else one.means for one in mine])
        # Rows of one height in every plot.
        axis.set_ylim(most - 0.5, -0.5)
        axis.set_xlabel("correlation with people" if agreement else "mean over items")
        if agreement:
            axis.set_xlim(-1.0, 1.0)
            axis.axvline(0.0, color="#888888", linewidth=0.8)
    for axis in places[len(metrics) :]:
        axis.set_visible(False)
    plots.legend(made, places[0], columns=3)
    return made


def _dots(
    axis: Axes,
    metric: str,
    lines: Sequence[MetricRow],
    figures: Sequence[Mapping[str, Estimate]],
) -> None:
    names = list(dict.fromkeys(name for found in figures for name in found))
    for at, name in enumerate(names):
        shift = (at - (len(names) - 1) / 2) * 0.22
        rows = [
            (row + shift, one)
            for row, found in enumerate(figures)
            if (one := found.get(name)) is not None and one.value is not None
        ]
        # Also without points, so that every plot has the whole legend.
        axis.errorbar(
            [one.value or 0.0 for _, one in rows],
            [place for place, _ in rows],
            xerr=plots.errors([one for _, one in rows]),
            fmt=plots.MARKERS[at % len(plots.MARKERS)],
            color=plots.COLORS[at % len(plots.COLORS)],
            markersize=4.5,
            elinewidth=1.1,
            capsize=2,
            label=name,
        )
    axis.set_yticks(range(len(lines)), [_short(line) for line in lines], fontsize=8)
    axis.grid(axis="y", visible=False)
    axis.set_title(metric, fontsize=10)


def _short(line: MetricRow) -> str:
    text = said(line).removeprefix("judge ")
    return text if len(text) <= _LABEL else f"…{text[1 - _LABEL :]}"


def write(matrix: PeerMatrix, folder: Path) -> Written:
    """Write ``peers.md``, ``.csv``, ``.parquet`` and ``.svg`` into ``folder``.

    Where there are ratings, ``peers-agreement.svg`` too. Raises ``EvalError`` if that fails.
    """
    tables = layouts(matrix)
    pictures = {STEM: (draw(matrix), "Metric × judge × aggregator")}
    if matrix.rated:
        pictures[f"{STEM}-agreement"] = (draw(matrix, agreement=True), "Agreement with people")
    page, sheet = folder / f"{STEM}.md", folder / f"{STEM}.csv"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for stem, (figure, title) in pictures.items():
            files.append(folder / f"{stem}.svg")
            plots.save(figure, files[-1], title)
        write_text(sheet, as_csv(tables).rstrip("\n"))
        write_text(page, _page(matrix, tables, list(pictures)))
    except OSError as error:
        raise EvalError(
            f"{folder} cannot be written: {error.strerror or error}: name another with --out"
        ) from error
    write_table(folder, STEM, matrix.records(), _COLUMNS)
    return Written(page, (page, sheet, folder / f"{STEM}.parquet", *files))


_COLUMNS: Mapping[str, type] = {
    **dict.fromkeys(("metric", "voter", "figure", "arm", "base"), str),
    **dict.fromkeys(("value", "low", "high", "sd"), float),
    **dict.fromkeys(("n", "seeds"), int),
    "reason": str,
}


def _page(matrix: PeerMatrix, tables: Sequence[Layout], plotted: Sequence[str]) -> str:
    lines = [f"# {matrix.name}: metric × judge × aggregator", ""]
    lines += [f"- {sentence}" for sentence in findings(matrix)]
    for stem in plotted:
        lines += ["", f"![{stem}]({stem}.svg)"]
    for table in tables:
        lines += ["", f"## {table.title}", "", table.markdown()]
    lines += [
        "",
        f"{matrix.items} items. Intervals are of items, 95 %; ± is the standard deviation over "
        "seeds. A voter is a judge alone, an aggregator over all judges, or a panel of the "
        "evaluation; a metric without voters has one row, and of one judge all aggregators are the "
        "same. Unscored pictures are left out of their voter's mean.",
    ]
    if matrix.rated:
        lines += [
            "",
            f"Correlations are over pictures, with {matrix.resamples} resamples of items, the "
            "same for all voters.",
        ]
    lines += [f"\n{note}" for note in matrix.notes]
    lines += ["", f"All figures unrounded: [{STEM}.csv]({STEM}.csv), `{STEM}.parquet`."]
    return "\n".join(lines)
