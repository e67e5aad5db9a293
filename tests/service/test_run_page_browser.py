"""The live run page in headless Chromium: it follows its run, and a person corrects it there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.core.ports.backend import BackendError
from scenewright.service.app import create_app
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.settings import ServiceSettings
from tests.service.chromium import CHROMIUM, Tab, launched, tabbing
from tests.service.gated import Gate, gated
from tests.service.serving import scripted, serving
from tests.service.test_run_page import begun, still

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

ROUNDS = "document.querySelectorAll('.round').length"
PICTURES = "document.querySelectorAll('.round > .zoom > img.photo').length"


@pytest.fixture
def gate() -> Gate:
    """Where the drawings of a run wait."""
    return Gate()


@pytest.fixture
async def client(settings: ServiceSettings, gate: Gate) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of a service whose drawings wait at the gate."""
    async with (
        serving(create_app(settings, models=gated(gate))) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as found,
    ):
        yield found
        gate.open()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a browser."""
    with launched(tmp_path_factory.mktemp("browser") / "profile") as address:
        yield address


@pytest.fixture
async def tab(browser: str) -> AsyncIterator[Tab]:
    """A page of its own in the browser."""
    async with tabbing(browser) as found:
        await found.size(1280)
        yield found


async def status(tab: Tab, wanted: str) -> None:
    """Wait until the page shows a status."""
    await tab.until(f"document.querySelector('main').dataset.status === {json.dumps(wanted)}")


async def downloaded(folder: Path, name: str) -> Path:
    """The file that the browser has put into a folder."""
    async with asyncio.timeout(60):
        while True:
            found = next(folder.glob(name), None)
            if found is not None:
                return found
            await asyncio.sleep(0.05)


async def events(client: httpx2.AsyncClient, run: str, kind: str) -> list[dict[str, Any]]:
    """Events of one type of a run that stands still."""
    text = (await client.get(f"/v1/refinements/{run}/events")).text
    found = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: ")]
    return [event for event in found if event.get("type") == kind]


async def test_rounds_appear_as_they_happen_and_nothing_is_lost_on_the_way(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab
) -> None:
    run = await begun(client, patience=9)
    await tab.open(f"{client.base_url}/runs/{run}")
    await tab.js("window.mark = document.querySelector('#h-facts')")
    await gate.waiting(1)
    gate.let()
    await tab.until(f"{PICTURES} === 1")
    # The reference image of round 1 waits now; what a person does meanwhile stays.
    await gate.waiting(2)
    await tab.until(f"{ROUNDS} === 2")
    await tab.until("document.querySelector('#now').textContent.includes('what is missing 1/4')")
    assert await tab.js("[document.querySelector('#steps').value, steps.max]") == [1, 4]
    await tab.js("document.querySelector('label[for=g0]').click()")
    await tab.js("document.querySelector('#h-facts').closest('details').open = true")
    await tab.js("document.querySelector('.facts td .cell').focus()")
    await tab.js("window.held = document.activeElement")
    await tab.js("document.querySelector('.rail').scrollLeft = 30")
    gate.let(2)
    await tab.until(f"{PICTURES} === 2")
    await tab.until("document.querySelectorAll('.facts thead th').length === 4")
    assert await tab.js("document.activeElement === window.held && window.held.isConnected")
    assert await tab.js("document.querySelector('#g0').checked")
    assert await tab.js("document.querySelector('#h-facts').closest('details').open")
    assert await tab.js("document.querySelector('#h-rounds').closest('details').open")
    assert not await tab.js("document.querySelector('#h-score').closest('details').open")
    gate.open()
    await status(tab, "finished")
    await tab.until(f"{PICTURES} === 3")
    assert await tab.js("window.mark.isConnected")
    assert await tab.js("document.querySelectorAll('.facts .s-yes').length > 0")
    assert await tab.js("document.querySelectorAll('.facts .s-no').length > 0")
    await tab.until("document.querySelector('#told').textContent.includes('is finished')")
    assert (await tab.js("document.title")).startswith("Finished")
    assert tab.console == []
    # The page that followed the run is the page that is loaded anew.
    followed = await tab.js("document.querySelector('main').textContent")
    await tab.send("Page.reload")
    await tab.until("!window.mark && document.readyState === 'complete'")
    loaded = await tab.js("document.querySelector('main').textContent")
    assert loaded.split() == followed.split()


async def test_a_picture_emerges_where_the_drawn_one_will_be(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab
) -> None:
    run = await begun(client, patience=9)
    await gate.waiting(1)
    # The page comes after the partial image was told.
    await tab.open(f"{client.base_url}/runs/{run}")
    await tab.until("document.querySelector('.hero-shot .emerging')?.naturalWidth === 64")
    shown = "document.querySelector('.hero-shot [data-emerging]').innerText"
    assert await tab.js(shown) == "Being drawn"
    assert await tab.js("document.querySelector('.emerging').alt") == "Round 0 while it is drawn"
    assert await tab.js("document.querySelector('.emerging').clientWidth") > 400
    # A fresh look at the run leaves it there.
    await tab.js("document.querySelector('[data-act=pause]').click()")
    await tab.until("document.querySelector('main').dataset.wants === 'pause'")
    assert await tab.js("document.querySelectorAll('.emerging').length") == 1
    gate.let()
    await tab.until(f"{PICTURES} === 1")
    await status(tab, "paused")
    assert await tab.js("document.querySelectorAll('.emerging').length") == 0
    await tab.js("document.querySelector('[data-act=resume]').click()")
    await gate.waiting(2)
    await tab.until("document.querySelector('#round-1 .emerging')?.naturalWidth === 64")
    assert "What is missing" in await tab.js(
        "document.querySelector('#round-1 [data-emerging]').innerText"
    )
    # The picture that is kept so far stays where it is large.
    assert await tab.js("document.querySelector('.hero-shot .zoom img').naturalWidth") > 0
    gate.open()
    await status(tab, "finished")
    assert await tab.js("document.querySelectorAll('.emerging').length") == 0
    assert tab.console == []
    assert not await events(client, run, "partial_image")


async def test_a_person_corrects_the_missing_graph_by_keyboard_and_keeps_the_page(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab, tmp_path: Path
) -> None:
    await tab.open(f"{client.base_url}/")
    await tab.js("document.querySelector('#text').focus()")
    await tab.type("A red ball is on a purple table. A dog is left of the table.")
    await tab.click("#draw")
    await tab.until("location.pathname.startsWith('/runs/run_') && document.querySelector('#now')")
    run = str(await tab.js("location.pathname.slice(6)"))
    for number in (1, 2, 3):
        gate.let(1 if number == 1 else 2)
        await tab.until(f"{PICTURES} === {number}")
    await status(tab, "finished")
    gate.open()
    found = await still(client, run)
    await tab.js("document.querySelector('[data-act=edit]').focus()")
    await tab.press("Enter")
    await tab.until("document.querySelector('#edit-form')")
    await tab.until("document.activeElement.id === 'h-editing'")
    kept = next(r for r in found["rounds"] if r["round"] == found["best_round"])
    states = {v["fact_id"]: v["state"] for v in kept["loop_card"]["verdicts"]}
    fact = next(f for f in found["facts"] if f["kind"] == "object" and states[f["id"]] == "yes")
    part = f"#edit-drawing .node[data-fact={json.dumps(fact['id'])}]"
    for _ in range(60):
        await tab.press("Tab")
        if await tab.js(f"document.activeElement.matches({json.dumps(part)})"):
            break
    await tab.press("Enter")
    await tab.until(f"document.querySelector({json.dumps(part)}).classList.contains('s-no')")
    missing = await tab.js("document.querySelector('#edit-missing').textContent")
    assert fact["statement"] in missing
    await tab.js("document.querySelector('#edit-add').focus()")
    await tab.type("dog left of dog")
    await tab.press("Enter")
    await tab.until("!document.querySelector('#edit-problem').hidden")
    problem = await tab.js("document.querySelector('#edit-problem').textContent")
    assert "name two objects" in problem
    await tab.js("document.querySelector('#edit-add').value = 'hat on dog'")
    await tab.js("document.querySelector('#edit-note').value = 'a <i>hat</i> too'")
    await tab.js("document.querySelector('#edit-rounds').value = 1")
    await tab.js("document.querySelector('#edit-send').focus()")
    await tab.press("Enter")
    before = len(found["rounds"])
    await tab.until(f"{PICTURES} === {before + 2}")
    await status(tab, "finished")
    assert await tab.js("document.querySelector('#editing').hidden")
    told = (await events(client, run, "edited"))[0]
    assert told["base"] == found["best_round"]
    assert told["verdicts"][fact["id"]] == "no"
    assert told["note"] == "a <i>hat</i> too"
    assert any(o["name"] == "hat" for o in told["scene"]["objects"])
    await tab.until("document.querySelector('.facts').textContent.includes('hat')")
    assert await tab.js("document.querySelectorAll('main i:not(.pips i)').length") == 0

    folder = tmp_path / "downloads"
    await tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    await tab.click("a[href$='page.html']")
    kept_page = (await downloaded(folder, "*.html")).read_text(encoding="utf-8")
    assert "data:image/webp;base64," in kept_page
    assert "hat" in kept_page
    # The problem document of the refused edit is the only thing the console may name.
    assert [line for line in tab.console if "422" not in line] == []


async def test_a_running_run_is_paused_edited_and_goes_on_from_an_older_picture(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab
) -> None:
    run = await begun(client, patience=9)
    await tab.open(f"{client.base_url}/runs/{run}")
    gate.let(1)
    await gate.waiting(2)
    await tab.until(f"{ROUNDS} === 2")
    await tab.click("#round-0 [data-act=edit]")
    await tab.until("document.querySelector('#edit-form')")
    assert await tab.js("document.querySelector('#edit-send').disabled")
    await tab.until("document.querySelector('#now').textContent.includes('pauses')")
    await tab.js("document.querySelector('#edit-note').value = 'typed while it works'")
    gate.let(2)
    await status(tab, "paused")
    await tab.until("!document.querySelector('#edit-send').disabled")
    assert await tab.js("document.querySelector('#edit-note').value") == "typed while it works"
    assert await tab.js("document.querySelector('#edit-base').value") == "0"
    # Another picture, and the same again: what was typed comes along.
    await tab.click("#round-1 [data-act=edit]")
    await tab.until("document.querySelector('#edit-base').value === '1'")
    await tab.click("#round-0 [data-act=edit]")
    await tab.until("document.querySelector('#edit-base').value === '0'")
    assert await tab.js("document.querySelector('#edit-note').value") == "typed while it works"
    gate.open()
    await tab.click("#edit-send:enabled")
    await status(tab, "finished")
    told = (await events(client, run, "edited"))[0]
    assert told["base"] == 0
    assert told["note"] == "typed while it works"


async def test_cancel_and_resume(client: httpx2.AsyncClient, gate: Gate, tab: Tab) -> None:
    run = await begun(client)
    await tab.open(f"{client.base_url}/runs/{run}")
    gate.let(1)
    await gate.waiting(2)
    await tab.until(f"{PICTURES} === 1")
    await tab.click("[data-act=cancel]")
    await status(tab, "cancelled")
    gate.open()
    await tab.click("[data-act=resume]")
    await status(tab, "finished")
    await tab.until(f"{PICTURES} > 1")
    assert tab.console == []


async def test_the_picture_enlarges_and_is_downloaded_under_its_name(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab, tmp_path: Path
) -> None:
    gate.open()
    run = await begun(client, triplets=None, text="A red ball is on a table.")
    found = await still(client, run)
    await tab.open(f"{client.base_url}/runs/{run}")
    assert await tab.js("document.querySelector('h1').textContent") == "A red ball is on a table."
    assert await tab.js("document.querySelector('.hero-shot img').clientWidth") > 480
    await tab.js("document.querySelector('.hero-shot .zoom').focus()")
    await tab.press("Enter")
    await tab.until("document.querySelector('dialog[open]')")
    shown = await tab.js(
        "(() => { const b = document.querySelector('dialog[open] img').getBoundingClientRect();"
        "return [b.width, b.height]; })()"
    )
    assert shown[0] > 1200
    assert shown[1] > 780
    assert await tab.js("document.querySelector('dialog').contains(document.activeElement)")
    folder = tmp_path / "downloads"
    await tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(folder))
    await tab.click("dialog a[download]")
    file = await downloaded(folder, "*.png")
    assert file.name == "a-red-ball-is-on-a-table.png"
    assert file.read_bytes() == (await client.get(found["image"]["url"])).content
    assert await tab.js("document.querySelector('dialog').open")
    await tab.press("Escape")
    await tab.until("!document.querySelector('dialog').open")
    assert await tab.js("document.activeElement.matches('.hero-shot .zoom')")
    # Pictures of rounds enlarge too, and a click beside the picture closes it.
    await tab.click("#h-rounds")
    await tab.click("#round-0 .zoom")
    await tab.until("document.querySelector('dialog').open")
    alt = await tab.js("document.querySelector('dialog img').alt")
    assert alt.startswith("Round 0: red ball on table")
    await tab.pointer("mousePressed", 20, 20)
    await tab.pointer("mouseReleased", 20, 20)
    await tab.until("!document.querySelector('dialog').open")
    assert tab.console == []


async def test_a_new_seed_is_a_click_away(client: httpx2.AsyncClient, gate: Gate, tab: Tab) -> None:
    gate.open()
    run = await begun(client, triplets=None, text="A red ball is on a table.", rounds=1)
    await still(client, run)
    await tab.open(f"{client.base_url}/runs/{run}")
    await tab.click(".again button:last-of-type")
    await tab.until(
        "location.pathname.startsWith('/runs/run_') && document.querySelector('main')"
        f" && !location.href.includes('{run}')"
    )
    await status(tab, "finished")
    other = str(await tab.js("location.pathname.slice(6)"))
    found = (await client.get(f"/v1/refinements/{other}")).json()
    assert found["request"]["seed"] > 0
    assert found["title"] == "A red ball is on a table."
    await tab.js(
        "[...document.querySelectorAll('a')].find(a => a.textContent === 'Change scene').click()"
    )
    await tab.until(
        "location.search.startsWith('?like=') && document.querySelectorAll('.ge-node').length === 2"
    )
    assert await tab.js("document.querySelector('#text').value") == "A red ball is on a table."
    assert await tab.js("document.querySelector('#seed').value") == str(found["request"]["seed"])
    assert tab.console == []


async def test_a_command_of_an_error_is_copied(settings: ServiceSettings, tab: Tab) -> None:
    def models(request: RefinementRequest) -> Mapping[str, Any]:
        given = dict(scripted()(request))
        given["backend"].failing = lambda request: BackendError(
            "no key:\nset one with `scenewright keys set openai`."
        )
        return given

    async with (
        serving(create_app(settings, models=models)) as url,
        httpx2.AsyncClient(base_url=url, timeout=60) as client,
    ):
        run = await begun(client)
        await still(client, run)
        await tab.open(f"{url}/runs/{run}")
        await tab.js(
            "navigator.clipboard.writeText = async (text) => { window.copied = text; }; null"
        )
        said = await tab.js("document.querySelector('.failure-text').innerText")
        assert said.split("\n") == ["No key:", "set one with `scenewright keys set openai`."]
        await tab.click("[data-copy]")
        await tab.until("document.querySelector('[data-copy]').textContent === 'Copied'")
        assert await tab.js("window.copied") == "scenewright keys set openai"
        # Without the clipboard the command is chosen, to be copied by the keyboard.
        await tab.js("navigator.clipboard.writeText = () => Promise.reject(new Error('no')); null")
        await tab.click("[data-copy]")
        await tab.until("getSelection().toString() === 'scenewright keys set openai'")
        assert tab.console == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_nothing_sticks_out_on_a_phone(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab, dark: bool
) -> None:
    gate.open()
    scene = "; ".join(f"brushed{i} thing{i} left of small{i} other{i}" for i in range(8))
    run = await begun(client, triplets=scene, patience=9)
    await still(client, run)
    await tab.size(375, 800, dark)
    for path in ("", "/compare"):
        await tab.open(f"{client.base_url}/runs/{run}{path}")
        assert await tab.js("[innerWidth, document.documentElement.scrollWidth]") == [375, 375]
        if not path:
            await tab.click("[data-act=edit]")
            await tab.until("document.querySelector('#edit-form')")
            assert await tab.js("[innerWidth, document.documentElement.scrollWidth]") == [375, 375]
    colour = await tab.js("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", colour)[:3])) < 200) is dark
    assert tab.console == []


async def test_the_slider_follows_keys_and_pointer(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab
) -> None:
    gate.open()
    run = await begun(client, patience=9)
    await still(client, run)
    await tab.size(1280, 1300)
    await tab.open(f"{client.base_url}/runs/{run}/compare?a=0&b=2")
    # Side by side the pictures share the width of the page; differences come before what is alike.
    wide = (
        "(() => { const [a, b] = [...document.querySelectorAll('#compare img')]"
        ".map((i) => i.getBoundingClientRect());"
        "return [a.width, b.width, b.left - a.right, a.top - b.top]; })()"
    )
    one, other, gap, apart = await tab.js(wide)
    assert one == other > 560
    assert 0 < gap < 40
    assert apart == 0
    assert await tab.js("document.querySelector('details.same').open") is False
    order = (
        "[...document.querySelectorAll('.answer, #compare, #h-changes, .same')]"
        ".map((e) => e.id || e.className)"
    )
    assert await tab.js(order) == ["answer", "compare", "h-changes", "same"]
    await tab.click("#one-over-the-other")
    await tab.until("document.documentElement.classList.contains('sliding')")
    cut = "document.querySelector('#compare').style.getPropertyValue('--cut')"
    assert await tab.js(cut) == "50%"
    await tab.js("document.querySelector('#cut').focus()")
    await tab.press("ArrowRight")
    await tab.until(f"{cut} === '51%'")
    spoken = await tab.js("document.querySelector('#cut').getAttribute('aria-valuetext')")
    assert spoken == "51 percent round 0, 49 percent round 2"
    left, top, width = await tab.js(
        "(() => { const b = document.querySelector('#compare').getBoundingClientRect();"
        "return [b.left, b.top, b.width]; })()"
    )
    await tab.pointer("mousePressed", left + width * 0.3, top + 80)
    await tab.until(f"{cut} === '30%'")
    await tab.pointer("mouseMoved", left + width * 0.8, top + 90)
    await tab.until(f"{cut} === '80%'")
    await tab.pointer("mouseReleased", left + width * 0.8, top + 90)
    await tab.js(
        "(() => { const s = document.querySelector('#choose-b'); s.value = '1';"
        "s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    await tab.until("location.search.includes('b=1')")
    assert tab.console == []


async def test_two_runs_are_chosen_and_compared_by_keyboard(
    client: httpx2.AsyncClient, gate: Gate, tab: Tab
) -> None:
    gate.open()
    one = await begun(client, patience=9)
    two = await begun(client, triplets="red ball on purple table; cat left of table")
    for run in (one, two):
        await still(client, run)
    await tab.size(390, 800)
    await tab.open(f"{client.base_url}/runs/{one}")
    for link, path in (
        (f"a[href='/runs?compare={one}']", f"/runs?compare={one}"),
        (".run-card h2 a", f"/runs/{one}/compare?with={two}"),
    ):
        await tab.js(f"document.querySelector({json.dumps(link)}).focus()")
        await tab.press("Enter")
        await tab.until(f"location.href.endsWith({json.dumps(path)})")
        await tab.until("document.readyState === 'complete'")
        assert await tab.js("document.documentElement.scrollWidth") == 390
    # On the phone the second picture lies over the first.
    await tab.until("document.documentElement.classList.contains('sliding')")
    await tab.js("document.querySelector('#cut').focus()")
    await tab.press("ArrowRight")
    spoken = "document.querySelector('#cut').getAttribute('aria-valuetext')"
    await tab.until(f"{spoken} === '51 percent first run, 49 percent second run'")
    await tab.js(
        "(() => { const s = document.querySelector('#choose-a'); s.value = '1';"
        "s.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )
    await tab.until(f"location.search.includes('with={two}') && location.search.includes('a=1')")
    await tab.until("document.querySelector('#compare img')?.alt.includes('Round 1')")
    assert tab.console == []


MORPH = """
(async () => {
  const { morph } = await import("/static/morph.js");
  let seed = %d;
  const next = (n) => { seed = (seed * 1103515245 + 12345) %% 2147483648; return seed %% n; };
  const tree = (depth) => {
    const element = document.createElement(["div", "p", "span", "b"][next(4)]);
    const used = new Set();
    for (let i = next(5); i > 0; i -= 1) {
      if (depth === 0 || next(3) === 0) { element.append(`t${next(4)} `); continue; }
      const child = tree(depth - 1);
      const key = `k${next(6)}`;
      if (next(2) && !used.has(key)) { used.add(key); child.setAttribute("data-key", key); }
      if (next(3) === 0) child.className = `c${next(3)}`;
      element.append(child);
    }
    element.normalize();
    return element;
  };
  for (let i = 0; i < 400; i += 1) {
    const place = document.createElement("section");
    const old = document.createElement("div");
    const fresh = document.createElement("div");
    old.append(tree(3), tree(3));
    fresh.append(tree(3), tree(3));
    place.append(old);
    const wanted = fresh.outerHTML;
    morph(old, fresh);
    if (place.innerHTML !== wanted) return `${place.innerHTML} is not ${wanted}`;
    if (fresh.outerHTML !== wanted) return "the fresh tree was changed";
  }
  const list = document.createElement("ol");
  list.innerHTML = '<li id="a">a</li><li id="b"><input></li><li id="c">c</li>';
  const input = list.querySelector("input");
  input.value = "typed";
  const changed = document.createElement("ol");
  changed.innerHTML = '<li id="n">new</li><li id="b"><input class="x"></li><li id="d">d</li>';
  morph(list, changed);
  const same = list.querySelector("input") === input && input.className === "x";
  return same && input.value === "typed";
})()
"""


async def test_a_changed_part_becomes_the_fresh_one_and_keeps_what_is_the_same(
    client: httpx2.AsyncClient, tab: Tab
) -> None:
    run = await begun(client)
    await tab.open(f"{client.base_url}/runs/{run}")
    assert await tab.js(MORPH % 7) is True
