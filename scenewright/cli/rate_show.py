"""A rating report in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scenewright.cli.tables import plain_table
from scenewright.evals.human_ratings.plots import MEANS
from scenewright.evals.human_ratings.report import RatingReport
from scenewright.evals.human_ratings.report_page import figure_text as shown
from scenewright.evals.human_ratings.report_page import number_text


def print_rating_report(report: RatingReport, where: Console) -> None:
    """Print the tables of ``report``."""
    where.print(
        f"{len(report.raters)} raters, {report.items} items, {report.ratings} ratings "
        f"({report.kind}); in brackets 95 % intervals over items"
    )
    agreement = report.agreement
    rows = [
        ("Krippendorff's α" + (" (interval)" if report.kind == "score" else ""),
         shown(agreement.alpha)),
        ("Fleiss' κ", shown(agreement.fleiss)),
        ("mean of the pairs' κ" + (" (quadratic)" if report.kind == "score" else ""),
         number_text(agreement.mean_kappa)),
        ("pairs who said the same", shown(agreement.same)),
    ]  # fmt: skip
    _print(where, ("agreement", f"{report.shared} of {report.units} rated twice or more"), rows)
    _print(
        where,
        ("arm", MEANS[report.kind]),
        [(arm.arm, shown(arm.value)) for arm in report.arms],
    )
    _print(
        where,
        ("rater", "ratings", "median s", "κ with others", "rated twice", "same again"),
        [
            (
                card.rater,
                str(card.ratings),
                "–" if card.median_seconds is None else f"{card.median_seconds:.1f}",
                shown(card.with_others, 2),
                str(card.repeats),
                shown(card.same_again, 2),
            )
            for card in report.raters
        ],
    )
    _print(
        where,
        ("people and machine choose the same", "share", "by chance", "κ", "items"),
        [
            (
                c.metric,
                shown(c.same),
                number_text(c.chance),
                shown(c.kappa),
                str(c.items),
            )
            for c in report.confusions
        ],
    )
    _print(
        where,
        ("panel against people", "same", "κ", "sensitivity", "specificity", "facts"),
        [
            (p.panel, shown(p.same), shown(p.kappa), shown(p.sensitivity), shown(p.specificity),
             str(p.same.n))
            for p in report.panels
        ],
    )  # fmt: skip
    _print(
        where,
        ("metric and people", "Spearman", "Kendall τ-b", "τ-b within items", "τ-b of arms", "n"),
        [
            (c.metric, shown(c.spearman), shown(c.kendall), shown(c.within),
             shown(c.arms_kendall, 2), str(c.spearman.n))
            for c in report.correlations
        ],
    )  # fmt: skip


def _print(where: Console, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> None:
    if not rows:
        return
    table: Table = plain_table(*heads)
    for row in rows:
        table.add_row(*map(Text, row))
    where.print()
    where.print(table)
