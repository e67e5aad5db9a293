"""Chat models that follow a script: the same words in the same conversation, wherever they run."""

from __future__ import annotations

import json
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool

from scenewright.agents.chat.scripted import SCRIPTS, scripted_chat
from scenewright.config.profiles import SettingsError

NAMES = ("generate_image", "verify_facts", "look", "refine_with_reference", "inpaint", "accept")
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
    for name in NAMES
]
PLACE = [0.1, 0.2, 0.3, 0.4]
TASK: dict[str, Any] = {
    "facts": [{"id": "o:dog.1", "says": "dog", "objects": ["dog.1"]}],
    "places": {"dog.1": PLACE},
}
LEFT: dict[str, int | None] = {"images": None, "rounds": 3, "calls": 20}
CARD: dict[str, Any] = {"missing": [{"fact": "o:dog.1", "says": "dog"}], "best": "r0", "left": LEFT}


def asked(*told: tuple[str, Any], task: Any = TASK) -> list[BaseMessage]:
    """A conversation in which these tools told these things."""
    messages: list[BaseMessage] = [HumanMessage(f"The next line is data.\n{json.dumps(task)}")]
    for at, (name, data) in enumerate(told):
        call = {"name": name, "args": {}, "id": f"c{at}", "type": "tool_call"}
        messages.append(AIMessage("", tool_calls=[call]))
        failed = isinstance(data, str)
        messages.append(
            ToolMessage(
                data if failed else [{"type": "text", "text": json.dumps(data)}],
                tool_call_id=f"c{at}",
                status="error" if failed else "success",
            )
        )
    return messages


async def said(
    messages: list[BaseMessage], script: str = "director", tools: Any = TOOLS
) -> AIMessage:
    reply = await scripted_chat(script).bind_tools(tools).ainvoke(messages)
    assert isinstance(reply, AIMessage)
    return reply


async def called(*told: tuple[str, Any], tools: Any = TOOLS, task: Any = TASK) -> Any:
    (call,) = (await said(asked(*told, task=task), tools=tools)).tool_calls
    return call["name"], call["args"]


DREW = ("generate_image", {"image": "r0", "prompt": "a dog", "left": LEFT})
VERIFIED = ("verify_facts", {"image": "r0", **CARD})
REFINED = ("refine_with_reference", {"image": "r1", "prompt": "a dog", "left": LEFT})


async def test_the_director_goes_step_by_step() -> None:
    assert await called() == ("generate_image", {})
    assert await called(DREW) == ("verify_facts", {"image": "r0"})
    assert await called(DREW, VERIFIED) == ("refine_with_reference", {})
    assert await called(DREW, VERIFIED, REFINED) == ("verify_facts", {"image": "r1"})
    again = ("verify_facts", {"image": "r1", **CARD})
    assert await called(DREW, VERIFIED, REFINED, again) == (
        "inpaint",
        {"box": PLACE, "image": "r0"},
    )
    done = ("verify_facts", {"image": "r1", "missing": [], "best": "r1", "left": LEFT})
    assert await called(DREW, VERIFIED, REFINED, done) == ("accept", {"image": "r1"})


@pytest.mark.parametrize(
    ("left", "tool"),
    [
        ({"rounds": 0}, "accept"),
        ({"images": 1}, "accept"),
        ({"images": 2}, "refine_with_reference"),
        ({"calls": 2}, "accept"),
        ({"calls": 3}, "refine_with_reference"),
    ],
)
async def test_it_accepts_the_best_where_limits_leave_no_room(
    left: dict[str, int], tool: str
) -> None:
    card = ("verify_facts", {"image": "r0", **CARD, "left": {**LEFT, **left}})
    assert (await called(DREW, card))[0] == tool


async def test_it_uses_only_the_tools_that_it_has() -> None:
    few = [entry for entry in TOOLS if entry["function"]["name"] != "refine_with_reference"]  # type: ignore[index]
    assert (await called(DREW, VERIFIED, tools=few))[0] == "inpaint"
    fewer = few[:3] + few[-1:]
    assert (await called(DREW, VERIFIED, tools=fewer))[0] == "generate_image"
    assert (await called(DREW, VERIFIED, tools=few, task={"facts": []}))[0] == "generate_image"


async def test_after_an_error_it_tries_another_way_and_then_accepts() -> None:
    failed = ("refine_with_reference", "the backend did not draw it")
    assert (await called(DREW, VERIFIED, failed))[0] == "inpaint"
    both = (failed, ("inpaint", "the backend did not draw it"))
    assert (await called(DREW, VERIFIED, *both))[0] == "generate_image"
    drawing = ("generate_image", "the backend did not draw it")
    assert await called(DREW, VERIFIED, *both, drawing) == ("accept", {"image": "r0"})


async def test_what_it_says_depends_on_the_conversation_alone() -> None:
    first = await said(asked(DREW, VERIFIED))
    assert [first.content, first.tool_calls] == [
        (again := await said(asked(DREW, VERIFIED))).content,
        again.tool_calls,
    ]
    # Other interfaces tell the pictures of tools in a message behind them.
    moved = [*asked(DREW), HumanMessage("Shown by the tool generate_image (c0):")]
    assert (await said(moved)).tool_calls[0]["name"] == "verify_facts"


async def test_tools_may_be_given_in_any_form_of_langchain() -> None:
    @tool
    def generate_image(prompt: str = "") -> str:
        """Draws."""
        return prompt

    reply = await said(asked(), tools=[generate_image])
    assert reply.tool_calls[0]["name"] == "generate_image"


async def test_a_refusal_is_marked_as_one() -> None:
    refused = await said(asked(), "refusal")
    assert (refused.tool_calls, refused.response_metadata["stop"]) == ([], "refusal")


def test_an_unknown_script_is_told_with_those_there_are() -> None:
    with pytest.raises(SettingsError) as error:
        scripted_chat("no-such")
    assert all(name in str(error.value) for name in SCRIPTS)


async def test_the_director_calls_no_tool_that_it_was_not_given() -> None:
    reply = await scripted_chat("director").ainvoke(asked())
    assert isinstance(reply, AIMessage)
    assert not reply.tool_calls
    assert reply.text
