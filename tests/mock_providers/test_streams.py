"""Streams of the four formats, read by the providers' own SDKs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import httpx2
import pytest
from anthropic import APIStatusError as AnthropicError
from anthropic import AsyncAnthropic
from google import genai
from google.genai import errors, types
from openai import APIError, AsyncOpenAI

from scenewright.mock_providers import Fault, MockProviders, MockSettings, serving
from tests.mock_providers.asking import PATHS, ROUTES, body, parts_of
from tests.mock_providers.talking import LOOK, heard, request, user

SAID = "A red ball lies left of a blue house; it is 12.5 cm wide."


@dataclass
class Heard:
    """What an SDK gathered from a stream."""

    text: str = ""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    end: Any = None
    tokens: int | None = None
    pieces: int = 0
    logprobs: list[Any] = field(default_factory=list)


Listen = Callable[[str, str, dict[str, Any]], Awaitable[Heard]]


async def chat(url: str, key: str, made: dict[str, Any]) -> Heard:
    found = Heard()
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        client.chat.completions.stream(**made, stream_options={"include_usage": True}) as stream,
    ):
        async for event in stream:
            found.pieces += event.type == "content.delta"
        whole = await stream.get_final_completion()
    choice = whole.choices[0]
    found.text, found.end = choice.message.content or "", choice.finish_reason
    calls = choice.message.tool_calls or ()
    found.calls = [(call.function.name, call.function.arguments) for call in calls]
    found.tokens = whole.usage and whole.usage.total_tokens
    found.logprobs = [] if choice.logprobs is None else choice.logprobs.content or []
    return found


async def responses(url: str, key: str, made: dict[str, Any]) -> Heard:
    found = Heard()
    async with (
        AsyncOpenAI(base_url=f"{url}/v1", api_key=key, max_retries=0) as client,
        client.responses.stream(**made) as stream,
    ):
        async for event in stream:
            found.pieces += event.type == "response.output_text.delta"
            if event.type == "error":
                # The SDK hands it on as an event.
                raise ConnectionError(event.message)
        whole = await stream.get_final_response()
    found.text, found.end = whole.output_text, whole.status
    found.calls = [
        (item.name, item.arguments) for item in whole.output if item.type == "function_call"
    ]
    found.tokens = whole.usage and whole.usage.total_tokens
    for item in whole.output:
        if item.type == "message":
            found.logprobs = list(item.content[0].logprobs or ())
    return found


async def messages(url: str, key: str, made: dict[str, Any]) -> Heard:
    found = Heard()
    async with (
        AsyncAnthropic(base_url=url, api_key=key, max_retries=0) as client,
        client.messages.stream(**made) as stream,
    ):
        async for event in stream:
            found.pieces += event.type == "text"
        whole = await stream.get_final_message()
    found.end, found.tokens = whole.stop_reason, sum_of(whole.usage)
    for block in whole.content:
        if block.type == "text":
            found.text += block.text
        elif block.type == "tool_use":
            found.calls.append((block.name, block.input))
    return found


def sum_of(usage: Any) -> int:
    total: int = usage.input_tokens + usage.output_tokens
    return total


async def gemini(url: str, key: str, made: dict[str, Any]) -> Heard:
    found = Heard()
    model = made.pop("model", "script:once")
    extra = {name: one for name, one in made.items() if name not in ("contents",)}
    options = types.HttpOptions(base_url=url, extra_body=extra)
    client = genai.Client(api_key=key, http_options=options)
    async for chunk in await client.aio.models.generate_content_stream(
        model=model, contents=made["contents"]
    ):
        for candidate in chunk.candidates or ():
            for part in (candidate.content and candidate.content.parts) or ():
                found.text += part.text or ""
                found.pieces += bool(part.text)
                if part.function_call:
                    found.calls.append((part.function_call.name, part.function_call.args))
            found.end = candidate.finish_reason and candidate.finish_reason.value
            if candidate.logprobs_result:
                found.logprobs = candidate.logprobs_result.chosen_candidates or []
        usage = chunk.usage_metadata
        found.tokens = usage.total_token_count if usage else found.tokens
    return found


LISTEN: dict[str, Listen] = {
    "chat": chat, "responses": responses, "messages": messages, "gemini": gemini
}  # fmt: skip


@pytest.fixture
async def mock() -> AsyncIterator[MockProviders]:
    async with serving(MockSettings()) as made:
        yield made


async def whole(mock: MockProviders, route: str, made: dict[str, Any], **headers: str) -> Any:
    """The reply without a stream."""
    path = PATHS[route].format(model=made.get("model", "script:once"))
    sent = {name: one for name, one in made.items() if route != "gemini" or name != "model"}
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        answer = await client.post(mock.url + path, json=sent, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("route", ROUTES)
async def test_a_stream_brings_the_words_of_the_whole_reply(
    mock: MockProviders, route: str
) -> None:
    made = request(route, [user(SAID)], tools=(), model="script:echo")
    if route == "gemini":
        made["model"] = "script:echo"
    told = heard(route, await whole(mock, route, made))
    found = await LISTEN[route](mock.url, "mine", made)
    assert (found.text, found.end) == (SAID, told["end"])
    assert found.pieces > 5
    assert (found.tokens or 0) > 10


@pytest.mark.parametrize("route", ROUTES)
async def test_a_stream_brings_calls(mock: MockProviders, route: str) -> None:
    made = request(route, [user("the sky")], tools=(LOOK,), model="script:once")
    found = await LISTEN[route](mock.url, "mine", made)
    wanted: Any = {"where": "the sky", "times": 2}
    if route in ("chat", "responses"):
        wanted = '{"where":"the sky","times":2}'
    assert found.calls == [("look", wanted)]
    assert found.text == "I will see."


@pytest.mark.parametrize("route", ["chat", "responses", "gemini"])
async def test_a_stream_brings_log_probabilities(mock: MockProviders, route: str) -> None:
    made = body(route, form="json", logprobs=3)
    if route == "gemini":
        made["model"] = "instant"
    told = parts_of(route, await whole(mock, route, made))
    found = await LISTEN[route](mock.url, "mine", made)
    assert found.text == told["text"]
    assert "".join(one.token for one in found.logprobs) == told["text"]
    name = "log_probability" if route == "gemini" else "logprob"
    assert any(getattr(one, name) < 0 for one in found.logprobs)


FAILURES = (
    *(APIError, AnthropicError, errors.APIError, ConnectionError),
    *(httpx2.TransportError, aiohttp.ClientError),
)


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("fault", [Fault.STREAM_CUT, Fault.STREAM_ERROR])
async def test_a_broken_stream_is_an_error_of_the_sdk(
    mock: MockProviders, route: str, fault: Fault
) -> None:
    made = request(route, [user(SAID)], tools=(), model="script:echo")
    if route == "gemini":
        made["model"] = "script:echo"
    mock.faults.schedule(fault, 1)
    said = "server had an error" if fault is Fault.STREAM_ERROR else "."
    with pytest.raises(FAILURES, match=said):
        await LISTEN[route](mock.url, "mine", dict(made))
    assert (await LISTEN[route](mock.url, "mine", made)).text == SAID


@pytest.mark.parametrize("route", ROUTES)
async def test_a_stream_may_lack_its_last_event(mock: MockProviders, route: str) -> None:
    made = request(route, [user(SAID)], tools=(), model="script:echo")
    path = PATHS[route].format(model="script:echo")
    path = path.replace(":generateContent", ":streamGenerateContent?alt=sse")
    sent = made if route == "gemini" else made | {"stream": True}
    texts = []
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        for fault in (None, Fault.STREAM_UNENDED):
            if fault:
                mock.faults.schedule(fault, 1)
            texts.append((await client.post(mock.url + path, json=sent)).text)
    events = [text.split("\n\n")[:-1] for text in texts]
    assert len(events[1]) == len(events[0]) - 1
    last = {"chat": "[DONE]", "responses": "response.completed", "messages": "message_stop"}
    assert last.get(route, "finishReason") in events[0][-1]


async def test_a_stream_may_drip() -> None:
    made = request("chat", [user(SAID)], tools=(), model="script:echo")
    async with serving(MockSettings(drip_seconds=0.3)) as mock:
        whole = await chat(mock.url, "mine", made)
        mock.faults.schedule(Fault.SLOW_DRIP, 1)
        began = time.monotonic()
        dripped = await chat(mock.url, "mine", made)
        assert time.monotonic() - began > 0.25
    assert dripped == whole


@pytest.mark.parametrize("fault", [Fault.KEEP_ALIVE, Fault.STREAM_STALL])
async def test_a_stream_may_say_nothing_until_its_client_leaves(
    mock: MockProviders, fault: Fault
) -> None:
    made = request("chat", [user(SAID)], tools=(), model="script:echo") | {"stream": True}
    mock.faults.schedule(fault, 1)
    got, enough = list[bytes](), asyncio.Event()

    async def listen() -> None:
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=20) as client,
            client.stream("POST", f"{mock.url}/v1/chat/completions", json=made) as answer,
        ):
            async for chunk in answer.aiter_raw():
                got.append(chunk)
                if fault is Fault.STREAM_STALL or len(got) > 2:
                    enough.set()

    task = asyncio.create_task(listen())
    await asyncio.wait_for(enough.wait(), 20)
    assert not task.done()
    task.cancel()
    data = b"".join(got)
    assert b"[DONE]" not in data
    assert (b"data:" in data) is (fault is Fault.STREAM_STALL)


async def test_a_stream_is_under_way_until_its_last_event() -> None:
    made = request("chat", [user(SAID)], tools=(), model="script:echo") | {"stream": True}
    async with (
        serving(MockSettings(concurrent=1)) as mock,
        httpx2.AsyncClient(base_url=mock.url, trust_env=False, timeout=20) as client,
    ):
        mock.faults.schedule(Fault.STREAM_STALL, 1)
        async with client.stream("POST", "/v1/chat/completions", json=made) as stalled:
            events = stalled.aiter_raw()
            await anext(events)
            refused = await client.post("/v1/chat/completions", json=made)
            assert (refused.status_code, "retry-after" in refused.headers) == (429, True)
        async with asyncio.timeout(20):
            # The server learns a little later that its client has left.
            while (await client.post("/v1/chat/completions", json=made)).status_code == 429:
                pass
        # Whoever has the last event may ask at once.
        for _ in range(3):
            assert (await client.post("/v1/chat/completions", json=made)).status_code == 200


async def test_a_repeated_stream_is_the_same_and_costs_nothing(mock: MockProviders) -> None:
    made = request("chat", [user(SAID)], tools=(), model="script:echo") | {"stream": True}
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        first, second = [
            await client.post(
                f"{mock.url}/v1/chat/completions",
                json=made,
                headers={"idempotency-key": "once", "authorization": "Bearer mine"},
            )
            for _ in range(2)
        ]
    assert first.content == second.content
    assert second.headers["idempotent-replayed"] == "true"
    report = mock.report()["accounts"]["mine"]
    assert (report["executed"], report["replayed"]) == (1, 1)


async def test_tokens_take_their_time() -> None:
    async with serving(MockSettings(tokens_per_second=200)) as mock:
        made = request("chat", [user(SAID)], tools=(), model="script:echo")
        began = time.monotonic()
        usage = (await whole(mock, "chat", made))["usage"]
        # Clocks of a sleep may differ by a tick.
        assert time.monotonic() - began >= usage["completion_tokens"] / 200 - 0.01
        began = time.monotonic()
        found = await chat(mock.url, "mine", made)
        assert time.monotonic() - began >= found.pieces / 200 - 0.01


async def test_stream_options_need_a_stream(mock: MockProviders) -> None:
    made = request("chat", [user(SAID)], tools=(), model="script:echo")
    made["stream_options"] = {"include_usage": True}
    async with httpx2.AsyncClient(trust_env=False, timeout=20) as client:
        answer = await client.post(f"{mock.url}/v1/chat/completions", json=made)
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "stream_options"
