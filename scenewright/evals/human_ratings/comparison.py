"""Ratings of people compared with an evaluation's metrics and panels (Scene-Bench, Fig. 9)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.human_ratings.table import Unit, Units
from scenewright.evals.reporting.measured import Cell
from scenewright.evals.statistics.agreement import chance_corrected, cohen
from scenewright.evals.statistics.figures import Array, Bootstrap, Pictured
from scenewright.evals.store.results import Results


@dataclass(frozen=True, slots=True)
class Machine:
    """Scores and verdicts of the pictures of an evaluation."""

    metrics: Mapping[str, Mapping[Pictured, float]]
    """Metric → (item, arm) → value. A part is ``metric.part``; a panel stands in brackets where
    there are several. Metrics of which less is better are negated."""
    panels: Mapping[str, Mapping[Unit, float]]
    """Panel → (item, arm, fact) → 1 if it holds, 0 if not; void counts as not."""
    lower: frozenset[str]
    """Names of the metrics that are negated."""


def machine_of(results: Results, lower: Collection[str] = ()) -> Machine:
    """Return the scores and verdicts of single pictures in an evaluation.

    Only the kept picture of an arm counts, not earlier rounds; scores of sets and unscored ones are
    left out. ``lower``: metrics for which lower is better, in addition to those that the manifest
    names. Raises ``EvalError`` for tables that cannot be read.
    """
    told = results.manifest.get("models", {}).get("metrics", {})
    lower = {*lower, *(name for name, about in told.items() if not about["higher_is_better"])}
    kept = results.kept_pictures()
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
    """Return whether the row is about the kept picture of its arm."""
    image = kept.get((row["item"], row["arm"]))
    return image is not None and row["image"] in (None, "", image)


_TIE = 1e-9


def confusion(
    metric: str,
    values: Mapping[Pictured, float],
    people: Mapping[Pictured, float],
    units: Units,
    boot: Bootstrap,
) -> tuple[dict[str, Cell], Array]:
    """Compare the choices by a ``metric``'s values with ``people``'s shares of choices.

    People's choice is the arm that most raters chose; the machine's is the arm with the highest
    value. The row has the share of items on which both choose the same arm, that share ``by
    chance`` if both chose alike often but without looking (κ's expected agreement), Cohen's κ, and
    counts of items: compared, tied on either side, and left out for want of a value. The table
    (people's arm, the machine's arm) counts items; one whose side is tied is split evenly.
    """
    arms = units.arms
    rows: list[int] = []
    human: list[Array] = []
    machine: list[Array] = []
    left_out = 0
    for number, item in enumerate(units.names):
        shown = [arm for arm in arms if (item, arm) in people]
        if any((item, arm) not in values for arm in shown):
            left_out += 1
            continue
        rows.append(number)
        human.append(_highest([people.get((item, arm)) for arm in arms]))
        machine.append(_highest([values[item, arm] if arm in shown else None for arm in arms]))
    first, second = np.array(human).reshape(-1, len(arms)), np.array(machine).reshape(-1, len(arms))
    at: NDArray[np.intp] = np.array(rows, np.intp)
    k = len(arms)
    alike = (first * second).sum(1)

    def statistic(sums: Array) -> Array:
        n, expected = sums[:, 0], (sums[:, 2 : 2 + k] * sums[:, 2 + k :]).sum(1)
        return chance_corrected(n, sums[:, 1], expected / n)

    return {
        "metric": metric,
        "same": boot.share(at, alike),
        "chance": float((first.mean(0) * second.mean(0)).sum()) if rows else None,
        "kappa": boot.figure(at, [np.ones(len(at)), alike, *first.T, *second.T], statistic),
        "items": len(rows),
        "human_ties": _ties(first),
        "machine_ties": _ties(second),
        "left_out": left_out,
    }, first.T @ second


def _highest(values: Sequence[float | None]) -> Array:
    """Return 1 spread evenly over the arms with the highest value."""
    array = np.array([-np.inf if value is None else value for value in values])
    best: Array = (array >= array.max() - _TIE).astype(np.float64)
    spread: Array = best / best.sum()
    return spread


def _ties(choices: Array) -> int:
    return int((choices.max(1) < 1.0).sum()) if len(choices) else 0


def panel_agreement(
    panel: str, verdicts: Mapping[Unit, float], units: Units, boot: Bootstrap
) -> dict[str, Cell]:
    """Compare the ``verdicts`` (1 or 0 a fact) of a ``panel`` with the majority of the raters.

    The row has the share of facts with the same answer, Cohen's κ, and the panel's sensitivity and
    specificity; tied facts and those without a verdict are left out and counted.
    """
    there = ~np.isnan(units.values)
    votes = there.sum(1)
    yes = np.nansum(units.values, axis=1)
    tied = (2 * yes == votes) & (votes > 0)
    said = np.array([verdicts.get(key, np.nan) for key in units.keys])
    silent = np.isnan(said) & (votes > 0) & ~tied
    usable = (votes > 0) & ~tied & ~silent
    at, machine = units.items[usable], said[usable]
    human = (2 * yes[usable] > votes[usable]).astype(np.float64)
    same = boot.share(at, machine == human)
    found: dict[str, Cell] = {
        "panel": panel,
        "facts": same.n,
        "same": same,
        "kappa": cohen(boot, at, human, machine),
    }
    for name, side in (("sensitivity", 1.0), ("specificity", 0.0)):
        these = human == side
        found[name] = boot.share(at[these], machine[these] == side)
    return found | {"ties": int(tied.sum()), "unscored": int(silent.sum())}
