"""The table metric × judge × aggregator of an evaluation, as Markdown, CSV, parquet and plots.

It holds means, differences between arms, and agreement with people. Intervals are over items, each
drawn with all its pictures. Differences between arms are paired by item. Correlations are over
pictures, in the same resamples for every voter.

The published agreement of TIFA, DSG and VQ2A with people stands beside it: Cho et al. (ICLR 2024)
correlate, over the 800 images of TIFA160 that people rated, each judge's score by the questions of
each set with the mean rating. :func:`published_scores` gives the same from the released answers
(:mod:`scenewright.evals.studies.panel.sources.dsg_release`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

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
from scenewright.evals.statistics.figures import summary
from scenewright.evals.statistics.ranks import DECIMALS, kendall
from scenewright.evals.store.files import drafted
from scenewright.evals.store.results import Results, arm_name
from scenewright.evals.studies import readings
from scenewright.evals.studies.layout import Layout, Row, as_csv, columns_of
from scenewright.evals.studies.panel.resampling import ItemResamples, RankCorrelation, image_counts
from scenewright.evals.studies.panel.sources.dsg_release import Questions
from scenewright.evals.studies.panel.sources.ratings import Shown, with_ratings
from scenewright.evals.studies.panel.table import AnswerTable, ImageRow, JudgeColumn
from scenewright.evals.studies.peers.panel_metric import AGGREGATOR, JUDGE
from scenewright.evals.studies.readings import PromptsRead

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = "panel:"
"""Begins the voter of a metric that the evaluation's own panels score, such as ``sgscore``."""
_SCORES = (
    *("item", "arm", "backend", "condition", "seed", "panel", "round", "image"),
    *("metric", "version", "part", "value"),
)
_Row = dict[str, Any]


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

    Raises ``EvalError`` where there are none.
    """
    rows = _rows(results)
    kept = _kept(results)
    alone = [r for r in rows if r["item"] and (r["item"], r["arm"], r["round"]) in kept]
    sets = [r for r in rows if not r["item"]]
    if not alone and not sets:
        raise EvalError(
            f"{results.folder} holds no scores: finish it with `scenewright eval run`, and name "
            "metrics in its configuration"
        )
    names = _names(rows)
    items = tuple(dict.fromkeys(row["item"] for row in alone))
    arms = tuple(dict.fromkeys(f"{r['backend']}/{r['condition']}" for r in [*alone, *sets]))
    seeds = tuple(sorted({row["seed"] for row in [*alone, *sets]}))
    at = [{value: n for n, value in enumerate(values)} for values in (items, arms, seeds)]
    voting = {names[_key(row)] for row in alone if row["part"]}
    judges: dict[str, set[str]] = {}
    for row in alone:
        if row["part"].startswith(JUDGE):
            judges.setdefault(names[_key(row)], set()).add(row["part"])
    values: dict[tuple[str, str, bool], Array] = {}
    pictures: dict[tuple[int, int, int], ImageRow] = {}
    for row in [*alone, *sets]:
        metric, of_set = names[_key(row)], not row["item"]
        # The metric's own value is that of one of its aggregators.
        if metric in voting and not row["part"]:
            continue
        # Of one judge every aggregator makes the same.
        if row["part"].startswith(AGGREGATOR) and len(judges.get(metric, ())) == 1:
            continue
        arm = f"{row['backend']}/{row['condition']}"
        place = (0 if of_set else at[0][row["item"]], at[1][arm], at[2][row["seed"]])
        voter = row["part"] or (f"{PANEL}{row['panel']}" if row["panel"] else "")
        found = values.setdefault(
            (metric, voter, of_set),
            np.full((1 if of_set else len(items), len(arms), len(seeds)), np.nan),
        )
        if row["value"] is not None:
            found[place] = row["value"]
        if not of_set and place not in pictures:
            pictures[place] = ImageRow(f"{row['item']}|{row['arm']}", row["item"], arm)
    places = tuple(sorted(pictures))
    order = {name: number for number, name in enumerate(dict.fromkeys(names.values()))}
    return PeerScores(
        name=str(results.manifest.get("name") or results.folder.name),
        items=items,
        arms=arms,
        seeds=seeds,
        voted=tuple(
            Voted(*key[:2], found, key[2])
            for key, found in sorted(values.items(), key=lambda v: _order(order, v[0]))
        ),
        pictures=tuple(pictures[place] for place in places),
        shown=tuple(_shown(pictures[place], seeds[place[2]]) for place in places),
        places=places,
        prompts=_prompts(results, arms),
        self_reports=(*self_report_notes(results.manifest), *version_notes(results.manifest)),
    )


def _rows(results: Results) -> list[_Row]:
    table = results.table("scores", [*_SCORES, "scope"])
    part = table.column("part")
    wanted = pc.equal(part, "")
    for start in (JUDGE, AGGREGATOR):
        wanted = pc.or_(wanted, pc.starts_with(part, start))
    mask = pc.and_(wanted, pc.equal(table.column("scope"), ""))
    found: list[_Row] = table.filter(mask).to_pylist() if isinstance(table, pa.Table) else []
    return found


def _kept(results: Results) -> set[tuple[str, str, int]]:
    rows = results.rows("rounds", ["item", "arm", "round", "kept"])
    return {(row["item"], row["arm"], row["round"]) for row in rows if row["kept"]}


def _prompts(results: Results, arms: tuple[str, ...]) -> dict[str, PromptsRead | None]:
    columns = ["backend", "condition", "kept", "tokens_dropped", "facts_dropped"]
    kept = [row for row in results.rows("rounds", columns) if row["kept"]]
    return {
        arm: PromptsRead.of(r for r in kept if f"{r['backend']}/{r['condition']}" == arm)
        for arm in arms
    }


def _key(row: _Row) -> tuple[str, str]:
    return row["metric"], row["version"]


def _names(rows: list[_Row]) -> dict[tuple[str, str], str]:
    """Return by metric and version how tables call it."""
    keys = dict.fromkeys(_key(row) for row in rows)
    versions = Counter(metric for metric, _ in keys)
    return {key: key[0] if versions[key[0]] == 1 else f"{key[0]} ({key[1][-8:]})" for key in keys}


def _order(order: dict[str, int], key: tuple[str, str, bool]) -> tuple[int, int]:
    kinds = (JUDGE, AGGREGATOR, PANEL)
    kind = next((at for at, start in enumerate(kinds) if key[1].startswith(start)), len(kinds))
    return order[key[0]], kind


def _shown(picture: ImageRow, seed: int) -> Shown:
    backend, _, condition = picture.model.partition("/")
    arm = arm_name(backend, condition, seed)
    return Shown(picture.item, arm, picture.model, 0, True)


OnProgress = Callable[[int, int], None]
_MOST_PAIRED = 3000
"""Pictures up to which Kendall's correlation has an interval: it takes the square of them."""


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
    spearman: Estimate | None = None
    """Rank correlation with people's ratings; None without ratings."""
    kendall: Estimate | None = None
    """Kendall's tau-b, likewise."""


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
            for name, estimate in (("spearman", line.spearman), ("kendall", line.kendall)):
                figures += [(name, "", "", estimate)] if estimate is not None else []
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
    agreement = None
    notes: tuple[str, ...] = ()
    rated = 0
    if ratings is not None:
        table, notes = with_ratings(scores.table(), scores.shown, ratings)
        agreement = _Agreement(table, resamples, seed)
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
    mine = scores.of_pictures(voted)
    return replace(line, spearman=agreement.spearman(mine), kendall=agreement.kendall(mine))


def _known(values: Array) -> list[float | None]:
    return [None if np.isnan(value) else float(value) for value in values]


class _Agreement:
    """Rank correlations with one table's ratings, all in the same resamples of items."""

    def __init__(self, table: AnswerTable, resamples: int, seed: int) -> None:
        drawn = ItemResamples(table, resamples, seed)
        self._ratings = table.ratings
        self._counts = image_counts(drawn.counts, table.item_of_image)
        self._ranks = RankCorrelation(self._ratings, self._counts)

    def spearman(self, scores: Array) -> Estimate:
        """Return Spearman's rank correlation."""
        n = int((~np.isnan(scores) & ~np.isnan(self._ratings)).sum())
        if n < 3:
            return _too_few(n)
        return _estimate(self._ranks.value(scores), self._ranks.drawn(scores), n)

    def kendall(self, scores: Array) -> Estimate:
        """Return Kendall's tau-b."""
        there = ~np.isnan(scores) & ~np.isnan(self._ratings)
        n = int(there.sum())
        if n < 3:
            return _too_few(n)
        value = kendall(scores[there], self._ratings[there])
        drawn = np.zeros(0)
        if n <= _MOST_PAIRED:
            drawn = kendall_of_counts(scores[there], self._ratings[there], self._counts[:, there])
        return _estimate(value, drawn, n)


def kendall_of_counts(first: Array, second: Array, counts: Array) -> Array:
    """Return Kendall's tau-b of ``first`` and ``second`` (n,) in each resample, (resamples,).

    Each of the n stands ``counts`` (resamples, n) times in a resample. NaN where one of the two is
    constant.
    """
    a, b = (np.round(values, DECIMALS) for values in (first, second))
    up, along = (np.sign(v[:, None] - v[None, :]) for v in (a, b))

    def pairs(signs: Array) -> Array:
        found: Array = ((counts @ signs) * counts).sum(1)
        return found

    with np.errstate(all="ignore"):
        both = pairs(np.abs(up)) * pairs(np.abs(along))
        result: Array = np.where(both > 0.0, pairs(up * along) / np.sqrt(both), np.nan)
    return result


def _estimate(value: float, drawn: Array, n: int) -> Estimate:
    found = summary(value, drawn, n)
    if found.value is None:
        return nothing("all scores, or all ratings, are alike")
    return Estimate(value=found.value, low=found.low, high=found.high, n=n)


def _too_few(n: int) -> Estimate:
    return nothing(f"{n} pictures have both a score and a rating: three are needed")


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

    def table(
        id: str,
        title: str,
        names: Iterable[str],
        figures: Callable[[MetricRow], Iterable[Estimate | None]],
        lines: Iterable[MetricRow] = matrix.lines,
    ) -> Layout:
        return Layout(
            id=id,
            title=title,
            head="Metric · voter",
            columns=columns_of({name: name for name in names}, _DIGITS),
            rows=tuple(
                Row.measured(f"{e.metric}|{e.voter}", f"{e.metric} · {said(e)}", figures(e))
                for e in lines
            ),
            of_paper=False,
        )

    title = "Mean over items, with its 95 % interval"
    found = [table("scores", title, matrix.arms, lambda one: one.means.values())]
    if len(matrix.arms) > 1:
        title = f"How much more than {matrix.arms[0]}, paired by item"
        found.append(
            table("differences", title, matrix.arms[1:], lambda one: one.differences.values())
        )
    if matrix.rated:
        title = f"Rank correlation with the ratings of {matrix.rated} pictures"
        alone = [one for one in matrix.lines if not one.of_set]
        both = ("Spearman", "Kendall")
        found.append(
            table("agreement", title, both, lambda one: (one.spearman, one.kendall), alone)
        )
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
    rated = [line for line in matrix.lines if line.spearman and line.spearman.value is not None]
    if rated:
        best = max(rated, key=lambda one: _value(one.spearman))
        assert best.spearman is not None
        found.append(
            f"The highest Spearman correlation with people is that of {best.metric} by "
            f"{said(best)}, {best.spearman.text(_DIGITS)}, over {best.spearman.n} pictures; of "
            f"{len(rated)} that were compared, the highest is biased upwards by that choice."
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


def draw(matrix: PeerMatrix) -> Figure:
    """Draw one plot a metric: its voters from top to bottom, a mark an arm, with intervals."""
    return _draw(matrix.lines, lambda line: dict(line.means), "mean over items")


def draw_agreement(matrix: PeerMatrix) -> Figure:
    """Draw the correlations with people in the same way."""

    def point(line: MetricRow) -> dict[str, Estimate]:
        both = {"Spearman": line.spearman, "Kendall": line.kendall}
        return {name: one for name, one in both.items() if one is not None}

    lines = [one for one in matrix.lines if not one.of_set]
    return _draw(lines, point, "correlation with people", (-1.0, 1.0))


def _draw(lines: Sequence[MetricRow], point: Any, label: str, limits: Any = None) -> Figure:
    metrics = list(dict.fromkeys(line.metric for line in lines))
    across = min(_BESIDE, max(1, len(metrics)))
    down = max(1, -(-len(metrics) // across))
    most = max((sum(one.metric == m for one in lines) for m in metrics), default=1)
    made, axes = plots.figure(down, across, (4.6 * across, down * (1.3 + 0.26 * most) + 0.4))
    places = [axis for row in axes for axis in row]
    for axis, metric in zip(places, metrics, strict=False):
        _dots(axis, metric, [one for one in lines if one.metric == metric], point)
        # Rows of one height in every plot.
        axis.set_ylim(most - 0.5, -0.5)
        axis.set_xlabel(label)
        if limits is not None:
            axis.set_xlim(*limits)
            axis.axvline(0.0, color="#888888", linewidth=0.8)
    for axis in places[len(metrics) :]:
        axis.set_visible(False)
    plots.legend(made, places[0], columns=3)
    return made


def _dots(axis: Axes, metric: str, lines: Sequence[MetricRow], point: Any) -> None:
    names = list(dict.fromkeys(name for line in lines for name in point(line)))
    for at, name in enumerate(names):
        shift = (at - (len(names) - 1) / 2) * 0.22
        rows = [
            (row + shift, point(line)[name])
            for row, line in enumerate(lines)
            if name in point(line) and point(line)[name].value is not None
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
        pictures[f"{STEM}-agreement"] = (draw_agreement(matrix), "Agreement with people")
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
    with drafted(folder, STEM) as draft:
        pq.write_table(pa.Table.from_pylist(matrix.records(), schema=_SCHEMA), draft)
    return Written(page, (page, sheet, folder / f"{STEM}.parquet", *files))


_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("metric", "voter", "figure", "arm", "base")),
        *((name, pa.float64()) for name in ("value", "low", "high", "sd")),
        *((name, pa.int64()) for name in ("n", "seeds")),
        ("reason", pa.string()),
    ]
)


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


def _value(estimate: Estimate | None) -> float:
    return float("-inf") if estimate is None or estimate.value is None else estimate.value


DSG: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.463, "instructblip": 0.442, "pali17b": 0.571},
    "kendall": {"mplug": 0.380, "instructblip": 0.364, "pali17b": 0.458},
}
"""Statistic → judge → correlation with the mean rating."""
TIFA: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.352, "instructblip": 0.460, "pali17b": 0.431},
    "kendall": {"mplug": 0.259, "instructblip": 0.360, "pali17b": 0.323},
}
VQ2A: Mapping[str, Mapping[str, float]] = {
    "spearman": {"mplug": 0.212, "instructblip": 0.426, "pali17b": 0.207},
    "kendall": {"mplug": 0.164, "instructblip": 0.352, "pali17b": 0.157},
}
PUBLISHED: Mapping[Questions, Mapping[str, Mapping[str, float]]] = {
    "tifa": TIFA,
    "dsg": DSG,
    "vq2a": VQ2A,
}
"""Whose questions → statistic → judge → correlation, to three decimals (Cho et al., 2024,
item-level correlation on TIFA160; the release's page shows what its script prints)."""
UNASKED = 0.0
"""Score of an image without questions."""


def published_scores(table: AnswerTable, judge: int) -> Array:
    """Score of each image by one judge alone as in the published evaluation, (n_images,).

    The mean over its facts of *answered as expected, and so was every parent*. Parents count by
    what was answered, even where they were set to 0 themselves; an unscored answer counts as wrong;
    an image without facts scores ``UNASKED``. The metrics of this package do otherwise on all
    three counts; this is for comparison with what is published.
    """
    right = np.nan_to_num(table.said[:, judge]) > 0.5
    kept = right.copy()
    for row, fact in enumerate(table.facts):
        kept[row] &= all(right[parent] for parent in fact.parents)
    found = table.image_means(kept.astype(float))
    return np.where(np.isnan(found), UNASKED, found)
