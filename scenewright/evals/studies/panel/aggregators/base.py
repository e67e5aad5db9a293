"""The port of aggregators, and those that a run has, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable

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
    "mean": AggregatorEntry("plain", "mean", "mean probability of the judges who answered"),
    "majority": AggregatorEntry("plain", "majority", "share of yes votes"),
    "median": AggregatorEntry("plain", "median", "median of the probabilities"),
    "trimmed": AggregatorEntry(
        "plain", "trimmed", "mean without the highest and the lowest (three judges or more)"
    ),
    "dawid_skene": AggregatorEntry(
        "plain", "skene", "posterior by error rates learnt from the answers (Dawid & Skene, 1979)"
    ),
    "calibrated": AggregatorEntry(
        "plain", "calibrated", "naive Bayes with error rates by kind of fact, measured on truth"
    ),
    "log_odds": AggregatorEntry(
        "pools", "pooled_log_odds", "mean of the log-odds (Genest & Zidek, 1986)"
    ),
    "winsorized": AggregatorEntry(
        "pools", "winsorized", "mean of the log-odds, the outermost set to the next inner ones"
    ),
    "glad": AggregatorEntry(
        "glad", "glad", "ability of judges, difficulty of questions (Whitehill et al., 2009)"
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
        "same_question", "same_question", "mean drawn towards that of the item's other images"
    ),
    "stacked": AggregatorEntry(
        "stacked", "stacked", "calibration by judge and kind (Platt, 1999), then logistic stacking"
    ),
    "correlated": AggregatorEntry(
        "gaussian", "correlated", "linear discriminant analysis of the judges' log-odds"
    ),
    "rated": AggregatorEntry("rated", "rated", "weights of the judges fitted to human ratings"),
    "rated_questions": AggregatorEntry(
        "rated", "rated_questions", "the same with the item's other images as one more voice"
    ),
}
"""Name → entry."""


def aggregator_of(name: str) -> Aggregator:
    """The aggregator of that name; raises ``PanelStudyError`` for an unknown one."""
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
    """Name → probabilities by each aggregator that can be used with ``learn``; others are left
    out."""
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
