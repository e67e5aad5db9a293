"""Does filtering by REAL help training? Training sets by rank, and what they make of a test.

REAL (Section 4.4): real pictures of each class alone (``none``), or with the best (``high``), any
(``random``) or the worst (``low``) scored pictures of the class. Every set is trained for as many
steps, from the same start, and read on the same held-out real pictures. Seeds differ in the real
pictures, in the weights of the head and in the order of the batches, and are the same for every
set: sets are compared seed by seed.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from scenewright.evals.statistics.estimates import LEVEL, Estimate
from scenewright.evals.studies.real.ranking import How, Ranked, select

DIFFERENCE = (-1.0, 1.0)
"""Bounds of the difference of two measures that lie in [0, 1]."""
SETS: tuple[How, ...] = ("high", "random", "low", "none")
"""The training sets in the order of the paper's Tables 2 to 4."""
DIFFERENCES: tuple[tuple[How, How], ...] = (
    ("high", "low"),
    ("high", "random"),
    ("high", "none"),
    ("random", "none"),
    ("low", "none"),
)
"""Pairs of sets that are compared: the first less the second."""


class AugmentationError(ValueError):
    """Sets that cannot be built or compared; says what is wrong."""


@dataclass(frozen=True, slots=True)
class Example:
    """A picture and its class."""

    image: Image.Image
    """RGB."""
    label: str
    """Its class."""


def chosen(
    labels: Collection[str],
    pool: Collection[str],
    ranked: Iterable[Ranked],
    how: How,
    k: int,
    seed: int = 0,
) -> list[Ranked]:
    """The ``k`` pictures of each class that ``how`` selects, of ``ranked`` names in ``pool``.

    ``labels`` are the classes of the real pictures. Raises ``AugmentationError`` if a class has
    fewer than ``k`` scored pictures (the sets would differ in size), if a picture's class is not
    among ``labels``, or if it is not in ``pool``.
    """
    rows = list(ranked)
    if how != "none":
        counts = dict.fromkeys(sorted(set(labels)), 0)
        for row in rows:
            if row.label not in counts:
                raise AugmentationError(
                    f"the pool has pictures of {row.label!r}, of which no real one is given: "
                    "add real ones, or leave the class out"
                )
            if row.image not in pool:
                raise AugmentationError(f"{row.image} is ranked but not in the pool")
            counts[row.label] += row.score is not None
        few = [f"{label} ({n})" for label, n in counts.items() if n < k]
        if few:
            raise AugmentationError(
                f"{k} scored pictures a class are needed, there are fewer of {', '.join(few)}: "
                "score more pictures, or take fewer a class"
            )
    return select(rows, k, how, seed)


def training_set(
    real: Sequence[Example],
    pool: Mapping[str, Image.Image],
    ranked: Iterable[Ranked],
    how: How,
    k: int,
    seed: int = 0,
) -> list[Example]:
    """``real`` and, after them, the pictures of ``pool`` (name → picture) that ``how`` selects.

    Raises ``AugmentationError`` as :func:`chosen`.
    """
    rows = chosen({example.label for example in real}, pool, ranked, how, k, seed)
    return [*real, *(Example(pool[row.image], row.label) for row in rows)]


def equal_epochs(epochs: int, largest: int, size: int) -> int:
    """Epochs for a set of ``size`` pictures so that it takes about as many steps as ``epochs`` of
    the ``largest``: the paper's 20 for *none* (half the pictures) against 10.

    Raises ``AugmentationError`` if a number is below 1 or ``size`` above ``largest``.
    """
    if epochs < 1 or size < 1 or size > largest:
        raise AugmentationError(
            f"{epochs} epochs of {largest} pictures cannot be made equal for {size} pictures"
        )
    return max(1, round(epochs * largest / size))


def macro_f1(truth: Sequence[str], predicted: Sequence[str]) -> float:
    """Mean over the classes of ``truth`` of F1 = 2·TP / (2·TP + FP + FN), in [0, 1].

    A class that is never predicted has F1 0; one that is predicted but nowhere true is no class
    of the mean. Raises ``AugmentationError`` without pictures or for unequal lengths.
    """
    if not truth or len(truth) != len(predicted):
        raise AugmentationError(
            f"{len(predicted)} predictions for {len(truth)} pictures: give one for each of some"
        )
    classes = sorted(set(truth))
    scores = []
    for label in classes:
        right = sum(t == p == label for t, p in zip(truth, predicted, strict=True))
        named = sum(p == label for p in predicted)
        there = sum(t == label for t in truth)
        scores.append(2 * right / (named + there))
    return math.fsum(scores) / len(scores)


def over_seeds(
    values: Sequence[float], items: int = 0, bounds: tuple[float, float] = (0.0, 1.0)
) -> Estimate:
    """Mean over seeds with its 95 % interval by Student's t (n − 1 degrees of freedom).

    ``items``: pictures each value is measured on. The interval ends at ``bounds``, beyond which the
    measure has no values: Student's t knows nothing of them. One seed has no interval. Raises
    ``AugmentationError`` without values, or for one outside the bounds.
    """
    if not values:
        raise AugmentationError("no seed was trained: there is nothing to average")
    array = np.asarray(values, np.float64)
    least, most = bounds
    if array.min() < least or array.max() > most:
        raise AugmentationError(f"values from {array.min()} to {array.max()} are beyond {bounds}")
    mean = float(array.mean())
    if len(array) < 2:
        return Estimate(value=mean, n=items, seeds=1)
    from scipy.stats import t

    sd = float(array.std(ddof=1))
    half = float(t.ppf((1 + LEVEL) / 2, len(array) - 1)) * sd / math.sqrt(len(array))
    low, high = max(least, mean - half), min(most, mean + half)
    return Estimate(value=mean, low=low, high=high, sd=sd, n=items, seeds=len(array))


@dataclass(frozen=True, slots=True)
class Comparison:
    """One measure of every training set, seed by seed."""

    measure: str
    """What the values are, for example ``F1`` or ``mR@20``."""
    values: Mapping[How, Sequence[float]]
    """Set → one value a seed, in the same order of seeds."""
    items: int = 0
    """Held-out pictures each value is measured on."""

    def __post_init__(self) -> None:
        lengths = {how: len(values) for how, values in self.values.items()}
        if len(set(lengths.values())) > 1:
            raise AugmentationError(f"sets were trained with other numbers of seeds: {lengths}")

    def mean(self, how: How) -> Estimate:
        """The measure of one set, over seeds."""
        return over_seeds(self.values[how], self.items)

    def difference(self, first: How, second: How) -> Estimate:
        """``first`` less ``second``, paired by seed."""
        pairs = zip(self.values[first], self.values[second], strict=True)
        return over_seeds([a - b for a, b in pairs], self.items, DIFFERENCE)

    def markdown(self) -> str:
        """The layout of the paper's Tables 2 to 4: one row a set, then the paired differences."""
        lines = [f"| training set | {self.measure} | 95 % interval | sd |", "|---|---|---|---|"]
        shown = [how for how in SETS if how in self.values]
        lines += [_row(how, self.mean(how), "") for how in shown]
        lines += [
            _row(f"{first} − {second}", self.difference(first, second), "+")
            for first, second in DIFFERENCES
            if first in self.values and second in self.values
        ]
        return "\n".join(lines) + "\n"


def _row(name: str, estimate: Estimate, sign: str) -> str:
    def text(number: float | None, mark: str) -> str:
        return "–" if number is None else f"{number:{mark}.3f}"

    interval = "–"
    if estimate.low is not None:
        interval = f"{text(estimate.low, sign)} … {text(estimate.high, sign)}"
    return f"| {name} | {text(estimate.value, sign)} | {interval} | {text(estimate.sd, '')} |"
