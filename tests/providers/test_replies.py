"""Replies as servers send them: errors inside a 200, pages, thoughts, JSON, pictures, counts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.providers.clients import client
from scenewright.providers.clients.client import picture_of
from scenewright.providers.clients.openai_format import usage_of
from scenewright.providers.clients.reading import count_of
from scenewright.providers.replies import (
    answer_of,
    best_object,
    json_values,
    page_problem,
    repeats,
    status_inside,
    without_thoughts,
)
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage

GRADE = {
    "type": "object",
    "properties": {"grade": {"type": "integer", "maximum": 10}},
    "required": ["grade"],
    "additionalProperties": False,
}
TAGS = ("<think>", "</think>", "<THINKING>", "</thinking>", "[THINK]", "[/THINK]", "◁think▷")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)  # fmt: skip
NO_BRACKETS = st.text(st.characters(exclude_characters='{}[]"`<◁'), max_size=30)


def reply(content: object, **more: object) -> dict[str, Any]:
    message = {"role": "assistant", "content": content}
    return {"choices": [{"index": 0, "finish_reason": "stop", "message": message}], **more}


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        pytest.param(
            {"error": {"message": "Insufficient credits", "code": 402}, "user_id": "u"},
            402,
            "Insufficient credits",
            id="openrouter.ai/docs/errors",
        ),
        pytest.param(
            reply(
                None,
                error={
                    "message": "Provider returned error",
                    "code": 429,
                    "metadata": {"raw": "error code: 1015", "provider_name": "Kluster"},
                },
                usage={"prompt_tokens": 0, "completion_tokens": 0},
            ),
            429,
            "error code: 1015 (provider Kluster)",
            id="BerriAI/litellm/issues/8448",
        ),
        pytest.param(
            {
                "choices": [
                    {"finish_reason": "error", "error": {"code": 502, "message": "upstream gone"}}
                ]
            },
            502,
            "upstream gone",
            id="openrouter: an error of the choice",
        ),
        pytest.param(
            {
                "choices": [
                    {"finish_reason": "error", "message": {"content": '{"events": [{"ti'}}
                ],
                "usage": {"prompt_tokens": None},
            },
            502,
            "midway",
            id="maximhq/bifrost/issues/5425",
        ),
        pytest.param(
            {"error": "Unexpected endpoint or method. (POST /chat/completions)"},
            404,
            "base_url should end in /v1",
            id="lmstudio-ai/lmstudio-bug-tracker/issues/618",
        ),
        pytest.param(
            {
                "object": "error",
                "message": "This model's maximum context length is 6048 tokens.",
                "type": "BadRequestError",
                "param": None,
                "code": 400,
            },
            400,
            "6048",
            id="vllm: ogx-ai/ogx/issues/4534",
        ),
        pytest.param(
            {
                "error": {
                    "code": 400,
                    "message": "the request exceeds the available context size.",
                    "type": "exceed_context_size_error",
                    "n_prompt_tokens": 14429,
                    "n_ctx": 8192,
                }
            },
            400,
            "context size",
            id="llama.cpp: oobabooga/textgen/issues/7257",
        ),
        pytest.param(
            {"error": {"code": 500, "message": "could not load model: rpc error", "type": ""}},
            500,
            "could not load model",
            id="mudler/LocalAI/issues/1664",
        ),
        pytest.param(
            {"error": {"message": "No models loaded.", "type": "invalid_request_error",
                       "code": "model_not_found"}},
            404,
            "load a model",
            id="lmstudio: canopyai/Orpheus-TTS/issues/229",
        ),
        pytest.param({"detail": "Not Found"}, 404, "Not Found", id="FastAPI"),
        pytest.param(
            {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]},
            422,
            "body.messages: Field required",
            id="FastAPI: validation",
        ),
        pytest.param(
            {"success": False, "errors": [{"code": 10000, "message": "Authentication error"}],
             "result": None},
            401,
            "Authentication error",
            id="Cloudflare",
        ),
        pytest.param(
            {"error": "OutOfMemoryError", "detail": "", "errors": "CUDA out of memory"},
            500,
            "CUDA out of memory",
            id="AUTOMATIC1111",
        ),
        pytest.param(
            {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
            529,
            "Overloaded",
            id="Anthropic",
        ),
        pytest.param(
            {"error": {"code": "429", "message": "slow", "type": None}}, 429, "slow", id="LiteLLM"
        ),
        pytest.param(
            {"code": "Throttling", "message": "Requests exceed", "request_id": "r"},
            429,
            "Requests exceed",
            id="DashScope",
        ),
        pytest.param({"message": "Forbidden"}, 403, "Forbidden", id="API Gateway"),
        pytest.param(
            {"choices": None, "base_resp": {"status_code": 1004, "status_msg": "login fail"}},
            401,
            "login fail",
            id="MiniMax",
        ),
        pytest.param({"error": {"message": "boom"}}, 500, "boom", id="no status at all"),
    ],
)  # fmt: skip
def test_an_error_inside_a_200_has_its_status(body: Any, status: int, words: str) -> None:
    told = status_inside(body)
    assert told is not None
    assert told[0] == status
    assert words in told[1]


@pytest.mark.parametrize(
    "body",
    [
        reply("hello"),
        reply("hello", error=None),
        reply(None) | {"choices": [{"message": {"tool_calls": [{"function": {"name": "f"}}]}}]},
        {"choices": [{"finish_reason": "length", "message": {"content": "",
                                                             "reasoning_content": "hm"}}]},
        {"choices": None, "usage": None},
        {"data": [{"b64_json": None, "url": "http://h/p.png"}], "message": "ok"},
        {"images": ["iVBO"], "parameters": {}, "info": "{}"},
        {"content": [{"type": "text", "text": "hi"}], "type": "message"},
        {"output": [{"type": "message", "content": [{"text": "hi"}]}], "error": None},
        {"candidates": [{"finishReason": "SAFETY", "index": 0}]},
        {},
    ],
)  # fmt: skip
def test_a_reply_with_content_is_no_error(body: Any) -> None:
    assert status_inside(body) is None


PAGE = "<!DOCTYPE html>\n<html><head><title>{}</title></head><body>{}</body></html>"


@pytest.mark.parametrize(
    ("kind", "body", "base_url", "words"),
    [
        ("text/html; charset=utf-8", PAGE.format("Sign in &middot; Acme", ""), "https://g/v1",
         ["'Sign in · Acme'", "asks to sign in", "https://g/v1"]),
        ("text/html", PAGE.format("Welcome", '<input type="password">'), "https://g/v1",
         ["asks to sign in"]),
        ("text/html", PAGE.format("x | 524: A timeout occurred", ""), "https://g/v1",
         ["524", "proxy or gateway"]),
        ("text/html", PAGE.format("Open WebUI", ""), "http://h:3000",
         ["'Open WebUI'", "base_url should end in /v1"]),
        ("application/json", PAGE.format("Lies", ""), "http://h/v1", ["'Lies'", "check base_url"]),
        ("", "<html><h1>Squid <b>proxy</b></h1>", "http://h/v1", ["'Squid proxy'", "gateway"]),
        ("text/plain", "Ollama is running", "http://h:11434",
         ["'Ollama is running'", "base_url should end in /v1"]),
        ("text/plain", "404 page not found", "http://h/v1", ["'404 page not found'"]),
    ],
)  # fmt: skip
def test_a_page_instead_of_json_is_named(
    kind: str, body: str, base_url: str, words: list[str]
) -> None:
    for form in (body, body.encode()):
        told = page_problem(kind, form, base_url)
        assert all(word in told for word in [*words, base_url]), told


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/json", '{"choices": []}'),
        ("text/plain", '{"choices": []}'),
        ("text/html", ' [{"html": "<html>"}]'),
        ("text/event-stream", "data: {}\n\n"),
        ("application/json", ""),
        ("image/png", "\x89PNG"),
    ],
)
def test_what_is_no_page_is_not_called_one(kind: str, body: str) -> None:
    assert page_problem(kind, body, "http://h") == ""


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ('<think>maybe {"grade": 2}</think>{"grade": 9}', '{"grade": 9}'),
        ("[THINK]plan[/THINK]A red ball", "A red ball"),
        # skalesapp/skales/issues/166: the template opened it
        ("so I think </think>\n\nA red ball", "A red ball"),
        # oobabooga/textgen/issues/7374, Augustas11/macprovider/issues/743
        ("<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>4",
         "4"),
        ('<|channel|>analysis<|message|>{"a": 1}<|end|><|start|>assistant<|channel|>final '
         '<|constrain|>json<|message|>{"a": 9}<|return|>', '{"a": 9}'),
        ("<|channel|>analysis<|message|>Hm, I never", ""),
        ("analysisUser says hi.assistantfinalHello", "Hello"),
        ("<seed:think>x</seed:think>y", "y"),
        ("◁think▷x◁/think▷y", "y"),
        ("<|START_THINKING|>x<|END_THINKING|>y", "y"),
        ("<|channel>thought\nx<channel|>y", "y"),
        # anomalyco/opencode/issues/36522
        ("<Thinking>x</THINK>y", "y"),
        ('<think>never ends {"grade": 2}', ""),
        ("A ball <think>which colour?", "A ball"),
        ("<think>a</think>b<think>c</think>d", "b\nd"),
        ("<think>I close with </think> now</think>y", "y"),
        ("x</think>", ""),
        ("<th<think>x</think>ink>y", "<th\nink>y"),
    ],
)  # fmt: skip
def test_thoughts_are_cut(text: str, left: str) -> None:
    assert without_thoughts(text) == left


@pytest.mark.parametrize(
    "text",
    [
        '{"text": "write <think> and </think>"}',
        '{"why": "a </think> b",}',
        "Say:\n```xml\n<think>\n```\nDone.",
        "Use `<think>` for thoughts.",
        "analysis of the picture",
        " spaces stay \n",
    ],
)
def test_quoted_tags_and_other_text_stay(text: str) -> None:
    assert without_thoughts(text) == text
    assert without_thoughts(f"<think>hm</think>{text}") == text.strip()


@given(st.text())
def test_a_text_without_tags_is_unchanged(text: str) -> None:
    assert without_thoughts(text) == text


@given(st.lists(st.sampled_from([*TAGS, '{"a": "', '"}', "```\n", "\n", "`", "x", "ink>", "<th"])))
def test_cutting_twice_is_cutting_once(pieces: list[str]) -> None:
    once = without_thoughts("".join(pieces))
    assert without_thoughts(once) == once


@pytest.mark.parametrize(
    "text", ["</think>{" * 5_000, 'a<think>b</think>{"a": 1}' * 2_000, "{" * 100_000]
)
def test_hostile_replies_cost_bounded_work(text: str) -> None:
    # Unbounded, the work grows with the square: seconds that the suite's limit of a test sees.
    assert "</think>" not in without_thoughts(text)
    assert isinstance(json_values(text), list)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('Sure:\n```json\n{"a": 1}\n```\nDone', [{"a": 1}]),
        ('first {"a": 1} then {"b": [1, 2]}', [{"a": 1}, {"b": [1, 2]}]),
        ('{"a": [1, 2,], "b": "x,}",}', [{"a": [1, 2], "b": "x,}"}]),
        ('json\n{"a": 1}', [{"a": 1}]),
        ('\ufeff{"a": 1}', [{"a": 1}]),
        ('{"a": NaN, "b": {"c": 1}}', []),
        ('{"a": 1e999}', []),
        ('"{\\"a\\": 9}"', [{"a": 9}]),
        ('the set {a, b} is {"a": 1}', [{"a": 1}]),
        # Parts of a value that was cut off are no answers.
        ('{"answers": [{"n": 1}, {"n": 2}, {"n"', []),
        ('{"answers": [{"n": 1}, {"n": "unfini', []),
        ('broken {"a": 1, oh no. {"a": 9}', [{"a": 9}]),
        ('{"n": ' + "9" * 5000 + "}", []),
        ("[" * 3000, []),
        ("nothing", []),
    ],
)  # fmt: skip
def test_json_is_found_in_a_text(text: str, values: list[Any]) -> None:
    assert json_values(text) == values


@given(NO_BRACKETS, st.lists(st.dictionaries(st.text(), JSON) | st.lists(JSON), max_size=4))
def test_all_values_are_found_between_prose(prose: str, values: list[Any]) -> None:
    assert json_values(prose.join(["", *map(json.dumps, values), ""])) == values


@pytest.mark.parametrize(
    ("text", "schema", "found"),
    [
        ('{"grade": 2} no, {"grade": 9}', GRADE, {"grade": 9}),
        ('{"grade": 9} as {"type": "object"}', GRADE, {"grade": 9}),
        ('{"grade": 99} {"other": 1}', GRADE, {"grade": 99}),
        ('{"x": 1} {"y": 2}', GRADE, {"y": 2}),
        ('[{"grade": 4}]', GRADE, {"grade": 4}),
        ('{"name": "rate", "arguments": {"grade": 4}}', GRADE, {"grade": 4}),
        ('{"name": "rate", "parameters": "{\\"grade\\": 4}"}', GRADE, {"grade": 4}),
        ('{"name": "rate", "input": {"x": 4}}', None, {"name": "rate", "input": {"x": 4}}),
        ("none", GRADE, None),
        ("[1, 2]", None, None),
    ],
)
def test_of_several_objects_the_last_that_validates_counts(
    text: str, schema: Any, found: Any
) -> None:
    assert best_object(text, schema) == found


@pytest.mark.parametrize(
    ("content", "reasoning", "text", "problem"),
    [
        ("hi", "thought", "hi", ""),
        # vllm-project/vllm/issues/15618: a guided answer in the reasoning field
        ("", '{"grade": 9}', '{"grade": 9}', ""),
        ("", 'so\n```json\n{"grade": 9}\n```\n', '{"grade": 9}', ""),
        # A draft within the thoughts is no answer.
        ("", 'maybe {"grade": 2}, or rather', "", "enable_thinking=false"),
        ("", '{"other": 1}', "", "reasoning parser"),
        ("<think>on and on", "", "", "output tokens"),
        ("", "", "", "empty"),
    ],
)  # fmt: skip
def test_an_answer_is_read_or_its_absence_explained(
    content: str, reasoning: str, text: str, problem: str
) -> None:
    found, told = answer_of(content, reasoning, GRADE)
    assert found == text
    assert problem in told
    assert bool(told) == (not text)


@given(st.binary(min_size=1, max_size=200), st.booleans(), st.integers(1, 60), st.booleans())
def test_pictures_are_read_in_every_spelling(
    data: bytes, urlsafe: bool, width: int, padded: bool
) -> None:
    text = (base64.urlsafe_b64encode if urlsafe else base64.b64encode)(data).decode()
    text = text if padded else text.rstrip("=")
    lines = "\r\n".join(text[at : at + width] for at in range(0, len(text), width))
    for spelled in (text, lines, f"data:image/png;base64,{lines}"):
        assert picture_of(spelled, Usage()) == data


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        ("data:image/png;base64,", "empty"),
        ("data:image/svg+xml,<svg/>", "data URL"),
        ("https://h/p.png", "address"),
        ("not base64!", "not valid base64"),
        ("A", "not valid base64"),
        ("A" * 100, "75 bytes, which is more than 50"),
    ],
)
def test_what_is_no_picture_is_named(
    text: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client, "MAX_BYTES", 50)
    with pytest.raises(UnusableReply, match=words) as raised:
        picture_of(text, Usage())
    # A smaller picture does not come by asking again.
    assert raised.value.retry == ("more than" not in words)


@pytest.mark.parametrize(
    ("value", "count"),
    [(12, 12), (12.0, 12), (0, 0), (-3, 0), ("12", 0), (None, 0), (True, 0), (1.5, 0),
     (float("nan"), 0), (float("inf"), 0), ({}, 0)],
)  # fmt: skip
def test_what_is_no_count_is_none(value: object, count: int) -> None:
    assert count_of(value) == count


def test_usage_is_read_under_both_names() -> None:
    assert usage_of({"prompt_tokens": 5, "completion_tokens": 2}) == Usage(5, 2)
    assert usage_of({"input_tokens": 5, "output_tokens": 2}) == Usage(5, 2)
    for usage in (None, {}, {"total_tokens": 7}, {"prompt_tokens": 0, "completion_tokens": 0}, []):
        assert usage_of(usage) == Usage()


@given(st.text(min_size=1, max_size=400), st.text(max_size=300))
def test_a_passage_without_end_is_noticed(unit: str, before: str) -> None:
    assert repeats(before + unit * (4 + 600 // len(unit))) != ""


ROWS = st.fixed_dictionaries(
    {"a": st.sampled_from(["yes", "no"]), "p": st.sampled_from([0.9, 0.5]), "o": st.just("ball")}
)


@given(st.lists(ROWS, min_size=60, max_size=300), st.sampled_from([None, 1]))
def test_numbered_rows_are_no_repetition(rows: list[dict[str, Any]], indent: int | None) -> None:
    numbered = [{"n": number, **row} for number, row in enumerate(rows, 1)]
    assert repeats(json.dumps(numbered, indent=indent)) == ""
    table = "".join(f"| {row['n']} | {row['a']} | {row['p']} |\n" for row in numbered)
    assert repeats(f"| n | a | p |\n|---|---|---|\n{table}") == ""


@pytest.mark.parametrize(
    "text",
    ["", "short", "a" * 299, "ha " * 90, "A red ball lies on a table. " * 3, "-" * 200 + "\n"],
)
def test_a_little_repetition_is_none(text: str) -> None:
    assert repeats(text) == ""
