"""The shapes of compatible servers' replies, as the mock sends them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, get_args

import httpx2
import pytest

from scenewright.mock_providers import MockError, MockProviders, MockSettings, serving
from scenewright.mock_providers.wild import ROLES, SERVERS, SHAPES, Kind, Shape, draft

TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "parameters": {
            "type": "object",
            "properties": {"where": {"type": "string"}},
            "required": ["where"],
        },
    },
}
PATHS: dict[Kind, str] = {
    "text": "/v1/chat/completions",
    "image": "/v1/images/generations",
    "decision": "/v1/decisions",
}


def request(shape: Shape, *, stream: bool = False) -> tuple[str, dict[str, Any]]:
    """An address that shows the shape, and a request for it."""
    if "text" not in shape.kinds:
        return PATHS["image"], {"model": "instant-image", "prompt": "a red ball"}
    said = '{"answers": [{"n": 1, "a": "yes", "p": 0.8}]}'
    body: dict[str, Any] = {"model": "script:echo", "stream": stream}
    body["messages"] = [{"role": "user", "content": said}]
    if "chat" not in shape.roles and ("director" in shape.roles or shape.when):
        body |= {"model": "script:once", "tools": [TOOL]}
    if shape.when == "named tool":
        body["tool_choice"] = {"type": "function", "function": {"name": "look"}}
    return PATHS["text"], body


@pytest.fixture
async def client() -> Iterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(timeout=20, trust_env=False) as found:
        yield found


def settings(**given: Any) -> MockSettings:
    return MockSettings(load_seconds=0.02, **given)


def test_there_are_shapes_for_every_server_role_and_decision() -> None:
    assert len(SHAPES) >= 25
    assert not [name for name, count in Counter(s.name for s in SHAPES).items() if count > 1]
    assert {server for shape in SHAPES for server in shape.servers} == set(SERVERS)
    assert {role for shape in SHAPES for role in shape.roles} == set(ROLES)
    assert {shape.decision for shape in SHAPES} == set(
        get_args(Shape.model_fields["decision"].annotation)
    )
    assert all(shape.source for shape in SHAPES)
    assert all(shape.remedy for shape in SHAPES if shape.decision == "final")


async def test_every_shape_differs_from_the_normal_reply(client: httpx2.AsyncClient) -> None:
    async with serving(settings(shape="no-v1")) as mock:
        for shape in SHAPES:
            # These differ in their time, or in streams alone.
            if shape.name in ("slow-first-byte", "no-done", "null-deltas", "ended-early"):
                continue
            path, body = request(shape)
            mock.wild.show(shape.name, times=1)
            odd = await client.post(mock.url + path, json=body)
            normal = await client.post(mock.url + path, json=body)
            assert mock.wild.attempts == 2, shape.name
            assert mock.wild.shown == [shape.name]
            assert normal.status_code == 200, shape.name
            kept = ("id", "created")
            plain = {key: one for key, one in normal.json().items() if key not in kept}
            if odd.status_code == 200 and odd.headers["content-type"] == "application/json":
                text = odd.text.strip()
                found = json.loads(text) if text else {}
                found = {key: one for key, one in found.items() if key not in kept}
                assert odd.text.startswith("\n") or found != plain, shape.name


async def test_streams_bring_the_shape_too(client: httpx2.AsyncClient) -> None:
    chunks: dict[str, list[str]] = {}
    async with serving(settings(shape="no-done")) as mock:
        for name in ("no-done", "ended-early", "error-in-the-middle", "null-deltas", "think-tags"):
            shape = next(one for one in SHAPES if one.name == name)
            mock.wild.show(name)
            path, body = request(shape, stream=True)
            sent = await client.post(mock.url + path, json=body)
            assert sent.headers["content-type"].startswith("text/event-stream")
            chunks[name] = [line[6:] for line in sent.text.split("\n\n") if line]
    finished = '"finish_reason":"stop"'
    assert "[DONE]" not in chunks["no-done"]
    assert any(finished in chunk for chunk in chunks["no-done"])
    assert not any(finished in chunk for chunk in chunks["ended-early"])
    assert json.loads(chunks["error-in-the-middle"][-1])["error"]["code"] == 502
    assert any('"choices":[]' in chunk for chunk in chunks["null-deltas"])
    words = "".join(
        json.loads(chunk)["choices"][0]["delta"].get("content") or ""
        for chunk in chunks["think-tags"][:-1]
    )
    assert words.startswith("<think>")
    assert words.endswith("</think>\n\n" + request(SHAPES[0])[1]["messages"][0]["content"])


async def test_a_server_shows_its_shapes_in_turn_and_its_own_unknown_address(
    client: httpx2.AsyncClient,
) -> None:
    async with serving(settings(like="lmstudio")) as mock:
        own = [one.name for one in SHAPES if "lmstudio" in one.servers and "text" in one.kinds]
        path, body = request(SHAPES[0])
        for _ in range(len(own) + 1):
            await client.post(mock.url + path, json=body)
        assert mock.wild.shown == [*own, own[0]]
        mock.wild.show(times=0)
        answer = await client.post(f"{mock.url}/chat/completions", json=body)
        assert answer.status_code == 200
        assert answer.json() == {"error": "Unexpected endpoint or method. (POST /chat/completions)"}
        assert (await client.post(mock.url + path, json=body)).json()["choices"]


async def test_pictures_by_address_are_served(client: httpx2.AsyncClient) -> None:
    async with serving(settings(shape="picture-by-address")) as mock:
        body = {"model": "instant-image", "prompt": "a red ball"}
        sent = (await client.post(mock.url + PATHS["image"], json=body)).json()
        assert sent["data"][0]["b64_json"] is None
        picture = await client.get(sent["data"][0]["url"])
        assert picture.content.startswith(b"\x89PNG")


async def test_an_ended_connection_is_no_whole_reply(client: httpx2.AsyncClient) -> None:
    async with serving(settings(shape="ended-early")) as mock:
        path, body = request(SHAPES[0])
        with pytest.raises(httpx2.RemoteProtocolError):
            await client.post(mock.url + path, json=body)


def test_a_draft_has_the_form_of_the_answer_and_another_content() -> None:
    answer = '{"answers":[{"n":1,"a":"yes","p":0.8},{"n":2,"a":"A","p":0.7}],"why":[]}'
    wrong = json.loads(draft(answer))
    assert [one["n"] for one in wrong["answers"]] == [1, 2]
    assert wrong["answers"][0] == {"n": 1, "a": "no", "p": 0.2}
    assert draft("A red ball.") != "A red ball."


@pytest.mark.parametrize("given", [{"like": "ollma"}, {"shape": "no-such-shape"}])
def test_unknown_names_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(MockError, match="there are"):
        MockProviders(MockSettings(**given))
