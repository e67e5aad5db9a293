"""Tables of a report or a comparison as CSV files, for spreadsheets and papers."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from scenewright.evals.reporting.comparison import Comparison, Difference
from scenewright.evals.reporting.facets import FACETS, in_order
from scenewright.evals.reporting.grids import Grids
from scenewright.evals.reporting.score_matrix import ScoreMatrix
from scenewright.evals.reporting.tally import Tally

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_tables(
    folder: Path,
    score_matrix: ScoreMatrix,
    grids: Grids,
    comparison: Comparison | None,
    tally: Tally,
) -> None:
    """Write ``scores.csv``, ``differences.csv`` and ``reasons.csv`` into a new ``folder``."""
    folder.mkdir()
    _write(
        folder / "scores.csv",
        ("arm", "metric", "part", "panel", "scope", "mean", "low", "high", "n"),
        _scores(score_matrix, grids),
    )
    if comparison is not None:
        write_differences(folder / "differences.csv", comparison)
    _write(
        folder / "reasons.csv",
        ("what", "arm", "score", "reason", "n"),
        _reasons(score_matrix, tally),
    )


def write_differences(file: Path, comparison: Comparison) -> None:
    """Write the differences of a comparison, one a line."""
    heads = (
        "before", "after", "metric", "part", "panel", "scope", "n", "score_before", "score_after",
        "difference", "low", "high", "dz", "p", "p_holm", "p_bh", "significant", "left_out",
        "seeds",
    )  # fmt: skip
    _write(file, heads, map(_difference, comparison.differences))


def _difference(d: Difference) -> Sequence[Any]:
    r = d.result
    return (
        d.before, d.after, d.metric, d.part, d.panel, d.scope, r.n, d.score_before, d.score_after,
        r.mean, r.low, r.high, r.dz, r.p, d.p_holm, d.p_bh, "yes" if d.significant else "no",
        "; ".join(f"{why}: {n}" for why, n in d.left_out.items()), d.seeds,
    )  # fmt: skip


def _scores(score_matrix: ScoreMatrix, grids: Grids) -> Iterable[Sequence[Any]]:
    for column in score_matrix.values:
        scopes: list[tuple[str, Any]] = [("", None)]
        for facet in FACETS:
            of = score_matrix.facets[facet]
            scopes += [(f"{facet}={name}", of == name) for name in in_order(facet, of)]
        for scope, mask in scopes:
            for way, f in zip(score_matrix.ways, grids.figures(column, mask), strict=True):
                yield (way, *column, scope, f.value, f.low, f.high, f.n)
    for s in score_matrix.sets:
        yield (s.arm, s.metric, s.part, "", s.scope, s.value, None, None, s.n)


def _reasons(score_matrix: ScoreMatrix, tally: Tally) -> Iterable[Sequence[Any]]:
    for (arm, why), n in score_matrix.failures.items():
        yield ("picture failed", arm, "", why, n)
    for arm, drawing in tally.drawings.items():
        for what, n in (("token", drawing.tokens_dropped), ("fact", drawing.facts_dropped)):
            if n:
                yield (
                    f"{what} of a prompt that was not read",
                    arm,
                    "",
                    "the prompt is too long",
                    n,
                )
    for (arm, panel, why), n in tally.reasons.items():
        yield ("fact without a verdict", arm, panel, why, n)
    for (column, arm, why), n in score_matrix.reasons.items():
        yield ("picture without a score", arm, " ".join(filter(None, column)), why, n)
    for (column, arm, why), n in score_matrix.partly.items():
        yield ("score of a part only", arm, " ".join(filter(None, column)), why, n)
    for s in score_matrix.sets:
        if s.unscored and not s.part:
            yield ("score of a part only", s.arm, f"{s.metric} {s.scope}".strip(), s.reason, 1)
    for (panel, judge), found in tally.judges.items():
        for why, n in found.reasons.items():
            yield ("answer not usable", judge, panel, why, n)


def _write(file: Path, heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    with open(file, "w", newline="", encoding="utf-8", errors="replace") as opened:
        writer = csv.writer(opened)
        writer.writerow(heads)
        writer.writerows([_safe(value) for value in row] for row in rows)


def _safe(value: Any) -> Any:
    """Text that a spreadsheet would run as a formula is quoted."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
