"""Every route asked with what nobody should send: each answer is in our own words."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

import scenewright
from scenewright.config.profiles import SettingsError
from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.serving import scripted
from tests.service.threaded import threaded

LIBRARIES = re.compile(
    r"pydantic|sqlalchemy|sqlite|starlette|fastapi|uvicorn|Traceback|\bFile \"|site-packages"
    r"|Input should|Field required|(?:String|List|Tuple|Dictionary|Value) (?:should|error)"
    r"|Extra inputs|errors\.pydantic|Expecting |Unterminated|JSON decode|NoneType"
    r"|object has no|\[type=|codec can't|\bline \d+ column|\bErrno\b|unexpected keyword",
)
RUN = "run_00000000000000000000000000000000"
HASH = "0" * 64
BODIES: dict[str, bytes] = {
    "nothing": b"",
    "broken": b'{"text": ',
    "trailing": b'{"text": "a ball",}',
    "list": b"[1, 2]",
    "number": b"7",
    "null": b"null",
    "text": b'"a ball"',
    "bytes": b"\xff\xfe\x00\x80",
    "nan": b'{"text": "a ball", "guidance": NaN, "seed": Infinity}',
    "huge": b'{"text": "a ball", "seed": ' + b"9" * 5000 + b"}",
    "types": b'{"text": 5, "rounds": "x", "seed": 1.5, "budget": [], "judges": {}, "scene": 1}',
    "surrogates": b'{"text": "\\ud800", "profile": "\\udfff", "idempotency_key": "\\u0000"}',
    "unknown": b'{"text": "a ball", "surprise": 1, "__class__": "x"}',
    "deep": b"[" * 20_000,
    "paths": b'{"text": "a ball", "profile": "../../etc/passwd", "judges": ["replay:/etc/passwd"]}',
    "scene": b'{"scene": {"objects": [{"id": "a"}, 3], "relations": {"x": 1}}}',
    "scenes": b'{"scene": {"objects": []}, "triplets": "a", "text": "b", "prompt": 5, "n": 99}',
    "limits": b'{"text": "' + b"x" * 20_001 + b'", "rounds": 0, "width": 7, "steps": 0}',
    "bomb": b"--b\r\n" + b'Content-Disposition: form-data; name="a"\r\n\r\n1\r\n--b\r\n' * 2000,
    "nameless": b"--b\r\nContent-Disposition: form-data\r\n\r\n1\r\n--b--",
    "file": b'--b\r\nContent-Disposition: form-data; name="image"; filename="../../x.png"\r\n\r\n'
    b'no picture\r\n--b\r\nContent-Disposition: form-data; name="text"\r\n\r\na ball\r\n--b--',
    "scored": b'--b\r\nContent-Disposition: form-data; name="image"; filename="a.png"\r\n\r\nx\r\n'
    b'--b\r\nContent-Disposition: form-data; name="scene"\r\n\r\n{"objects": [1}\r\n--b--',
}
KINDS = (
    "application/json", "", "text/plain", "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=b", "multipart/form-data", "application/json; charset=utf-16",
    "image/png", "\xff",
)  # fmt: skip
QUERIES = (
    "limit=x&status=bad&before=%00&after=9e99&a=x&b=-1&base=1e5&like=../..",
    f"limit=99999999999999999999&words={'x' * 300}&text={'x' * 20001}",
    "words=%ff%fe&status=%ed%a0%80&after=-2&missing=yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy",
)
ODD_PATHS = (
    "/v1/refinements/%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    f"/v1/refinements/{RUN}/images/..%2f..%2fmanifest.json",
    f"/v1/refinements/{RUN}/images/{'g' * 64}",
    "/v1/refinements/" + "x" * 300,
    "/v1/refinements/%00",
    "/v1/refinements/%ff%fe/events",
    "/static/..%2f..%2fapp.py",
    "/runs/%2e%2e/page.html",
    "/v1/models/..%2f..%2fetc",
    "/nowhere",
    "//v1/refinements",
)


@dataclass
class House:
    """A service and its routes."""

    url: str
    client: httpx2.Client
    data: Path
    routes: list[tuple[str, str]]
    """Method and path of each."""

    def check(self, reply: httpx2.Response, *asked: object) -> None:
        """Fail if a reply tells of libraries, paths or an error of the service's own."""
        assert reply.status_code < 500, (*asked, reply.text[:500])
        if reply.status_code < 400:
            return
        told = reply.text
        said = LIBRARIES.search(told)
        assert said is None, (*asked, said[0], told[:500])
        for place in (
            self.data, Path(scenewright.__file__).parent, sys.prefix, sys.base_prefix, Path.home(),
        ):  # fmt: skip
            assert str(place) not in told, (*asked, told[:500])


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    data = tmp_path_factory.mktemp("hostile") / "data"
    app = create_app(
        ServiceSettings(data=data, queue=5000, drain_seconds=1, upload_bytes=100_000),
        models=scripted(),
    )
    limits = httpx2.Limits(keepalive_expiry=1.0)
    with threaded(app) as url, httpx2.Client(base_url=url, timeout=60, limits=limits) as client:
        described = client.get("/openapi.json").json()["paths"]
        routes = [(m.upper(), path) for path, methods in described.items() for m in methods]
        shown = ("", "/main", "/page.html", "/edit", "/compare")
        pages = ["/", "/runs", "/login", "/static/{name}", *(f"/runs/{{run_id}}{p}" for p in shown)]
        routes += [("GET", path) for path in pages]
        routes += [("POST", "/runs"), ("POST", "/login"), ("POST", "/logout"), ("POST", "/mcp")]
        assert len(routes) > 30
        yield House(url, client, data, routes)


def filled(path: str) -> str:
    """A path with values in the place of its names."""
    values = {"run_id": RUN, "image": HASH}
    return re.sub(r"{(\w+)(?::\w+)?}", lambda match: values.get(match[1], "nothing"), path)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("body", BODIES)
def test_no_body_brings_a_librarys_words(house: House, body: str, every: bool) -> None:
    """Each route gets each body, as every kind or (quick) as JSON and one kind that changes."""
    taking = [route for route in house.routes if route[0] not in ("GET", "HEAD")]
    assert len(taking) > 12
    number = list(BODIES).index(body)
    for at, (method, path) in enumerate(taking):
        for kind in KINDS if every else (KINDS[0], KINDS[1 + (number + at) % (len(KINDS) - 1)]):
            headers = {b"Content-Type": kind.encode("latin-1")} if kind else None
            reply = house.client.request(
                method, filled(path), content=BODIES[body], headers=headers
            )
            house.check(reply, method, path, kind, body)


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_no_query_brings_a_librarys_words(house: House, accept: str) -> None:
    for method, path in house.routes:
        for query in QUERIES:
            if method == "GET":
                reply = house.client.get(f"{filled(path)}?{query}", headers={"Accept": accept})
                house.check(reply, path, query)


def test_no_path_brings_a_librarys_words(house: House) -> None:
    for path in ODD_PATHS:
        for method in ("GET", "POST", "DELETE"):
            house.check(house.client.request(method, path), method, path)


def test_no_header_brings_a_librarys_words(house: House) -> None:
    for name, value in (
        ("Idempotency-Key", "x" * 300), ("Last-Event-ID", "٣"),
        ("Last-Event-ID", "9" * 5000), ("If-None-Match", '"' * 500), ("Cookie", "a=b;" * 200),
        ("Accept", "\xff"), ("Authorization", "Basic \xff"), ("X-Request-ID", "../" * 30),
    ):  # fmt: skip
        for method, path in house.routes:
            reply = house.client.request(
                method, filled(path), headers={name.encode(): value.encode()}, content=b""
            )
            house.check(reply, method, path, name)


@pytest.mark.parametrize(
    ("kind", "status", "said"),
    [
        ("", 415, "the body has no Content-Type: send JSON with the header Content-Type"),
        ("text/plain", 415, "the body has the Content-Type 'text/plain': send JSON"),
        ("application/x-www-form-urlencoded", 415, "send JSON with the header"),
        ("application/json", 202, ""),
    ],
)
def test_a_wrong_content_type_is_named(house: House, kind: str, status: int, said: str) -> None:
    body = json.dumps({"triplets": "red ball on table", "rounds": 1}).encode()
    headers = {"Content-Type": kind} if kind else {}
    reply = house.client.post("/v1/refinements", content=body, headers=headers)
    assert reply.status_code == status, reply.text
    assert said in reply.text
    # The door of OpenAI says the same in its own form.
    if said:
        reply = house.client.post("/v1/images/generations", content=body, headers=headers)
        assert said in reply.json()["error"]["message"]


def test_a_form_sent_as_json_is_told_so(house: House) -> None:
    reply = house.client.post("/v1/scores", json={"text": "a ball"})
    assert reply.status_code == 415
    assert "multipart/form-data" in reply.json()["detail"]
    lacking = house.client.post("/v1/scores", files={"other": b"x"})
    assert (lacking.status_code, lacking.json()["detail"][:24]) == (422, "body.image: is required.")


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/refinements", "GET, HEAD, POST"),
        ("PATCH", f"/v1/refinements/{RUN}", "DELETE, GET, HEAD"),
        ("GET", "/v1/parse", "POST"),
        ("DELETE", "/runs", "GET, HEAD, POST"),
        ("PUT", f"/runs/{RUN}/compare", "GET, HEAD"),
        ("POST", "/healthz", "GET, HEAD"),
        ("HEAD", "/v1/parse", "POST"),
    ],
)
def test_a_405_lists_all_methods_of_the_path(
    house: House, method: str, path: str, allowed: str
) -> None:
    reply = house.client.request(method, path)
    assert reply.status_code == 405
    assert reply.headers["allow"] == allowed
    if method != "HEAD":
        assert allowed in reply.json()["detail"]


def test_text_is_compressed_and_pictures_and_streams_are_not(house: House) -> None:
    client = house.client
    run = client.post("/v1/refinements", json={"triplets": "red ball on table", "rounds": 1}).json()
    with client.stream("GET", run["links"]["events"]) as stream:
        assert "content-encoding" not in stream.headers
        stream.read()
    done = client.get(run["links"]["self"])
    image = done.json()["rounds"][0]["image"]
    for path in (run["links"]["self"], run["links"]["page"], "/openapi.json", "/static/run.js",
                 "/static/style.css"):  # fmt: skip
        packed = client.get(path, headers={"Accept-Encoding": "gzip"})
        assert packed.headers["content-encoding"] == "gzip", path
        assert "Accept-Encoding" in packed.headers["vary"]
        plain = client.get(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert int(packed.headers["content-length"]) < len(plain.content) / 1.5
    for path in (image["url"], image["preview"]):
        assert "content-encoding" not in client.get(path).headers


def test_an_error_that_nobody_foresaw_tells_nothing(house: House) -> None:
    app = create_app(ServiceSettings(data=house.data.parent / "other"), models=scripted())
    secret = house.data.parent / "other" / "profiles.toml"

    @app.get("/broken")
    async def broken() -> None:
        raise LookupError(f"{secret} and pydantic")

    @app.get("/wrong")
    async def wrong() -> None:
        raise SettingsError(f"the file {secret} is not valid TOML:\nat its end")

    async def ask() -> list[httpx2.Response]:
        transport = httpx2.ASGITransport(app=app, raise_app_exceptions=False)
        async with (
            app.router.lifespan_context(app),
            httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
        ):
            return [await client.get(path) for path in ("/broken", "/wrong")]

    unforeseen, known = asyncio.run(ask())
    assert unforeseen.status_code == 500
    assert "pydantic" not in unforeseen.text
    assert str(secret) not in unforeseen.text
    assert known.status_code == 422
    assert known.json()["detail"] == "the file profiles.toml is not valid TOML:\nat its end"


def test_the_run_of_a_model_that_breaks_tells_no_more_than_its_owner_needs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    from scenewright.core.ports.backend import BackendError

    raised: dict[int, Exception] = {
        1: KeyError("unet.down_blocks.0"),
        2: BackendError(f"the weights in {tmp_path}/data/models/sd.bin are damaged: fetch them"),
    }

    def models(request: Any) -> dict[str, Any]:
        given = dict(scripted()(request))

        async def generate(*args: Any, **more: Any) -> Any:
            raise raised[request.seed]

        given["backend"].generate = generate
        return given

    app = create_app(ServiceSettings(data=tmp_path / "data"), models=models)
    with threaded(app) as url, httpx2.Client(base_url=url, timeout=60) as client:
        told = {}
        for seed in raised:
            asked = {"triplets": "red ball on table", "rounds": 1, "seed": seed}
            run = client.post("/v1/refinements", json=asked).json()
            client.get(run["links"]["events"])
            told[seed] = client.get(run["links"]["self"]).json()["error"]
    assert "KeyError" in told[1]
    assert "down_blocks" not in told[1]
    assert told[2] == "the weights in sd.bin are damaged: fetch them"
    traced = [record for record in caplog.records if record.exc_info]
    # What nobody foresaw has its traceback in the log; what says itself what to do has none.
    assert [record.exc_info and record.exc_info[0] for record in traced] == [KeyError]
    assert tempfile.gettempdir() in caplog.text
