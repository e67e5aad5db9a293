"""One tenant sees nothing of another, and no name in a path leads out of the runs."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI
from sqlalchemy import event
from starlette.routing import BaseRoute

from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")
SCENE = {"triplets": "red ball on table", "rounds": 1}
UNKNOWN = f"run_{'0' * 32}"
CANARY = "a file that nobody may read"
WAYS_OUT = (
    "%2e%2e",
    "..%2f..%2f..%2fsecret.txt",
    "..%5c..%5csecret.txt",
    "..%252fsecret.txt",
    "%2fetc%2fpasswd",
    "%00",
    "%c0%ae%c0%ae%2fsecret.txt",
    "%ff%fe",
    "..%2fservice.sqlite",
    "a" * 3000,
    "%F0%9F%8E%A8",
    "%0d%0aX-Evil:%201",
    "'",
)


@dataclass
class House:
    """A service with two tenants; the first has a finished run with a picture."""

    app: FastAPI
    url: str
    own: httpx2.AsyncClient
    other: httpx2.AsyncClient
    run: str
    image: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def house(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[House]:
    folder = tmp_path_factory.mktemp("house")
    for place in (folder, folder / "data", folder / "data" / "runs"):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_text(CANARY)
    app = create_app(ServiceSettings(data=folder / "data", keys=True), models=scripted())
    async with serving(app) as url:
        keys = app.state.service.keys
        heads = [{"X-API-Key": (await keys.create(tenant))[1]} for tenant in ("first", "second")]
        async with (
            httpx2.AsyncClient(base_url=url, headers=heads[0], timeout=60) as own,
            httpx2.AsyncClient(base_url=url, headers=heads[1], timeout=60) as other,
        ):
            asked = {**SCENE, "idempotency_key": "the same"}
            run = (await own.post("/v1/refinements", json=asked)).json()["id"]
            await own.get(f"/v1/refinements/{run}/events")
            done = (await own.get(f"/v1/refinements/{run}")).json()
            assert done["status"] == "finished"
            yield House(app, url, own, other, run, done["rounds"][0]["image"]["hash"])


def routes(of: Any) -> Iterator[tuple[str, str]]:
    """Method and path template of all that is served below ``of``."""
    found: list[BaseRoute] = getattr(of, "routes", [])
    for route in found:
        inner = getattr(route, "original_router", None) or getattr(route, "app", None)
        path = getattr(route, "path", "")
        for method in getattr(route, "methods", None) or ():
            yield method, path
        if not getattr(route, "methods", None) and inner is not None:
            yield from routes(inner)


def with_names(house: House) -> list[tuple[str, str]]:
    """Methods and paths that take a name."""
    described = [
        (method.upper(), path)
        for path, methods in house.app.openapi()["paths"].items()
        for method in methods
    ]
    found = sorted({(m, p) for m, p in (*described, *routes(house.app)) if "{" in p})
    assert len(found) >= 8
    return found


def filled(path: str, run: str, image: str) -> str:
    """A path template with names: other parameters than the run's and the image's are 0."""
    path = re.sub(r"\{run(_id)?(:\w+)?\}", run, path)
    path = re.sub(r"\{(image|hash|digest|name)(:\w+)?\}", image, path)
    return re.sub(r"\{[^}]*\}", "0", path)


BODIES: dict[str, Any] = {"edits": {"rounds": 1, "base": 0}}


async def asked(client: httpx2.AsyncClient, method: str, path: str) -> httpx2.Response:
    body = BODIES.get(path.rpartition("/")[2], {})
    return await client.request(method, path, json=body if method in ("POST", "PUT") else None)


async def test_another_tenants_run_is_as_unknown_as_none(house: House) -> None:
    tried = 0
    for method, template in with_names(house):
        if "run" not in template:
            continue
        path = filled(template, house.run, house.image)
        theirs = await asked(house.other, method, path)
        none = await asked(house.other, method, filled(template, UNKNOWN, house.image))
        assert theirs.status_code == none.status_code, (method, path)
        if method != "HEAD":
            assert theirs.status_code == 404, (method, path)
        same = none.text.replace(UNKNOWN, house.run)
        assert theirs.text == same, (method, path)
        tried += 1
    assert tried >= 8
    done = (await house.own.get(f"/v1/refinements/{house.run}")).json()
    assert (done["status"], len(done["rounds"])) == ("finished", 1)


async def test_another_tenants_run_cannot_be_compared_with(house: House) -> None:
    made = await house.other.post("/v1/refinements", json={"triplets": "cat on mat", "seed": 9})
    own = made.json()["id"]
    for path in (f"/runs/{own}/compare?with=", "/runs?compare="):
        replies = [await house.other.get(path + run) for run in (house.run, UNKNOWN)]
        assert [reply.status_code for reply in replies] == [404, 404], path
        theirs, none = (reply.text for reply in replies)
        assert theirs == none.replace(UNKNOWN, house.run), path
    await house.other.post(f"/v1/refinements/{own}/cancel")


async def test_it_takes_as_much_to_find_that_a_run_is_anothers_as_that_there_is_none(
    house: House,
) -> None:
    asked_of_it: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, parameters: Any, *rest: Any) -> None:
        asked_of_it.append((statement, parameters))

    engine = house.app.state.service.engine.sync_engine
    counts = []
    event.listen(engine, "before_cursor_execute", note)
    try:
        for run in (house.run, UNKNOWN):
            asked_of_it.clear()
            await house.other.get(f"/v1/refinements/{run}")
            # The worker polls meanwhile; only statements that name the run are the request's.
            counts.append([text for text, values in asked_of_it if run in str(values)])
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert any("tenant" in text for text in counts[0])
    assert set(counts[0]) == set(counts[1])


async def test_lists_and_cursors_hold_only_ones_own(house: House) -> None:
    assert house.run in (await house.own.get("/v1/refinements")).text
    for path in ("/v1/refinements", "/runs", "/", "/v1/refinements?words=ball&status=finished"):
        reply = await house.other.get(path, headers={"Accept": "text/html"})
        assert reply.status_code == 200
        assert house.run not in reply.text
        assert house.image not in reply.text
    cursor = await house.other.get("/v1/refinements", params={"before": house.run})
    assert cursor.status_code == 404


async def test_idempotency_keys_are_each_tenants_own(house: House) -> None:
    asked = {**SCENE, "idempotency_key": "the same"}
    again = await house.own.post("/v1/refinements", json=asked)
    assert (again.status_code, again.json()["id"]) == (200, house.run)
    theirs = await house.other.post("/v1/refinements", json=asked)
    assert theirs.status_code == 202
    assert theirs.json()["id"] != house.run
    # Another request under a key that only the other tenant has used is no conflict.
    first = {**SCENE, "idempotency_key": "only mine"}
    await house.own.post("/v1/refinements", json=first)
    changed = {**SCENE, "seed": 5, "idempotency_key": "only mine"}
    assert (await house.other.post("/v1/refinements", json=changed)).status_code == 202


async def test_a_picture_is_found_only_through_a_run_that_has_it(house: House) -> None:
    run = (await house.other.post("/v1/refinements", json={**SCENE, "seed": 9})).json()["id"]
    await house.other.get(f"/v1/refinements/{run}/events")
    for path in (f"images/{house.image}", f"images/{house.image}/preview"):
        assert (await house.own.get(f"/v1/refinements/{house.run}/{path}")).status_code == 200
        assert (await house.other.get(f"/v1/refinements/{run}/{path}")).status_code == 404


async def test_pictures_of_runs_are_not_kept_by_shared_caches(house: House) -> None:
    reply = await house.own.get(f"/v1/refinements/{house.run}/images/{house.image}")
    assert "private" in reply.headers["cache-control"]


async def test_no_name_in_a_path_leads_anywhere_else(house: House) -> None:
    host, port = house.url.removeprefix("http://").split(":")
    key = house.own.headers["X-API-Key"]
    for method, template in with_names(house):
        if method not in ("GET", "POST"):
            continue
        places = re.findall(r"\{[^}]*\}", template)
        for place in places:
            reader, writer = await asyncio.open_connection(host, int(port))
            for way in WAYS_OUT:
                # As it is: a client would put the path in order before it sends it.
                path = filled(template.replace(place, way), house.run, house.image)
                writer.write(
                    f"{method} {path} HTTP/1.1\r\nHost: {host}\r\nX-API-Key: {key}\r\n"
                    "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}".encode()
                )
                async with asyncio.timeout(60):
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                    size = re.search(r"content-length: (\d+)", head)
                    assert size is not None, (path, head)
                    body = (await reader.readexactly(int(size.group(1)))).decode("latin-1")
                status = int(head.split()[1])
                assert 300 <= status < 500, (method, path, status)
                for secret in (CANARY, "root:", "SQLite format"):
                    assert secret not in body, path
                assert "\r\nx-evil" not in head
            writer.close()


async def test_ids_cannot_be_guessed(house: House) -> None:
    ids = {
        (await house.own.post("/v1/refinements", json={**SCENE, "seed": seed})).json()["id"]
        for seed in range(20, 24)
    }
    assert len(ids) == 4
    assert all(re.fullmatch(r"run_[0-9a-f]{32}", run) for run in ids)
    # No digit is the same in all of them by more than chance: none is a counter or a clock.
    same = [at for at in range(4, 36) if len({run[at] for run in ids}) == 1]
    assert len(same) < 4
