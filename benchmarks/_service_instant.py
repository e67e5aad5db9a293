"""A service whose models take a fixed short time, in a process of its own: to be put under load.

``python -m benchmarks._service_instant FOLDER RUNNING`` prints its address.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from benchmarks._instant import InstantBackend, InstantJudge
from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.backend import GeneratedImage, GenerationRequest, GenerationStep
from scenewright.service.api.socket_server import Server, address_of, bind
from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings

DRAWING_SECONDS = 0.05
JUDGING_SECONDS = 0.02


class PacedBackend(InstantBackend):
    """An image after a fixed time, in which its steps are told."""

    async def generate(
        self,
        request: GenerationRequest,
        load: Callable[[str], Image.Image],
        on_step: Callable[[GenerationStep], None] | None = None,
    ) -> GeneratedImage:
        """As the instant one, later."""
        await asyncio.sleep(DRAWING_SECONDS)
        return await super().generate(request, load, on_step)


class PacedJudge(InstantJudge):
    """An answer after a fixed time."""

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        """As the instant one, later."""
        await asyncio.sleep(JUDGING_SECONDS)
        return await super().answer(image, facts)


async def serve(folder: Path, running: int) -> None:
    """Serve until the process is ended."""
    models: Mapping[str, Any] = {
        "backend": PacedBackend(),
        "judges": [PacedJudge("a"), PacedJudge("b")],
        "report_judges": [PacedJudge("c")],
    }

    def given(request: RefinementRequest) -> Mapping[str, Any]:
        return models

    settings = ServiceSettings(data=folder, port=0, running=running, queue=100_000)
    listening = bind(settings)
    server = Server(create_app(settings, models=given), settings)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    await server.ready.wait()
    print(address_of(settings, listening), flush=True)
    await task


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1]), int(sys.argv[2])))
