"""Requests that OpenAI's client sends again join the runs of the first; others begin their own."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import openai
import pytest

from scenewright.service.app import create_app
from scenewright.service.compat.openai_images import asking
from scenewright.service.core.settings import ServiceSettings
from tests.service.compat.test_openai_images import SENTENCE, held, notes_of, runs_of
from tests.service.serving import scripted, serving
from tests.service.test_openai_images_edits import png

BODY = {"prompt": SENTENCE, "scenewright": {"rounds": 1}}


class Dropping(httpx2.AsyncHTTPTransport):
    """Loses the reply of the first request that posts something."""

    lost = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        reply = await super().handle_async_request(request)
        if request.method == "POST" and not self.lost:
            self.lost += 1
            await reply.aread()
            raise httpx2.ReadError("the connection was lost")
        return reply


@pytest.mark.parametrize("edits", [False, True])
async def test_a_lost_reply_is_not_drawn_and_paid_again(url: str, edits: bool) -> None:
    transport = Dropping()
    async with openai.AsyncOpenAI(
        base_url=f"{url}/v1",
        api_key="none",
        max_retries=1,
        http_client=httpx2.AsyncClient(transport=transport, timeout=60),
    ) as client:
        if edits:
            reply = await client.images.edit(image=png(255), prompt=SENTENCE, n=2)
        else:
            reply = await client.images.generate(prompt=SENTENCE, n=2)
    assert transport.lost == 1
    runs = await runs_of(url)
    assert len(runs) == 2
    assert {run["id"] for run in notes_of(reply)["runs"]} == {run["id"] for run in runs}
    assert [run["seed"] for run in notes_of(reply)["runs"]] == [0, 1]


async def posted(
    http: httpx2.AsyncClient,
    body: Any,
    count: int | str,
    out: asyncio.Event | None = None,
    **headers: str,
) -> str:
    """The run of a request that was sent ``count`` times before; sets ``out`` once it is sent."""

    async def trace(event: str, _: object) -> None:
        if out is not None and event == "http11.send_request_body.complete":
            out.set()

    sent = {"x-stainless-retry-count": str(count), **headers}
    reply = await http.post(
        "/v1/images/generations", json=body, headers=sent, extensions={"trace": trace}
    )
    assert reply.status_code == 200, reply.text
    return str(reply.json()["scenewright"]["runs"][0]["id"])


async def test_a_retry_joins_the_first_while_it_runs(settings: ServiceSettings) -> None:
    gate = asyncio.Event()
    body = {"prompt": SENTENCE, "scenewright": {"rounds": 2}}
    async with (
        serving(create_app(settings, models=held(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as http,
    ):
        # The retries may be there before the first is taken in.
        out = asyncio.Event()
        asked = [asyncio.create_task(posted(http, body, 0, out))]
        await out.wait()
        asked += [asyncio.create_task(posted(http, body, count)) for count in (1, 2)]
        async with asyncio.timeout(60):
            while not await runs_of(url):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        gate.set()
        assert len(set(await asyncio.gather(*asked))) == 1
        assert len(await runs_of(url)) == 1


async def test_only_the_same_request_sent_again_joins(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        first = await posted(http, BODY, 0)
        second = await posted(http, BODY, 0)
        assert first != second
        assert await posted(http, BODY, 1) == second
        assert await posted(http, BODY, "many") not in (first, second)
        other = {**BODY, "scenewright": {"rounds": 1, "seed": 9}}
        assert await posted(http, other, 1) not in (first, second)
        known = {run["id"] for run in await runs_of(url)}
        monkeypatch.setattr(asking, "WITHIN_SECONDS", -1.0)
        assert await posted(http, BODY, 1) not in known


async def test_the_runs_of_a_refused_request_are_not_joined(url: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        first = await posted(http, BODY, 0)
        await http.delete(f"/v1/refinements/{first}")
        assert await posted(http, BODY, 1) != first


async def test_no_other_caller_joins(settings: ServiceSettings) -> None:
    app = create_app(settings.model_copy(update={"keys": True}), models=scripted())
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as http:
        keys = app.state.service.keys
        (_, mine), (_, twin), (_, other) = [
            await keys.create(tenant) for tenant in ("studio", "studio", "other")
        ]
        found = [
            await posted(http, BODY, 1, authorization=f"Bearer {key}")
            for key in (mine, twin, other)
        ]
        assert len(set(found)) == 3
        assert await posted(http, BODY, 1, authorization=f"Bearer {mine}") == found[0]


@pytest.mark.parametrize("door", ["/v1/images/generations", "/sdapi/v1/txt2img"])
async def test_a_key_that_was_used_is_named_as_it_was_sent(url: str, door: str) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        headers = {"Idempotency-Key": "order 66"}
        body = {"prompt": SENTENCE, "scenewright": {"rounds": 1}}
        (await http.post(door, json=body, headers=headers)).raise_for_status()
        refused = await http.post(door, json={**body, "prompt": "A dog."}, headers=headers)
    assert refused.status_code == 409
    if door.startswith("/v1"):
        assert refused.headers["x-should-retry"] == "false"
    assert "the idempotency key 'order 66' was used for another request (run run_" in refused.text


@pytest.mark.parametrize(
    ("door", "count"), [("/v1/images/generations", "n"), ("/sdapi/v1/txt2img", "batch_size")]
)
async def test_a_key_with_another_number_of_pictures_begins_nothing(
    url: str, door: str, count: str
) -> None:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as http:
        headers = {"Idempotency-Key": "order 66", "x-stainless-retry-count": "1"}
        body = {"prompt": SENTENCE, "scenewright": {"rounds": 1}, count: 2}
        first = (await http.post(door, json=body, headers=headers)).raise_for_status()
        for many in (1, 3):
            refused = await http.post(door, json={**body, count: many}, headers=headers)
            assert refused.status_code == 409
            assert "the idempotency key 'order 66' was used for another request" in refused.text
        again = (await http.post(door, json=body, headers=headers)).raise_for_status()
        # Only the moment of the answer differs.
        assert {**again.json(), "created": 0} == {**first.json(), "created": 0}
        assert len((await http.get("/v1/refinements")).json()["items"]) == 2
