"""A mock server whose scripts answer, and a caller that loses no time between its attempts."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator

import pytest

from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff


@pytest.fixture(scope="package")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings(longest_hang=60.0)) as made:
        yield made


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    """Each test is an account of its own."""
    return f"sk-test-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:24]}"


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("test", timeout=60.0, attempts=3, priced=False, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()
