"""Several graders as one."""

from __future__ import annotations

import asyncio
import hashlib
import json
import statistics
from collections.abc import Sequence
from typing import Literal, get_args

from pydantic import Field

from scenewright.evals.studies.xtc.base import AnswerPair, Grade, Grader

Pooling = Literal["mean", "median"]
"""How the scores of a panel become one."""
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)


class PanelGrade(Grade):
    """What a panel gives, and what its graders gave."""

    votes: tuple[int | None, ...] = ()
    """The score of each grader, in the panel's order; None if it gave none."""
    pooled: float | None = Field(default=None, ge=0.0, le=5.0)
    """Mean or median before rounding."""
    left: tuple[str, ...] = ()
    """Why graders left, each with its id."""

    @property
    def spread(self) -> int | None:
        """Largest score less smallest; None if nobody gave one."""
        given = [vote for vote in self.votes if vote is not None]
        return max(given) - min(given) if given else None


class PanelGrader:
    """Pools the scores of several graders; without the score of one a pair has no grade.

    A panel that went on with the others would grade that pair on another scale, and nothing would
    ask the one that failed again. A smaller ``quorum`` allows it.

    The mean or median is rounded to the nearest score, halves to the even one: rounded up they
    would raise, over many pairs, what an even number of graders gives.
    """

    def __init__(
        self, graders: Sequence[Grader], pooling: Pooling = "mean", *, quorum: int | None = None
    ) -> None:
        """``quorum``: fewest scores that make a grade; None: those of all graders.

        Raises ``ValueError`` without graders, for graders of one id, another pooling, or a quorum
        that cannot be reached.
        """
        ids = [grader.id for grader in graders]
        if not ids or len(set(ids)) < len(ids):
            raise ValueError(f"a panel of {ids}: name one or more graders, all different")
        if pooling not in POOLINGS:
            raise ValueError(f"pooling {pooling!r}: use {' or '.join(POOLINGS)}")
        quorum = len(ids) if quorum is None else quorum
        if not 1 <= quorum <= len(ids):
            raise ValueError(f"a quorum of {quorum} of {len(ids)} graders: use 1 to {len(ids)}")
        self.graders = tuple(graders)
        self.pooling: Pooling = pooling
        self.quorum = quorum

    @property
    def id(self) -> str:
        """``mean(openai:gpt-5, lexical@2)``."""
        return f"{self.pooling}({', '.join(grader.id for grader in self.graders)})"

    @property
    def fingerprint(self) -> str:
        """Those of the graders, the pooling and the quorum."""
        parts = [self.pooling, self.quorum, *(grader.fingerprint for grader in self.graders)]
        digest = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:12]
        return f"panel grader@1 {self.id}#{digest}"

    async def grade(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        """One :class:`PanelGrade` a pair, in order."""
        sheets = await asyncio.gather(*(grader.grade(pairs) for grader in self.graders))
        return [self._pooled(grades) for grades in zip(*sheets, strict=True)]

    def _pooled(self, grades: Sequence[Grade]) -> Grade:
        votes = tuple(grade.score for grade in grades)
        left = tuple(
            f"{grader.id}: {grade.reason}"
            for grader, grade in zip(self.graders, grades, strict=True)
            if grade.score is None
        )
        given = [vote for vote in votes if vote is not None]
        if len(given) < self.quorum:
            reason = "; ".join(left)
            return PanelGrade(score=None, reason=reason, votes=votes, left=left)
        pool = statistics.fmean if self.pooling == "mean" else statistics.median
        pooled = float(pool(given))
        return PanelGrade(score=round(pooled), votes=votes, pooled=pooled, left=left)

    async def aclose(self) -> None:
        """Close all graders."""
        await asyncio.gather(*(grader.aclose() for grader in self.graders))
