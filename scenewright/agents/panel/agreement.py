"""How far judges agree with each other and with the truth.

Shapes are those of :mod:`scenewright.agents.panel.aggregation`: facts are rows, judges are columns,
and NaN stands for what is missing. What is missing is left out, never guessed.
"""

from __future__ import annotations

from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import (
    Array,
    checked_numbers,
    checked_probabilities,
    mean_probability,
)

Level = Literal["nominal", "interval"]
LEVELS: tuple[Level, ...] = get_args(Level)


def disagreement(probabilities: ArrayLike) -> Array:
    """Entropy (bits, 0 to 1) of the mean of the judges who answered, (n_facts,).

    ``probabilities`` (n_facts, n_judges) as everywhere. 0: all are certain and say the same;
    1: the panel as a whole is undecided; NaN: nobody answered. Judges who all say 0.5 reach 1
    as well, since the mean alone counts; of votes (0, ½ or 1) it is the vote entropy of
    Dagan & Engelson (1995), which asks only whether they differ. Raises ``ValueError`` for
    bad ``probabilities``.
    """
    yes = mean_probability(probabilities)
    no = 1.0 - yes
    # The limit of p·log p at 0 is 0; a logarithm of 1 puts it there, and keeps NaN.
    parts = (p * np.log2(np.where(p == 0.0, 1.0, p)) for p in (yes, no))
    result: Array = np.abs(sum(parts))
    return result


def cohen_kappa(a: ArrayLike, b: ArrayLike) -> float:
    """Cohen's κ (1960) of two judges' votes, both (n_facts,) of 0, 1 or NaN.

    ``(p_o − p_e) / (1 − p_e)``: agreement beyond what their rates of yes make by chance; at
    most 1, and 0 at chance. Facts that either left out are left out. NaN where it is
    undefined: no fact in common, or both gave one and the same answer throughout. Raises
    ``ValueError`` for other values or lengths that differ.
    """
    first, second = _checked_labels(a, "a"), _checked_labels(b, "b")
    if first.shape != second.shape:
        raise ValueError(f"a has {len(first)} entries and b has {len(second)}: they must be paired")
    both = ~(np.isnan(first) | np.isnan(second))
    first, second = first[both], second[both]
    n = len(first)
    # Counts are exact, so that a chance agreement of 1 is found as such.
    yes_a, yes_b = first.sum(), second.sum()
    chance = yes_a * yes_b + (n - yes_a) * (n - yes_b)
    if chance == n * n:
        return float("nan")
    return float((n * (first == second).sum() - chance) / (n * n - chance))


def krippendorff_alpha(ratings: ArrayLike, level: Level = "nominal") -> float:
    """Krippendorff's α (2011, "Computing Krippendorff's Alpha-Reliability") of all judges.

    ``ratings``: (n_facts, n_judges), any finite numbers, NaN where missing. ``1 − D_o / D_e``,
    the disagreement within facts over that among all values; two values differ by 1 if they
    are not the same (``nominal``) or by the square of their distance (``interval``, for
    probabilities). 1: they agree; 0: chance; below: they oppose each other. A fact with fewer
    than two ratings says nothing of agreement and is left out.

    NaN where α is undefined: no fact with two ratings, or all values are the same. Raises
    ``ValueError`` for bad ratings or an unknown level.
    """
    array = checked_numbers(ratings, "ratings", 2)
    if np.isinf(array).any():
        raise ValueError("ratings must be finite, with NaN for a missing one")
    if level not in LEVELS:
        raise ValueError(f"unknown level {level!r}: use one of {', '.join(LEVELS)}")
    there = ~np.isnan(array)
    paired = there.sum(1) >= 2
    array, there = array[paired], there[paired]
    values = array[there]
    if not len(values) or values.min() == values.max():
        return float("nan")
    sizes = there.sum(1)
    if level == "nominal":
        codes = np.unique(values, return_inverse=True)[1]
        counts = np.zeros((len(array), codes.max() + 1))
        np.add.at(counts, (np.nonzero(there)[0], codes), 1.0)
        within = sizes**2 - (counts**2).sum(1)
        among = len(values) ** 2 - (counts.sum(0) ** 2).sum()
    else:
        # α does not change with the unit; on [0, 1] no square can overflow or vanish.
        largest = np.abs(values).max()
        scaled = np.where(there, array, 0.0) / largest
        low, high = values.min() / largest, values.max() / largest
        scaled = np.where(there, (scaled - low) / (high - low), 0.0)
        centred = np.where(there, scaled - (scaled.sum(1) / sizes)[:, None], 0.0)
        # The sum over all ordered pairs of m values is 2m times that of squares about the mean.
        within = 2.0 * sizes * (centred**2).sum(1)
        among = 2.0 * len(values) ** 2 * scaled[there].var()
    observed = (within / (sizes - 1)).sum() / len(values)
    expected = among / (len(values) * (len(values) - 1))
    return float(1.0 - observed / expected)


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Mean squared error of probabilities (Brier, 1950), in [0, 1]; lower is better.

    ``probabilities`` and ``labels`` (1: the fact holds, 0: it does not), both (n_facts,);
    pairs with a NaN on either side are left out. NaN without pairs. Raises ``ValueError`` for
    other values or lengths that differ.
    """
    said, truth = _paired(probabilities, labels)
    return float(((said - truth) ** 2).mean()) if len(said) else float("nan")


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 10
) -> float:
    """Expected calibration error (Naeini et al., 2015, for yes/no events), in [0, 1].

    Mean over ``bins`` equally wide bins of the gap between the mean probability and the share
    of facts that hold, weighted by the facts in the bin; 1 belongs to the last bin. Arguments,
    missing values and errors as in :func:`brier_score`; fewer than one bin is an error too.
    """
    if bins < 1:
        raise ValueError(f"bins is {bins}: it must be 1 or more")
    said, truth = _paired(probabilities, labels)
    if not len(said):
        return float("nan")
    at = np.minimum((said * bins).astype(int), bins - 1)
    gaps = np.bincount(at, weights=said - truth, minlength=bins)
    return float(np.abs(gaps).sum() / len(said))


def _checked_labels(labels: ArrayLike, name: str) -> Array:
    array = checked_numbers(labels, name, 1)
    if not np.all(np.isnan(array) | (array == 0.0) | (array == 1.0)):
        raise ValueError(f"{name} must hold 0, 1 or NaN")
    return array


def _paired(probabilities: ArrayLike, labels: ArrayLike) -> tuple[Array, Array]:
    """Both as vectors, without the pairs in which one is missing."""
    said = checked_numbers(probabilities, "probabilities", 1)
    said = checked_probabilities(said[:, None])[:, 0]
    truth = _checked_labels(labels, "labels")
    if said.shape != truth.shape:
        raise ValueError(f"{len(said)} probabilities and {len(truth)} labels: they must be paired")
    both = ~(np.isnan(said) | np.isnan(truth))
    return said[both], truth[both]
