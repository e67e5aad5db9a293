"""One client for each event loop."""

from __future__ import annotations

import asyncio
import threading

from scenewright.providers.sdk_clients import PerLoop


class Client:
    """Notes in which loop it was made and closed."""

    def __init__(self) -> None:
        self.made = asyncio.get_running_loop()
        self.closed: asyncio.AbstractEventLoop | None = None

    async def close(self) -> None:
        self.closed = asyncio.get_running_loop()


async def test_a_loop_has_one_client_until_it_is_closed() -> None:
    clients = PerLoop(Client, Client.close)
    first = clients.get()
    assert clients.get() is first
    await clients.aclose()
    assert first.closed is first.made
    assert clients.get() is not first


def test_loops_one_after_another_have_their_own() -> None:
    clients = PerLoop(Client, Client.close)

    async def get() -> Client:
        return clients.get()

    found = [asyncio.run(get()) for _ in range(3)]
    assert len({id(client) for client in found}) == 3
    asyncio.run(clients.aclose())
    assert [client.closed for client in found] == [None] * 3


async def test_a_client_is_closed_in_its_own_thread() -> None:
    clients = PerLoop(Client, Client.close)
    found: list[Client] = []
    ready, stop = threading.Event(), threading.Event()

    async def other() -> None:
        found.append(clients.get())
        ready.set()
        await asyncio.to_thread(stop.wait, 10)

    thread = threading.Thread(target=asyncio.run, args=(other(),))
    thread.start()
    await asyncio.to_thread(ready.wait, 10)
    mine = clients.get()
    await clients.aclose()
    stop.set()
    thread.join(10)
    assert mine.closed is asyncio.get_running_loop()
    assert found[0].closed is found[0].made is not mine.made
