"""Detectors, judges and parts of extractors that say what a test tells them to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, unscored
from scenewright.core.ports.vision import (
    Box,
    Candidate,
    Detection,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
    Verification,
)

SIZE = (64, 48)
Says = Callable[[Fact, Image.Image], Mapping[str, float] | None]
"""Option → probability; None: the judge gives nothing."""


def picture() -> Image.Image:
    """Grey, with two squares in it."""
    image = Image.new("RGB", SIZE, (128, 128, 128))
    image.paste((220, 30, 30), (4, 4, 16, 16))
    image.paste((30, 30, 220), (40, 20, 60, 40))
    return image


def seen(name: str, box: Box = (4, 4, 16, 16), score: float = 0.9) -> Detection:
    return Detection(name, box, score)


@dataclass
class GivenDetector:
    """Detects what it was given, or raises it."""

    found: Sequence[Detection] | Exception = ()
    id: str = "given"
    fingerprint: str = "given-1"
    labels: list[tuple[str, ...]] = field(default_factory=list)
    closed: bool = False

    vocabulary = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        self.labels.append(tuple(labels))
        if isinstance(self.found, Exception):
            raise self.found
        return tuple(self.found)

    async def aclose(self) -> None:
        self.closed = True


@dataclass
class SayingJudge:
    """Answers by a function of the question and the picture."""

    says: Says
    id: str = "test:judge"
    fingerprint: str = "saying-1"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    pictures: list[Image.Image] = field(default_factory=list)

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability="logprob", max_side=64, local=True)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.pictures.append(image)
        return [self._answer(fact, image) for fact in facts]

    def _answer(self, fact: Fact, image: Image.Image) -> Answer:
        self.asked.append((fact.question, fact.options))
        chances = self.says(fact, image)
        if chances is None:
            return unscored(self.id, [fact], "it is silent")[0]
        choice = max(fact.options, key=lambda option: chances.get(option, 0.0))
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if choice == fact.expected else "no",
            choice=choice,
            probability=chances.get(fact.expected, 0.0),
            method="logprob",
        )

    async def aclose(self) -> None:
        return


@dataclass
class GivenReader:
    """Reads what it was given of each thing; notes what it was asked."""

    values: Mapping[str, Sequence[ReadAttribute | Unread] | Exception] = field(default_factory=dict)
    fingerprint: str = "reader-1"
    asked: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)

    async def read(
        self, image: Image.Image, thing: Thing, keys: Sequence[str], things: Sequence[Thing] = ()
    ) -> tuple[ReadAttribute | Unread, ...]:
        self.asked.append((thing.id, tuple(keys)))
        given = self.values.get(thing.id, ())
        if isinstance(given, Exception):
            raise given
        return tuple(given)


@dataclass
class GivenScorer:
    """Scores what it was given; notes the things."""

    scores: Sequence[PairScores | Unread] | Exception = ()
    fingerprint: str = "scorer-1"
    things: list[tuple[Thing, ...]] = field(default_factory=list)

    async def score(
        self, image: Image.Image, things: Sequence[Thing]
    ) -> tuple[PairScores | Unread, ...]:
        self.things.append(tuple(things))
        if isinstance(self.scores, Exception):
            raise self.scores
        return tuple(self.scores)


@dataclass
class GivenVerifier:
    """Confirms by predicate."""

    answers: Mapping[str, Verification] | Exception = field(default_factory=dict)
    fingerprint: str = "verifier-1"

    async def verify(
        self, image: Image.Image, things: Mapping[str, Thing], candidates: Sequence[Candidate]
    ) -> tuple[Verification, ...]:
        if isinstance(self.answers, Exception):
            raise self.answers
        return tuple(
            self.answers.get(one.relation.predicate, Verification(True)) for one in candidates
        )
