"""What aggregators share: questions that several images have, kinds of facts, and the same judges
in two tables."""

from __future__ import annotations

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable, Mask, Places

CLOSEST = 0.01
"""How near to 0 and 1 a probability is taken before its logarithm where nothing is learnt that
could scale it: a bare vote says no more than odds of 99 to 1, or one judge would outvote all."""


def questions_of(table: AnswerTable) -> Places:
    """Number of each fact's question, (n_facts,): facts of one item with one id are the same
    question about its several images."""
    seen: dict[tuple[int, str], int] = {}
    return np.array(
        [
            seen.setdefault((int(item), fact.id), len(seen))
            for item, fact in zip(table.item_of, table.facts, strict=True)
        ],
        np.intp,
    )


def mean_of_others(values: Array, groups: Places) -> tuple[Array, Array]:
    """(mean of ``values`` over the others of each row's group, how many they are), both (n,).

    ``values`` (n,) with NaN left out; the mean is NaN where there are no others.
    """
    known = ~np.isnan(values)
    own = np.where(known, values, 0.0)
    n_groups = int(groups.max(initial=-1)) + 1
    n = np.bincount(groups, known, minlength=n_groups)[groups] - known
    sums = np.bincount(groups, own, minlength=n_groups)[groups] - own
    means: Array = np.where(n > 0, sums / np.maximum(n, 1), np.nan)
    return means, n.astype(float)


def same_judges(table: AnswerTable, learn: AnswerTable, name: str) -> AnswerTable:
    """``learn`` with its columns in the order of ``table``; ``PanelStudyError`` where one is
    lost."""
    lost = [judge for judge in table.judge_ids if judge not in learn.judge_ids]
    if lost:
        raise PanelStudyError(
            f"{name} learns how each judge errs, and {learn.name} has no answers of "
            f"{', '.join(lost)}: give a table of the same judges"
        )
    if table.judge_ids == learn.judge_ids:
        return learn
    return learn.with_judges([learn.judge_ids.index(judge) for judge in table.judge_ids])


def answered(table: AnswerTable) -> Mask:
    """Whether any judge answered, (n_facts,)."""
    found: Mask = (~np.isnan(table.said)).sum(1) > 0
    return found
