"""Weights of judges by their agreement, without labels.

**Model.** A judge's answers, as log-odds that are centred within their kind of fact and scaled to
unit variance, are ``z_j = λ_j·t + e_j`` with one factor t that all share (Spearman, 1904): two
judges correlate by λ_j·λ_k. The loadings λ are fitted to the correlations by least squares; the
weights ``Σ⁻¹·λ`` make the weighted mean that correlates best with t. Weights are not negative, and
those far below the largest are 0.

**Copies.** Judges that correlate above :data:`COPIES` are one *cluster*: their mean has one vote,
as long as three clusters remain. Of two nobody knows which is right, and all judges count alike.

**Collusion.** Two judges that err together correlate beyond λ_j·λ_k. Where one factor does not
explain the correlations, the groups of a clustering are tried as groups with errors in common; so
is the panel without one judge, if that judge may be the better one (it agrees with the others,
only less than they do with each other). Answers alone do not tell which explanation is true: a
clique that agrees looks like judges that are right. So weights move away from equal ones only as
far as they promise a gain in correlation with t under *every* explanation that fits, above what
chance makes of few answers. Where they do not, all clusters count alike.

The floor follows: a clique gains no weight by its agreement, and a panel of like judges keeps
equal weights. The limit too: a colluding majority of different answers cannot be told from the
truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from scenewright.agents.panel.aggregation import (
    Array,
    Mask,
    binary_only,
    checked_probabilities,
    expit,
    vote_log_odds,
    weighted_means,
)
from scenewright.core.validation import FiniteModel

LEAST_JUDGES = 3
"""Two judges agree with each other and with nobody else: nothing distinguishes them."""
LEAST_FACTS = 100
"""Facts that two judges must both have answered for their correlation to count."""
COPIES = 0.9
"""Correlation above which judges are one cluster."""
RELATIVES = 0.7
"""The same for judges of one family."""
_SLACK = 0.03
"""Root mean square of the correlations' residuals that counts as a fit, beyond the best one."""
_GAINS = (0.01, 0.04)
"""Gains in correlation with the factor at which weights begin to count, and count fully."""
_CHANCE = 0.5
"""Standard errors of a correlation that are added to both."""
_CUT = 0.2
"""Share of the largest weight that is taken off all weights."""
_OUTSIDER = 0.4
"""A judge that agrees with the others at least this much as they with each other may be better."""
_ALIKE = 0.25
"""Relative standard deviation of the others' correlations up to which they are of one make."""
_LARGEST = 0.98
_STEPS = 1000


class JudgeWeights(FiniteModel):
    """Weights of a panel's judges, as files keep them."""

    judges: tuple[str, ...] = Field(min_length=1)
    """Ids."""
    weights: tuple[float, ...]
    """One a judge, not negative."""
    by_kind: dict[str, tuple[float, ...]] = Field(default_factory=dict)
    """Others for kinds of facts."""
    votes: tuple[str, ...] = ()
    """Judges that gave only votes of 0 and 1."""
    n_facts: int = Field(ge=0)
    """Facts that three judges or more answered when they were weighed."""
    trust: float = Field(ge=0.0, le=1.0)
    """Share of the fitted weights; the rest is equal ones."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        for row in (self.weights, *self.by_kind.values()):
            if len(row) != len(self.judges) or not min(row) >= 0.0 or not sum(row) > 0.0:
                raise ValueError("give one weight a judge, not negative, and one above 0")
        return self

    def of(self, judges: Sequence[str], kinds: Sequence[str]) -> Array:
        """Return the weights of ``judges`` on facts of ``kinds`` (n,), (n, n_judges).

        A judge that was not weighed has the mean weight.
        """
        rows: dict[str, list[float]] = {}
        for kind in set(kinds):
            weights = self.by_kind.get(kind, self.weights)
            known = dict(zip(self.judges, weights, strict=True))
            mean = sum(weights) / len(weights)
            rows[kind] = [known.get(judge, mean) for judge in judges]
        return np.array([rows[kind] for kind in kinds]).reshape(len(kinds), len(judges))

    def binary_only(self, judges: Sequence[str]) -> Mask:
        """Return which of ``judges`` gave only votes, (n_judges,)."""
        return np.array([judge in self.votes for judge in judges], bool)


def judge_weights(
    judges: Sequence[str], probabilities: ArrayLike, kinds: Sequence[str]
) -> JudgeWeights | None:
    """Return the weights of ``judges`` by their answers, None with too few (:func:`enough`).

    Arguments as :func:`fit_agreement`.
    """
    said = checked_probabilities(probabilities)
    if not enough(said):
        return None
    found = fit_agreement(said, kinds)
    return JudgeWeights(
        judges=tuple(judges),
        weights=tuple(found.weights.tolist()),
        by_kind={kind: tuple(row.tolist()) for kind, row in found.by_kind.items()},
        votes=tuple(j for j, votes in zip(judges, binary_only(said), strict=True) if votes),
        n_facts=found.n_facts,
        trust=found.trust,
    )


@dataclass(frozen=True, slots=True, eq=False)
class Agreement:
    """Result of :func:`fit_agreement`."""

    weights: Array
    """Of log-odds, (n_judges,), summing to 1."""
    by_kind: dict[str, Array]
    """The same for kinds of facts on which other weights promise a gain."""
    loadings: Array
    """Correlation of each judge with what all share, (n_judges,), by the plainest explanation that
    fits; NaN for a judge without enough answers."""
    clusters: tuple[tuple[int, ...], ...]
    """Columns by cluster; copies share one."""
    explanations: int
    """Number of explanations that fit the correlations; 1: one factor."""
    gain: float
    """Least gain in correlation with the factor that the fitted weights promise, over equal ones,
    under any of these."""
    trust: float
    """Share of the fitted weights in ``weights``; the rest is equal weights of the clusters."""
    n_facts: int
    """Facts that three judges or more answered."""

    def weights_of(self, kinds: Sequence[str]) -> Array:
        """Return the weights of answers to facts of ``kinds`` (n,), (n, n_judges)."""
        rows = [self.by_kind.get(kind, self.weights) for kind in kinds]
        return np.array(rows).reshape(len(rows), len(self.weights))

    def probabilities(self, probabilities: ArrayLike, kinds: Sequence[str]) -> Array:
        """Return the pooled probabilities of facts of ``kinds``, (n,); NaN without answers.

        ``probabilities`` (n, n_judges) of the same judges.
        """
        odds = vote_log_odds(checked_probabilities(probabilities))
        return expit(weighted_means(odds, self.weights_of(kinds)))


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


def fit_agreement(
    probabilities: ArrayLike, kinds: Sequence[str] = (), families: Sequence[str] = ()
) -> Agreement:
    """Return weights from the answers ``probabilities`` (n_facts, n_judges), NaN where missing.

    ``kinds`` (n_facts,) name the facts' kinds, ``families`` (n_judges,) the judges' families;
    empty: all alike, all unrelated. Without enough answers (:func:`enough`) all weights are equal.
    A judge that gives the same answer throughout, while others do not, weighs nothing.
    Deterministic. Raises ``ValueError`` for bad probabilities or names of another number.
    """
    said = checked_probabilities(probabilities)
    n, judges = said.shape
    of_fact, of_judge = list(kinds) or [""] * n, list(families) or [str(at) for at in range(judges)]
    if len(of_fact) != n or len(of_judge) != judges:
        raise ValueError("give one kind a fact and one family a judge")
    odds = vote_log_odds(said)
    names, groups = np.unique(of_fact, return_inverse=True)
    found = _fitted(odds, groups, of_judge, None)
    by_kind: dict[str, Array] = {}
    # Where all facts together promise no gain, one of their kinds would do so by chance.
    for at, name in enumerate(names.tolist() if len(names) > 1 and found.trust > 0.0 else ()):
        rows = groups == at
        own = _fitted(odds[rows], np.zeros(rows.sum(), np.intp), of_judge, found)
        if own.trust > 0.0:
            by_kind[name] = own.weights
    return replace(found, by_kind=by_kind)


def one_factor(correlation: Array, free: Mask | None = None) -> Array:
    """Return loadings λ of one factor, (n_judges,): least squares of λ_j·λ_k to ``correlation``.

    ``free`` (n_judges, n_judges): pairs that are fitted; None: all. Loadings sum to at least 0.
    """
    n = len(correlation)
    fitted = ~np.eye(n, dtype=bool) if free is None else free & ~np.eye(n, dtype=bool)
    values, vectors = np.linalg.eigh(np.where(fitted, correlation, 0.0) + 0.3 * np.eye(n))
    loadings: Array = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.01))
    for _ in range(_STEPS):
        before = loadings
        size = fitted @ before**2
        towards = (np.where(fitted, correlation, 0.0) @ before) / np.maximum(size, 1e-9)
        # All at once, so that the order of the judges decides nothing; halved, so that it settles.
        loadings = np.clip((before + towards) / 2.0, -_LARGEST, _LARGEST)
        if np.abs(loadings - before).max() < 1e-9:
            break
    return loadings if loadings.sum() >= 0.0 else -loadings


@dataclass(frozen=True, slots=True, eq=False)
class _Explanation:
    """A model of the clusters' correlations."""

    loadings: Array
    free: Mask
    """Pairs whose correlation it explains; the others' errors go together."""
    misfit: float
    """Root mean square of the residuals of these."""

    @classmethod
    def of(cls, correlation: Array, free: Mask) -> _Explanation:
        loadings = one_factor(correlation, free)
        rest = (correlation - np.outer(loadings, loadings))[free]
        return cls(loadings, free, float(np.sqrt((rest**2).mean())) if rest.size else 0.0)

    def covariance(self, correlation: Array) -> Array:
        found = np.where(self.free, np.outer(self.loadings, self.loadings), correlation)
        np.fill_diagonal(found, 1.0)
        return found

    def weights(self, correlation: Array) -> Array:
        """Return Σ⁻¹λ, cut and summing to 1."""
        values, vectors = np.linalg.eigh(self.covariance(correlation))
        inverse = (vectors / np.maximum(values, 1.0 - _LARGEST)) @ vectors.T
        found: Array = np.maximum(inverse @ self.loadings, 0.0)
        found = np.maximum(found - _CUT * found.max(), 0.0)
        total = float(found.sum())
        return found / total if total > 0.0 else np.full(len(found), 1.0 / len(found))

    def quality(self, weights: Array, correlation: Array) -> float:
        """Return the correlation of the weighted mean with the factor."""
        variance = float(weights @ self.covariance(correlation) @ weights)
        return float(weights @ self.loadings) / math.sqrt(max(variance, 1e-9))


def _fitted(
    odds: Array, groups: NDArray[np.intp], families: Sequence[str], base: Agreement | None
) -> Agreement:
    """Return the fit to ``odds``, compared with equal weights of the clusters, or with ``base``."""
    judges = odds.shape[1]
    centred = centre_by_group(odds, groups)
    spread = root_mean_square(centred)
    active = np.flatnonzero(spread > 0.0)
    shared = int(((~np.isnan(odds)).sum(1) >= LEAST_JUDGES).sum())
    loadings = np.full(judges, np.nan)
    if not len(active):
        active = np.arange(judges)
    correlation, both = correlations(centred[:, active])
    clusters = tuple(
        tuple(int(active[at]) for at in cluster)
        for cluster in _judge_clusters(correlation, both, [families[at] for at in active.tolist()])
    )
    few = len(clusters) < LEAST_JUDGES
    if few:
        # Two clusters do not tell which of them is right: as many votes as judges, as in the mean.
        clusters = tuple((int(at),) for at in active)
    equal = _expand_cluster_weights(
        np.full(len(clusters), 1.0 / max(1, len(clusters))), clusters, judges
    )
    start = equal if base is None else base.weights
    plain = Agreement(start, {}, loadings, clusters, 1, 0.0, 0.0, shared)
    if few:
        return plain
    said = np.column_stack([weighted_means(centred[:, list(cluster)]) for cluster in clusters])
    scale = root_mean_square(said)
    correlation, both = correlations(said)
    known = both >= LEAST_FACTS
    np.fill_diagonal(known, False)
    if not (known.any(1).all() and known.sum() >= 2 * LEAST_JUDGES):
        return plain
    noise = 1.0 / np.sqrt(float(np.median(both[known])))
    fits = _explanations(correlation, known, noise)
    weights = np.mean([one.weights(correlation) for one in fits], axis=0)
    now = np.array([start[list(cluster)].sum() for cluster in clusters]) * scale
    now = now / now.sum() if now.sum() > 0.0 else np.full(len(clusters), 1.0 / len(clusters))
    tests = [*fits, *_outsiders(correlation, known, noise)]
    gain = min(one.quality(weights, correlation) - one.quality(now, correlation) for one in tests)
    low, high = (end + _CHANCE * noise for end in _GAINS)
    trust = float(np.clip((gain - low) / (high - low), 0.0, 1.0))
    for cluster, loading in zip(clusters, fits[0].loadings, strict=True):
        loadings[list(cluster)] = loading
    mixed = (trust * weights + (1.0 - trust) * now) / scale
    final = (
        start if trust == 0.0 else _expand_cluster_weights(mixed / mixed.sum(), clusters, judges)
    )
    return Agreement(final, {}, loadings, clusters, len(fits), float(gain), trust, shared)


def _explanations(correlation: Array, known: Mask, noise: float) -> list[_Explanation]:
    """Return what explains the correlations: one factor alone where it does, else with a clique."""
    alone = _Explanation.of(correlation, known)
    tried = [alone]
    n = len(correlation)
    groups = [{at} for at in range(n)]
    # The groups of a clustering by mean correlation, and what each leaves.
    cliques: dict[tuple[int, ...], None] = {}
    for a, b in _linkage(correlation, "average")[:, :2].astype(int).tolist():
        groups.append(groups[a] | groups[b])
        for each in (groups[-1], set(range(n)) - groups[-1]):
            if 2 <= len(each) < n:
                cliques[tuple(sorted(each))] = None
    for clique in cliques:
        free = known.copy()
        free[np.ix_(clique, clique)] = False
        if free.any():
            tried.append(_Explanation.of(correlation, free))
    limit = max(noise, min(one.misfit for one in tried)) + _SLACK
    return [alone] if alone.misfit <= limit else [one for one in tried if one.misfit <= limit]


def _linkage(similarity: Array, method: Literal["average", "complete"]) -> Array:
    """Return SciPy's clustering of the rows of ``similarity``, at most 1 between two of them."""
    from scipy.cluster.hierarchy import linkage

    result: Array = linkage(1.0 - similarity[np.triu_indices(len(similarity), 1)], method)
    return result


def _outsiders(correlation: Array, known: Mask, noise: float) -> list[_Explanation]:
    """Return explanations by which one judge may be better than the others, who err together."""
    found: list[_Explanation] = []
    n = len(correlation)
    for at in range(n if n > LEAST_JUDGES else 0):
        others = np.arange(n) != at
        if not known[at, others].all():
            continue
        rest = correlation[np.ix_(others, others)][np.triu_indices(n - 1, 1)]
        agrees, theirs = float(correlation[at, others].mean()), float(rest.mean())
        alike = float(rest.std()) <= _ALIKE * theirs
        less = _OUTSIDER * theirs <= agrees < theirs
        if alike and less and agrees > 3.0 * noise:
            free = np.zeros_like(known)
            free[at, others] = free[others, at] = True
            loadings = np.clip(correlation[at] / np.sqrt(agrees), -_LARGEST, _LARGEST)
            loadings[at] = min(_LARGEST, np.sqrt(agrees))
            found.append(_Explanation(loadings, free, 0.0))
    return found


def _judge_clusters(correlation: Array, both: Array, families: Sequence[str]) -> list[list[int]]:
    """Return the judges in clusters: complete linkage of those who answer alike."""
    from scipy.cluster.hierarchy import fcluster

    n = len(correlation)
    if n < 2:
        return [[at] for at in range(n)]
    same = np.array(families)[:, None] == np.array(families)[None, :]
    above = np.where(both >= LEAST_FACTS, correlation - np.where(same, RELATIVES, COPIES), -1.0)
    labels = fcluster(_linkage(above, "complete"), np.nextafter(1.0, 0.0), "distance")
    clusters: dict[int, list[int]] = {}
    for at, label in enumerate(labels.tolist()):
        clusters.setdefault(label, []).append(at)
    return list(clusters.values())


def _expand_cluster_weights(
    weights: Array, clusters: Sequence[Sequence[int]], judges: int
) -> Array:
    """Return each judge's share of the weight of its cluster, (n_judges,)."""
    found = np.zeros(judges)
    for weight, cluster in zip(weights.tolist(), clusters, strict=True):
        found[list(cluster)] = weight / len(cluster)
    return found


def centre_by_group(odds: Array, groups: NDArray[np.intp]) -> Array:
    """Return ``odds`` less the judge's mean over the facts of the same group; NaN kept."""
    found = odds.copy()
    for at in range(odds.shape[1]):
        there = ~np.isnan(odds[:, at])
        n = np.bincount(groups[there])
        sums = np.bincount(groups[there], odds[there, at])
        found[there, at] -= (sums / np.maximum(n, 1))[groups[there]]
    return found


def root_mean_square(values: Array) -> Array:
    """Return the root mean square of each column, (n_judges,); 0 for a constant one."""
    there = ~np.isnan(values)
    square = np.where(there, values, 0.0) ** 2
    found: Array = np.sqrt(square.sum(0) / np.maximum(there.sum(0), 1))
    return np.where(found > 1e-9, found, 0.0)


def correlations(centred: Array) -> tuple[Array, Array]:
    """Return correlations of columns over what both answered, and how much that is."""
    there = (~np.isnan(centred)).astype(float)
    values = np.nan_to_num(centred)
    square = (values**2).T @ there
    scale = np.sqrt(square * square.T)
    found = np.where(scale > 1e-12, values.T @ values / np.where(scale > 1e-12, scale, 1.0), 0.0)
    np.fill_diagonal(found, 1.0)
    return found, there.T @ there
