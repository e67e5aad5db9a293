"""The figures of the loop's benchmark from its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks._estimates import (
    MEASURES,
    Accuracy,
    Figure,
    Measure,
    can_correct,
    estimate,
    stacked,
)
from benchmarks._miniature_scenes import LEVELS
from benchmarks._report import interval
from benchmarks._strategies import READINGS, SceneRow
from scenewright.core.facts import FactKind

GAINS: dict[str, tuple[str, str]] = {
    "composition": ("composition", "triplets"),
    "feedback": ("feedback_3", "composition"),
    "feedback_vs_best_of_n": ("feedback_3", "best_of_n"),
    "whole_vs_best_of_n": ("whole_3", "best_of_n"),
    "feedback_vs_whole": ("feedback_3", "whole_3"),
    "feedback_vs_lambda1_0": ("feedback_3", "lambda1_0"),
    "feedback_vs_lambda1_0_n": ("feedback_3", "lambda1_0_n"),
}
"""Name of a difference → (strategy, strategy it is compared with)."""


def figures_of(
    rows: Sequence[SceneRow], accuracy: Mapping[FactKind, Accuracy] | None = None
) -> dict[str, Any]:
    """All figures, flat. Judged by report judges unless the key says ``loop``.

    ``[corrected.][LEVEL.]MEASURE.STRATEGY`` are means over scenes,
    ``[corrected.][LEVEL.]gain.[MEASURE_]DIFFERENCE`` paired differences (SGScore where no
    measure is named), ``images.STRATEGY`` images drawn, ``loop.sgscore.STRATEGY`` what the
    judges say that chose the image. Corrected figures are left out where ``accuracy`` does not
    carry them. Raises ``ValueError`` without rows.
    """
    if not rows:
        raise ValueError("no scenes: nothing was measured")
    figures = _of_part(rows, "", accuracy)
    for level in LEVELS:
        some = [row for row in rows if row.level == level]
        if some:
            figures |= _of_part(some, f"{level}.", accuracy)
    for name in READINGS:
        figures[f"images.{name}"] = interval([row.kept[name].images for row in rows])
        shares, known = stacked([row.kept[name].loop for row in rows], "sgscore")
        if known.any():
            figures[f"loop.sgscore.{name}"] = estimate(shares[known])
    return figures


def _of_part(
    rows: Sequence[SceneRow], prefix: str, accuracy: Mapping[FactKind, Accuracy] | None
) -> dict[str, Any]:
    plain: dict[str, Figure] = {}
    mended: dict[str, Figure] = {}
    for measure in MEASURES:
        tables = {
            name: stacked([row.kept[name].report for row in rows], measure) for name in READINGS
        }
        usable = accuracy is not None and all(
            can_correct(shares[known], accuracy) for shares, known in tables.values()
        )
        for name, (shares, known) in tables.items():
            if not known.any():
                continue
            key = f"{prefix}{measure}.{name}"
            plain[key] = estimate(shares[known])
            if usable:
                mended[f"corrected.{key}"] = estimate(shares[known], accuracy)
        for name, (ours, theirs) in GAINS.items():
            (a, known_a), (b, known_b) = tables[ours], tables[theirs]
            both = known_a & known_b
            if not both.any():
                continue
            key = f"{prefix}gain.{_gain_prefix(measure)}{name}"
            plain[key] = estimate((a - b)[both], bounded=False)
            if usable:
                mended[f"corrected.{key}"] = estimate((a - b)[both], accuracy, bounded=False)
    return plain | mended


def _gain_prefix(measure: Measure) -> str:
    return "" if measure == "sgscore" else f"{measure}_"
