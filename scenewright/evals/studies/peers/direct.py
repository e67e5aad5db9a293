"""Direct scoring from 0 to 10 (VIEScore, Ku et al., 2024): consistency and perceptual quality.

``O = sqrt(SC · PQ)``, each the least of its marks: consistency has one, quality two (naturalness,
and freedom from artifacts). Here ``O`` is divided by ten, so that it lies in [0, 1] as the other
metrics do. Aggregators combine the tenths of the judges' marks, mark by mark.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from scenewright.agents.panel.aggregation import Array
from scenewright.config.settings import Settings
from scenewright.core.facts import Answer, Fact
from scenewright.evals.metrics.base import MetricError, Sample
from scenewright.evals.metrics.options import switch
from scenewright.evals.studies.peers.panel_metric import MetricJudges, PanelMetric, metric_judges_of
from scenewright.evals.studies.peers.raters import (
    ARTIFACTS,
    CONSISTENCY,
    HIGHEST,
    NATURALNESS,
    mark_fact,
    rater_of,
)


class DirectScore(PanelMetric):
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "direct"

    def __init__(self, bench: MetricJudges, *, quality: bool = True) -> None:
        """``bench``: its judges answer the facts of :func:`~.raters.mark_fact`. ``quality``:
        whether perceptual quality counts; without it the score is SC / 10."""
        super().__init__(bench)
        self._quality = switch("quality", quality)

    def wording(self) -> str:
        """Whether quality counts."""
        return f"quality={self._quality}"

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """One mark for consistency, and two for quality."""
        said = " ".join(sample.prompt.split())
        if not said:
            raise MetricError("there is no text to rate the picture by")
        looks = (NATURALNESS, ARTIFACTS) if self._quality else ()
        return (mark_fact(CONSISTENCY, said), *(mark_fact(key) for key in looks))

    def reduce(self, facts: Sequence[Fact], likely: Array) -> float | None:
        """O / 10; None where a mark is missing."""
        if np.isnan(likely).any():
            return None
        consistency = float(likely[0])
        return math.sqrt(consistency * float(likely[1:].min())) if self._quality else consistency

    def noted(
        self, facts: Sequence[Fact], answers: Mapping[str, Sequence[Answer]], likely: Array
    ) -> dict[str, float | None]:
        """The aggregator's marks, 0 to 10: ``consistency``, ``naturalness``, ``artifacts``."""
        return {
            str(fact.key): None if np.isnan(tenth) else HIGHEST * float(tenth)
            for fact, tenth in zip(facts, likely, strict=True)
        }


def make(
    settings: Settings | None,
    quality: Any = True,
    judges: Any = None,
    profile: Any = None,
    aggregator: Any = "mean",
    folder: Any = None,
) -> DirectScore:
    """The metric of the registry; raises ``MetricError`` for a wrong option."""
    bench = metric_judges_of(
        DirectScore.name, settings, judges, profile, aggregator, folder, made_by=rater_of
    )
    return DirectScore(bench, quality=quality)
