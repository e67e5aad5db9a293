"""The director with a language model of an account, over each format to the mock's scripts."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from scenewright.agents.chat.model import AccountChat, account_chat
from scenewright.agents.chat.scripted import scripted_chat
from scenewright.graphs.events import Finished, ToolCalled
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers.caller import Caller
from tests.graphs.directing import direct

WIRES: tuple[tuple[str, Mapping[str, object]], ...] = (
    ("openai", {}),
    ("openai", {"api": "responses", "sampling": {}}),
    ("anthropic", {}),
    ("gemini", {}),
)


def chat_at(
    lab: ThreadedMockProviders,
    caller: Caller,
    provider: str,
    script: str,
    overrides: Mapping[str, object],
) -> AccountChat:
    base = lab.openai_url if provider == "openai" else lab.url
    return account_chat(
        provider, f"script:{script}", caller, api_key="mine", base_url=base, overrides=overrides
    )


@pytest.mark.parametrize(("provider", "overrides"), WIRES)
async def test_a_run_over_the_wire_is_the_run_without_one(
    tmp_path: Path,
    lab: ThreadedMockProviders,
    caller: Caller,
    provider: str,
    overrides: dict[str, object],
) -> None:
    chat = chat_at(lab, caller, provider, "director", overrides)
    near = await direct(tmp_path / "near", scripted_chat("director"))
    far = await direct(tmp_path / "far", chat)
    await chat.aclose()
    assert [type(event) for event in far] == [type(event) for event in near]
    one, other = near[-1], far[-1]
    assert isinstance(one, Finished)
    assert isinstance(other, Finished)
    assert (other.reason, other.image) == (one.reason, one.image)
    tools = [event.tool for event in far if isinstance(event, ToolCalled)]
    assert tools[0] == "generate_image"
    assert tools[-1] == "accept"
    assert caller.totals.answered == caller.totals.attempts > 3


@pytest.mark.slow
@pytest.mark.parametrize(
    "script", ["endless", "unknown-tool", "bad-arguments", "refusal", "silent"]
)
@pytest.mark.parametrize(("provider", "overrides"), WIRES[2:])
async def test_whatever_comes_over_the_wire_the_run_ends_with_a_picture(
    tmp_path: Path,
    lab: ThreadedMockProviders,
    caller: Caller,
    provider: str,
    overrides: dict[str, object],
    script: str,
) -> None:
    chat = chat_at(lab, caller, provider, script, overrides)
    end = (await direct(tmp_path / "run", chat))[-1]
    await chat.aclose()
    assert isinstance(end, Finished)
    assert end.image
    assert end.reason != "accepted"
