"""A real model on a server that nobody here wrote: llama.cpp, in an environment of its own.

`make test-real` makes that environment and runs these tests; they skip where it is not there. The
model is far too small to be right: what it says is not looked at, only how it comes.
"""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.model import AccountChat, account_chat, stop_of
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.reading import read_parts
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.judges.sheet import TOOL, sheet_of
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import CompletionRequest, Message, OutputSchema
from scenewright.providers.clients.client import make_client
from scenewright.providers.retry import Backoff, CallError
from tests.agents.chat.talking import look, picture
from tests.real.hosting import START_SECONDS, serving

KEY = "none"
WEIGHED = {"structured": "schema", "logprobs": True, "max_output_tokens": 120, "reasons": "none"}
ENDING = '\nFor example:\n{"answers":[{"n":1,"a":"yes","p":0.9}]}\nNothing else.'
FACTS = [
    Fact(
        id=f"o:{name}",
        kind="object",
        subject=name,
        statement=name,
        question=f"Is there a {name} in the image?",
    )
    for name in ("dog", "cat")
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the server, up to and with the version."""
    with serving("smollm2") as address:
        yield address


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("mine", timeout=60.0, attempts=3, priced=False, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()


def chat_at(url: str, caller: Caller, **overrides: Any) -> AccountChat:
    return account_chat(
        "openai", "smollm2", caller, api_key=KEY, base_url=url, name="mine", overrides=overrides
    )


async def test_words_and_usage(url: str, caller: Caller) -> None:
    chat = chat_at(url, caller)
    said = await chat.ainvoke("Say hello.")
    await chat.aclose()
    assert str(said.text).strip()
    assert stop_of(said) == "end"
    assert said.usage_metadata is not None
    assert said.usage_metadata["input_tokens"] > 10
    assert caller.totals.usage.tokens_out == said.usage_metadata["output_tokens"] > 1
    assert caller.totals.attempts == 1


async def test_a_tool_is_called(url: str, caller: Caller) -> None:
    chat = chat_at(url, caller)
    asked = chat.bind_tools([look], tool_choice="look")
    said = await asked.ainvoke("Look at the left of the picture.")
    (call,) = said.tool_calls
    assert call["name"] == "look"
    assert isinstance(call["args"]["where"], str)
    assert stop_of(said) == "tools"
    await chat.aclose()


async def test_a_reply_that_is_cut_off_says_so(url: str, caller: Caller) -> None:
    chat = chat_at(url, caller, max_output_tokens=8)
    said = await chat.ainvoke("Tell a long story.")
    assert stop_of(said) == "length"
    assert caller.totals.usage.tokens_out == 8
    with pytest.raises(CallError, match="cut off after 8 tokens: allow the model more output"):
        await chat.bind_tools([look], tool_choice="look").ainvoke("Look left.")
    await chat.aclose()


async def test_a_prompt_that_is_too_long_is_refused_once(url: str, caller: Caller) -> None:
    chat = chat_at(url, caller)
    with pytest.raises(CallError, match=r"HTTP 400.*exceeds the available context size"):
        await chat.ainvoke("word " * 20_000)
    assert caller.totals.attempts == 1
    await chat.aclose()


async def test_a_picture_is_refused_and_not_tried_on_and_on(url: str, caller: Caller) -> None:
    judge = remote_judge("openai", "smollm2", caller, api_key=KEY, base_url=url, name="mine")
    answers = await judge.answer(Image.new("RGB", (32, 32)), FACTS)
    assert {answer.state for answer in answers} == {"unscored"}
    assert all("image input is not supported" in answer.reason for answer in answers)
    assert caller.totals.attempts == 2
    chat = chat_at(url, caller)
    with pytest.raises(CallError, match="image input is not supported"):
        await chat.ainvoke([HumanMessage([picture((8, 8))])])
    for one in (judge, chat):
        await one.aclose()


async def test_a_schema_binds_and_its_tokens_are_weighed(url: str) -> None:
    caps = caps_of("openai", "smollm2", WEIGHED)
    client = make_client("openai", "smollm2", caps, api_key=KEY, base_url=url)
    sheet = sheet_of(FACTS[:1], reasons=caps.reasons, stems=caps.stems)
    # The model sees no pictures, and so small a one must be shown where to end.
    messages = (
        Message("system", (sheet.instructions,)), Message("user", (sheet.text + ENDING,))
    )  # fmt: skip
    reading = await client.complete(CompletionRequest(messages, OutputSchema(TOOL, sheet.schema)))
    await client.aclose()
    assert reading.stop == "end"
    assert reading.usage.tokens_in > 50
    (part,) = read_parts(reading, sheet)
    assert (part.choice, part.method, part.note) == ("yes", "logprob", "")
    assert part.probability is not None
    assert 0.0 < part.probability < 1.0


async def test_a_model_that_decides_nothing_is_told(url: str, caller: Caller) -> None:
    place = url.removesuffix("/v1")
    judge = decision_judge("llamacpp", "smollm2", caller, api_key=KEY, base_url=place)
    answers = await judge.answer(Image.new("RGB", (32, 32)), FACTS)
    await judge.aclose()
    assert {answer.state for answer in answers} == {"unscored"}
    assert all(answer.reason for answer in answers)
    assert caller.totals.attempts == 1
    assert "501" in answers[0].reason or "not a decision model" in answers[0].reason


async def test_a_server_that_is_not_there_is_named(url: str, caller: Caller) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{held.getsockname()[1]}"
        chat = chat_at(f"http://{place}/v1", caller)
        begun = time.monotonic()
        with pytest.raises(CallError, match=f"no connection to {place}: connection refused"):
            await chat.ainvoke("hello")
        assert time.monotonic() - begun < START_SECONDS
        await chat.aclose()
