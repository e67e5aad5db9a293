"""Large bodies are answered as small ones are, away from the event loop."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import httpx2
import pytest

from scenewright.core import scene as scenes
from scenewright.service.api.common import LARGE_BODY

DOORS = ("/v1/parse", "/v1/refinements", "/v1/images/generations", "/sdapi/v1/txt2img")
SMALL: Mapping[str, Any] = {
    "objects": [{"id": "a", "name": "ball"}, {"id": "b", "name": "table"}],
    "relations": [{"source": "a", "predicate": "on", "target": "b"}],
}
NAME = "ball " * 30


def large(number: int = 200) -> dict[str, Any]:
    objects = [{"id": f"o{at}", "name": f"{NAME}{at}"} for at in range(number)]
    return {"objects": objects, "relations": []}


def body_for(door: str, scene: Mapping[str, Any]) -> dict[str, Any]:
    if door.startswith("/v1/images") or door.startswith("/sdapi"):
        return {"prompt": "what the scene says", "scenewright": {"scene": scene}}
    return {"scene": scene}


async def posted(url: str, door: str, body: Any) -> httpx2.Response:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        if isinstance(body, bytes):
            return await client.post(
                door, content=body, headers={"Content-Type": "application/json"}
            )
        return await client.post(door, json=body)


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_wrong_is_told_in_the_same_words(url: str, door: str) -> None:
    def wrong(scene: Mapping[str, Any]) -> dict[str, Any]:
        lost = {"source": "a", "predicate": "on", "target": "nobody"}
        first = {"id": "a", "name": "ball"}
        objects = [first, *scene["objects"][1:]]
        return body_for(door, {"objects": objects, "relations": [lost]})

    small = await posted(url, door, wrong(SMALL))
    big = await posted(url, door, wrong(large()))
    assert small.status_code == big.status_code
    assert 400 <= small.status_code < 500
    told = "relations[0]: target 'nobody' is not an object of the scene"
    assert told in small.text
    assert told in big.text
    assert small.headers["content-type"] == big.headers["content-type"]


@pytest.mark.parametrize("door", DOORS)
async def test_what_is_no_json_is_told_in_the_same_words(url: str, door: str) -> None:
    small = await posted(url, door, b'{"scene": ')
    big = await posted(url, door, b" " * 2 * LARGE_BODY + b'{"scene": ')
    deep = await posted(url, door, b"[" * 2 * LARGE_BODY)
    assert small.status_code == big.status_code
    assert 400 <= deep.status_code < 500
    assert "Traceback" not in deep.text
    assert "character" in small.text or "JSON" in small.text
    assert "character" in big.text or "JSON" in big.text


async def test_a_large_scene_is_read(url: str) -> None:
    scene = large()
    assert len(json.dumps(scene)) > LARGE_BODY
    reply = await posted(url, "/v1/parse", {"scene": scene})
    assert reply.status_code == 200, reply.text
    read = reply.json()
    assert [one["id"] for one in read["scene"]["objects"]] == [o["id"] for o in scene["objects"]]


async def test_another_type_is_refused_alike(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        replies = [
            await client.post("/v1/parse", content=body, headers={"Content-Type": "text/plain"})
            for body in (b"{}", b" " * 2 * LARGE_BODY + b"{}")
        ]
    assert {reply.status_code for reply in replies} == {415}


@pytest.mark.parametrize("door", DOORS)
async def test_the_loop_validates_no_large_scene(
    url: str, door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: set[threading.Thread] = set()
    plain = scenes.clean_name

    def noted(text: str, *more: Any) -> str:
        if text.startswith(NAME):
            threads.add(threading.current_thread())
        return plain(text, *more)

    monkeypatch.setattr(scenes, "clean_name", noted)
    # A scene of its own: those of other tests may be in caches.
    await posted(url, door, body_for(door, large(300 + DOORS.index(door))))
    assert threads
    assert threading.main_thread() not in threads
