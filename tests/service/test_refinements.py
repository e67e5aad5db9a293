"""Runs over HTTP: asked for, watched, corrected, ended."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.config.profiles import BUILT_IN
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import watched_by
from scenewright.runs.folder import PARTIAL_IMAGE
from scenewright.service.app import create_app
from scenewright.service.core.event_broadcast import EventBroadcaster
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.doubles import ScriptedBackend
from tests.service.gated import Gate, gated
from tests.service.serving import scripted, serving

SCENE = {"triplets": "red ball on table; dog left of table"}


@pytest.fixture
async def client(url: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=url, timeout=60) as made:
        yield made


async def begin(client: httpx2.AsyncClient, **more: Any) -> dict[str, Any]:
    reply = await client.post("/v1/refinements", json={**SCENE, **more})
    assert reply.status_code == 202, reply.text
    assert reply.headers["location"] == f"/v1/refinements/{reply.json()['id']}"
    return dict(reply.json())


async def heard(
    client: httpx2.AsyncClient,
    run: str,
    on_event: Callable[[str], object] = lambda kind: None,
    **headers: str,
) -> list[tuple[str, str | None, Any]]:
    """The events of a run until it stands still: (type, id, data)."""
    found: list[tuple[str, str | None, Any]] = []
    async with client.stream("GET", f"/v1/refinements/{run}/events", headers=headers) as reply:
        assert reply.headers["content-type"].startswith("text/event-stream")
        fields: dict[str, str] = {}
        async for line in reply.aiter_lines():
            name, _, value = line.partition(": ")
            if line:
                fields[name] = value
            elif "data" in fields:
                found.append((fields["event"], fields.get("id"), json.loads(fields["data"])))
                on_event(fields["event"])
                fields = {}
    return found


async def ended(client: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    await heard(client, run)
    return dict((await client.get(f"/v1/refinements/{run}")).json())


async def test_a_run_is_asked_for_watched_and_done(client: httpx2.AsyncClient) -> None:
    run = await begin(client, rounds=2)
    told = await heard(client, run["id"])
    numbers = [int(number) for _, number, _ in told if number is not None]
    assert numbers == list(range(len(numbers)))
    kinds = [kind for kind, _, _ in told]
    assert kinds.index("run_started") < kinds.index("generated") < kinds.index("judged")
    assert "finished" in kinds
    assert told[-1][0] == "status"
    assert told[-1][2]["status"] == "finished"
    done = (await client.get(f"/v1/refinements/{run['id']}")).json()
    assert done["status"] == "finished"
    assert 1 <= len(done["rounds"]) <= 2
    assert done["summary"]["images"] == done["totals"]["images"] > 0
    assert done["rounds"][0]["loop_card"]["verdicts"]
    assert done["best_round"] is not None
    listed = (await client.get("/v1/refinements")).json()
    assert [item["id"] for item in listed["items"]] == [run["id"]]
    assert listed["items"][0]["title"] == run["title"]


async def test_who_comes_late_hears_what_was_missed(client: httpx2.AsyncClient) -> None:
    run = (await begin(client, rounds=2))["id"]
    whole = await heard(client, run)
    stored = [number for _, number, _ in whole if number is not None]
    later = await heard(client, run, **{"Last-Event-ID": "3"})
    assert [number for _, number, _ in later if number is not None] == stored[4:]
    for number in ("x", "-1", "1.5", "9" * 20, "\u0663"):
        known = {b"Last-Event-ID": number.encode()}
        wrong = await client.get(f"/v1/refinements/{run}/events", headers=known)
        assert wrong.status_code == 422
        assert "send the number of the last event of this run" in wrong.json()["detail"]


async def test_an_event_that_the_run_does_not_have_is_told(client: httpx2.AsyncClient) -> None:
    run = (await begin(client, rounds=1))["id"]
    whole = await heard(client, run)
    stored = [number for _, number, _ in whole if number is not None]
    last = len(stored) - 1
    rest = await heard(client, run, **{"Last-Event-ID": str(last)})
    assert [kind for kind, *_ in rest] == ["status"]
    for unknown in (last + 1, 999_999):
        kinds = await heard(client, run, **{"Last-Event-ID": str(unknown)})
        assert kinds[0][:2] == ("problem", None)
        assert f"no event {unknown}, it has {len(stored)} so far" in kinds[0][2]["detail"]
        assert [told for told in kinds if told[1] is not None] == [
            told for told in whole if told[1] is not None
        ]


async def test_images_are_kept_by_hash_and_cached(client: httpx2.AsyncClient) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    link = run["rounds"][0]["image"]
    whole = await client.get(link["url"])
    assert whole.content.startswith(b"\x89PNG")
    assert "immutable" in whole.headers["cache-control"]
    assert "private" in whole.headers["cache-control"]
    tag = whole.headers["etag"]
    assert (await client.get(link["url"], headers={"If-None-Match": tag})).status_code == 304
    small = await client.get(link["preview"])
    assert small.headers["content-type"] == "image/webp"
    assert small.headers["etag"] != tag
    lost = await client.get(f"/v1/refinements/{run['id']}/images/{'0' * 64}")
    assert lost.status_code == 404


async def test_the_same_idempotency_key_is_the_same_run(client: httpx2.AsyncClient) -> None:
    headers = {"Idempotency-Key": "once"}
    first = await client.post("/v1/refinements", json=SCENE, headers=headers)
    again = await client.post("/v1/refinements", json=SCENE, headers=headers)
    inside = await client.post("/v1/refinements", json={**SCENE, "idempotency_key": "once"})
    assert (first.status_code, again.status_code, inside.status_code) == (202, 200, 200)
    assert first.json()["id"] == again.json()["id"] == inside.json()["id"]
    other = await client.post("/v1/refinements", json={**SCENE, "rounds": 5}, headers=headers)
    assert other.status_code == 409
    both = await client.post(
        "/v1/refinements", json={**SCENE, "idempotency_key": "twice"}, headers=headers
    )
    assert both.status_code == 422


async def test_a_finished_run_is_corrected_and_goes_on(client: httpx2.AsyncClient) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    held = [v["fact_id"] for v in run["rounds"][0]["loop_card"]["verdicts"]]
    edit = {"verdicts": {held[0]: "no"}, "rounds": 1, "note": "look again", "idempotency_key": "e"}
    path = f"/v1/refinements/{run['id']}/edits"
    assert (await client.post(path, json=edit)).status_code == 202
    more = await ended(client, run["id"])
    assert more["status"] == "finished"
    assert len(more["rounds"]) == len(run["rounds"]) + 2
    assert more["rounds"][1]["image"] == run["rounds"][0]["image"]
    # The same edit again changes nothing, and another one does not hide behind its key.
    assert (await client.post(path, json=edit)).status_code == 202
    other = await client.post(path, json=edit | {"verdicts": {held[1]: "no"}})
    assert other.status_code == 409
    assert "'e' was used for another edit" in other.json()["detail"]
    assert len((await ended(client, run["id"]))["rounds"]) == len(more["rounds"])


async def test_keys_of_earlier_edits_are_remembered(client: httpx2.AsyncClient) -> None:
    run = (await begin(client, rounds=1))["id"]
    path, rounds = f"/v1/refinements/{run}/edits", len((await ended(client, run))["rounds"])
    first = {"add": "hat on dog", "rounds": 1, "idempotency_key": "first"}
    second = {"add": "cup on table", "rounds": 1, "idempotency_key": "second"}
    for edit in (first, second):
        assert (await client.post(path, json=edit)).status_code == 202
        done = await ended(client, run)
        assert len(done["rounds"]) > rounds
        rounds = len(done["rounds"])
    again = await client.post(path, json=first)
    assert (again.status_code, again.json()["status"]) == (202, "finished")
    assert (await client.post(path, json=first | {"note": "more"})).status_code == 409
    assert (await client.post(path, json=second | {"add": "cup on dog"})).status_code == 409
    after = await ended(client, run)
    assert len(after["rounds"]) == rounds
    assert [item["name"] for item in after["scene"]["objects"]].count("hat") == 1


async def test_a_fact_is_added(client: httpx2.AsyncClient) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    path = f"/v1/refinements/{run['id']}/edits"
    await client.post(path, json={"add": "hat on dog", "rounds": 1})
    more = await ended(client, run["id"])
    assert {item["name"] for item in more["scene"]["objects"]} == {"ball", "table", "dog", "hat"}
    assert len(more["scene"]["objects"]) == 4
    assert len(more["facts"]) == len(run["facts"]) + 2


@pytest.mark.parametrize(
    ("edit", "said"),
    [
        ({"base": 99}, "there is no round 99"),
        ({"verdicts": {"object:unicorn": "no"}}, "unicorn"),
        ({"add": "hat on"}, "hat on"),
        ({"rounds": 0}, "rounds"),
        ({"surprise": 1}, "surprise"),
    ],
)
async def test_a_wrong_edit_is_told_at_once_and_changes_nothing(
    client: httpx2.AsyncClient, edit: dict[str, Any], said: str
) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    reply = await client.post(f"/v1/refinements/{run['id']}/edits", json=edit)
    assert reply.status_code == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert said in reply.json()["detail"]
    after = (await client.get(f"/v1/refinements/{run['id']}")).json()
    assert (after["status"], after["rounds"]) == ("finished", run["rounds"])


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "give the scene once"),
        ({**SCENE, "text": "a ball"}, "give the scene once"),
        ({"triplets": ";;"}, "triplets"),
        ({"text": "of the"}, "names no object"),
        ({"scene": {"objects": [], "relations": []}}, "no objects"),
        ({**SCENE, "profile": "nowhere"}, "no profile 'nowhere'"),
        ({**SCENE, "judges": ["replay:/etc/passwd"]}, "no judge"),
        ({**SCENE, "strategy": "magic"}, "no strategy 'magic'"),
        ({**SCENE, "rounds": 1000}, "rounds"),
        ({**SCENE, "negative_prompt": "a\0b"}, "negative_prompt holds the character U+0000"),
        ({**SCENE, "\ud800": "a\0b"}, "? holds the character U+0000"),
    ],
)
async def test_a_wrong_request_says_how_to_mend_it(
    client: httpx2.AsyncClient, body: dict[str, Any], said: str
) -> None:
    headers = {"content-type": "application/json"}
    reply = await client.post("/v1/refinements", content=json.dumps(body), headers=headers)
    assert reply.status_code == 422
    assert said in reply.json()["detail"]
    assert (await client.get("/v1/refinements")).json()["items"] == []


async def test_no_text_is_taken_as_the_name_of_a_file(client: httpx2.AsyncClient) -> None:
    run = await begin(client, triplets="/etc/hostname")
    assert [item["name"] for item in run["scene"]["objects"]] == ["/etc/hostname"]


async def test_a_cancelled_run_stands_still_and_can_be_resumed(
    client: httpx2.AsyncClient,
) -> None:
    run = (await begin(client, rounds=3))["id"]
    reply = await client.post(f"/v1/refinements/{run}/cancel")
    assert reply.status_code in (202, 409)
    assert (await ended(client, run))["status"] in ("cancelled", "finished")
    if reply.status_code == 202 and (await ended(client, run))["status"] == "cancelled":
        assert (await client.post(f"/v1/refinements/{run}/resume")).status_code == 202
    assert (await ended(client, run))["status"] == "finished"


async def test_a_run_that_is_not_there(client: httpx2.AsyncClient) -> None:
    for method, path in (
        ("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("POST", "/pause"),
        ("POST", "/resume"),
    ):  # fmt: skip
        reply = await client.request(method, f"/v1/refinements/run_nothing{path}")
        assert reply.status_code == 404
        assert "no run" in reply.json()["detail"]
    assert (await client.get("/nothing")).json()["detail"].startswith("there is nothing at")


async def test_a_run_tells_which_door_it_came_through(client: httpx2.AsyncClient) -> None:
    assert (await begin(client))["door"] == "api"
    page = {"Sec-Fetch-Site": "same-origin"}
    assert (await client.post("/v1/refinements", json=SCENE, headers=page)).json()["door"] == "page"


async def test_a_run_is_taken_away_with_all_it_has(
    client: httpx2.AsyncClient, settings: ServiceSettings
) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    folder = settings.runs / run["id"]
    assert folder.is_dir()
    assert (await client.delete(f"/v1/refinements/{run['id']}")).status_code == 204
    assert not folder.exists()
    assert (await client.get("/v1/refinements")).json()["items"] == []
    for path in (f"/v1/refinements/{run['id']}", run["rounds"][0]["image"]["url"]):
        assert (await client.get(path)).status_code == 404
    assert (await client.delete(f"/v1/refinements/{run['id']}")).status_code == 404


async def test_many_runs_at_once_all_end(client: httpx2.AsyncClient) -> None:
    runs = await asyncio.gather(*(begin(client, rounds=2, seed=seed) for seed in range(8)))
    done = await asyncio.gather(*(ended(client, run["id"]) for run in runs))
    assert {run["status"] for run in done} == {"finished"}
    assert len({run["rounds"][0]["image"]["hash"] for run in done}) == 8


async def test_a_scene_is_parsed(client: httpx2.AsyncClient) -> None:
    reply = (await client.post("/v1/parse", json={"text": "A red ball lies on a table."})).json()
    assert {item["name"] for item in reply["scene"]["objects"]} == {"ball", "table"}
    assert "ball" in reply["triplets"]
    assert reply["facts"]


async def test_the_facts_of_a_parsed_scene_are_asked_as_its_profile_asks_them(
    client: httpx2.AsyncClient,
) -> None:
    async def options(**profile: str) -> list[str]:
        reply = await client.post("/v1/parse", json={"triplets": "dog left of ball", **profile})
        (found,) = [f["options"] for f in reply.json()["facts"] if f["kind"] == "relation"]
        return list(found)

    scene = load_scene("dog left of ball")
    for name in ("miniature", "sdxl"):
        asked = BUILT_IN[name].form().facts(scene)
        assert await options(drawn_by=name) == list(asked[-1].options)
    assert await options() == await options(drawn_by="miniature") != await options(drawn_by="sdxl")


async def test_an_image_is_scored(client: httpx2.AsyncClient) -> None:
    run = await ended(client, (await begin(client, rounds=1))["id"])
    image = (await client.get(run["rounds"][0]["image"]["url"])).content
    reply = await client.post("/v1/scores", data=SCENE, files={"image": ("a.png", image)})
    assert reply.status_code == 200, reply.text
    card = run["rounds"][0]["loop_card"]
    assert [v["state"] for v in reply.json()["loop"]["verdicts"]] == [
        v["state"] for v in card["verdicts"]
    ]
    assert reply.json()["missing"] is not None


async def test_the_choices_are_told(client: httpx2.AsyncClient) -> None:
    found = (await client.get("/v1/profiles")).json()
    assert "miniature" in {profile["name"] for profile in found["profiles"]}
    assert {"feedback", "router", "director"} <= set(found["strategies"])


async def test_the_service_is_alive_and_ready(client: httpx2.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json() == {"status": "ok"}


async def test_a_partial_image_is_streamed_and_lies_in_the_run_folder_while_it_is_news(
    settings: ServiceSettings,
) -> None:
    gate = Gate()
    app = create_app(settings, models=gated(gate))
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        run = (await begin(client, rounds=1))["id"]
        await gate.waiting(1)
        (place,) = await appeared(settings.data, f"**/{run}/{PARTIAL_IMAGE}")
        kept = json.loads(place.read_text())
        # Who comes later hears it too.
        told = await heard(client, run, lambda kind: kind == "partial_image" and gate.open())
    shown = [(number, data) for kind, number, data in told if kind == "partial_image"]
    assert shown[0] == (None, kept)
    assert (kept["round"], kept["purpose"], kept["step"], kept["of"]) == (0, "candidate", 1, 4)
    assert kept["image"].startswith("data:image/webp;base64,")
    assert not place.exists()
    assert b'"type":"partial_image"' not in (place.parent / "events.jsonl").read_bytes()


async def test_partial_images_are_wanted_only_while_somebody_follows(
    settings: ServiceSettings,
) -> None:
    gate, wanted = Gate(), []

    class Asking(ScriptedBackend):
        async def generate(self, request: Any, load: Any, on_step: Any = None) -> Any:
            await gate.passed()
            wanted.append(watched_by(on_step)())
            return await super().generate(request, load, on_step)

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        return {**scripted()(request), "backend": Asking(lambda asked: 40)}

    app = create_app(settings, models=models)
    async with serving(app) as url, httpx2.AsyncClient(base_url=url, timeout=60) as client:
        service = app.state.service
        run = (await begin(client, rounds=2))["id"]
        # Who waits for the end alone sees no picture before.
        waiting = asyncio.create_task(service.finished(LOCAL, await service.run(LOCAL, run)))
        await gate.waiting(1)
        gate.let()
        await gate.waiting(2)
        following = asyncio.create_task(heard(client, run))
        await listened(service.broadcaster, 2)
        gate.open()
        await following
        await waiting
    assert (wanted[0], set(wanted[1:])) == (False, {True})


async def listened(broadcaster: EventBroadcaster, count: int = 1) -> None:
    """Return once ``count`` clients listen."""
    async with asyncio.timeout(60):
        while broadcaster.listeners < count:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def appeared(folder: Path, pattern: str) -> list[Path]:
    """The files of a pattern as soon as there are any."""
    async with asyncio.timeout(60):
        while not (found := list(folder.glob(pattern))):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
    return found
