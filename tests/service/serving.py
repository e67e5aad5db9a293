"""A service on a loopback port, and scripted models for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.service.core.schemas import RefinementRequest
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

Models = Callable[[RefinementRequest], Mapping[str, Any]]


class Server(uvicorn.Server):
    """A server in the running loop that leaves the process's signals alone."""

    @contextmanager
    def capture_signals(self) -> Any:
        yield


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[str]:
    """Serve ``app`` on a free port, lifespan included; its address."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    config = uvicorn.Config(
        app, http="h11", log_level="warning", access_log=False, timeout_graceful_shutdown=5,
        lifespan="on",
    )  # fmt: skip
    server = Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        async with asyncio.timeout(60):
            while not server.started:
                if task.done():
                    task.result()
                    raise RuntimeError("the server did not start: see its log above")
                await asyncio.sleep(0.01)
            await app.state.service.worker.ready.wait()
        yield f"http://127.0.0.1:{port}"
    finally:
        if hasattr(app.state, "service"):
            app.state.service.broadcaster.close()
        server.should_exit = True
        await task
        listening.close()


def scripted(rising: int = 80, words: ClosedVocabulary | None = None) -> Models:
    """Models whose pictures get better with every round, so that a run takes a few of them.

    A picture's quality is that of its round: 40, 40 + ``rising``, … ``words`` are all that the
    models know; such judges find what they know in any picture.
    """

    def quality(request: Any) -> int:
        return min(250, 40 + rising * bool(request.references))

    def judge(name: str) -> ScriptedJudge:
        if words is None:
            return ScriptedJudge(name)
        return ScriptedJudge(name, level=lambda fact: 0, vocabulary=words)

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        return {
            "backend": ScriptedBackend(quality, vocabulary=words),
            "judges": [judge("a"), judge("b")],
            "report_judges": [judge("c")],
            "composer": ScriptedComposer(),
        }

    return models
