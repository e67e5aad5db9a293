"""The sequential test of a judge's answers to sentinel questions that are put again and again.

While a judge stays the same model, its answers to one question are exchangeable: they come from one
unknown distribution, narrow for a judge that always says the same and wide for one that wavers. The
test predicts each answer from the judge's own earlier ones and adds up the evidence that the
answers come from elsewhere:

- an answer is a log odds, rounded to :data:`STEP` and bounded by :data:`BOUND`; a bare yes or no
  is one of the two bounds;
- **no change**: a Pólya urn for each question. After n answers yᵢ to it,
  ``P(y) = (α·base(y) + Σᵢ K_h(yᵢ, y)) / (α + n)``, where ``base`` is the mixture of the same kernel
  K over the answers to all questions, with a little of the uniform distribution. The concentration
  α and the width h, which say how much the judge wavers, are learnt: a posterior over a grid;
- **change**: a share s of the answers comes from ``base`` instead, whatever was answered before;
- **CUSUM** (Page, 1954) of the log likelihood ratio for each s of :data:`SHARES`:
  ``S ← max(0, S + min(log((1−s) + s·base(y)/P(y)), c))``, an alarm where one exceeds
  :data:`LIMIT`. The bound c (:data:`MOST`) keeps a few odd answers from raising it.

The first answer to a question says nothing of a change, so that no phase of learning stands apart.
The truth is not used: a better model under the old name is a change as well.
"""

from __future__ import annotations

from math import exp, log

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Places = NDArray[np.intp]

STEP = 0.1
"""Log odds that are told apart."""
BOUND = 6.0
"""Log odds beyond which they are not."""
PLACES = round(2 * BOUND / STEP) + 1
"""How many answers are told apart."""
SHARES = (0.1, 0.3, 0.7)
"""Shares s of the answers that a change is taken to touch."""
CONCENTRATIONS = (0.02, 0.06, 0.2, 0.6, 2.0, 6.0, 20.0)
"""Values of α."""
WIDTHS = (0.0, 0.15, 0.3, 0.6, 1.2)
"""Values of h, in log odds; 0: only the very same answer is near."""
UNIFORM = 0.05
"""Share of the uniform distribution in the base."""
MOST = 2.5
"""Most evidence that one answer adds."""
LIMIT = 18.0
"""Sum above which an alarm is raised; its false alarms are measured by ``benchmarks/swap.py``."""
_FREEDOM = 3.0
"""Degrees of freedom of the kernel (Student's t): judges jump now and then."""


def place_of(probability: float) -> int:
    """Return the place of an answer by its probability: its rounded log odds, counted from 0."""
    edge = 1.0 / (1.0 + exp(BOUND))
    inside = min(max(probability, edge), 1.0 - edge)
    return round((log(inside / (1.0 - inside)) + BOUND) / STEP)


def _kernels() -> Array:
    gap = STEP * np.abs(np.arange(PLACES)[:, None] - np.arange(PLACES)[None, :])
    found = [np.eye(PLACES)]
    for width in WIDTHS[1:]:
        shape = (1.0 + (gap / width) ** 2 / _FREEDOM) ** (-(_FREEDOM + 1.0) / 2.0)
        found.append(shape / shape.sum(1, keepdims=True))
    return np.stack(found)


_KERNELS = _kernels()
"""Distribution around each place for each width, (widths, places, places)."""


class DriftTest:
    """The test of one judge, or of the judges of several runs side by side in a simulation."""

    def __init__(self, questions: int, *, runs: int = 1) -> None:
        """``questions``: how many sentinel questions there are."""
        grid = (len(CONCENTRATIONS), len(WIDTHS))
        self._past: list[list[Places]] = [[] for _ in range(questions)]
        self._pooled = np.zeros((runs, len(WIDTHS), PLACES))
        self._weights = np.full((runs, *grid), 1.0 / (grid[0] * grid[1]))
        self._seen = 0
        self.sums: Array = np.zeros((runs, len(SHARES)))

    @property
    def seen(self) -> int:
        """Answers so far."""
        return self._seen

    @property
    def evidence(self) -> Array:
        """The largest sum, (runs,)."""
        found: Array = self.sums.max(1)
        return found

    @property
    def alarms(self) -> NDArray[np.bool_]:
        """Whether a change is raised, (runs,)."""
        return self.evidence > LIMIT

    def predictive(self, question: int) -> Array:
        """Return the distribution of the next answer to ``question`` if nothing changed,
        (runs, places)."""
        runs = len(self.sums)
        each = [self._likely(question, np.full(runs, at))[0] for at in range(PLACES)]
        found: Array = np.stack([(self._weights * grid).sum((1, 2)) for grid in each], 1)
        return found

    def see(self, question: int, places: Places) -> None:
        """Take the next answer to ``question`` (:func:`place_of`) in each run, (runs,)."""
        grid, base = self._likely(question, places)
        weighted = self._weights * grid
        predicted = weighted.sum((1, 2))
        elsewhere = (self._weights.sum(1) * base).sum(1)
        for at, share in enumerate(SHARES):
            ratio = np.log((1.0 - share) + share * elsewhere / predicted)
            self.sums[:, at] = np.maximum(0.0, self.sums[:, at] + np.minimum(ratio, MOST))
        self._weights = weighted / predicted[:, None, None]
        self._past[question].append(places)
        self._pooled += _KERNELS[:, places].transpose(1, 0, 2)
        self._seen += 1

    def _likely(self, question: int, places: Places) -> tuple[Array, Array]:
        """Probability of an answer for each α and h, (runs, concentrations, widths), and that by
        the base alone, (runs, widths)."""
        base = np.full((len(places), len(WIDTHS)), 1.0 / PLACES)
        if self._seen:
            pooled = self._pooled[np.arange(len(places)), :, places] / self._seen
            base = UNIFORM / PLACES + (1.0 - UNIFORM) * pooled
        past = self._past[question]
        own = np.zeros_like(base)
        for before in past:
            own += _KERNELS[:, before, places].T
        alpha = np.array(CONCENTRATIONS)[None, :, None]
        return (alpha * base[:, None, :] + own[:, None, :]) / (alpha + len(past)), base
