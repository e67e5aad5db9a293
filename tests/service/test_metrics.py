"""``/metrics``: what Prometheus reads, and that a run moves it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import PlainTextResponse

from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.service.serving import serving

Labels = frozenset[tuple[str, str]]


def models(request: RefinementRequest) -> Mapping[str, Any]:
    """Models that cost something, and whose second picture is better."""
    return {
        "backend": ScriptedBackend(lambda asked: 40 + 200 * bool(asked.references), usd=0.5),
        "judges": [ScriptedJudge("a", usd=0.01), ScriptedJudge("b")],
        "report_judges": [ScriptedJudge("c")],
        "composer": ScriptedComposer(),
    }


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    settings = ServiceSettings(data=tmp_path / "data")
    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        yield client


async def scraped(client: httpx2.AsyncClient) -> dict[tuple[str, Labels], float]:
    """Values by name and labels."""
    reply = await client.get("/metrics")
    assert reply.status_code == 200
    assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(reply.text)
        for sample in family.samples
    }


def value(found: dict[tuple[str, Labels], float], name: str, **labels: str) -> float:
    """The sum over all samples that have these labels."""
    wanted = set(labels.items())
    return sum(v for (n, has), v in found.items() if n == name and wanted <= has)


async def ended(client: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    """The run once it stands still."""
    async with client.stream("GET", f"/v1/refinements/{run}/events") as events:
        async for _ in events.aiter_lines():
            pass
    return (await client.get(f"/v1/refinements/{run}")).json()


async def test_a_run_moves_the_counters(client: httpx2.AsyncClient) -> None:
    before = await scraped(client)
    assert value(before, "scenewright_runs", status="finished") == 0
    assert value(before, "scenewright_images_total") == 0
    asked = {"triplets": "red ball on table; hat on dog", "rounds": 2, "profile": "miniature"}
    made = await client.post("/v1/refinements", json=asked)
    assert made.status_code == 202, made.text
    run = await ended(client, made.json()["id"])
    assert run["status"] == "finished", run["error"]
    found, totals = await scraped(client), run["totals"]

    assert value(found, "scenewright_runs", status="finished") == 1
    assert value(found, "scenewright_queue_length") == 0
    assert value(found, "scenewright_active_runs") == 0
    assert value(found, "scenewright_images_total", source="drawn") == totals["images"] > 0
    assert value(found, "scenewright_images_total", purpose="candidate") == len(run["rounds"])
    calls = value(found, "scenewright_judge_calls_total", source="asked")
    assert calls == totals["judge_calls"] > 0
    assert value(found, "scenewright_judge_calls_total", role="report", judge="scripted:a") == 0
    tokens = value(found, "scenewright_tokens_total", direction="in", profile="miniature")
    assert tokens == totals["tokens_in"] > 0
    usd = value(found, "scenewright_usd_total", profile="miniature")
    assert usd == pytest.approx(totals["usd"])
    assert usd > 0.5
    rounds = value(found, "scenewright_round_seconds_count", profile="miniature")
    assert rounds == len(run["rounds"])
    assert value(found, "scenewright_run_seconds_count", status="finished") == 1


async def test_requests_are_counted_by_the_template_of_their_route(
    client: httpx2.AsyncClient,
) -> None:
    await client.get("/v1/refinements/run_one")
    await client.get("/v1/refinements/run_two")
    await client.get("/nothing/here")
    await client.request("BREW", "/v1/refinements")
    found = await scraped(client)
    name, route = "scenewright_http_requests_total", "/v1/refinements/{run_id}"
    assert value(found, name, method="GET", route=route, status="404") == 2
    assert value(found, name, route="none", status="404") == 1
    assert value(found, name, method="OTHER") == 1
    assert value(found, "scenewright_http_request_seconds_count", route=route) == 2


async def test_a_mounted_application_is_one_route(tmp_path: Path) -> None:
    async def inner(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse("here")(scope, receive, send)

    app = create_app(ServiceSettings(data=tmp_path / "data"), models=models)
    app.mount("/inner", inner)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        for path in ("/inner/a", "/inner/b?c"):
            assert (await client.get(path)).text == "here"
        found = await scraped(client)
    assert value(found, "scenewright_http_requests_total", route="/inner") == 2


async def test_labels_hold_no_id_and_no_tenant(client: httpx2.AsyncClient) -> None:
    made = await client.post("/v1/refinements", json={"triplets": "dog", "rounds": 1})
    run = await ended(client, made.json()["id"])
    text = (await client.get("/metrics", headers={"X-Request-ID": "canary-id"})).text
    for secret in (run["id"], run["best_round"] is not None and run["image"]["hash"], "canary-id"):
        assert str(secret) not in text
    labels = {name for _, has in await scraped(client) for name, _ in has}
    assert labels <= {
        "profile", "status", "judge", "role", "source", "purpose", "direction", "method", "route",
        "version", "le",
    }  # fmt: skip


async def test_a_listener_is_counted_while_it_listens(tmp_path: Path) -> None:
    held = asyncio.Event()

    async def hold(judge: ScriptedJudge, facts: Any, answers: Any) -> Any:
        await held.wait()
        return answers

    def slow(request: RefinementRequest) -> Mapping[str, Any]:
        return {**models(request), "judges": [ScriptedJudge("a", behave=hold)]}

    app = create_app(ServiceSettings(data=tmp_path / "data"), models=slow)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        made = await client.post("/v1/refinements", json={"triplets": "dog", "rounds": 1})
        path = f"/v1/refinements/{made.json()['id']}/events"
        async with client.stream("GET", path) as events:
            lines = events.aiter_lines()
            while "generated" not in await anext(lines):
                pass
            found = await scraped(client)
            assert value(found, "scenewright_event_listeners") == 1
            assert value(found, "scenewright_active_runs") == 1
            assert value(found, "scenewright_runs", status="running") == 1
            held.set()
            async for _ in lines:
                pass
        assert value(await scraped(client), "scenewright_event_listeners") == 0


async def test_two_services_in_one_process_count_for_themselves(tmp_path: Path) -> None:
    apps = [create_app(ServiceSettings(data=tmp_path / name), models=models) for name in "ab"]
    async with (
        serving(apps[0]) as one,
        serving(apps[1]) as two,
        httpx2.AsyncClient(timeout=60) as client,
    ):
        await client.get(f"{one}/healthz")
        for url, seen in ((one, 1), (two, 0)):
            text = (await client.get(f"{url}/metrics")).text
            assert text.count('scenewright_http_requests_total{method="GET",route="/healthz"') == (
                seen
            )
