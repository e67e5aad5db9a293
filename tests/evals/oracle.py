"""A judge that knows the truth and errs as it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.labelled_facts import LabelledFact

Choose = Callable[[Fact, bool], str | None]
"""From a fact and whether it holds to the option that is chosen; None: nothing usable."""


def right(fact: Fact, holds: bool) -> str:
    """What a judge without faults chooses."""
    if holds:
        return fact.expected
    if NO_RELATION in fact.options:
        return NO_RELATION
    return next(option for option in sorted(fact.options) if option != fact.expected)


@dataclass
class Oracle:
    """Goes by fact ids, which all variants of a question keep."""

    facts: Sequence[LabelledFact]
    choose: Choose = right
    name: str = "oracle"
    sure: float | None = 0.9
    local: bool = False
    seconds: float = 0.5
    pause: float = 0.0
    asked: list[tuple[str, ...]] = field(default_factory=list)
    failing: Callable[[int], bool] = lambda call: False
    under_way: int = 0
    most: int = 0

    @property
    def id(self) -> str:
        return f"oracle:{self.name}"

    @property
    def fingerprint(self) -> str:
        return f"fingerprint-of-{self.name}"

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability="verbalized", max_side=64, local=self.local)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.asked.append(tuple(fact.question for fact in facts))
        number = len(self.asked)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.pause)
            if self.failing(number):
                raise RuntimeError("the line is dead")
        finally:
            self.under_way -= 1
        truth = {known.fact.id: known.holds for known in self.facts}
        return [self._answer(fact, self.choose(fact, truth[fact.id])) for fact in facts]

    def _answer(self, fact: Fact, choice: str | None) -> Answer:
        if choice is None:
            return Answer(
                fact_id=fact.id,
                judge_id=self.id,
                state="unscored",
                reason="it would not say",
                seconds=self.seconds,
            )
        yes = choice == fact.expected
        said = None if self.sure is None else self.sure if yes else 1.0 - self.sure
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if yes else "no",
            choice=choice,
            probability=said,
            method=None if said is None else "verbalized",
            tokens_in=100,
            tokens_out=10,
            usd=0.001,
            seconds=self.seconds,
        )

    async def aclose(self) -> None:
        return
