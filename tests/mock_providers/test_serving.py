"""A mock server starts, ends, and lets go of what hangs."""

from __future__ import annotations

import asyncio
import http.client
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from scenewright.mock_providers import (
    Fault,
    MockError,
    MockProviders,
    MockSettings,
    serving,
    serving_thread,
)
from tests.mock_providers.asking import Client, body


async def test_it_serves_in_the_loop_of_its_caller() -> None:
    async with serving(MockSettings(latency=0.05)) as lab:
        assert isinstance(lab, MockProviders)
        async with openai.AsyncOpenAI(
            base_url=f"{lab.url}/v1", api_key="here", max_retries=0
        ) as client:
            await asyncio.gather(
                *(client.chat.completions.create(**body("chat")) for _ in range(4))
            )
        account = lab.report()["accounts"]["here"]
        assert (account["answered"], account["most_at_once"]) == (4, 4)
    with pytest.raises(OSError):  # noqa: PT011
        Client(lab.url, "here").ask("chat")


def threads() -> int:
    return sum(thread.name == "scenewright-lab" for thread in threading.enumerate())


@pytest.mark.parametrize("fault", [Fault.TIMEOUT, Fault.SLOW_DRIP, None])
def test_it_ends_in_time_with_requests_under_way(fault: Fault | None) -> None:
    before = threads()
    settings = MockSettings(drip_seconds=600.0, latency=0.0 if fault else 600.0)
    with ThreadPoolExecutor(3) as pool:
        with serving_thread(settings) as lab:
            if fault is not None:
                lab.schedule(fault, 3)
            client = Client(lab.url, "mine")
            waiting = [pool.submit(client.ask, "chat", timeout=60) for _ in range(3)]
            deadline = time.monotonic() + 60
            while lab.report()["requests"] < 3:
                assert time.monotonic() < deadline
                time.sleep(0.01)
            started = time.monotonic()
        assert time.monotonic() - started < settings.drip_seconds / 10
        for future in waiting:
            # A drip may be hurried to its end; what hangs is cut off.
            if fault is Fault.SLOW_DRIP and future.exception(timeout=60) is None:
                assert future.result().status == 200
            else:
                assert isinstance(
                    future.exception(timeout=60), (http.client.HTTPException, OSError)
                )
    assert threads() == before


def test_a_client_that_leaves_is_no_answer() -> None:
    with serving_thread(MockSettings(latency=0.5)) as lab:
        with pytest.raises(TimeoutError):
            Client(lab.url, "mine").ask("chat", timeout=0.1)
        deadline = time.monotonic() + 60
        while (account := lab.report()["accounts"]["mine"])["under_way"]:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert (account["abandoned"], account["answered"]) == (1, 0)


def test_a_port_in_use_is_told() -> None:
    with serving_thread() as lab:
        port = int(lab.url.rpartition(":")[2])
        with (
            pytest.raises(MockError, match=f"{port}.*--port"),
            serving_thread(MockSettings(port=port)),
        ):
            pass


def test_latency_is_met_and_varies_by_the_jitter() -> None:
    with serving_thread(MockSettings(latency=0.2, jitter=0.1)) as lab:
        client = Client(lab.url, "mine")
        taken = []
        for _ in range(4):
            started = time.monotonic()
            client.ask("chat")
            taken.append(time.monotonic() - started)
        assert min(taken) > 0.1
        assert max(taken) - min(taken) > 0.001
