"""The table metric × judge × aggregator as Markdown, CSV, parquet and plots."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from scenewright.evals.errors import EvalError
from scenewright.evals.statistics.estimates import Estimate, number
from scenewright.evals.store.parquet_files import drafted
from scenewright.evals.studies import plots, prompts_read
from scenewright.evals.studies.layout import Cell, Column, Layout, Row, as_csv
from scenewright.evals.studies.peers.matrix import MetricRow, PeerMatrix
from scenewright.evals.studies.peers.panel_metric import AGGREGATOR, JUDGE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

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
    """The tables: scores by arm, differences from the first arm, agreement with people, and what of
    the prompts was not read."""

    def rows(cells: Sequence[tuple[MetricRow, tuple[Estimate | None, ...]]]) -> tuple[Row, ...]:
        return tuple(
            Row(
                key=f"{line.metric}|{line.voter}",
                title=f"{line.metric} · {said(line)}",
                cells=tuple(Cell(measured=one) for one in estimates),
            )
            for line, estimates in cells
        )

    def columns(names: Iterable[str]) -> tuple[Column, ...]:
        return tuple(Column(key=name, title=name, digits=_DIGITS) for name in names)

    lines, head = matrix.lines, "Metric · voter"
    found = [
        Layout(
            id="scores",
            title="Mean over items, with its 95 % interval",
            head=head,
            columns=columns(matrix.arms),
            rows=rows([(one, tuple(one.means.values())) for one in lines]),
            of_paper=False,
        )
    ]
    if len(matrix.arms) > 1:
        found.append(
            Layout(
                id="differences",
                title=f"How much more than {matrix.arms[0]}, paired by item",
                head=head,
                columns=columns(matrix.arms[1:]),
                rows=rows([(one, tuple(one.differences.values())) for one in lines]),
                of_paper=False,
            )
        )
    if matrix.rated:
        found.append(
            Layout(
                id="agreement",
                title=f"Rank correlation with the ratings of {matrix.rated} pictures",
                head=head,
                columns=columns(("Spearman", "Kendall")),
                rows=rows([(one, (one.spearman, one.kendall)) for one in lines if not one.of_set]),
                of_paper=False,
            )
        )
    read = prompts_read.layout(matrix.prompts, "Arm")
    return (*found, *(() if read is None else (read,)))


def findings(matrix: PeerMatrix) -> tuple[str, ...]:
    """What the intervals say, metric by metric: never more; self-reports first."""
    found = list(matrix.self_reports)
    for metric in dict.fromkeys(line.metric for line in matrix.lines):
        lines = [line for line in matrix.lines if line.metric == metric and not line.of_set]
        for arm in matrix.arms[1:] if lines else ():
            found.append(
                _told(metric, arm, matrix.arms[0], [one.differences[arm] for one in lines])
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


def _told(metric: str, arm: str, base: str, gaps: Sequence[Estimate]) -> str:
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
    """A voter in words."""
    for start, words in ((JUDGE, "judge "), (AGGREGATOR, "all judges, ")):
        if line.voter.startswith(start):
            return words + line.voter.removeprefix(start)
    return line.voter.replace(":", " ", 1) or _ALONE


def draw(matrix: PeerMatrix) -> Figure:
    """One plot a metric: its voters from top to bottom, a mark an arm, with intervals."""

    def point(line: MetricRow) -> dict[str, Estimate]:
        return dict(line.means)

    return _draw(matrix, [one for one in matrix.lines], point, "mean over items", None)


def draw_agreement(matrix: PeerMatrix) -> Figure:
    """The same for the correlations with people."""

    def point(line: MetricRow) -> dict[str, Estimate]:
        both = {"Spearman": line.spearman, "Kendall": line.kendall}
        return {name: one for name, one in both.items() if one is not None}

    lines = [one for one in matrix.lines if not one.of_set]
    return _draw(matrix, lines, point, "correlation with people", (-1.0, 1.0))


def _draw(
    matrix: PeerMatrix, lines: Sequence[MetricRow], point: Any, label: str, limits: Any
) -> Figure:
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
    found: Figure = made
    return found


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
    """Write ``peers.md``, ``.csv``, ``.parquet`` and ``.svg`` into ``folder``, and
    ``peers-agreement.svg`` where there are ratings. Raises ``EvalError`` if that fails."""
    from scenewright.core.flushing import write_text

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
        "evaluation; what has none stands alone, and of one judge all aggregators are the same. "
        "Unscored pictures are left out of their voter's mean.",
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
