"""The director over the wire: the mock server's scripts behind every provider's format."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from scenewright.agents.chat.model import account_chat
from scenewright.config.options import Budget
from scenewright.graphs.events import Replied, ToolCalled
from scenewright.graphs.state import DirectorError
from scenewright.mock_providers import MockSettings, ThreadedMockProviders, serving_thread
from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff
from tests.doubles import ScriptedBackend
from tests.graphs.directing import calls, direct, end, of, planner, qualities

PATHS = {"openai": "/v1", "anthropic": "", "gemini": ""}


@pytest.fixture(scope="module")
def lab() -> Iterator[ThreadedMockProviders]:
    with serving_thread(MockSettings(longest_hang=60.0)) as made:
        yield made


@pytest.fixture
async def caller() -> AsyncIterator[Caller]:
    made = Caller("test", timeout=60.0, attempts=3, priced=False, backoff=Backoff(initial=0.01))
    yield made
    await made.aclose()


@pytest.mark.parametrize("provider", sorted(PATHS))
async def test_a_director_behind_any_provider_draws_repairs_and_accepts(
    tmp_path: Path, lab: ThreadedMockProviders, caller: Caller, provider: str
) -> None:
    chat = account_chat(
        provider,
        "script:director",
        caller,
        api_key="sk-test-director",
        base_url=f"{lab.url}{PATHS[provider]}",
    )
    try:
        events = await direct(
            tmp_path / "run",
            chat,
            backend=ScriptedBackend(qualities(100, 0, 120, 255), masks=True),
            composer=planner(),
        )
    finally:
        await chat.aclose()
    assert [tool for tool, _ in calls(events)] == [
        "generate_image", "verify_facts", "refine_with_reference", "verify_facts", "inpaint",
        "verify_facts", "accept",
    ]  # fmt: skip
    assert all(ok for _, ok in calls(events))
    assert (end(events).reason, end(events).best_round) == ("accepted", 2)
    assert all(event.tokens_in > 0 for event in of(events, ToolCalled))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("endless", "rounds"),
        ("unknown-tool", "gave_up"),
        ("bad-arguments", "gave_up"),
        ("refusal", "gave_up"),
        ("echo", "gave_up"),
    ],
)
async def test_scripts_that_misbehave_end_well(
    tmp_path: Path, lab: ThreadedMockProviders, caller: Caller, script: str, reason: str
) -> None:
    chat = account_chat(
        "openai", f"script:{script}", caller, api_key="sk-test-bad", base_url=f"{lab.url}/v1"
    )
    try:
        events = await direct(tmp_path / "run", chat, budget=Budget(tool_calls=6))
    finally:
        await chat.aclose()
    assert end(events).reason == reason
    assert end(events).loop_card.fact_recall is not None
    assert len(calls(events)) <= 6


async def test_a_model_that_answers_nothing_has_given_up(
    tmp_path: Path, lab: ThreadedMockProviders, caller: Caller
) -> None:
    chat = account_chat(
        "openai", "script:silent", caller, api_key="sk-test-mute", base_url=f"{lab.url}/v1"
    )
    try:
        events = await direct(tmp_path / "run", chat)
    finally:
        await chat.aclose()
    assert end(events).reason == "gave_up"
    assert len(of(events, Replied)) == 3
    assert "empty reply" in of(events, Replied)[0].message["content"]


async def test_a_server_that_is_not_there_is_an_error_that_loses_nothing(
    tmp_path: Path, caller: Caller
) -> None:
    chat = account_chat(
        "openai", "script:director", caller, api_key="sk", base_url="http://127.0.0.1:9/v1"
    )
    try:
        with pytest.raises(DirectorError, match="Nothing is lost"):
            await direct(tmp_path / "run", chat)
    finally:
        await chat.aclose()
