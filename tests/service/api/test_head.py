"""HEAD is answered as GET, without the body."""

from __future__ import annotations

import asyncio

import httpx2

from scenewright.service.app import create_app
from scenewright.service.core.settings import ServiceSettings
from tests.service.gated import Gate, gated
from tests.service.serving import serving
from tests.service.test_refinements import begin, ended

UNKNOWN = f"run_{'0' * 32}"


async def test_head_is_get_without_the_body(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        run = await ended(client, (await begin(client, rounds=1))["id"])
        at, image = f"/v1/refinements/{run['id']}", run["rounds"][0]["image"]
        paths = [
            "/healthz", "/readyz", "/metrics", "/v1/refinements", at, f"{at}/result",
            f"{at}/events", f"{at}/images/{image}", "/v1/profiles", "/v1/models",
            f"/v1/refinements/{UNKNOWN}", "/sdapi/v1/samplers", "/v1/nothing",
        ]  # fmt: skip
        statuses = set()
        for path in paths:
            async with asyncio.timeout(60):
                got, head = await client.get(path), await client.head(path)
            assert (head.status_code, head.content) == (got.status_code, b""), path
            for name in ("content-type", "cache-control", "etag", "location"):
                assert head.headers.get(name) == got.headers.get(name), (path, name)
            statuses.add(head.status_code)
        assert statuses == {200, 404}
        described = (await client.get("/openapi.json")).json()["paths"]
        assert not any("head" in methods for methods in described.values())


async def test_head_does_not_wait_for_the_events_of_a_run(settings: ServiceSettings) -> None:
    gate = Gate()
    async with (
        serving(create_app(settings, models=gated(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        run = (await begin(client, rounds=1))["id"]
        async with asyncio.timeout(60):
            head = await client.head(f"/v1/refinements/{run}/events")
        assert head.headers["content-type"].startswith("text/event-stream")
        assert (await client.get(f"/v1/refinements/{run}")).json()["status"] != "finished"
        gate.open()
        assert (await ended(client, run))["status"] == "finished"
