"""Grades without a language model, by likeness of words: offline, and no judge of meaning.

The paper grades by a large language model. These grades are for machines without one; they are
called by what compared the words (``lexical@2``), so that nobody takes them for the paper's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import product

from scenewright.core.vocabulary import excludes
from scenewright.evals.metrics.graph_matching.base import TextSimilarity
from scenewright.evals.studies.xtc.base import AnswerPair, Grade
from scenewright.evals.studies.xtc.grading_cache import CachingGrader
from scenewright.evals.studies.xtc.grading_values import (
    answer_words,
    consistent_parts,
    likeness,
    list_likeness,
    parts_of,
)

CUT_OFFS: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.95)
"""Least likeness of the grades 1 to 5; below the first it is 0."""


class SimilarityGrader(CachingGrader):
    """Grades by a :class:`~scenewright.evals.metrics.graph_matching.base.TextSimilarity`.

    Articles, and in the given answer the words of the question, are left out. Lists ("red and
    white") are compared as sets; where the best match counts (relations), the likest two parts
    decide, without what another given part excludes. Of each two parts numbers, yes and no,
    colours, predicates of the vocabulary and forms of a verb go by value
    (:mod:`~scenewright.evals.studies.xtc.grading_values`); for the others the similarity decides.
    The likeness becomes a grade by :data:`CUT_OFFS`.
    """

    def __init__(self, similarity: TextSimilarity) -> None:
        """``similarity``: what compares words that no rule knows."""
        super().__init__()
        self.similarity = similarity

    @property
    def id(self) -> str:
        """That of what compares the words: ``lexical@2``."""
        return self.similarity.id

    @property
    def fingerprint(self) -> str:
        """The similarity, and the version of the rules around it."""
        return f"similarity grader@3 {self.similarity.id}"

    async def aclose(self) -> None:
        """The similarity belongs to who made it."""

    async def _look(self, pairs: Sequence[AnswerPair]) -> list[Grade]:
        # A sentence model takes its time; others go on meanwhile.
        try:
            alike = await asyncio.to_thread(self._likenesses, pairs)
        except Exception as error:
            reason = f"{self.id} failed: {type(error).__name__}: {error}"
            return [Grade(score=None, reason=reason)] * len(pairs)
        return [Grade(score=score_of(value)) for value in alike]

    def _likenesses(self, pairs: Sequence[AnswerPair]) -> list[float]:
        lists = [
            (
                tuple(answer_words(part) for part in parts_of(pair.expected)),
                tuple(
                    answer_words(part, pair.question, pair.expected)
                    for part in (consistent_parts if pair.best else parts_of)(pair.given)
                ),
            )
            for pair in pairs
        ]
        texts = dict.fromkeys(
            both for expected, given in lists for both in product(expected, given)
        )
        known: dict[tuple[str, str], float] = {
            both: found for both in texts if (found := likeness(*both)) is not None
        }
        left = [both for both in texts if both not in known]
        if left:
            values = self.similarity.similarities(left)
            known.update({both: float(value) for both, value in zip(left, values, strict=True)})
        tables = [
            [[known[one, other] for other in given] for one in expected]
            for expected, given in lists
        ]
        return [
            _best(*one, table) if pair.best else list_likeness(table)
            for pair, one, table in zip(pairs, lists, tables, strict=True)
        ]


def _best(expected: Sequence[str], given: Sequence[str], table: Sequence[Sequence[float]]) -> float:
    """Return the likest of ``table[expected][given]``, but for what another given part excludes:
    *right of and near* denies *left of*, however near to it *near* may be."""
    kept = [
        max(row, default=0.0)
        for right, row in zip(expected, table, strict=True)
        if not any(excludes(right, said) for said in given)
    ]
    return max(kept, default=0.0)


def score_of(value: float) -> int:
    """The grade of a likeness in [0, 1], by :data:`CUT_OFFS`."""
    return sum(value >= least for least in CUT_OFFS)
