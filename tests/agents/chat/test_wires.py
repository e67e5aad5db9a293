"""What is particular to one provider, and the parts that all share."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    FunctionMessage,
    HumanMessage,
    InvalidToolCall,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata

from scenewright.agents.chat.accounts import account_chat
from scenewright.agents.chat.anthropic import AnthropicChatWire
from scenewright.agents.chat.gemini import SIGNATURES, GeminiChatWire, contents, read_candidate
from scenewright.agents.chat.model import (
    DECLINED,
    EXPECTED_OUTPUT,
    ChatError,
    ChatReply,
    Tools,
    conversation,
    estimate,
    reply_of,
)
from scenewright.agents.chat.openai import OpenAIChatWire
from scenewright.agents.judges.models import caps_of
from scenewright.agents.judges.reading import MalformedReply
from scenewright.config.profiles import SettingsError
from scenewright.providers.caller import Caller
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import usage_of
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


def called(name: str = "look", id: str = "c1", **arguments: Any) -> AIMessage:
    return AIMessage("", tool_calls=[ToolCall(name=name, args=arguments, id=id)])


def anthropic_wire(model: str, **overrides: Any) -> AnthropicChatWire:
    return AnthropicChatWire(model, caps_of("anthropic", model, overrides), api_key="k")


def gemini_wire(model: str = "gemini-3-pro", **overrides: Any) -> GeminiChatWire:
    return GeminiChatWire(model, caps_of("gemini", model, overrides), api_key="k")


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
    assert (own._priced_as, other._priced_as) == ("openai", "mine")
    assert own.id == other.id == "mine:gpt-4o"


async def test_claude_gets_no_sampling_parameters() -> None:
    wire = anthropic_wire("claude-sonnet-4-6")
    said = [SystemMessage("Be."), HumanMessage("dog")]
    messages, settings = wire.build(said, FORCED, None)
    payload = wire._plain._get_request_payload(messages, **settings)
    assert not {"temperature", "top_p", "top_k", "extra_body"} & set(payload)
    assert payload["tool_choice"] == {"type": "tool", "name": "look"}
    assert payload["system"] == "Be."
    _, settings = anthropic_wire("m", sampling={"temperature": 0.5}).build(said, Tools(), ["x"])
    assert settings == {"extra_body": {"temperature": 0.5}, "stop": ["x"]}


async def test_a_claude_that_takes_no_forced_tool_is_not_forced() -> None:
    for choice in ("=look", "any"):
        _, settings = anthropic_wire("claude-opus-5-5").build(
            [HumanMessage("dog")], Tools((LOOK,), choice), None
        )
        assert settings.get("tool_choice") is None
    _, settings = anthropic_wire("claude-opus-5-5").build(
        [HumanMessage("dog")], Tools((LOOK,), "none"), None
    )
    assert settings["tool_choice"] == {"type": "none"}


async def test_openai_gets_what_its_model_accepts() -> None:
    wire = OpenAIChatWire("gpt-5", caps_of("openai", "gpt-5"), api_key="k")
    plain = wire._plain
    assert (plain.temperature, plain.max_tokens, plain.seed) == (None, None, None)
    _, settings, *_ = wire.build([HumanMessage("dog")], Tools((LOOK,), "any", parallel=False), None)
    assert (settings["tool_choice"], settings["parallel_tool_calls"]) == ("required", False)
    six = OpenAIChatWire("gpt-6", caps_of("openai", "gpt-6", chats=True), api_key="k")
    assert six._plain.use_responses_api
    with pytest.raises(ChatError, match="takes no stop words"):
        six.build([HumanMessage("dog")], Tools(), ["x"])


async def test_gemini_gets_what_its_model_accepts() -> None:
    said = [SystemMessage("Be."), HumanMessage("dog")]
    turns, config = gemini_wire(max_output_tokens=9).build(said, FORCED, ["x"])
    assert [turn.role for turn in turns] == ["user"]
    assert (config.temperature, config.seed, config.max_output_tokens) == (None, 0, 9)
    assert (config.system_instruction, config.stop_sequences) == ("Be.", ["x"])
    assert config.tools
    (declared,) = config.tools[0].function_declarations  # type: ignore[union-attr, misc]
    assert declared.parameters_json_schema == LOOK["function"]["parameters"]
    calling = config.tool_config.function_calling_config  # type: ignore[union-attr]
    assert calling
    assert calling.mode is types.FunctionCallingConfigMode.ANY
    assert calling.allowed_function_names == ["look"]


def response(
    *parts: types.Part, reason: str = "STOP", **more: Any
) -> types.GenerateContentResponse:
    content = types.Content(role="model", parts=list(parts)) if parts else None
    candidate = types.Candidate(content=content, finish_reason=types.FinishReason(reason), **more)
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=4, thoughts_token_count=3
    )
    return types.GenerateContentResponse(candidates=[candidate], usage_metadata=usage)


def test_gemini_gets_its_signatures_back_with_what_they_belong_to() -> None:
    found = read_candidate(
        response(
            types.Part(text="thinking aloud", thought=True),
            types.Part(text="I look.", thought_signature=b"text"),
            types.Part(
                function_call=types.FunctionCall(name="look", args={"where": "left"}),
                thought_signature=b"\xff\x00call",
            ),
            types.Part(function_call=types.FunctionCall(id="given", name="look", args={})),
        )
    )
    message = reply_of(found).value
    assert message.text == "I look."
    assert message.usage_metadata
    assert message.usage_metadata["output_tokens"] == 7
    first, second = message.tool_calls
    assert second["id"] == "given"
    assert first["id"] != second["id"]
    stored = AIMessage.model_validate_json(message.model_dump_json())
    (turn,) = contents([stored])
    text, one, two = turn.parts or []
    assert (text.text, text.thought_signature) == ("I look.", b"text")
    assert one.thought_signature == b"\xff\x00call"
    assert (one.function_call and one.function_call.id) is None
    assert two.thought_signature is None
    assert two.function_call
    assert two.function_call.id == "given"


def test_gemini_turns_alternate_and_answers_of_one_turn_stand_together() -> None:
    calls = [ToolCall(name=name, args={}, id=name) for name in ("look", "count")]
    turns = contents(
        [
            HumanMessage("one"),
            HumanMessage("two"),
            AIMessage("", tool_calls=calls),
            ToolMessage([words("seen"), picture((4, 4))], tool_call_id="look"),
            ToolMessage("broken", tool_call_id="count", status="error"),
            HumanMessage("and?"),
        ]
    )
    assert [turn.role for turn in turns] == ["user", "model", "user"]
    asked, _, told = ([part.model_dump(exclude_none=True) for part in t.parts or []] for t in turns)
    assert asked == [{"text": "one"}, {"text": "two"}]
    assert told[0]["function_response"]["response"] == {"output": "seen"}
    assert told[1]["inline_data"]["mime_type"] == "image/png"
    assert told[2]["function_response"] == {
        "id": "count", "name": "count", "response": {"error": "broken"}
    }  # fmt: skip
    assert told[3] == {"text": "and?"}


def test_gemini_cannot_be_told_what_nobody_asked() -> None:
    with pytest.raises(ChatError, match="the call 'c9', which is not in the conversation"):
        contents([HumanMessage("one"), ToolMessage("two", tool_call_id="c9")])
    with pytest.raises(ChatError, match="a picture without its data"):
        contents([HumanMessage([{"type": "image", "url": "https://h/p.png"}])])
    broken = called()
    broken.additional_kwargs = {SIGNATURES: {"c1": "!"}}
    with pytest.raises(ChatError, match="signature"):
        contents([broken])


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "RECITATION"])
def test_gemini_ends_that_are_refusals(reason: str) -> None:
    message = reply_of(read_candidate(response(reason=reason, finish_message="Not that."))).value
    assert message.response_metadata["stop"] == "refusal"
    assert message.text == f"Declined by Gemini: {reason}. Not that."


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_gemini_calls_that_are_broken(reason: str) -> None:
    with pytest.raises(UnusableReply, match=f"cannot be read: {reason}") as error:
        reply_of(read_candidate(response(reason=reason)))
    assert error.value.retry
    assert error.value.usage.tokens_out == 7


def test_gemini_without_a_candidate() -> None:
    with pytest.raises(UnusableReply, match="empty reply"):
        reply_of(read_candidate(types.GenerateContentResponse()))


def test_a_refusal_makes_no_calls() -> None:
    message = called()
    reply = reply_of(ChatReply(message, "refusal", refusal=""))
    assert (reply.value.text, reply.value.tool_calls) == (DECLINED, [])


def test_a_call_that_was_cut_off_is_not_made() -> None:
    usage = UsageMetadata(input_tokens=1, output_tokens=5, total_tokens=6)
    message = called()
    message.usage_metadata = usage
    with pytest.raises(UnusableReply, match="cut off after 5 tokens") as cut:
        reply_of(ChatReply(message, "length", cut=True))
    assert not cut.value.retry
    broken = InvalidToolCall(name="look", args="{", id="c", error=None, type="invalid_tool_call")
    with pytest.raises(UnusableReply, match=r"cannot be read: look\({\)") as error:
        reply_of(ChatReply(AIMessage("so", invalid_tool_calls=[broken]), "stop"))
    assert error.value.retry
    with pytest.raises(MalformedReply, match="without a name"):
        reply_of(ChatReply(called(name=""), "stop"))


def test_tokens_are_estimated_before_they_are_counted() -> None:
    bare = estimate([HumanMessage("x" * 40)], Tools(), "tiles-258")
    assert bare == 10 + EXPECTED_OUTPUT
    shown = estimate([HumanMessage([words("x" * 40), picture((10, 10))])], Tools(), "tiles-258")
    assert shown == bare + 258
    assert estimate([HumanMessage("x" * 40)], FORCED, "tiles-258") > bare


def test_messages_of_unknown_kinds_are_told() -> None:
    said: list[BaseMessage] = [FunctionMessage(content="x", name="f")]
    with pytest.raises(ChatError, match="type 'function' cannot be sent"):
        conversation(said)


@pytest.mark.parametrize(
    ("details", "cached", "written"),
    [
        ({}, 0, 0),
        ({"cache_read": 5}, 5, 0),
        ({"cache_read": 5, "cache_creation": 3}, 5, 3),
        ({"cache_creation": 0, "ephemeral_5m_input_tokens": 4}, 0, 4),
    ],
)
def test_tokens_of_caches_are_counted(details: Any, cached: int, written: int) -> None:
    usage: Any = {
        "input_tokens": 20, "output_tokens": 2, "total_tokens": 22, "input_token_details": details
    }  # fmt: skip
    found = usage_of(AIMessage("", usage_metadata=usage))
    assert (found.tokens_in, found.tokens_cached, found.tokens_written) == (20, cached, written)
