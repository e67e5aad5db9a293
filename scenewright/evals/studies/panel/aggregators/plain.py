"""The aggregators of a run (:mod:`scenewright.agents.panel.panel`), and their nearest relatives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import numpy as np

from scenewright.agents.panel.aggregation import (
    Array,
    dawid_skene,
    majority_share,
    mean_probability,
)
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import Calibration, CalibrationError
from scenewright.core.facts import FactKind
from scenewright.evals.studies.panel.aggregators.base import Aggregator, FittedTo, known_truth
from scenewright.evals.studies.panel.errors import PanelStudyError
from scenewright.evals.studies.panel.table import AnswerTable


@dataclass(frozen=True, slots=True)
class Plain:
    """An aggregator that is a function of the answers."""

    name: str
    fitted_to: FittedTo
    of: Callable[[AnswerTable], Array]

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """By the function; ``learn`` is not read."""
        return self.of(table)


def mean() -> Aggregator:
    """Mean probability."""
    return Plain("mean", "nothing", lambda table: mean_probability(table.said))


def majority() -> Aggregator:
    """Share of yes votes; a vote of no counts whatever its probability."""
    return Plain("majority", "nothing", lambda table: majority_share(table.votes))


def median() -> Aggregator:
    """Median of the probabilities; of an even number the middle between the two inner ones."""
    return Plain("median", "nothing", lambda table: _reduced(table.said, np.nanmedian))


def trimmed() -> Aggregator:
    """Mean without the highest and the lowest probability; the mean of fewer than three."""
    return Plain("trimmed", "nothing", lambda table: _trimmed(table.said))


def skene() -> Aggregator:
    """Dawid and Skene over all answers of the table at once."""
    return Plain("dawid_skene", "answers", lambda table: dawid_skene(table.said).probabilities)


def _reduced(said: Array, by: Callable[..., Array]) -> Array:
    with warnings.catch_warnings():
        # A row of NaN gives NaN, which is what is meant.
        warnings.simplefilter("ignore", RuntimeWarning)
        return by(said, axis=1)


def _trimmed(said: Array) -> Array:
    n = (~np.isnan(said)).sum(1)
    ends = _reduced(said, np.nanmin) + _reduced(said, np.nanmax)
    total = np.nansum(said, axis=1)
    plain = mean_probability(said)
    result: Array = np.where(n >= 3, (total - ends) / np.maximum(n - 2, 1), plain)
    return result


@dataclass(frozen=True, slots=True)
class _Calibrated:
    """As ``aggregation = "calibrated"`` of a run."""

    name: str = "calibrated"
    fitted_to: FittedTo = "truth"

    def combine(self, table: AnswerTable, learn: AnswerTable | None = None) -> Array:
        """With rates measured on the facts of ``learn`` whose truth is known."""
        measured = measured_on(known_truth(learn, self.name))
        panel = Panel("calibrated", calibration=measured)
        kinds: list[FactKind] = [fact.kind for fact in table.facts]
        return panel.combined(table.said, table.votes, kinds, table.judge_ids)


_CALIBRATIONS: WeakKeyDictionary[AnswerTable, Calibration] = WeakKeyDictionary()
"""Of tables that are there: what is compared is often learnt from one and the same."""


def measured_on(known: AnswerTable) -> Calibration:
    """The calibration that a run would have from the facts of ``known`` whose truth is known.

    Raises ``PanelStudyError`` where a judge answered none of them.
    """
    found = _CALIBRATIONS.get(known)
    if found is not None:
        return found
    labelled = [
        LabelledAnswer(
            image=known.images[fact.image].id,
            fact_id=fact.id,
            judge_id=judge.id,
            kind=fact.kind,
            probability=None if np.isnan(known.said[row, at]) else float(known.said[row, at]),
            holds=bool(known.truth[row]),
            vote=None if np.isnan(known.votes[row, at]) else bool(known.votes[row, at]),
        )
        for row, fact in enumerate(known.facts)
        if not np.isnan(known.truth[row])
        for at, judge in enumerate(known.judges)
    ]
    try:
        measured = calibrate(
            labelled, judges={judge.id: judge.fingerprint for judge in known.judges}, about="study"
        )
    except CalibrationError as error:
        raise PanelStudyError(f"nothing can be measured on {known.name}: {error}") from error
    _CALIBRATIONS[known] = measured
    return measured


def calibrated() -> Aggregator:
    """Naive Bayes with measured rates by kind of fact and temperature."""
    return _Calibrated()
