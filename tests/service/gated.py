"""Scripted models that draw only when a test lets them, so that it sees every stage of a run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image

from scenewright.core.images import preview_bytes
from scenewright.core.ports.backend import GeneratedImage, GenerationRequest, GenerationStep
from scenewright.service.core.schemas import RefinementRequest
from tests.doubles import ScriptedBackend
from tests.service.serving import Models, scripted


class Gate:
    """Lets drawings through, one by one."""

    def __init__(self) -> None:
        self._passes = asyncio.Semaphore(0)
        self._changed = asyncio.Condition()
        self.came = 0
        """Drawings that have come to the gate."""

    async def passed(self) -> None:
        """Wait to be let through."""
        async with self._changed:
            self.came += 1
            self._changed.notify_all()
        await self._passes.acquire()

    async def waiting(self, count: int) -> None:
        """Wait until ``count`` drawings have come."""
        async with asyncio.timeout(60), self._changed:
            await self._changed.wait_for(lambda: self.came >= count)

    def let(self, count: int = 1) -> None:
        """Let ``count`` drawings through."""
        for _ in range(count):
            self._passes.release()

    def open(self) -> None:
        """Let all through from now on."""
        self.let(10_000)


@dataclass
class GatedBackend(ScriptedBackend):
    """Waits at the gate after the first step of every drawing, whose picture it shows."""

    gate: Gate | None = None

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        if on_step is not None:
            on_step(GenerationStep(1, 4, preview_bytes(Image.new("RGB", (64, 64), "teal"))))
        if self.gate is not None:
            await self.gate.passed()
        return await super().generate(request, load, on_step)


def gated(gate: Gate) -> Models:
    """The scripted models with a backend that waits at ``gate``."""

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        given = dict(scripted()(request))
        given["backend"] = GatedBackend(given["backend"].quality, gate=gate)
        return given

    return models
