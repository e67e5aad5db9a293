"""Models that take no time: what is left of a run's time is the engine's."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
)
from scenewright.core.ports.judge import JudgeCaps
from scenewright.miniature.sampler import sample_painting

STEPS = 20
"""Denoising steps that are told of, as many as the miniature's generator takes."""


class InstantBackend:
    """Gives one painting with other pixels in its corner for every request."""

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

    def __init__(self) -> None:
        self._image = sample_painting(random.Random("held-out instant"), 5).image

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """An image at once; references are read and steps are told as a real backend does."""
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
        """Nothing to free."""


class InstantJudge:
    """Confirms all but the relations, so that a loop goes on to its last round."""

    caps = JudgeCaps(facts_per_call=512, probability="logprob", max_side=1024, local=True)

    def __init__(self, name: str) -> None:
        self.id = f"instant:{name}"
        self.fingerprint = f"instant-judge-{name}-1"

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """An answer a fact, at once."""
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
        """Nothing to free."""
