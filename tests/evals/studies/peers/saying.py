"""A judge that says what it is told to, and samples to ask it about."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PIL import Image

from scenewright.core.facts import Answer, Fact, ProbabilityMethod
from scenewright.core.ports.judge import Judge, JudgeCaps
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.studies.peers.panel_metric import MetricJudges
from scenewright.providers import AnswerStore
from tests.doubles import painted


@dataclass
class SayingJudge:
    """Gives each fact the probability of a rule: None is unscored, a truth value a bare vote."""

    rule: Callable[[Fact], float | bool | None]
    name: str = "a"
    probability: ProbabilityMethod = "logprob"
    asked: list[Fact] = field(default_factory=list)

    @property
    def id(self) -> str:
        return f"saying:{self.name}"

    @property
    def fingerprint(self) -> str:
        return f"saying-{self.name}-{self.probability}"

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability=self.probability, max_side=64, local=True)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.asked.extend(facts)
        return [self._answer(fact) for fact in facts]

    async def aclose(self) -> None:
        pass

    def _answer(self, fact: Fact) -> Answer:
        said = self.rule(fact)
        if said is None:
            return Answer(
                fact_id=fact.id, judge_id=self.id, state="unscored", reason="will not say"
            )
        state = "yes" if said is True or said > 0.5 else "no"
        if isinstance(said, bool):
            return Answer(fact_id=fact.id, judge_id=self.id, state=state)
        return Answer(
            fact_id=fact.id, judge_id=self.id, state=state, probability=said,
            method=self.probability,
        )  # fmt: skip


def bench(*judges: Judge, aggregator: str = "mean") -> MetricJudges:
    return MetricJudges(judges, AnswerStore(None), aggregator)


def sample(**item: object) -> Sample:
    """A grey picture of an item with a text."""
    about = Item.model_validate({"id": "x", "prompt": "a red dog", **item})
    image = painted((64, 64), (90, 90, 90))
    return Sample(item=about, prompt=about.prompt, image="f" * 64, load=lambda: image)
