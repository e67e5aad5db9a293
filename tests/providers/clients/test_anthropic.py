"""Anthropic's wire format: requests as data, and replies in one piece or in many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from scenewright.agents.judges.models import caps_of
from scenewright.providers.clients.anthropic import (
    DEFAULT_OUTPUT_TOKENS,
    add_event,
    messages_body,
)
from scenewright.providers.clients.base import (
    MalformedReply,
    Message,
    OutputSchema,
    ToolCall,
    Tools,
)
from scenewright.providers.clients.reading import RawCompletion
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from tests.providers.clients.asking import (
    DOG,
    FORCED,
    LOOK,
    PICTURE,
    PICTURE_BASE64,
    SHEET,
    asked,
    read,
)


def body_of(model: str, request: Any, **caps: Any) -> dict[str, Any]:
    return messages_body(model, request, caps_of("anthropic", model, caps))


def test_claude_gets_no_sampling_parameters() -> None:
    body = body_of("claude-sonnet-4-6", asked(FORCED, Message("system", ("Be.",)), DOG))
    assert not {"temperature", "top_p", "top_k", "extra_body"} & set(body)
    assert body["tool_choice"] == {"type": "tool", "name": "look"}
    assert body["system"] == "Be."
    assert body["stream"] is True
    other = body_of("m", replace(asked(), stop=("x",)), sampling={"temperature": 0.5})
    assert other["extra_body"] == {"temperature": 0.5}
    assert other["stop_sequences"] == ["x"]


def test_a_limit_of_output_is_always_sent() -> None:
    assert body_of("m", asked(), max_output_tokens=0)["max_tokens"] == DEFAULT_OUTPUT_TOKENS
    assert body_of("m", asked(), max_output_tokens=9)["max_tokens"] == 9


@pytest.mark.parametrize("choice", ["=look", "any", "auto"])
def test_a_claude_that_takes_no_forced_tool_is_not_forced(choice: str) -> None:
    assert "tool_choice" not in body_of("claude-opus-5-5", asked(Tools((LOOK,), choice)))
    closed = body_of("claude-opus-5-5", asked(Tools((LOOK,), "none")))
    assert closed["tool_choice"] == {"type": "none"}


def test_tools_are_described_and_may_be_called_one_at_a_time() -> None:
    body = body_of("m", asked(Tools((LOOK,), "any", parallel=False, strict=True)))
    (tool,) = body["tools"]
    parameters = LOOK["function"]["parameters"]
    assert tool == {
        "name": "look", "description": "Look.", "input_schema": parameters, "strict": True
    }  # fmt: skip
    assert body["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}


def test_a_schema_is_asked_for_as_a_tool_or_as_a_text() -> None:
    body = body_of("m", asked(SHEET), structured="tool", strict=True)
    assert body["tools"] == [{"name": "report", "input_schema": SHEET.schema, "strict": True}]
    assert body["tool_choice"]["name"] == "report"
    form = body_of("m", asked(SHEET), structured="schema")["output_config"]["format"]
    assert form == {"type": "json_schema", "schema": SHEET.schema}


@pytest.mark.parametrize(
    ("caps", "is_bounded"),
    [
        ({"structured": "tool", "strict": False}, True),
        ({"structured": "tool", "strict": True}, False),
        ({"structured": "schema"}, False),
    ],
)
def test_bounds_are_left_out_where_a_grammar_is_made_of_the_schema(
    caps: dict[str, Any], is_bounded: bool
) -> None:
    properties = {"times": {"type": "integer", "minimum": 2}}
    bounded = {"type": "object", "properties": properties}
    body = body_of("m", asked(OutputSchema("report", bounded)), **caps)
    sent = body["tools"][0]["input_schema"] if "tools" in body else body["output_config"]["format"]
    assert ("minimum" in str(sent)) is is_bounded
    tool = {"type": "function", "function": {"name": "count", "parameters": bounded}}
    for strict in (True, False, None):
        (made,) = body_of("m", asked(Tools((tool,), strict=strict)))["tools"]
        assert ("minimum" in str(made["input_schema"])) is (not strict)


def test_turns_alternate_and_answers_of_tools_are_the_users() -> None:
    calls = (ToolCall("c1", "look", {"where": "left"}), ToolCall("c2", "look", {}))
    messages = (
        DOG,
        Message("user", ("cat",)),
        Message("assistant", ("I look.",), calls),
        Message("tool", ("seen", PICTURE), call_id="c1"),
        Message("tool", ("broken",), call_id="c2", failed=True),
        Message("user", ("and?",)),
    )
    turns = body_of("m", asked(None, *messages))["messages"]
    assert [turn["role"] for turn in turns] == ["user", "assistant", "user"]
    assert [block["text"] for block in turns[0]["content"]] == ["dog", "cat"]
    text, first, _ = turns[1]["content"]
    assert text == {"type": "text", "text": "I look."}
    assert first == {"type": "tool_use", "id": "c1", "name": "look", "input": {"where": "left"}}
    seen, broken, more = turns[2]["content"]
    assert seen["content"][1]["source"] == {
        "type": "base64", "media_type": "image/png", "data": PICTURE_BASE64
    }  # fmt: skip
    assert "is_error" not in seen
    assert broken["is_error"] is True
    assert more == {"type": "text", "text": "and?"}


def test_the_cache_reaches_up_to_the_last_picture() -> None:
    shown = asked(None, Message("user", (PICTURE, PICTURE, "dog?")))
    first, last, text = body_of("m", shown, prompt_cache=True)["messages"][0]["content"]
    assert last["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in {**first, **text}


def message(*content: dict[str, Any], ended: str = "end_turn", **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 3,
        "output_tokens": 4,
    }
    return {
        "type": "message", "id": "m-1", "model": "m-1", "role": "assistant",
        "content": list(content), "stop_reason": ended, "usage": usage, **more,
    }  # fmt: skip


def begun(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **part: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": part}


def test_a_stream_reads_as_the_whole_message() -> None:
    whole = message(
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"where": "left"}},
        ended="tool_use",
    )
    start = {**message(ended=""), "stop_reason": None}
    start["usage"] = {**start["usage"], "output_tokens": 1}
    pieces = [
        {"type": "message_start", "message": start},
        {"type": "ping"},
        begun(0, type="thinking", thinking=""),
        delta(0, type="thinking_delta", thinking="Hm."),
        delta(0, type="signature_delta", signature="abc"),
        begun(1, type="text", text=""),
        delta(1, type="text_delta", text="I "),
        delta(1, type="text_delta", text="look."),
        {"type": "content_block_stop", "index": 1},
        begun(2, type="tool_use", id="c1", name="look", input={}),
        delta(2, type="input_json_delta", partial_json=""),
        delta(2, type="input_json_delta", partial_json='{"where": '),
        delta(2, type="input_json_delta", partial_json='"left"}'),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"},
         "usage": {"output_tokens": 4}},
        {"type": "message_stop"},
    ]  # fmt: skip
    completion = read(add_event, pieces, FORCED)
    assert completion == read(add_event, [whole], FORCED)
    assert (completion.text, completion.stop) == ("I look.", "tools")
    assert completion.calls == (ToolCall("c1", "look", {"where": "left"}),)
    # What was read from and written to the cache is not among the input tokens.
    assert completion.usage == Usage(18, 4, 5, tokens_written=3)


def test_a_call_without_arguments_is_one() -> None:
    pieces = [
        begun(0, type="tool_use", id="c1", name="look", input={}),
        {"type": "message_stop"},
    ]
    assert read(add_event, pieces, FORCED).calls == (ToolCall("c1", "look", {}),)


def test_a_call_that_came_in_broken_pieces_is_asked_for_again() -> None:
    pieces = [
        begun(0, type="tool_use", id="c1", name="look", input={}),
        delta(0, type="input_json_delta", partial_json='{"where": '),
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    with pytest.raises(UnusableReply, match="a tool call that cannot be read") as error:
        read(add_event, pieces, FORCED)
    assert error.value.retry


@pytest.mark.parametrize("ended", ["max_tokens", "model_context_window_exceeded"])
def test_a_message_that_is_cut_off(ended: str) -> None:
    completion = read(add_event, [message({"type": "text", "text": "do"}, ended=ended)])
    assert (completion.stop, completion.text, completion.ended) == ("length", "do", ended)


def test_a_refusal_has_its_explanation_or_its_words() -> None:
    text = {"type": "text", "text": "I won't."}
    details = {"explanation": "a policy"}
    told = read(add_event, [message(text, ended="refusal", stop_details=details)])
    assert (told.stop, told.text) == ("refusal", "a policy")
    assert read(add_event, [message(text, ended="refusal")]).text == "I won't."


def test_what_is_no_message_ends_nothing() -> None:
    assert not add_event(RawCompletion(), {"type": "ping"})
    assert not add_event(RawCompletion(), {"type": "something_new", "content": 3})
    with pytest.raises(MalformedReply, match="without content"):
        add_event(RawCompletion(), {"type": "message", "content": None})
