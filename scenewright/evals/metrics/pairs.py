"""Pairwise judging: which of two images shows a fact better.

Judges prefer positions, so every pair is asked twice, the second time with the images exchanged:
what both answers agree on counts, what changes with the order is a tie and marked as not steady
(Zheng et al., 2023, "Judging LLM-as-a-Judge with MT-Bench and Chatbot Arena", section 3.4,
conservative handling of position bias).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from PIL import Image

from scenewright.agents.judges.remote import FIRST, NEITHER, SECOND, RemoteJudge
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import nothing_drawn

Preference = Literal["first", "second", "tie", "unscored"]


@dataclass(frozen=True, slots=True)
class Comparison:
    """One judge's comparison of two images by one fact."""

    fact_id: str
    """The fact."""
    judge_id: str
    """The judge."""
    preferred: Preference
    """Preferred image; a tie also where the answer depended on the order."""
    probability: float | None
    """Probability that the first image is better, ties half, mean of both orders; None if unscored.
    """
    steady: bool | None
    """Whether both orders agreed; None if unscored."""
    reason: str = ""
    """Why it is unscored."""
    answers: tuple[Answer, ...] = ()
    """Answers in the given and the exchanged order, with their usage."""


async def compare(
    judge: RemoteJudge, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
) -> list[Comparison]:
    """Compare two images by each of ``facts``, in both orders at once.

    One comparison per fact, in order. A fact that one of the two calls does not answer is unscored
    with its reason, and so are all facts where nothing is drawn on one of the images.
    """
    if not facts:
        return []
    for image in (first, second):
        if empty := await asyncio.to_thread(nothing_drawn, image):
            return [Comparison(fact.id, judge.id, "unscored", None, None, empty) for fact in facts]
    given, exchanged = await asyncio.gather(
        judge.answer_pair(first, second, facts), judge.answer_pair(second, first, facts)
    )
    comparisons = []
    for fact, *both in zip(facts, given, exchanged, strict=True):
        lost = next((answer for answer in both if answer.choice is None), None)
        if lost is not None:
            found = Comparison(
                fact.id, judge.id, "unscored", None, None, lost.reason or "no answer"
            )
        else:
            side, share = _preference(both[0], FIRST, SECOND)
            other_side, other_share = _preference(both[1], SECOND, FIRST)
            steady = side == other_side
            preferred: Preference = side if steady else "tie"
            found = Comparison(fact.id, judge.id, preferred, (share + other_share) / 2, steady)
        comparisons.append(replace(found, answers=tuple(both)))
    return comparisons


def _preference(answer: Answer, first: str, second: str) -> tuple[Preference, float]:
    """Return the preferred image, and the probability that it is the first one, ties half.

    ``first`` and ``second``: what the images are called in this order.
    """
    sides: dict[str | None, Preference] = {first: "first", second: "second"}
    chances = answer.distribution or {answer.choice or "": 1.0}
    share = chances.get(first, 0.0) + chances.get(NEITHER, 0.0) / 2
    return sides.get(answer.choice, "tie"), share
