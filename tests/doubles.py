"""Scripted models for tests of the loop: they implement the ports, draw real images, keep books.

The quality of a picture is the red of its pixels, so that a judge can *see* how good it is, and
how real its objects look is their green.
Every call can be noted durably in a file, to find out after a kill what was called.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.facts import Answer, Fact
from scenewright.core.images import png_bytes
from scenewright.core.layout import Region
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    PromptCount,
)
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.scene import SceneGraph
from scenewright.providers import fact_digest

if TYPE_CHECKING:
    from scenewright.graphs.events import Event


class CallBook:
    """One line a call, flushed to the disk before the call is made and after it is done."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self.lines: list[str] = []

    def note(self, *lines: str) -> None:
        """Notes one call, which may answer several questions, at once."""
        self.lines.extend(lines)
        if self.path is not None:
            handle = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(handle, "".join(f"{line}\n" for line in lines).encode())
                os.fsync(handle)
            finally:
                os.close(handle)


@dataclass
class ScriptedBackend:
    """Draws small pictures whose quality (0–255) is a function of the request; each request
    gives other pixels."""

    quality: Callable[[GenerationRequest], int]
    book: CallBook = field(default_factory=CallBook)
    references: int = 2
    masks: bool = False
    usd: float = 0.0
    seconds: float = 0.25
    version: str = "1"
    failing: Callable[[GenerationRequest], Exception | None] = lambda request: None
    realism: Callable[[GenerationRequest], int] = lambda request: 0
    vocabulary: ClosedVocabulary | None = None
    prompt_tokens: int | None = None
    """Words of a prompt that it reads."""
    boxes: bool = False

    @property
    def id(self) -> str:
        return "scripted:backend"

    @property
    def fingerprint(self) -> str:
        return f"scripted-backend-{self.version}"

    @property
    def features(self) -> BackendFeatures:
        return BackendFeatures(
            references=self.references,
            reference_maths="exact" if self.references else "none",
            masks=self.masks,
            edit=self.masks,
            negative_prompt=True,
            seeds=True,
            sizes=None,
            default_size=(16, 16),
            default_steps=2,
            default_guidance=1.0,
            vocabulary=self.vocabulary,
            prompt_tokens=self.prompt_tokens,
            boxes=self.boxes,
        )

    def count_prompt(self, prompt: str) -> PromptCount:
        words = list(re.finditer(r"\S+", prompt))
        if self.prompt_tokens is None or len(words) <= self.prompt_tokens:
            return PromptCount(len(words))
        read = words[self.prompt_tokens - 1].end()
        return PromptCount(len(words), len(words) - self.prompt_tokens, read)

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        key = request.key(self.fingerprint)
        self.book.note(f"begin generate {key}")
        await asyncio.sleep(0)
        error = self.failing(request)
        if error is not None:
            raise error
        for reference in request.references:
            load(reference.image)
            if reference.mask is not None:
                load(reference.mask)
        if request.start is not None:
            load(request.start.image)
            load(request.start.mask or request.start.image)
        for step in (1, 2):
            if on_step is not None:
                on_step(GenerationStep(step, 2))
        colour = (self.quality(request), self.realism(request), 0)
        image = Image.new("RGB", (16, 16), colour)
        for at, byte in enumerate(bytes.fromhex(key)):
            image.putpixel((at % 16, 1 + at // 16), (byte, byte, byte))
        self.book.note(f"end generate {key}")
        count = self.count_prompt(request.prompt)
        return GeneratedImage(image, self.seconds, self.usd, count=count, steps=2)

    async def aclose(self) -> None:
        return


EMPTY = Image.new("RGB", (16, 16))
"""A picture of nothing, as models give it that computed no numbers."""


class EmptyAtFirst(ScriptedBackend):
    """Its first ``empty`` pictures are :data:`EMPTY`."""

    empty = 1

    async def generate(self, request: GenerationRequest, *more: Any) -> GeneratedImage:
        drawn = await super().generate(request, *more)
        if self.empty <= 0:
            return drawn
        self.empty -= 1
        return replace(drawn, image=EMPTY)


def painted(size: tuple[int, int], colour: tuple[int, ...] = (0, 0, 0)) -> Image.Image:
    """A picture of one colour with a spot at its end, so that something is drawn on it."""
    image = Image.new("RGB", size, colour)
    image.putpixel((size[0] - 1, size[1] - 1), tuple(255 - shade for shade in colour))
    return image


def share(*parts: str) -> int:
    """A fixed number below 255 for these texts."""
    return hashlib.sha256("\x1f".join(parts).encode()).digest()[0] % 255


@dataclass
class ScriptedJudge:
    """Finds a fact in a picture if the picture's quality is above the fact's own level."""

    name: str = "a"
    book: CallBook = field(default_factory=CallBook)
    level: Callable[[Fact], int] = lambda fact: share(fact.id)
    tokens: int = 10
    usd: float = 0.0
    version: str = "1"
    behave: Callable[[ScriptedJudge, Sequence[Fact], list[Answer]], object] | None = None
    vocabulary: ClosedVocabulary | None = None
    at_once: bool = False

    @property
    def id(self) -> str:
        return f"scripted:{self.name}"

    @property
    def fingerprint(self) -> str:
        return f"scripted-judge-{self.name}-{self.version}"

    @property
    def caps(self) -> JudgeCaps:
        return JudgeCaps(
            facts_per_call=64,
            probability="logprob",
            max_side=64,
            local=True,
            vocabulary=self.vocabulary,
            at_once=self.at_once,
        )

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        seen = hashlib.sha256(png_bytes(image)).hexdigest()
        asked = [f"answer {self.fingerprint} {seen} {fact_digest(fact)}" for fact in facts]
        self.book.note(*(f"begin {name}" for name in asked))
        await asyncio.sleep(0)
        pixel = image.getpixel((0, 0))
        assert isinstance(pixel, tuple)
        answers = [self._answer(fact, self._seen(pixel)) for fact in facts]
        if self.behave is not None:
            given = self.behave(self, facts, answers)
            if asyncio.iscoroutine(given):
                given = await given
            return given  # type: ignore[return-value]
        self.book.note(*(f"end {name}" for name in asked))
        return answers

    def _seen(self, pixel: tuple[int, ...]) -> int:
        return pixel[0]

    def _answer(self, fact: Fact, quality: int) -> Answer:
        found = quality > self.level(fact)
        wrong = next(option for option in fact.options if option != fact.expected)
        offset = share(self.name, fact.id) / 2550
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if found else "no",
            choice=fact.expected if found else wrong,
            probability=0.85 + offset if found else 0.05 + offset,
            method="logprob",
            tokens_in=self.tokens,
            tokens_out=1,
            usd=self.usd,
            seconds=0.125,
        )

    async def aclose(self) -> None:
        return


@dataclass
class ScriptedRealism(ScriptedJudge):
    """Answers facts of realism only: an object looks real if the picture's realism is above the
    fact's own level, the surer the further above. Knows where the objects stand."""

    boxes: Mapping[str, tuple[float, float, float, float]] = field(default_factory=dict)

    @property
    def caps(self) -> JudgeCaps:
        return replace(super().caps, probability="regression", kinds=frozenset({"realism"}))

    def _seen(self, pixel: tuple[int, ...]) -> int:
        return pixel[1]

    def _answer(self, fact: Fact, quality: int) -> Answer:
        likely = min(1.0, max(0.0, 0.5 + (quality - self.level(fact)) / 510))
        return (
            super()
            ._answer(fact, quality)
            .model_copy(
                update={
                    "probability": likely,
                    "method": "regression",
                    "region": self.boxes.get(fact.subject),
                }
            )
        )


@dataclass
class ScriptedComposer:
    """Names the objects; notes every call."""

    book: CallBook = field(default_factory=CallBook)
    planned: Mapping[str, Region] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return "scripted"

    @property
    def fingerprint(self) -> str:
        return "scripted-composer-1"

    async def compose(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> str:
        names = ", ".join(item.id for item in scene.objects)
        relations = ", ".join(f"{r.source} {r.predicate} {r.target}" for r in scene.relations)
        self.book.note(f"begin compose {scene.digest} {seed}")
        self.book.note(f"end compose {scene.digest} {seed}")
        return f"{names}; {relations}; layout {seed % 7}"

    def places(self, scene: SceneGraph, seed: int) -> Mapping[str, Region]:
        return self.planned


class Killed(BaseException):
    """The end of a process, for a run that is to be continued."""


def kill_at(number: int) -> Callable[[Event], None]:
    """Return a watcher of a run that raises ``Killed`` at the event with this number, from 1.

    Steps and retries, which are not stored, are not counted.
    """
    seen = 0

    def watch(event: Event) -> None:
        nonlocal seen
        seen += event.type not in ("step", "retrying")
        if seen == number:
            raise Killed

    return watch
