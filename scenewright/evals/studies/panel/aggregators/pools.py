"""Pools of log-odds: the geometric mean of the judges' odds, and one that no judge moves far.

The mean of log-odds is the logarithmic opinion pool with equal weights (Genest & Zidek, 1986): it
lets a sure judge count for more than an unsure one, where the mean of probabilities does not.
"""

from __future__ import annotations

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.agents.panel.stacking import log_odds
from scenewright.evals.studies.panel.aggregators.base import Aggregator
from scenewright.evals.studies.panel.aggregators.evidence import CLOSEST
from scenewright.evals.studies.panel.aggregators.plain import Plain
from scenewright.evals.studies.panel.table import AnswerTable


def pooled_log_odds() -> Aggregator:
    """Mean of the log-odds of the judges who answered."""
    return Plain("log_odds", "nothing", _pooled)


def winsorized() -> Aggregator:
    """Mean of the log-odds after the highest and the lowest of each fact were set to the next
    inner ones; the plain pool with fewer than three answers."""
    return Plain("winsorized", "nothing", _winsorized)


def _pooled(table: AnswerTable) -> Array:
    return _mean_odds(log_odds(table.said, CLOSEST))


def _winsorized(table: AnswerTable) -> Array:
    given = log_odds(table.said, CLOSEST)
    n = (~np.isnan(given)).sum(1)
    # NaN sorts last: the answers of a row are its first n.
    ordered = np.sort(given, axis=1)
    enough = n >= 3
    rows = np.flatnonzero(enough)
    ordered[rows, 0] = ordered[rows, 1]
    ordered[rows, n[rows] - 1] = ordered[rows, n[rows] - 2]
    return _mean_odds(ordered)


def _mean_odds(given: Array) -> Array:
    there = ~np.isnan(given)
    n = there.sum(1)
    means = np.where(there, given, 0.0).sum(1) / np.maximum(n, 1)
    result: Array = np.where(n > 0, expit(means), np.nan)
    return result
