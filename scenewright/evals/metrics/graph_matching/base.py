"""What matching works with: similarity of texts, and what a matching is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from scenewright.core.scene import Relation


class MatchingError(ValueError):
    """A similarity that is not known or not on this machine, or weights that cannot be; says what
    to do."""


@runtime_checkable
class TextSimilarity(Protocol):
    """How alike two texts are."""

    @property
    def id(self) -> str:
        """``lexical@2`` or ``sentence-transformers:all-MiniLM-L6-v2#…``: in every result, so that
        it is seen what compared the words."""
        ...

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        """One number in [0, 1] a pair: 1 for texts that are equal after folding case and spaces.

        Symmetric. Pairs may repeat; what was compared once is not compared again.
        """
        ...


@dataclass(frozen=True, slots=True)
class NodeMatch:
    """An object of the reference and the one of the seen graph that it is taken for."""

    reference: str
    """Object id in the reference."""
    seen: str
    """Object id in the seen graph."""
    similarity: float
    """Of the pair, in [0, 1]."""


@dataclass(frozen=True, slots=True)
class EdgeMatch:
    """Relations of the reference and of the seen graph between one pair of matched objects.

    There may be several between the same two objects (parallel edges): they are matched as one."""

    reference: tuple[Relation, ...]
    """From one object to another; one or more."""
    seen: tuple[Relation, ...]
    """The same way round between what these are taken for; empty: the edge is missing."""


@dataclass(frozen=True, slots=True)
class GraphMatch:
    """Which object of the reference is which of the seen graph."""

    nodes: tuple[NodeMatch, ...]
    """In the order of the reference's objects."""
    missing: tuple[str, ...]
    """Objects of the reference without a partner."""
    extra: tuple[str, ...]
    """Objects of the seen graph without a partner."""
    edges: tuple[EdgeMatch, ...]
    """One a connected ordered pair of reference objects, in the reference's order; also those an
    end of which is missing (then ``seen`` is empty)."""
    extra_edges: tuple[Relation, ...]
    """Relations of the seen graph that no edge of the reference has for a partner."""
    similarity: str
    """Id of what compared the texts."""

    @property
    def mapping(self) -> dict[str, str]:
        """Object id of the reference → object id of the seen graph."""
        return {match.reference: match.seen for match in self.nodes}
