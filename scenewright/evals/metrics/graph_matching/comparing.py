"""The texts of many graphs, compared in one call, each pair of texts once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.metrics.graph_matching.base import MatchingError, TextSimilarity

Numbers = NDArray[np.int64]
Values = NDArray[np.float64]


class TextTable:
    """Numbers for texts, and how alike those are that were asked for."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._asked: list[Numbers] = []
        self._values: list[Values] = []

    def number(self, text: str) -> int:
        """The number of a text; the same text has the same."""
        return self._numbers.setdefault(text, len(self._numbers))

    def ask(self, left: Numbers, right: Numbers) -> int:
        """Note pairs of numbers to compare; returns where :meth:`values` finds the answers."""
        # Likeness is symmetric: both ways round are one question.
        self._asked.append((np.minimum(left, right) << 32) | np.maximum(left, right))
        return len(self._asked) - 1

    def compare(self, similarity: TextSimilarity) -> None:
        """Answer all that was asked, in one call. Raises ``MatchingError`` if ``similarity`` gives
        anything but one number in [0, 1] a pair."""
        asked = np.concatenate([*self._asked, np.empty(0, np.int64)])
        unique, inverse = np.unique(asked, return_inverse=True)
        texts = list(self._numbers)
        pairs = [
            (texts[left], texts[right])
            for left, right in zip(
                (unique >> 32).tolist(), (unique & 0xFFFFFFFF).tolist(), strict=True
            )
        ]
        found = np.asarray(similarity.similarities(pairs) if pairs else [], float)
        if found.shape != (len(pairs),) or not ((found >= 0) & (found <= 1)).all():
            raise MatchingError(
                f"the similarity {similarity.id} must give one number in [0, 1] for each of "
                f"{len(pairs)} pairs of texts; it gave an array of shape {found.shape}"
                + ("" if found.shape != (len(pairs),) else " with numbers outside")
            )
        ends = np.cumsum([len(part) for part in self._asked])[:-1]
        self._values = np.split(found[inverse], ends) if self._asked else []

    def values(self, place: int) -> Values:
        """The answers to one :meth:`ask`, in its order."""
        return self._values[place]
