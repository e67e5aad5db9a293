"""A scripted detector and scorer of realism, for tests."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.ports.vision import Detection, DetectionError, ObjectRealism, RealismError
from scenewright.tools.vision.realism.pictures import Likenesses


@dataclass
class ScriptedDetector:
    """Finds the same in every picture, of the labels that it is asked for."""

    found: tuple[Detection, ...] = ()
    failing: DetectionError | None = None
    looks: list[tuple[str, ...]] = field(default_factory=list)
    closed: bool = False
    id: str = "scripted:detector"
    fingerprint: str = "scripted-detector-1"
    vocabulary: ClosedVocabulary | None = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        self.looks.append(tuple(labels))
        if self.failing is not None:
            raise self.failing
        return self.found

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class ScriptedScorer:
    """Scores an object by a rule; by default 3 and 4, without a joint score."""

    rule: Callable[[Detection], ObjectRealism] = lambda item: ObjectRealism(3.0, 4.0)
    failing: RealismError | None = None
    asked: list[tuple[Detection, ...]] = field(default_factory=list)
    closed: bool = False
    id: str = "scripted:scorer"
    fingerprint: str = "scripted-scorer-1"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        self.asked.append(tuple(objects))
        if self.failing is not None:
            raise self.failing
        return [self.rule(item) for item in objects]

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class ReadingScorer(ScriptedScorer):
    """Tells objects apart as well: a phrase fits the object at whose left edge its table says."""

    fits: dict[str, float] = field(default_factory=dict)
    read: list[tuple[str, ...]] = field(default_factory=list)

    async def likeness(
        self, image: Image.Image, objects: Sequence[Detection], phrases: Sequence[str]
    ) -> Likenesses:
        self.read.append(tuple(phrases))
        return np.array(
            [[float(self.fits[p] == item.box[0]) for item in objects] for p in phrases], np.float32
        )
