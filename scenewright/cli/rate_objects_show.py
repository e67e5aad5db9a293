"""A report on objects in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from scenewright.cli.tables import plain_table
from scenewright.evals.human_ratings.objects.analysis import Group
from scenewright.evals.human_ratings.objects.report import ObjectReport
from scenewright.evals.human_ratings.report_page import figure_text as shown
from scenewright.evals.human_ratings.study import ASPECTS


def print_object_report(report: ObjectReport, where: Console) -> None:
    """Print the tables of ``report``."""
    counts = report.counts
    where.print(
        f"{len(report.raters)} raters, {counts.objects} objects: {counts.finished} finished, "
        f"{counts.once} begun, {counts.waiting} waiting for a re-evaluation, {counts.excluded} "
        f"taken out, {counts.untouched} untouched; in brackets 95 % intervals over pictures",
        soft_wrap=True,
    )
    rows = [
        (aspect, shown(a.kappa), f"{report.paper[f'kappa_{aspect}']:.2f}", shown(a.weighted),
         shown(a.same), str(a.kappa.n))
        for aspect, a in report.agreement.items()
    ]  # fmt: skip
    heads = ("agreement", "Cohen's κ", "paper", "quadratic κ", "same score", "pairs")
    _print(where, heads, rows)
    _print(
        where,
        ("over objects", "here", "paper"),
        [
            ("rate of re-evaluation", shown(report.reevaluation),
             f"{report.paper['reevaluation']:.2f}"),
            ("Spearman, shape and texture", shown(report.shape_and_texture),
             f"{report.paper['shape_and_texture']:.2f}"),
            ("two or more apart", shown(report.overall.high),
             f"{report.paper['high_discrepancy']:.2f}"),
        ],
    )  # fmt: skip
    _print(
        where,
        ("rater", "objects", "out", "median s",
         *(f"{what} {a}" for what in ("bias", "κ") for a in ASPECTS)),
        [
            (r.rater, str(r.objects), str(r.taken_out),
             "–" if r.median_seconds is None else f"{r.median_seconds:.1f}",
             *(shown(r.bias[a], 2) for a in ASPECTS),
             *(shown(r.agreement[a], 2) for a in ASPECTS))
            for r in report.raters
        ],
    )  # fmt: skip
    _groups(where, "source", (*report.sources, report.overall))
    _groups(where, "category", report.categories)


def _groups(where: Console, head: str, groups: Sequence[Group]) -> None:
    _print(
        where,
        (head, "shape", "texture", "OcR", "2 or more apart", "objects"),
        [
            (g.name, *(shown(g.mean[a], 2) for a in g.mean), shown(g.ocr, 2), shown(g.high, 2),
             str(g.ocr.n))
            for g in groups
        ],
    )  # fmt: skip


def _print(where: Console, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    table = plain_table(*heads)
    for row in rows:
        table.add_row(*map(Text, row))
    where.print()
    where.print(table)
