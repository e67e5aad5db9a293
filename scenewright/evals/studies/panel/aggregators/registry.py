"""Aggregators by name, and their use with another table to learn from or by cross-validation.

In cross-validation what is learnt never comes from the item that is scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from difflib import get_close_matches

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.aggregators.base import FOLDS, Aggregator, folds_of
from scenewright.evals.studies.panel.aggregators.fitted import FITTED
from scenewright.evals.studies.panel.aggregators.pooling import POOLS, SAME_QUESTION
from scenewright.evals.studies.panel.aggregators.selected import SELECTED
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError

AGGREGATORS: Mapping[str, Aggregator] = {
    one.name: one for one in (*POOLS, SAME_QUESTION, *FITTED, SELECTED)
}
"""Name → aggregator."""
REPLACED: Mapping[str, str] = {
    **dict.fromkeys(("log_odds", "mean_families"), "mean"),
    "winsorized": "trimmed",
    **dict.fromkeys(("squared_agreement", "one_factor"), "agreement"),
    **dict.fromkeys(
        ("glad", *(f"dawid_skene_{name}" for name in ("kinds", "questions", "discounted"))),
        "dawid_skene",
    ),
    "dawid_skene_families": "dawid_skene",
    "correlated": "stacked",
    "rated_questions": "rated",
}
"""Aggregator of version 1.0 that was never clearly better → what to use instead."""


def aggregator_of(name: str) -> Aggregator:
    """Return the aggregator of that name; raises ``PanelStudyError`` for an unknown one."""
    if name not in AGGREGATORS:
        raise PanelStudyError(unknown_aggregator(name))
    return AGGREGATORS[name]


def unknown_aggregator(name: str) -> str:
    """Return the error of an unknown ``name``, with what it may have meant."""
    if name in REPLACED:
        return f"the aggregator {name!r} is no longer there: use {REPLACED[name]!r}"
    close = get_close_matches(name, AGGREGATORS, 1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"unknown aggregator {name!r}: {meant}use one of {', '.join(AGGREGATORS)}"


def combined_by(
    names: Mapping[str, str] | tuple[str, ...], table: AnswerTable, learn: AnswerTable | None = None
) -> dict[str, Array]:
    """Return the probabilities by each aggregator that can be used with ``learn``.

    Others are left out.
    """
    found: dict[str, Array] = {}
    for name in names:
        try:
            found[name] = aggregator_of(name).combine(table, learn)
        except PanelStudyError:
            if name not in AGGREGATORS:
                raise
    return found


def out_of_fold(name: str, table: AnswerTable, folds: int = FOLDS, seed: int = 0) -> Array:
    """Probabilities (n_facts,) of the aggregator ``name``, each item's learnt from the others.

    An aggregator that learns from nothing or from answers alone sees the whole table at once: that
    is how it is used, and it reads no truth. Raises ``PanelStudyError`` for fewer than two items,
    and where the other items are not enough to learn from.
    """
    aggregator = aggregator_of(name)
    if aggregator.fitted_to in ("nothing", "answers"):
        return aggregator.combine(table)
    if table.n_items < 2:
        raise PanelStudyError(
            f"{name} learns from other items, and {table.name} has {table.n_items}: give a table "
            "to learn from"
        )
    fold = folds_of(table, folds, seed)
    found = np.full(len(table.facts), np.nan)
    for number in np.unique(fold):
        held = fold == number
        # Rows of a part keep their order.
        found[held[table.image_of]] = aggregator.combine(
            table.of_images(held), table.of_images(~held)
        )
    return found


def estimated(
    name: str,
    table: AnswerTable,
    learn: AnswerTable | None,
    *,
    folds: int = FOLDS,
    seed: int = 0,
) -> Array:
    """By ``learn`` where there is one that the aggregator can learn from, else out of fold.

    Raises ``PanelStudyError`` where neither can be done.
    """
    if learn is not None and aggregator_of(name).fitted_to in ("truth", "ratings"):
        with suppress(PanelStudyError):
            return aggregator_of(name).combine(table, learn)
    return out_of_fold(name, table, folds, seed)
