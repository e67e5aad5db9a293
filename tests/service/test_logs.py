"""Log lines: one a request, ids in them, secrets and pictures not."""

from __future__ import annotations

import base64
import io
import json
import logging
import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.providers.retry import CallError, Transient
from scenewright.service.app import create_app
from scenewright.service.core.observing import logs
from scenewright.service.core.settings import ServiceSettings
from tests.providers.virtual import Provider, Said, get_caller, put
from tests.service.serving import scripted, serving


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """Where the log goes, as JSON; the logging of the tests is as before afterwards."""
    names = (
        "",
        "scenewright",
        "scenewright.providers",
        "uvicorn",
        "uvicorn.error",
        "uvicorn.access",
    )
    found = [logging.getLogger(name) for name in names]
    before = [(one.level, one.propagate, list(one.handlers)) for one in found]
    out = io.StringIO()
    logs.set_up("json", out)
    yield out
    for one, (level, propagate, handlers) in zip(found, before, strict=True):
        one.setLevel(level)
        one.propagate = propagate
        one.handlers[:] = handlers


@pytest.fixture
async def client(tmp_path: Path, stream: io.StringIO) -> AsyncIterator[httpx2.AsyncClient]:
    app = create_app(ServiceSettings(data=tmp_path / "data"), models=scripted())
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        logging.getLogger("scenewright").setLevel(logging.INFO)
        yield client


def lines(stream: io.StringIO, logger: str) -> list[dict[str, Any]]:
    """What that logger has told."""
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [line for line in told if line["logger"] == logger]


HTTP = "scenewright.service.http"


async def test_a_request_is_one_line(client: httpx2.AsyncClient, stream: io.StringIO) -> None:
    reply = await client.get("/v1/refinements/run_nothing?key=in-the-url")
    (line,) = lines(stream, HTTP)
    assert line["message"] == "GET /v1/refinements/{run_id} 404"
    assert line["level"] == "info"
    assert line["method"] == "GET"
    assert line["route"] == "/v1/refinements/{run_id}"
    assert line["status"] == 404
    assert line["tenant"] == "local"
    assert 0 < line["ms"] < 30_000
    assert line["request_id"] == reply.headers["x-request-id"]
    assert "in-the-url" not in stream.getvalue()
    assert "run_nothing" not in stream.getvalue()


async def test_probes_are_not_told(client: httpx2.AsyncClient, stream: io.StringIO) -> None:
    for path in ("/healthz", "/readyz", "/metrics"):
        assert (await client.get(path)).status_code == 200
    assert lines(stream, HTTP) == []


@pytest.mark.parametrize("given", ["abc-1.2_3", "A" * 64, "0"])
async def test_a_sane_request_id_is_kept(client: httpx2.AsyncClient, given: str) -> None:
    reply = await client.get("/healthz", headers={"X-Request-ID": given})
    assert reply.headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "A" * 65, "two words", "a\tb", "<script>", "é", "-x", "a/b"])
async def test_any_other_request_id_is_made(client: httpx2.AsyncClient, given: str) -> None:
    reply = await client.get("/healthz", headers={"X-Request-ID": given.encode()})
    made = reply.headers["x-request-id"]
    assert made != given
    assert len(made) == 16
    assert set(made) <= set("0123456789abcdef")


async def test_a_run_tells_of_its_life(client: httpx2.AsyncClient, stream: io.StringIO) -> None:
    made = await client.post("/v1/refinements", json={"triplets": "dog", "rounds": 1})
    async with client.stream("GET", f"/v1/refinements/{made.json()['id']}/events") as events:
        async for _ in events.aiter_lines():
            pass
    begins, ends = lines(stream, "scenewright.service.core.worker")
    assert begins["message"] == "run begins"
    assert ends["message"] == "run has ended or paused"
    assert ends["status"] == "finished"
    for line in (begins, ends):
        assert line["run"] == made.json()["id"]
        assert line["tenant"] == "local"
        assert line["door"] == "api"
        assert "request_id" not in line


async def test_secrets_and_pictures_do_not_reach_the_log(
    client: httpx2.AsyncClient, stream: io.StringIO
) -> None:
    picture = base64.b64encode(os.urandom(3000)).decode()
    secrets = ("sw_0123456789_canaryCANARY", "Zm9vOmJhcg==", "cookie-canary-7")
    await client.post(
        f"/v1/refinements?api_key={secrets[0]}",
        json={"triplets": "dog", "image": picture, "profile": "none such"},
        headers={
            "Authorization": f"Bearer {secrets[0]}",
            "X-API-Key": secrets[1],
            "Cookie": f"session={secrets[2]}",
            "X-Request-ID": secrets[2],
        },
    )
    try:
        raise RuntimeError(f"refused: Authorization: Bearer {secrets[0]} for {picture}")
    except RuntimeError:
        logging.getLogger("scenewright.service.tried").exception("key %s, %s", secrets[0], picture)
    text = stream.getvalue()
    assert "refused" in text
    assert secrets[0] not in text
    assert secrets[1] not in text
    assert picture[:80] not in text


def record(message: str, **fields: Any) -> logging.LogRecord:
    """A record of a message with fields."""
    made = logging.LogRecord("scenewright.x", logging.INFO, __file__, 1, message, None, None)
    made.__dict__.update(fields)
    return made


def test_only_known_fields_are_told() -> None:
    line = json.loads(logs.JsonLines().format(record("done", run="run_1", headers="secret", ms=1)))
    assert line["run"] == "run_1"
    assert line["ms"] == 1
    assert "headers" not in line


def test_a_line_stays_a_line() -> None:
    for formatter in (logs.JsonLines(), logs.TextLines()):
        told = formatter.format(record("one\ntwo\r\x1b[31m", run="a\nlevel=error"))
        assert "\n" not in told
        assert "\x1b" not in told


def test_text_for_people_has_the_fields_behind_the_message() -> None:
    told = logs.TextLines().format(record("run begins", run="run_1", attempt=2))
    assert told.endswith("info    run begins  run=run_1 attempt=2")


async def test_a_lost_call_is_a_sentence_for_people(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "scenewright.providers")
    lost = Provider(Said(Transient("no connection to 127.0.0.1:9")), takes=0.0)
    with pytest.raises(CallError):
        await put(get_caller(attempts=1), lost, label="scene-7")
    (told,) = [one for one in caplog.records if one.name == "scenewright.providers"]
    text = logs.TextLines().format(told)
    assert text.endswith(
        "mine:gpt-4o-mini (scene-7) gave no answer in 1 attempt: no connection to 127.0.0.1:9"
    )
    assert "outcome=lost" in json.loads(logs.JsonLines().format(told))["message"]


def test_a_lost_call_is_told_once(stream: io.StringIO) -> None:
    calls = logging.getLogger("scenewright.providers")
    calls.addHandler(logging.StreamHandler(stream))
    logs.set_up("json", stream)
    calls.warning("a call was lost")
    calls.info("a call was made")
    assert stream.getvalue().count("lost") == 1
    assert "made" not in stream.getvalue()


def test_the_librarys_own_line_a_request_is_off(stream: io.StringIO) -> None:
    logging.getLogger("uvicorn.access").info("GET /v1/refinements?key=x")
    logging.getLogger("httpx2").info("HTTP Request: POST https://api.example?key=x")
    assert stream.getvalue() == ""
