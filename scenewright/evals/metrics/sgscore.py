"""SGScore: how much of a scene a picture shows, by the verdicts of a panel (Scene-Bench, Eq. 2–4).

``α·ObjectRecall + (1 − α)·RelationRecall``, in [0, 1] (the paper's tables show percent). A fact
that is void, because what it speaks of is absent, counts as not satisfied; one that nobody could
judge is left out. Facts of either protocol, or a set's own questions, make a card of the same
form, so that the score is one for all.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from scenewright.config.settings import Settings
from scenewright.core.facts import ScoreCard
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.metrics.options import real


class SGScore:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "sgscore"
    higher_is_better = True

    def __init__(self, alpha: float | None = None) -> None:
        """``alpha``: weight of the objects in [0, 1]; None: that of the card, which is the
        evaluation's. Raises ``MetricError`` for another value."""
        self._alpha = None if alpha is None else real("alpha", alpha, 0.0, 1.0)

    @property
    def version(self) -> str:
        """Number, and ``alpha`` where it is not the card's."""
        return "2" if self._alpha is None else f"2:alpha={self._alpha:g}"

    @property
    def needs(self) -> frozenset[Need]:
        """Verdicts of a panel."""
        return frozenset({"judges"})

    async def score(self, sample: Sample) -> MetricScore:
        """SGScore, with the recalls and the share of all facts as parts.

        Unscored if no judge looked, or if nobody could judge any of the objects or any of the
        relations; the parts that are known stay. Of single facts that nobody could judge the
        recalls are of the others.
        """
        card = sample.card
        if card is None:
            return MetricScore(value=None, reason="no judge looked at the picture")
        if self._alpha is not None:
            card = card.model_copy(update={"alpha": self._alpha})
        value = card.sgscore
        return MetricScore(
            value=value,
            parts={
                "objects": card.objects.value,
                "attributes": card.attributes.value,
                "relations": card.relations.value,
                "fact_recall": card.fact_recall,
                "expected_recall": card.expected_recall,
            },
            reason=_reason(card) if value is None or card.unscored else "",
            unscored=card.unscored,
        )


def make(settings: Settings | None, alpha: Any = None) -> SGScore:
    """The metric of the registry."""
    return SGScore(alpha)


def _reason(card: ScoreCard) -> str:
    if not card.verdicts:
        return "there are no facts to judge"
    unscored = [verdict for verdict in card.stated if verdict.state == "unscored"]
    if not unscored:
        return "no object and no relation was asked: see fact_recall for the other facts"
    (reason, _), *_ = Counter(v.reason or "no reason given" for v in unscored).most_common(1)
    return f"{len(unscored)} of {len(card.stated)} facts could not be judged: {reason}"
