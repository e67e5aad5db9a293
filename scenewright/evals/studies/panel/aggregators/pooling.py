"""Combine answers without fitting: the aggregators of a run, pools, and shared questions.

The aggregators of a run are those of :mod:`scenewright.agents.panel.panel`; ``agreement`` weighs
the judges by their answers to the whole table, as an evaluation does.

``same_question`` draws an answer towards those to the same question about the item's other images:
``(n·p + pull·p̄) / (n + pull)``, with the mean p of the n judges who answered and the mean p̄ of
such means over the other images. Judges say yes too easily; an image that got a yes to everything
is worth less where others fail, since the question (or the prompt) is a difficult one. It uses no
truth and no rating. Where a question was asked about one image only, the mean is left as it is. It
moves all images of an item alike, so that it helps to compare images of different prompts, not two
images of one prompt.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np

from scenewright.agents.panel.aggregation import (
    Array,
    dawid_skene,
    majority_share,
    mean_probability,
    weighted_means,
)
from scenewright.agents.panel.agreement import agreement_weights
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import Calibration, CalibrationError
from scenewright.core.facts import FactKind
from scenewright.evals.studies.panel.aggregators.base import (
    Aggregator,
    known_truth,
    mean_of_others,
    questions_of,
)
from scenewright.evals.studies.panel.table import AnswerTable, PanelStudyError, Places


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


def _calibrated(table: AnswerTable, learn: AnswerTable | None) -> Array:
    """As a run's ``calibrated``, with rates from the labelled facts of ``learn``."""
    panel = Panel("calibrated", calibration=measured_on(known_truth(learn, "calibrated")))
    kinds: list[FactKind] = [fact.kind for fact in table.facts]
    return panel.combined(table.said, table.votes, kinds, table.judge_ids)


_CALIBRATIONS: WeakKeyDictionary[AnswerTable, Calibration] = WeakKeyDictionary()
"""Of tables that are there: what is compared is often learnt from one and the same."""


def measured_on(known: AnswerTable) -> Calibration:
    """Return the calibration that a run would have from the labelled facts of ``known``.

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


def _agreed(table: AnswerTable) -> Array:
    return weighted_means(table.said, agreement_weights(table.said, table.kinds.tolist()))


PULL = 1.0
"""The other images together count as much as one more judge."""


def drawn_to_others(said: Array, questions: Places, pull: float = PULL) -> Array:
    """Return the formula above for ``said`` (n_facts, n_judges), (n_facts,).

    NaN where nobody answered.

    ``questions`` (n_facts,) numbers the questions from 0.
    """
    own, n = mean_probability(said), (~np.isnan(said)).sum(1)
    others, _ = mean_of_others(own, questions)
    drawn = (n * own + pull * others) / np.maximum(n + pull, 1.0)
    result: Array = np.where(np.isnan(others) | (n == 0), own, drawn)
    return result


POOLS = (
    Aggregator("mean", "nothing", "mean probability of the judges who answered",
               lambda table, _: mean_probability(table.said)),
    Aggregator("majority", "nothing", "share of yes votes",
               lambda table, _: majority_share(table.votes)),
    Aggregator("median", "nothing", "median of the probabilities",
               lambda table, _: _reduced(table.said, np.nanmedian)),
    Aggregator("trimmed", "nothing",
               "mean without the highest and the lowest (three judges or more)",
               lambda table, _: _trimmed(table.said)),
    Aggregator("agreement", "answers",
               "mean with weights by squared agreement; the default of evaluations",
               lambda table, _: _agreed(table)),
    Aggregator("dawid_skene", "answers",
               "posterior by error rates learnt from the answers (Dawid & Skene, 1979)",
               lambda table, _: dawid_skene(table.said).probabilities),
    Aggregator("calibrated", "truth",
               "naive Bayes with error rates by kind of fact, measured on truth", _calibrated),
)  # fmt: skip
SAME_QUESTION = Aggregator(
    "same_question", "answers", "mean drawn towards that of the item's other images",
    lambda table, _: drawn_to_others(table.said, questions_of(table)),
)  # fmt: skip
