"""Scorers of realism against people's ratings: MAE and 5-class accuracy, as Table 3a.

The columns are shape, texture, average and joint. *Average* is the mean of the figures of shape
and of texture: it is in all eight rows of the published table (0.136 and 0.123 → 0.130; 0.439 and
0.489 → 0.464), while the accuracy of an averaged score could not be. *Joint* compares the joint
score with the mean of both ratings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.agents.realism.accuracy import normalized_error, realism_class, same_class
from scenewright.agents.realism.base import HIGHEST, LOWEST, ObjectRealism, RealismError
from scenewright.evals.figures import Array, Bootstrap, Figure
from scenewright.evals.realism.data import RatedObject

Column = Literal["shape", "texture", "average", "joint"]
COLUMNS: tuple[Column, ...] = ("shape", "texture", "average", "joint")
"""In the order of Table 3a."""
_Measure = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class Agreement(BaseModel):
    """One column of one row."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mae: Figure
    """Mean absolute error of normalized scores, 0 to 1; less is better."""
    acc: Figure
    """Share of objects in the right one of five classes."""


class Evaluation(BaseModel):
    """One row of Table 3a."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    """Who scored."""
    columns: dict[Column, Agreement]
    """By :data:`COLUMNS`."""
    objects: int = Field(ge=0)
    """How many were to be scored."""
    unscored: int = Field(ge=0)
    """How many lack a shape or a texture score: they are in no mean."""


def evaluate(
    name: str,
    objects: Sequence[RatedObject],
    scores: Sequence[ObjectRealism],
    *,
    seed: int = 0,
) -> Evaluation:
    """How far ``scores`` are from the ratings of ``objects``, in their order.

    Intervals are of 95 %, over pictures. What a scorer did not tell is left out of that column and
    counted, never taken for 0. Raises ``RealismError`` without objects.
    """
    if not objects:
        raise RealismError("there are no objects to evaluate on: choose another part of the set")
    if len(objects) != len(scores):
        raise ValueError(f"{len(scores)} scores of {len(objects)} objects")
    numbers = {name: at for at, name in enumerate(dict.fromkeys(o.image for o in objects))}
    pictures = np.array([numbers[item.image] for item in objects])
    boots = Bootstrap(len(numbers), seed)
    said = {
        "shape": _values([score.shape for score in scores]),
        "texture": _values([score.texture for score in scores]),
        "joint": _values([score.joint for score in scores]),
    }
    wanted = {
        "shape": _values([item.shape for item in objects]),
        "texture": _values([item.texture for item in objects]),
        "joint": _values([item.joint for item in objects]),
    }

    def figure(measure: _Measure, column: Column) -> Figure:
        aspects = ("shape", "texture") if column == "average" else (column,)
        known = np.all([~np.isnan(said[aspect]) for aspect in aspects], axis=0)
        if not known.any():
            return Figure(value=None)
        total = sum(measure(said[a][known], wanted[a][known]) for a in aspects)
        return boots.share(pictures[known], cast(Array, total) / len(aspects))

    lost = np.isnan(said["shape"]) | np.isnan(said["texture"])
    return Evaluation(
        name=name,
        columns={
            column: Agreement(mae=figure(normalized_error, column), acc=figure(same_class, column))
            for column in COLUMNS
        },
        objects=len(objects),
        unscored=int(lost.sum()),
    )


def scores_of(rows: Sequence[Sequence[float]]) -> list[ObjectRealism]:
    """Rows of (shape, texture, joint) as scores."""
    return [ObjectRealism(float(row[0]), float(row[1]), float(row[2])) for row in rows]


def random_scores(count: int, seed: int = 0) -> list[ObjectRealism]:
    """The random row: every score drawn uniformly from 1 to 5."""
    rng = np.random.default_rng(seed)
    return scores_of(rng.uniform(LOWEST, HIGHEST, (count, 3)).tolist())


def expected_random(wanted: float) -> tuple[float, float]:
    """(MAE, ACC) that uniform scores have in the long run on one object rated ``wanted``.

    With u the normalized rating, E|U − u| = (u² + (1 − u)²) / 2. The classes 2, 3 and 4 are each a
    quarter of the scale wide, 1 and 5 an eighth.
    """
    share = (wanted - LOWEST) / (HIGHEST - LOWEST)
    at_the_end = float(realism_class(wanted)) in (LOWEST, HIGHEST)
    return (share**2 + (1 - share) ** 2) / 2, 0.125 if at_the_end else 0.25


def markdown(rows: Sequence[Evaluation]) -> str:
    """Table 3a in Markdown."""
    head = "| Method | " + " | ".join(f"{c.title()} MAE ↓ | {c.title()} ACC ↑" for c in COLUMNS)
    lines = [f"{head} | Unscored |", "|---|" + "---|" * (2 * len(COLUMNS) + 1)]
    for row in rows:
        cells = [
            text
            for column in COLUMNS
            for text in (row.columns[column].mae.text(), row.columns[column].acc.text())
        ]
        lines.append(f"| {row.name} | {' | '.join(cells)} | {row.unscored} of {row.objects} |")
    return "\n".join(lines) + "\n"


def figures(rows: Mapping[str, Evaluation]) -> dict[str, float | dict[str, float]]:
    """Flat figures ``{mae,acc}.COLUMN.KEY`` as benchmarks write them; unknown ones are left out."""
    found: dict[str, float | dict[str, float]] = {}
    for measure in ("mae", "acc"):
        for column in COLUMNS:
            for key, row in rows.items():
                figure: Figure = getattr(row.columns[column], measure)
                if figure.value is None:
                    continue
                found[f"{measure}.{column}.{key}"] = (
                    figure.value
                    if figure.low is None or figure.high is None
                    else {"mean": figure.value, "low": figure.low, "high": figure.high}
                )
    return found


def _values(scores: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if score is None else score for score in scores], np.float64)
