"""The live run page and the compare page as a browser without scripts gets them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx2
import pytest

from scenewright.config.settings import Settings, find_profile
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import BackendError
from scenewright.core.questions import facts_of
from scenewright.miniature.world import JUDGE_VOCABULARY
from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
from scenewright.service.core.store import Run
from scenewright.service.core.worker_thread import WorkerThread
from scenewright.service.web import rendering, run_page
from scenewright.service.web.compare import matched
from scenewright.service.web.run_page import with_record
from tests.service.gated import Gate, gated
from tests.service.serving import Models, scripted, serving

SCENE = "red ball on purple table; dog left of table; person holding umbrella"


@asynccontextmanager
async def talking(settings: ServiceSettings, models: Any) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service with these models."""
    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
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
    async with asyncio.timeout(60):
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
        # What a form sends under a key of its own is another run each time.
        own = re.compile(r'name="(key|seed)" value="\w*"')
        page = own.sub("", (await client.get(f"/runs/{run}")).text)
        fragment = own.sub("", (await client.get(f"/runs/{run}/main")).text)
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


def failing(message: str) -> Models:
    """Models of which the one that draws fails."""

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        given = dict(scripted()(request))
        given["backend"].failing = lambda request: BackendError(message)
        return given

    return models


async def test_a_failed_run_tells_the_error_and_offers_to_resume(
    settings: ServiceSettings,
) -> None:
    async with talking(settings, failing("the <b>card</b> is on fire")) as client:
        run = await begun(client)
        assert (await still(client, run))["status"] == "failed"
        page = (await client.get(f"/runs/{run}")).text
        assert "Failed" in plain(page)
        assert "The &lt;b&gt;card&lt;/b&gt; is on fire" in page
        assert "Nothing has been drawn; it can go on" in plain(page)
        assert 'data-act="resume"' in page


async def test_the_id_that_an_error_begins_with_stays_as_it_is(settings: ServiceSettings) -> None:
    async with talking(settings, failing("openai:gpt-image drew nothing")) as client:
        run = await begun(client)
        assert (await still(client, run))["status"] == "failed"
        assert ">openai:gpt-image drew nothing" in (await client.get(f"/runs/{run}")).text


async def test_an_error_keeps_its_lines_and_its_commands_are_blocks(
    settings: ServiceSettings,
) -> None:
    message = "no models:\n  sdxl  6.9 GB\nGet them with `scenewright models pull sdxl` (6.9 GB)."

    def models(request: RefinementRequest) -> Mapping[str, Any]:
        given = dict(scripted()(request))
        if request.profile == "sdxl":
            given["backend"].failing = lambda request: BackendError(message)
        return given

    async with talking(settings, models) as client:
        run = await begun(client, profile="sdxl", seed=5, strategy="feedback", rounds=1)
        await still(client, run)
        page = (await client.get(f"/runs/{run}")).text
        assert f'<p class="failure-text columns">N{message[1:]}</p>' in page
        assert re.findall(r'<div class="command"><code>([^<]*)</code>', page) == [
            "scenewright models pull sdxl"
        ]
        assert "Draw with the miniature instead" in page
        form = {"key": "k", "profile": "miniature"}
        made = await client.post(f"/runs/{run}/again", data=form)
        assert made.status_code == 303
        other = made.headers["location"].removeprefix("/runs/")
        found = await still(client, other)
        assert found["status"] == "finished"
        asked = found["request"]
        assert (asked["profile"], asked["seed"], asked["strategy"]) == ("miniature", 5, None)
        assert asked["scene"] == (await still(client, run))["request"]["scene"]
        assert "instead" not in plain((await client.get(f"/runs/{other}")).text)


async def test_a_scene_that_the_miniature_cannot_draw_is_not_offered_to_it(
    settings: ServiceSettings,
) -> None:
    def models(request: RefinementRequest) -> Mapping[str, Any]:
        small = request.profile == "miniature"
        given = dict(scripted(words=JUDGE_VOCABULARY if small else None)(request))
        given["backend"].failing = lambda request: RuntimeError("no weights")
        return given

    async with talking(settings, models) as client:
        for scene, offered in (("dog left of table", True), ("dragon riding unicorn", False)):
            run = await begun(client, profile="sdxl", triplets=scene)
            await still(client, run)
            page = (await client.get(f"/runs/{run}")).text
            assert ("miniature instead" in page) is offered, scene
            assert "New seed" in page


SENTENCE = "A red ball is on a purple table, furtively."


async def test_the_persons_sentence_is_the_title_everywhere(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, triplets=None, text=SENTENCE)
        found = await still(client, run)
        assert found["title"] == SENTENCE
        verdict = found["summary"]["verdict"]
        assert re.fullmatch(
            r"(5 of 5 checked facts hold|[0-4] of 5\. Missing: .*red ball.*)\. "
            r"Not checked: furtively\.",
            verdict,
        )
        underlined = '<u class="unread" title="not understood[^"]*">furtively</u>'
        # The scripted prompt says other words than the sentence: they are underlined too.
        heading = re.compile(r"<h1[^>]*>A (?:(?!</h1>).)*" + underlined)
        page = (await client.get(f"/runs/{run}")).text
        assert heading.search(page)
        kept = await client.get(f"/runs/{run}/page.html")
        assert heading.search(kept.text)
        assert (
            "a-red-ball-is-on-a-purple-table-furtively.html" in kept.headers["content-disposition"]
        )
        name = 'download="a-red-ball-is-on-a-purple-table-furtively.png"'
        assert re.search(rf'href="{found["image"]["url"]}" {name}', page)
        assert f">{SENTENCE}</a>" in (await client.get("/runs")).text
        # An edit of the scene makes another one of it.
        edit = {"add": "hat on ball", "rounds": 1}
        assert (await client.post(f"/v1/refinements/{run}/edits", json=edit)).status_code == 202
        await still(client, run)
        page = (await client.get(f"/runs/{run}")).text
        assert not heading.search(page)
        assert re.search(r"<h1[^>]*>hat on red ball|<h1[^>]*>red ball on purple table", page)


async def test_another_run_is_asked_for_from_every_run(settings: ServiceSettings) -> None:
    gate = Gate()
    async with talking(settings, gated(gate)) as client:
        run = await begun(client, triplets=None, text=SENTENCE, seed=7, rounds=2)
        await gate.waiting(1)
        page = (await client.get(f"/runs/{run}")).text
        assert f"/runs/{run}/again" not in page
        assert (await client.post(f"/v1/refinements/{run}/cancel")).status_code == 202
        found = await still(client, run)
        assert found["status"] == "cancelled"
        gate.open()
        page = (await client.get(f"/runs/{run}")).text
        assert f'href="/?like={run}"' in page
        key = re.search(r'name="key" value="([^"]+)"', page)
        seed = re.search(r'name="seed" value="(\d+)"', page)
        assert key
        assert seed
        assert seed[1] != "7"
        for given, wanted in (("", 7), (seed[1], int(seed[1]))):
            form = {"key": key[1], "seed": given}
            replies = [await client.post(f"/runs/{run}/again", data=form) for _ in range(2)]
            assert [reply.status_code for reply in replies] == [303, 303]
            places = {reply.headers["location"].removeprefix("/runs/") for reply in replies}
            assert run not in places
            (other,) = places
            again = await still(client, other)
            assert again["status"] == "finished"
            assert again["title"] == SENTENCE
            assert again["door"] == "page"
            assert again["request"] == found["request"] | {"seed": wanted}
        # What was edited is drawn as it was left.
        edit = {"add": "hat on ball", "rounds": 1}
        await client.post(f"/v1/refinements/{other}/edits", json=edit)
        changed = await still(client, other)
        reply = await client.post(f"/runs/{other}/again", data={"key": "another"})
        last = await still(client, reply.headers["location"].removeprefix("/runs/"))
        assert last["scene"] == changed["scene"] != found["scene"]
        assert "hat" in last["title"]
        wrong = await client.post(f"/runs/{other}/again", data={"seed": "many"})
        assert wrong.status_code == 422
        nobody = await client.post(f"/runs/run_{'0' * 32}/again")
        assert nobody.status_code == 404


async def test_every_fact_can_be_corrected(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, triplets=None, text="an oil painting of two dogs, no people")
        found = await still(client, run)
        kinds = {fact["kind"] for fact in found["facts"]}
        assert kinds == {"object", "count", "wish"}
        form = (await client.get(f"/runs/{run}/edit")).text
        for fact in found["facts"]:
            assert f'name="f{escape(fact["id"])}" value="no"' in form
        correction = {"verdicts": {fact["id"]: "yes" for fact in found["facts"]}, "rounds": 1}
        reply = await client.post(f"/v1/refinements/{run}/edits", json=correction)
        assert reply.status_code == 202
        ended = await still(client, run)
        assert ended["summary"]["verdict"].startswith("All 4 facts hold")


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
            card = round["report_card"] or round["loop_card"]
            return {v["fact_id"]: v["state"] for v in card["verdicts"]}

        before, after = states(found["rounds"][0]), states(found["rounds"][1])
        changed = [f for f in found["facts"] if before[f["id"]] != after[f["id"]]]
        assert changed
        told = re.findall(r'<span class="statement">([^<]*)</span>', page)
        assert told == [f["statement"] for f in changed]
        folded = page.partition('<details class="same">')[2]
        alike = [f["statement"] for f in found["facts"] if f not in changed]
        assert sorted(re.findall(r"<li>([^<]*?) *<", folded)) == sorted(alike)
        refused = await client.get(f"/runs/{run}/compare", params={"a": 0, "b": 9})
        assert refused.status_code == 404


async def test_two_runs_are_compared_without_a_script(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        sentence = "A red ball is on a table, furtively."
        one = await begun(client, triplets=None, text=sentence, rounds=1, seed=7)
        two = await begun(
            client, triplets="red ball on top of table; dog left of table", patience=9
        )
        first, second = await still(client, one), await still(client, two)
        path = f"/runs/{one}/compare"
        page = (await client.get(path, params={"with": two, "a": 0})).text
        assert forbidden(page) == []
        shown = [run["rounds"][run["best_round"]] for run in (first, second)]
        for round in shown:
            assert f'src="{round["image"]["url"]}"' in page
        words = plain(page)
        assert "A red ball is on a table, furtively ." in words
        assert "red ball on top of table; dog left of table" in words
        assert '<u class="unread"' in page
        states = [
            {
                fact["statement"]: verdict["state"]
                for verdict in round["loop_card"]["verdicts"]
                for fact in run["facts"]
                if fact["id"] == verdict["fact_id"]
            }
            for run, round in zip((first, second), shown, strict=True)
        ]
        common = {"ball", "table", "ball is red"}
        only = [set(found) - common for found in states]
        # The two say it in other words, and mean the same.
        assert only[0] == {"red ball on table"}
        assert only[1] == {"red ball on top of table", "dog", "dog left of table"}
        table = re.findall(r'<span class="statement">([^<]*)</span>', page)
        folded = page.partition('<details class="same"')[2].partition("</details>")[0]
        alike = re.findall(r"<li>([^<]*)</li>", folded)
        assert sorted(table + alike) == sorted({*common, "red ball on table"})
        assert table
        assert set(table) == {
            name
            for name, other in [
                *((n, n) for n in common),
                ("red ball on table", "red ball on top of table"),
            ]
            if states[0][name] != states[1][other]
        }
        alone = page.partition('id="h-alone"')[2].partition("</section>")[0]
        assert re.findall(r"<span>([^<]*)</span></li>", alone) == ["dog", "dog left of table"]
        figures = page.partition('id="h-figures"')[2]
        assert "Cost First run free Second run free" in plain(figures)
        assert "Seed First run 7 Second run 0" in plain(figures)
        assert f"{first['summary']['loop_score']:.2f}" in figures
        # The answer comes before all that can be chosen: which run holds more of its facts.
        answer = plain(page.partition('<p class="answer">')[2].partition("</p>")[0])
        held = [sum(state == "yes" for state in found.values()) for found in states]
        shares = [f"{n} of {len(found)}" for n, found in zip(held, states, strict=True)]
        better = 0 if held[0] / len(states[0]) > held[1] / len(states[1]) else 1
        assert held[0] / len(states[0]) != held[1] / len(states[1])
        name = ("first", "second")[better]
        assert answer.startswith(
            f"The {name} run holds more facts: {shares[better]} against {shares[1 - better]}. Of "
        )
        assert page.index('<p class="answer">') < page.index("<form class=")
        captions = [plain(one) for one in re.findall(r"<figcaption>(.*?)</figcaption>", page)]
        assert f"{sentence} · miniature, seed 7" in captions[0]
        assert "red ball on top of table; dog left of table · miniature, seed 0" in captions[1]
        turned = re.search(r'href="([^"]*)">Exchange the two', page)
        assert turned
        other = (await client.get(turned[1].replace("&amp;", "&"))).text
        pictures = re.findall(r'<img class="photo" src="([^"]+)"', page)
        assert re.findall(r'<img class="photo" src="([^"]+)"', other) == pictures[::-1]
        same = await client.get(path, params={"with": one, "a": 0})
        assert (same.status_code, same.headers["location"]) == (303, f"{path}?a=0")


async def test_runs_of_one_sentence_have_it_as_their_title(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        runs = [await begun(client, rounds=1, seed=seed) for seed in (0, 0)]
        for run in runs:
            await still(client, run)
        page = (await client.get(f"/runs/{runs[0]}/compare", params={"with": runs[1]})).text
        title = plain(page.partition("<h1")[2].partition("</h1>")[0])
        assert (
            "red ball on purple table; dog left of purple table; person holding umbrella" in title
        )
        assert "Both runs hold as many facts: " in page
        captions = [plain(one) for one in re.findall(r"<figcaption>(.*?)</figcaption>", page)]
        assert all(one.rstrip().endswith("miniature") for one in captions)


async def test_a_run_by_the_default_profile_names_it(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, rounds=1)
        found = await still(client, run)
        assert found["profile"] == found["request"]["profile"] == "miniature"
        (listed,) = (await client.get("/v1/refinements")).json()["items"]
        assert listed["profile"] == "miniature"
        assert "miniature · 1 round" in plain((await client.get("/runs")).text)


async def test_the_table_of_facts_explains_its_marks(settings: ServiceSettings) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, rounds=1)
        await still(client, run)
        table = (await client.get(f"/runs/{run}")).text.partition('id="h-facts"')[2]
        lead = plain(table.partition("<table")[0])
        assert "those of the loop, a bar, those of the report" in lead
        assert "tap it" in lead
        assert "<i></i>" in table


async def test_a_run_that_cannot_be_compared_says_why(settings: ServiceSettings) -> None:
    gate = Gate()
    async with talking(settings, gated(gate)) as client:
        gate.let(1)
        run = await begun(client, rounds=1)
        await still(client, run)
        waiting = await begun(client, triplets="cat on mat")
        await gate.waiting(2)
        path = f"/runs/{run}/compare"
        for other, status, told in (
            ("run_" + "0" * 32, 404, "is not there: choose another one"),
            (waiting, 409, "the second run, “cat on mat”, has no picture: wait for its first"),
        ):
            reply = await client.get(path, params={"with": other}, headers={"Accept": "text/html"})
            assert reply.status_code == status
            assert told in plain(reply.text).replace("T" + told[1:], told)
        wrong = await client.get(path, params={"with": run, "a": 5}, follow_redirects=True)
        assert wrong.status_code == 409
        gate.open()


def test_facts_of_two_scenes_are_matched_by_their_meaning() -> None:
    first, second = (
        facts_of(load_scene(text, format="triplets"))
        for text in (
            "red dog#1 beside cat; blue dog#2 beside cat; dog#2 left of tree",
            "red dog#1 next to cat; grey cat next to tree",
        )
    )
    pairs, (gone, new) = matched(first, second)
    told = [(one.statement, two.statement) for one, two in pairs]
    assert ("cat", "cat") in told
    assert ("red dog beside cat", "red dog next to cat") in told
    assert len({two.id for _, two in pairs}) == len(pairs)
    assert {fact.statement for fact in gone} >= {"dog (number 2)", "dog is blue"}
    assert {fact.statement for fact in new} >= {"cat is grey"}
    again, (nothing, neither) = matched(first, first)
    assert [one for one, _ in again] == [two for _, two in again] == list(first)
    assert nothing == neither == []


async def test_head_is_answered_like_get_and_renders_nothing(
    settings: ServiceSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with talking(settings, scripted()) as client:
        run = await begun(client, patience=9)
        await still(client, run)
        parts = ("", "/main", "/page.html", "/edit", "/compare", "/compare?a=77", "/edit?base=77")
        paths = ["/", "/runs", "/login", "/static/site.css", f"/runs/run_{'0' * 32}"]
        paths += [f"/runs/{run}{part}" for part in parts]
        client.headers["Accept"] = "text/html"
        replies = {path: await client.get(path) for path in paths}

        def rendered(*given: Any, **named: Any) -> str:
            raise AssertionError("HEAD renders a template")

        monkeypatch.setattr(rendering, "environment", rendered)
        monkeypatch.setattr(run_page, "render_run", rendered)
        for path, reply in replies.items():
            head = await client.head(path)
            assert (head.status_code, head.content) == (reply.status_code, b""), path
            for name in ("content-type", "cache-control", "content-disposition", "location"):
                assert head.headers.get(name) == reply.headers.get(name), (path, name)
            told = head.headers.get("content-length")
            assert told in (None, reply.headers.get("content-length")), path
        assert {reply.status_code for reply in replies.values()} == {200, 303, 404}


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
    thread = WorkerThread()
    service = SimpleNamespace(
        artifacts=SimpleNamespace(whole=whole), base=settings, worker_thread=thread
    )
    view, events = await with_record(cast(Service, service), cast(Run, run), lambda *told: told)
    thread.close()
    profile = find_profile("miniature", settings)
    assert profile.predicates == "miniature"
    assert (view.facts, events) == (profile.form(realism=True).facts(view.scene), 0)
