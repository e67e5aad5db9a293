"""Replies as they come: events of streams and whole bodies, and the completions made of them."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.models import caps_of
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    MalformedReply,
    Message,
)
from scenewright.providers.clients.client import make_client
from scenewright.providers.clients.reading import (
    CHARACTERS_PER_TOKEN,
    RawCall,
    RawCompletion,
    StatusError,
    completion_of,
)
from scenewright.providers.retry import UnusableReply
from scenewright.providers.usage import Usage
from tests.providers.clients.asking import FORCED, SHEET, asked
from tests.providers.raw_server import Behaviour, parts, raw_server, reply


def chunk(text: str | None = None, end: str | None = None, **fields: Any) -> str:
    delta = {} if text is None else {"content": text}
    return json.dumps({"choices": [{"delta": delta, "finish_reason": end}], **fields})


HELLO = [chunk("Hel"), chunk("lo"), chunk(end="stop")]
WHOLE = {"choices": [{"message": {"content": "Hello"}, "finish_reason": "stop"}]}


def events(*data: str, end: str = "data: [DONE]\n\n", line: str = "\n") -> bytes:
    text = "".join(f"data: {one}\n\n" for one in data) + end
    return text.replace("\n", line).encode()


async def completed(
    behave: Behaviour, request: CompletionRequest | None = None, **caps: Any
) -> Completion:
    """What the client makes of one reply."""
    async with raw_server(behave) as server:
        found = caps_of("openai", "m", {"structured": "schema", **caps})
        client = make_client("openai", "m", found, api_key="sk-1", base_url=f"{server.url}/v1")
        try:
            return await client.complete(request or asked())
        finally:
            await client.aclose()


@pytest.mark.parametrize(
    "body",
    [
        events(*HELLO),
        events(*HELLO, line="\r\n"),
        events(*HELLO, end=""),
        events(*HELLO).rstrip(b"\n"),
        events(*HELLO[:2], end=f"data: {HELLO[2]}"),
        events(*HELLO).replace(b"data: ", b"data:"),
        b": OPENROUTER PROCESSING\n\n" + events(*HELLO),
        b": ping\n: pong\n" + events(*HELLO).replace(b"\n\n", b"\n: ping\n\n: pong\n\n"),
        b"retry: 3000\nid: 1\n" + events(*HELLO),
        events(*HELLO, end="data: [DONE]\n\ndata: not read any more\n\n"),
        events(*(json.dumps(json.loads(one), indent=1).replace("\n", "\ndata: ") for one in HELLO)),
        events(chunk(None), '{"choices": []}', *HELLO[:2], '{"choices": null}', *HELLO[2:]),
    ],
)
async def test_a_stream_is_read_in_every_spelling(body: bytes) -> None:
    found = await completed(parts([body]))
    assert (found.text, found.stop, found.streamed) == ("Hello", "end", True)


@given(st.lists(st.integers(1, 200), max_size=6))
async def test_a_stream_may_be_cut_into_packets_anywhere(cuts: Sequence[int]) -> None:
    body = b": ping\n\n" + events(chunk("Gr\u00fc\u00dfe"), chunk(end="stop"), line="\r\n")
    places = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    pieces = [body[a:b] for a, b in itertools.pairwise(places) if a < b]
    assert (await completed(parts(pieces))).text == "Gr\u00fc\u00dfe"


async def test_a_server_that_knows_no_streams_answers_whole() -> None:
    found = await completed(reply(WHOLE))
    assert (found.text, found.streamed) == ("Hello", False)
    plain = await completed(reply(json.dumps(WHOLE), kind="text/plain"))
    assert plain.text == "Hello"


@pytest.mark.parametrize(
    ("event", "status", "words"),
    [
        ('data: {"error": {"message": "slow down", "code": 429}}', 429, "slow down"),
        ('data: {"error": {"message": "no", "type": "rate_limit_error"}}', 429, "no"),
        ('event: error\ndata: {"message": "it broke"}', 500, "it broke"),
        ('event: error\ndata: {"error": {"type": "overloaded_error", "message": "m"}}', 529, "m"),
        (
            'data: {"choices": [{"delta": {}, "finish_reason": "error"}], '
            '"error": {"message": "upstream", "code": 502}}',
            502,
            "upstream",
        ),
    ],
)  # fmt: skip
async def test_an_error_in_a_stream_has_its_status(event: str, status: int, words: str) -> None:
    body = events(HELLO[0], end=f"{event}\n\n")
    with pytest.raises(StatusError, match=words) as caught:
        await completed(parts([body]))
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("behave", "words"),
    [
        (parts([events("{broken", *HELLO)]), "no JSON"),
        (parts([events("[1]", *HELLO)]), "no JSON object"),
        (parts([events(*HELLO[:2], end="")]), "the stream ended before the reply was complete"),
        (parts([b""]), "the stream ended before the reply was complete"),
        (reply("{broken"), "no JSON"),
        (reply("7"), "no JSON object"),
        (reply({}), "no choices"),
        (reply("[" * 100_000), "no JSON"),
    ],
)
async def test_what_is_no_reply_is_malformed(behave: Behaviour, words: str) -> None:
    with pytest.raises(MalformedReply, match=words):
        await completed(behave)


async def test_a_stream_without_end_is_stopped_where_it_repeats_itself() -> None:
    pieces = [events(chunk("and again, "), end="")] * 400
    with pytest.raises(UnusableReply, match="repeats itself") as caught:
        await completed(parts(pieces))
    assert not caught.value.retry


def write(raw: RawCompletion, kind: list[str], texts: Iterable[str]) -> None:
    for text in texts:
        raw.grow(kind, text)


def growing(limit: int = 0, *, watching: bool = True) -> RawCompletion:
    return RawCompletion(limit=limit, watching=watching)


@pytest.mark.parametrize("field", ["parts", "thoughts"])
def test_repetition_ends_a_growing_reply_and_its_thoughts(field: str) -> None:
    raw = growing()
    with pytest.raises(UnusableReply, match="the model repeats itself"):
        write(raw, getattr(raw, field), ["wait, "] * 1000)
    assert len("".join(getattr(raw, field))) < 2000


def test_a_reply_far_beyond_its_limit_is_stopped() -> None:
    raw = growing(limit=100)
    with pytest.raises(UnusableReply, match="keeps no limit of output tokens"):
        write(raw, raw.parts, (f"{number} " for number in range(10_000)))
    written = len(raw.text)
    assert 100 * CHARACTERS_PER_TOKEN < written < 100 * CHARACTERS_PER_TOKEN + 1000


@pytest.mark.parametrize(("limit", "watching"), [(0, True), (100, False)])
def test_a_reply_may_be_long(limit: int, watching: bool) -> None:
    raw = growing(limit, watching=watching)
    write(raw, raw.parts, (f"{number} " for number in range(2000)))
    assert raw.text.endswith("1999 ")


def made(
    text: str, request: CompletionRequest | None = None, thoughts: str = "", **fields: Any
) -> Completion:
    raw = RawCompletion(parts=[text], thoughts=[thoughts] if thoughts else [], **fields)
    return completion_of(raw, request or asked(), logprobs=False)


@pytest.mark.parametrize(
    "text",
    [
        '<think>Perhaps {"a": 2}.</think>{"a": 9}',
        'Perhaps {"a": 2}.</think>\n{"a": 9}',
        '[THINK]{"a": 2}[/THINK]{"a": 9}',
        'At first {"a": 2}. Final answer: {"a": 9}',
        '{"a": 2}\n```json\n{"a": 9}\n```\n',
        '{"a": 9}\n{"b": 1}',
    ],
)
def test_the_last_object_after_the_thoughts_counts(text: str) -> None:
    assert made(text, asked(SHEET)).data == {"a": 9}


def test_thoughts_are_cut_and_counted() -> None:
    assert made("plain").thoughts == 0
    tagged = made("<think>hm</think>plain")
    assert (tagged.text, tagged.thoughts) == ("plain", len("<think>hm</think>"))
    beside = made("plain", thoughts="hm, hm")
    assert (beside.text, beside.thoughts) == ("plain", 6)


def test_an_answer_in_the_field_of_thoughts_is_one_where_it_validates() -> None:
    found = made("", asked(SHEET), thoughts='Let me see. {"a": 9}')
    assert found.data == {"a": 9}
    for thoughts in ('Let me see. {"b": 9}', '{"a": 9} or not?', "Let me see."):
        with pytest.raises(UnusableReply, match="reasoning field"):
            made("", asked(SHEET), thoughts=thoughts)
    with pytest.raises(UnusableReply, match="reasoning field"):
        made("", thoughts='{"a": 9}')


def test_an_empty_reply_is_told_with_its_end_and_its_usage() -> None:
    usage = Usage(7, 3)
    with pytest.raises(UnusableReply, match=r"empty reply \(it ended by stop\)") as caught:
        made(" \n", ended="stop", usage=usage)
    assert caught.value.usage == usage
    cut = made("", cut=True, ended="length")
    assert (cut.text, cut.stop) == ("", "length")


def test_numbers_that_are_none_are_left_to_the_reader() -> None:
    found = made('{"a": 1, "p": NaN, "q": -Infinity}', asked(SHEET)).data
    assert found is not None
    assert math.isnan(found["p"])
    assert found["q"] == -math.inf
    assert made("NaN", asked(SHEET)).data is None


def test_a_refusal_has_its_words_or_those_of_the_text() -> None:
    for refusal, text, words in (("No.", "x", "No."), ("", "I will not.", "I will not.")):
        found = made(text, asked(SHEET), refusal=refusal)
        assert (found.stop, found.text, found.data) == ("refusal", words, None)


def call(text: str = "", name: str = "look", **fields: Any) -> dict[object, RawCall]:
    return {0: RawCall("id_1", name, text, **fields)}


def test_a_filled_tool_is_the_object_however_its_arguments_came() -> None:
    for calls in (
        call('{"a": 9}', "report"),
        call('```json\n{"a": 9}\n```', "report"),
        call("", "report", arguments={"a": 9}),
    ):
        found = made("", asked(SHEET), calls=calls)
        assert (found.data, found.called) == ({"a": 9}, True)
    as_text = made('{"a": 9}', asked(SHEET))
    assert (as_text.data, as_text.called) == ({"a": 9}, False)


def test_calls_of_tools_are_read_or_asked_for_again() -> None:
    assert made("", asked(FORCED), calls=call('{"where": "left"}')).calls[0].arguments == {
        "where": "left"
    }
    assert made("", asked(FORCED), calls=call(" ")).calls[0].arguments == {}
    with pytest.raises(UnusableReply, match="cannot be read"):
        made("", asked(FORCED), calls=call("left, I think"))
    cut = made("", asked(FORCED), calls=call('{"where": "le'), cut=True)
    assert (cut.stop, cut.calls[0].arguments) == ("length", {})
    with pytest.raises(MalformedReply, match="without a name"):
        made("", asked(FORCED), calls=call("{}", ""))


def test_a_prompt_that_the_server_cut_is_told_with_the_figures() -> None:
    long = CompletionRequest((Message("user", ("word " * 4000,)),))
    raw = RawCompletion(["an answer to half of it"], usage=Usage(2048, 5))
    with pytest.raises(UnusableReply, match="read 2048 tokens of a prompt of 20000") as error:
        completion_of(raw, long, logprobs=False)
    assert not error.value.retry
    raw.usage = Usage(4900, 5)
    assert completion_of(raw, long, logprobs=False).text == "an answer to half of it"
