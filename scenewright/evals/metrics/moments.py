"""Mean and covariance of a stream of vectors, and the Fréchet distance of two Gaussians.

The moments of blocks are merged as in Chan, Golub and LeVeque (1979), "Updating formulae and a
pairwise algorithm for computing sample variances": each block is centred before it is squared,
so that vectors far from the origin lose no digits. One block and two matrices of the vectors'
width are in memory, however long the stream is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.store.journal import Features

Real = NDArray[np.float64]


class Moments:
    """Count, mean and covariance of the rows seen so far, in double precision."""

    def __init__(self, blocks: Iterable[Features] = ()) -> None:
        """Of the rows of ``blocks``, each of shape (rows, dimensions)."""
        self.count = 0
        self.mean: Real = np.zeros(0)
        self._scatter: Real = np.zeros((0, 0))
        for block in blocks:
            self.add(block)

    def add(self, block: Features) -> None:
        """Takes the rows of ``block`` (rows, dimensions) in."""
        rows = np.asarray(block, np.float64)
        if not len(rows):
            return
        mean = rows.mean(0)
        centred = rows - mean
        scatter = centred.T @ centred
        if not self.count:
            self.count, self.mean, self._scatter = len(rows), mean, scatter
            return
        total = self.count + len(rows)
        step = mean - self.mean
        self._scatter += scatter
        self._scatter += np.outer(step, step * (self.count * len(rows) / total))
        self.mean = self.mean + step * (len(rows) / total)
        self.count = total

    @property
    def covariance(self) -> Real:
        """(dimensions, dimensions), divided by count − 1; ``ValueError`` below two rows."""
        if self.count < 2:
            raise ValueError(f"a covariance needs two rows: there are {self.count}")
        return self._scatter / (self.count - 1)


@dataclass(frozen=True, slots=True)
class Frechet:
    """The squared Fréchet distance of two Gaussians in its two parts, each 0 or more."""

    means: float
    """‖μ₁ − μ₂‖²."""
    covariances: float
    """tr Σ₁ + tr Σ₂ − 2·tr (Σ₁Σ₂)^½."""

    @property
    def distance(self) -> float:
        """Their sum."""
        return self.means + self.covariances


def frechet(mean_1: Real, covariance_1: Real, mean_2: Real, covariance_2: Real) -> Frechet:
    """The squared Fréchet distance of N(μ₁, Σ₁) and N(μ₂, Σ₂) (Dowson and Landau, 1982).

    Means (d,), covariances (d, d), symmetric and without negative eigenvalues.
    """
    step = mean_1 - mean_2
    spread = np.trace(covariance_1) + np.trace(covariance_2)
    rest = float(spread - 2 * root_trace(covariance_1, covariance_2))
    return Frechet(float(step @ step), max(0.0, rest))


def root_trace(first: Real, second: Real) -> float:
    """tr (Σ₁Σ₂)^½ of two covariances (d, d), also where they have no full rank.

    With Σ₁ = AAᵀ and Σ₂ = BBᵀ the eigenvalues of Σ₁Σ₂ are the squared singular values of AᵀB, so
    the trace is their sum. A root of the product itself, which is not symmetric, would turn
    rounding errors ε of its zero eigenvalues into √ε each.
    """
    product = _factor(first).T @ _factor(second)
    if not product.size:
        return 0.0
    return float(np.linalg.svd(product, compute_uv=False).sum())


def _factor(covariance: Real) -> Real:
    """A with AAᵀ = ``covariance``, (d, rank): directions below rounding errors are left out."""
    values, vectors = np.linalg.eigh(covariance)
    floor = max(0.0, float(values[-1])) * len(values) * np.finfo(np.float64).eps
    kept = values > floor
    found: Real = vectors[:, kept] * np.sqrt(values[kept])
    return found
