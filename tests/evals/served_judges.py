"""Judges whose served version changes while they are asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps
from scenewright.evals.runner.sentinels import sentinel_pictures
from tests.doubles import ScriptedJudge

REMOTE = "api:c"
SENTINEL_IDS = {fact.id for picture in sentinel_pictures() for fact in picture.facts}


@dataclass
class ServedJudge(ScriptedJudge):
    """Tells, at its n-th call (from 0), that the model ``serves(n)`` answers."""

    serves: Callable[[int], str] = lambda call: "v1"
    calls: int = 0
    usd: float = 0.001

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        model = self.serves(self.calls)
        self.calls += 1
        found = await super().answer(image, facts)
        return [answer.model_copy(update={"model": model}) for answer in found]


def changing(after: int, before: str = "v1", then: str = "v2") -> Callable[[int], str]:
    """``before`` for ``after`` calls, ``then`` from then on."""
    return lambda call: before if call < after else then


@dataclass
class RemoteJudge(ScriptedJudge):
    """Stands behind an API; from one of its sentinel questions on another model answers."""

    after: int = 10**9
    """Sentinel questions that the first model answers."""
    told: str = "v1"
    """Version that every reply names."""
    asked: int = 0
    sentinels: int = 0
    broken: bool = False

    @property
    def id(self) -> str:
        return REMOTE

    @property
    def fingerprint(self) -> str:
        return "api-judge-c"

    @property
    def caps(self) -> JudgeCaps:
        return replace(super().caps, local=False)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        mine = [fact for fact in facts if fact.id in SENTINEL_IDS]
        assert len(mine) in (0, len(facts)), "sentinel questions are asked by themselves"
        if mine and self.broken:
            self.sentinels += len(mine)
            raise RuntimeError("away")
        # The second model sees other things in the blur.
        self.name = "c" if self.sentinels < self.after else "other"
        self.sentinels += len(mine)
        self.asked += len(facts) - len(mine)
        found = await super().answer(image, facts)
        return [answer.model_copy(update={"model": self.told, "usd": 0.01}) for answer in found]

    def _answer(self, fact: Fact, quality: int) -> Answer:
        if fact.id not in SENTINEL_IDS:
            return super()._answer(fact, quality)
        # 0.1 to 0.9 by fact and model, always the same.
        number = sum(map(ord, fact.id + self.name)) * 7919 % 97
        chance = 0.1 + 0.8 * number / 96
        wrong = next(option for option in fact.options if option != fact.expected)
        return Answer(
            fact_id=fact.id, judge_id=self.id, state="yes" if chance > 0.5 else "no",
            choice=fact.expected if chance > 0.5 else wrong, probability=chance,
            method="logprob", tokens_in=10, tokens_out=1,
        )  # fmt: skip
