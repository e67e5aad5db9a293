"""Attempts of one call: each differs from the one before by what is known of its failure."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from scenewright.agents.judges.models import caps_of
from scenewright.prompts import load_prompt
from scenewright.providers.clients.base import Completion, CompletionRequest, Message
from scenewright.providers.clients.client import attempts, make_client
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Reply
from tests.providers.clients.asking import DOG, PICTURE, SHEET, asked
from tests.providers.raw_server import (
    Behaviour,
    RawRequest,
    RawServer,
    drop,
    in_turn,
    raw_server,
    reply,
)

Attempt = Callable[[], Awaitable[Reply[Any]]]


def said(text: str) -> dict[str, Any]:
    usage = {"prompt_tokens": 5, "completion_tokens": 2}
    return {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "usage": usage}


GOOD = reply(said('{"a": 1}'), x_request_id="req_1")


def attempt_at(server: RawServer, request: CompletionRequest, **caps: Any) -> Attempt:
    """Attempts of one call to ``server``; a reply without an ``a`` is of no use."""
    found = caps_of("openai", "m", {"structured": "schema", **caps})
    client = make_client("openai", "m", found, api_key="sk-1", base_url=f"{server.url}/v1")

    async def build() -> CompletionRequest:
        return request

    def read(completion: Completion) -> Any:
        if completion.data is None or "a" not in completion.data:
            raise UnusableReply(f"no a in {completion.text!r}", completion.usage)
        return completion.data

    return attempts(client, build, read)


def words(request: RawRequest) -> Any:
    return request.json["messages"][-1]["content"]


def reminder(problem: str) -> str:
    return load_prompt("retry").render(problem=problem)


async def test_a_usable_reply_comes_with_its_usage_and_id() -> None:
    async with raw_server(GOOD) as server:
        found = await attempt_at(server, asked(SHEET))()
    assert found.value == {"a": 1}
    assert (found.usage.tokens_in, found.usage.tokens_out) == (5, 2)
    assert found.request_id == "req_1"
    assert words(server.received[0]) == "dog"


async def test_the_next_attempt_says_what_was_wrong_with_the_last() -> None:
    behave = in_turn(reply(said('{"b": 1}')), reply(said("c")), GOOD)
    async with raw_server(behave) as server:
        attempt = attempt_at(server, asked(SHEET))
        for _ in range(2):
            with pytest.raises(UnusableReply, match="no a in"):
                await attempt()
        assert (await attempt()).value == {"a": 1}
        first, second, third = map(words, server.received)
    assert first == "dog"
    told = "no a in " + repr('{"b": 1}')
    assert second == f"dog\n\n{reminder(told)}"
    assert third == f"dog\n\n{reminder('no a in ' + repr('c'))}"


async def test_a_long_reason_is_cut() -> None:
    async with raw_server(in_turn(reply(said("long " * 400)), GOOD)) as server:
        attempt = attempt_at(server, asked(SHEET))
        with pytest.raises(UnusableReply):
            await attempt()
        await attempt()
        assert len(words(server.received[1])) < 400


@pytest.mark.parametrize("fault", [drop, reply({"error": {"message": "busy"}}, 503)])
async def test_a_failure_on_the_way_changes_nothing(fault: Behaviour) -> None:
    async with raw_server(in_turn(fault, GOOD)) as server:
        attempt = attempt_at(server, asked(SHEET))
        with pytest.raises(Exception, match=r"busy|Connection"):
            await attempt()
        await attempt()
        before, after = (request.json for request in server.received)
    assert after == before


async def test_a_picture_stays_before_the_reminder() -> None:
    request = asked(SHEET, Message("user", (PICTURE, "dog")), Message("assistant", ("hm",)))
    pictured = asked(SHEET, Message("user", ("dog", PICTURE)))
    for sent in (request, pictured):
        async with raw_server(in_turn(reply(said("no")), GOOD)) as server:
            attempt = attempt_at(server, sent)
            with pytest.raises(UnusableReply):
                await attempt()
            await attempt()
            before, after = (one.json["messages"] for one in server.received)
        text = reminder("no a in 'no'")
        if sent is request:
            assert after == [*before, {"role": "user", "content": text}]
        else:
            assert after[-1]["content"] == [
                *before[-1]["content"], {"type": "text", "text": text}
            ]  # fmt: skip


class Silent:
    """Takes the first requests and never answers; the later ones are answered."""

    def __init__(self, silent: int) -> None:
        self.left = silent
        self.taken = asyncio.Event()

    async def __call__(self, request: RawRequest, writer: asyncio.StreamWriter) -> None:
        if self.left:
            self.left -= 1
            self.taken.set()
            await request.gone()
            return
        await GOOD(request, writer)


async def given_up(attempt: Attempt, silent: Silent) -> None:
    """End an attempt as a caller does whose time is up."""
    silent.taken.clear()
    work = asyncio.ensure_future(attempt())
    await silent.taken.wait()
    work.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await work


def way(request: RawRequest) -> str:
    choice = request.json.get("tool_choice")
    if choice is None:
        return "schema" if "response_format" in request.json else "none"
    return "named" if isinstance(choice, dict) else str(choice)


async def test_silence_is_evidence_against_the_way_of_forcing_a_tool() -> None:
    silent = Silent(2)
    async with raw_server(silent) as server:
        attempt = attempt_at(server, asked(SHEET), structured="tool", tool_choice="probe")
        await given_up(attempt, silent)
        await given_up(attempt, silent)
        await attempt()
        assert [way(one) for one in server.received] == ["named", "required", "schema"]
        assert words(server.received[1]) == f"dog\n\n{reminder('it took too long')}"


async def test_silence_leaves_a_declared_way_as_it_is() -> None:
    silent = Silent(1)
    async with raw_server(silent) as server:
        attempt = attempt_at(server, asked(SHEET), structured="tool", tool_choice="required")
        await given_up(attempt, silent)
        with contextlib.suppress(UnusableReply):
            await attempt()
        assert [way(one) for one in server.received] == ["required", "required"]


async def test_calls_do_not_remind_each_other() -> None:
    async with raw_server(in_turn(reply(said("no")), GOOD)) as server:
        with pytest.raises(UnusableReply):
            await attempt_at(server, CompletionRequest((DOG,), SHEET))()
        await attempt_at(server, CompletionRequest((DOG,), SHEET))()
        assert [words(one) for one in server.received] == ["dog", "dog"]
