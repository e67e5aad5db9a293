"""A run whose event log is damaged: every door says which run it is and what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.runs.folder import EVENTS
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving

HTML = {"Accept": "text/html"}
PAGES = ("", "/main", "/edit", "/compare", "/page.html")


@pytest.fixture
async def client(settings: ServiceSettings) -> AsyncIterator[httpx2.AsyncClient]:
    app = create_app(settings, models=scripted())
    async with (
        serving(app) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def finished(client: httpx2.AsyncClient) -> dict[str, Any]:
    asked = {"triplets": "red ball on table", "rounds": 2}
    run = (await client.post("/v1/refinements", json=asked)).json()
    await client.get(run["links"]["events"])
    return dict((await client.get(run["links"]["self"])).json())


async def test_a_damaged_line_is_told_with_the_run_and_the_remedy(
    client: httpx2.AsyncClient, settings: ServiceSettings
) -> None:
    run = await finished(client)
    number, log = run["id"], settings.runs / run["id"] / EVENTS
    sound = log.read_bytes()
    lines = sound.splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:2], b'{"type": "gen\xff\n', *lines[3:]]))
    remedy = f"the event log of run {number} is damaged at line 3"
    for method, path, body in (
        ("GET", "", None),
        ("POST", "/edits", {"rounds": 1}),
        ("POST", "/edits", {"add": "hat on ball"}),
    ):
        reply = await client.request(method, f"/v1/refinements/{number}{path}", json=body)
        assert reply.status_code == 409, (path, reply.text)
        assert remedy in reply.json()["detail"]
        assert "restore events.jsonl" in reply.json()["detail"]
        assert str(settings.data) not in reply.text
    for path in PAGES:
        reply = await client.get(f"/runs/{number}{path}", headers=HTML)
        assert reply.status_code == 409, path
        assert reply.headers["content-type"].startswith("text/html")
        assert remedy.removeprefix("the ") in reply.text
        assert f'href="/?like={number}"' in reply.text
    heard = (await client.get(f"/v1/refinements/{number}/events")).text
    assert heard.count("event: run_started") == 1
    assert "event: problem" in heard
    assert remedy in heard
    # Lists, the scene itself, and other runs go on; the run can be asked for anew and deleted.
    assert (await client.get("/v1/refinements")).json()["items"][0]["id"] == number
    assert (await client.get("/runs", headers=HTML)).status_code == 200
    assert (await client.get(f"/?like={number}", headers=HTML)).status_code == 200
    log.write_bytes(sound)
    assert (await client.get(f"/v1/refinements/{number}")).json() == run
    log.write_bytes(b"\x00" * 100 + b"\n")
    assert (await client.delete(f"/v1/refinements/{number}")).status_code == 204


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["lost", "twice", "swapped", "emptied", "of another type"])
async def test_no_damage_of_a_log_is_an_error_of_the_service(
    client: httpx2.AsyncClient, settings: ServiceSettings, damage: str
) -> None:
    run = await finished(client)
    log: Path = settings.runs / run["id"] / EVENTS
    lines = log.read_bytes().splitlines(keepends=True)
    refused = 0
    for at, line in enumerate(lines):
        rest = {
            "lost": [*lines[:at], *lines[at + 1 :]],
            "twice": [*lines[: at + 1], *lines[at:]],
            "swapped": [*lines[:at], *lines[at + 1 : at + 2], line, *lines[at + 2 :]],
            "emptied": [*lines[:at], b"{}\n", *lines[at + 1 :]],
            "of another type": [
                *lines[:at], json.dumps({"type": "finished", "key": "x"}).encode() + b"\n",
                *lines[at + 1 :],
            ],
        }[damage]  # fmt: skip
        log.write_bytes(b"".join(rest))
        paths = [run["links"]["self"], run["links"]["events"]]
        paths += [f"/runs/{run['id']}{path}" for path in PAGES]
        replies = await asyncio.gather(*(client.get(path, headers=HTML) for path in paths))
        for reply in replies:
            assert reply.status_code < 500, (at, reply.url, reply.text[:300])
            refused += reply.status_code == 409
    assert refused or damage in ("twice", "swapped")
