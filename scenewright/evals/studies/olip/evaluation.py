"""Scorers of realism against people's ratings: MAE and 5-class accuracy, as Table 3a, and ranks.

The columns are shape, texture, average and joint. *Average* is the mean of the figures of shape
and of texture: it is in all eight rows of the published table (0.136 and 0.123 → 0.130; 0.439 and
0.489 → 0.464), while the accuracy of an averaged score could not be. *Joint* compares the joint
score with the mean of both ratings.

MAE and accuracy reward a scorer that says the middle of the scale, Spearman's rank correlation does
not. So it stands beside them, and below every table the rows that look at no picture: one score for
all (the training ratings' mean, or their median), the most frequent class, and random scores.

How many of a picture's objects tell how real it looks: Fig. 8 of Liang et al. (Sec. 3.3.3).

A linear regression of the picture's realism on its objects' realism, by rank of size; the least
important rank is eliminated again and again (RFE), within each of five folds, and the rest is
judged on the part that the fold left out. With no rank left the regression is a constant, the mean
of the pictures fitted: the row to compare with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from scenewright.core.ports.vision import HIGHEST, LOWEST, ObjectRealism, RealismError
from scenewright.core.validation import FrozenModel
from scenewright.evals.human_ratings.object_analysis import pictures_rated
from scenewright.evals.human_ratings.rated_objects import RatedObject
from scenewright.evals.reporting.measured import MeasuredTable
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure
from scenewright.tools.vision.realism.accuracy import normalized_error, realism_class, same_class

Column = Literal["shape", "texture", "average", "joint"]
COLUMNS: tuple[Column, ...] = ("shape", "texture", "average", "joint")
"""In the order of Table 3a."""
MEASURES = {"mae": "MAE ↓", "acc": "ACC ↑", "spearman": "rank ↑"}
"""Field of :class:`Agreement` → its head."""
_Measure = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.float64]]


class Agreement(FrozenModel):
    """One column of one row."""

    mae: Figure
    """Mean absolute error of normalized scores, 0 to 1; less is better."""
    acc: Figure
    """Share of objects in the right one of five classes."""
    spearman: Figure = Figure(value=None)
    """Rank correlation with the ratings, −1 to 1; none for a constant."""


class Evaluation(FrozenModel):
    """One row of Table 3a."""

    name: str
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
    """Measure how far ``scores`` are from the ratings of ``objects``, in their order.

    Intervals are of 95 %, over pictures. A missing score is left out of that column and
    counted, never taken for 0. Raises ``RealismError`` without objects.
    """
    if not objects:
        raise RealismError("the part has no objects to evaluate on: choose another part of the set")
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
    """Return the rows of (shape, texture, joint) as scores."""
    return [ObjectRealism(float(row[0]), float(row[1]), float(row[2])) for row in rows]


def random_scores(count: int, seed: int = 0) -> list[ObjectRealism]:
    """Return the random row: every score drawn uniformly from 1 to 5."""
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


def table(rows: Sequence[Evaluation]) -> MeasuredTable:
    """Return Table 3a, with rank correlations."""
    return MeasuredTable(
        title="Table 3a",
        rows=tuple(
            {"Method": f"{row.name}{seen_text(row)}"}
            | {
                f"{column.title()} {head}": getattr(row.columns[column], measure)
                for column in COLUMNS
                for measure, head in MEASURES.items()
            }
            | {"Unscored": f"{row.unscored} of {row.objects}"}
            for row in rows
        ),
    )


def seen_text(row: Evaluation) -> str:
    """Return what is said beside the name of a row whose scorer saw what it is measured on."""
    if row.seen is None:
        return " (trained on unknown pictures)"
    return f" (trained on {row.seen} of {row.objects})" if row.seen else ""


def _values(scores: Sequence[float | None]) -> NDArray[np.float64]:
    return np.array([np.nan if score is None else score for score in scores], np.float64)


FEWEST = 5
"""Fewest objects of a picture that counts (Sec. 3.3.3)."""
MOST = 10
"""Most."""
FOLDS = 5


class Selected(FrozenModel):
    """A regression on some ranks."""

    kept: tuple[int, ...]
    """The ranks kept, 1 the largest object, where all pictures are fitted at once; a fold may keep
    others. None: a constant."""
    mse: Figure
    """Mean squared error on what the folds left out."""
    r2: Figure
    """1 − squared error / squared distance from the mean, on the same."""


def select_ranks(
    objects: Sequence[RatedObject],
    *,
    fewest: int = FEWEST,
    seed: int = 0,
) -> list[Selected]:
    """Fit the regressions of Fig. 8, one for each number of kept ranks, from none to all.

    Pictures with fewer than ``fewest`` or more than :data:`MOST` objects are left out. Where a
    picture has no object of a rank, the mean of that rank over the pictures fitted is taken, which
    says nothing about the picture; the paper does not say what it did. ``seed`` deals pictures to
    folds.
    Raises ``RealismError`` for too few pictures.
    """
    rated = [
        (whole, [float(item.joint) for item in members])
        for whole, members in pictures_rated(objects)
        if fewest <= len(members) <= MOST
    ]
    if len(rated) < 2 * FOLDS:
        raise RealismError(
            f"{len(rated)} pictures with a rating of their own have {fewest} to {MOST} objects: "
            f"{FOLDS} folds need {2 * FOLDS} or more"
        )
    ranks = max(len(scores) for _, scores in rated)
    x = np.array([[*s, *[np.nan] * (ranks - len(s))] for _, s in rated])
    y = np.array([whole for whole, _ in rated])
    order = np.random.default_rng(seed).permutation(len(y))
    errors = np.zeros((ranks + 1, len(y)))
    for fold in range(FOLDS):
        out = np.zeros(len(y), bool)
        out[order[fold::FOLDS]] = True
        fitted, unseen = _filled(x[~out], x[~out]), _filled(x[out], x[~out])
        for kept in eliminated(fitted, y[~out]):
            said = _predicted(fitted[:, kept], y[~out], unseen[:, kept])
            errors[len(kept), out] = (y[out] - said) ** 2
    boot, pictures = Bootstrap(len(y), seed), np.arange(len(y))
    found = [
        Selected(
            kept=tuple(int(rank) + 1 for rank in kept),
            mse=boot.share(pictures, errors[len(kept)]),
            r2=boot.figure(pictures, [errors[len(kept)], y, y**2, np.ones(len(y))], _explained),
        )
        for kept in eliminated(_filled(x, x), y)
    ]
    return found[::-1]


def eliminated(x: Array, y: Array) -> list[NDArray[np.intp]]:
    """Return the columns of ``x`` (n, columns) that are left after each elimination.

    The first entry has all columns, the last none. Each step drops the column whose coefficient in
    the regression of ``y`` (n,) is nearest to 0, as RFE does; of equal ones the later column.
    """
    kept = np.arange(x.shape[1])
    found = [kept]
    while len(kept):
        size = np.abs(_coefficients(x[:, kept], y)[1:])
        least = np.flatnonzero(size <= size.min() + 1e-12)[-1]
        kept = np.delete(kept, least)
        found.append(kept)
    return found


def _filled(x: Array, known: Array) -> Array:
    """Return ``x`` with the mean of the column of ``known`` where it is NaN."""
    there = ~np.isnan(known)
    counts = there.sum(0)
    sums = np.where(there, known, 0.0).sum(0)
    # A rank that no picture has is set to the mean of all: a constant, whatever it is.
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nanmean(known))
    return np.where(np.isnan(x), means, x)


def _coefficients(x: Array, y: Array) -> Array:
    """Return intercept and slopes of least squares, the shortest ones of equal fits."""
    design = np.column_stack([np.ones(len(x)), x])
    return np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], np.float64)


def _predicted(x: Array, y: Array, new: Array) -> Array:
    slopes = _coefficients(x, y)
    found: Array = slopes[0] + new @ slopes[1:]
    return found


def _explained(sums: Array) -> Array:
    error, total, squares, n = sums.T
    spread = squares - total**2 / n
    result: Array = 1 - error / np.where(spread <= 1e-9, np.nan, spread)
    return result
