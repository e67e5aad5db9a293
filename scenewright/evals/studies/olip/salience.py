"""How many of a picture's objects tell how real it looks: Fig. 8 of Liang et al. (Sec. 3.3.3).

A linear regression of the picture's realism on its objects' realism, by rank of size; the least
important rank is eliminated again and again (RFE), within each of five folds, and the rest is
judged on the part that the fold left out. With no rank left the regression is a constant, the mean
of the pictures fitted: the row to compare with.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict

from scenewright.core.ports.vision import RealismError
from scenewright.evals.human_ratings.objects.analysis import pictures_rated
from scenewright.evals.human_ratings.objects.data import RatedObject
from scenewright.evals.statistics.figures import Array, Bootstrap, Figure

FEWEST = 5
"""Fewest objects of a picture that counts (Sec. 3.3.3)."""
MOST = 10
"""Most."""
FOLDS = 5


class Selected(BaseModel):
    """A regression on some ranks."""

    model_config = ConfigDict(frozen=True, extra="forbid")

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
    """Fig. 8: one regression a number of kept ranks, from none to all of them.

    Pictures with fewer than ``fewest`` or more than :data:`MOST` objects are left out. Where a
    picture has no object of a rank, the mean of that rank over the pictures fitted stands, which
    tells nothing of the picture; the paper does not say what it did. ``seed`` deals pictures to
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
    """The columns of ``x`` (n, columns) that are left after each elimination, all of them first
    and none last.

    Each step drops the column whose coefficient in the regression of ``y`` (n,) is nearest to 0, as
    RFE does; of equal ones the later column.
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
    """``x`` with the mean of the column of ``known`` where it is NaN."""
    there = ~np.isnan(known)
    counts = there.sum(0)
    sums = np.where(there, known, 0.0).sum(0)
    # A rank that no picture has stands at the mean of all: a constant, whatever it is.
    means = np.where(counts > 0, sums / np.maximum(counts, 1), np.nanmean(known))
    return np.where(np.isnan(x), means, x)


def _coefficients(x: Array, y: Array) -> Array:
    """Intercept and slopes of least squares; the shortest ones where many fit as well."""
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
