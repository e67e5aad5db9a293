"""Asks judges behind an API sentinel pictures now and then, for a share of their questions."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence

from PIL import Image

from scenewright.agents.panel.panel import lead_of
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, out_of_vocabulary, unscored
from scenewright.evals.runner.drift.ledger import SentinelReply
from scenewright.evals.runner.drift.pictures import (
    SentinelPicture,
    digest_of_pictures,
    sentinel_pictures,
)
from scenewright.evals.runner.drift.sequential import place_of
from scenewright.providers.judge_calls import checked
from scenewright.providers.versions import versions_of

_COPIES = 2**20
"""Copies of a picture begin at a random number below, so that those of several processes and of an
evaluation that goes on differ."""


def is_watched(judge: Judge) -> bool:
    """Return whether the model behind ``judge`` can be exchanged unseen: weights on this machine
    and recorded answers cannot."""
    return not judge.caps.local


def askable(judge: Judge, picture: SentinelPicture) -> tuple[int, ...]:
    """Return the numbers of the questions about ``picture`` that ``judge`` can answer."""
    caps = judge.caps
    return tuple(
        at
        for at, fact in enumerate(picture.facts)
        if (caps.kinds is None or fact.kind in caps.kinds)
        and out_of_vocabulary(judge.id, caps.vocabulary, fact) is None
    )


class Sentinels:
    """Asks each judge a sentinel picture whenever its questions have earned one."""

    def __init__(self, judges: Iterable[Judge], share: float, limit: float | None = None) -> None:
        """``share``: sentinel questions for each question of the evaluation. ``limit``: seconds of
        a call."""
        self._pictures = sentinel_pictures()
        self._share, self._limit = share, limit
        self._judges = {
            judge.id: judge
            for judge in judges
            if share > 0.0
            and is_watched(judge)
            and any(askable(judge, picture) for picture in self._pictures)
        }
        self._earned = dict.fromkeys(self._judges, 0.0)
        self._number = {judge: secrets.randbelow(_COPIES) for judge in self._judges}

    def count(self, asked: Mapping[str, int]) -> None:
        """Count questions of the evaluation, judge → how many were put to it now."""
        for judge, n in asked.items():
            if judge in self._earned:
                self._earned[judge] += self._share * n

    async def due(self) -> AsyncIterator[SentinelReply]:
        """Ask what is due, and yield the replies; one that failed holds no places."""
        for name, judge in self._judges.items():
            while self._earned[name] > 0.0:
                number = self._number[name]
                at = number % len(self._pictures)
                numbers = askable(judge, self._pictures[at])
                if self._earned[name] < len(numbers):
                    break
                self._number[name] += 1
                self._earned[name] -= len(numbers)
                if numbers:
                    yield await self._asked(judge, at, numbers, number)

    async def _asked(
        self, judge: Judge, at: int, numbers: Sequence[int], copy: int
    ) -> SentinelReply:
        picture = self._pictures[at]
        facts = [picture.facts[n] for n in numbers]
        begun = time.time()
        image = await asyncio.to_thread(picture.copy, copy)
        answers = await _answers(judge, image, facts, self._limit)
        told = versions_of(answers)
        leads = (_lead(fact, answer) for fact, answer in zip(facts, answers, strict=True))
        return SentinelReply(
            judge=judge.id,
            fingerprint=judge.fingerprint,
            version=next(iter(told), ""),
            pictures=digest_of_pictures(),
            picture=at,
            # Several versions within one reply are no sample of either.
            places={}
            if len(told) > 1
            else {
                n: place_of(lead)
                for n, lead in zip(numbers, leads, strict=True)
                if lead is not None
            },
            at=begun,
            tokens_in=sum(answer.tokens_in for answer in answers),
            tokens_out=sum(answer.tokens_out for answer in answers),
            usd=sum(answer.usd for answer in answers),
        )


async def _answers(
    judge: Judge, image: Image.Image, facts: list[Fact], limit: float | None
) -> list[Answer]:
    """The judge's own answers, which no store keeps; failures as unscored ones."""
    try:
        async with asyncio.timeout(None if judge.caps.bounds_calls else limit):
            given: object = await judge.answer(image, facts)
    except Exception as error:
        return unscored(judge.id, facts, f"{type(error).__name__}: {error}")
    return checked(judge.id, facts, given)


def _lead(fact: Fact, answer: Answer) -> float | None:
    """Probability that the fact holds; that of a bare yes or no is 1 or 0."""
    found = lead_of(fact, answer)
    if found is None and answer.state in ("yes", "no"):
        return float(answer.state == "yes")
    return found
