"""Gemini's wire format: requests as data, and replies in one piece or in many."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from google.genai import types

from scenewright.agents.judges.models import caps_of
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    Message,
    RequestError,
    ToolCall,
)
from scenewright.providers.clients.gemini import add_response, contents_of, generate_request
from scenewright.providers.clients.reading import RawCompletion, completion_of
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from tests.providers.clients.asking import DOG, FORCED, LOOK, PICTURE, SHEET, asked


def built(request: CompletionRequest, model: str = "gemini-3-pro", **caps: Any) -> Any:
    return generate_request(request, caps_of("gemini", model, caps), logprobs=False)


def test_gemini_gets_what_its_model_accepts() -> None:
    request = replace(asked(FORCED, Message("system", ("Be.",)), DOG), stop=("x",))
    turns, config = built(request, max_output_tokens=9)
    assert [turn.role for turn in turns] == ["user"]
    assert (config.temperature, config.seed, config.max_output_tokens) == (None, 0, 9)
    assert (config.system_instruction, config.stop_sequences) == ("Be.", ["x"])
    (declared,) = config.tools[0].function_declarations
    assert declared.parameters_json_schema == LOOK["function"]["parameters"]
    calling = config.tool_config.function_calling_config
    assert calling.mode is types.FunctionCallingConfigMode.ANY
    assert calling.allowed_function_names == ["look"]
    _, closed = built(asked(replace(FORCED, choice="none")))
    calling = closed.tool_config.function_calling_config
    assert calling.mode is types.FunctionCallingConfigMode.NONE
    assert calling.allowed_function_names is None


def test_a_schema_is_asked_for_as_a_function_or_as_a_text() -> None:
    _, config = built(asked(SHEET), structured="tool")
    (declared,) = config.tools[0].function_declarations
    assert (declared.name, declared.parameters_json_schema) == ("report", SHEET.schema)
    _, config = built(asked(SHEET), structured="schema")
    assert config.response_mime_type == "application/json"
    assert config.response_json_schema == SHEET.schema
    assert config.tools is None


def test_the_resolution_of_pictures_is_sent_where_it_is_set() -> None:
    _, config = built(asked(), media_resolution="low")
    assert config.media_resolution is types.MediaResolution.MEDIA_RESOLUTION_LOW
    assert built(asked())[1].media_resolution is None


def response(
    *parts: types.Part, reason: str | None = "STOP", **more: Any
) -> types.GenerateContentResponse:
    content = types.Content(role="model", parts=list(parts)) if parts else None
    ended = None if reason is None else types.FinishReason(reason)
    candidate = types.Candidate(content=content, finish_reason=ended, **more)
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=10, candidates_token_count=4, thoughts_token_count=3
    )
    return types.GenerateContentResponse(candidates=[candidate], usage_metadata=usage)


def read(*responses: types.GenerateContentResponse) -> Completion:
    raw = RawCompletion()
    for one in responses:
        add_response(raw, one)
    return completion_of(raw, asked(FORCED), logprobs=False)


def test_gemini_gets_its_signatures_back_with_what_they_belong_to() -> None:
    completion = read(
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
    assert (completion.text, completion.stop) == ("I look.", "tools")
    assert completion.usage == Usage(10, 7)
    first, second = completion.calls
    assert second.id == "given"
    assert first.id != second.id
    said = Message(
        "assistant", (completion.text,), completion.calls, signature=completion.signature
    )
    (turn,) = contents_of([said])
    text, one, two = turn.parts or []
    assert (text.text, text.thought_signature) == ("I look.", b"text")
    assert one.thought_signature == b"\xff\x00call"
    # The library made no id, and gets none back.
    assert (one.function_call and one.function_call.id) is None
    assert two.thought_signature is None
    assert two.function_call
    assert two.function_call.id == "given"


def test_a_stream_reads_as_the_whole_response() -> None:
    call = types.FunctionCall(id="c1", name="look", args={"where": "left"})
    whole = response(types.Part(text="I look."), types.Part(function_call=call))
    pieces = [
        response(types.Part(text="I "), reason=None),
        response(types.Part(text="look."), types.Part(function_call=call), reason=None),
        response(),
    ]
    assert read(*pieces) == read(whole)


def test_gemini_turns_alternate_and_answers_of_one_turn_stand_together() -> None:
    turns = contents_of(
        [
            Message("user", ("one",)),
            Message("user", ("two",)),
            Message(
                "assistant", (), (ToolCall("look", "look", {}), ToolCall("count", "count", {}))
            ),
            Message("tool", ("seen", PICTURE), call_id="look"),
            Message("tool", ("broken",), call_id="count", failed=True),
            Message("user", ("and?",)),
        ]
    )
    assert [turn.role for turn in turns] == ["user", "model", "user"]
    begun, _, told = ([part.model_dump(exclude_none=True) for part in t.parts or []] for t in turns)
    assert begun == [{"text": "one"}, {"text": "two"}]
    assert told[0]["function_response"]["response"] == {"output": "seen"}
    assert told[1]["inline_data"] == {"data": b"a file", "mime_type": "image/png"}
    assert told[2]["function_response"] == {
        "id": "count", "name": "count", "response": {"error": "broken"}
    }  # fmt: skip
    assert told[3] == {"text": "and?"}


def test_gemini_cannot_be_told_what_nobody_asked() -> None:
    with pytest.raises(RequestError, match="the call 'c9', which is not in the conversation"):
        contents_of([DOG, Message("tool", ("two",), call_id="c9")])
    with pytest.raises(RequestError, match="signature"):
        contents_of([Message("assistant", (), (ToolCall("c1", "look", {}, "!"),))])


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "RECITATION"])
def test_gemini_ends_that_are_refusals(reason: str) -> None:
    completion = read(response(reason=reason, finish_message="Not that."))
    assert (completion.stop, completion.ended) == ("refusal", reason)
    assert completion.text == f"Declined by Gemini: {reason}. Not that."


def test_a_prompt_that_is_blocked_is_a_refusal() -> None:
    blocked = types.BlockedReason.PROHIBITED_CONTENT
    feedback = types.GenerateContentResponsePromptFeedback(block_reason=blocked)
    completion = read(types.GenerateContentResponse(prompt_feedback=feedback))
    assert (completion.stop, completion.ended) == ("refusal", "PROHIBITED_CONTENT")


@pytest.mark.parametrize("reason", ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"])
def test_gemini_calls_that_are_broken(reason: str) -> None:
    with pytest.raises(UnusableReply, match=f"cannot be read: {reason}") as error:
        read(response(reason=reason))
    assert error.value.retry
    assert error.value.usage.tokens_out == 7


def test_gemini_without_a_candidate() -> None:
    with pytest.raises(UnusableReply, match="empty reply"):
        read(types.GenerateContentResponse())


def test_gemini_that_is_cut_off() -> None:
    completion = read(response(types.Part(text="do"), reason="MAX_TOKENS"))
    assert (completion.stop, completion.text) == ("length", "do")
