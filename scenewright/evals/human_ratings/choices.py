"""What people chose beside what a metric would choose (Scene-Bench, Fig. 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.evals.human_ratings.units import Units
from scenewright.evals.statistics.correlation import Pictured
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

_TIE = 1e-9


class Confusion(BaseModel):
    """A metric's choices against people's, item by item."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    metric: str
    """Name of the metric."""
    arms: tuple[str, ...]
    """Rows and columns."""
    table: tuple[tuple[float, ...], ...]
    """``table[human][machine]`` in items. An item whose side is tied is split evenly."""
    items: int = Field(ge=0)
    """Items in the table."""
    left_out: int = Field(ge=0)
    """Rated items for which the metric lacks a value of an arm."""
    human_ties: int = Field(ge=0)
    """Items of which as many raters chose one arm as another."""
    machine_ties: int = Field(ge=0)
    """Items of which two arms or more have the highest value."""
    same: Figure
    """Share of items on which both choose the same arm (the diagonal)."""
    chance: float | None
    """That share if both chose alike often, but without looking: κ's expected agreement."""
    kappa: Figure
    """Cohen's κ of the two."""


def confusion(
    metric: str,
    values: Mapping[Pictured, float],
    people: Mapping[Pictured, float],
    units: Units,
    boot: Bootstrap,
) -> Confusion:
    """The table of a ``metric``'s values against ``people``'s shares of choices.

    People's choice is the arm that most raters chose; the machine's is the arm with the
    highest value.
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
    same, kappa, chance = Figure(value=None), Figure(value=None), None
    if len(rows):
        k = len(arms)
        alike = (first * second).sum(1)
        same = boot.share(at, alike)

        def statistic(sums: Array) -> Array:
            n, agreed = sums[:, 0], sums[:, 1]
            expected = (sums[:, 2 : 2 + k] * sums[:, 2 + k :]).sum(1)
            certain = expected >= n * n * (1 - 1e-12)
            result: Array = (n * agreed - expected) / np.where(certain, np.nan, n * n - expected)
            return result

        kappa = boot.figure(at, [np.ones(len(at)), alike, *first.T, *second.T], statistic)
        chance = float((first.mean(0) * second.mean(0)).sum())
    return Confusion(
        metric=metric,
        arms=arms,
        table=tuple(tuple(float(v) for v in row) for row in first.T @ second),
        items=len(rows),
        left_out=left_out,
        human_ties=_ties(first),
        machine_ties=_ties(second),
        same=same,
        chance=chance,
        kappa=kappa,
    )


def _highest(values: Sequence[float | None]) -> Array:
    """One, spread evenly over the arms with the highest value."""
    array = np.array([-np.inf if value is None else value for value in values])
    best: Array = (array >= array.max() - _TIE).astype(np.float64)
    spread: Array = best / best.sum()
    return spread


def _ties(choices: Array) -> int:
    return int((choices.max(1) < 1.0).sum()) if len(choices) else 0
