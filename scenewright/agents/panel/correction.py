"""Scores without the errors that a panel is known to make.

A panel of sensitivity Se and specificity Sp confirms a share ``q = Se·π + (1 − Sp)·(1 − π)`` of
facts of which the share π holds. Rogan & Gladen (1978) turn it round:
``π = (q + Sp − 1) / (Se + Sp − 1)``.

Se and Sp are measured on facts that are asked, so asked facts alone are corrected; a void fact
stays void and counts as not satisfied, as in the score itself. The formula is right on average,
and may leave [0, 1] for the few facts of one picture: scores of one card are clipped, and means
over many pictures should be made of the formula (:func:`rogan_gladen`), not of clipped cards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import PanelCalibration
from scenewright.core.facts import CorrectedScores, FactKind, Recall, ScoreCard

LEAST_YOUDEN = 0.2
"""Smallest Se + Sp − 1 at which a correction is made. A panel nearer to guessing says so little
that the corrected score would be noise."""


def rogan_gladen(
    yes: ArrayLike,
    no: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    least: float = 0.0,
) -> Array:
    """How many facts hold where ``yes`` were confirmed and ``no`` denied, not clipped.

    ``(Sp·yes − (1 − Sp)·no) / (Se + Sp − 1)``: shares give shares, counts give counts. All
    arrays are broadcast together. ``Se + Sp − 1`` is taken as ``least`` where it is below that;
    infinite or NaN where it is 0.
    """
    se, sp = np.asarray(sensitivity, np.float64), np.asarray(specificity, np.float64)
    holding = sp * np.asarray(yes, np.float64) - (1.0 - sp) * np.asarray(no, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        result: Array = holding / np.maximum(se + sp - 1.0, least)
    return result


def corrected_scores(card: ScoreCard, measured: PanelCalibration) -> CorrectedScores:
    """The scores of ``card`` corrected for the errors of the panel that gave it.

    ``measured`` must be of the same judges and settings (:func:`card_correction` looks it up).
    A recall is None where the kind has no scored facts or ``Se + Sp − 1`` is below
    :data:`LEAST_YOUDEN`; SGScore and the share of all facts are None where a kind that they
    need is.
    """
    objects = _recall(card.objects, measured, "object")
    attributes = _recall(card.attributes, measured, "attribute")
    relations = _recall(card.relations, measured, "relation")
    score = None
    if not card.objects.total or not card.relations.total:
        score = relations if not card.objects.total else objects
    elif objects is not None and relations is not None:
        score = card.alpha * objects + (1.0 - card.alpha) * relations
    sizes = [_scored(recall) for recall in (card.objects, card.attributes, card.relations)]
    pairs = [
        (share, size)
        for share, size in zip((objects, attributes, relations), sizes, strict=True)
        if size
    ]
    every = None
    if pairs and all(share is not None for share, _ in pairs):
        every = sum((share or 0.0) * size for share, size in pairs) / sum(sizes)
    return CorrectedScores(
        objects=_clipped(objects),
        attributes=_clipped(attributes),
        relations=_clipped(relations),
        sgscore=_clipped(score),
        fact_recall=_clipped(every),
    )


def card_correction(card: ScoreCard, panel: Panel, judges: Sequence[str]) -> CorrectedScores | None:
    """:func:`corrected_scores` by the panel's calibration; None if it did not measure ``judges``
    (ids) together under these settings."""
    if panel.calibration is None:
        return None
    measured = panel.calibration.panel(judges, panel)
    return None if measured is None else corrected_scores(card, measured)


def _recall(recall: Recall, measured: PanelCalibration, kind: FactKind) -> float | None:
    rates = measured.rates(kind)
    if not _scored(recall) or rates.youden < LEAST_YOUDEN:
        return None
    holding = rogan_gladen(recall.yes, recall.no, rates.sensitivity, rates.specificity)
    return float(holding) / _scored(recall)


def _scored(recall: Recall) -> int:
    return recall.yes + recall.no + recall.void


def _clipped(value: float | None) -> float | None:
    return None if value is None else min(1.0, max(0.0, value))
