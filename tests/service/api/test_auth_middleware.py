"""Who is let in, from where, and with how much."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest
import pytest_asyncio
from fastapi import FastAPI, Request
from starlette.types import Message

from scenewright.service.api.access import (
    JSON_BYTES,
    SECURE_SESSION,
    SESSION,
    AuthMiddleware,
    Body,
    TooSlow,
)
from scenewright.service.app import create_app
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted, serving

pytestmark = pytest.mark.asyncio(loop_scope="module")
SCENE = {"triplets": "red ball on table", "rounds": 1}
HEADERS = (
    "content-security-policy",
    "x-content-type-options",
    "referrer-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "cache-control",
)
SECRETS_OF_PAGES = ("access-control-allow-origin", "access-control-allow-credentials")


@dataclass
class Place:
    """A service and a client of it."""

    client: httpx2.AsyncClient
    service: Service
    url: str

    async def key(self, tenant: str = "studio", **more: Any) -> dict[str, str]:
        """Headers with a new key."""
        _, text = await self.service.keys.create(tenant, **more)
        return {"Authorization": f"Bearer {text}"}


@asynccontextmanager
async def placed(folder: Path, **settings: Any) -> AsyncIterator[Place]:
    app = create_app(ServiceSettings(data=folder, drain_seconds=10, **settings), models=scripted())

    @app.get("/broken")
    async def broken(request: Request) -> None:
        raise LookupError("something unforeseen")

    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        yield Place(client, app.state.service, url)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def both(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Place, Place]]:
    """Services of all tests: one without keys, one that demands them."""
    folder = tmp_path_factory.mktemp("services")
    async with (
        placed(folder / "local", upload_bytes=100_000) as local,
        placed(folder / "keyed", keys=True) as keyed,
    ):
        yield local, keyed


@pytest.fixture
def local(both: tuple[Place, Place]) -> Place:
    """A service without keys."""
    return both[0]


@pytest.fixture
def keyed(both: tuple[Place, Place]) -> Iterator[Place]:
    """A service that demands keys, and a client that is not signed in."""
    yield both[1]
    both[1].client.cookies.clear()


async def test_everything_but_a_few_paths_needs_a_key(keyed: Place) -> None:
    described = await keyed.client.get("/openapi.json", headers=await keyed.key())
    paths = [path for path in described.json()["paths"] if path not in ("/healthz", "/readyz")]
    assert len(paths) > 8
    for path in (*paths, "/openapi.json", "/", "/runs", "/mcp", "/metrics", "/nowhere"):
        place = path.replace("{", "").replace("}", "")
        for method in ("GET", "POST", "OPTIONS"):
            reply = await keyed.client.request(method, place)
            assert reply.status_code == 401, (method, path)
            assert reply.headers["www-authenticate"] == "Bearer"
            assert "an API key is needed" in reply.text
    for path in ("/healthz", "/readyz", "/login", "/static/style.css"):
        assert (await keyed.client.get(path)).status_code == 200, path


@pytest.mark.parametrize(
    "path",
    [
        "/static/../v1/profiles",
        "/static/%2e%2e/v1/profiles",
        "/static/..%2fv1%2fprofiles",
        "//v1/profiles",
        "/login/../v1/profiles",
        "/healthz/",
        "/healthz%2f..%2fv1/profiles",
    ],
)
async def test_no_spelling_of_a_path_goes_around_the_key(keyed: Place, path: str) -> None:
    host, port = keyed.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    # A client would put the path in order before it sends it.
    writer.write(f"GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
    said = (await reader.read()).decode()
    writer.close()
    assert int(said.split()[1]) in (303, 307, 401, 404)
    assert "judges" not in said


async def test_a_key_comes_in_any_of_three_headers(keyed: Place) -> None:
    given = (await keyed.key())["Authorization"]
    text = given.removeprefix("Bearer ")
    basic = base64.b64encode(f"anybody:{text}".encode()).decode()
    for headers in (
        {"Authorization": given},
        {"Authorization": f"bearer {text}"},
        {"X-API-Key": text},
        {"Authorization": f"Basic {basic}"},
    ):
        assert (await keyed.client.get("/v1/profiles", headers=headers)).status_code == 200
    for headers in (
        {"Authorization": f"Bearer {text[:-1]}"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer x"},
        {"Authorization": "Basic %%%"},
        {"Authorization": f"Digest {text}"},
        {"X-API-Key": ""},
        {"Cookie": f"{SESSION}={text}"},
        {"Cookie": f"{SECURE_SESSION}={text}"},
    ):
        reply = await keyed.client.get("/v1/profiles", headers=headers)
        assert reply.status_code == 401, headers
        assert text not in reply.text


async def test_a_key_in_an_address_is_refused(keyed: Place) -> None:
    headers = await keyed.key()
    text = headers["Authorization"].removeprefix("Bearer ")
    for path in (f"/v1/profiles?api_key={text}", f"/v1/refinements/{text}"):
        for given in ({}, headers):
            reply = await keyed.client.get(path, headers=given)
            assert reply.status_code == 400
            assert "revoked" in reply.json()["detail"]
            assert text not in reply.text


async def test_a_key_does_only_what_its_scopes_say(keyed: Place) -> None:
    reads = await keyed.key(scopes=("read",))
    assert (await keyed.client.get("/v1/refinements", headers=reads)).status_code == 200
    for method, path, body in (
        ("POST", "/v1/refinements", SCENE),
        ("POST", "/v1/parse", {"text": "a red ball"}),
        ("POST", "/v1/refinements/x/cancel", None),
    ):
        reply = await keyed.client.request(method, path, json=body, headers=reads)
        assert reply.status_code == 403
        assert "it has read" in reply.json()["detail"]
    image = {"image": ("a.png", b"x")}
    scored = await keyed.client.post("/v1/scores", files=image, headers=reads)
    assert scored.status_code == 403


async def test_metrics_are_for_admins(keyed: Place) -> None:
    assert (await keyed.client.get("/metrics", headers=await keyed.key())).status_code == 403
    admin = await keyed.key(scopes=("admin",))
    assert (await keyed.client.get("/metrics", headers=admin)).status_code != 403


async def test_a_key_may_send_so_many_requests_a_minute(keyed: Place) -> None:
    headers = await keyed.key(requests_per_minute=2)
    other = await keyed.key(requests_per_minute=2)
    for _ in range(2):
        assert (await keyed.client.get("/v1/refinements", headers=headers)).status_code == 200
    reply = await keyed.client.get("/v1/refinements", headers=headers)
    assert reply.status_code == 429
    assert 50 <= int(reply.headers["retry-after"]) <= 60
    assert (await keyed.client.get("/v1/refinements", headers=other)).status_code == 200


async def test_a_revoked_key_is_refused(keyed: Place) -> None:
    headers = await keyed.key()
    assert (await keyed.client.get("/v1/refinements", headers=headers)).status_code == 200
    key = (await keyed.service.keys.all())[-1]
    await keyed.service.keys.revoke(key.id)
    assert (await keyed.client.get("/v1/refinements", headers=headers)).status_code == 401


async def test_every_reply_has_the_headers_and_none_opens_it_to_other_sites(
    local: Place,
) -> None:
    made = await local.client.post("/v1/refinements", json=SCENE)
    events = made.json()["links"]["events"]
    replies = [
        made,
        *[
            await local.client.get(path)
            for path in ("/", "/openapi.json", "/static/style.css", "/nowhere", events)
        ],
        await local.client.get("/broken"),
        await local.client.post("/v1/parse", content=b"x" * (JSON_BYTES + 1)),
        await local.client.get("/", headers={"Host": "evil.example"}),
        await local.client.options(
            "/v1/refinements",
            headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"},
        ),
    ]
    assert [reply.status_code for reply in replies[-4:-1]] == [500, 413, 403]
    for reply in replies:
        for name in HEADERS:
            assert reply.headers.get(name), (reply.url, name)
        for name in SECRETS_OF_PAGES:
            assert name not in reply.headers
        policy = reply.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "unsafe-eval" not in policy
    page = replies[1].headers["content-security-policy"]
    assert "script-src 'self';" in page
    assert "something unforeseen" not in replies[-4].text
    assert replies[-4].json()["title"] == "Internal Server Error"


async def test_the_service_knows_its_own_names(tmp_path: Path) -> None:
    own = (
        "127.0.0.1:80",
        "localhost",
        "LOCALHOST:1",
        "[::1]:8642",
        "127.9.9.9",
        "studio.example:4",
    )
    async with placed(tmp_path, trusted_hosts=("Studio.example",)) as place:
        for host in own:
            reply = await place.client.get("/v1/refinements", headers={"Host": host})
            assert reply.status_code == 200, host


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "127.0.0.1.evil.example",
        "localhost.evil.example:8642",
        "evil.example@127.0.0.1",
        "0.0.0.0",
        "127.0.0.1:x",
        "[::1",
        "",
    ],
)
async def test_a_name_that_points_here_is_not_enough(local: Place, host: str) -> None:
    for path in ("/v1/refinements", "/", "/healthz", "/openapi.json"):
        reply = await local.client.get(path, headers={"Host": host})
        assert reply.status_code in (400, 403), path
    if host:
        assert "TRUSTED_HOSTS" in reply.text or reply.status_code == 400


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:3000"},
        {"Origin": "https://127.0.0.1.evil.example"},
        {"Origin": "file://"},
        {"Origin": "http://"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "OWN", "Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_a_page_elsewhere_cannot_drive_the_local_service(
    local: Place, headers: dict[str, str]
) -> None:
    known = (await local.client.get("/v1/refinements")).json()["items"]
    given = {name: local.url if value == "OWN" else value for name, value in headers.items()}
    # What a page may send without asking first: a form, or text that says it is no JSON.
    for more in ({}, {"Content-Type": "text/plain"}):
        for path in ("/v1/refinements", "/v1/refinements/x/cancel", "/logout", "/mcp"):
            reply = await local.client.post(
                path, content=json.dumps(SCENE), headers={**given, **more}
            )
            assert reply.status_code == 403, path
    assert (await local.client.get("/v1/refinements")).json()["items"] == known


async def test_the_services_own_pages_and_plain_clients_may_send(local: Place) -> None:
    for headers in (
        {},
        {"Origin": local.url},
        {"Origin": local.url, "Sec-Fetch-Site": "same-origin"},
        {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ):
        reply = await local.client.post("/v1/refinements", json=SCENE, headers=headers)
        assert reply.status_code == 202, headers


async def test_a_page_elsewhere_may_link_here_but_not_load(local: Place) -> None:
    link = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    assert (await local.client.get("/", headers=link)).status_code == 200
    for mode in ("no-cors", "cors", "websocket"):
        headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode}
        assert (await local.client.get("/v1/refinements", headers=headers)).status_code == 403


async def test_a_proxys_name_is_an_origin_too(tmp_path: Path) -> None:
    async with placed(tmp_path, trusted_hosts=("studio.example",)) as place:
        for origin, host, status in (
            ("https://studio.example", "127.0.0.1:8642", 202),
            ("https://studio.example", "studio.example", 202),
            ("https://other.example", "studio.example", 403),
        ):
            headers = {"Origin": origin, "Host": host}
            reply = await place.client.post("/v1/refinements", json=SCENE, headers=headers)
            assert reply.status_code == status, origin


async def test_there_are_no_websockets(local: Place) -> None:
    sent: list[Message] = []

    async def send(message: Message) -> None:
        sent.append(message)

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def never(*_: Any) -> None:
        raise AssertionError("it got through")

    await AuthMiddleware(never, local.service.settings)(
        {"type": "websocket", "path": "/v1/refinements", "headers": []}, receive, send
    )
    assert sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_large_body_is_refused_before_it_is_read(local: Place) -> None:
    host, port = local.url.removeprefix("http://").split(":")
    for length in (JSON_BYTES + 1, 10**15, 10**40):
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(
            f"POST /v1/parse HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {length}\r\n\r\n".encode()
        )
        said = (await reader.readline()).decode()
        writer.close()
        assert said.split()[1] in ("413", "400")


async def test_a_body_without_a_length_is_counted_as_it_comes(local: Place) -> None:
    sent = 0

    async def chunks() -> AsyncIterator[bytes]:
        nonlocal sent
        for _ in range(200):
            sent += 65_536
            yield b" " * 65_536

    for kind in ("application/json", "application/x-www-form-urlencoded", "", "text/plain"):
        reply = await local.client.post(
            "/v1/parse", content=chunks(), headers={"Content-Type": kind}
        )
        assert reply.status_code == 413
        assert "2 MiB" in reply.json()["detail"]


async def test_forms_have_room_for_a_file(local: Place) -> None:
    files = {"image": ("a.png", b"x" * 150_000)}
    reply = await local.client.post("/v1/scores", files=files, data={"text": "a ball"})
    assert reply.status_code == 413
    assert "the image is over" in reply.json()["detail"]
    files = {"image": ("a.png", b"x" * 3_000_000)}
    reply = await local.client.post("/v1/scores", files=files, data={"text": "a ball"})
    assert "the body is over" in reply.json()["detail"]


async def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    async def silent() -> Message:
        await asyncio.Event().wait()
        raise AssertionError("unreachable")

    body = Body(silent, 100, idle=0.01)
    with pytest.raises(TooSlow):
        await body()
    with pytest.raises(TooSlow):
        await body()
    assert isinstance(body.error, TooSlow)


async def test_a_reader_of_events_waits_as_long_as_it_likes() -> None:
    said = asyncio.Event()
    messages: list[Message] = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> Message:
        if messages:
            return messages.pop()
        await said.wait()
        return {"type": "http.disconnect"}

    body = Body(receive, 100, idle=0.01)
    assert (await body())["type"] == "http.request"
    waiting = asyncio.create_task(body())
    done, _ = await asyncio.wait((waiting,), timeout=0.1)
    assert not done
    said.set()
    assert (await waiting)["type"] == "http.disconnect"


async def test_events_stream_through_as_they_happen(local: Place) -> None:
    made = (await local.client.post("/v1/refinements", json=SCENE)).json()
    kinds = []
    async with local.client.stream("GET", made["links"]["events"]) as reply:
        async for line in reply.aiter_lines():
            if line.startswith("event:"):
                kinds.append(line.removeprefix("event:").strip())
    assert "generated" in kinds
    assert kinds[-1] == "status"


async def test_a_browser_signs_in_and_out(keyed: Place) -> None:
    text = (await keyed.key())["Authorization"].removeprefix("Bearer ")
    client = keyed.client
    html = {"Accept": "text/html,*/*"}
    asked = await client.get("/runs?words=dog&status=failed", headers=html)
    assert asked.status_code == 303
    assert asked.headers["location"].startswith("/login?next=")
    shown = await client.get(asked.headers["location"], headers=html)
    assert 'value="/runs?words=dog&amp;status=failed"' in shown.text
    wrong = await client.post("/login", data={"key": text[:-2], "next": "/runs"})
    assert wrong.status_code == 401
    assert 'role="alert"' in wrong.text
    assert text[:-2] not in wrong.text
    assert "set-cookie" not in wrong.headers
    done = await client.post(
        "/login", data={"key": f" {text}\n", "next": "/runs?words=dog"},
        headers={"Origin": keyed.url, "Sec-Fetch-Site": "same-origin"},
    )  # fmt: skip
    assert (done.status_code, done.headers["location"]) == (303, "/runs?words=dog")
    cookie = done.headers["set-cookie"]
    assert cookie.startswith(f"{SESSION}=")
    assert {"HttpOnly", "SameSite=strict", "Path=/"} <= {p.strip() for p in cookie.split(";")}
    assert "Secure" not in cookie
    assert text not in cookie
    assert (await client.get("/v1/refinements")).status_code == 200
    own = {"Origin": keyed.url}
    assert (await client.post("/v1/refinements", json=SCENE, headers=own)).status_code == 202
    for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        reply = await client.post("/v1/refinements", json=SCENE, headers=headers)
        assert reply.status_code == 403
    token = client.cookies[SESSION]
    assert (await client.post("/logout", headers=own)).status_code == 303
    assert SESSION not in client.cookies
    again = await client.get("/v1/refinements", headers={"Cookie": f"{SESSION}={token}"})
    assert again.status_code == 401


async def test_a_page_elsewhere_cannot_use_what_a_browser_sends_by_itself(keyed: Place) -> None:
    text = (await keyed.key())["Authorization"].removeprefix("Bearer ")
    basic = base64.b64encode(f"me:{text}".encode()).decode()
    evil = {"Origin": "http://evil.example"}
    reply = await keyed.client.post(
        "/v1/refinements", json=SCENE, headers={"Authorization": f"Basic {basic}", **evil}
    )
    assert reply.status_code == 403
    signed = await keyed.client.post("/login", data={"key": text}, headers=evil)
    assert signed.status_code == 403
    assert "set-cookie" not in signed.headers
    # A page that knows the key is one that its owner has given it to.
    reply = await keyed.client.post("/v1/refinements", json=SCENE, headers={"X-API-Key": text})
    assert reply.status_code == 202


async def test_the_cookie_of_https_is_bound_to_it(tmp_path: Path) -> None:
    app = create_app(ServiceSettings(data=tmp_path, keys=True), models=scripted())
    async with app.router.lifespan_context(app):
        _, text = await app.state.service.keys.create("studio")
        client = _https(app)
        done = await client.post("/login", data={"key": text})
        cookie = done.headers["set-cookie"]
        assert cookie.startswith(f"{SECURE_SESSION}=")
        assert "Secure" in cookie
        token = cookie.partition("=")[2].partition(";")[0]
        for name, status in ((SECURE_SESSION, 200), (SESSION, 401)):
            reply = await _https(app).get("/v1/refinements", headers={"Cookie": f"{name}={token}"})
            assert reply.status_code == status
        reply = await client.post(
            "/v1/refinements", json=SCENE, headers={"Origin": "http://studio.example"}
        )
        assert reply.status_code == 403


def _https(app: FastAPI) -> httpx2.AsyncClient:
    transport = httpx2.ASGITransport(app=app)
    return httpx2.AsyncClient(transport=transport, base_url="https://studio.example")


@pytest.mark.parametrize(
    "place",
    [
        "//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)",
        "/\t/evil.example", "\\\\evil.example", "", "/%0d%0aSet-Cookie:x=1",
    ],
)  # fmt: skip
async def test_signing_in_leads_nowhere_else(keyed: Place, place: str) -> None:
    text = (await keyed.key())["Authorization"].removeprefix("Bearer ")
    done = await keyed.client.post("/login", data={"key": text, "next": place})
    assert done.status_code == 303
    target = keyed.client.base_url.join(done.headers["location"])
    assert (target.host, target.port) == (keyed.client.base_url.host, keyed.client.base_url.port)
    assert "x" not in done.cookies


async def test_no_key_is_asked_for_where_none_is_demanded(local: Place) -> None:
    reply = await local.client.get("/login")
    assert (reply.status_code, reply.headers["location"]) == (303, "/")
    # Clients that insist on sending one are not turned away.
    made = await local.client.get("/v1/refinements", headers={"Authorization": "Bearer unused"})
    assert made.status_code == 200
