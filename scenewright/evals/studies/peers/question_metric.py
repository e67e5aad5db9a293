"""What TIFA and DSG share: choices count, as in the published metrics, and what was left out of
the questions is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from scenewright.config.settings import user_cache
from scenewright.core.facts import Answer, Fact
from scenewright.evals.metrics.base import MetricError, MetricScore, Need, Sample
from scenewright.evals.metrics.options import text
from scenewright.evals.studies.peers.item_questions import QuestionSource
from scenewright.evals.studies.peers.panel_metric import FOLDER, MetricJudges, PanelMetric
from scenewright.providers.usage import ExpectedUsage, metered

COUNTS = ("choices", "probabilities")


class QuestionMetric(PanelMetric):
    """A metric of questions about an item."""

    asks_scenes = True
    """Its scores depend on what wrong options come from."""

    def __init__(self, bench: MetricJudges, asker: QuestionSource, count: str = "choices") -> None:
        """``count``: of :data:`COUNTS`; raises ``MetricError`` for another."""
        super().__init__(bench)
        self._asker = asker
        self._count = text("count", count, COUNTS)

    @property
    def needs(self) -> frozenset[Need]:
        """The picture; what is asked comes with the item."""
        return frozenset({"image"})

    def wording(self) -> str:
        """What is asked, and what counts."""
        return f"{self._count} {self._asker.fingerprint}"

    async def facts_for(self, sample: Sample) -> Sequence[Fact]:
        """What the asker chooses."""
        return (await self._asker.of(sample)).facts

    async def expected(self, sample: Sample, size: tuple[int, int]) -> dict[str, ExpectedUsage]:
        """Of judges and of the model that writes the questions; it does so once an item, so that
        further pictures of an item take less."""
        try:
            facts, writing = await self._asker.planned(sample)
        except MetricError:
            return {}
        found = self.looking(facts, size)
        for who, one in writing.items():
            found[who] = found.get(who, ExpectedUsage()) + one
        return found

    async def answered(
        self, sample: Sample
    ) -> tuple[tuple[Fact, ...], Mapping[str, Sequence[Answer]]]:
        """What was asked about a picture, and judge id → its answers in the same order: the
        results question by question. Raises ``MetricError`` as :meth:`facts_for` does."""
        facts = tuple(await self.facts_for(sample))
        return facts, await self._answers(sample, facts)

    async def score(self, sample: Sample) -> MetricScore:
        """As of any panel's metric; ``dropped`` more among the parts, how many of a model's
        questions could not be used, and ``dropped:WHY`` for each reason; ``questions_usd`` and
        ``questions_tokens`` are what writing took, once for all pictures of the item. Questions
        that could not be written are tried for each picture: what that took is the score's own."""
        with metered() as spent:
            found = await super().score(sample)
        if not found.parts:
            took = {
                "tokens_in": spent.usage.tokens_in,
                "tokens_out": spent.usage.tokens_out,
                "usd": spent.usd,
            }
            return found.model_copy(update=took)
        asked = await self._asker.of(sample)
        lost: dict[str, float | None] = {"dropped": float(sum(asked.dropped.values()))}
        lost |= {f"dropped:{why}": float(n) for why, n in sorted(asked.dropped.items())}
        if asked.source == "chat":
            lost |= {"questions_usd": asked.usd, "questions_tokens": float(asked.tokens)}
        return found.model_copy(update={"parts": {**found.parts, **lost}})

    async def _answers(self, sample: Sample, facts: tuple[Fact, ...]) -> Mapping[str, list[Answer]]:
        answers = await super()._answers(sample, facts)
        if self._count == "probabilities":
            return answers
        # Without its probability an answer is the choice that was made.
        return {
            judge: [answer.model_copy(update={"probability": None}) for answer in given]
            for judge, given in answers.items()
        }


def questions_folder(folder: Any) -> Path:
    """Where a metric keeps a model's questions: ``folder``, else the default of its answers."""
    return user_cache(FOLDER) if folder is None else Path(text("folder", folder)).expanduser()
