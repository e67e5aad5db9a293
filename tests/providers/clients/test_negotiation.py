"""What a client learns from refusals: the next request differs, and later processes know it."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from scenewright.providers.caller import Caller
from scenewright.providers.clients import negotiation
from scenewright.providers.clients.base import ClientSettings, Completion, CompletionRequest
from scenewright.providers.clients.client import attempts, make_client
from scenewright.providers.clients.negotiation import KnownServer
from scenewright.providers.retry import Backoff, CallError
from tests.providers.clients.asking import SHEET, asked
from tests.providers.raw_server import RawRequest, RawServer, raw_server, reply

KEY = "sk-of-this-account"
Body = dict[str, Any]
Refuse = Callable[[Body], Body | None]
"""Returns the error that a server answers a request's body with."""


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it is remembered, for this test alone."""
    found = tmp_path / "servers.sqlite"
    monkeypatch.setattr(negotiation, "found_file", lambda: found)
    return found


def settings(**fields: Any) -> ClientSettings:
    every: dict[str, Any] = {
        "structured": "schema", "strict": False, "logprobs": False, "sampling": {},
        "max_output_tokens": 64, "prompt_cache": False,
    }  # fmt: skip
    return ClientSettings.model_validate({**every, **fields})


CHAT = {"choices": [{"message": {"content": '{"a": 1}'}, "finish_reason": "stop"}]}
RESPONSE = {
    "output": [{"type": "message", "content": [{"type": "output_text", "text": '{"a": 1}'}]}],
    "status": "completed",
}


@asynccontextmanager
async def strict(refuse: Refuse, status: int = 400) -> AsyncIterator[RawServer]:
    """A server that answers what it does not refuse."""

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        problem = refuse(request.json)
        answer = RESPONSE if request.target.endswith("/responses") else CHAT
        answered = reply(answer) if problem is None else reply({"error": problem}, status)
        await answered(request, writer)

    async with raw_server(behave) as server:
        yield server


class Process:
    """A client as a new process makes it: all that it knows of a server comes from the file."""

    def __init__(self, server: RawServer, model: str = "m", **fields: Any) -> None:
        self._server = server
        self.client = make_client(
            "openai", model, settings(**fields), api_key=KEY, base_url=f"{server.url}/v1"
        )
        self._caller = Caller("test", attempts=2, priced=False, backoff=Backoff(initial=0.001))

    async def ask(self, request: CompletionRequest | None = None) -> list[Body]:
        """Make one call; return the bodies that it sent."""
        before = len(self._server.received)

        async def build() -> CompletionRequest:
            return request or asked(SHEET)

        def read(found: Completion) -> Completion:
            assert found.data == {"a": 1}
            return found

        await self._caller.call(
            attempts(self.client, build, read), classify=self.client.classify, provider="openai",
            model="m", tokens=1,
        )  # fmt: skip
        return [request.json for request in self._server.received[before:]]


def refusing_efforts(*allowed: str) -> Refuse:
    listed = ", ".join(repr(effort) for effort in allowed)

    def refuse(body: Body) -> Body | None:
        effort = body.get("reasoning_effort")
        if effort is None or effort in allowed:
            return None
        words = f"Unsupported value: '{effort}' is not supported with this model."
        words += f" Supported values are: {listed}." if allowed else ""
        return {"message": words, "param": "reasoning_effort", "code": "unsupported_value"}

    return refuse


def refusing(name: str, message: str, param: str | None = None) -> Refuse:
    return lambda body: {"message": message, "param": param} if name in body else None


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [one.getMessage() for one in caplog.records if "learnt" in one.getMessage()]


async def test_the_cheapest_of_the_listed_efforts_is_taken_and_remembered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "scenewright.providers")
    async with strict(refusing_efforts("high", "medium", "low")) as server:
        first = Process(server, reasoning_effort="none")
        efforts = [body["reasoning_effort"] for body in await first.ask()]
        assert efforts == ["none", "low"]
        assert [body["reasoning_effort"] for body in await first.ask()] == ["low"]
        later = Process(server, reasoning_effort="none")
        assert [body["reasoning_effort"] for body in await later.ask()] == ["low"]
        (words,) = told(caplog)
        assert words.startswith('m takes the reasoning effort "low"')
        other = Process(server, "other", reasoning_effort="none")
        assert len(await other.ask()) == 2


async def test_what_goes_with_an_effort_of_none_alone_goes_with_it() -> None:
    async with strict(refusing_efforts("low", "high")) as server:
        fields = {"sampling": {"temperature": 0.0, "seed": 1}, "logprobs": True}
        before, after = await Process(server, reasoning_effort="none", **fields).ask()
    assert (before["temperature"], before["logprobs"], before["max_tokens"]) == (0.0, True, 64)
    assert {"temperature", "logprobs", "top_logprobs", "max_tokens"}.isdisjoint(after)
    assert (after["seed"], after["max_completion_tokens"]) == (1, 64)


async def test_without_a_list_no_effort_is_sent() -> None:
    async with strict(refusing_efforts()) as server:
        before, after = await Process(server, reasoning_effort="minimal").ask()
    assert before["reasoning_effort"] == "minimal"
    assert "reasoning_effort" not in after


async def test_an_effort_that_was_refused_is_not_tried_again() -> None:
    words = "reasoning_effort: Supported values are: 'none', 'low', 'high'."
    async with strict(refusing("reasoning_effort", words)) as server:
        bodies = await Process(server, reasoning_effort="low").ask()
    assert [body.get("reasoning_effort") for body in bodies] == ["low", "none", "high", None]


async def test_refusals_of_calls_side_by_side_are_one_lesson(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.WARNING, "scenewright.providers")
    waiting, met = asyncio.Event(), 0
    refuse = refusing_efforts("low", "medium", "high")

    async def behave(request: RawRequest, writer: asyncio.StreamWriter) -> None:
        nonlocal met
        problem = refuse(request.json)
        if problem is None:
            await reply(CHAT)(request, writer)
            return
        met += 1
        if met == 3:
            waiting.set()
        await waiting.wait()
        await reply({"error": problem}, 400)(request, writer)

    async with raw_server(behave) as server:
        process = Process(server, reasoning_effort="none")
        await asyncio.gather(*(process.ask() for _ in range(3)))
        efforts = [request.json["reasoning_effort"] for request in server.received]
    assert efforts == ["none"] * 3 + ["low"] * 3
    assert len(told(caplog)) == 1


@pytest.mark.parametrize(
    "words",
    [
        "This model is only supported in v1/responses and not in v1/chat/completions.",
        "Function tools with reasoning_effort are not supported for m in /v1/chat/completions. "
        "Please use /v1/responses instead.",
    ],
)
@pytest.mark.parametrize("status", [400, 404])
async def test_the_other_interface_is_taken_and_remembered(words: str, status: int) -> None:
    async with strict(refusing("messages", words), status) as server:
        await Process(server).ask()
        await Process(server).ask()
        paths = [request.target for request in server.received]
    assert paths == ["/v1/chat/completions", "/v1/responses", "/v1/responses"]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ("Unsupported parameter.", "prompt_cache_key"),
        ("Unknown parameter: 'prompt_cache_key'.", None),
        ("Extra inputs are not permitted: body.prompt_cache_key", "body.prompt_cache_key"),
        ("[{'loc': ('body', 'prompt_cache_key'), 'msg': 'extra fields not permitted'}]", None),
    ],
)
async def test_a_parameter_that_is_refused_is_left_out_from_then_on(
    message: str, param: str | None
) -> None:
    request = CompletionRequest(asked().messages, SHEET, cache_key="beginning")
    async with strict(refusing("prompt_cache_key", message, param)) as server:
        before, after = await Process(server, prompt_cache=True).ask(request)
        assert before.pop("prompt_cache_key") == "beginning"
        assert after == before
        assert await Process(server, prompt_cache=True).ask(request) == [after]


async def test_the_output_limit_takes_the_name_that_the_server_knows() -> None:
    words = "Unsupported parameter: 'max_tokens' is not supported with this model."
    words += " Use 'max_completion_tokens' instead."
    async with strict(refusing("max_tokens", words, "max_tokens")) as server:
        before, after = await Process(server).ask()
        assert (before["max_tokens"], after["max_completion_tokens"]) == (64, 64)
        assert "max_tokens" not in after
        assert len(await Process(server).ask()) == 1

    def neither(body: Body) -> Body | None:
        name = next((one for one in body if one.startswith("max_")), None)
        return None if name is None else {"message": f"Unknown field: {name}"}

    async with strict(neither) as server:
        last = (await Process(server).ask())[-1]
        assert not [name for name in last if name.startswith("max_")]


async def test_a_stream_that_is_refused_is_asked_for_whole() -> None:
    async with strict(refusing("stream_options", "stream_options is not supported")) as server:
        _, after = await Process(server).ask()
        assert after["stream"] is True
    async with strict(refusing("stream", "stream is not supported", "stream")) as server:
        _, after = await Process(server).ask()
        assert "stream" not in after
        assert not Process(server).client.terms().streams


async def test_log_probabilities_that_are_refused_are_not_asked_for_again() -> None:
    words = "logprobs are not supported with this model"
    async with strict(refusing("logprobs", words)) as server:
        before, after = await Process(server, logprobs=True).ask()
        assert before["logprobs"] is True
        assert {"logprobs", "top_logprobs"}.isdisjoint(after)
        assert await Process(server, logprobs=True).ask() == [after]


@pytest.mark.parametrize("status", [401, 402, 403, 429])
async def test_other_errors_teach_nothing(status: int) -> None:
    words = "temperature and reasoning_effort cost more than the logprobs of /v1/responses"
    fields = {"sampling": {"temperature": 0.0}, "reasoning_effort": "none"}
    async with strict(lambda body: {"message": words}, status) as server:
        process = Process(server, **fields)
        terms = process.client.terms()
        process._caller = Caller("test", attempts=1, max_wait=0, priced=False)
        with pytest.raises(CallError, match=f"HTTP {status}"):
            await process.ask()
        assert process.client.terms() == terms
        assert len(server.received) == 1


async def test_a_server_that_refuses_all_is_given_up() -> None:
    async with strict(lambda body: {"message": "I want none of this"}) as server:
        with pytest.raises(CallError, match=r"HTTP 400: I want none of this"):
            await Process(server).ask()
        assert len(server.received) == 1


@pytest.mark.parametrize(
    "kept",
    [
        "{no json", "null", "[1]", '"low"', "7",
        '{"effort": "huge", "left_out": "temperature", "responses": "yes", "logprobs": 0}',
        '{"effort": ["low"], "left_out": {"temperature": 1}}',
    ],
)  # fmt: skip
async def test_a_damaged_memory_is_left_aside(kept: str) -> None:
    fields = {"sampling": {"temperature": 0.5}, "reasoning_effort": "none", "logprobs": True}
    async with strict(lambda body: None) as server:
        KnownServer(f"{server.url[7:]}/v1", KEY, "m", "none").keep("terms", kept)
        (body,) = await Process(server, **fields).ask()
    assert (body["temperature"], body["reasoning_effort"], body["logprobs"]) == (0.5, "none", True)


async def test_what_is_kept_is_what_the_next_process_reads(file: Path) -> None:
    terms = {"effort": "low", "responses": True, "left_out": ["top_p"], "logprobs": False}
    async with strict(lambda body: None) as server:
        KnownServer(f"{server.url[7:]}/v1", KEY, "m", "none").keep("terms", json.dumps(terms))
        found = Process(server, reasoning_effort="none", logprobs=True).client.terms()
    assert found is not None
    assert (found.effort, found.responses, found.logprobs) == ("low", True, False)
    assert found.left_out == {"top_p"}
    assert file.exists()
    assert KEY.encode() not in file.read_bytes()
