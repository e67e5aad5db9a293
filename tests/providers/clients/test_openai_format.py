"""OpenAI's wire formats: requests as data, and replies in one piece or in many."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from scenewright.agents.judges.models import caps_of
from scenewright.providers.clients.base import (
    ClientSettings,
    Dialect,
    MalformedReply,
    Message,
    RequestError,
    Terms,
    ToolCall,
    Tools,
)
from scenewright.providers.clients.openai_format import (
    FILTERED,
    add_chat_event,
    add_response_event,
    pictures_apart,
    request_body,
)
from scenewright.providers.clients.reading import RawCompletion
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

TERMS = Terms()
CAPS = caps_of("openai", "mine")


def chat(output: Any = None, *messages: Message, **terms: Any) -> dict[str, Any]:
    return request_body("m", asked(output, *messages), CAPS, replace(TERMS, **terms), "compatible")


def settings(**changes: Any) -> ClientSettings:
    return caps_of("openai", "mine", changes)


@pytest.mark.parametrize(
    ("dialect", "left_out", "name"),
    [
        ("openai", (), "max_completion_tokens"),
        ("azure", (), "max_completion_tokens"),
        ("compatible", (), "max_tokens"),
        ("openai", ("max_completion_tokens",), "max_tokens"),
        ("compatible", ("max_tokens",), "max_completion_tokens"),
        ("compatible", ("output_limit",), None),
    ],
)
def test_the_output_limit_has_the_name_that_the_server_knows(
    dialect: Dialect, left_out: tuple[str, ...], name: str | None
) -> None:
    terms = replace(TERMS, left_out=frozenset(left_out))
    body = request_body("m", asked(), settings(max_output_tokens=9), terms, dialect)
    sent = {key: body[key] for key in body if key.startswith("max_")}
    assert sent == ({} if name is None else {name: 9})


def test_a_model_that_reasons_gets_the_newer_name_behind_gateways_too() -> None:
    reasoning = settings(max_output_tokens=9, efforts=("low", "high"))
    assert request_body("m", asked(), reasoning, TERMS, "compatible")["max_completion_tokens"] == 9


def test_replies_are_streamed_with_their_usage_unless_the_server_cannot() -> None:
    assert (chat()["stream"], chat()["stream_options"]) == (True, {"include_usage": True})
    assert "stream" not in chat(left_out=frozenset({"stream"}))
    assert "stream_options" not in chat(left_out=frozenset({"stream_options"}))


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", None),
        ("none", "none"),
        ("any", "required"),
        ("=look", {"type": "function", "function": {"name": "look"}}),
    ],
)
def test_the_choice_of_a_tool(choice: str, sent: object) -> None:
    body = chat(Tools((LOOK,), choice, parallel=False))
    assert body.get("tool_choice") == sent
    assert body["parallel_tool_calls"] is False
    (tool,) = body["tools"]
    assert tool == LOOK


def test_a_named_tool_is_forced_alone_where_names_cannot() -> None:
    other = {"type": "function", "function": {"name": "count", "parameters": {}}}
    body = chat(Tools((LOOK, other), "=look"), way="required")
    assert (body["tools"], body["tool_choice"]) == ([LOOK], "required")


def test_a_tool_becomes_a_schema_where_only_those_bind() -> None:
    body = chat(FORCED, way="schema")
    assert "tools" not in body
    form = body["response_format"]["json_schema"]
    assert (form["name"], form["schema"]) == ("look", LOOK["function"]["parameters"])
    system, user = body["messages"]
    assert system["role"] == "system"
    assert '"look"' in system["content"]
    assert user == {"role": "user", "content": "dog"}


def test_a_schema_is_asked_for_as_a_tool_or_as_a_text() -> None:
    body = chat(SHEET)
    (tool,) = body["tools"]
    assert tool["function"] == {"name": "report", "parameters": SHEET.schema, "strict": True}
    assert "strict" not in chat(SHEET, left_out=frozenset({"strict"}))["tools"][0]["function"]
    form = chat(SHEET, way="schema")["response_format"]
    wanted = {"name": "report", "schema": SHEET.schema, "strict": True}
    assert form == {"type": "json_schema", "json_schema": wanted}


def test_what_the_server_refused_is_left_out() -> None:
    assert chat()["temperature"] == 0.0
    assert "temperature" not in chat(left_out=frozenset({"temperature"}))


def test_a_reminder_is_the_end_of_what_is_said() -> None:
    request = replace(asked(), reminder="Be brief.")
    (message,) = request_body("m", request, CAPS, TERMS, "compatible")["messages"]
    assert message["content"] == "dog\n\nBe brief."
    shown = replace(asked(None, Message("user", ("dog", PICTURE))), reminder="Be brief.")
    (message,) = request_body("m", shown, CAPS, TERMS, "compatible")["messages"]
    assert [part["type"] for part in message["content"]] == ["text", "image_url", "text"]
    answer = Message("tool", ("seen",), call_id="c")
    spoken = replace(asked(None, DOG, answer), reminder="Be brief.")
    *_, last = request_body("m", spoken, CAPS, TERMS, "compatible")["messages"]
    assert last == {"role": "user", "content": "Be brief."}


def test_pictures_of_tools_follow_in_a_users_message() -> None:
    call = Message("assistant", (), (ToolCall("c1", "look", {}), ToolCall("c2", "look", {})))
    first = Message("tool", ("seen", PICTURE), call_id="c1", name="look")
    second = Message("tool", ("too",), call_id="c2", name="look")
    found = pictures_apart([DOG, call, first, second, DOG])
    assert [message.role for message in found] == [
        "user", "assistant", "tool", "tool", "user", "user"
    ]  # fmt: skip
    assert found[2].parts == ("seen\nThe picture follows.",)
    assert found[4].parts == ("Shown by the tool look (c1):", PICTURE)


def test_responses_take_what_the_other_interface_does_not() -> None:
    caps = settings(api="responses", sampling={}, max_output_tokens=9, reasoning_effort="low")
    terms = replace(TERMS, responses=True, effort="low")
    called = Message("assistant", ("I look.",), (ToolCall("c1", "look", {"where": "left"}),))
    answer = Message("tool", ("seen", PICTURE), call_id="c1", name="look")
    body = request_body("m", asked(FORCED, DOG, called, answer), caps, terms, "openai")
    assert (body["store"], body["max_output_tokens"]) == (False, 9)
    assert body["reasoning"] == {"effort": "low"}
    assert body["tool_choice"] == {"type": "function", "name": "look"}
    user, said, call, output = body["input"]
    assert user == {"role": "user", "content": "dog"}
    assert said == {"role": "assistant", "content": "I look."}
    assert json.loads(call["arguments"]) == {"where": "left"}
    text, image = output["output"]
    assert text == {"type": "input_text", "text": "seen"}
    assert image["image_url"] == f"data:image/png;base64,{PICTURE_BASE64}"
    body = request_body("m", asked(SHEET), caps, replace(terms, way="schema"), "openai")
    form = body["text"]["format"]
    assert (form["type"], form["name"], form["strict"]) == ("json_schema", "report", True)
    with pytest.raises(RequestError, match="takes no stop words"):
        request_body("m", replace(asked(), stop=("x",)), caps, terms, "openai")


def chunk(delta: dict[str, Any], ended: str | None = None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": ended, **more}
    return {"id": "c-1", "model": "m-1", "choices": [choice]}


USAGE = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "prompt_tokens_details": {"cached_tokens": 3},
}


def test_a_stream_reads_as_the_whole_reply() -> None:
    calls = [
        {"id": "t1", "function": {"name": "look", "arguments": '{"where": "left"}'}},
        {"id": "t2", "function": {"name": "look", "arguments": "{}"}},
    ]
    message = {"content": "I look.", "tool_calls": calls}
    choice = {"message": message, "finish_reason": "tool_calls"}
    whole = {"id": "c-1", "model": "m-1", "choices": [choice], "usage": USAGE}
    pieces = [
        chunk({"role": "assistant", "content": ""}),
        chunk({"content": "I "}),
        chunk({"content": "look."}),
        chunk({"tool_calls": [{"index": 0, "id": "t1", "function": {"name": "look"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"where": '}}]}),
        chunk({"tool_calls": [{"index": 1, "id": "t2", "function": {"name": "look"}}]}),
        chunk({"tool_calls": [{"index": 1, "function": {"arguments": "{}"}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"left"}'}}]}),
        chunk({}, "tool_calls"),
        {"id": "c-1", "model": "m-1", "choices": [], "usage": USAGE},
    ]
    completion = read(add_chat_event, pieces, FORCED)
    assert completion == read(add_chat_event, [whole], FORCED)
    assert completion.calls == (
        ToolCall("t1", "look", {"where": "left"}),
        ToolCall("t2", "look", {}),
    )
    assert (completion.text, completion.stop, completion.ended) == (
        "I look.",
        "tools",
        "tool_calls",
    )
    assert completion.usage == Usage(10, 4, 3)
    assert (completion.model, completion.request_id) == ("m-1", "c-1")


def test_log_probabilities_come_in_pieces_too() -> None:
    def weighed(text: str) -> dict[str, Any]:
        token = {"token": text, "logprob": -0.5, "bytes": list(text.encode())}
        top = [token, {"token": "x", "logprob": None}]
        return {"logprobs": {"content": [{**token, "top_logprobs": top}]}}

    completion = read(
        add_chat_event,
        [chunk({"content": one}, **weighed(one)) for one in ("дог", "!")] + [chunk({}, "stop")],
    )
    assert b"".join(token.data for token in completion.tokens).decode() == "дог!"
    assert completion.tokens[0].top[1] == (b"x", float("-inf"))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thoughts_are_no_answer(field: str) -> None:
    pieces = [chunk({field: "Hm."}), chunk({"content": "dog"}), chunk({}, "stop")]
    assert read(add_chat_event, pieces).text == "dog"
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "dog"}]
    assert read(add_chat_event, [chunk({"content": parts}, "stop")]).text == "dog"


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([chunk({"refusal": "I "}), chunk({"refusal": "won't."}, "stop")], "I won't."),
        ([chunk({"content": "Wel"}), chunk({}, "content_filter")], FILTERED),
        ([chunk({"content": [{"type": "refusal", "refusal": "No."}]}, "stop")], "No."),
    ],
)
def test_refusals_are_told(pieces: list[dict[str, Any]], words: str) -> None:
    completion = read(add_chat_event, pieces)
    assert (completion.stop, completion.text) == ("refusal", words)


@pytest.mark.parametrize("event", [{}, {"choices": []}, {"choices": None}, {"choices": ["x"]}])
def test_events_without_a_reply_end_nothing(event: dict[str, Any]) -> None:
    raw = RawCompletion()
    assert not add_chat_event(raw, event)
    assert raw.text == ""


def responded(*output: dict[str, Any], **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 50, "output_tokens": 9, "input_tokens_details": {"cached_tokens": 4}}
    head = {"id": "r-1", "model": "m-1", "status": "completed"}
    return {**head, "output": list(output), "usage": usage, **more}


def said(*content: dict[str, Any]) -> dict[str, Any]:
    return {"type": "message", "role": "assistant", "content": list(content)}


def test_responses_count_by_their_last_event() -> None:
    text = said({"type": "output_text", "text": "dog"})
    call = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
    whole = responded({"type": "reasoning", "summary": []}, text, call)
    pieces = [
        {"type": "response.created", "response": {"id": "r-1"}},
        {"type": "response.output_text.delta", "delta": "do"},
        {"type": "response.output_text.delta", "delta": "g"},
        {"type": "response.completed", "response": whole},
    ]
    completion = read(add_response_event, pieces, FORCED)
    assert completion == read(add_response_event, [whole], FORCED)
    assert (completion.text, completion.calls) == ("dog", (ToolCall("c1", "look", {}),))
    assert completion.usage == Usage(50, 9, 4)


def test_responses_that_are_cut_off_or_refused() -> None:
    text = said({"type": "output_text", "text": "do"})
    reason = {"incomplete_details": {"reason": "max_output_tokens"}, "status": "incomplete"}
    cut = read(
        add_response_event, [{"type": "response.incomplete", "response": responded(text, **reason)}]
    )
    assert (cut.stop, cut.text, cut.ended) == ("length", "do", "max_output_tokens")
    reason = {"incomplete_details": {"reason": "content_filter"}, "status": "incomplete"}
    filtered = read(add_response_event, [responded(text, **reason)])
    assert (filtered.stop, filtered.text) == ("refusal", FILTERED)
    refused = read(add_response_event, [responded(said({"type": "refusal", "refusal": "No."}))])
    assert (refused.stop, refused.text) == ("refusal", "No.")
    with pytest.raises(MalformedReply, match="without output"):
        add_response_event(RawCompletion(), {"type": "response.completed", "response": {}})


@pytest.mark.parametrize(
    ("content", "text", "thoughts"),
    [
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "ab", ""),
        ([{"type": "thinking", "thinking": [{"type": "text", "text": "x"}]},
          {"type": "text", "text": "y"}], "y", "x"),
        ([{"type": "reasoning", "text": "x"}, {"type": "text", "text": {"value": "y"}}], "y", "x"),
        ([{"type": "redacted_thinking", "data": "x"}, "y"], "y", ""),
        ({"grade": 9}, '{"grade": 9}', ""),
        (None, "", ""),
    ],
)  # fmt: skip
def test_content_comes_as_text_parts_or_an_object(content: Any, text: str, thoughts: str) -> None:
    raw = RawCompletion()
    add_chat_event(raw, {"choices": [{"message": {"content": content}}]})
    assert (raw.text, "".join(raw.thoughts)) == (text, thoughts)
