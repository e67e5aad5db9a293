"""What the mock makes of requests: sheets, plain questions, images, and what is none of these."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.agents.judges.pictures import text_tokens
from scenewright.mock_providers.anthropic_messages import AnthropicMessages
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.models import instant
from scenewright.mock_providers.openai_text import OpenAIChat, OpenAIResponses
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.sheets import plain_question, sheet_of
from scenewright.mock_providers.streams import pieces
from scenewright.mock_providers.wire import ModelRequest
from tests.mock_providers.asking import (
    ROUTES,
    TWO,
    Client,
    answers_of,
    body,
    error_of,
    parts_of,
    picture,
    sheet,
)

WIRES = {
    "chat": OpenAIChat(),
    "responses": OpenAIResponses(),
    "messages": AnthropicMessages(),
    "gemini": GeminiContent(),
}
WORDS = (
    *("messages", "content", "role", "type", "text", "image_url", "url", "input", "contents"),
    *("parts", "inlineData", "data", "tools", "function", "name", "tool_choice", "system"),
    *("response_format", "top_logprobs", "logprobs", "max_tokens", "source", "model", "format"),
    *("generationConfig", "toolConfig", "output_config", "image_url", "input_schema"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(WORDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@pytest.mark.parametrize("route", ROUTES)
def test_all_questions_of_a_sheet_are_answered_and_never_differently(
    client: Client, route: str
) -> None:
    asked = [f"Is there a thing{n} in the image?" for n in range(40)]
    asked.append('Is there a "quoted" ▲ thing in the image?')
    one, two = (answers_of(route, client.ask(route, text=sheet(*asked)).data) for _ in range(2))
    assert one == two
    assert [answer["n"] for answer in one] == list(range(1, 42))
    assert {answer["a"] for answer in one} == {"yes", "no"}
    assert all(0.5 <= answer["p"] <= 1 for answer in one)
    other = answers_of(route, client.ask(route, text=sheet(*asked), image=picture((0, 0, 9))).data)
    assert other != one


def test_every_route_gives_the_same_answers(client: Client) -> None:
    found = [answers_of(route, client.ask(route, form=form).data)
             for route in ROUTES for form in ("tool", "json", "text")]  # fmt: skip
    assert all(answers == found[0] for answers in found)


@pytest.mark.parametrize("format", ["PNG", "JPEG", "WEBP"])
@pytest.mark.parametrize("route", ROUTES)
def test_images_of_all_usual_formats_are_read(client: Client, route: str, format: str) -> None:
    assert client.ask(route, image=picture(format=format)).status == 200


def huge() -> bytes:
    buffer = io.BytesIO()
    Image.new("1", (9000, 20)).save(buffer, "PNG")
    return buffer.getvalue()


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize(
    ("image", "told"),
    [
        ("", "no image"),
        ("!!!", "base64"),
        (b"nothing", "is not an image"),
        (picture()[:90], "is damaged"),
        (picture(format="JPEG")[:300], "is damaged"),
        (huge(), "9000"),
    ],
    ids=["missing", "no base64", "no image", "cut PNG", "cut JPEG", "huge"],
)
def test_images_that_cannot_be_read_are_the_senders_fault(
    client: Client, route: str, image: bytes | str, told: str
) -> None:
    response = client.ask(route, image=image)
    assert response.status == 400
    kind, message = error_of(route, response.data)
    assert kind == ("INVALID_ARGUMENT" if route == "gemini" else "invalid_request_error")
    assert told in message


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("raw", [b"", b"[]", b"{", b"\xff\xfe", b"[" * 100_000, b"{}"])
def test_what_is_no_request_is_named_so(client: Client, route: str, raw: bytes) -> None:
    response = client.ask(route, raw)
    assert response.status == 400
    assert error_of(route, response.data)[1]


def test_addresses_are_never_fetched(client: Client) -> None:
    made = body("chat")
    made["messages"][0]["content"][0]["image_url"]["url"] = "http://127.0.0.1:1/cat.png"
    response = client.ask("chat", made)
    assert response.status == 400
    assert "fetches nothing" in response.data["error"]["message"]


def test_unknown_addresses_get_the_providers_404(client: Client) -> None:
    for path, headers, shape in (
        ("/v1/embeddings", {}, "chat"),
        ("/v1/complete", {"anthropic-version": "2026-10-21"}, "messages"),
        ("/v1beta/models/instant:embedContent", {}, "gemini"),
    ):
        response = client.call("POST", path, b"{}", headers)
        assert response.status == 404
        assert error_of(shape, response.data)[1]


@pytest.mark.parametrize("route", ROUTES)
def test_too_few_output_tokens_cut_the_answer(client: Client, route: str) -> None:
    response = client.ask(route, form="json", max_tokens=8)
    text = parts_of(route, response.data)["text"]
    assert len(text) == 32
    assert parts_of(route, client.ask(route, form="json").data)["text"].startswith(text)


def test_fields_that_the_schema_does_not_know_are_left_out(client: Client) -> None:
    made = body("chat", form="json")
    items = {"properties": {"n": {}, "a": {}}}
    schema = {"properties": {"answers": {"items": items}}}
    made["response_format"]["json_schema"]["schema"] = schema
    answers = answers_of("chat", client.ask("chat", made).data)
    assert [set(answer) for answer in answers] == [{"n", "a"}] * 2


def test_stray_logprobs_are_refused(client: Client) -> None:
    assert client.ask("chat", {**body("chat"), "top_logprobs": 3}).status == 400
    assert client.ask("chat", body("chat", logprobs=21)).status == 400


@pytest.mark.parametrize("route", ROUTES)
def test_a_plain_question_gets_a_plain_word(client: Client, route: str) -> None:
    asked = "Is there a dog in the image?\nAnswer with yes or no."
    found = parts_of(route, client.ask(route, text=asked, form="text").data)
    assert found["text"] in ("yes", "no")
    choice = "Where is it? A) left; B) right; C) nowhere.\nAnswer with the letter."
    found = parts_of(route, client.ask(route, text=choice, form="text").data)
    assert found["text"] in ("A", "B", "C")


def test_questions_are_read_from_text() -> None:
    text = sheet("Is it?", ("Which?", {"A": "one", "B": "two; B) three"}))
    first, second = sheet_of(text)
    assert (first.number, first.text, first.is_binary) == (1, "Is it?", True)
    assert dict(second.options) == {"A": "one", "B": "two; B) three"}
    assert sheet_of("no sheet here\n[not json") == []
    plain = plain_question("Where is it? A) left of; B) on.\nAnswer with the letter.")
    assert (plain.text, dict(plain.options)) == ("Where is it?", {"A": "left of", "B": "on"})
    assert plain_question("Is vitamin C) good?").is_binary
    for options in ([], ["A:one"], ["A:one", "B:one"], ["one", "two"], ["A:one", 2]):
        line = json.dumps([1, "Which?", options])
        with pytest.raises(Problem, match="question 1"):
            sheet_of(line)
    with pytest.raises(Problem, match="no question"):
        plain_question(" \n")


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Zl", "Zp", "Cc"])))
def test_any_name_on_a_sheet_stays_a_name(name: str) -> None:
    found = sheet_of(sheet(f"Is there a {name} in the image?", "Is there a dog in the image?"))
    assert [question.number for question in found][-1] == 2
    if "\x85" not in name:
        assert [question.text for question in found] == [
            f"Is there a {name} in the image?",
            "Is there a dog in the image?",
        ]


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=40, deadline=None)
@given(given_body=st.dictionaries(st.sampled_from(WORDS), JSON))
def test_whatever_comes_is_read_or_refused(route: str, given_body: dict[str, Any]) -> None:
    whole = {**body(route), **given_body}
    try:
        found: ModelRequest | Problem = WIRES[route].read(whole, "instant")
    except Problem as problem:
        found = problem
    assert isinstance(found, ModelRequest) or (found.status == 400 and found.message)


@settings(max_examples=60, deadline=None)
@given(st.text())
def test_pieces_joined_are_the_text(text: str) -> None:
    assert "".join(pieces(text)) == text
    assert text_tokens(text) * 4 >= len(text) > (text_tokens(text) - 1) * 4


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.text(max_size=20))
def test_instant_is_a_distribution(digest: bytes, text: str) -> None:
    (binary,) = sheet_of(json.dumps([1, text]))
    (choice,) = sheet_of(json.dumps([1, text, ["A:x", "B:y", "C:z"]]))
    for question in (binary, choice):
        judged = instant(digest, question)
        assert sum(p for _, p in judged.chances) == pytest.approx(1)
        assert dict(judged.chances)[judged.answer] == judged.probability
        assert judged.probability == max(p for _, p in judged.chances)


def test_two_is_a_sheet_of_two() -> None:
    assert len(sheet_of(TWO)) == 2
