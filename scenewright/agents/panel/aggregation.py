"""Mathematics of a panel: one probability per fact, agreement and calibration error.

Arrays ``probabilities`` have the shape (n_facts, n_judges): each judge's probability that the fact
holds, in [0, 1], and NaN where the judge gave no usable answer. Missing answers do not vote, and a
fact without answers gets NaN: it is unknown, neither likely nor unlikely.

In the models of judges' errors an answer of probability q is a vote that was yes with probability q
and no with probability 1 − q. So an answer of 0.5 says nothing, and answers of 0 and 1 are the
votes that the models were published for.

Answers of several judges are pooled by weighted means of probabilities (:func:`weighted_means`),
those of a choice option by option. Scores on different scales are pooled by :func:`mid_ranks`,
since one judge's 7 of 10 may be another one's 5.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Mask = NDArray[np.bool_]

_PRIOR_YOUDEN = 0.5
"""Se + Sp − 1 of the imaginary answers that smooth the rates. With 0, a panel of few facts would
explain all its answers by chance and call every fact as likely as the average."""
_LEAST_SMOOTHING = 1e-9
_LEAST_RATE = 1e-12
_CLEARLY = 0.05
"""Se + Sp − 1 this far below 0 makes a panel worse than chance. Closer to it the answers say
next to nothing, and an exchange of yes and no would only turn the prevalence round."""


@dataclass(frozen=True, slots=True, eq=False)
class DawidSkene:
    """Result of :func:`dawid_skene`."""

    probabilities: Array
    """Posterior probability that the fact holds, (n_facts,); NaN where nobody answered."""
    sensitivity: Array
    """P(yes | the fact holds) of each judge, (n_judges,); NaN for a judge without answers."""
    specificity: Array
    """P(no | the fact does not hold) of each judge, (n_judges,); NaN likewise."""
    prevalence: float
    """Share of the answered facts that hold; NaN if there are no answers at all."""
    iterations: int
    """Steps of EM."""
    converged: bool
    """Whether the last step moved no posterior by more than the tolerance."""
    log_likelihood: float
    """Log-likelihood of the answers (nats), without the prior; 0 if there are none."""

    def log_odds(self, probabilities: ArrayLike) -> Array:
        """Return the log-odds (nats) of further statements by the same judges, (n,).

        ``probabilities`` (n, n_judges) of judges whose rates were found here: those of the rivals
        of the facts, say. For the facts themselves it is what they got.
        """
        if np.isnan(self.prevalence):
            return np.full(len(np.asarray(probabilities)), np.nan)
        return calibrated_log_odds(
            probabilities,
            _inside(self.sensitivity),
            _inside(self.specificity),
            float(_inside(np.array(self.prevalence))),
        )


def _inside(rates: Array) -> Array:
    """Return ``rates`` kept off 0 and 1, which they reach by rounding; NaN kept."""
    kept: Array = np.clip(rates, _LEAST_RATE, 1.0 - _LEAST_RATE)
    return kept


def checked_probabilities(probabilities: ArrayLike) -> Array:
    """Return ``probabilities`` as a float array (n_facts, n_judges), a copy.

    Raises ``ValueError`` unless it has two dimensions and holds numbers in [0, 1] or NaN.
    """
    array = checked_numbers(probabilities, "probabilities", 2)
    if not np.all(np.isnan(array) | ((array >= 0.0) & (array <= 1.0))):
        raise ValueError("probabilities must lie in [0, 1], with NaN where there is no answer")
    return array


def checked_numbers(values: ArrayLike, name: str, dimensions: int) -> Array:
    """Return ``values`` as a float array of so many dimensions, a copy; ``name`` is for the error.

    Raises ``ValueError`` for another shape or for anything but real numbers.
    """
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise ValueError(f"{name} must be a rectangular array of numbers") from error
    if array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be real numbers, with NaN for a missing one")
    if array.ndim != dimensions:
        axes = "(n_facts, n_judges)" if dimensions == 2 else "(n_facts,)"
        raise ValueError(f"{name} must have the shape {axes}, not {array.shape}")
    return array.astype(np.float64, order="C")


def expit(log_odds: ArrayLike) -> Array:
    """Return ``1 / (1 + exp(−log_odds))``: probabilities of log-odds (nats); NaN stays."""
    # Imported here, since most runs pool by the mean and start without SciPy.
    from scipy.special import expit as scipy_expit

    result: Array = scipy_expit(np.asarray(log_odds, np.float64))
    return result


def log_odds(probabilities: Array, closest: Array | float = 1e-3) -> Array:
    """Return ``log(p / (1 − p))`` in nats with p kept within [closest, 1 − closest]; NaN kept."""
    inner = np.clip(probabilities, closest, 1.0 - closest)
    result: Array = np.log(inner) - np.log1p(-inner)
    return result


def weighted_means(
    values: Array, weights: ArrayLike | None = None, draws: NDArray[np.int64] | None = None
) -> Array:
    """Return the weighted mean of each row of ``values`` (n, n_judges), NaN left out, (n,).

    ``weights`` (n_judges,) or (n, n_judges), not negative; None: all alike. Where only judges
    without weight answered, they count alike; NaN without any value. With ``draws`` (n_draws,
    n_judges), how often each judge counts, the result is (n_draws, n).
    """
    there = ~np.isnan(values)
    given = np.ones(values.shape[1]) if weights is None else np.asarray(weights, np.float64)
    if given.shape not in (values.shape[1:], values.shape):
        raise ValueError(f"weights of the shape {given.shape} do not fit answers {values.shape}")
    if not (given >= 0.0).all():
        raise ValueError("weights must not be negative")
    known = np.where(there, values, 0.0)
    each = np.ones((1, values.shape[1]), np.int64) if draws is None else draws
    total, answers = sums(there * given, each), sums(there, each)
    with np.errstate(divide="ignore", invalid="ignore"):
        means: Array = np.where(
            total > 0.0,
            sums(known * given, each) / total,
            # Judges of no weight are better than no answer at all.
            sums(known, each) / answers,
        )
    return means[0] if draws is None else means


def sums(values: Array | Mask, draws: NDArray[np.int64]) -> Array:
    """Return the sum of each row of ``values`` (n, n_judges) for each draw, (n_draws, n)."""
    # Judge by judge, so that the same answers give the same sum to the last bit on any machine.
    total = np.zeros((len(draws), len(values)))
    for counts, column in zip(draws.T, values.T, strict=True):
        total += counts[:, None] * column
    return total


def mean_probability(probabilities: ArrayLike) -> Array:
    """Return the mean of the answers, (n_facts,); NaN without answers.

    Raises ``ValueError`` for bad ``probabilities`` (:func:`checked_probabilities`).
    """
    return weighted_means(checked_probabilities(probabilities))


def majority_share(probabilities: ArrayLike, threshold: float = 0.5) -> Array:
    """Return the share of yes votes, (n_facts,); NaN without answers.

    A judge votes yes above ``threshold`` and no below it. At exactly the threshold it is
    undecided, and its vote counts one half. Raises ``ValueError`` for bad ``probabilities``
    (:func:`checked_probabilities`) or a threshold outside [0, 1].
    """
    array = checked_probabilities(probabilities)
    if not 0.0 <= threshold <= 1.0:
        raise ValueError(f"the threshold is {threshold}: it must lie in [0, 1]")
    return weighted_means((np.sign(array - threshold) + 1.0) / 2.0)


def dawid_skene(
    probabilities: ArrayLike,
    *,
    iterations: int = 200,
    tolerance: float = 1e-6,
    smoothing: float = 2.0,
) -> DawidSkene:
    """Estimate the truth of facts and the judges' error rates together, without labels.

    Dawid & Skene (1979) for two classes, by expectation maximisation from the mean of the
    answers on. Judge j votes yes on a fact that holds with probability Se_j and no on one that
    does not with Sp_j, independently of the other judges; a share π of the facts holds. With
    answers q_ij for the votes, over the judges who answered,

    - E: log-odds of fact i ``= log(π / (1 − π)) + Σ_j log((q_ij·Se_j + (1 − q_ij)·(1 − Se_j))
      / (q_ij·(1 − Sp_j) + (1 − q_ij)·Sp_j))``;
    - M: Se_j, 1 − Sp_j and π are the expected shares of yes votes and of facts that hold.

    ``smoothing`` adds that many imaginary answers of each judge to facts that hold and as many
    to facts that do not (Beta priors). They follow the judge's overall rate of yes and a
    Se + Sp − 1 of 0.5, so that few facts neither make certainties nor explain all answers by
    chance; as many imaginary facts hold at the mean rate. A judge that always says yes soon
    weighs next to nothing.

    The likelihood cannot tell the truth from its opposite. The start, the prior and a last
    check assume a panel that is better than chance on average: where the mean of Se + Sp − 1
    over all answers comes out clearly negative (below −0.05), yes and no are exchanged. So a
    panel that is mostly wrong is taken at its word.

    Two judges leave the error rates undetermined, and judges that err together (the same
    base model, say) look better than they are: three or more independent judges and some
    tens of facts are wanted. With fewer, the prior and the starting point decide. Facts with the
    same answers get exactly the same posterior.

    Stops after ``iterations`` steps, or when a step moves no posterior by more than
    ``tolerance``. Deterministic. Raises ``ValueError`` for bad ``probabilities``
    (:func:`checked_probabilities`), fewer than one iteration, a negative tolerance or a
    smoothing that is not a finite number of at least 1e-9.
    """
    array = checked_probabilities(probabilities)
    if iterations < 1:
        raise ValueError(f"iterations is {iterations}: it must be 1 or more")
    if not tolerance >= 0.0:
        raise ValueError(f"the tolerance is {tolerance}: it must be 0 or more")
    if not _LEAST_SMOOTHING <= smoothing < np.inf:
        raise ValueError(f"the smoothing is {smoothing}: it must be finite and 1e-9 or more")

    votes = _votes(array)
    asked = votes.any((0, 2))
    posterior = np.full(len(array), np.nan)
    if not asked.any():
        unknown = np.full(array.shape[1], np.nan)
        return DawidSkene(posterior, unknown, unknown.copy(), float("nan"), 0, False, 0.0)
    votes = votes[:, asked]
    mean = weighted_means(array[asked])
    likely = np.stack([mean, 1.0 - mean])
    # Imaginary answers; half a yes and half a no keep a judge's overall rate off 0 and 1.
    counts = votes.sum(1) + 0.5
    yes, no = smoothing * counts / counts.sum(0)
    toward, away = _PRIOR_YOUDEN, 1.0 - _PRIOR_YOUDEN
    prior = np.array([[yes + toward * no, away * no], [away * yes, no + toward * yes]])
    share = (float(mean.sum()) + 0.5) / (len(mean) + 1.0)
    prior_share = smoothing * np.array([share, 1.0 - share])
    cast = [votes, votes]
    done, converged = 0, False
    while done < iterations and not converged:
        counts = np.stack([likely[state] @ cast[state] for state in (0, 1)]) + prior
        rates = counts / counts.sum(1, keepdims=True)
        total = likely.sum(1) + prior_share
        shares = total / total.sum()
        log = _log_joint(votes, rates, shares)
        before, likely = likely, expit(np.stack([log[0] - log[1], log[1] - log[0]]))
        cast = [votes * rate[:, None] / _evidence(votes, rate) for rate in rates]
        done += 1
        converged = bool(np.abs(likely[0] - before[0]).max() <= tolerance)

    answers = votes.sum((0, 1))
    youden = float(answers @ (rates[0, 0] - rates[1, 0]) / answers.sum())
    if youden < -_CLEARLY:
        likely, rates, shares = likely[::-1], rates[::-1], shares[::-1]
    posterior[asked] = likely[0]
    return DawidSkene(
        probabilities=posterior,
        sensitivity=np.where(answers > 0.0, rates[0, 0], np.nan),
        specificity=np.where(answers > 0.0, rates[1, 1], np.nan),
        prevalence=float(shares[0]),
        iterations=done,
        converged=converged,
        log_likelihood=float(np.logaddexp(*log).sum()),
    )


def calibrated_log_odds(
    probabilities: ArrayLike, sensitivity: ArrayLike, specificity: ArrayLike, prevalence: float
) -> Array:
    """Return the log-odds (nats) that facts hold, (n_facts,), by judges of known accuracy.

    Naive Bayes over judges that err independently of each other: the E step of
    :func:`dawid_skene` with ``sensitivity`` and ``specificity`` (n_judges,) of the judges'
    votes, measured on facts of known truth, and ``prevalence``, the share of facts that hold.
    For votes of 0 and 1 these are the optimal weights (Nitzan & Paroush, 1982). NaN where
    nobody answered; :func:`expit` gives the probability.

    A judge that never erred on n facts has no sensitivity of 1: smooth it, as in
    ``(hits + 0.5) / (n + 1)``, or one answer would outvote all others. Raises ``ValueError``
    for bad ``probabilities`` (:func:`checked_probabilities`), for rates of another length or
    not strictly between 0 and 1 (NaN is allowed for a judge that answers nothing), and for
    such a prevalence.
    """
    array = checked_probabilities(probabilities)
    if not 0.0 < prevalence < 1.0:
        raise ValueError(f"the prevalence is {prevalence}: it must lie between 0 and 1")
    votes = _votes(array)
    silent = ~votes.any((0, 1))
    checked = []
    for name, given in (("sensitivity", sensitivity), ("specificity", specificity)):
        rate = checked_numbers(given, name, 1)
        if rate.shape != array.shape[1:]:
            raise ValueError(f"{name} has {len(rate)} entries for {array.shape[1]} judges")
        rate[silent & np.isnan(rate)] = 0.5
        if not np.all((rate > 0.0) & (rate < 1.0)):
            raise ValueError(f"{name} must lie strictly between 0 and 1: smooth the counts")
        checked.append(rate)
    se, sp = checked
    rates = np.array([[se, 1.0 - se], [1.0 - sp, sp]])
    log = _log_joint(votes, rates, np.array([prevalence, 1.0 - prevalence]))
    log_odds: Array = np.where(votes.any((0, 2)), log[0] - log[1], np.nan)
    return log_odds


def _votes(array: Array) -> Array:
    """Return the probabilities that each vote was yes and was no, (2, n_facts, n_judges).

    Both 0 where it is missing.
    """
    return np.nan_to_num(np.stack([array, 1.0 - array]))


def _evidence(votes: Array, rate: Array) -> Array:
    """Return P(answer) of votes with a ``rate`` (2, n_judges), (n_facts, n_judges).

    1 where it is missing.
    """
    result: Array = np.where(votes.any(0), votes[0] * rate[0] + votes[1] * rate[1], 1.0)
    return result


def _log_joint(votes: Array, rates: Array, shares: Array) -> Array:
    """Return log P(answers, fact holds) and log P(answers, fact fails), (2, n_facts).

    ``rates`` (2, 2, n_judges) are of the states and of yes and no: of each both are kept, since
    1 − rate may round to 0. ``shares`` (2,) are of facts that hold and that do not.
    """
    evidence = np.stack([_evidence(votes, rate) for rate in rates])
    result: Array = np.log(shares)[:, None] + np.log(evidence).sum(2)
    return result


def disagreement(probabilities: ArrayLike) -> Array:
    """Return the entropy (bits, 0 to 1) of the mean answer, (n_facts,).

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
    """Return Cohen's κ (1960) of two judges' votes, both (n_facts,) of 0, 1 or NaN.

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


def brier_score(probabilities: ArrayLike, labels: ArrayLike) -> float:
    """Return the mean squared error of probabilities (Brier, 1950), in [0, 1].

    ``probabilities`` and ``labels`` (1: the fact holds, 0: it does not), both (n_facts,);
    pairs with a NaN on either side are left out. NaN without pairs. Raises ``ValueError`` for
    other values or lengths that differ.
    """
    said, truth = _paired(probabilities, labels)
    return float(((said - truth) ** 2).mean()) if len(said) else float("nan")


def expected_calibration_error(
    probabilities: ArrayLike, labels: ArrayLike, bins: int = 10
) -> float:
    """Return the expected calibration error, in [0, 1] (Naeini et al., 2015, yes/no events).

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
    """Return both as vectors, without the pairs in which one is missing."""
    said = checked_numbers(probabilities, "probabilities", 1)
    said = checked_probabilities(said[:, None])[:, 0]
    truth = _checked_labels(labels, "labels")
    if said.shape != truth.shape:
        raise ValueError(f"{len(said)} probabilities and {len(truth)} labels: they must be paired")
    both = ~(np.isnan(said) | np.isnan(truth))
    return said[both], truth[both]


def mid_ranks(scores: Array) -> Array:
    """Return the mid-ranks of each column over its own answers, in (0, 1); NaN kept."""
    from scipy.stats import rankdata

    ranks = rankdata(scores, axis=0, nan_policy="omit") - 0.5
    result: Array = ranks / np.maximum((~np.isnan(scores)).sum(0), 1)
    return result
