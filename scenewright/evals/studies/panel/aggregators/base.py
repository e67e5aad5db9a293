"""What an aggregator is, and what several of them need: folds of items, questions and judges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.stacking import folds_of_groups
from scenewright.evals.studies.panel.table import AnswerTable, Mask, PanelStudyError, Places

FittedTo = Literal["nothing", "answers", "truth", "ratings"]
"""What an aggregator learns from: nothing, the judges' answers alone, facts of known truth, or
human ratings of images."""


@dataclass(frozen=True, slots=True)
class Aggregator:
    """Makes one probability a fact."""

    name: str
    """As in tables, for example ``dawid_skene``."""
    fitted_to: FittedTo
    """What it learns from."""
    about: str
    """One line for lists, with its source."""
    of: Callable[[AnswerTable, AnswerTable | None], Array]
    """See :meth:`combine`."""

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """Probability that each fact of ``table`` holds, (n_facts,), NaN where nobody answered.

        ``learn`` has the same judges, and the truth or the ratings where they are needed; an
        aggregator that learns from answers alone may use them too. It never reads the truth or the
        ratings of ``table``. Deterministic. Raises ``PanelStudyError`` where it needs ``learn`` and
        there is none, or too little in it.
        """
        return self.of(table, learn)


def known_truth(learn: AnswerTable | None, name: str) -> AnswerTable:
    """``learn`` if it has facts that hold and facts that do not, else ``PanelStudyError``."""
    if learn is None or not learn.is_labelled:
        raise PanelStudyError(
            f"{name} learns from facts whose truth is known, some that hold and some that do not: "
            "give a table that has them, or take mean or dawid_skene"
        )
    return learn


FOLDS = 10


def folds_of(table: AnswerTable, folds: int = FOLDS, seed: int = 0) -> Places:
    """Fold of each image, (n_images,), from 0; images of one item share theirs.

    As many folds as there are items, if these are fewer. Raises ``PanelStudyError`` for fewer than
    two folds.
    """
    if folds < 2:
        raise PanelStudyError(f"{folds} folds: cross-validation needs 2 or more")
    return folds_of_groups(table.item_of_image, folds, seed)


def questions_of(table: AnswerTable) -> Places:
    """Return the number of each fact's question, (n_facts,).

    Facts of one item with one id are the same question about its several images.
    """
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
    """Return ``learn`` with its columns in the order of ``table``.

    ``PanelStudyError`` where one is lost.
    """
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
