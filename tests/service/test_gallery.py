"""The gallery: cards, filters, paging, and what is nobody else's business."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.service.app import create_app
from scenewright.service.core.identity import LOCAL
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.web.gallery import PAGE
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.service.chromium import CHROMIUM, browsing
from tests.service.conftest import serving

DOUBTED = 2
"""A seed whose pictures show no relation to the judges of the report."""


class Gate(ScriptedBackend):
    """Draws when it may."""

    opened: asyncio.Event

    async def generate(self, *given: Any, **named: Any) -> Any:
        await self.opened.wait()
        return await super().generate(*given, **named)


class Place:
    """A service whose runs begin to draw when the test says so."""

    def __init__(self, data: Path) -> None:
        self.opened = asyncio.Event()
        self.app = create_app(ServiceSettings(data=data), models=self.models)
        self.url = ""

    def models(self, request: RefinementRequest) -> dict[str, Any]:
        backend = Gate(lambda asked: 0 if request.seed == 1 else 250)
        backend.opened = self.opened
        report = ScriptedJudge("b")
        if request.seed == DOUBTED:
            report.level = lambda fact: 255 if fact.kind == "relation" else 0
        return {
            "backend": backend,
            "judges": [ScriptedJudge("a")],
            "report_judges": [report],
            "composer": ScriptedComposer(),
        }

    async def ask(self, words: str, **more: Any) -> str:
        async with httpx2.AsyncClient(base_url=self.url, timeout=60) as client:
            reply = await client.post("/v1/refinements", json={"triplets": words, **more})
            assert reply.status_code == 202, reply.text
            return str(reply.json()["id"])

    async def ended(self, run: str) -> None:
        service = self.app.state.service
        async with asyncio.timeout(60):
            await service.finished(LOCAL, await service.run(LOCAL, run))

    async def html(self, path: str = "/runs") -> str:
        async with httpx2.AsyncClient(base_url=self.url, timeout=60) as client:
            reply = await client.get(path)
            assert reply.status_code == 200, reply.text
            return reply.text


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    found = Place(tmp_path / "data")
    async with serving(found.app) as found.url:
        yield found
        found.opened.set()


def cards(text: str) -> list[str]:
    return re.findall(r'<li class="card run-card" id="([^"]+)"', text)


async def test_the_empty_gallery_teaches(place: Place) -> None:
    text = await place.html()
    assert "Your runs will stand here" in text
    assert text.count('href="/?text=') >= 2
    assert "<form" not in text


async def test_a_card_tells_how_the_run_stands(place: Place) -> None:
    place.opened.set()
    good = await place.ask("red ball on table")
    bad = await place.ask("red ball on table", seed=1, rounds=1)
    await place.ended(good)
    await place.ended(bad)
    text = await place.html()
    assert cards(text) == [bad, good]
    worse, better = text.split('<li class="card run-card"')[1:]
    assert "All 4 facts hold" in better
    assert "1.00" in better
    assert "1 round" in better
    assert "free" in better
    assert "0 of 4. Missing: red ball on table" in worse
    assert "0.00" in worse
    source = re.search(r'<img src="([^"]+)" alt="Round 0 of: red ball on table"', better)
    assert source
    async with httpx2.AsyncClient(base_url=place.url, timeout=60) as client:
        assert (await client.get(source[1])).headers["content-type"] == "image/webp"
    assert cards(await place.html("/runs?missing=yes")) == [bad]


async def test_a_card_tells_that_the_report_denies_a_fact(place: Place) -> None:
    place.opened.set()
    run = await place.ask("red ball on table", seed=DOUBTED)
    agreed = await place.ask("red ball on table")
    for one in (run, agreed):
        await place.ended(one)
    sure, unsure = (await place.html()).split('<li class="card run-card"')[1:]
    said = "3 of 4. Missing: red ball on table. The judges that steered the drawing find all 4."
    assert said in unsure
    assert "icon s-unscored" in unsure
    assert "icon s-yes" not in unsure
    assert "icon s-yes" in sure
    async with httpx2.AsyncClient(base_url=place.url, timeout=60) as client:
        told = [(await client.get(f"/v1/refinements/{one}")).json() for one in (run, agreed)]
    assert [one["summary"]["confirmed"] for one in told] == [False, True]


async def test_filters_and_their_way_out(place: Place) -> None:
    place.opened.set()
    ball = await place.ask("red ball on table")
    await place.ended(ball)
    place.opened.clear()
    dog = await place.ask("dog left of tree")
    assert cards(await place.html("/runs?words=BALL+table")) == [ball]
    assert cards(await place.html("/runs?status=finished")) == [ball]
    assert cards(await place.html("/runs?status=queued&status=running")) == [dog]
    assert set(cards(await place.html("/runs?status=&words="))) == {ball, dog}
    nothing = await place.html("/runs?words=zebra")
    assert cards(nothing) == []
    assert "No run is like that" in nothing
    assert 'href="/runs"' in nothing
    assert 'value="zebra"' in nothing
    await place.html("/runs?status=bogus")


async def test_a_second_run_is_chosen_to_compare_with(place: Place) -> None:
    place.opened.set()
    ball = await place.ask("red ball on table")
    dog = await place.ask("dog left of tree")
    for run in (ball, dog):
        await place.ended(run)
    place.opened.clear()
    waits = await place.ask("cat on mat")
    text = await place.html()
    assert sorted(re.findall(r'href="/runs\?compare=([^"]+)"', text)) == sorted([ball, dog])
    chosen = await place.html(f"/runs?compare={ball}")
    assert cards(chosen) == [waits, dog, ball]
    # Only a run with a picture, and not the run itself, can be chosen.
    assert re.findall(r'<h2><a href="([^"]+)"', chosen) == [f"/runs/{ball}/compare?with={dog}"]
    assert "First run: red ball on table" in chosen
    nothing = await place.html(f"/runs?compare={ball}&words=zebra")
    assert f'href="/runs?compare={ball}"' in nothing
    assert f'name="compare" value="{ball}"' in nothing
    async with httpx2.AsyncClient(base_url=place.url, timeout=60) as client:
        assert (await client.get(f"/runs?compare=run_{'0' * 32}")).status_code == 404


async def test_names_are_shown_as_text(place: Place) -> None:
    name = "<script>alert(1)</script>"
    scene = {"objects": [{"id": "x", "name": name}]}
    async with httpx2.AsyncClient(base_url=place.url, timeout=60) as client:
        await client.post("/v1/refinements", json={"scene": scene})
        text = (await client.get("/runs", params={"words": '"><script>alert'})).text
        everything = await place.html()
    assert "<script>alert" not in text + everything
    assert "&lt;script&gt;alert(1)" in everything


async def test_older_runs_are_pages_away(place: Place) -> None:
    store = place.app.state.service.store
    request = RefinementRequest.model_validate({"scene": {"objects": [{"id": "a", "name": "a"}]}})
    made = [
        (await store.create("local", request.model_dump(mode="json"), title=f"thing {i}"))[0].id
        for i in range(PAGE + 2)
    ]
    first = await place.html("/runs?words=thing")
    assert cards(first) == made[:1:-1]
    following = re.search(r'href="([^"]+)" rel="next"', first)
    assert following
    second = await place.html(following[1].replace("&amp;", "&"))
    assert cards(second) == made[1::-1]
    assert 'rel="next"' not in second
    assert 'href="/runs?words=thing"' in second


async def test_runs_of_others_are_not_there(place: Place) -> None:
    store = place.app.state.service.store
    request = RefinementRequest.model_validate({"scene": {"objects": [{"id": "a", "name": "a"}]}})
    theirs, _ = await store.create("other", request.model_dump(mode="json"), title="secret thing")
    text = await place.html()
    assert "secret" not in text
    async with httpx2.AsyncClient(base_url=place.url, timeout=60) as client:
        assert (await client.get(f"/runs?before={theirs.id}")).status_code == 404
        assert (await client.get(f"/?like={theirs.id}")).status_code == 404


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
async def test_cards_change_while_the_page_is_open(place: Place, tmp_path: Path) -> None:
    run = await place.ask("red ball on table")
    async with browsing(tmp_path / "profile") as tab:
        await tab.size(375, 800)
        await tab.open(f"{place.url}/runs")
        await tab.until("document.querySelector('time').textContent === 'just now'")
        await tab.js("document.querySelector('h2 a').focus()")
        place.opened.set()
        await place.ended(run)
        await tab.until("document.querySelector('.run-card').dataset.status === 'finished'")
        assert "facts hold" in await tab.js("document.querySelector('.said').textContent")
        assert await tab.js("document.activeElement === document.querySelector('h2 a')")
        assert "finished" in await tab.js("document.getElementById('news').textContent")
        assert await tab.js("document.documentElement.scrollWidth") <= 375
        assert tab.console == []


@pytest.mark.browser
@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed")
async def test_new_runs_come_by_themselves_and_leave_the_reader_where_they_are(
    place: Place, tmp_path: Path
) -> None:
    place.opened.set()
    async with browsing(tmp_path / "profile") as tab:
        await tab.size(375, 600)
        await tab.open(f"{place.url}/runs")
        assert await tab.js("document.getElementById('cards')") is None
        first = await place.ask("red ball on table")
        await tab.until(f"document.getElementById('{first}')")
        old = [await place.ask(f"thing{i} on table") for i in range(7)]
        await tab.until(f"document.getElementById('{old[-1]}')")
        for run in old:
            await place.ended(run)
        await tab.until("!document.querySelector('[data-status=queued], [data-status=running]')")
        await tab.js(f"window.read = document.getElementById('{first}')")
        await tab.js("window.read.scrollIntoView({block: 'center'})")
        before = await tab.js("[scrollY, window.read.getBoundingClientRect().top]")
        assert before[0] > 100
        new = await place.ask("dog left of tree")
        await tab.until(f"document.getElementById('{new}')")
        after = await tab.js("[scrollY, window.read.getBoundingClientRect().top]")
        assert after[0] > before[0]
        assert after[1] == pytest.approx(before[1], abs=2)
        order = await tab.js("[...document.querySelectorAll('.run-card')].map(card => card.id)")
        assert order == [new, *reversed(old), first]
        await place.ended(new)
        assert "dog left of tree" in await tab.js("document.getElementById('news').textContent")
        # At the top, a new run is seen at once.
        await tab.js("scrollTo(0, 0)")
        newest = await place.ask("hat on dog")
        await tab.until(f"document.getElementById('{newest}')")
        assert await tab.js("scrollY") == 0
        assert tab.console == []
