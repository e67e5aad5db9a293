"""Pairwise judging: which of two pictures holds a fact better, asked in both orders.

A judge that is asked to compare has a place that it likes. Every pair is put to it twice, the
second time with the pictures exchanged; what both answers agree on counts, what changes with the
order is a tie and is told as unsteady. Source of the method: "Judging LLM-as-a-Judge with MT-Bench
and Chatbot Arena" (Zheng et al., 2023), section 3.4, conservative handling of position bias.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from PIL import Image

from scenewright.core.facts import Answer, Fact

FIRST, SECOND, NEITHER = "the first image", "the second image", "neither is better"
OPTIONS = (FIRST, SECOND, NEITHER)
WANTED = " Wanted: "
"""Precedes the wanted answer in a question that is not answered by yes."""

Preference = Literal["first", "second", "tie", "unscored"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one judge says of one fact of two pictures."""

    fact_id: str
    """The fact."""
    judge_id: str
    """The judge."""
    preferred: Preference
    """The picture that holds the fact better; a tie also where the order decided."""
    probability: float | None
    """Probability that the first picture holds it better, ties half, mean of both orders; none
    where it is unscored."""
    steady: bool | None
    """Whether both orders gave the same; none where it is unscored."""
    reason: str = ""
    """Why it is unscored."""
    answers: tuple[Answer, ...] = ()
    """The answers in the order given and exchanged, with what they took."""


@runtime_checkable
class ComparingJudge(Protocol):
    """A judge that can be shown two pictures at once."""

    @property
    def id(self) -> str:
        """``provider:model``."""
        ...

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> list[Answer]:
        """One answer a fact, in order: one of :data:`OPTIONS`, for the pictures in this order."""
        ...


async def compare(
    judge: ComparingJudge, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
) -> list[Comparison]:
    """Return which of two pictures holds each of ``facts`` better, asked in both orders at once.

    One comparison a fact, in order. A fact that one of the two calls leaves without an answer is
    unscored with its reason.
    """
    if not facts:
        return []
    given, exchanged = await asyncio.gather(
        judge.answer_pair(first, second, facts), judge.answer_pair(second, first, facts)
    )
    return [_compared(*both) for both in zip(facts, given, exchanged, strict=True)]


def pair_fact(fact: Fact) -> Fact:
    """Return ``fact`` as a question about two pictures, with :data:`OPTIONS`."""
    wanted = "" if fact.is_binary else f"{WANTED}{fact.expected}."
    return fact.model_copy(
        update={"question": f"{fact.question}{wanted}", "options": OPTIONS, "expected": FIRST}
    )


def _compared(fact: Fact, given: Answer, exchanged: Answer) -> Comparison:
    both = (given, exchanged)
    lost = next((answer for answer in both if answer.choice is None), None)
    if lost is not None:
        return Comparison(
            fact.id, given.judge_id, "unscored", None, None, lost.reason or "no answer", both
        )
    sides = (_side(given, FIRST, SECOND), _side(exchanged, SECOND, FIRST))
    steady = sides[0] == sides[1]
    shares = (_share(given, FIRST, SECOND), _share(exchanged, SECOND, FIRST))
    return Comparison(
        fact_id=fact.id,
        judge_id=given.judge_id,
        preferred=sides[0] if steady else "tie",
        probability=sum(shares) / 2,
        steady=steady,
        answers=both,
    )


def _side(answer: Answer, first: str, second: str) -> Literal["first", "second", "tie"]:
    if answer.choice == first:
        return "first"
    return "second" if answer.choice == second else "tie"


def _share(answer: Answer, first: str, second: str) -> float:
    """Probability that the picture called ``first`` in this order is better, ties half."""
    if answer.distribution is not None:
        chances = answer.distribution
        return chances.get(first, 0.0) + chances.get(NEITHER, 0.0) / 2
    return {first: 1.0, second: 0.0}.get(answer.choice or "", 0.5)
