"""The load of the service: what its clients count, against a real server."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from fastapi import FastAPI
from sse_starlette import EventSourceResponse, ServerSentEvent

from benchmarks.service_load import Load, load, watch
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving


async def test_clients_hear_all_of_every_run(tmp_path: Path) -> None:
    settings = ServiceSettings(data=tmp_path, running=2)
    async with serving(create_app(settings, models=scripted())) as url:
        seen = await load(url, os.getpid(), runs=3, streams=2)
    assert seen.lost == 0
    assert len(seen.took) == 3
    assert [number for number, _ in seen.memory] == [1, 2, 3]
    assert all(mib > 10 for _, mib in seen.memory)
    assert all(0 <= late < 5 for late in seen.added)


@pytest.mark.parametrize(("numbers", "lost"), [((0, 1, 2), 0), ((0, 2), 1), ((3,), 3), ((), 1)])
async def test_a_number_that_is_not_heard_is_lost(numbers: tuple[int, ...], lost: int) -> None:
    app = FastAPI()

    @app.get("/v1/refinements/run/events")
    async def events() -> EventSourceResponse:
        async def told() -> AsyncIterator[ServerSentEvent]:
            for number in numbers:
                yield ServerSentEvent(json.dumps({"at": 1.0}), event="generated", id=str(number))
            yield ServerSentEvent("{}", event="status")

        return EventSourceResponse(told())

    app.state.service = _Quiet()
    seen = Load()
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        await watch(client, "run", seen)
    assert seen.lost == lost
    # What happened before the client listened was not late.
    assert seen.added == []


class _Quiet:
    """What the helper that serves waits for."""

    class worker:
        ready = asyncio.Event()
        ready.set()

    class broadcaster:
        @staticmethod
        def close() -> None:
            return
