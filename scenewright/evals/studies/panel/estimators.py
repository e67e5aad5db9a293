"""What is estimated of judges: error rates, correlations of errors, calibration, prevalence.

Every estimator takes ``weights`` (resamples, n_items), how often each item counts, and gives one
estimate a row: a row of ones gives the estimate itself, the counts of a bootstrap over items
(:func:`weights_of`) its spread. Answers that are missing are left out, never guessed. NaN is what
cannot be estimated.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.agents.panel.calibration import fit_temperature
from scenewright.agents.panel.intervals import LEAST_YOUDEN, rogan_gladen
from scenewright.agents.panel.rates import COLDEST, HOTTEST
from scenewright.evals.studies.panel.bivariate import tetrachoric
from scenewright.evals.studies.panel.resampling import ItemResamples
from scenewright.evals.studies.panel.skene_counts import LatentRates, RatesOf
from scenewright.evals.studies.panel.table import AnswerTable, Mask, Places

LEAST_JUDGES = 4
"""Judges that an unlabelled correlation needs. The model of three judges has as many parameters as
there are things to count: it explains any agreement by the rates."""
_CLOSEST = 1e-6
_BLOCK = 4_000_000
"""Numbers at a time in the equations of correlations."""


def weights_of(table: AnswerTable, resamples: int, seed: int = 0) -> Array:
    """A row of ones, and the counts of a bootstrap over items, (1 + resamples, n_items)."""
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
        found.append(_ratio(good, every))
    return RatesOf(*found)


def error_correlations(table: AnswerTable, weights: Array) -> Array:
    """Tetrachoric correlation of the errors of each two judges given the truth, (resamples,
    n_judges, n_judges), 1 on the diagonal.

    Facts that hold and facts that do not are strata, so error rates that differ between them make
    no correlation. NaN where one of the two never errs.
    """
    first, second, both, n = _pair_counts(table, weights)
    return _square(len(table.judges), _solved(first, second, both, n))


def error_phi(table: AnswerTable, weights: Array) -> Array:
    """Pearson's correlation of the errors (0 and 1) given the truth, likewise: covariances and
    variances within the two strata, summed over them."""
    first, second, both, n = _pair_counts(table, weights)
    with np.errstate(invalid="ignore", divide="ignore"):
        shared = np.where(n > 0.0, both - first * second / n, 0.0).sum(-1)
        spread = [np.where(n > 0.0, a - a**2 / n, 0.0).sum(-1) for a in (first, second)]
    return _square(len(table.judges), _ratio(shared, np.sqrt(spread[0] * spread[1])))


def excess_correlations(table: AnswerTable, weights: Array, rates: LatentRates) -> Array:
    """Correlation of errors without any truth, as :func:`error_correlations`: that at which two
    judges say yes together as often as they do, if their rates and the prevalence are ``rates``.

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
    together = _ratio(_sums(table, yes[:, j] * yes[:, k], weights), n)
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
    """:func:`~scenewright.agents.panel.calibration.fit_temperature` of each judge on the facts of
    known truth, (resamples, n_judges); NaN for bare votes.

    Rows after the first are one step of Newton's method in 1/T from the first row's solution
    (the one-step bootstrap), within the bounds of a temperature.
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
        stepped = sharp - _ratio(slope, curve)
        found[:, at] = 1.0 / np.clip(stepped, 1.0 / HOTTEST, 1.0 / COLDEST)
        found[0, at] = 1.0 / sharp
    return found


def calibration_errors(table: AnswerTable, weights: Array, bins: int = 10) -> Array:
    """:func:`~scenewright.agents.panel.aggregation.expected_calibration_error` of each judge,
    (resamples, n_judges). Never below 0, so of few facts it is too large on average."""
    found = []
    for at in range(len(table.judges)):
        known = ~np.isnan(table.truth) & ~np.isnan(table.said[:, at])
        said = np.where(known, table.said[:, at], 0.0)
        gap = np.where(known, said - table.truth, 0.0)
        place = np.minimum((said * bins).astype(int), bins - 1)
        parts = np.where(place[:, None] == np.arange(bins), gap[:, None], 0.0)
        sums = _sums(table, parts, weights)
        found.append(_ratio(np.abs(sums).sum(1), _sums(table, known[:, None], weights)[:, 0]))
    return np.stack(found, axis=1)


def corrected_prevalence(table: AnswerTable, weights: Array, rates: RatesOf) -> Array:
    """Share of the facts that hold by each judge's votes and its ``rates``, measured elsewhere
    (Rogan & Gladen, 1978), (resamples, n_judges); not clipped to [0, 1].

    NaN for a judge with ``Se + Sp − 1`` below 0.2, whose votes say too little.
    """
    yes = _sums(table, table.votes == 1.0, weights)
    no = _sums(table, table.votes == 0.0, weights)
    every = yes + no
    held = rogan_gladen(yes, no, rates.sensitivity, rates.specificity)
    able = rates.sensitivity + rates.specificity - 1.0 >= LEAST_YOUDEN
    return np.where(able, _ratio(held, every), np.nan)


def effective_judges(correlation: Array) -> Array:
    """How many independent judges would make a mean as exact, (resamples,), of Pearson's
    correlations (resamples, n_judges, n_judges): ``n / (1 + (n − 1)·r)`` with the mean r of all
    pairs (Kish's design effect), at most n.

    It is the n of judges whose errors are equally frequent. Pairs that are NaN are left out.
    """
    n = correlation.shape[-1]
    if n == 1:
        return np.ones(len(correlation))
    pairs = correlation[:, *_pairs(n)]
    known = ~np.isnan(pairs)
    mean = _ratio(np.where(known, pairs, 0.0).sum(1), known.sum(1).astype(float))
    result: Array = n / (1.0 + (n - 1) * np.maximum(mean, 0.0))
    return result


def _pair_counts(table: AnswerTable, weights: Array) -> tuple[Array, Array, Array, Array]:
    """Errors of the first and of the second, of both, and facts that both answered, each
    (resamples, n_pairs, 2): facts that hold and facts that do not."""
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
    """Weighted sums over facts of each column of ``parts`` (n_facts, columns), (resamples,
    columns)."""
    n = len(table.facts)
    of_item = csr_array((np.ones(n), (table.item_of, np.arange(n))), (table.n_items, n))
    result: Array = weights @ (of_item @ parts.astype(float))
    return result


def _ratio(above: Array, below: Array) -> Array:
    """``above / below``, NaN where that is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Array = np.where(below != 0.0, above / below, np.nan)
    return result
