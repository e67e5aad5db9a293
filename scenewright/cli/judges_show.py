"""How reports of judges look on a terminal, and the progress of asking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from scenewright.cli.tables import plain_table
from scenewright.runs.report.words import duration

if TYPE_CHECKING:
    from scenewright.agents.panel.calibration import Calibration
    from scenewright.agents.panel.guarantee import CascadeGuarantee
    from scenewright.evals.judge_reports.judge_card import JudgeReport
    from scenewright.evals.statistics.figures import Figure

_LINES = 10
"""Lines of progress a judge gets where there is no terminal."""


@contextmanager
def asking(
    where: Console, totals: Mapping[str, int], quiet: bool
) -> Iterator[Callable[[str, int], None]]:
    """Shows how far each judge is and how long it takes yet; yields what is to be told.

    ``totals``: judge → questions. On a terminal one bar a judge, elsewhere a line now and then.
    """
    if quiet:
        yield lambda judge, n: None
        return
    if not where.is_terminal:
        yield _lines(where, totals)
        return
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
        TimeRemainingColumn(), console=where,
    )  # fmt: skip
    with bars:
        # A judge that has to wait for its turn must not look slow.
        tasks = {name: bars.add_task(name, start=False, total=n) for name, n in totals.items()}

        def heard(judge: str, n: int) -> None:
            bars.start_task(tasks[judge])
            bars.advance(tasks[judge], n)

        yield heard


def _lines(where: Console, totals: Mapping[str, int]) -> Callable[[str, int], None]:
    done = dict.fromkeys(totals, 0)
    begun: dict[str, tuple[float, int]] = {}

    def heard(judge: str, n: int) -> None:
        before, total = done[judge], totals[judge]
        done[judge] += n
        now = time.monotonic()
        start, first = begun.setdefault(judge, (now, n))
        if before * _LINES // total == done[judge] * _LINES // total:
            return
        left = ""
        if first < done[judge] < total:
            pace = (now - start) / (done[judge] - first)
            left = f", about {duration(pace * (total - done[judge]))} left"
        where.print(Text(f"{judge}: {done[judge]} of {total} questions{left}"), soft_wrap=True)

    return heard


def print_report(report: JudgeReport, where: Console) -> None:
    """The tables of a report; the interval stands below its figure."""
    from scenewright.evals.judge_reports.card_sections import sections, summary

    where.print(Text(summary(report)), soft_wrap=True)
    where.print(Text("Below a figure: its 95 % interval, by bootstrap over pictures.", "dim"))
    for section in sections(report):
        where.print()
        where.print(Text(section.title, "bold"))
        if section.remark:
            where.print(Text(section.remark, "dim"))
        table = plain_table(*section.heads)
        for column in table.columns[1:]:
            # Reasons may be long; figures never are.
            column.no_wrap = len(section.heads) > 2
        for row in section.rows:
            table.add_row(*(Text(cell) if isinstance(cell, str) else _figure(cell) for cell in row))
        where.print(table)


def _figure(figure: Figure) -> Text:
    if figure.value is None:
        return Text("–", "dim")
    text = Text(f"{figure.value:.3f}")
    if figure.low is not None and figure.high is not None:
        text.append(f"\n{figure.low:.2f}–{figure.high:.2f}", "dim")
    return text


def print_calibration(calibration: Calibration, where: Console) -> None:
    """Rates of judges and panels by kind of fact."""
    table = plain_table(
        "judge", "facts", "true", "false", "sensitivity", "specificity", "T", "Brier", "ECE"
    )
    for judge in calibration.judges:
        for kind, rates in judge.kinds.items():
            table.add_row(
                judge.judge_id,
                kind,
                str(rates.n_true),
                str(rates.n_false),
                f"{rates.sensitivity:.3f}",
                f"{rates.specificity:.3f}",
                f"{rates.temperature:.2f}",
                _change(rates.brier, rates.brier_scaled),
                _change(rates.ece, rates.ece_scaled),
            )
    for panel in calibration.panels:
        for kind, found in panel.kinds.items():
            table.add_row(
                f"{' + '.join(panel.judges)} ({panel.aggregation})",
                kind,
                str(found.n_true),
                str(found.n_false),
                f"{found.sensitivity:.3f}",
                f"{found.specificity:.3f}",
            )
    where.print(table)
    where.print(
        Text("T: the temperature; Brier and ECE without it, then with it.", "dim"), soft_wrap=True
    )
    for cascade in calibration.cascades:
        _print_cascade(cascade, where)


def _print_cascade(cascade: CascadeGuarantee, where: Console) -> None:
    """The bounds of a cascade by side and kind."""
    where.print(
        Text(
            f"\n{' + '.join(cascade.first)} first: settles {cascade.coverage:.0%} of "
            f"{cascade.facts} facts; wrong in at most {cascade.risk:g} of each row with "
            f"{cascade.confidence:.0%} confidence"
        ),
        soft_wrap=True,
    )
    table = plain_table("kinds", "accepted", "verdicts", "wrong", "at most", "surer than")
    for found in cascade.kinds:
        table.add_row(
            ", ".join(found.kinds),
            str(found.accepted),
            str(found.n),
            str(found.wrong),
            f"{found.at_most:.3f}" if found.accepted else "–",
            "never: too little could be shown" if found.level is None else f"{found.level:g}",
        )
    where.print(table)


def _change(before: float | None, after: float | None) -> str:
    if before is None or after is None:
        return "–"
    return f"{before:.3f}, {after:.3f}"
