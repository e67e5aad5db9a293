"""Results of the parts of an extraction: asked again, a picture costs what failed alone.

A part is the detector, the reader on one object, the scorer, or the verifier on one candidate. What
a part gave is kept if nothing of it is unread, as data for JSON. It holds for one picture and one
extractor: parts are told apart by ids of objects, which follow from the detections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from scenewright.core.ports.vision import (
    Detection,
    DetectionError,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)
from scenewright.core.scene import Relation
from scenewright.tools.vision.detection.masks import data_of_detection, detection_of

T = TypeVar("T")


class PartialResults:
    """What is known of one picture."""

    def __init__(self, before: Mapping[str, Any]) -> None:
        """``before``: :attr:`data` of an earlier look; empty for the first one."""
        self.data: dict[str, Any] = dict(before)
        """Part → what it gave."""

    def detections(self) -> list[Detection] | None:
        """Return the detector's result."""
        return self._known("detections", lambda data: [detection_of(one) for one in data])

    def keep_detections(self, found: Iterable[Detection]) -> None:
        """Keep what the detector gives."""
        self.data["detections"] = [data_of_detection(one) for one in found]

    def attributes(self, thing: str) -> tuple[ReadAttribute, ...] | None:
        """Return the attributes read of the object with that id."""
        return self._known(
            f"attributes {thing}", lambda data: tuple(ReadAttribute(**one) for one in data)
        )

    def keep_attributes(self, thing: str, found: Sequence[ReadAttribute | Unread]) -> None:
        """Keep what is read of an object."""
        self._keep(f"attributes {thing}", found)

    def scores(self, things: Sequence[Thing]) -> tuple[PairScores, ...] | None:
        """Return the relation scores for ``things``, which may depend on their attributes."""
        return self._known(_scored(things), lambda data: tuple(PairScores(**one) for one in data))

    def keep_scores(self, things: Sequence[Thing], found: Sequence[PairScores | Unread]) -> None:
        """Keep what the scorer gives for ``things``."""
        self._keep(_scored(things), found)

    def check(self, things: Sequence[Thing], relation: Relation) -> Verification | None:
        """Return the verifier's answer on a candidate between ``things``."""
        return self._known(_checked(things, relation), lambda data: Verification(**data))

    def keep_check(self, things: Sequence[Thing], relation: Relation, said: Verification) -> None:
        """Keep what the verifier says of a candidate, unless a model failed on it."""
        if not said.failed:
            self.data[_checked(things, relation)] = asdict(said)

    def _keep(self, part: str, found: Sequence[Any]) -> None:
        if not any(isinstance(one, Unread) for one in found):
            self.data[part] = [asdict(one) for one in found]

    def _known(self, part: str, read: Callable[[Any], T]) -> T | None:
        if part not in self.data:
            return None
        try:
            return read(self.data[part])
        except (KeyError, TypeError, ValueError, DetectionError):
            # Damaged: it is asked again.
            return None


def _scored(things: Sequence[Thing]) -> str:
    return f"scores {_attributes(things)}"


def _checked(things: Sequence[Thing], relation: Relation) -> str:
    return f"check {relation} {_attributes(things)}"


def _attributes(things: Sequence[Thing]) -> str:
    """Return the attributes that questions may call ``things`` by.

    Empty where none were handed on.
    """
    told = [f"{one.id} {each.key}={each.value}" for one in things for each in one.attributes]
    return "; ".join(told)
