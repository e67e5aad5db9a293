"""Cross-validation by item: what is learnt never comes from the item that is scored."""

from __future__ import annotations

from contextlib import suppress

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.stacking import folds_of_groups
from scenewright.evals.studies.panel.aggregators.base import aggregator_of, nothing_known
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable, Places

FOLDS = 10


def folds_of(table: AnswerTable, folds: int = FOLDS, seed: int = 0) -> Places:
    """Fold of each image, (n_images,), from 0; images of one item share theirs.

    As many folds as there are items, if these are fewer. Raises ``PanelStudyError`` for fewer than
    two folds.
    """
    if folds < 2:
        raise PanelStudyError(f"{folds} folds: cross-validation needs 2 or more")
    return folds_of_groups(table.item_of_image, folds, seed)


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
    found = nothing_known(table)
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
