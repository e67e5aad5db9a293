"""What an evaluation's metrics and panels say of the pictures that people rated."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scenewright.evals.human_ratings.units import Unit
from scenewright.evals.statistics.correlation import Pictured
from scenewright.evals.store.results import Results


@dataclass(frozen=True, slots=True)
class Machine:
    """Scores and verdicts of the pictures that arms gave."""

    metrics: Mapping[str, Mapping[Pictured, float]]
    """Metric → (item, arm) → value. A part is ``metric.part``; a panel stands in brackets where
    there are several. Metrics of which less is better are negated."""
    panels: Mapping[str, Mapping[Unit, float]]
    """Panel → (item, arm, fact) → 1 if it holds, 0 if not; void counts as not."""
    lower: frozenset[str]
    """Names of the metrics that are negated."""


def machine_of(results: Results, lower: Collection[str] = ()) -> Machine:
    """Values of single pictures in an evaluation.

    Only the picture that an arm gives counts, not earlier rounds; scores of sets and what could
    not be scored are left out. ``lower``: metrics of which less is better, besides those of which
    the manifest tells it. Raises ``EvalError`` for tables that cannot be read.
    """
    told = results.manifest.get("models", {}).get("metrics", {})
    lower = {*lower, *(name for name, about in told.items() if not about["higher_is_better"])}
    kept = {
        (row["item"], row["arm"]): row["image"]
        for row in results.rows("rounds", ["item", "arm", "kept", "image"])
        if row["kept"] and row["image"]
    }
    scores = [
        row
        for row in results.rows(
            "scores", ["item", "arm", "panel", "image", "metric", "part", "value"]
        )
        if row["item"] and row["value"] is not None and _given(row, kept)
    ]
    panels_of: dict[str, set[str]] = {}
    for row in scores:
        panels_of.setdefault(row["metric"], set()).add(row["panel"] or "")
    metrics: dict[str, dict[Pictured, float]] = {}
    negated = set()
    for row in scores:
        name = row["metric"] + (f".{row['part']}" if row["part"] else "")
        less = row["metric"] in lower or name in lower
        if len(panels_of[row["metric"]]) > 1:
            name += f" ({row['panel'] or 'no panel'})"
        if less:
            negated.add(name)
        value = -row["value"] if less else row["value"]
        metrics.setdefault(name, {})[row["item"], row["arm"]] = value
    panels: dict[str, dict[Unit, float]] = {}
    columns = ["item", "arm", "panel", "image", "fact", "state"]
    for row in results.rows("verdicts", columns):
        if row["state"] != "unscored" and _given(row, kept):
            unit = (row["item"], row["arm"], row["fact"])
            panels.setdefault(row["panel"] or "panel", {})[unit] = float(row["state"] == "yes")
    return Machine(metrics, panels, frozenset(negated))


def _given(row: Mapping[str, str], kept: Mapping[Pictured, str]) -> bool:
    """Whether the row is of the picture that the arm gives."""
    image = kept.get((row["item"], row["arm"]))
    return image is not None and row["image"] in (None, "", image)
