"""A server that is not there: every wire says what happened and at which address."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import pytest
from PIL import Image

from scenewright.agents.chat.model import account_chat
from scenewright.agents.judges.decisions.judge import decision_judge
from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff, CallError

KEY = "key-that-is-not-told"
DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
PROVIDERS = ("openai", "anthropic", "gemini")


@pytest.fixture
def place() -> Iterator[str]:
    """Host and port at which nobody listens, held so that nobody can begin to."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"127.0.0.1:{held.getsockname()[1]}"


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("mine", timeout=20.0, attempts=2, priced=False, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()


def is_told(reason: str, place: str) -> bool:
    assert "connection refused: check that the server runs, and base_url" in reason
    assert place in reason
    assert "after 2 attempts" in reason
    assert KEY not in reason
    return True


def url_of(provider: str, place: str) -> str:
    return f"http://{place}/v1" if provider == "openai" else f"http://{place}"


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_judge_names_the_address(provider: str, place: str, caller: Caller) -> None:
    judge = remote_judge(
        provider, "model", caller, api_key=KEY, base_url=url_of(provider, place), name="mine"
    )
    (answer,) = await judge.answer(Image.new("RGB", (8, 8)), [DOG])
    await judge.aclose()
    assert answer.state == "unscored"
    assert is_told(answer.reason, place)


async def test_a_name_of_several_addresses_is_told_alike(place: str, caller: Caller) -> None:
    # Both the address of IPv6 and that of IPv4 refuse.
    there = place.replace("127.0.0.1", "localhost")
    judge = remote_judge("openai", "model", caller, api_key=KEY, base_url=f"http://{there}/v1")
    (answer,) = await judge.answer(Image.new("RGB", (8, 8)), [DOG])
    await judge.aclose()
    assert is_told(answer.reason, there)


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_a_chat_names_the_address(provider: str, place: str, caller: Caller) -> None:
    chat = account_chat(
        provider, "model", caller, api_key=KEY, base_url=url_of(provider, place), name="mine"
    )
    with pytest.raises(CallError) as caught:
        await chat.ainvoke("hello")
    await chat.aclose()
    assert is_told(str(caught.value), place)


@pytest.mark.parametrize("provider", ["openai", "gemini", "vllm"])
async def test_a_decision_judge_names_the_address(
    provider: str, place: str, caller: Caller
) -> None:
    judge = decision_judge(
        provider, "model", caller, api_key=KEY, base_url=url_of(provider, place), name="mine"
    )
    (answer,) = await judge.answer(Image.new("RGB", (8, 8)), [DOG])
    await judge.aclose()
    assert answer.state == "unscored"
    assert is_told(answer.reason, place)
