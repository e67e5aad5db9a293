"""Scores of an image corrected for a panel's known errors.

A panel of sensitivity Se and specificity Sp confirms a share ``q = Se·π + (1 − Sp)·(1 − π)`` of
facts of which the share π holds; Rogan & Gladen (1978) invert it: ``π = (q + Sp − 1) / (Se + Sp −
1)``. Se and Sp are measured on facts that are asked, so only asked facts are corrected; a void fact
stays void and counts as not satisfied, as in the score itself. The formula is right on average, and
may leave [0, 1] for the few facts of one picture: scores of one card are clipped, and means over
many pictures should use the formula (:func:`rogan_gladen`), not clipped cards.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from scenewright.agents.panel.aggregation import Array
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import PanelCalibration
from scenewright.core.facts import FACT_KINDS, CorrectedScores, ScoreCard

LEAST_YOUDEN = 0.2
"""Smallest Se + Sp − 1 for a correction; closer to guessing, the corrected score would be noise."""


def rogan_gladen(
    yes: ArrayLike,
    no: ArrayLike,
    sensitivity: ArrayLike,
    specificity: ArrayLike,
    *,
    least: float = 0.0,
) -> Array:
    """Return how many facts hold if ``yes`` were confirmed and ``no`` denied; not clipped.

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
    """Return the scores of ``card``, corrected for its panel's errors.

    ``measured`` must be of the same judges and settings (:func:`card_correction` looks it up).
    A recall is None where the kind has no scored facts or ``Se + Sp − 1`` is below
    :data:`LEAST_YOUDEN`; SGScore and the share of all facts are None where a kind that they
    need is.
    """
    shares: list[float | None] = []
    sizes: list[int] = []
    recalls = (card.objects, card.attributes, card.relations)
    for kind, recall in zip(FACT_KINDS, recalls, strict=True):
        rates, size = measured.rates(kind), recall.yes + recall.no + recall.void
        share = None
        if size and rates.youden >= LEAST_YOUDEN:
            held = rogan_gladen(recall.yes, recall.no, rates.sensitivity, rates.specificity)
            share = float(held) / size
        shares.append(share)
        sizes.append(size)
    objects, attributes, relations = shares
    score = None
    if not card.objects.total or not card.relations.total:
        score = relations if not card.objects.total else objects
    elif objects is not None and relations is not None:
        score = card.alpha * objects + (1.0 - card.alpha) * relations
    every = None
    asked = [(share, size) for share, size in zip(shares, sizes, strict=True) if size]
    if asked and all(share is not None for share, _ in asked):
        every = sum((share or 0.0) * size for share, size in asked) / sum(sizes)
    scores = (objects, attributes, relations, score, every)
    return CorrectedScores(
        **{
            name: None if value is None else min(1.0, max(0.0, value))
            for name, value in zip(CorrectedScores.model_fields, scores, strict=True)
        }
    )


def card_correction(card: ScoreCard, panel: Panel, judges: Sequence[str]) -> CorrectedScores | None:
    """Return :func:`corrected_scores` by the panel's calibration.

    None if it did not measure ``judges`` (ids) together under these settings.
    """
    measured = panel.measured(judges)
    return None if measured is None else corrected_scores(card, measured)
