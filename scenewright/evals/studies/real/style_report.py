"""How well a style scorer tells photos from illustrations, before and after its training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from scenewright.evals.statistics.correlation import kendall, spearman
from scenewright.evals.statistics.figures import LEVEL, Array, Figure
from scenewright.evals.studies.real.style_data import LABELS, Label

RESAMPLES = 1000


class StyleFigures(BaseModel):
    """A scorer on held-out pictures; intervals are a bootstrap over pictures (95 %)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    accuracy: Figure
    """Share of pictures whose P(photo) lies on the right side of 1/2."""
    auc: Figure
    """Chance that a photo scores above an illustration; equal scores count half."""
    spearman: Figure
    """Rank correlation of P(photo) with the labels (the paper's Table 8)."""
    kendall: Figure
    """τ-b of the same."""


class StyleReport(BaseModel):
    """What stands beside a trained scorer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str
    """Names model, pictures, settings and library versions."""
    model: str
    """What was fine-tuned, as it was named."""
    weights: str
    """Digest of its files."""
    plan: dict[str, Any]
    """How it was trained."""
    pictures: dict[str, dict[str, int]]
    """Part → class → pictures."""
    repeated: int
    """Pictures that were left out since others are equal."""
    data: str
    """Digest of the pictures."""
    steps: int
    """Optimizer steps."""
    seconds: float
    """Time of the steps."""
    device: str
    """Where it was trained."""
    before: StyleFigures
    """On the held-out pictures, as the model was."""
    after: StyleFigures
    """On the same pictures, trained."""


def figures_of(scores: Sequence[float], labels: Sequence[Label], seed: int = 0) -> StyleFigures:
    """The figures of ``scores`` (P(photo)) of pictures with ``labels``.

    Raises ``ValueError`` for lists of different lengths, or without pictures.
    """
    if len(scores) != len(labels) or not scores:
        raise ValueError(f"{len(scores)} scores and {len(labels)} labels: give one each, or more")
    given = np.asarray(scores, np.float64)
    truth = np.array([label == LABELS[0] for label in labels], np.float64)
    picks = np.random.default_rng(seed).integers(0, len(given), (RESAMPLES, len(given)))

    def figure(statistic: Callable[[Array, Array], float]) -> Figure:
        value = statistic(given, truth)
        if np.isnan(value):
            return Figure(value=None, n=len(given))
        drawn = np.array([statistic(given[at], truth[at]) for at in picks])
        known = drawn[~np.isnan(drawn)]
        if len(given) < 2 or 2 * len(known) < len(drawn):
            return Figure(value=value, n=len(given))
        low, high = np.quantile(known, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
        return Figure(value=value, low=float(low), high=float(high), n=len(given))

    return StyleFigures(
        accuracy=figure(_accuracy),
        auc=figure(auc),
        spearman=figure(spearman),
        kendall=figure(kendall),
    )


def auc(scores: Array, truth: Array) -> float:
    """Area under the ROC curve by mean ranks (Mann–Whitney); NaN with one class alone."""
    from scipy.stats import rankdata

    positive = truth > 0.5
    n, m = int(positive.sum()), int((~positive).sum())
    if n == 0 or m == 0:
        return float("nan")
    ranks = rankdata(scores)
    return float((ranks[positive].sum() - n * (n + 1) / 2) / (n * m))


def _accuracy(scores: Array, truth: Array) -> float:
    return float(((scores > 0.5) == (truth > 0.5)).mean())
