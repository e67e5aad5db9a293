"""One lab for all tests of this folder; each test is an account of its own."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import pytest

from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers import caller
from tests.mock_providers.asking import Client


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply that comes without an end is given up after two timeouts."""
    monkeypatch.setattr(caller, "TOTAL_TIMEOUTS", 2)


@pytest.fixture(scope="package")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings(drip_seconds=0.3, longest_hang=30.0)) as made:
        yield made


@pytest.fixture
def key(request: pytest.FixtureRequest) -> str:
    return f"key-{hashlib.sha256(request.node.nodeid.encode()).hexdigest()[:16]}"


@pytest.fixture
def client(lab: ThreadedMockProviders, key: str) -> Client:
    return Client(lab.url, key)


@pytest.fixture(scope="package")
def slow_lab() -> Iterator[ThreadedMockProviders]:
    """Its slow answers take far longer than anybody waits."""
    with serving_thread(MockSettings(drip_seconds=20.0, longest_hang=30.0)) as made:
        yield made
