"""Services in one process whose models wait until a test lets them go on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from PIL import Image

from scenewright.core.ports.backend import GeneratedImage, GenerationRequest, GenerationStep
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.lifespan import running
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"
_SECONDS = 60.0


@dataclass
class GatedBackend(ScriptedBackend):
    """Draws only while its gate is open."""

    gate: asyncio.Event = field(default_factory=asyncio.Event)
    holds: Callable[[GenerationRequest], bool] = lambda request: True
    """Which requests wait at the gate."""
    waiting: int = 0
    """Requests at the gate."""
    most: int = 0
    """Most requests at work at once."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """As the scripted one, once the gate is open."""
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        try:
            if self.holds(request):
                await self.gate.wait()
            return await super().generate(request, load, on_step)
        finally:
            self.waiting -= 1


class Studio:
    """Scripted models of a service, and what they were asked."""

    def __init__(self, rising: int = 80) -> None:
        """A picture's quality is 40, with references ``rising`` more."""
        self.book = CallBook()
        self.backend = GatedBackend(
            lambda request: min(250, 40 + rising * bool(request.references)), self.book
        )

    def models(self, request: RefinementRequest) -> Mapping[str, Any]:
        """The models of each run."""
        return {
            "backend": self.backend,
            "judges": [ScriptedJudge("a", self.book), ScriptedJudge("b", self.book)],
            "report_judges": [ScriptedJudge("c", self.book)],
            "composer": ScriptedComposer(self.book),
        }

    def done(self, kind: str) -> list[str]:
        """Calls of ``kind`` that were done to their end."""
        return [line for line in self.book.lines if line.startswith(f"end {kind} ")]

    @asynccontextmanager
    async def service(self, settings: ServiceSettings) -> AsyncIterator[Service]:
        """A service with these models."""
        async with running(settings, models=self.models) as service:
            await service.worker.ready.wait()
            yield service


async def begin(service: Service, seed: int = 0, **more: Any) -> Run:
    """A new run."""
    asked = RefinementRequest(**{"triplets": SCENE, "seed": seed, "rounds": 3, **more})
    return (await service.submit(LOCAL, asked))[0]


async def still(service: Service, run: Run) -> Run:
    """The run once it stands still."""
    async with asyncio.timeout(_SECONDS):
        return await service.finished(LOCAL, run)


async def until(condition: Callable[[], bool]) -> None:
    """Return once ``condition`` holds; ``TimeoutError`` if it does not come to hold."""
    async with asyncio.timeout(_SECONDS):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def stands(service: Service, run: Run, *status: str) -> Run:
    """The run once its row says one of ``status``."""
    async with asyncio.timeout(_SECONDS):
        while (found := await service.store.get(run.id)).status not in status:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found


def twice(calls: list[str]) -> set[str]:
    """Which of ``calls`` came more than once."""
    return {call for call in calls if calls.count(call) > 1}
