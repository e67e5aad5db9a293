"""Keys of paid requests: equal for a repeated one, different for every other."""

from __future__ import annotations

import asyncio

import httpx2
import pytest

from scenewright.providers.caller import Caller
from scenewright.providers.retry import (
    Backoff,
    CallError,
    Decision,
    PermanentError,
    Transient,
    UnusableReply,
)
from scenewright.providers.sdk_clients import HEADER, identified, identify, request_digest
from scenewright.providers.usage import Reply, Usage

BUSY = Transient("HTTP 503")
BROKEN = Transient("malformed reply", replied=True)
EMPTY = UnusableReply("empty reply", Usage())


class Provider:
    """Keeps the keys it was sent; each attempt meets the next entry of ``script``."""

    def __init__(self, *script: Decision | UnusableReply) -> None:
        self.keys: list[str | None] = []
        self._script = list(script)
        transport = httpx2.MockTransport(self._answer)
        self._http = httpx2.AsyncClient(transport=transport, event_hooks={"request": [identify]})
        self._caller = Caller("test", backoff=Backoff(initial=0.0), priced=False)

    def _answer(self, request: httpx2.Request) -> httpx2.Response:
        self.keys.append(request.headers.get(HEADER))
        return httpx2.Response(200, json={})

    async def ask(self, text: str = "dog?") -> None:
        async def attempt() -> Reply[str]:
            await self._http.post("http://provider/v1/ask", json={"text": text})
            if self._script:
                raise Raised(self._script.pop(0))
            return Reply("yes", Usage())

        async def send() -> Reply[str]:
            try:
                return await attempt()
            except Raised as raised:
                if isinstance(raised.what, UnusableReply):
                    raise raised.what from None
                raise

        await self._caller.call(
            send,
            classify=lambda error: (
            error.what if isinstance(error, Raised) else PermanentError(str(error))
        ),
            provider="p", model="m", tokens=1,
        )  # fmt: skip

    async def fetch(self) -> None:
        await self._http.get("http://elsewhere/picture.png")


class Raised(Exception):
    def __init__(self, what: Decision | UnusableReply) -> None:
        self.what = what


async def test_without_a_scope_there_is_no_key() -> None:
    provider = Provider()
    await provider.ask()
    with identified("run:step"), identified(""):
        await provider.ask()
    assert provider.keys == [None, None]


async def test_what_is_fetched_has_no_key() -> None:
    provider = Provider()
    with identified("run:step"):
        await provider.fetch()
    assert provider.keys == [None]


async def test_a_repeated_step_sends_the_same_key_and_every_other_one_another() -> None:
    provider = Provider()
    for scope, text in [("run:a", "dog?"), ("run:a", "dog?"), ("run:b", "dog?"), ("run:a", "cat?")]:
        with identified(scope):
            await provider.ask(text)
    first, again, *others = provider.keys
    assert first == again
    assert len({first, *others}) == 3
    assert all(key is not None and len(key) == 64 for key in provider.keys)


async def test_the_innermost_scope_counts() -> None:
    provider = Provider()
    with identified("run:inner"):
        await provider.ask()
    with identified("run:outer"):
        with identified("run:inner"):
            await provider.ask()
        await provider.ask()
    inner, again, outer = provider.keys
    assert inner == again != outer


@pytest.mark.parametrize(
    ("script", "keys"),
    [
        # The provider may have done the work: it is not to do it again.
        ([BUSY, BUSY], "aaa"),
        # What came whole would come again under the same key.
        ([EMPTY], "ab"),
        ([BROKEN], "ab"),
        ([BUSY, EMPTY, BUSY], "aabb"),
    ],
)
async def test_attempts_share_a_key_until_a_whole_reply_came(
    script: list[Decision | UnusableReply], keys: str
) -> None:
    provider = Provider(*script)
    with identified("run:step"):
        await provider.ask()
    names: dict[str | None, str] = {}
    assert [names.setdefault(key, "abc"[len(names)]) for key in provider.keys] == list(keys)


async def test_after_a_kill_the_numbers_begin_again() -> None:
    provider = Provider(EMPTY, EMPTY)
    with identified("run:step"):
        await provider.ask()
    told, provider.keys = provider.keys, []
    assert len(set(told)) == 3
    provider._script = [EMPTY, EMPTY]
    with identified("run:step"):
        await provider.ask()
    assert provider.keys == told


async def test_equal_calls_of_one_step_differ_one_after_the_other_and_side_by_side() -> None:
    provider = Provider()
    with identified("run:step"):
        await provider.ask()
        await provider.ask()
    one_after_the_other, provider.keys = set(provider.keys), []
    assert len(one_after_the_other) == 2
    with identified("run:step"):
        await asyncio.gather(provider.ask(), provider.ask())
    assert set(provider.keys) == one_after_the_other


async def test_a_call_that_was_lost_leaves_its_key_to_the_next_one() -> None:
    provider = Provider(PermanentError("HTTP 401"))
    with identified("run:step"):
        with pytest.raises(CallError):
            await provider.ask()
        await provider.ask()
    lost, next_one = provider.keys
    assert lost == next_one


async def test_a_refusal_uses_its_key_up() -> None:
    provider = Provider(UnusableReply("refused", Usage(), retry=False))
    with identified("run:step"):
        with pytest.raises(CallError):
            await provider.ask()
        await provider.ask()
    refused, next_one = provider.keys
    assert refused != next_one


async def test_the_boundary_of_a_form_does_not_count_and_its_content_does() -> None:
    keys: list[str] = []

    def answer(request: httpx2.Request) -> httpx2.Response:
        keys.append(request.headers[HEADER])
        assert b"picture" in request.read()
        assert request.headers["content-length"] == str(len(request.content))
        return httpx2.Response(200)

    transport = httpx2.MockTransport(answer)
    async with httpx2.AsyncClient(
        transport=transport, event_hooks={"request": [identify]}
    ) as client:
        for file in (b"picture", b"picture", b"other picture"):
            with identified("run:step"):
                await client.post("http://provider/edit", files={"image": ("a.png", file)})
    first, again, other = keys
    assert first == again != other


def test_parts_of_a_form_do_not_run_into_one_another() -> None:
    kind = "multipart/form-data; boundary=b"
    assert request_digest("POST", "/", kind, b"ab--bc") != request_digest(
        "POST", "/", kind, b"a--bbc"
    )
