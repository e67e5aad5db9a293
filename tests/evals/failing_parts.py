"""Parts of metrics that fail when a test says so, and every metric of the registry made of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from langchain_core.messages import BaseMessage
from PIL import Image

from scenewright.agents.judges.remote import FIRST, NEITHER
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, unscored
from scenewright.core.ports.vision import (
    Detection,
    DetectionError,
    ExtractionError,
    ObjectRealism,
    PairScores,
    ReadAttribute,
    RealismError,
    Unread,
    Verification,
)
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.panel_queries import TextModel
from scenewright.evals.datasets.benchmark_prompts import EXPLANATION
from scenewright.evals.metrics.base import Metric, MetricError
from scenewright.evals.metrics.encoders import EncodedTexts
from scenewright.evals.metrics.graph_matching.text_similarity import ExactSimilarity
from scenewright.evals.metrics.ocr import OcrMetric
from scenewright.evals.metrics.picture_scores import CLIPScore, PreferenceMetric, SGScore
from scenewright.evals.metrics.psg import PsgMetric
from scenewright.evals.metrics.set_metrics import CMMD, FrechetDistance, InceptionScore
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.studies.peers.benchmark_metrics import (
    AllCorrect,
    CompBench,
    GroundedFacts,
    Wise,
)
from scenewright.evals.studies.peers.direct_scoring import DirectScore
from scenewright.evals.studies.peers.geneval import DetectorJudge, GenEval
from scenewright.evals.studies.peers.panel_metric import MetricJudges
from scenewright.evals.studies.peers.question_metrics import Blind, Dsg, SoftTifa, Tifa, VqaScore
from scenewright.evals.studies.peers.questions import ItemQuestions, QuestionSource, ledger_in
from scenewright.evals.studies.real.real_scorer import RealMetric, RealScorer
from scenewright.providers import AnswerStore
from scenewright.providers.usage import ExpectedUsage
from scenewright.tools.vision.extraction.two_stage import TwoStageExtractor
from tests.agents.replying import ReplyingChat

REASON = "HTTP 503"
SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball", attributes=Attributes({"color": "blue"})),
    ),
    relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
)
DETECTIONS = (Detection("dog", (0, 4, 6, 12), 0.95), Detection("ball", (9, 4, 15, 12), 0.95))
COLORS = {"dog": "red", "ball": "blue"}


@dataclass
class Switch:
    """Decides how a part fails."""

    ways: tuple[str, ...]
    """In which it can: ``raises``, and others."""
    way: str = ""
    """In which it does; empty: it works."""
    calls: int = 0
    """How often it was asked."""

    def asked(self, error: type[Exception] = RuntimeError) -> str:
        """The way; raises ``error`` where that is to raise."""
        self.calls += 1
        if self.way == "raises":
            raise error(REASON)
        return self.way


@dataclass
class Switches:
    """All parts of a metric by name."""

    by_name: dict[str, Switch] = field(default_factory=dict)

    def part(self, name: str, *ways: str) -> Switch:
        return self.by_name.setdefault(name, Switch(("raises", *ways)))


@dataclass
class Judge:
    """Says yes to all but every fourth fact, with probabilities."""

    switch: Switch
    id: str = "test:judge"
    fingerprint: str = "judge-1"

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(facts_per_call=64, probability="logprob", max_side=64, local=True)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> Any:
        way = self.switch.asked()
        answers = [self._answer(fact) for fact in facts]
        if way == "garbage":
            return f"{REASON}: <html>"
        if way == "short":
            return answers[:-1]
        if way == "one silent":
            return [*answers[:-1], *unscored(self.id, facts[-1:], REASON)]
        return answers

    def _answer(self, fact: Fact) -> Answer:
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes",
            choice=fact.expected,
            probability=0.9,
            method="logprob",
            usd=0.01,
        )

    async def aclose(self) -> None:
        return


def judge(switches: Switches) -> Judge:
    return Judge(switches.part("judge", "garbage", "short", "one silent"))


def bench(switches: Switches) -> MetricJudges:
    return MetricJudges((judge(switches),), AnswerStore(None))


@dataclass
class Detector:
    switch: Switch
    id: str = "test:detector"
    fingerprint: str = "detector-1"
    vocabulary: None = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> Any:
        way = self.switch.asked(DetectionError)
        return None if way == "garbage" else DETECTIONS

    async def aclose(self) -> None:
        return


@dataclass
class Reader:
    switch: Switch
    fingerprint: str = "reader-1"

    async def read(self, image: Any, thing: Any, keys: Any, things: Any = ()) -> Any:
        way = self.switch.asked(ExtractionError)
        if way == "one unread" and thing.id == "dog.1":
            return (Unread("attributes", REASON, (thing.id,), ("color",)),)
        if way == "garbage":
            return (ReadAttribute("color", "\x00"),)
        return (ReadAttribute("color", COLORS[thing.detection.name], 0.9),)


@dataclass
class Scorer:
    switch: Switch
    fingerprint: str = "scorer-1"

    async def score(self, image: Any, things: Any) -> Any:
        way = self.switch.asked(ExtractionError)
        if way == "one unread":
            return (Unread("relations", REASON, ("dog.1", "ball.1"), ("left of",)),)
        return (PairScores("dog.1", "ball.1", 9.0 if way == "garbage" else 0.1, {"left of": 0.9}),)


@dataclass
class Verifier:
    switch: Switch
    fingerprint: str = "verifier-1"

    async def verify(self, image: Any, things: Any, candidates: Any) -> Any:
        way = self.switch.asked()
        if way == "short":
            return ()
        failed = Verification(None, reason=REASON, failed=True)
        return [failed if way == "one silent" else Verification(True, 0.9) for _ in candidates]


@dataclass
class Saliency:
    switch: Switch
    fingerprint: str = "saliency-1"
    id: str = "saliency"

    async def saliency(self, image: Image.Image) -> Any:
        self.switch.asked()
        return np.ones((image.height, image.width), np.float32)

    async def aclose(self) -> None:
        return


@dataclass
class Realism:
    switch: Switch
    fingerprint: str = "realism-1"
    id: str = "realism"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> Any:
        way = self.switch.asked(RealismError)
        found = [ObjectRealism(3.0, 4.0) for _ in objects]
        if way == "one silent":
            found[0] = ObjectRealism(None, None, reason=REASON)
        return found[1:] if way == "short" else found

    async def aclose(self) -> None:
        return


@dataclass
class Palette:
    switch: Switch
    fingerprint: str = "palette-1"
    palette: None = None

    async def read(self, image: Any, things: Any, every: Any) -> list[str | None]:
        self.switch.asked()
        return [COLORS[thing.name] for thing in things]


@dataclass
class Style:
    switch: Switch
    fingerprint: str = "style-1"

    async def score(self, images: Sequence[Image.Image]) -> list[float]:
        way = self.switch.asked()
        return [float("nan") if way == "garbage" else 0.75 for _ in images]


@dataclass
class Encoder:
    switch: Switch
    id: str = "encoder"
    fingerprint: str = "encoder-1"

    async def images(self, images: Sequence[Image.Image]) -> Any:
        way = self.switch.asked()
        return np.full((len(images), 2), np.nan if way == "garbage" else 0.5**0.5, np.float32)

    async def texts(self, texts: Sequence[str]) -> EncodedTexts:
        return EncodedTexts(np.full((len(texts), 2), 0.5**0.5, np.float32), (0,) * len(texts))


@dataclass
class Features:
    switch: Switch
    id: str = "features"
    fingerprint: str = "features-1"
    dimensions: int = 3
    first: bytes = b""

    async def features(self, images: Sequence[Image.Image]) -> Any:
        way = self.switch.asked()
        seen = [image.convert("RGB").tobytes() for image in images]
        self.first = self.first or seen[0]
        if way == "one picture" and self.first in seen:
            raise RuntimeError(REASON)
        rows = [np.frombuffer(one, np.uint8).reshape(-1, 3).astype(float) for one in seen]
        found = np.array([[row[:, 0].mean(), row[:, 1].std(), row[:, 2].max()] for row in rows])
        return found * (np.nan if way == "garbage" else 0.05)


@dataclass
class Writer:
    """Implements :class:`~scenewright.evals.studies.peers.questions.QuestionMaker`."""

    switch: Switch
    fingerprint: str = "writer-1"

    def expected(self, about: str) -> Mapping[str, ExpectedUsage]:
        return {}

    async def make(self, about: str) -> ItemQuestions:
        self.switch.asked(MetricError)
        questions = ("Is there a dog?", "Is the dog red?", "Is there a ball?")
        facts = (
            Fact(id=f"q{at}", kind="object", subject="any", statement=text, question=text)
            for at, text in enumerate(questions)
        )
        return ItemQuestions(tuple(facts), "chat")


def writer(switches: Switches) -> QuestionSource:
    return QuestionSource("chat", Writer(switches.part("writer")))


def _features(switches: Switches) -> Features:
    return Features(switches.part("network", "garbage", "one picture"))


def _psg(switches: Switches, place: Path) -> Metric:
    extractor = TwoStageExtractor(
        Detector(switches.part("detector", "garbage")),
        Reader(switches.part("reader", "one unread", "garbage")),
        Scorer(switches.part("scorer", "one unread", "garbage")),
        Verifier(switches.part("verifier", "short", "one silent")),
        keys=lambda label: ("color",),
    )
    return PsgMetric(
        Extractions(extractor, place),
        ExactSimilarity(),
        saliency=Saliency(switches.part("saliency")),  # type: ignore[arg-type]
    )


def _real(switches: Switches, place: Path) -> Metric:
    style: Any = Style(switches.part("style", "garbage"))
    return RealMetric(RealScorer((judge(switches),), AnswerStore(None)), style=style)


def _geneval(switches: Switches, place: Path) -> Metric:
    detector = Detector(switches.part("detector", "garbage"))
    looking = DetectorJudge(detector, colors=Palette(switches.part("colors")))
    return GenEval(MetricJudges((looking,), AnswerStore(None)))


def _ocr(switches: Switches, place: Path) -> Metric:
    scorer = Realism(switches.part("scorer", "short", "one silent"))
    return OcrMetric(scorer, Detector(switches.part("detector", "garbage")))


def _blind(switches: Switches, place: Path) -> Metric:
    switch = switches.part("chat", "garbage", "short")

    def guesses(messages: Sequence[BaseMessage]) -> Any:
        way = switch.asked()
        if way == "garbage":
            return f"{REASON}: <html>"
        # The scene relates its two objects once.
        (letter,) = re.findall(r'"([A-D])": "left of"', str(messages[-1].content))
        return {"answers": [] if way == "short" else [{"number": 1, "option": letter}]}

    chat = ReplyingChat(replies=guesses)
    return Blind(ledger_in(place), TextModel("test:chat", chat))


@dataclass
class Comparer:
    """Prefers the first of two pictures by every fact but the last."""

    switch: Switch
    id: str = "test:comparer"
    fingerprint: str = "comparer-1"

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> Any:
        way = self.switch.asked()
        choices = [FIRST] * (len(facts) - 1) + [NEITHER]
        answers = [
            Answer(
                fact_id=fact.id,
                judge_id=self.id,
                state="yes" if choice == FIRST else "no",
                choice=choice,
            )
            for fact, choice in zip(facts, choices, strict=True)
        ]
        if way == "one silent":
            return [*answers[:-1], *unscored(self.id, facts[-1:], REASON)]
        return answers[:-1] if way == "short" else answers


def _preference(switches: Switches, place: Path) -> Metric:
    comparer: Any = Comparer(switches.part("comparer", "one silent", "short"))
    return PreferenceMetric([comparer])


CASES: dict[str, Callable[[Switches, Path], Metric]] = {
    # Its judge is the evaluation's.
    "sgscore": lambda switches, place: SGScore(),
    "blind": _blind,
    "psg": _psg,
    "ocr": _ocr,
    "real": _real,
    "preference": _preference,
    "clipscore": lambda switches, place: CLIPScore(Encoder(switches.part("encoder", "garbage"))),
    "is": lambda switches, place: InceptionScore(_features(switches), splits=1),
    "fid": lambda switches, place: FrechetDistance("fid", _features(switches)),
    "fd_dinov2": lambda switches, place: FrechetDistance("fd_dinov2", _features(switches)),
    "cmmd": lambda switches, place: CMMD(_features(switches)),
    "tifa": lambda switches, place: Tifa(bench(switches), writer(switches)),
    "dsg": lambda switches, place: Dsg(bench(switches), QuestionSource("scene")),
    "vqascore": lambda switches, place: VqaScore(bench(switches)),
    "soft_tifa": lambda switches, place: SoftTifa(bench(switches), writer(switches), "geometric"),
    "geneval": _geneval,
    "direct": lambda switches, place: DirectScore(bench(switches)),
    "grounded_facts": lambda switches, place: GroundedFacts(
        bench(switches), QuestionSource("scene", protocol="grounded")
    ),
    "all_correct": lambda switches, place: AllCorrect(bench(switches), writer(switches)),
    "wise": lambda switches, place: Wise(bench(switches)),
    "compbench": lambda switches, place: CompBench(
        bench(switches),
        Detector(switches.part("detector", "garbage")),
        Encoder(switches.part("encoder", "garbage")),
    ),
}
"""Metric of the registry → how it is made of parts that fail, with a folder for what it keeps."""
ITEMS: dict[str, dict[str, Any]] = {
    "wise": {"meta": {EXPLANATION: "a dog beside its toy"}},
    "compbench": {"category": "complex"},
}
"""Metric → what its items have besides scene, text and photo."""
