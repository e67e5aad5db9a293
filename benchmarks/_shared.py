"""Models that remember: what several runs have in common is drawn and asked once.

They stand in front of a backend or a judge with its own id and fingerprint. A run cannot
tell the difference and counts every image and call as its own.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence

from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import (
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
)
from scenewright.core.ports.judge import Judge, JudgeCaps
from scenewright.evals.runner.backend_cache import BackendProxy
from scenewright.providers import fact_digest


class SharedBackend(BackendProxy):
    """Draws a request once; equal requests give equal images on a backend with seeds."""

    def __init__(self, backend: ImageBackend) -> None:
        """Raises ``ValueError`` if ``backend`` gives other images for the same seed."""
        if not backend.features.seeds:
            raise ValueError(f"{backend.id} has no seeds: its images cannot stand for each other")
        self.backend = backend
        self._drawn: dict[str, GeneratedImage] = {}
        self.calls = 0
        """How many images the backend itself has drawn."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """The image of ``request``; without steps if it was drawn before."""
        key = request.key(self.fingerprint)
        if key not in self._drawn:
            self._drawn[key] = await self.backend.generate(request, load, on_step)
            self.calls += 1
        return self._drawn[key]

    async def aclose(self) -> None:
        """Forget the images; the backend stays open."""
        self._drawn.clear()


class SharedJudge:
    """Asks each fact of an image once; what came back unscored is asked again."""

    def __init__(self, judge: Judge) -> None:
        self._judge = judge
        self._known: dict[tuple[str, str], Answer] = {}
        self._turn = asyncio.Lock()

    @property
    def id(self) -> str:
        """The judge's own."""
        return self._judge.id

    @property
    def fingerprint(self) -> str:
        """The judge's own."""
        return self._judge.fingerprint

    @property
    def caps(self) -> JudgeCaps:
        """The judge's own."""
        return self._judge.caps

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """One answer a fact, in order."""
        seen = hashlib.sha256(image.tobytes()).hexdigest()
        keys = [(seen, fact_digest(fact)) for fact in facts]
        fresh: dict[tuple[str, str], Answer] = {}
        async with self._turn:
            new = {
                key: fact for key, fact in zip(keys, facts, strict=True) if key not in self._known
            }
            if new:
                given = await self._judge.answer(image, list(new.values()))
                fresh = dict(zip(new, given, strict=True))
                self._known |= {k: a for k, a in fresh.items() if a.state in ("yes", "no")}
        return [
            (fresh.get(key) or self._known[key]).model_copy(update={"fact_id": fact.id})
            for key, fact in zip(keys, facts, strict=True)
        ]

    async def aclose(self) -> None:
        """Forget the answers; the judge stays open."""
        self._known.clear()
