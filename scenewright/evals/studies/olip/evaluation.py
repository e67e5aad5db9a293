"""Scorers of realism against people's ratings: MAE and 5-class accuracy, as Table 3a, and ranks.

The columns are shape, texture, average and joint. *Average* is the mean of the figures of shape
and of texture: it is in all eight rows of the published table (0.136 and 0.123 → 0.130; 0.439 and
0.489 → 0.464), while the accuracy of an averaged score could not be. *Joint* compares the joint
score with the mean of both ratings.

MAE and accuracy reward whoever says the middle of the scale, Spearman's rank correlation does not.
So it stands beside them, and below every table the rows that look at no picture: one score for all
(the training ratings' mean, or their median), the most frequent class, and random scores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field

from scenewright.core.ports.vision import HIGHEST, LOWEST, ObjectRealism, RealismError
from scenewright.evals.human_ratings.objects.data import RatedObject
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure
from scenewright.tools.vision.realism.vlm import normalized_error, realism_class, same_class

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
    spearman: Figure = Figure(value=None)
    """Rank correlation with the ratings, −1 to 1; none for a constant."""


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
    seen: int | None = Field(default=0, ge=0)
    """How many the scorer was trained on; None: that was not recorded."""


def evaluate(
    name: str,
    objects: Sequence[RatedObject],
    scores: Sequence[ObjectRealism],
    *,
    seed: int = 0,
    seen: int | None = 0,
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

    def agreement(column: Column) -> Agreement:
        aspects = ("shape", "texture") if column == "average" else (column,)
        known = np.all([~np.isnan(said[aspect]) for aspect in aspects], axis=0)
        if not known.any():
            return Agreement(mae=Figure(value=None), acc=Figure(value=None))
        pairs = [(said[aspect][known], wanted[aspect][known]) for aspect in aspects]

        def mean(measure: _Measure) -> Figure:
            total = sum(measure(*pair) for pair in pairs)
            return boots.share(pictures[known], cast(Array, total) / len(aspects))

        return Agreement(
            mae=mean(normalized_error),
            acc=mean(same_class),
            spearman=boots.spearman(pictures[known], *pairs),
        )

    lost = np.isnan(said["shape"]) | np.isnan(said["texture"])
    return Evaluation(
        name=name,
        columns={column: agreement(column) for column in COLUMNS},
        objects=len(objects),
        unscored=int(lost.sum()),
        seen=seen,
    )


def scores_of(rows: Sequence[Sequence[float]]) -> list[ObjectRealism]:
    """Rows of (shape, texture, joint) as scores."""
    return [ObjectRealism(float(row[0]), float(row[1]), float(row[2])) for row in rows]


def random_scores(count: int, seed: int = 0) -> list[ObjectRealism]:
    """The random row: every score drawn uniformly from 1 to 5."""
    rng = np.random.default_rng(seed)
    return scores_of(rng.uniform(LOWEST, HIGHEST, (count, 3)).tolist())


FLOORS: Mapping[str, str] = {
    "constant_mean": "Constant (mean)",
    "constant_median": "Constant (median)",
    "majority": "Majority class",
    "random": "Random",
}
"""Rows that look at no picture → their names."""


def floor_scores(
    floor: str, training: Sequence[RatedObject], count: int, seed: int = 0
) -> list[ObjectRealism]:
    """Return ``count`` scores of a row of :data:`FLOORS`.

    All but the random ones are of the ratings of ``training``, each aspect by itself; of classes
    that are as frequent the lower one is taken.
    """
    if floor == "random":
        return random_scores(count, seed)
    ratings = np.array([(o.shape, o.texture, o.joint) for o in training], np.float64)
    if floor == "majority":
        classes = realism_class(ratings)
        row = []
        for column in classes.T:
            kinds, counts = np.unique(column, return_counts=True)
            row.append(kinds[counts.argmax()])
    else:
        row = (ratings.mean(0) if floor == "constant_mean" else np.median(ratings, axis=0)).tolist()
    return scores_of([row] * count)


def floors(
    objects: Sequence[RatedObject], training: Sequence[RatedObject], *, seed: int = 0
) -> dict[str, Evaluation]:
    """Return the rows of :data:`FLOORS` on ``objects``.

    Without ``training`` the constants are those of ``objects`` themselves, and named so: the least
    error that any constant can have.
    """
    found = {}
    for floor, name in FLOORS.items():
        own = "" if training or floor == "random" else " of these objects"
        scores = floor_scores(floor, training or objects, len(objects), seed)
        found[floor] = evaluate(f"{name}{own}", objects, scores, seed=seed)
    return found


def markdown(rows: Sequence[Evaluation]) -> str:
    """Table 3a in Markdown, with rank correlations."""
    head = "| Method | " + " | ".join(
        f"{c.title()} MAE ↓ | {c.title()} ACC ↑ | {c.title()} rank ↑" for c in COLUMNS
    )
    lines = [f"{head} | Unscored |", "|---|" + "---|" * (3 * len(COLUMNS) + 1)]
    for row in rows:
        cells = [
            text
            for column in COLUMNS
            for text in (
                row.columns[column].mae.text(),
                row.columns[column].acc.text(),
                row.columns[column].spearman.text(),
            )
        ]
        name = f"{row.name}{seen_text(row)}"
        lines.append(f"| {name} | {' | '.join(cells)} | {row.unscored} of {row.objects} |")
    return "\n".join(lines) + "\n"


def seen_text(row: Evaluation) -> str:
    """Return what is said beside the name of a row whose scorer saw what it is measured on."""
    if row.seen is None:
        return " (trained on unknown pictures)"
    return f" (trained on {row.seen} of {row.objects})" if row.seen else ""


def figures(rows: Mapping[str, Evaluation]) -> dict[str, float | dict[str, float]]:
    """Flat figures ``{mae,acc,spearman}.COLUMN.KEY`` as benchmarks write them; unknown ones are
    left out."""
    found: dict[str, float | dict[str, float]] = {}
    for measure in ("mae", "acc", "spearman"):
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
