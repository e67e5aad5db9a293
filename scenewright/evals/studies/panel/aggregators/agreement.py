"""Weigh the judges of a table by their agreement: the default, and two plain ways beside it.

:mod:`scenewright.agents.panel.agreement` has the methods. ``agreement`` is what an evaluation does
with the answers to all its pictures; ``squared_agreement`` and ``one_factor`` are without a floor
against collusion.
"""

from __future__ import annotations

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.agreement import (
    Agreement,
    factor_weights,
    fit_agreement,
    squared_agreement,
)
from scenewright.agents.panel.pooling import pooled
from scenewright.evals.studies.panel.aggregators.base import Aggregator
from scenewright.evals.studies.panel.table import AnswerTable


def agreement_of(table: AnswerTable) -> Agreement:
    """Return the weights of the judges of ``table``, by kind of fact where that pays."""
    return fit_agreement(table.said, table.kinds.tolist(), table.families)


def _agreed(table: AnswerTable) -> Array:
    return agreement_of(table).probabilities(table.said, table.kinds.tolist())


AGREED = (
    Aggregator("agreement", "answers",
               "weights by agreement, with a floor against collusion; the default of evaluations",
               lambda table, _: _agreed(table)),
    Aggregator("squared_agreement", "answers",
               "squared correlation with the weighted rest, iterated",
               lambda t, _: pooled(t.said, "yes_no", squared_agreement(t.said, t.kinds.tolist()))),
    Aggregator("one_factor", "answers", "weights of one factor over ranks (Spearman, 1904)",
               lambda t, _: pooled(t.said, "yes_no", factor_weights(t.said, t.kinds.tolist()))),
)  # fmt: skip
