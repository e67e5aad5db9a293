"""A server that speaks the providers' wire formats, and a caller that loses no time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from tests.agents.judges.loopback import Loopback, serving


@pytest.fixture(scope="package")
def running() -> Iterator[Loopback]:
    with serving() as loopback:
        yield loopback


@pytest.fixture
def server(running: Loopback) -> Loopback:
    running.received.clear()
    running.script.clear()
    return running


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("test", timeout=10.0, attempts=2, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()
