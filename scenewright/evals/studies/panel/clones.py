"""Larger panels from a small one: clones of its judges, as good as they are and no better.

Whether an aggregator breaks at a third or at half of its judges cannot be seen on three judges. A
clone of a judge gets the judge's own answers, dealt out anew among the facts of the same kind and
truth: its sensitivity and specificity by kind are those of the judge, exactly, and given truth and
kind its errors are independent of everyone's. So clones make a panel of better company than judges
who find the same facts hard would be: what breaks with clones breaks without them as well.

Where the truth is not known it is drawn for each fact from the Dawid–Skene posterior of the real
judges; the rates are then those that this model sees.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from scenewright.agents.panel.aggregation import dawid_skene
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable, JudgeColumn, Places

CLONE = "#"
"""Between a judge's id and the number of its clone, from 2."""


def enlarged(table: AnswerTable, n: int, seed: int = 0) -> AnswerTable:
    """``table`` with clones of its judges in turn, until there are ``n`` columns.

    A table that has as many judges is given back as it is. Deterministic. Raises
    ``PanelStudyError`` for fewer than one judge.
    """
    if n < 1:
        raise PanelStudyError(f"a panel of {n} judges: use 1 or more")
    real = len(table.judges)
    if n <= real:
        return table
    rng = np.random.default_rng([seed, n])
    classes = _classes(table, rng)
    columns = [at % real for at in range(n)]
    judges = [
        column if at < real else JudgeColumn(f"{column.id}{CLONE}{at // real + 1}")
        for at, column in ((at, table.judges[at % real]) for at in range(n))
    ]
    wide = table.with_judges(columns, judges)
    arrays = {name: getattr(wide, name).copy() for name in _OF_ANSWERS}
    for at in range(real, n):
        for rows in classes:
            dealt = rng.permutation(rows)
            for array in arrays.values():
                array[rows, at] = array[dealt, at]
    return replace(wide, **arrays)


_OF_ANSWERS = ("said", "votes", "asked", "usd", "seconds", "tokens")


def _classes(table: AnswerTable, rng: np.random.Generator) -> list[Places]:
    """Rows of one kind and one truth."""
    truth = table.truth.copy()
    lost = np.isnan(truth)
    if lost.any():
        likely = dawid_skene(table.said).probabilities
        drawn = rng.random(len(truth)) < np.where(np.isnan(likely), 0.5, likely)
        truth[lost] = drawn[lost]
    return [
        np.flatnonzero((table.kinds == kind) & (truth == holds))
        for kind in np.unique(table.kinds)
        for holds in (0.0, 1.0)
    ]
