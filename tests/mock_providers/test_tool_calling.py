"""Scripts that call tools, over the four formats: ids, ends, tokens, faults, limits."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter

from scenewright.core.formats import dump_scene
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.mock_providers import (
    MODELS,
    Fault,
    MockSettings,
    ThreadedMockProviders,
    serving_thread,
)
from scenewright.mock_providers.anthropic_messages import AnthropicMessages
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.openai_text import OpenAIChat, OpenAIResponses
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.scripts import filled
from scenewright.mock_providers.wire import ModelRequest, Wire
from tests.mock_providers.asking import (
    ROUTES,
    Client,
    Response,
    answers_of,
    body,
    error_of,
    parts_of,
)
from tests.mock_providers.talking import COUNT, LOOK, heard, request, result, tokens, user

WIRES: dict[str, Wire] = {
    "chat": OpenAIChat(),
    "responses": OpenAIResponses(),
    "messages": AnthropicMessages(),
    "gemini": GeminiContent(),
}
CALLS_END = {
    "chat": "tool_calls",
    "responses": "completed",
    "messages": "tool_use",
    "gemini": "STOP",
}
WORDS_END = {"chat": "stop", "responses": "completed", "messages": "end_turn", "gemini": "STOP"}
CUT_END = {
    "chat": "length",
    "responses": "max_output_tokens",
    "messages": "max_tokens",
    "gemini": "MAX_TOKENS",
}


def ask(
    client: Client, route: str, turns: Any, model: str = "script:once", **more: Any
) -> Response:
    return client.ask(route, request(route, turns, model=model, **more), model=model)


def said(client: Client, route: str, turns: Any, model: str = "script:once", **more: Any) -> Any:
    found = ask(client, route, turns, model, **more)
    assert found.status == 200, found.data
    return heard(route, found.data)


@pytest.mark.parametrize("route", ROUTES)
def test_a_tool_is_called_and_its_answer_heard(client: Client, route: str) -> None:
    called = said(client, route, [user("the sky")])
    (call,) = called["calls"]
    assert (call["name"], call["args"]) == ("look", {"where": "the sky", "times": 2})
    assert called["end"] == CALLS_END[route]
    told = said(client, route, [user("the sky"), called, result(call, "blue")])
    assert (told["text"], told["calls"]) == ("answered: blue", [])
    assert told["end"] == WORDS_END[route]


@pytest.mark.parametrize("route", ROUTES)
def test_several_tools_at_once(client: Client, route: str) -> None:
    called = said(client, route, [user("it")], "script:every")
    one, two = called["calls"]
    assert (one["name"], two["name"], two["args"]) == ("look", "count", {})
    assert one["id"] != two["id"]
    turns = [user("it"), called, result(one, "first"), result(two, "second")]
    assert said(client, route, turns, "script:every")["text"] == (
        "answered: first; answered: second"
    )


@pytest.mark.parametrize("route", ROUTES)
def test_a_forced_tool_is_the_one_that_is_called(client: Client, route: str) -> None:
    for model in ("script:echo", "script:every", "script:endless"):
        called = said(client, route, [user("it")], model, choice="count")
        assert [call["name"] for call in called["calls"]] == ["count"]
    none = said(client, route, [user("it")], "script:every", choice="none")
    assert (none["text"], none["calls"]) == ("it", [])
    lost = ask(client, route, [user("it")], choice="fly")
    assert lost.status == 400
    assert "fly" in error_of(route, lost.data)[1]


@pytest.mark.parametrize("route", ROUTES)
def test_without_tools_a_script_speaks(client: Client, route: str) -> None:
    assert said(client, route, [user("hello"), user("you")], "script:echo", tools=())["text"] == (
        "you"
    )
    assert said(client, route, [user("hello")], "echo", tools=())["text"] == "hello"


@pytest.mark.parametrize("route", ROUTES)
def test_scripts_that_do_what_a_model_should_not(client: Client, route: str) -> None:
    turns: list[Any] = [user("it")]
    seen = set()
    for _ in range(3):
        called = said(client, route, turns, "script:endless")
        (call,) = called["calls"]
        seen.add(call["id"])
        turns += [called, result(call, "again")]
    assert len(seen) == 3
    (call,) = said(client, route, [user("it")], "script:unknown-tool")["calls"]
    assert call["name"] not in ("look", "count")
    (call,) = said(client, route, [user("it")], "script:bad-arguments")["calls"]
    assert call["name"] == "look"
    assert call["args"]["where"] == [None]
    quiet = said(client, route, [user("it")], "script:silent")
    assert (quiet["text"], quiet["calls"]) == ("", [])


@pytest.mark.parametrize("route", ROUTES)
def test_a_script_declines_in_the_providers_form(client: Client, route: str) -> None:
    found = ask(client, route, [user("it")], "script:refusal")
    assert found.status == 200
    assert parts_of(route, found.data)["refused"]


@pytest.mark.parametrize("route", ROUTES)
def test_the_director_plays_over_every_format(client: Client, route: str) -> None:
    draw = {"name": "generate_image", "description": "Draw.", "parameters": {"type": "object"}}
    called = said(client, route, [user('{"facts": []}')], "director", tools=(draw,))
    assert [call["name"] for call in called["calls"]] == ["generate_image"]


@pytest.mark.parametrize("route", ROUTES)
def test_tokens_are_of_all_that_was_sent_and_said(client: Client, route: str) -> None:
    short = ask(client, route, [user("it")], "script:echo", tools=()).data
    tools = ask(client, route, [user("it")], "script:echo").data
    assert tokens(route, tools)[0] > tokens(route, short)[0] > 0
    called = ask(client, route, [user("it")]).data
    assert tokens(route, called)[1] > tokens(route, short)[1] > 0
    turn = heard(route, called)
    one, two = (
        tokens(route, ask(client, route, [user("it"), turn, result(turn["calls"][0], text)]).data)
        for text in ("yes", "yes" * 100)
    )
    assert two[0] - one[0] == pytest.approx(75, abs=2)
    assert two[1] > one[1]


@pytest.mark.parametrize("route", ROUTES)
def test_calls_and_answers_must_fit(client: Client, route: str) -> None:
    called = said(client, route, [user("it")], "script:every")
    one, _ = called["calls"]
    for turns in (
        [user("it"), called],
        [user("it"), called, result(one, "first")],
        [user("it"), called, user("well?")],
        [user("it"), called, result({**one, "id": "other", "name": "other"}, "first")],
    ):
        found = ask(client, route, turns)
        assert found.status == 400, turns
        assert error_of(route, found.data)[1]


def test_gemini_wants_its_signatures_back(client: Client) -> None:
    called = said(client, "gemini", [user("it")], "script:every")
    one, two = called["calls"]
    assert one["signature"]
    assert two["signature"] is None
    del one["signature"]
    answers = [result(one, "first"), result(two, "second")]
    found = ask(client, "gemini", [user("it"), called, *answers])
    assert found.status == 400
    assert "missing a thought_signature" in error_of("gemini", found.data)[1]


@pytest.mark.parametrize("route", ROUTES)
def test_faults_bend_calls(
    lab: ThreadedMockProviders, client: Client, key: str, route: str
) -> None:
    def bent(fault: Fault, **more: Any) -> Any:
        lab.schedule(fault, 1, key)
        return said(client, route, [user("it")], "script:every", **more)

    assert [c["name"] for c in bent(Fault.WRONG_NUMBER)["calls"]] == ["look", "count", "look"]
    assert not {c["name"] for c in bent(Fault.OUTSIDE_OPTIONS)["calls"]} & {"look", "count"}
    assert bent(Fault.EMPTY)["calls"] == []
    broken = bent(Fault.INVALID_JSON)
    if route == "gemini":
        assert (broken["end"], broken["calls"]) == ("MALFORMED_FUNCTION_CALL", [])
    elif route == "messages":
        assert set(broken["calls"][0]["args"]) == {"arguments"}
    else:
        assert broken["calls"][0]["args"] is None
    cut = bent(Fault.TRUNCATED_JSON)
    assert cut["end"] == CUT_END[route]
    assert len(cut["calls"]) < 2
    lab.schedule(Fault.SERVER_ERROR, 1, key)
    assert ask(client, route, [user("it")]).status == 500
    lab.schedule(Fault.RATE_LIMITED, 1, key)
    assert ask(client, route, [user("it")]).status == 429


@pytest.mark.parametrize("route", ROUTES)
def test_output_limits_cut_words_and_calls(client: Client, route: str) -> None:
    words = said(client, route, [user("a very long word")], "script:echo", max_tokens=2)
    assert (words["text"], words["end"]) == ("a very l", CUT_END[route])
    calls = said(client, route, [user("a very long word")], "script:every", max_tokens=8)
    assert calls["end"] == CUT_END[route]


@pytest.mark.parametrize("route", ROUTES)
def test_limits_hold_for_scripts_too(route: str) -> None:
    with serving_thread(MockSettings(requests_per_minute=1)) as lab:
        client = Client(lab.url, "mine")
        assert ask(client, route, [user("it")]).status == 200
        assert ask(client, route, [user("it")]).status == 429
        (account,) = lab.report()["accounts"].values()
        assert (account["answered"], account["rate_limited"]) == (1, 1)
        assert account["tokens_in"] > 0


@pytest.mark.parametrize("route", ROUTES)
def test_unknown_scripts_are_unknown_models(client: Client, route: str) -> None:
    found = ask(client, route, [user("it")], "script:nobody")
    assert found.status == 404
    assert "script:nobody" in error_of(route, found.data)[1]
    assert "script:director" in MODELS


def test_the_poet_says_every_fact() -> None:
    scene = SceneGraph(
        objects=(
            SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
            SceneObject(id="ball.1", name="ball"),
            SceneObject(id="tree.1", name="tree"),
        ),
        relations=(Relation(source="dog.1", predicate="left of", target="ball.1"),),
    )
    asked = f"Describe it.\n```json\n{dump_scene(scene)}\n```\nOutput:"
    with serving_thread(MockSettings()) as lab:
        client = Client(lab.url, "mine")
        for route in ROUTES:
            text = said(client, route, [user(asked)], "script:poet", tools=())["text"]
            assert text == "In one picture: red dog left of ball, tree."
            wanted = f'{asked} Answer with {{"description": …}}'
            form = said(client, route, [user(wanted)], "script:poet", tools=())["text"]
            assert json.loads(form) == {"description": text}
            (call,) = said(client, route, [user(asked)], "script:poet", choice="look")["calls"]
            assert call["args"]["where"] == text
        again = [user(asked), user("once more")]
        assert said(client, "chat", again, "script:poet", tools=())["text"] == text
        plain = said(client, "chat", [user("one\n  dog")], "script:poet", tools=())["text"]
        assert plain == "one dog"
        item = '```json\n{"label": "apple", "attributes": {"color": "red", "size": "big"}}\n```'
        assert said(client, "chat", [user(item)], "script:poet", tools=())["text"] == (
            "a red big apple"
        )
        lines = (
            '```json\n[{"object": "a cat", "relations": ["on a mat"]}, {"object": "a mat"}]\n```'
        )
        assert said(client, "chat", [user(lines)], "script:poet", tools=())["text"] == (
            "a cat on a mat; a mat"
        )


@pytest.mark.parametrize(
    ("route", "model"),
    [("chat", "gpt-5.4"), ("gemini", "gemini-3.8-flash"), ("messages", "claude-haiku-5-5")],
)
def test_a_model_that_judges_composes_too(client: Client, route: str, model: str) -> None:
    asked = 'Describe it.\n```json\n{"label": "apple"}\n```\nOutput:'
    assert said(client, route, [user(asked)], model, tools=())["text"] == "an apple"
    found = client.ask(route, body(route, model=model))
    assert answers_of(route, found.data)
    alone = ask(client, route, [user(asked)], "judge-a")
    assert (alone.status, "holds no image" in error_of(route, alone.data)[1]) == (400, True)


@pytest.mark.parametrize("route", ROUTES)
def test_judges_answer_their_sheet_as_before(client: Client, route: str) -> None:
    found = client.ask(route, body(route))
    assert found.status == 200
    assert parts_of(route, found.data)["arguments"]
    plain = client.ask(route, request(route, [user("it")], model="instant"), model="instant")
    assert plain.status == 400
    assert "no image" in error_of(route, plain.data)[1]


class Inner(BaseModel):
    kind: str = Field(max_length=3)
    size: float = Field(ge=0, le=1)


class Outer(BaseModel):
    name: str
    inner: list[Inner] = Field(min_length=2)
    either: int | str
    flag: bool
    box: tuple[float, float, float, float]
    more: int = Field(gt=4)
    left_out: str = "x"


def test_filled_arguments_fit_their_schema() -> None:
    given = filled(Outer.model_json_schema(), "a long text")
    found = TypeAdapter(Outer).validate_python(given)
    assert (found.name, found.inner[0].kind, len(found.inner)) == ("a long text", "a l", 2)
    assert "left_out" not in given
    loop = {"$defs": {"a": {"$ref": "#/$defs/a"}}, "properties": {"a": {"$ref": "#/$defs/a"}}}
    assert filled({**loop, "required": ["a"]}, "x") == {"a": "x"}
    assert filled({"required": 3, "properties": [1]}, "x") == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["role", "content", "parts", "text", "type", "function", "name", "id", "args",
                 "functionCall", "functionResponse", "tool_calls", "input", "call_id"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)  # fmt: skip
FIELDS = ("messages", "input", "contents", "tools", "tool_choice", "system", "toolConfig")


@pytest.mark.parametrize("route", ROUTES)
@settings(max_examples=60, deadline=None)
@given(mess=st.dictionaries(st.sampled_from(FIELDS), JSON, min_size=1))
def test_whatever_comes_is_a_conversation_or_refused(route: str, mess: dict[str, Any]) -> None:
    whole = {**request(route, [user("it")], tools=(LOOK, COUNT)), **mess}
    try:
        found: ModelRequest | Problem = WIRES[route].read(whole, "instant")
    except Problem as problem:
        found = problem
    assert isinstance(found, ModelRequest) or (found.status == 400 and found.message)
