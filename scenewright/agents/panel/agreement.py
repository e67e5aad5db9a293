"""Weights of judges by their agreement, without labels.

Judge j weighs ``r_j²`` with r_j the correlation of its probabilities with the weighted mean of the
others', both centred within the kind of fact: squared, since that is the share of variance that it
has in common with them. The weights of that mean are the same weights, so they are iterated from
equal ones until they settle. A judge that never varies, or says the opposite of the others, weighs
nothing. Of the weights :data:`SHARE` are these, the rest equal ones of the judges that weigh
anything, which costs little where judges differ and much less where a clique agrees. The panel is
the weighted mean of probabilities, the linear opinion pool (Stone, 1961).

Weights by agreement follow whoever agrees. On panels that people rated they are much better than
equal ones where judges differ, and never clearly worse (``people.…`` of
:mod:`benchmarks.aggregators`). But judges that copy each other or err together agree too: of two
groups that agree within and not with each other, the one that agrees more takes the panel, and
answers alone do not tell whether it is right. Judges that answer nearly alike are therefore named
(:attr:`JudgeWeights.copies`), and keep their weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from scenewright.agents.panel.aggregation import Array, checked_probabilities
from scenewright.core.validation import FiniteModel

LEAST_JUDGES = 3
"""Two judges agree with each other and with nobody else: nothing distinguishes them."""
LEAST_FACTS = 100
"""Facts that two judges must both have answered for their correlation to count."""
SHARE = 0.5
"""Share of the weights that follows agreement."""
COPIES = 0.9
"""Correlation above which two judges may be copies."""
EARLIER = frozenset({"by_kind", "votes", "trust"})
"""Fields of weights that version 1.0 measured for a pool of log-odds."""
_STEPS = 1000
_TOLERANCE = 1e-9


class JudgeWeights(FiniteModel):
    """Weights of a panel's judges, as files keep them."""

    judges: tuple[str, ...] = Field(min_length=1)
    """Ids."""
    weights: tuple[float, ...]
    """One a judge, not negative."""
    n_facts: int = Field(ge=0)
    """Facts that three judges or more answered when they were weighed."""
    copies: tuple[tuple[str, str], ...] = ()
    """Pairs of judges that answer nearly alike: if one copies the other, it counts twice."""

    @model_validator(mode="before")
    @classmethod
    def _leave_out_earlier(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        return {name: value for name, value in data.items() if name not in EARLIER}

    @model_validator(mode="after")
    def _check(self) -> Self:
        row = self.weights
        if len(row) != len(self.judges) or not min(row) >= 0.0 or not sum(row) > 0.0:
            raise ValueError("give one weight a judge, not negative, and one above 0")
        return self

    def of(self, judges: Sequence[str]) -> Array:
        """Return the weights of ``judges``, (n_judges,); one that was not weighed has the mean."""
        known = dict(zip(self.judges, self.weights, strict=True))
        mean = sum(self.weights) / len(self.weights)
        return np.array([known.get(judge, mean) for judge in judges])


def judge_weights(
    judges: Sequence[str], probabilities: ArrayLike, kinds: Sequence[str] = ()
) -> JudgeWeights | None:
    """Return the weights of ``judges`` by their answers, None with too few (:func:`enough`).

    Arguments as :func:`agreement_weights`.
    """
    said = checked_probabilities(probabilities)
    if not enough(said):
        return None
    found, both = correlations(centre_by_kind(said, kinds))
    return JudgeWeights(
        judges=tuple(judges),
        weights=tuple(agreement_weights(said, kinds).tolist()),
        n_facts=int(((~np.isnan(said)).sum(1) >= LEAST_JUDGES).sum()),
        copies=tuple(
            (judges[a], judges[b])
            for a, b in combinations(range(len(judges)), 2)
            if both[a, b] >= LEAST_FACTS and found[a, b] > COPIES
        ),
    )


def agreement_weights(
    probabilities: ArrayLike,
    kinds: Sequence[str] = (),
    *,
    power: float = 2.0,
    share: float = SHARE,
) -> Array:
    """Return weights from the answers ``probabilities`` (n_facts, n_judges), NaN where missing.

    ``kinds`` (n_facts,) name the facts' kinds; empty: all alike. The result, (n_judges,), sums to
    1; it is equal weights where answers are too few (:func:`enough`) or nobody agrees. Two judges
    with too few answers in common count as an average pair. A ``share`` of the weights goes by
    ``r_j`` to the ``power``.
    Deterministic. Raises ``ValueError`` for bad probabilities or kinds of another number.
    """
    said = checked_probabilities(probabilities)
    judges = said.shape[1]
    equal = np.full(judges, 1.0 / max(1, judges))
    centred = centre_by_kind(said, kinds)
    if not enough(said):
        return equal
    found, both = correlations(centred)
    known = both >= LEAST_FACTS
    np.fill_diagonal(known, False)
    average = float(found[known].mean())
    found = np.where(known | np.eye(judges, dtype=bool), found, average)
    weights = equal
    for _ in range(_STEPS):
        rest = np.tile(weights, (judges, 1))
        np.fill_diagonal(rest, 0.0)
        spread = np.sqrt(np.maximum(((rest @ found) * rest).sum(1), 1e-12))
        agrees = np.maximum((rest * found).sum(1) / spread, 0.0) ** power
        if not agrees.sum() > 0.0:
            return equal
        now: Array = agrees / agrees.sum()
        # Halved, so that it settles.
        before, weights = weights, (weights + now) / 2.0
        if np.abs(weights - before).max() < _TOLERANCE:
            break
    equal = (now > 0.0) / np.count_nonzero(now > 0.0)
    result: Array = share * now + (1.0 - share) * equal
    return result


def enough(probabilities: ArrayLike) -> bool:
    """Return whether three judges or more answered enough facts together to be weighed."""
    said = checked_probabilities(probabilities)
    there = (~np.isnan(said)).astype(float)
    both = there.T @ there >= LEAST_FACTS
    np.fill_diagonal(both, False)
    return any(
        both[np.ix_(three, three)].sum() == 2 * LEAST_JUDGES
        for three in combinations(range(said.shape[1]), LEAST_JUDGES)
    )


def centre_by_kind(probabilities: Array, kinds: Sequence[str] = ()) -> Array:
    """Return ``probabilities`` less the judge's mean over the facts of the same kind; NaN kept."""
    names = list(kinds) or [""] * len(probabilities)
    if len(names) != len(probabilities):
        raise ValueError(f"{len(names)} kinds for {len(probabilities)} facts: give one a fact")
    groups: NDArray[np.intp] = np.unique(names, return_inverse=True)[1].reshape(-1)
    found = probabilities.copy()
    for at in range(probabilities.shape[1]):
        there = ~np.isnan(probabilities[:, at])
        n = np.bincount(groups[there])
        sums = np.bincount(groups[there], probabilities[there, at])
        found[there, at] -= (sums / np.maximum(n, 1))[groups[there]]
    return found


def correlations(centred: Array) -> tuple[Array, Array]:
    """Return correlations of columns over what both answered, and how much that is."""
    there = (~np.isnan(centred)).astype(float)
    values = np.nan_to_num(centred)
    square = (values**2).T @ there
    scale = np.sqrt(square * square.T)
    found = np.where(scale > 1e-12, values.T @ values / np.where(scale > 1e-12, scale, 1.0), 0.0)
    np.fill_diagonal(found, 1.0)
    return found, there.T @ there
