"""Results of the parts of an extraction: asked again, a picture costs what failed alone.

A part is the detector, the reader on one object, the scorer, or the verifier on one candidate. What
a part gave is kept if nothing of it is unread, as data for JSON. It holds for one picture and one
extractor: parts are told apart by ids of objects, which follow from the detections.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from scenewright.core.ports.vision import DetectionError, Thing, Unread
from scenewright.core.scene import Relation

T = TypeVar("T")
DETECTIONS = "detections"
"""Part of the detector."""


class PartialResults:
    """Results of the parts of one picture's extraction."""

    def __init__(self, before: Mapping[str, Any]) -> None:
        """``before``: :attr:`data` of an earlier extraction; empty for the first one."""
        self.data: dict[str, Any] = dict(before)
        """Part → its results, as data for JSON."""

    def get(self, part: str, read: Callable[..., T]) -> list[T] | None:
        """Return the results of ``part``, each made by ``read`` of its fields; None if unknown."""
        if part not in self.data:
            return None
        rows = self.data[part]
        try:
            return [read(**row) for row in ([rows] if isinstance(rows, Mapping) else rows)]
        except (KeyError, TypeError, ValueError, DetectionError):
            # Damaged: it is asked again.
            return None

    def keep(self, part: str, results: Sequence[Any]) -> None:
        """Keep ``results``, dataclasses, if none of them is unread."""
        if not any(isinstance(one, Unread) for one in results):
            self.data[part] = [asdict(one) for one in results]


def attributes_part(thing: str) -> str:
    """Return the part of the reader on the object with that id."""
    return f"attributes {thing}"


def scores_part(things: Sequence[Thing]) -> str:
    """Return the part of the scorer on ``things``, whose questions may name their attributes."""
    return f"scores {_attributes(things)}"


def check_part(things: Sequence[Thing], relation: Relation) -> str:
    """Return the part of the verifier on a candidate between ``things``."""
    return f"check {relation} {_attributes(things)}"


def _attributes(things: Sequence[Thing]) -> str:
    told = [f"{one.id} {each.key}={each.value}" for one in things for each in one.attributes]
    return "; ".join(told)
