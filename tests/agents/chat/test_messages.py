"""From LangChain's messages to a client's request and back, and the settings of a chat model."""

from __future__ import annotations

from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.messages import ToolCall as LangChainCall

from scenewright.agents.chat.model import (
    DECLINED,
    EXPECTED_OUTPUT,
    account_chat,
    conversation,
    estimate,
    message_from,
    stop_of,
)
from scenewright.config.profiles import SettingsError
from scenewright.providers.caller import Caller
from scenewright.providers.clients.base import (
    Completion,
    Message,
    Picture,
    RequestError,
    ToolCall,
    Tools,
)
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from tests.agents.chat.talking import picture, words

LOOK: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"where": {"type": "string"}}},
    },
}
FORCED = Tools((LOOK,), "=look")


CALLS = (ToolCall("c1", "look", {"where": "left"}, "bWFyaw=="), ToolCall("c2", "look", {}))
USAGE = Usage(20, 2, 5, tokens_written=3)


async def test_settings_that_cannot_be_are_told() -> None:
    caller = Caller("test")
    with pytest.raises(SettingsError, match="no API key for mine: set OPENAI_API_KEY"):
        account_chat("openai", "m", caller, api_key=" ", name="mine")
    with pytest.raises(SettingsError, match="no provider 'nobody'"):
        account_chat("nobody", "m", caller, api_key="k")
    with pytest.raises(SettingsError, match="sampling"):
        account_chat("openai", "m", caller, api_key="k", overrides={"sampling": {"heat": 1}})


async def test_another_servers_models_have_prices_of_their_own() -> None:
    caller = Caller("test")
    own = account_chat("openai", "gpt-4o", caller, api_key="k", name="mine")
    other = account_chat("openai", "gpt-4o", caller, api_key="k", base_url="http://h", name="mine")
    assert (own.priced_as, other.priced_as) == ("openai", "mine")
    assert own.id == other.id == "mine:gpt-4o"


def test_messages_are_the_same_for_all_clients() -> None:
    called = LangChainCall(name="look", args={"where": "left"}, id="c1")
    shown = conversation(
        [
            HumanMessage("one"),
            SystemMessage("Be brief."),
            AIMessage("I look.", tool_calls=[called]),
            ToolMessage([words("seen"), picture((4, 4))], tool_call_id="c1", name="look"),
            SystemMessage("Be kind."),
            ToolMessage("broken", tool_call_id="c2", status="error"),
        ]
    )
    system, human, ai, seen, broken = shown
    assert system == Message("system", ("Be brief.\n\nBe kind.",))
    assert human == Message("user", ("one",))
    assert ai == Message("assistant", ("I look.",), (ToolCall("c1", "look", {"where": "left"}),))
    text, file = seen.parts
    assert text == "seen"
    assert isinstance(file, Picture)
    assert (file.media_type, file.data[1:4]) == ("image/png", b"PNG")
    assert (seen.call_id, seen.name, seen.failed) == ("c1", "look", False)
    assert (broken.role, broken.text, broken.failed) == ("tool", "broken", True)


def test_pictures_come_in_the_forms_of_langchain() -> None:
    block = picture((4, 4))
    url = f"data:image/png;base64,{block['base64']}"
    forms: list[str | dict[str, Any]] = [
        block,
        {"type": "image", "url": url},
        {"type": "image_url", "image_url": {"url": url}},
        {"type": "image_url", "image_url": url},
    ]
    (message,) = conversation([HumanMessage(forms)])
    assert len(message.pictures) == len(forms)
    assert len({(one.data, one.media_type) for one in message.pictures}) == 1
    with pytest.raises(RequestError, match="a picture without its data"):
        conversation([HumanMessage([{"type": "image", "url": "https://h/p.png"}])])


def test_a_reply_survives_as_langchains_message() -> None:
    made = message_from(
        Completion("I look.", "tools", USAGE, CALLS, signature="dGV4dA=="), "gemini"
    )
    stored = AIMessage.model_validate_json(made.model_dump_json())
    assert conversation([stored]) == (
        Message("assistant", ("I look.",), CALLS, signature="dGV4dA=="),
    )
    assert stored.usage_metadata is not None
    assert stored.usage_metadata["total_tokens"] == 22
    details = stored.usage_metadata["input_token_details"]
    assert details == {"cache_read": 5, "cache_creation": 3}


def test_a_message_says_why_it_ended() -> None:
    whole = Completion("dog", "end", USAGE, ended="stop", model="m-1")
    message = message_from(whole, "openai")
    assert (message.text, stop_of(message)) == ("dog", "end")
    assert message.response_metadata == {
        "model_provider": "openai", "model_name": "m-1", "ended": "stop", "stop": "end"
    }  # fmt: skip
    cut = message_from(Completion("dog", "length", USAGE), "openai", "this setting")
    assert (cut.text, stop_of(cut)) == ("dog", "length")
    assert cut.response_metadata["output_limit"] == "this setting"


def test_a_refusal_makes_no_calls() -> None:
    message = message_from(Completion("", "refusal", USAGE), "openai")
    assert (message.text, message.tool_calls) == (DECLINED, [])
    assert message_from(Completion("No.", "refusal", USAGE), "openai").text == "No."


@pytest.mark.parametrize("calls", [CALLS, ()])
def test_a_call_that_was_cut_off_is_not_made(calls: tuple[ToolCall, ...]) -> None:
    cut = Completion("so" if calls else " ", "length", USAGE, calls)
    with pytest.raises(UnusableReply, match="cut off after 2 tokens") as error:
        message_from(cut, "openai")
    assert not error.value.retry
    assert error.value.usage == USAGE


def test_tokens_are_estimated_before_they_are_counted() -> None:
    def of(content: Any, tools: Tools) -> int:
        return estimate(conversation([HumanMessage(content)]), tools, "tiles-258")

    bare = of("x" * 40, Tools())
    assert bare == 10 + EXPECTED_OUTPUT
    assert of([words("x" * 40), picture((10, 10))], Tools()) == bare + 258
    assert of("x" * 40, FORCED) > bare
    called = AIMessage("", tool_calls=[LangChainCall(name="look", args={"a": "x" * 40}, id="c")])
    assert estimate(conversation([HumanMessage("x" * 40), called]), Tools(), "tiles-258") > bare


def test_messages_of_unknown_kinds_are_told() -> None:
    said: list[BaseMessage] = [FunctionMessage(content="x", name="f")]
    with pytest.raises(RequestError, match="type 'function' cannot be sent"):
        conversation(said)
