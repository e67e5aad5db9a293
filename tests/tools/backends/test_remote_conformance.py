"""The contract of backends, held by those behind an image API, over the wire to a mock server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from scenewright.core.images import ImageStore
from scenewright.core.ports.backend import BackendError, ImageBackend
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.tools.backends.remote import RemoteBackend, remote_backend
from tests.tools.backends.conformance import RED, BackendConformance, drawn, no_images

KEY = "key-of-conformance"


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread() as made:
        yield made


@pytest.fixture(scope="module")
def slow() -> Iterator[ThreadedMockProviders]:
    """Answers after longer than anybody waits."""
    with serving_thread(MockSettings(latency=60.0)) as made:
        yield made


def made_for(provider: str, lab: ThreadedMockProviders, **options: int) -> RemoteBackend:
    url = lab.openai_url if provider == "openai" else lab.url
    caller = Caller("lab", timeout=60.0, priced=False)
    return remote_backend(
        provider, "instant-image", caller, api_key=KEY, base_url=url, overrides=options
    )


def requests_under_way(lab: ThreadedMockProviders) -> int:
    account = lab.report()["accounts"].get(KEY)
    return int(account["under_way"]) if account else 0


async def under_way(lab: ThreadedMockProviders, count: int) -> None:
    async with asyncio.timeout(60):
        while requests_under_way(lab) < count:  # noqa: ASYNC110 - a server in another thread
            await asyncio.sleep(0.01)


class RemoteConformance(BackendConformance):
    """A provider does not tell of its steps: what is cancelled is a call."""

    provider: str

    @pytest.fixture
    def make_backend(self, lab: ThreadedMockProviders) -> Callable[[], ImageBackend]:
        return lambda: made_for(self.provider, lab)

    @pytest.fixture
    async def backend(
        self, make_backend: Callable[[], ImageBackend]
    ) -> AsyncIterator[ImageBackend]:
        made = make_backend()
        yield made
        await made.aclose()

    async def test_cancelling_stops_between_steps_and_frees_the_backend(
        self,
        backend: ImageBackend,
        store: ImageStore,
        slow: ThreadedMockProviders,
    ) -> None:
        hanging = made_for(self.provider, slow)
        before = requests_under_way(slow)
        tasks = [asyncio.create_task(hanging.generate(RED, no_images)) for _ in range(2)]
        await under_way(slow, before + 2)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
        assert [type(result) for result in results] == [asyncio.CancelledError] * 2
        await hanging.aclose()
        assert await drawn(backend, RED, store)

    async def test_a_timeout_ends_it(
        self, backend: ImageBackend, store: ImageStore, slow: ThreadedMockProviders
    ) -> None:
        hanging = made_for(self.provider, slow)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await hanging.generate(RED, no_images)
        await hanging.aclose()
        assert await drawn(backend, RED, store)


class TestOpenAI(RemoteConformance):
    provider = "openai"


class TestGemini(RemoteConformance):
    provider = "gemini"


class TestUnknownModel(RemoteConformance):
    """Of a model that nothing is known of: no references, no edits."""

    provider = "openai"

    @pytest.fixture
    def make_backend(self, lab: ThreadedMockProviders) -> Callable[[], ImageBackend]:
        return lambda: made_for("openai", lab, pictures=0)


async def test_requests_go_side_by_side(slow: ThreadedMockProviders) -> None:
    before = requests_under_way(slow)
    backend = made_for("openai", slow)
    tasks = [asyncio.create_task(backend.generate(RED, no_images)) for _ in range(4)]
    await under_way(slow, before + 4)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await backend.aclose()


async def test_a_backend_of_anthropic_is_a_clear_error() -> None:
    with pytest.raises(BackendError, match=r"anthropic has no models that draw.*openai or gemini"):
        remote_backend("anthropic", "claude-opus-5", Caller("lab"), api_key=KEY)
