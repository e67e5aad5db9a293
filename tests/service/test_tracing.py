"""Spans of requests and runs, and that no picture and no prompt is in them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx2
import pytest

pytest.importorskip("opentelemetry.sdk", reason="the extra tracing is not installed")

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from scenewright.config.profiles import SettingsError
from scenewright.service.app import create_app
from scenewright.service.core.observing import tracing
from scenewright.service.core.observing.observers import Observability
from scenewright.service.core.observing.tracing import Tracing, opened, provider_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.service.serving import serving

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.fixture(autouse=True)
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*tracing.ENDPOINTS, "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)


@dataclass
class Traced:
    """A service and what it traced."""

    client: httpx2.AsyncClient
    exporter: InMemorySpanExporter

    async def run(self, **asked: Any) -> dict[str, Any]:
        """A run once it stands still."""
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        body = {"triplets": "red ball on table; hat on dog", "rounds": 2, **asked}
        made = await self.client.post("/v1/refinements", json=body, headers=headers)
        assert made.status_code == 202, made.text
        path = f"/v1/refinements/{made.json()['id']}"
        async with self.client.stream("GET", f"{path}/events") as events:
            async for _ in events.aiter_lines():
                pass
        return (await self.client.get(path)).json()

    def spans(self, name: str) -> list[ReadableSpan]:
        """Finished spans of that name, by their start."""
        found = [span for span in self.exporter.get_finished_spans() if span.name == name]
        return sorted(found, key=lambda span: span.start_time or 0)


def models(request: RefinementRequest) -> Mapping[str, Any]:
    if request.seed == 13:
        backend = ScriptedBackend(
            lambda asked: 40, failing=lambda asked: RuntimeError("canary-in-an-error")
        )
    else:
        backend = ScriptedBackend(lambda asked: 40 + 200 * bool(asked.references), usd=0.5)
    return {
        "backend": backend,
        "judges": [ScriptedJudge("a"), ScriptedJudge("b")],
        "report_judges": [ScriptedJudge("c")],
        "composer": ScriptedComposer(),
    }


@pytest.fixture
async def traced(tmp_path: Path) -> AsyncIterator[Traced]:
    exporter, provider = InMemorySpanExporter(), provider_of()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app = create_app(
        ServiceSettings(data=tmp_path / "data"),
        models=models,
        observing=Observability(Tracing(provider)),
    )
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        yield Traced(client, exporter)


def parent(span: ReadableSpan) -> int | None:
    return None if span.parent is None else span.parent.span_id


async def test_a_run_is_one_trace_from_the_request_to_the_judges(traced: Traced) -> None:
    run = await traced.run()
    (request,) = traced.spans("POST /v1/refinements")
    (whole,) = traced.spans("run")
    assert request.context.trace_id == int(TRACE, 16)
    assert parent(request) == int(PARENT, 16)
    assert parent(whole) == request.context.span_id
    assert whole.attributes is not None
    assert whole.attributes["scenewright.run.id"] == run["id"]
    assert whole.attributes["scenewright.status"] == "finished"
    assert whole.attributes["scenewright.total.usd"] == run["totals"]["usd"]
    rounds = [traced.spans(f"round {n}")[0] for n in range(len(run["rounds"]))]
    assert len(rounds) == 2
    (report,) = traced.spans("report")
    assert {parent(span) for span in (*rounds, report)} == {whole.context.span_id}

    candidates, references = traced.spans("draw candidate"), traced.spans("draw reference")
    assert [parent(s) for s in candidates] == [s.context.span_id for s in rounds]
    assert [parent(s) for s in references] == [rounds[1].context.span_id]
    judged = [
        (parent(s), s.attributes["gen_ai.request.model"])
        for s in traced.spans("judge")
        if s.attributes is not None
    ]
    for part in rounds:
        asked = {judge for span, judge in judged if span == part.context.span_id}
        assert asked == {"scripted:a", "scripted:b"}
    told = {judge for span, judge in judged if span == report.context.span_id}
    assert "scripted:c" in told
    tokens = sum(
        int(s.attributes["gen_ai.usage.input_tokens"])  # type: ignore[arg-type]
        for s in traced.spans("judge")
        if s.attributes is not None
    )
    assert tokens == run["totals"]["tokens_in"]
    everything = (whole, *rounds, report, *candidates, *references, *traced.spans("judge"))
    for span in everything:
        assert span.context.trace_id == int(TRACE, 16)
        assert span.start_time is not None
        assert span.end_time is not None
        assert span.start_time <= span.end_time


async def test_no_picture_no_prompt_and_no_key_is_in_a_span(traced: Traced) -> None:
    run = await traced.run(triplets="canaryball on table")
    folder = traced.client
    image = await folder.get(run["image"]["url"])
    reply = await folder.get("/v1/refinements", headers={"Authorization": "Bearer canary-key"})
    assert reply.status_code == 200
    spans = traced.exporter.get_finished_spans()
    told = "\n".join(span.to_json() for span in spans)
    assert len(spans) > 6
    assert base64.b64encode(image.content).decode()[:60] not in told
    for canary in ("canaryball", "canary-key", "iVBORw0KGgo"):
        assert canary not in told
    for span in spans:
        for group in (span.attributes, *(event.attributes for event in span.events)):
            for value in (group or {}).values():
                assert not isinstance(value, bytes)
                assert len(str(value)) <= tracing.MAX_ATTRIBUTE


async def test_a_run_that_fails_is_an_error_without_its_text(traced: Traced) -> None:
    run = await traced.run(seed=13)
    assert run["status"] == "failed"
    (whole,) = traced.spans("run")
    assert whole.attributes is not None
    assert not whole.status.is_ok
    assert whole.attributes["error.type"]
    assert "canary" not in whole.to_json()


async def test_a_resumed_run_follows_on_the_request_that_resumed_it(traced: Traced) -> None:
    run = await traced.run(seed=13)
    path = f"/v1/refinements/{run['id']}"
    await traced.client.post(f"{path}/resume")
    async with traced.client.stream("GET", f"{path}/events") as events:
        async for _ in events.aiter_lines():
            pass
    (request,) = traced.spans("POST /v1/refinements/{run_id}/resume")
    assert parent(traced.spans("run")[-1]) == request.context.span_id


def test_there_are_no_traces_where_nobody_asks(tmp_path: Path) -> None:
    assert opened(ServiceSettings(data=tmp_path)) is None


def test_the_environments_switch_turns_them_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert opened(ServiceSettings(data=tmp_path, otlp_endpoint="http://127.0.0.1:9")) is None


def test_a_missing_extra_is_told_where_it_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(
        __import__("sys").modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None
    )
    with pytest.raises(SettingsError, match=r"scenewright\[tracing\]"):
        opened(ServiceSettings(data=tmp_path, otlp_endpoint="http://127.0.0.1:9"))
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    assert opened(ServiceSettings(data=tmp_path)) is None
    assert "scenewright[tracing]" in caplog.text


async def test_spans_reach_a_collector_over_http(tmp_path: Path) -> None:
    got: list[tuple[str, bytes]] = []
    arrived = Event()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()
            arrived.set()

        def log_message(self, format: str, *args: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        settings = ServiceSettings(
            data=tmp_path / "data", otlp_endpoint=f"http://127.0.0.1:{server.server_port}/"
        )
        async with (
            serving(create_app(settings, models=models)) as url,
            httpx2.AsyncClient(base_url=url, timeout=60) as client,
        ):
            await client.get("/v1/profiles")
        # The end of the service sends what is left.
        assert await asyncio.to_thread(arrived.wait, 10)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
    path, body = got[0]
    assert path == "/v1/traces"
    assert b"/v1/profiles" in body
    assert json.dumps("scenewright")[1:-1].encode() in body
