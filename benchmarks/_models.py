"""Models of benchmarks: some that take no time, and some that remember.

Those that remember stand in front of a backend or a judge with its own id and fingerprint: what
several runs have in common is drawn and asked once, and each run counts it as its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
)
from scenewright.core.ports.judge import Judge, JudgeCaps
from scenewright.evals.runner.backends import BackendProxy
from scenewright.miniature.sampler import sample_painting
from scenewright.providers import fact_digest
from scenewright.runs.model_factory.profiles import RunModels

STEPS = 20
"""Denoising steps that are reported, as many as the miniature's generator takes."""


class InstantBackend:
    """Backend that gives one painting with other pixels in its corner for every request."""

    id = "instant:backend"
    fingerprint = "instant-backend-1"
    features = BackendFeatures(
        references=2,
        reference_maths="exact",
        masks=False,
        edit=False,
        negative_prompt=True,
        seeds=True,
        sizes=None,
        default_size=(128, 128),
        default_steps=STEPS,
        default_guidance=1.0,
    )

    def __init__(self, seconds: float = 0.0) -> None:
        """Wait ``seconds`` for each image."""
        self._seconds = seconds
        self._image = sample_painting(random.Random("held-out instant"), 5).image

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Return an image; read references and report steps as a real backend does."""
        if self._seconds:
            await asyncio.sleep(self._seconds)
        for reference in request.references:
            load(reference.image)
        for step in range(1, STEPS + 1):
            if on_step is not None:
                on_step(GenerationStep(step, STEPS))
        image = self._image.copy()
        for at, byte in enumerate(bytes.fromhex(request.key(self.fingerprint))):
            image.putpixel((at, 0), (byte, byte, byte))
        return GeneratedImage(image, 0.0)

    async def aclose(self) -> None:
        """Do nothing: there is nothing to free."""


class InstantJudge:
    """Judge that confirms all but the relations, so that a loop goes on to its last round."""

    caps = JudgeCaps(facts_per_call=512, probability="logprob", max_side=1024, local=True)

    def __init__(self, name: str, seconds: float = 0.0) -> None:
        """Wait ``seconds`` for each call."""
        self._seconds = seconds
        self.id = f"instant:{name}"
        self.fingerprint = f"instant-judge-{name}-1"

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact."""
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return [self._answer(fact) for fact in facts]

    def _answer(self, fact: Fact) -> Answer:
        holds = fact.kind != "relation"
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if holds else "no",
            choice=fact.expected if holds else next(o for o in fact.options if o != fact.expected),
            probability=0.9 if holds else 0.1,
            method="logprob",
            tokens_in=100,
        )

    async def aclose(self) -> None:
        """Do nothing: there is nothing to free."""


def instant_models(drawing: float = 0.0, judging: float = 0.0) -> dict[str, Any]:
    """Return instant models as options of a run: two judges steer, a third one reports."""
    a, b, c = (InstantJudge(name, judging) for name in "abc")
    return {"backend": InstantBackend(drawing), "judges": [a, b], "report_judges": [c]}


class SharedBackend(BackendProxy):
    """Backend that draws a request once; equal requests give equal images with seeds."""

    def __init__(self, backend: ImageBackend) -> None:
        """Raise ``ValueError`` if ``backend`` gives other images for the same seed."""
        if not backend.features.seeds:
            raise ValueError(f"{backend.id} has no seeds: its images cannot stand for each other")
        self.backend = backend
        self._drawn: dict[str, GeneratedImage] = {}

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """Return the image of ``request``; without steps if it was drawn before."""
        key = request.key(self.fingerprint)
        if key not in self._drawn:
            self._drawn[key] = await self.backend.generate(request, load, on_step)
        return self._drawn[key]

    async def aclose(self) -> None:
        """Forget the images; the backend stays open."""
        self._drawn.clear()


class SharedJudge:
    """Judge that is asked each fact of an image once; unscored answers are asked again."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self.id, self.fingerprint, self.caps = judge.id, judge.fingerprint, judge.caps
        self._known: dict[tuple[str, str], Answer] = {}
        self._turn = asyncio.Lock()

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """Return one answer a fact, in order."""
        seen = hashlib.sha256(image.tobytes()).hexdigest()
        asked = {(seen, fact_digest(fact)): fact for fact in facts}
        fresh: dict[tuple[str, str], Answer] = {}
        async with self._turn:
            new = {key: fact for key, fact in asked.items() if key not in self._known}
            if new:
                given = await self._judge.answer(image, list(new.values()))
                fresh = dict(zip(new, given, strict=True))
                self._known |= {k: a for k, a in fresh.items() if a.state in ("yes", "no")}
        found = self._known | fresh
        return [
            found[seen, fact_digest(fact)].model_copy(update={"fact_id": fact.id}) for fact in facts
        ]

    async def aclose(self) -> None:
        """Forget the answers; the judge stays open."""
        self._known.clear()


def shared(models: RunModels) -> RunModels:
    """Return ``models`` with a backend and judges that remember."""
    judges: dict[str, Any] = {
        name: tuple(SharedJudge(judge) for judge in getattr(models, name))
        for name in (
            *("loop_judges", "report_judges"),
            *("realism_judges", "realism_report_judges"),
        )
    }
    return replace(models, backend=SharedBackend(models.backend), **judges)
