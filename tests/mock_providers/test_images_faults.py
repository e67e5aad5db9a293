"""Every fault at both image APIs: drawn after a retry, or a clear error, and nothing secret."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from scenewright.core.ports.backend import BackendError, GenerationRequest
from scenewright.mock_providers import Fault, MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from scenewright.tools.backends.remote import RemoteBackend, remote_backend
from tests.mock_providers.faulty import (
    ATTEMPTS,
    HANGING,
    NO_REPLY,
    STREAM_FAULTS,
    TIMEOUT,
    caller_of,
)

RED = GenerationRequest(prompt="a red dog", seed=7)
# What a fault that never passes says; a number of pictures other than one is no harm.
REASONS = {
    **NO_REPLY,
    Fault.RATE_LIMITED: r"429.*retry budget.*lower concurrent",
    Fault.TIMEOUT: r"no reply within 0.6 s \(after 2 attempts\).*timeout in \[accounts.mine\]",
    Fault.TRUNCATED_JSON: r"damaged",
    Fault.INVALID_JSON: r"malformed reply",
    Fault.REFUSAL: r"refused.*say it in other words",
    Fault.EMPTY: r"empty reply",
    Fault.OUTSIDE_OPTIONS: r"not an image|text/html came",
}


@pytest.fixture(params=["openai", "gemini"])
async def backend(
    request: pytest.FixtureRequest, slow_lab: ThreadedMockProviders, key: str
) -> AsyncIterator[RemoteBackend]:
    fault = request.node.callspec.params.get("fault")
    caller = caller_of(fault, "mine")
    url = slow_lab.openai_url if request.param == "openai" else slow_lab.url
    made = remote_backend(
        request.param, "instant-image", caller, api_key=key, base_url=url, name="mine"
    )
    # The first request of an SDK takes long enough to be taken for a hanging one.
    if fault not in HANGING:
        await drawn(made)
    yield made
    await made.aclose()
    await caller.aclose()


async def drawn(backend: RemoteBackend) -> tuple[int, int]:
    image = (await backend.generate(RED, lambda name: pytest.fail(name))).image
    return image.size


@pytest.mark.parametrize("fault", [fault for fault in Fault if fault not in HANGING])
async def test_a_fault_that_passes(
    backend: RemoteBackend, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    slow_lab.schedule(fault, 1, key)
    if fault is Fault.REFUSAL:
        with pytest.raises(BackendError, match=REASONS[fault]):
            await drawn(backend)
    else:
        assert await drawn(backend) == (128, 128)
    report = slow_lab.report()["accounts"][key]
    assert report["faults"] == {fault.value: 1}
    decisions = (Fault.PARTIAL_REFUSAL, Fault.SHUFFLED, Fault.NO_PROBABILITY)
    harmless = fault in (Fault.REFUSAL, Fault.WRONG_NUMBER, *decisions, *STREAM_FAULTS)
    assert report["arrivals"] == (2 if harmless else 3)


@pytest.mark.parametrize("fault", list(REASONS))
async def test_a_fault_that_never_passes(
    backend: RemoteBackend, slow_lab: ThreadedMockProviders, key: str, fault: Fault
) -> None:
    slow_lab.schedule(fault, 100, key)
    with pytest.raises(BackendError) as caught:
        await drawn(backend)
    told = str(caught.value)
    assert told.startswith("mine:instant-image drew nothing: ")
    assert re.search(REASONS[fault], told), told
    assert key not in told
    assert slow_lab.report()["accounts"][key]["faults"][fault.value] <= ATTEMPTS


async def test_limits_hold_for_pictures(key: str) -> None:
    with serving_thread(MockSettings(requests_per_minute=120, window=1.0)) as lab:
        caller = Caller("mine", timeout=TIMEOUT, priced=False, backoff=Backoff(initial=0.01))
        backend = remote_backend(
            "openai", "instant-image", caller, api_key=key, base_url=lab.openai_url
        )
        for _ in range(4):
            assert await drawn(backend) == (128, 128)
        report = lab.report()["accounts"][key]
        assert report["answered"] == 4
        assert report["rate_limited"] > 0
        assert caller.totals.rate_limited == report["rate_limited"]
        await backend.aclose()
        await caller.aclose()
