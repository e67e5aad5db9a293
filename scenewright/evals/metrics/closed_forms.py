"""Linear maps that are fitted in one step: a classifier, and the common space of two sorts of
vectors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Real = NDArray[np.float64]
Whole = NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ClassHead:
    """Linear discriminant analysis: the logits of a shared Gaussian around each class's mean."""

    weights: Real
    """(dimensions, classes)."""
    bias: Real
    """(classes,)."""

    @classmethod
    def fit(cls, rows: Real, classes: Whole, count: int, shrinkage: float) -> ClassHead:
        """Of ``rows`` (n, dimensions) in classes 0 … ``count`` − 1, all equally likely.

        ``shrinkage`` times the mean variance is added to each. Raises ``ValueError`` if a class
        has no row.
        """
        sizes = np.bincount(classes, minlength=count)
        if not sizes.all():
            raise ValueError(f"the classes {np.flatnonzero(sizes == 0).tolist()} have no row")
        means = np.stack([rows[classes == at].mean(0) for at in range(count)])
        spread = rows - means[classes]
        covariance = _shrunk(spread.T @ spread / (len(rows) - count), shrinkage)
        weights = np.linalg.solve(covariance, means.T)
        return cls(weights, -0.5 * (means.T * weights).sum(0))

    def logits(self, rows: Real) -> Real:
        """(n, dimensions) → (n, classes); their softmax is the probability of each class."""
        return rows @ self.weights + self.bias


@dataclass(frozen=True, slots=True)
class PairMaps:
    """Canonical correlation analysis (Hotelling, 1936): two maps into the space in which paired
    vectors correlate most, each direction weighed by its correlation."""

    first_mean: Real
    """(first dimensions,)."""
    first_map: Real
    """(first dimensions, common)."""
    second_mean: Real
    """(second dimensions,)."""
    second_map: Real
    """(second dimensions, common)."""

    @classmethod
    def fit(cls, first: Real, second: Real, common: int, shrinkage: float) -> PairMaps:
        """Of rows that belong together, (n, …) and (n, …); ``common`` directions are kept.

        ``shrinkage`` times the mean variance of each side is added to its variances.
        """
        first_mean, second_mean = first.mean(0), second.mean(0)
        first, second = first - first_mean, second - second_mean
        first_root, second_root = (
            _inverse_root(_shrunk(side.T @ side / len(side), shrinkage)) for side in (first, second)
        )
        left, correlations, right = np.linalg.svd(
            first_root @ (first.T @ second / len(first)) @ second_root
        )
        scale = correlations[:common]
        return cls(
            first_mean,
            first_root @ left[:, :common] * scale,
            second_mean,
            second_root @ right.T[:, :common] * scale,
        )

    def of_first(self, rows: Real) -> Real:
        """(n, first dimensions) → (n, common)."""
        return (rows - self.first_mean) @ self.first_map

    def of_second(self, rows: Real) -> Real:
        """(n, second dimensions) → (n, common)."""
        return (rows - self.second_mean) @ self.second_map


def _shrunk(covariance: Real, shrinkage: float) -> Real:
    size = len(covariance)
    found: Real = covariance + shrinkage * np.trace(covariance) / size * np.eye(size)
    return found


def _inverse_root(covariance: Real) -> Real:
    values, vectors = np.linalg.eigh(covariance)
    found: Real = (vectors / np.sqrt(values)) @ vectors.T
    return found
