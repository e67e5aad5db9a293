"""Servers of one's own: how a tool is forced there, and models that see no pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from PIL import Image

from scenewright.agents.chat.model import AccountChat, account_chat, conversation
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.remote import remote_judge
from scenewright.core.facts import Fact
from scenewright.core.ports.judge import JudgeError
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import RequestError, Tools
from scenewright.providers.clients.negotiation import KnownServer, Negotiation
from scenewright.providers.clients.openai_format import (
    call_schema,
    parse_tool_call,
    tools_as_text,
)
from scenewright.providers.retry import CallError
from tests.agents.chat.talking import Plan, Step, count, look, picture, seen

DOG = Fact(id="o:dog", kind="object", subject="dog", statement="dog", question="Is there a dog?")
WAYS = [
    ((), "named", 1),
    (("string_choice",), "required", 2),
    (("loose_choice",), "required", 2),
    (("no_tools",), "schema", 3),
]
"""Quirks of the server, the way that binds there, and the requests until it is found."""


def build_chat(
    lab: ThreadedMockProviders, key: str, caller: Caller, script: str = "echo", **more: Any
) -> AccountChat:
    return account_chat(
        "openai", f"script:{script}", caller, api_key=key, base_url=lab.openai_url,
        name="mine", overrides=more,
    )  # fmt: skip


@pytest.mark.parametrize(("quirks", "way", "requests"), WAYS)
async def test_a_chat_finds_the_way_that_binds_once(
    lab: ThreadedMockProviders,
    key: str,
    caller: Caller,
    caplog: pytest.LogCaptureFixture,
    quirks: tuple[str, ...],
    way: str,
    requests: int,
) -> None:
    for quirk in quirks:
        lab.order_quirk(quirk, key)
    chat = build_chat(lab, key, caller)
    wanted = Plan(title="draw", first=Step(what="draw", times=2), words=["draw"])
    asked = chat.with_structured_output(Plan)
    assert await asked.ainvoke("draw") == wanted
    assert caller.totals.attempts == requests
    assert await asked.ainvoke("draw") == wanted
    assert caller.totals.attempts == requests + 1
    told = [r.getMessage() for r in caplog.records if "tool_choice" in r.getMessage()]
    assert len(told) == (way != "named")
    assert all(f'tool_choice = "{way}"' in line for line in told)
    await chat.aclose()


@pytest.mark.parametrize(("quirks", "way", "requests"), WAYS)
async def test_what_is_declared_is_not_tried(
    lab: ThreadedMockProviders,
    key: str,
    caller: Caller,
    quirks: tuple[str, ...],
    way: str,
    requests: int,
) -> None:
    for quirk in quirks:
        lab.order_quirk(quirk, key)
    chat = build_chat(lab, key, caller, tool_choice=way)
    (call,) = (await chat.bind_tools([look], tool_choice="look").ainvoke("there")).tool_calls
    assert (call["name"], call["args"]) == ("look", {"where": "there"})
    assert caller.totals.attempts == 1
    if way != "named" and quirks:
        strict = build_chat(lab, key, caller, tool_choice="named").bind_tools(
            [look], tool_choice="look"
        )
        if "string_choice" in quirks:
            with pytest.raises(CallError, match="expected a string"):
                await strict.ainvoke("there")
        else:
            assert (await strict.ainvoke("there")).tool_calls == []
    await chat.aclose()


@pytest.mark.parametrize(("quirks", "way", "requests"), WAYS)
async def test_a_judge_finds_the_way_that_binds_once(
    lab: ThreadedMockProviders,
    key: str,
    caller: Caller,
    quirks: tuple[str, ...],
    way: str,
    requests: int,
) -> None:
    for quirk in quirks:
        lab.order_quirk(quirk, key)
    judge = remote_judge("openai", "instant", caller, api_key=key, base_url=lab.openai_url)
    image = Image.new("RGB", (32, 32))
    (first,) = await judge.answer(image, [DOG])
    assert first.state in ("yes", "no")
    assert caller.totals.attempts == requests
    (second,) = await judge.answer(image, [DOG])
    assert (second.state, second.probability) == (first.state, first.probability)
    assert caller.totals.attempts == requests + 1
    await judge.aclose()


async def test_where_nothing_binds_the_last_words_are_told(
    lab: ThreadedMockProviders, key: str, caller: Caller
) -> None:
    lab.order_quirk("endless", key)
    chat = build_chat(lab, key, caller, max_output_tokens=20)
    asked = chat.with_structured_output(Plan)
    for attempts in (3, 6):
        with pytest.raises(
            RequestError, match="did not fill in Plan and said instead: I'm so glad"
        ):
            await asked.ainvoke("draw")
        assert caller.totals.attempts == attempts
    await chat.aclose()


def negotiation(tool_choice: str) -> Negotiation:
    caps = caps_of("openai", "m", {"tool_choice": tool_choice})
    return Negotiation(caps, "m", KnownServer("h/v1", "k", "m"))


def test_a_way_that_bound_is_kept_whatever_comes() -> None:
    probing = negotiation("probe")
    assert probing.reject("named")
    # A request of before the change says nothing of the new way.
    assert probing.reject("named")
    assert probing.way == "required"
    probing.confirm("required")
    assert not probing.reject("required")
    assert probing.way == "required"
    declared = negotiation("schema")
    assert not declared.reject("schema")
    assert not declared.refused(declared.terms(), (), 400, "tool_choice")
    probing = negotiation("probe")
    assert not probing.refused(probing.terms(), (), 400, "too long a prompt")


SCHEMAS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": name,
            "parameters": {
                "type": "object",
                "properties": {key: {"type": "string"}},
                "required": [key],
            },
        },
    }
    for name, key in (("look", "where"), ("count", "what"))
]


def test_one_of_several_tools_is_called_by_an_object() -> None:
    tools = Tools(tuple(SCHEMAS), "any")
    name, schema = call_schema(tools)
    assert name == "call"
    assert len(schema["properties"]["call"]["anyOf"]) == 2
    call = parse_tool_call('So: {"call": {"tool": "count", "arguments": {"what": "dogs"}}}', tools)
    assert call is not None
    assert (call.name, call.arguments) == ("count", {"what": "dogs"})
    for text in (
        "none",
        '{"call": {"tool": "fly", "arguments": {}}}',
        '{"call": {"tool": "count", "arguments": {}}}',
        '{"call": "count"}',
    ):
        assert parse_tool_call(text, tools) is None
    one = Tools(tuple(SCHEMAS), "=look")
    assert call_schema(one) == ("look", SCHEMAS[0]["function"]["parameters"])
    found = parse_tool_call('{"where": "left"}', one)
    assert found is not None
    assert found.name == "look"
    assert parse_tool_call('{"what": "left"}', one) is None


def test_earlier_calls_and_answers_become_words() -> None:
    tools = Tools(tuple(SCHEMAS), "any")
    call: Any = {"name": "look", "args": {"where": "left"}, "id": "c", "type": "tool_call"}
    messages = conversation(
        [
            SystemMessage("Be brief."),
            HumanMessage("Go."),
            AIMessage("I look.", tool_calls=[call]),
            ToolMessage("nothing", tool_call_id="c", name="look"),
        ]
    )
    said = tools_as_text(messages, tools)
    assert [message.role for message in said] == ["system", "user", "assistant", "user"]
    assert said[0].text.startswith("Be brief.\n\nAnswer with one JSON object")
    assert '"count"' in said[0].text
    assert said[2].text == 'I look.\n{"tool": "look", "arguments": {"where": "left"}}'
    assert said[3].text == "The tool look answered: nothing"
    assert not any(message.calls for message in said)


async def test_several_tools_over_a_schema_alone(
    lab: ThreadedMockProviders, key: str, caller: Caller
) -> None:
    chat = build_chat(lab, key, caller, script="mirror", tool_choice="schema")
    said = await chat.bind_tools([look, count], tool_choice="any").ainvoke("dogs")
    # The mock's mirror fills in no form: it tells that no tool was sent, and the tools in words.
    told = seen(said)
    assert '"look"' in told["messages"][0]["text"]
    await chat.aclose()


async def test_a_model_without_pictures_is_told_so_before_any_call(
    lab: ThreadedMockProviders, key: str, caller: Caller
) -> None:
    chat = build_chat(lab, key, caller, pictures=False)
    assert chat.pictures is False
    with pytest.raises(RequestError, match="mine:script:echo sees no pictures"):
        await chat.ainvoke([HumanMessage([picture((8, 8))])])
    assert caller.totals.attempts == 0
    assert (await chat.ainvoke("dog")).text == "dog"
    make: Callable[..., Any] = remote_judge
    with pytest.raises(JudgeError, match="sees no pictures"):
        make("openai", "m", caller, api_key="k", overrides={"pictures": False})
    await chat.aclose()


def test_only_servers_of_ones_own_are_probed() -> None:
    assert caps_of("openai", "SmolLM2").tool_choice == "probe"
    for provider, model in (
        ("openai", "gpt-5-mini"), ("openai", "o3"), ("gemini", "gemini-3-pro"),
        ("anthropic", "claude-sonnet-5"),
    ):  # fmt: skip
        assert caps_of(provider, model).tool_choice == "named"
