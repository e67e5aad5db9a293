"""Abstention: what is gained where a panel keeps silent about facts that it is unsure of.

Facts are taken in the order of how sure the panel is of them. *Coverage* is the share that is
taken, *risk* the share of wrong verdicts among these (El-Yaniv & Wiener, 2010). Facts that it is
equally sure of come in random order: every figure is the mean over these orders, exactly, so that
no hidden order of the rows is paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array, mean_probability
from scenewright.agents.panel.panel import THRESHOLD
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.metric_evaluator import MetricEvaluator, ratio
from scenewright.evals.studies.panel.resampling import DECIMALS
from scenewright.evals.studies.panel.table import AnswerTable, Mask

_BLOCK = 4_000_000
"""Most numbers held in one array."""


@dataclass(frozen=True, slots=True, eq=False)
class Selective:
    """What abstention does, for every row of weights of a ruler but its halves."""

    risk: Array
    """Share of wrong verdicts with all facts taken, (rows,)."""
    area: Array
    """Area under the risk–coverage curve, (rows,): the mean of the risk over taking one fact, two,
    … and all of them (Geifman & El-Yaniv, 2017). That of a random order is ``risk``."""
    risk_at: Array
    """Share of wrong verdicts among the surest facts, (rows, coverages)."""


def selective(
    evaluator: MetricEvaluator, likely: Array, sureness: Array, coverages: Sequence[float]
) -> Selective:
    """The verdicts of ``likely`` (n_facts,) against the truth, the surest first by ``sureness``
    (n_facts,), each share of ``coverages`` in turn.

    Facts without a probability or without known truth are left out. Raises ``PanelStudyError``
    where nothing is left, and for a coverage that is not in (0, 1].
    """
    table = evaluator.table
    bad = [coverage for coverage in coverages if not 0.0 < coverage <= 1.0]
    if bad:
        raise PanelStudyError(f"a coverage of {bad[0]}: it must lie above 0 and up to 1")
    known = ~np.isnan(likely) & ~np.isnan(table.truth) & ~np.isnan(sureness)
    if not known.any():
        raise PanelStudyError(f"{table.name} has no judged facts of known truth")
    wrong = ((likely > THRESHOLD) != (table.truth == 1.0))[known].astype(float)
    group = np.unique(-np.round(sureness[known], DECIMALS), return_inverse=True)[1]
    order = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    items = table.item_of[known][order]
    rows = evaluator.weights[: 1 + evaluator.resamples]
    step = max(1, _BLOCK // len(order))
    parts = []
    for start in range(0, len(rows), step):
        weights = rows[start : start + step][:, items]
        taken, errors = (
            np.cumsum(np.add.reduceat(w, starts, axis=1), 1)
            for w in (weights, weights * wrong[order])
        )
        at = [_risk_at(taken, errors, coverage) for coverage in coverages]
        risk = ratio(errors[:, -1], taken[:, -1])
        parts.append((risk, _area(taken, errors), np.array(at).reshape(len(at), len(risk)).T))
    return Selective(*(np.concatenate(found) for found in zip(*parts, strict=True)))


def _area(taken: Array, errors: Array) -> Array:
    """From running sums over levels of sureness, (rows, levels)."""
    before, wrong = _before(taken), _before(errors)
    size = taken - before
    share = np.where(size > 0.0, (errors - wrong) / np.maximum(size, 1.0), 0.0)
    # With harmonic numbers H, Σ_{j ≤ n} (E + j·e) / (W + j) = n·e + (E − W·e)·(H(W + n) − H(W)).
    most = round(float(taken.max(initial=0.0)))
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, most + 1))])
    low, high = (np.rint(n).astype(np.intp) for n in (before, taken))
    parts = size * share + (wrong - before * share) * (harmonic[high] - harmonic[low])
    return ratio(parts.sum(1), taken[:, -1])


def _risk_at(taken: Array, errors: Array, coverage: float) -> Array:
    """Within the level where the coverage is reached, errors are spread evenly, (rows,)."""
    want = coverage * taken[:, -1]
    at = np.minimum((taken < want[:, None] - 1e-9).sum(1), taken.shape[1] - 1)
    rows = np.arange(len(want))
    start, earlier = _before(taken)[rows, at], _before(errors)[rows, at]
    part = ratio(want - start, taken[rows, at] - start)
    return ratio(earlier + part * (errors[rows, at] - earlier), want)


def margin_of(likely: Array) -> Array:
    """How far a probability is from ½, (n_facts,), from 0 to ½: to abstain below ½ − t is to
    abstain within [t, 1 − t]."""
    return np.abs(likely - 0.5)


def spread_of(table: AnswerTable) -> Array:
    """Disagreement of the judges about each fact, (n_facts,): standard deviation of their
    probabilities, from 0 to ½; 0 for one judge alone, NaN where nobody answered.

    The entropy of the mean would be no second rule: it orders facts as the mean's distance from ½
    does.
    """
    centre = mean_probability(table.said)
    spread: Array = np.sqrt(mean_probability((table.said - centre[:, None]) ** 2))
    return spread


def kept_by_margin(likely: Array, low: float) -> Mask:
    """Facts that are not within [low, 1 − low], (n_facts,); those without a probability are not
    kept."""
    with np.errstate(invalid="ignore"):
        kept: Mask = (likely < low - 1e-12) | (likely > 1.0 - low + 1e-12)
    return kept


def _before(values: Array) -> Array:
    return np.concatenate([np.zeros((len(values), 1)), values[:, :-1]], 1)
