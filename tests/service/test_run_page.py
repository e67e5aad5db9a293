"""The live run page and the compare page as a browser without scripts gets them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2

from scenewright.config.settings import Settings, find_profile
from scenewright.core.formats import load_scene
from scenewright.service.app import create_app
from scenewright.service.core.aside import Aside
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run
from scenewright.service.web.run_page import seen
from tests.service.gated import Gate, gated
from tests.service.serving import scripted, serving

SCENE = "red ball on purple table; dog left of table; person holding umbrella"


@asynccontextmanager
async def talking(settings: ServiceSettings, models: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service with these models."""
    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=20) as client,
    ):
        yield client


async def begun(client: httpx2.AsyncClient, **request: Any) -> str:
    """A run that was asked for; its id."""
    given = {"triplets": SCENE, **request}
    reply = await client.post("/v1/refinements", json=given)
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


async def still(client: httpx2.AsyncClient, run: str) -> dict[str, Any]:
    """The run once it stands still."""
    async with asyncio.timeout(20):
        async with client.stream("GET", f"/v1/refinements/{run}/events") as reply:
            async for _ in reply.aiter_lines():
                pass
        found = (await client.get(f"/v1/refinements/{run}")).json()
    return dict(found)


def plain(page: str) -> str:
    """The words of a page."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", page))


class _Reader(HTMLParser):
    """Notes what a page must not hold."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and not given.get("src"):
            self.wrong.append("a script in the page")
        self.wrong += [f"{tag} {name}" for name in given if name.startswith("on")]
        for name in ("src", "href", "action"):
            if re.match(r"[a-z]+:|//", given.get(name) or ""):
                self.wrong.append(f"{tag} {name}={given[name]}")


def forbidden(page: str) -> list[str]:
    """What a page must not hold: scripts in it, handlers, addresses of other hosts."""
    reader = _Reader()
    reader.feed(page)
    return reader.wrong


async def test_a_finished_run_has_its_rounds_and_pictures_by_address(
    settings: ServiceSettings,
) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client)
        found = await still(client, run)
        page = (await client.get(f"/runs/{run}")).text
        assert forbidden(page) == []
        assert "data:image" not in page
        for round in found["rounds"]:
            assert f'src="{round["image"]["url"]}"' in page
            assert f'id="round-{round["round"]}"' in page
            picture = await client.get(round["image"]["url"])
            assert picture.headers["content-type"] == "image/png"
        assert "Finished" in plain(page)
        assert 'data-act="edit"' in page
        assert 'data-act="pause"' not in page


async def test_the_fragment_is_the_main_part_of_the_page(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client)
        await still(client, run)
        page = (await client.get(f"/runs/{run}")).text
        fragment = (await client.get(f"/runs/{run}/main")).text
        assert fragment.strip().startswith("<main")
        assert fragment.strip() in page


async def test_a_waiting_run_tells_its_place_and_shows_its_scene(
    settings: ServiceSettings,
) -> None:
    gate = Gate()
    one = settings.model_copy(update={"running": 1})
    async with talking(one, gated(gate)) as client:
        first = await begun(client)
        await gate.waiting(1)
        second, third = await begun(client, seed=2), await begun(client, seed=3)
        page = (await client.get(f"/runs/{first}")).text
        assert "Round 0: drawing the scene" in plain(page)
        assert 'http-equiv="refresh"' in page
        page = (await client.get(f"/runs/{second}")).text
        assert "Waiting" in plain(page)
        assert "It is next" in plain(page)
        page = (await client.get(f"/runs/{third}")).text
        assert "1 run before it" in plain(page)
        assert "umbrella" in plain(page)
        assert "What the judges will be asked" in plain(page)
        assert 'class="graph"' in page
        assert 'data-act="cancel"' in page
        refused = await client.get(f"/runs/{third}/page.html")
        assert refused.status_code == 409
        assert "wait" in refused.json()["detail"]
        gate.open()


async def test_a_failed_run_tells_the_error_and_offers_to_resume(
    settings: ServiceSettings,
) -> None:
    def models(request: RefinementRequest) -> Mapping[str, Any]:
        given = dict(scripted()(request))
        given["backend"].failing = lambda request: RuntimeError("the <b>card</b> is on fire")
        return given

    async with talking(settings, models) as client:
        run = await begun(client)
        assert (await still(client, run))["status"] == "failed"
        page = (await client.get(f"/runs/{run}")).text
        assert "Failed" in plain(page)
        assert "the &lt;b&gt;card&lt;/b&gt; is on fire" in page
        assert 'data-act="resume"' in page


async def test_what_people_write_is_text(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        evil = "<script>alert(1)</script>"
        scene = {
            "objects": [
                {"id": "a", "name": evil, "attributes": {"color": '"><img src=x onerror=alert(1)>'}}
            ],
            "relations": [],
        }
        run = await begun(client, triplets=None, scene=scene)
        await still(client, run)
        for path in ("", "/main", "/edit", "/compare"):
            reply = await client.get(f"/runs/{run}{path}")
            if reply.status_code == 409:
                continue
            assert evil not in reply.text
            assert "<img src=x" not in reply.text
            assert forbidden(reply.text) == []
        frozen = (await client.get(f"/runs/{run}/page.html")).text
        assert evil not in frozen


async def test_the_page_can_be_kept(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client)
        await still(client, run)
        reply = await client.get(f"/runs/{run}/page.html")
        kind = reply.headers["content-disposition"]
        assert re.fullmatch(r'attachment; filename="[a-z0-9-]+\.html"', kind)
        assert "data:image/webp;base64," in reply.text
        assert "/v1/refinements" not in reply.text
        assert "data-act" not in reply.text
        assert re.findall(r'(?:src|href)="(?!data:|#)[^"]*"', reply.text) == []


async def test_the_edit_form_is_of_the_candidate_that_is_asked_for(
    settings: ServiceSettings,
) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client)
        found = await still(client, run)
        form = (await client.get(f"/runs/{run}/edit", params={"base": 0})).text
        assert found["rounds"][0]["image"]["url"] in form
        assert re.search(r'<option value="0" selected', form)
        for fact in found["facts"]:
            assert fact["statement"] in form
        kept = (await client.get(f"/runs/{run}/edit")).text
        assert re.search(rf'<option value="{found["best_round"]}" selected', kept)
        refused = await client.get(f"/runs/{run}/edit", params={"base": 77})
        assert refused.status_code == 404
        assert "choose one of rounds 0" in refused.json()["detail"]


async def test_two_rounds_are_compared_without_a_script(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, patience=5)
        found = await still(client, run)
        page = (await client.get(f"/runs/{run}/compare", params={"a": 0, "b": 1})).text
        assert forbidden(page) == []
        for round in found["rounds"][:2]:
            assert f'src="{round["image"]["url"]}"' in page

        def states(round: dict[str, Any]) -> dict[str, str]:
            return {v["fact_id"]: v["state"] for v in round["loop_card"]["verdicts"]}

        before, after = states(found["rounds"][0]), states(found["rounds"][1])
        changed = [f for f in found["facts"] if before[f["id"]] != after[f["id"]]]
        assert changed
        told = re.findall(r'<span class="statement">([^<]*)</span>', page)
        assert told == [f["statement"] for f in changed]
        folded = page.partition('<details class="same">')[2]
        alike = [f["statement"] for f in found["facts"] if f not in changed]
        assert sorted(re.findall(r"<li>([^<]*)</li>", folded)) == sorted(alike)
        refused = await client.get(f"/runs/{run}/compare", params={"a": 0, "b": 9})
        assert refused.status_code == 404


async def test_an_unknown_run_has_no_page(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        for path in ("", "/main", "/edit", "/compare", "/page.html"):
            reply = await client.get(f"/runs/run_00000000000000000000000000000000{path}")
            assert reply.status_code == 404


async def test_a_run_that_waits_shows_the_questions_that_it_will_ask(tmp_path: Path) -> None:
    request = RefinementRequest(scene=load_scene(SCENE, format="triplets"), realism=True)
    run = SimpleNamespace(id="a" * 8, created=0.0, request=request.model_dump(mode="json"))

    async def whole(_: str) -> Path:
        return tmp_path

    settings = Settings()
    aside = Aside()
    service = SimpleNamespace(artifacts=SimpleNamespace(whole=whole), base=settings, aside=aside)
    view, events = await seen(cast(Service, service), cast(Run, run), lambda *told: told)
    aside.close()
    profile = find_profile("miniature", settings)
    assert profile.predicates == "miniature"
    assert (view.facts, events) == (profile.form(realism=True).facts(view.scene), 0)
