"""Stacking (:mod:`scenewright.agents.panel.stacking`) fitted to truth.

As ``aggregation = "stacked"`` of a run, but for the prevalence: a run takes facts that hold and
facts that do not as equally likely beforehand; here each kind's is that of the facts learnt from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from scenewright.agents.panel.aggregation import Array, expit
from scenewright.agents.panel.stacking import PanelStack, fit_stack
from scenewright.evals.studies.panel.aggregators.base import Aggregator, FittedTo, known_truth
from scenewright.evals.studies.panel.aggregators.evidence import answered, same_judges
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable


@dataclass(frozen=True, slots=True)
class _Stacked:
    name: str = "stacked"
    fitted_to: FittedTo = "truth"

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """With scales and weights from ``learn``."""
        stack = stack_of(same_judges(table, known_truth(learn, self.name), self.name))
        kinds = table.kinds.tolist()
        evidence = stack.evidence(table.said, kinds, table.judge_ids)
        odds = stack.priors(kinds) + stack.intercept + np.nan_to_num(evidence).sum(1)
        result: Array = np.where(answered(table), expit(odds), np.nan)
        return result


def stack_of(learn: AnswerTable) -> PanelStack:
    """What the facts of ``learn`` whose truth is known tell of its judges."""
    known = ~np.isnan(learn.truth)
    try:
        return fit_stack(
            learn.said[known],
            learn.truth[known],
            learn.kinds[known].tolist(),
            learn.judge_ids,
            learn.item_of[known],
        )
    except ValueError as error:
        raise PanelStudyError(f"nothing can be learnt from {learn.name}: {error}") from error


def stacked() -> Aggregator:
    """Platt scaling by judge and kind, then logistic stacking."""
    return _Stacked()
