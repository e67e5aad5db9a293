"""Define the port of aggregators, list them by name, and learn by cross-validation over items.

In cross-validation what is learnt never comes from the item that is scored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.stacking import folds_of_groups
from scenewright.evals.studies.panel.table import AnswerTable, Mask, PanelStudyError, Places

FittedTo = Literal["nothing", "answers", "truth", "ratings"]
"""What an aggregator learns from: nothing, the judges' answers alone, facts of known truth, or
human ratings of images."""


@runtime_checkable
class Aggregator(Protocol):
    """Makes one probability a fact."""

    @property
    def name(self) -> str:
        """As in tables, for example ``dawid_skene``."""
        ...

    @property
    def fitted_to(self) -> FittedTo:
        """What it learns from."""
        ...

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """Probability that each fact of ``table`` holds, (n_facts,), NaN where nobody answered.

        ``learn`` has the same judges, and the truth or the ratings where they are needed; an
        aggregator that learns from answers alone may use them too. It never reads the truth or the
        ratings of ``table``. Deterministic. Raises ``PanelStudyError`` where it needs ``learn`` and
        there is none, or too little in it.
        """
        ...


@dataclass(frozen=True, slots=True)
class AggregatorEntry:
    """How an aggregator is made."""

    module: str
    """Module below ``scenewright.evals.studies.panel.aggregators``."""
    function: str
    """``() -> Aggregator``."""
    about: str
    """One line for lists, with its source."""


AGGREGATORS: dict[str, AggregatorEntry] = {
    "mean": AggregatorEntry("pooling", "mean", "mean probability of the judges who answered"),
    "majority": AggregatorEntry("pooling", "majority", "share of yes votes"),
    "median": AggregatorEntry("pooling", "median", "median of the probabilities"),
    "trimmed": AggregatorEntry(
        "pooling", "trimmed", "mean without the highest and the lowest (three judges or more)"
    ),
    "dawid_skene": AggregatorEntry(
        "pooling", "skene", "posterior by error rates learnt from the answers (Dawid & Skene, 1979)"
    ),
    "calibrated": AggregatorEntry(
        "pooling", "calibrated", "naive Bayes with error rates by kind of fact, measured on truth"
    ),
    "log_odds": AggregatorEntry(
        "pooling", "pooled_log_odds", "mean of the log-odds (Genest & Zidek, 1986)"
    ),
    "winsorized": AggregatorEntry(
        "pooling", "winsorized", "mean of the log-odds, the outermost set to the next inner ones"
    ),
    "glad": AggregatorEntry(
        "latent", "glad", "ability of judges, difficulty of questions (Whitehill et al., 2009)"
    ),
    "dawid_skene_kinds": AggregatorEntry(
        "latent", "by_kind", "Dawid & Skene with rates by kind of fact, partially pooled"
    ),
    "dawid_skene_questions": AggregatorEntry(
        "latent", "by_question", "Dawid & Skene with a prevalence of each question"
    ),
    "dawid_skene_discounted": AggregatorEntry(
        "latent", "discounted", "Dawid & Skene in which judges that err together share their weight"
    ),
    "mean_families": AggregatorEntry(
        "latent", "mean_of_families", "mean of the means of families: a family has one voice"
    ),
    "dawid_skene_families": AggregatorEntry(
        "latent", "families", "Dawid & Skene over the means of families"
    ),
    "same_question": AggregatorEntry(
        "pooling", "same_question", "mean drawn towards that of the item's other images"
    ),
    "stacked": AggregatorEntry(
        "fitted", "stacked", "calibration by judge and kind (Platt, 1999), then logistic stacking"
    ),
    "correlated": AggregatorEntry(
        "fitted", "correlated", "linear discriminant analysis of the judges' log-odds"
    ),
    "rated": AggregatorEntry("fitted", "rated", "weights of the judges fitted to human ratings"),
    "rated_questions": AggregatorEntry(
        "fitted", "rated_questions", "the same with the item's other images as one more voice"
    ),
}
"""Name → entry."""


def aggregator_of(name: str) -> Aggregator:
    """Return the aggregator of that name; raises ``PanelStudyError`` for an unknown one."""
    entry = AGGREGATORS.get(name)
    if entry is None:
        raise PanelStudyError(
            f"there is no aggregator {name!r}: use one of {', '.join(AGGREGATORS)}"
        )
    make: Callable[[], Aggregator] = getattr(
        import_module(f"scenewright.evals.studies.panel.aggregators.{entry.module}"), entry.function
    )
    return make()


def known_truth(learn: AnswerTable | None, name: str) -> AnswerTable:
    """``learn`` if it has facts that hold and facts that do not, else ``PanelStudyError``."""
    if learn is None or not ((learn.truth == 1.0).any() and (learn.truth == 0.0).any()):
        raise PanelStudyError(
            f"{name} learns from facts whose truth is known, some that hold and some that do not: "
            "give a table that has them, or take mean or dawid_skene"
        )
    return learn


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


def nothing_known(table: AnswerTable) -> Array:
    """NaN for every fact, (n_facts,)."""
    return np.full(len(table.facts), np.nan)


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


CLOSEST = 0.01
"""How near to 0 and 1 a probability is taken before its logarithm where nothing is learnt that
could scale it: a bare vote says no more than odds of 99 to 1, or one judge would outvote all."""


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
