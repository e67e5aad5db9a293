"""Backends that need not draw what is there already, such as the first picture that arms share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import (
    BackendFeatures,
    GeneratedImage,
    GenerationRequest,
    GenerationStep,
    ImageBackend,
    PromptCount,
)
from scenewright.tools.backends.prompts import count_prompt


class BackendProxy:
    """Stands before what draws and is taken for it: its pictures are those that it would draw."""

    __slots__ = ()
    backend: ImageBackend
    """What draws."""

    @property
    def id(self) -> str:
        """That of what draws."""
        return self.backend.id

    @property
    def fingerprint(self) -> str:
        """That of what draws."""
        return self.backend.fingerprint

    @property
    def features(self) -> BackendFeatures:
        """Those of what draws."""
        return self.backend.features

    def count_prompt(self, prompt: str) -> PromptCount:
        """As what draws counts it."""
        return count_prompt(self.backend, prompt)


@dataclass(frozen=True, slots=True)
class CachedBackend(BackendProxy):
    """Implements :class:`~scenewright.core.ports.backend.ImageBackend`: gives one request's
    picture from a store, and has everything else drawn."""

    backend: ImageBackend
    """What draws."""
    images: ImageStore
    """Where the picture is."""
    request: GenerationRequest
    """Its request."""
    image: str
    """Its content hash."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """The picture that is there, at no cost, or a new one."""
        if request == self.request:
            return GeneratedImage(await asyncio.to_thread(self.images.get, self.image), 0.0)
        return await self.backend.generate(request, load, on_step)

    async def aclose(self) -> None:
        """Nothing: what draws goes on serving others."""
