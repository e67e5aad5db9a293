"""Vectors of a set, read block by block: what metrics of sets share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from scenewright.evals.metrics.base import Blocks, MetricError, MetricScore
from scenewright.evals.store.journal import Features


@dataclass(frozen=True, slots=True)
class ArrayBlocks:
    """Vectors that are in memory as blocks: for sets that fit there."""

    vectors: Features
    """(n, dimensions)."""
    rows: int = 1024
    """Rows of a block."""

    def __iter__(self) -> Iterator[Features]:
        """Views of the vectors, in their order."""
        for begin in range(0, len(self.vectors), self.rows):
            yield self.vectors[begin : begin + self.rows]

    def __len__(self) -> int:
        """Rows in all."""
        return len(self.vectors)


def checked(blocks: Blocks, what: str, rows: int | None = None) -> Iterator[Features]:
    """The blocks that hold rows, cut to ``rows`` rows at most if given.

    Raises ``MetricError`` for blocks that are no matrix, differ in width or hold values that are
    not finite; ``what`` names the set.
    """
    width: int | None = None
    for block in blocks:
        if block.ndim != 2 or (width is not None and block.shape[1] != width):
            raise MetricError(f"the vectors of the {what} have the shape {block.shape}: not a set")
        width = block.shape[1]
        if not np.isfinite(block).all():
            raise MetricError(f"vectors of the {what} hold values that are not finite")
        step = len(block) if rows is None else rows
        for begin in range(0, len(block), max(1, step)):
            yield block[begin : begin + step]


def too_few(name: str, needed: int, pictures: int, originals: int | None = None) -> MetricScore:
    """The unscored score of a set with less than ``needed`` rows on a side."""
    sides = f"there are {pictures}"
    if originals is not None:
        sides = f"there are {pictures} and {originals} originals"
    return MetricScore(value=None, reason=f"{name} needs {needed} pictures or more: {sides}")


def no_originals(name: str) -> MetricScore:
    """The unscored score of a set without photos to compare with."""
    return MetricScore(
        value=None, reason=f"{name} compares with original photos, and the set has none here"
    )
