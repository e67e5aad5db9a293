"""What every grader has in common: pairs that need no look, and pairs that were graded before.

- An answer that is :data:`~scenewright.evals.studies.xtc.lookup.MISSING` (the object or edge is not
  in the
  drawn graph) is 0, as Sec. 3.3.1 of XTC-Bench scores what was not drawn.
- Answers that are equal after folding case and spaces are 5, and so are those of which the best
  match counts (:attr:`~scenewright.evals.studies.xtc.base.AnswerPair.best`) if they share a part.
  Of the latter an answer that excludes all that is expected (*right of* where it is *left of*) is
  0. The paper asks its judge for those as well; a judge that gives them anything else is wrong by
  its own instruction.
- An answer without any words has no grade: it is no answer.

A pair that repeats is asked for once, also in calls that overlap. What failed is not kept.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence

from scenewright.core.vocabulary import excludes
from scenewright.evals.metrics.graph_matching.folding import folded
from scenewright.evals.studies.xtc.base import AnswerPair, Grade
from scenewright.evals.studies.xtc.grading_values import consistent_parts, parts_of
from scenewright.evals.studies.xtc.lookup import MISSING

BEST = 5
"""The grade of an answer that is fully correct."""
EMPTY = "the answer is empty"
"""Why an answer without words has no grade."""


def obvious(pair: AnswerPair) -> Grade | None:
    """The grade of a pair that needs no look; None for the others."""
    expected, given = folded(pair.expected), folded(pair.given)
    if not given:
        return Grade(score=None, reason=EMPTY)
    if expected == given:
        return Grade(score=BEST)
    if given == MISSING:
        return Grade(score=0)
    if pair.best:
        right, said = parts_of(expected), consistent_parts(given)
        if not {*right}.isdisjoint(said):
            return Grade(score=BEST)
        if all(any(excludes(one, other) for other in said) for one in right):
            return Grade(score=0)
    return None


class CachingGrader(ABC):
    """A grader that looks at each pair once. Safe for calls that overlap in one event loop."""

    def __init__(self) -> None:
        """Nothing is graded yet."""
        self._kept: dict[AnswerPair, Grade] = {}
        self._underway: dict[AnswerPair, asyncio.Event] = {}

    @abstractmethod
    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """One grade a pair, in order; the pairs are different and none is obvious."""

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """One grade a pair, in order; failures are grades without a score."""
        found: dict[AnswerPair, Grade] = {}
        while True:
            open_ = [pair for pair in dict.fromkeys(pairs) if pair not in found]
            for pair in open_:
                known = obvious(pair) or self._kept.get(pair)
                if known is not None:
                    found[pair] = known
            open_ = [pair for pair in open_ if pair not in found]
            if not open_:
                return [found[pair] for pair in pairs]
            mine = [pair for pair in open_ if pair not in self._underway]
            if mine:
                found.update(await self._fetch(mine))
            else:
                # Another call asks for these; where it fails, this one asks.
                await self._underway[open_[0]].wait()

    async def _fetch(self, pairs: Sequence[AnswerPair]) -> dict[AnswerPair, Grade]:
        done = asyncio.Event()
        self._underway.update(dict.fromkeys(pairs, done))
        try:
            grades = dict(zip(pairs, await self._look(pairs), strict=True))
            self._kept.update({p: grade for p, grade in grades.items() if grade.score is not None})
            return grades
        finally:
            for pair in pairs:
                del self._underway[pair]
            done.set()
