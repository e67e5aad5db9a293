"""Stacked panel: judges scaled by kind of fact, then weighted, both fitted to truth.

1. *Platt scaling* (Platt, 1999) of each judge, log-odds a + b·x of its log-odds x, in which every
   kind of fact has its own a and b, drawn towards those of all kinds by a penalty. Minus the prior
   log-odds of the kind, that is the *evidence* e of an answer.
2. *Stacking* (Wolpert, 1992): log-odds of the panel = prior + c + Σ_j w_j·e_j, over the judges who
   answered. All w_j = 1 and c = 0 is naive Bayes over judges that err independently; judges that
   err together get less. The weights are w + d_j, with a penalty on d chosen by cross-validation
   over pictures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from scenewright.agents.panel.aggregation import Array, checked_probabilities, expit, log_odds
from scenewright.core.validation import FiniteModel

PENALTIES = (0.1, 1.0, 10.0, 100.0, 1000.0)
"""Tried on d, the deviations of the weights."""
FOLDS = 5
_WEAK, _OF_KIND = 0.01, 1.0
"""Penalties on shared coefficients, and on those of one kind."""
_POOLED_FACTS = 10.0
"""Imaginary facts of each kind with the prevalence of all kinds."""
_TOLERANCE = 1e-9
Places = NDArray[np.intp]


class JudgeScale(FiniteModel):
    """Platt scaling of one judge by kind of fact."""

    judge_id: str
    """``provider:model``."""
    offset: float
    """a of all kinds."""
    slope: float
    """b of all kinds."""
    offsets: dict[str, float] = Field(default_factory=dict)
    """Offsets of a by kind."""
    slopes: dict[str, float] = Field(default_factory=dict)
    """Offsets of b by kind."""
    weight: float
    """w_j."""

    def log_odds(self, odds: Array, kinds: NDArray[np.str_]) -> Array:
        """Return the log-odds that facts of ``kinds`` (n,) hold, by this judge's ``odds`` (n,)."""
        offset, slope = (
            np.array([more.get(kind, 0.0) for kind in kinds.tolist()])
            for more in (self.offsets, self.slopes)
        )
        result: Array = self.offset + offset + (self.slope + slope) * odds
        return result


class PanelStack(FiniteModel):
    """Fitted weights of one panel."""

    judges: tuple[JudgeScale, ...] = Field(min_length=1)
    """One a judge."""
    prior: float
    """Log-odds (nats) of the prevalence among the training facts."""
    prior_of: dict[str, float]
    """The same by kind, drawn towards the overall value by ten imaginary facts."""
    intercept: float
    """c, for facts with the prevalence of the training facts."""
    penalty: float
    """The penalty that cross-validation chose."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if len({judge.judge_id for judge in self.judges}) < len(self.judges):
            raise ValueError("a judge is listed twice")
        return self

    @property
    def judge_ids(self) -> tuple[str, ...]:
        """Ids of its judges."""
        return tuple(judge.judge_id for judge in self.judges)

    def evidence(self, probabilities: Array, kinds: Sequence[str], judges: Sequence[str]) -> Array:
        """Return w_j·e_j of each answer, (n_facts, n_judges); NaN where there is none.

        ``probabilities`` likewise; ``kinds`` and ``judges`` name rows and columns. Raises
        ``LookupError`` for a judge that is not in it.
        """
        odds = log_odds(checked_probabilities(probabilities))
        prior = self.priors(kinds)
        of_fact = np.array(list(kinds), dtype=np.str_)
        scales = {judge.judge_id: judge for judge in self.judges}
        found = np.empty(odds.shape)
        for at, judge in enumerate(judges):
            scale = scales[judge]
            found[:, at] = scale.weight * (scale.log_odds(odds[:, at], of_fact) - prior)
        return found

    def priors(self, kinds: Sequence[str]) -> Array:
        """Return the prior log-odds of facts of ``kinds``, (n_facts,)."""
        return np.array([self.prior_of.get(kind, self.prior) for kind in kinds])


def fit_stack(
    probabilities: Array,
    truth: Array,
    kinds: Sequence[str],
    judges: Sequence[str],
    groups: Sequence[int] | Places,
) -> PanelStack:
    """Fit weights to ``probabilities`` (n_facts, n_judges), NaN where there is no answer.

    ``truth`` (n_facts,) of each fact is 1 or 0; ``groups`` (n_facts,) number the pictures, or
    items, from 0.

    A judge without any answer weighs nothing. Raises ``ValueError`` without answers to facts that
    hold and to facts that do not.
    """
    odds = log_odds(checked_probabilities(probabilities))
    rows = ~np.isnan(odds).all(1)
    held = np.asarray(truth, float)
    if not ((held[rows] == 1.0).any() and (held[rows] == 0.0).any()):
        raise ValueError("answers to facts that hold and to facts that do not are needed")
    overall, of_kind = prior_log_odds(held, kinds)
    names = tuple(of_kind)
    prior = np.array([of_kind[kind] for kind in kinds])
    there = np.array(list(kinds))[:, None] == np.array(names)[None, :]
    terms = [_scale(column, there, held) for column in odds.T]
    evidence = np.stack(
        [
            np.where(np.isnan(column), 0.0, _design(column, there) @ term - prior)
            if term is not None
            else np.zeros(len(column))
            for column, term in zip(odds.T, terms, strict=True)
        ],
        axis=1,
    )
    known = (evidence[rows], held[rows], prior[rows])
    folds = folds_of_groups(np.asarray(groups, np.intp), FOLDS)[rows]
    losses = {penalty: _held_out_loss(*known, folds, penalty) for penalty in PENALTIES}
    # The stronger of equally good ones.
    best = min(reversed(PENALTIES), key=losses.__getitem__)
    found = _weights(*known, best)
    k = len(names)
    return PanelStack(
        judges=tuple(
            JudgeScale(judge_id=judge, offset=0.0, slope=1.0, weight=0.0)
            if term is None
            else JudgeScale(
                judge_id=judge,
                offset=float(term[0]),
                slope=float(term[1]),
                offsets=dict(zip(names, term[2 : 2 + k].tolist(), strict=True)),
                slopes=dict(zip(names, term[2 + k :].tolist(), strict=True)),
                weight=float(found[1] + found[2 + at]),
            )
            for at, (judge, term) in enumerate(zip(judges, terms, strict=True))
        ),
        prior=overall,
        prior_of=of_kind,
        intercept=float(found[0]),
        penalty=best,
    )


def prior_log_odds(truth: Array, kinds: Sequence[str]) -> tuple[float, dict[str, float]]:
    """Return prior log-odds (nats): of all facts, and by kind.

    From ``truth`` (n_facts,) of 1 and 0; the share of a kind is drawn towards that of all by ten
    imaginary facts.
    """
    of_kind: Mapping[str, list[float]] = {kind: [] for kind in sorted(set(kinds))}
    for kind, holds in zip(kinds, truth.tolist(), strict=True):
        of_kind[kind].append(holds)
    share = (float(truth.sum()) + 0.5) / (len(truth) + 1.0)
    pulled = {
        kind: (sum(mine) + _POOLED_FACTS * share) / (len(mine) + _POOLED_FACTS)
        for kind, mine in of_kind.items()
    }
    found = log_odds(np.array([share, *pulled.values()]), 0.0).tolist()
    return found[0], dict(zip(pulled, found[1:], strict=True))


def folds_of_groups(groups: Places, folds: int, seed: int = 0) -> Places:
    """Return the fold of each row, from 0.

    Rows of one group, numbered from 0 in ``groups`` (n,), share theirs. Groups are dealt out
    evenly, in a random order.
    """
    n = int(groups.max(initial=-1)) + 1
    of_group = np.empty(n, np.intp)
    of_group[np.random.default_rng(seed).permutation(n)] = np.arange(n) % folds
    found: Places = of_group[groups]
    return found


def ridge_logistic(
    x: Array, y: Array, penalty: Array, centre: Array, offset: Array | float = 0.0
) -> Array:
    """Return the coefficients b (n_columns,) of a penalised logistic regression.

    Minimises ``−log-likelihood + ½ Σ penalty · (b − centre)²`` for ``y`` (n,) of 0 and 1 and ``x``
    (n, n_columns); ``offset`` (n,) is added to the log-odds. Every column needs a penalty above 0,
    so that separable data have a solution too.
    """
    from scipy.optimize import minimize

    def loss(b: Array) -> float:
        eta = offset + x @ b
        return float((np.logaddexp(0.0, eta) - y * eta).sum() + penalty @ (b - centre) ** 2 / 2)

    def slope(b: Array) -> Array:
        result: Array = x.T @ (expit(offset + x @ b) - y) + penalty * (b - centre)
        return result

    def curvature(b: Array) -> Array:
        p = expit(offset + x @ b)
        result: Array = (x * (p * (1.0 - p))[:, None]).T @ x + np.diag(penalty)
        return result

    start, tolerance = centre.astype(float), _TOLERANCE * len(y)
    found = minimize(loss, start, jac=slope, hess=curvature, method="trust-exact", tol=tolerance)
    coefficients: Array = found.x
    return coefficients


def _design(odds: Array, of_kind: NDArray[np.bool_]) -> Array:
    return np.column_stack([np.ones(len(odds)), odds, of_kind, of_kind * odds[:, None]])


def _scale(odds: Array, of_kind: NDArray[np.bool_], truth: Array) -> Array | None:
    """Return a, b, then each kind's offset to a and to b; None without answers."""
    known = ~np.isnan(odds)
    if not known.any():
        return None
    return _fit(_design(odds[known], of_kind[known]), truth[known], _OF_KIND)


def _weights(evidence: Array, truth: Array, prior: Array, penalty: float) -> Array:
    """Return c, w and d, (2 + n_judges,)."""
    x = np.column_stack([np.ones(len(evidence)), evidence.sum(1), evidence])
    return _fit(x, truth, penalty, prior)


def _fit(x: Array, truth: Array, penalty: float, offset: Array | float = 0.0) -> Array:
    """Return coefficients drawn weakly towards an offset of 0 and a slope of 1, others towards 0.

    Platt's targets stand for the labels: (n + 1) / (n + 2) and 1 / (m + 2) for n facts that hold
    and m that do not, so that a judge without an error on them is not certain for ever.
    """
    n = float(truth.sum())
    targets = np.where(truth == 1.0, (n + 1.0) / (n + 2.0), 1.0 / (len(truth) - n + 2.0))
    penalties = np.array([_WEAK, _WEAK, *[penalty] * (x.shape[1] - 2)])
    return ridge_logistic(x, targets, penalties, np.eye(x.shape[1])[1], offset)


def _held_out_loss(
    evidence: Array, truth: Array, prior: Array, folds: Places, penalty: float
) -> float:
    total = 0.0
    for fold in np.unique(folds):
        held = folds == fold
        if held.all():
            continue
        terms = _weights(evidence[~held], truth[~held], prior[~held], penalty)
        odds = prior[held] + terms[0] + evidence[held] @ (terms[1] + terms[2:])
        total += float((np.logaddexp(0.0, odds) - truth[held] * odds).sum())
    return total
