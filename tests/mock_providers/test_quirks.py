"""Ways of servers that are not the provider's, and that each account meets its own alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from scenewright.mock_providers import (
    MockError,
    MockSettings,
    ThreadedMockProviders,
    serving_thread,
)
from scenewright.mock_providers.faults import Quirk, parse_quirks
from tests.mock_providers.asking import ROUTES, Client, body
from tests.mock_providers.talking import LOOK, heard, request, user


def message_of(data: Any) -> Any:
    return data["choices"][0]["message"]


def test_an_object_is_refused_and_a_string_understood(
    lab: ThreadedMockProviders, client: Client, key: str
) -> None:
    lab.order_quirk(Quirk.STRING_CHOICE, key)
    found = client.ask("chat")
    assert (found.status, found.data["error"]["param"]) == (400, "tool_choice")
    made = {**body("chat"), "tool_choice": "required"}
    assert message_of(client.ask("chat", made).data)["tool_calls"]
    # Another account meets nothing of it.
    assert Client(lab.url, f"{key}-other").ask("chat").status == 200


@pytest.mark.parametrize("quirk", [Quirk.LOOSE_CHOICE, Quirk.NO_TOOLS])
def test_what_is_forced_is_left_aside(
    lab: ThreadedMockProviders, client: Client, key: str, quirk: Quirk
) -> None:
    lab.order_quirk(quirk, key)
    message = message_of(client.ask("chat").data)
    assert not message.get("tool_calls")
    with pytest.raises(ValueError, match="Expecting value"):
        json.loads(message["content"])
    required = client.ask("chat", {**body("chat"), "tool_choice": "required"}).data
    assert bool(message_of(required).get("tool_calls")) is (quirk is Quirk.LOOSE_CHOICE)
    # A schema binds all the same.
    answers = json.loads(message_of(client.ask("chat", form="json").data)["content"])["answers"]
    assert len(answers) == 2


@pytest.mark.parametrize("quirk", [Quirk.LOOSE_CHOICE, Quirk.NO_TOOLS])
def test_a_script_is_not_forced_either(
    lab: ThreadedMockProviders, client: Client, key: str, quirk: Quirk
) -> None:
    lab.order_quirk(quirk, key)
    said = request("chat", [user("the sky")], (LOOK,), "script:echo", "look")
    found = heard("chat", client.ask("chat", said).data)
    assert (found["text"], found["calls"]) == ("the sky", [])
    once = request("chat", [user("the sky")], (LOOK,), "script:once")
    called = heard("chat", client.ask("chat", once).data)["calls"]
    assert len(called) == (0 if quirk is Quirk.NO_TOOLS else 1)


def test_a_script_answers_by_a_schema(client: Client) -> None:
    named = {"name": "look", "schema": LOOK["parameters"], "strict": True}
    wish = {"type": "json_schema", "json_schema": named}
    made = {**request("chat", [user("the sky")], (), "script:echo"), "response_format": wish}
    text = message_of(client.ask("chat", made).data)["content"]
    assert json.loads(text) == {"where": "the sky", "times": 2}


def test_tokens_have_a_fence_that_the_text_lacks(
    lab: ThreadedMockProviders, client: Client, key: str
) -> None:
    lab.order_quirk(Quirk.FENCED_TOKENS, key)
    choice = client.ask("chat", form="json", logprobs=2).data["choices"][0]
    text = choice["message"]["content"]
    assert json.loads(text)["answers"]
    joined = "".join(token["token"] for token in choice["logprobs"]["content"])
    assert joined == f"\n```json\n{text}\n```"


@pytest.mark.parametrize("route", ROUTES)
def test_pictures_get_the_same_error_each_time(
    lab: ThreadedMockProviders, client: Client, key: str, route: str
) -> None:
    lab.order_quirk(Quirk.NO_PICTURES, key)
    found = [client.ask(route) for _ in range(2)]
    assert [one.status for one in found] == [500, 500]
    assert found[0].data["error"] == found[1].data["error"]
    assert "image input is not supported" in found[0].data["error"]["message"]
    talked = request(route, [user("the sky")], (LOOK,), "script:echo")
    assert client.ask(route, talked, model="script:echo").status == 200


@pytest.mark.parametrize("route", ROUTES)
def test_words_go_on_until_they_are_cut_off(
    lab: ThreadedMockProviders, client: Client, key: str, route: str
) -> None:
    lab.order_quirk(Quirk.ENDLESS, key)
    said = request(route, [user("the sky")], (LOOK,), "script:once", max_tokens=50)
    found = heard(route, client.ask(route, said, model="script:once").data)
    assert found["calls"] == []
    assert len(found["text"]) == 200
    assert found["end"] in ("length", "max_output_tokens", "max_tokens", "MAX_TOKENS")


def test_quirks_of_all_are_told_and_taken_back() -> None:
    with serving_thread(MockSettings(quirks=parse_quirks(["no_pictures"]))) as lab:
        client = Client(lab.url, "mine")
        assert client.ask("chat").status == 500
        client.call("POST", "/lab/quirks", b'{"kind": "endless", "key": "mine"}')
        told = client.call("GET", "/lab/quirks").data
        assert told["met"] == [
            {"kind": "no_pictures", "key": None}, {"kind": "endless", "key": "mine"}
        ]  # fmt: skip
        assert told["kinds"] == {quirk.value: quirk.about for quirk in Quirk}
        left = client.call("DELETE", "/lab/quirks").data
        assert left == [{"kind": "no_pictures", "key": None}]
        assert client.call("POST", "/lab/quirks", b'{"kind": "odd"}').status == 422
    with pytest.raises(MockError, match=r"'odd' .* there are string_choice, "):
        parse_quirks(["odd"])
    assert all(quirk.about for quirk in Quirk)
