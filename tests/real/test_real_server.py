"""A real model on a server that nobody here wrote: llama.cpp, in an environment of its own.

`make test-real` makes that environment and runs these tests; they skip where it is not there. The
model is far too small to be right: what it says is not looked at, only how it comes.
"""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from PIL import Image

from scenewright.agents.chat.accounts import account_chat
from scenewright.agents.chat.model import AccountChat, stop_of
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.openai import OpenAIWire
from scenewright.agents.judges.pictures import ImagePreparation, prepare
from scenewright.agents.judges.reading import read_parts
from scenewright.agents.judges.remote import remote_judge
from scenewright.agents.judges.sheet import sheet_of
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff, CallError
from tests.agents.chat.talking import look, picture

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60.0
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
    python = Path(os.environ.get("REAL_PYTHON") or ROOT / ".venv-real" / "bin" / "python")
    if not python.exists():
        pytest.skip("no environment with llama.cpp: `make test-real` sets it up")
    server = subprocess.Popen(
        [python, Path(__file__).with_name("server.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    try:
        told = server.stdout.readline().strip()
        if not told:
            _, errors = server.communicate(timeout=START_SECONDS)
            pytest.fail(f"the server did not start:\n{errors[-2000:]}")
        yield f"{told}/v1"
    finally:
        server.terminate()
        server.communicate(timeout=START_SECONDS)


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
    called = await chat.bind_tools([look], tool_choice="look").ainvoke("Look left.")
    assert (stop_of(called), called.tool_calls) == ("length", [])
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
    wire = OpenAIWire("smollm2", caps, api_key=KEY, base_url=url)
    sheet = sheet_of(FACTS[:1], reasons=caps.reasons, stems=caps.stems)
    shown = await prepare(Image.new("RGB", (32, 32)), ImagePreparation())
    messages, beside = wire.build(shown, sheet)
    # The model sees no pictures, and so small a one must be shown where to end.
    messages[-1] = HumanMessage(sheet.text + ENDING)
    reading = wire.read(await wire.send((messages, beside)))
    await wire.aclose()
    assert not reading.cut
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
