"""Estimate error rates, correlations of errors, calibration and prevalence of judges.

Every estimator takes ``weights`` (resamples, n_items), how often each item counts, and gives one
estimate a row: a row of ones gives the estimate itself, the counts of a bootstrap over items
(:func:`weights_of`) its spread. Missing answers are left out, never guessed. NaN is what cannot be
estimated.

- **Dawid and Skene's model** for many resamples at once: votes of a few judges make few different
  rows, and a resample changes how often each of them occurs, so one step of EM for all resamples is
  a few products of matrices.
- **Tetrachoric correlations** (Pearson, 1900): behind each of two yes/no variables is a normal one
  with a threshold; their correlation is that at which both are above as often as was counted.
  Unlike the correlation of the variables it can take any value whatever their rates are.
- **Model of families**: the latent class model with a random effect of Qu, Tan & Kutner (1996),
  shared by the judges of a family. Given the truth t, judge j of family f errs with probability
  ``Φ((h_jt + √r·u_f) / √(1 − r))``, where u_f is standard normal, so its error rate is Φ(h_jt) and
  the errors of two judges of a family have the tetrachoric correlation r. Families err
  independently; Dawid and Skene's model is r = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize
from scipy.sparse import csr_array
from scipy.special import log_ndtr, ndtr, ndtri

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.agents.panel.calibration import fit_temperature
from scenewright.agents.panel.rates import COLDEST, HOTTEST
from scenewright.agents.panel.scores import LEAST_YOUDEN, rogan_gladen
from scenewright.evals.studies.panel.metrics import ratio
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.table import AnswerTable, Mask, Places

_ITERATIONS = 500
_TOLERANCE = 1e-6
_SMOOTHING = 2.0
_PRIOR_YOUDEN = 0.5
_CLEARLY = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class RatesOf:
    """Rates of votes, one row a resample."""

    sensitivity: Array
    """P(yes | the fact holds), (resamples, n_judges); NaN where there are no votes."""
    specificity: Array
    """P(no | the fact does not hold), likewise."""


@dataclass(frozen=True, slots=True, eq=False)
class LatentRates(RatesOf):
    """What a model says of the judges without any truth."""

    prevalence: Array
    """Share of the facts that hold, (resamples,)."""


def vote_patterns(table: AnswerTable) -> tuple[Array, Array]:
    """Return the different rows of votes, and how often each occurs in each item.

    Votes (n_patterns, n_judges) are 1 yes, 0 no, NaN none, without the row where nobody voted;
    counts are (n_items, n_patterns).
    """
    voted = ~np.isnan(table.votes).all(1)
    votes = np.ascontiguousarray(table.votes[voted])
    # As text a row is one value to sort; 0 would end it.
    coded = np.nan_to_num(votes, nan=2.0).astype(np.uint8) + np.uint8(1)
    text = coded.view(f"S{coded.shape[1]}").reshape(-1)
    _, first, number = np.unique(text, return_index=True, return_inverse=True)
    per_item = np.zeros((table.n_items, len(first)))
    np.add.at(per_item, (table.item_of[voted], number.reshape(-1)), 1.0)
    return votes[first], per_item


def latent_rates(table: AnswerTable, weights: Array) -> LatentRates:
    """Estimate the rates of the judges' votes without any truth, for each row of ``weights``.

    ``weights`` (resamples, n_items): how often an item counts.

    The model, start, prior and guard against exchanged classes are those of
    :func:`scenewright.agents.panel.aggregation.dawid_skene` for votes of 0 and 1, and so are its
    limits: judges whose errors go together look better than they are.
    """
    patterns, per_item = vote_patterns(table)
    if not len(patterns):
        unknown = np.full((len(weights), len(table.judges)), np.nan)
        return LatentRates(unknown, unknown.copy(), unknown[:, 0].copy())
    counts = weights @ per_item

    yes, no = (patterns == 1.0).astype(float), (patterns == 0.0).astype(float)
    said_yes, said_no = counts @ yes, counts @ no
    holds = np.broadcast_to(yes.sum(1) / (yes + no).sum(1), counts.shape)
    share = (said_yes + 0.5) / (said_yes + said_no + 1.0)
    prior_yes = {
        True: _SMOOTHING * (share + _PRIOR_YOUDEN * (1.0 - share)),
        False: _SMOOTHING * (1.0 - _PRIOR_YOUDEN) * share,
    }
    n = counts.sum(1)
    prior_holds = ((counts * holds).sum(1) + 0.5) / (n + 1.0)
    for _ in range(_ITERATIONS):
        rates = []
        for true in (True, False):
            mass = counts * (holds if true else 1.0 - holds)
            up, every = mass @ yes + prior_yes[true], mass @ (yes + no) + _SMOOTHING
            rates.append(up / every)
        if_holds, if_fails = rates
        true_mass = (counts * holds).sum(1) + _SMOOTHING * prior_holds
        prevalence = true_mass / (n + _SMOOTHING)
        odds = (
            np.log(prevalence / (1.0 - prevalence))[:, None]
            + np.log(if_holds / if_fails) @ yes.T
            + np.log((1.0 - if_holds) / (1.0 - if_fails)) @ no.T
        )
        before, holds = holds, expit(odds)
        if np.abs(holds - before).max() <= _TOLERANCE:
            break
    answers = said_yes + said_no
    youden = (answers * (if_holds - if_fails)).sum(1) / np.maximum(answers.sum(1), 1.0)
    turned = (youden < -_CLEARLY)[:, None]
    sensitivity = np.where(turned, if_fails, if_holds)
    specificity = 1.0 - np.where(turned, if_holds, if_fails)
    return LatentRates(
        np.where(answers > 0.0, sensitivity, np.nan),
        np.where(answers > 0.0, specificity, np.nan),
        np.where(turned[:, 0], 1.0 - prevalence, prevalence),
    )


BOUND = 0.99
"""Largest correlation, up or down, that is told: with no joint error at all the equation has no
other solution."""
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = np.polynomial.legendre.leggauss(48)
_STEPS = 60
_CLOSE = 1e-10


def both_below(h: ArrayLike, k: ArrayLike, correlation: ArrayLike) -> Array:
    """P(X ≤ h and Y ≤ k) of standard normal X and Y, broadcast; finite h and k, |r| < 1.

    ``Φ(h)·Φ(k)`` plus the integral over t from 0 to arcsin r of
    ``exp(−(h² + k² − 2·h·k·sin t) / (2·cos² t)) / 2π`` (Drezner & Wesolowsky, 1990).
    """
    x, y = np.asarray(h, float), np.asarray(k, float)
    angle = np.arcsin(np.asarray(correlation, float))[..., None]
    t = angle * (_LEGENDRE_NODES + 1.0) / 2.0
    height = _density(x[..., None], y[..., None], t)
    found: Array = ndtr(x) * ndtr(y) + (height * _LEGENDRE_WEIGHTS).sum(-1) * angle[..., 0] / 2.0
    return found


def tetrachoric(first: ArrayLike, second: ArrayLike, both: ArrayLike, n: ArrayLike) -> Array:
    """Return the correlation (...,) behind counts in strata, all (..., strata).

    ``first`` and ``second`` are how often one and the other happened among ``n``, and ``both`` how
    often both did.

    Every stratum has thresholds of its own, from its counts; the correlation is the one at which
    the expected sum of ``both`` is what was counted. Strata in which one of the two happened never
    or always tell nothing; NaN where there are no others. Within ±0.99.
    """
    one, two, joint, size = (
        np.asarray(a, float) for a in np.broadcast_arrays(first, second, both, n)
    )
    with np.errstate(invalid="ignore", divide="ignore"):
        p, q = one / size, two / size
    told = (p > 0.0) & (p < 1.0) & (q > 0.0) & (q < 1.0)
    weight = np.where(told, size, 0.0)
    h, k = ndtri(np.where(told, p, 0.5)), ndtri(np.where(told, q, 0.5))
    wanted = np.where(told, joint, 0.0).sum(-1)
    scale = np.maximum(weight.sum(-1), _CLOSE)
    low = np.full(wanted.shape, -np.arcsin(BOUND))
    high = -low
    angle = np.zeros(wanted.shape)
    for _ in range(_STEPS):
        expected = (weight * both_below(h, k, np.sin(angle)[..., None])).sum(-1)
        gap = (expected - wanted) / scale
        low, high = np.where(gap < 0.0, angle, low), np.where(gap > 0.0, angle, high)
        slope = (weight * _density(h, k, angle[..., None])).sum(-1) / scale
        with np.errstate(invalid="ignore", divide="ignore"):
            step = angle - gap / slope
        # Newton where it stays within what is known, else halving: the sum grows with the angle.
        after = np.where((step > low) & (step < high), step, (low + high) / 2.0)
        moved = float(np.abs(after - angle).max(initial=0.0))
        angle = after
        if moved < _CLOSE:
            break
    result: Array = np.where(told.any(-1), np.sin(angle), np.nan)
    return result


def _density(h: Array, k: Array, angle: Array) -> Array:
    """Slope of :func:`both_below` in the arc sine of the correlation."""
    sine, cosine = np.sin(angle), np.cos(angle)
    power = (h**2 + k**2 - 2.0 * h * k * sine) / (2.0 * cosine**2)
    result: Array = np.exp(-power) / (2.0 * np.pi)
    return result


LEAST_JUDGES = 4
"""Judges that an unlabelled correlation needs. The model of three judges has as many parameters as
there are things to count: it explains any agreement by the rates."""
_CLOSEST = 1e-6
_BLOCK = 4_000_000
"""Numbers at a time in the equations of correlations."""


def weights_of(table: AnswerTable, resamples: int, seed: int = 0) -> Array:
    """Return a row of ones, and the counts of a bootstrap over items, (1 + resamples, n_items)."""
    counts = ItemResamples(table, resamples, seed).counts
    return np.concatenate([np.ones((1, table.n_items)), counts.reshape(-1, table.n_items)])


def labelled_rates(table: AnswerTable, weights: Array) -> RatesOf:
    """Shares of right votes among the facts of known truth."""
    right = table.votes == table.truth[:, None]
    there = ~np.isnan(table.votes)
    found = []
    for holds in (1.0, 0.0):
        rows = (table.truth == holds)[:, None]
        good, every = (_sums(table, part & rows, weights) for part in (right & there, there))
        found.append(ratio(good, every))
    return RatesOf(*found)


def error_correlations(table: AnswerTable, weights: Array) -> Array:
    """Return the tetrachoric correlation of the errors of each two judges given the truth.

    The shape is (resamples, n_judges, n_judges), with 1 on the diagonal.

    Facts that hold and facts that do not are strata, so error rates that differ between them make
    no correlation. NaN where one of the two never errs.
    """
    first, second, both, n = _pair_counts(table, weights)
    return _square(len(table.judges), _solved(first, second, both, n))


def error_phi(table: AnswerTable, weights: Array) -> Array:
    """Return Pearson's correlation of the errors (0 and 1) given the truth, likewise.

    Covariances and variances within the two strata, summed over them.
    """
    first, second, both, n = _pair_counts(table, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = np.where(n > 0.0, both - first * second / n, 0.0).sum(-1)
        spread = [np.where(n > 0.0, a - a**2 / n, 0.0).sum(-1) for a in (first, second)]
    return _square(len(table.judges), ratio(shared, np.sqrt(spread[0] * spread[1])))


def excess_correlations(table: AnswerTable, weights: Array, rates: LatentRates) -> Array:
    """Return the correlation of errors without any truth, as :func:`error_correlations`.

    That at which two judges say yes together as often as they do, if their rates and the prevalence
    are ``rates``.

    Biased: Dawid and Skene's model takes agreement for accuracy, so its rates explain a part of
    what correlated judges share, and correlations come out too small; the more so, the fewer
    judges there are beside them. All NaN below :data:`LEAST_JUDGES` judges.
    """
    j, k = _pairs(len(table.judges))
    if len(table.judges) < LEAST_JUDGES:
        return _square(len(table.judges), np.full((len(weights), len(j)), np.nan))
    there = ~np.isnan(table.votes)
    n = _sums(table, there[:, j] & there[:, k], weights)
    yes = np.where(there, table.votes, 0.0)
    together = ratio(_sums(table, yes[:, j] * yes[:, k], weights), n)
    true = rates.prevalence[:, None]
    share = np.stack([np.broadcast_to(part, n.shape) for part in (true, 1.0 - true)], axis=-1)
    said = np.stack([rates.sensitivity, 1.0 - rates.specificity], axis=-1)
    first, second = said[:, j] * share, said[:, k] * share
    # One sum over both strata is known, so it may stand in one of them; a judge whose rates are 0
    # or 1 in the other would take it away.
    inner: Mask = np.all((said > 0.0) & (said < 1.0), axis=-1)
    both = np.stack([together, np.zeros_like(together)], axis=-1)
    found = _solved(first, second, both, share)
    return _square(len(table.judges), np.where(inner[:, j] & inner[:, k], found, np.nan))


def temperatures(table: AnswerTable, weights: Array) -> Array:
    """Return the temperature of each judge on the facts of known truth, (resamples, n_judges).

    As :func:`~scenewright.agents.panel.calibration.fit_temperature`; NaN for bare votes.
    """
    found = np.full((len(weights), len(table.judges)), np.nan)
    for at in range(len(table.judges)):
        said = table.said[:, at]
        rows = np.flatnonzero(~np.isnan(table.truth) & (said > 0.0) & (said < 1.0))
        if not len(rows):
            continue
        truth = table.truth[rows]
        sharp = 1.0 / fit_temperature(said[rows], truth)
        inner = np.clip(said[rows], _CLOSEST, 1.0 - _CLOSEST)
        odds = np.log(inner) - np.log1p(-inner)
        held = expit(odds * sharp)
        parts = np.zeros((len(table.facts), 2))
        parts[rows] = np.stack([odds * (held - truth), odds**2 * held * (1.0 - held)], axis=1)
        slope, curve = _sums(table, parts, weights).T
        stepped = sharp - ratio(slope, curve)
        found[:, at] = 1.0 / np.clip(stepped, 1.0 / HOTTEST, 1.0 / COLDEST)
        found[0, at] = 1.0 / sharp
    return found


def calibration_errors(table: AnswerTable, weights: Array, bins: int = 10) -> Array:
    """Return the expected calibration error of each judge, (resamples, n_judges).

    See :func:`~scenewright.agents.panel.aggregation.expected_calibration_error`. It is never below
    0, so for few facts it is too large on average.
    """
    found = []
    for at in range(len(table.judges)):
        known = ~np.isnan(table.truth) & ~np.isnan(table.said[:, at])
        said = np.where(known, table.said[:, at], 0.0)
        gap = np.where(known, said - table.truth, 0.0)
        place = np.minimum((said * bins).astype(int), bins - 1)
        parts = np.where(place[:, None] == np.arange(bins), gap[:, None], 0.0)
        sums = _sums(table, parts, weights)
        found.append(ratio(np.abs(sums).sum(1), _sums(table, known[:, None], weights)[:, 0]))
    return np.stack(found, axis=1)


def corrected_prevalence(table: AnswerTable, weights: Array, rates: RatesOf) -> Array:
    """Return the share of facts that hold by each judge's votes, corrected by its ``rates``.

    The rates are measured elsewhere (Rogan & Gladen, 1978). (resamples, n_judges), not clipped to
    [0, 1].

    NaN for a judge with ``Se + Sp − 1`` below 0.2, whose votes say too little.
    """
    yes = _sums(table, table.votes == 1.0, weights)
    no = _sums(table, table.votes == 0.0, weights)
    every = yes + no
    held = rogan_gladen(yes, no, rates.sensitivity, rates.specificity)
    able = rates.sensitivity + rates.specificity - 1.0 >= LEAST_YOUDEN
    return np.where(able, ratio(held, every), np.nan)


def effective_judges(correlation: Array) -> Array:
    """Return how many independent judges would make a mean as exact, (resamples,).

    From Pearson's correlations (resamples, n_judges, n_judges): ``n / (1 + (n − 1)·r)`` with the
    mean r of all pairs (Kish's design effect), at most n.

    It is the n of judges whose errors are equally frequent. Pairs that are NaN are left out.
    """
    n = correlation.shape[-1]
    if n == 1:
        return np.ones(len(correlation))
    pairs = correlation[:, *_pairs(n)]
    known = ~np.isnan(pairs)
    mean = ratio(np.where(known, pairs, 0.0).sum(1), known.sum(1).astype(float))
    result: Array = n / (1.0 + (n - 1) * np.maximum(mean, 0.0))
    return result


def _pair_counts(table: AnswerTable, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Count errors of the first, of the second and of both judges, and facts that both answered.

    Each is (resamples, n_pairs, 2): facts that hold and facts that do not.
    """
    j, k = _pairs(len(table.judges))
    there = ~np.isnan(table.votes) & ~np.isnan(table.truth)[:, None]
    wrong = there & (table.votes != table.truth[:, None])
    together = there[:, j] & there[:, k]
    parts = (wrong[:, j] & together, wrong[:, k] & together, wrong[:, j] & wrong[:, k], together)
    first, second, both, n = (
        np.stack(
            [_sums(table, part & (table.truth == holds)[:, None], weights) for holds in (1.0, 0.0)],
            axis=-1,
        )
        for part in parts
    )
    return first, second, both, n


def _pairs(n: int) -> tuple[Places, Places]:
    first, second = np.triu_indices(n, 1)
    return first, second


def _solved(first: Array, second: Array, both: Array, n: Array) -> Array:
    """:func:`tetrachoric` in blocks of resamples."""
    size = max(1, _BLOCK // (48 * max(1, n.shape[1]) * 2))
    blocks = range(0, len(n), size)
    parts = [tetrachoric(*(a[at : at + size] for a in (first, second, both, n))) for at in blocks]
    return np.concatenate(parts) if parts else np.zeros(n.shape[:2])


def _square(n: int, pairs: Array) -> Array:
    found = np.ones((len(pairs), n, n))
    j, k = _pairs(n)
    found[:, j, k] = found[:, k, j] = pairs
    return found


def _sums(table: AnswerTable, parts: Array | Mask, weights: Array) -> Array:
    """Return the weighted sums over facts of each column of ``parts``.

    ``parts`` is (n_facts, columns), the result (resamples, columns).
    """
    n = len(table.facts)
    of_item = csr_array((np.ones(n), (table.item_of, np.arange(n))), (table.n_items, n))
    result: Array = weights @ (of_item @ parts.astype(float))
    return result


_HERMITE_NODES, _HERMITE_WEIGHTS = np.polynomial.hermite_e.hermegauss(21)
_LOG_WEIGHTS = np.log(_HERMITE_WEIGHTS / _HERMITE_WEIGHTS.sum())
_FARTHEST = 3.2
"""Of a threshold: rates below 0.0007 cannot be distinguished."""
_MOST_ROOT = 0.98
_STEP = 1e-4


@dataclass(frozen=True, slots=True, eq=False)
class FamilyRates(LatentRates):
    """What the model says, one row a resample."""

    correlation: Array
    """Tetrachoric correlation of errors within families, (resamples,); NaN where it cannot be
    told."""


def within_families(table: AnswerTable, correlation: Array) -> Array:
    """Return the matrix of error correlations that has one correlation within families.

    ``correlation`` is (resamples,); the result (resamples, n_judges, n_judges) is 0 between
    families and 1 on the diagonal.
    """
    same = np.array([[one == other for other in table.families] for one in table.families])
    found: Array = np.where(same, correlation[:, None, None], 0.0)
    # Where the model cannot be had nothing is known between families either.
    found[np.isnan(correlation)] = np.nan
    found[:, range(len(same)), range(len(same))] = 1.0
    return found


def family_rates(table: AnswerTable, weights: Array) -> FamilyRates:
    """Fit the model of families to votes, for each row of ``weights`` (resamples, n_items).

    One correlation for all families of two judges or more.

    Rows after the first are one step of Newton's method from the first row's solution (the one-step
    bootstrap). All NaN with fewer than :data:`LEAST_JUDGES` judges, without a family of two, or
    where nobody voted.
    """
    families = [
        [at for at, name in enumerate(table.families) if name == family]
        for family in dict.fromkeys(table.families)
    ]
    n_judges, n = len(table.judges), len(weights)
    patterns, per_item = vote_patterns(table)
    if n_judges < LEAST_JUDGES or max(map(len, families)) < 2 or not len(patterns):
        unknown = np.full((n, n_judges), np.nan)
        return FamilyRates(unknown, unknown.copy(), unknown[:, 0].copy(), unknown[:, 0].copy())
    model = _Model(patterns, families)

    # The first row alone decides where the others start.
    counts = weights[0] @ per_item
    start = model.start(latent_rates(table, weights[:1]))
    found = minimize(
        lambda at: model.loss(at, counts),
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=model.bounds,
        options={"maxiter": 500},
    ).x
    drawn = np.tile(found, (n, 1))
    drawn[1:] -= model.steps(found, weights[1:] @ per_item, counts)
    low, high = np.array(model.bounds).T
    drawn = np.clip(drawn, low, high)
    wrong = ndtr(drawn[:, : 2 * n_judges])
    answered: Mask = np.any(~np.isnan(table.votes), axis=0)
    return FamilyRates(
        np.where(answered, 1.0 - wrong[:, :n_judges], np.nan),
        np.where(answered, 1.0 - wrong[:, n_judges:], np.nan),
        expit(drawn[:, -2]),
        drawn[:, -1] ** 2,
    )


class _Model:
    """Likelihood of rows of votes.

    Parameters: h of every judge on facts that hold, then on facts that do not, the log-odds of the
    prevalence, and √r.
    """

    def __init__(self, patterns: Array, families: Sequence[Sequence[int]]) -> None:
        self._families = families
        self._n = patterns.shape[1]
        # Among facts that hold a no is wrong, among the others a yes.
        self._wrong = ((patterns == 0.0).astype(float), (patterns == 1.0).astype(float))
        self.bounds = [
            *[(-_FARTHEST, _FARTHEST)] * (2 * self._n),
            (-5.0, 5.0),
            (0.0, _MOST_ROOT),
        ]

    def start(self, rates: LatentRates) -> Array:
        """From Dawid and Skene's rates, a little less sure."""
        wrong = np.concatenate([1.0 - rates.sensitivity[0], 1.0 - rates.specificity[0]])
        h = ndtri(np.clip(np.nan_to_num(wrong, nan=0.5), 0.02, 0.98))
        share = float(np.clip(rates.prevalence[0], 0.02, 0.98))
        return np.array([*h, np.log(share / (1.0 - share)), 0.4])

    def loss(self, at: Array, counts: Array) -> tuple[float, Array]:
        """−log-likelihood a fact, and its slope."""
        value, scores = self._each(at)
        n = counts.sum()
        return -float(counts @ value) / n, -(counts @ scores) / n

    def steps(self, at: Array, resamples: Array, counts: Array) -> Array:
        """Return one step of Newton's method, (resamples, n_parameters)."""
        _, scores = self._each(at)
        slopes = np.empty((len(at), len(at)))
        for number in range(len(at)):
            step = np.zeros(len(at))
            step[number] = _STEP
            up, down = (counts @ self._each(at + side * step)[1] for side in (1.0, -1.0))
            slopes[number] = (up - down) / (2.0 * _STEP)
        # What is left at a bound is no error of the solution: steps are from its own slope on.
        gradient = resamples @ scores - (resamples.sum(1) / counts.sum())[:, None] * (
            counts @ scores
        )
        result: Array = gradient @ np.linalg.pinv((slopes + slopes.T) / 2.0, rcond=1e-8)
        return result

    def _each(self, at: Array) -> tuple[Array, Array]:
        """Return log P(votes) of each pattern, and its slope.

        Shapes: (n_patterns,) and (n_patterns, n_parameters).
        """
        n, root = self._n, at[-1]
        rest = np.sqrt(1.0 - root**2)
        classes, slopes = [], []
        for holds, wrong, right in (
            (True, self._wrong[0], self._wrong[1]),
            (False, self._wrong[1], self._wrong[0]),
        ):
            h = at[:n] if holds else at[n : 2 * n]
            total = np.zeros(len(wrong))
            slope = np.zeros((len(wrong), len(at)))
            for members in self._families:
                shared = len(members) > 1
                u = _HERMITE_NODES if shared else np.zeros(1)
                scale, load = (rest, root) if shared else (1.0, 0.0)
                z = (h[members][None, :] + load * u[:, None]) / scale
                up, down = log_ndtr(z), log_ndtr(-z)
                bad, good = wrong[:, members], right[:, members]
                each = bad @ up.T + good @ down.T + (_LOG_WEIGHTS if shared else 0.0)
                most = each.max(1, keepdims=True)
                parts = np.exp(each - most)
                whole = parts.sum(1, keepdims=True)
                value, posterior = (most + np.log(whole))[:, 0], parts / whole
                total += value
                log_height = -(z**2) / 2.0 - np.log(2.0 * np.pi) / 2.0
                rise, fall = np.exp(log_height - up), np.exp(log_height - down)
                pull = bad * (posterior @ rise) - good * (posterior @ fall)
                slope[:, (0 if holds else n) + np.array(members)] = pull / scale
                if shared:
                    # Of z in √r.
                    by_root = u[:, None] / rest + z * root / rest**2
                    slope[:, -1] += (
                        bad * (posterior @ (rise * by_root)) - good * (posterior @ (fall * by_root))
                    ).sum(1)
            classes.append(total)
            slopes.append(slope)
        share = expit(at[-2])
        joint = np.log(share) + classes[0], np.log1p(-share) + classes[1]
        value = np.logaddexp(*joint)
        held, absent = (np.exp(part - value)[:, None] for part in joint)
        result = held * slopes[0] + absent * slopes[1]
        result[:, -2] = held[:, 0] - share
        return value, result
