"""The start page in Chromium: a sentence becomes a graph, the graph is changed, a run begins."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.intent import Choice, Doubt
from scenewright.core.scene import SceneGraph
from scenewright.service.core import requests
from tests.service.chromium import CHROMIUM, Tab, browsing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

SENTENCE = "A red ball is on a table."
NODES = "[...document.querySelectorAll('.ge-node')].map(n => n.getAttribute('aria-label'))"
RELATIONS = "[...document.querySelectorAll('.ge-edge')].map(n => n.getAttribute('aria-label'))"
KEYS = {"Delete": 46, "ArrowDown": 40, "r": 82, "z": 90, "Enter": 13, "Escape": 27, "Tab": 9}


@pytest.fixture
async def tab(url: str, tmp_path: Path) -> AsyncIterator[Tab]:
    async with browsing(tmp_path / "profile") as found:
        await found.size(1280, 900)
        await found.open(f"{url}/")
        yield found


async def press(tab: Tab, key: str, control: bool = False) -> None:
    text = {"Enter": "\r"}.get(key, key if len(key) == 1 and not control else None)
    for kind in ("keyDown", "keyUp"):
        await tab.send(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=f"Key{key.upper()}" if len(key) == 1 else key,
            windowsVirtualKeyCode=KEYS[key],
            modifiers=2 if control else 0,
            **({"text": text} if text and kind == "keyDown" else {}),
        )


async def focus(tab: Tab, selector: str) -> None:
    await tab.js(f"document.querySelector({json.dumps(selector)}).focus()")


async def write(tab: Tab, text: str = SENTENCE) -> None:
    await focus(tab, "#text")
    await tab.type(text)
    await tab.until("document.querySelector('#read').textContent.startsWith('Recognised')")


async def middle(tab: Tab, selector: str) -> tuple[float, float]:
    x, y = await tab.js(
        f"(() => {{ const b = document.querySelector({json.dumps(selector)})"
        ".getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; })()"
    )
    return x, y


async def drag(tab: Tab, start: tuple[float, float], end: tuple[float, float]) -> None:
    await tab.pointer("mousePressed", *start)
    for part in (0.3, 0.7, 1.0):
        await tab.pointer(
            "mouseMoved", *(a + (b - a) * part for a, b in zip(start, end, strict=True))
        )
    await tab.pointer("mouseReleased", *end)


async def draw(tab: Tab, url: str) -> dict[str, Any]:
    assert tab.console == []
    await tab.click("#draw")
    await tab.until("location.pathname.startsWith('/runs/run_')")
    run = (await tab.js("location.pathname")).removeprefix("/runs/")
    async with httpx2.AsyncClient(base_url=url, timeout=60) as client:
        found: dict[str, Any] = (await client.get(f"/v1/refinements/{run}")).json()
    return found


def relations(run: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [
        (r["source"], r["predicate"], r["target"]) for r in run["request"]["scene"]["relations"]
    ]


async def test_a_sentence_is_read_as_it_is_written_and_drawn(tab: Tab, url: str) -> None:
    await write(tab)
    assert await tab.js(NODES) == ["ball, red, 1 relation", "table, 1 relation"]
    assert await tab.js(RELATIONS) == ["red ball on table"]
    facts = "[...document.querySelectorAll('#facts li')].map(n => n.textContent)"
    assert "red ball on table" in await tab.js(facts)
    assert "red ball on table" in await tab.js("document.querySelector('#triplets').value")
    found = await draw(tab, url)
    assert relations(found) == [("ball.1", "on", "table.1")]
    assert found["request"]["rounds"] == 3


UNDERLINED = "[...document.querySelectorAll('#underlay u')].map(u => u.textContent)"
WARNED = "document.querySelector('#warned').textContent"


async def test_what_no_scene_holds_is_underlined_as_it_is_written(tab: Tab, url: str) -> None:
    await focus(tab, "#text")
    # A character outside the first plane is one character to the service and two to the browser.
    await tab.type("😀 A red ball is furtively on a table. Ein Hund mit dem Ball.")
    await tab.until(f"{UNDERLINED}.length === 2")
    assert await tab.js(UNDERLINED) == ["furtively", "Ein Hund mit dem Ball"]
    warned = await tab.js(WARNED)
    assert "not understood: “furtively”" in warned
    assert "not English: “Ein Hund mit dem Ball”" in warned
    assert "characters" not in warned
    # The underlined words lie under the written ones.
    places = await tab.js(
        "['#text', '#underlay'].map(id => { const b = document.querySelector(id)"
        ".getBoundingClientRect(), s = getComputedStyle(document.querySelector(id));"
        "return [b.left, b.top, b.width, s.font, s.padding, s.letterSpacing]; })"
    )
    assert places[0] == places[1]
    assert await tab.js("document.querySelector('#underlay').textContent.trim().startsWith('😀')")
    # It is a run by that sentence, with what was not read of it.
    found = await draw(tab, url)
    assert found["title"].startswith("😀 A red ball is furtively")
    assert [passage["text"] for passage in found["request"]["scene"]["intent"]["unread"]] == [
        "furtively",
        "Ein Hund mit dem Ball",
    ]


async def test_what_may_be_meant_is_offered_as_choices(
    tab: Tab, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubtful, clear = "a red ball and a table", "two red balls and a table"
    doubt = Doubt(
        kind="count", start=0, end=10, text="a red ball", question="one ball, or two?",
        choices=(
            Choice(label="one ball", sentence=doubtful), Choice(label="two balls", sentence=clear),
        ),
    )  # fmt: skip

    def doubting(text: str) -> SceneGraph:
        scene = parse_caption(text)
        doubts = (doubt,) if text == doubtful else ()
        return scene.said_as(scene.intent.model_copy(update={"doubts": doubts}))

    monkeypatch.setattr(requests, "parse_caption", doubting)
    await focus(tab, "#text")
    await tab.type(doubtful)
    await tab.until("document.querySelectorAll('#doubts button').length === 2")
    assert "one ball, or two?" in await tab.js("document.querySelector('#doubts').textContent")
    # A doubt is no obstacle: the reading that was taken can be drawn.
    assert not await tab.js("document.querySelector('#draw').disabled")
    await tab.click("#doubts button:last-child")
    await tab.until(f"{NODES}.length === 3")
    assert await tab.js("document.querySelector('#text').value") == clear
    assert await tab.js("document.querySelector('#doubts').hidden")
    assert tab.console == []


async def test_what_names_nothing_cannot_be_asked_for(tab: Tab) -> None:
    await focus(tab, "#text")
    await tab.type("at night")
    await tab.until("document.querySelector('#draw').disabled")
    await tab.js("document.querySelector('#text').select()")
    await tab.type("a red dog")
    await tab.until("!document.querySelector('#draw').disabled")


async def test_what_cannot_be_drawn_is_warned_of_before_it_is(tab: Tab) -> None:
    said = "ein roter Hund auf dem Tisch"
    await write(tab)
    await tab.js("document.querySelector('#text').value = ''")
    await focus(tab, "#text")
    await tab.type(said)
    await tab.until(f"{UNDERLINED}.join() === {json.dumps(said)}")
    assert "in English" in await tab.js(WARNED)
    assert await tab.js("document.querySelector('#warned').classList.contains('refused')")
    assert await tab.js("document.querySelector('#draw').disabled")
    assert await tab.js(NODES) == []
    await focus(tab, "#text")
    await tab.js("document.querySelector('#text').select()")
    await tab.type("a red dog and a tree")
    await tab.until(f"{NODES}.length === 2")
    assert await tab.js("document.querySelector('#warned').hidden")
    assert await tab.js("document.querySelector('#underlay').hidden")
    assert not await tab.js("document.querySelector('#draw').disabled")
    # Sent before the sentence was read, it is told once: by the hint, not above the page too.
    await tab.js(
        f"document.querySelector('#text').value = {json.dumps(said)};"
        "document.querySelector('#start').requestSubmit()"
    )
    await tab.until(
        "document.querySelector('#draw').disabled"
        " && document.querySelector('#going').textContent === ''"
    )
    assert "in English" in await tab.js(WARNED)
    assert await tab.js("document.querySelector('#problem').hidden")
    assert await tab.js(UNDERLINED) == [said]
    # A graph drawn by hand is drawn, whatever the sentence says.
    await focus(tab, ".ge-add input")
    await tab.type("dog")
    await press(tab, "Enter")
    await tab.until("!document.querySelector('#draw').disabled")
    assert [line for line in tab.console if "422" not in line] == []


async def test_the_graph_is_changed_by_keyboard_alone(tab: Tab, url: str) -> None:
    await write(tab)
    await focus(tab, ".ge-add input")
    await tab.type("a small blue hat")
    await press(tab, "Enter")
    assert (await tab.js(NODES))[2] == "hat, small, blue, no relations"
    assert "Changed by hand" in await tab.js("document.querySelector('#link').textContent")
    await focus(tab, "[data-id='hat.1']")
    await press(tab, "r")
    await tab.until("document.querySelector('dialog[open]') !== null")
    assert await tab.js("document.activeElement.placeholder") == "choose below or type"
    # Nothing said: the window stays and tells what it needs.
    await press(tab, "Enter")
    assert "Give the relation a name" in await tab.js(
        "document.querySelector('dialog[open] .problem').textContent"
    )
    await tab.type("lying next to")
    await press(tab, "Enter")
    await tab.until("document.querySelector('dialog[open]') === null")
    assert await tab.js(RELATIONS) == ["red ball on table", "small blue hat lying next to red ball"]
    assert "lying next to" in await tab.js("document.activeElement.getAttribute('aria-label')")
    await press(tab, "Delete")
    assert len(await tab.js(RELATIONS)) == 1
    await press(tab, "z", control=True)
    assert len(await tab.js(RELATIONS)) == 2

    await focus(tab, "[data-id='table.1']")
    before = await middle(tab, "[data-id='table.1']")
    await press(tab, "ArrowDown")
    after = await middle(tab, "[data-id='table.1']")
    assert after[1] - before[1] == pytest.approx(10, abs=0.5)
    await press(tab, "Enter")
    await tab.until("document.querySelector('dialog[open]') !== null")
    await tab.type("shelf")
    await press(tab, "Enter")
    await tab.until("document.querySelector('dialog[open]') === null")
    assert await tab.js("document.activeElement.getAttribute('aria-label')") == "shelf, 1 relation"
    await focus(tab, "[data-id='ball.1']")
    await press(tab, "Delete")
    assert await tab.js(NODES) == ["shelf, no relations", "hat, small, blue, no relations"]
    await press(tab, "z", control=True)

    found = await draw(tab, url)
    objects = {item["id"]: item for item in found["request"]["scene"]["objects"]}
    assert objects["hat.1"]["attributes"] == {"color": "blue", "size": "small"}
    assert objects["table.1"]["name"] == "shelf"
    assert relations(found) == [("ball.1", "on", "table.1"), ("hat.1", "lying next to", "ball.1")]


async def test_the_graph_is_changed_by_dragging(tab: Tab, url: str) -> None:
    await write(tab)
    await tab.click(".ge-add input")
    await tab.type("yellow lamp")
    await tab.click(".ge-add .button")
    # The words above the graph change as the service has read it, which moves the graph.
    await tab.until("document.querySelector('#read').textContent.includes('is drawn: 6 facts')")
    await tab.js("document.querySelector('.ge-stage').scrollIntoView({block: 'center'})")
    place = await middle(tab, "[data-id='lamp.1'] .plate")
    await drag(tab, place, (place[0] - 30, place[1] + 40))
    moved = await middle(tab, "[data-id='lamp.1'] .plate")
    assert moved == pytest.approx((place[0] - 30, place[1] + 40), abs=1)
    handle = await middle(tab, "[data-id='lamp.1'] .ge-knob")
    await drag(tab, handle, await middle(tab, "[data-id='table.1'] .plate"))
    await tab.until("document.querySelector('dialog[open]') !== null")
    ends = "[...document.querySelectorAll('dialog[open] select')].map(s => s.value)"
    assert await tab.js(ends) == ["lamp.1", "table.1"]
    await tab.js(
        "[...document.querySelectorAll('dialog[open] .ge-chip')]"
        ".find(chip => chip.textContent === 'behind').click()"
    )
    await tab.click("dialog[open] .main-action")
    await tab.until("document.querySelector('#read').textContent.includes('is drawn: 7 facts')")
    assert len(await tab.js(RELATIONS)) == 2
    # Dropped on no object, nothing is asked.
    await focus(tab, "[data-id='table.1']")
    handle = await middle(tab, "[data-id='lamp.1'] .ge-knob")
    await drag(tab, handle, (handle[0] + 3, handle[1] + 90))
    assert await tab.js("document.querySelector('.ge-node.on').dataset.id") == "lamp.1"
    assert await tab.js("document.querySelector('dialog[open]')") is None
    found = await draw(tab, url)
    assert relations(found) == [("ball.1", "on", "table.1"), ("lamp.1", "behind", "table.1")]


async def test_sentence_graph_and_json_are_kept_in_step(tab: Tab) -> None:
    await write(tab)
    await focus(tab, ".ge-add input")
    await tab.type("dog")
    await press(tab, "Enter")
    shown = "JSON.parse(document.querySelector('#json').value).objects.map(o => o.id).join()"
    await tab.until(f"{shown} === 'ball.1,table.1,dog.1'")
    # The sentence no longer leads, until it is asked to.
    await focus(tab, "#text")
    await tab.type(" A cat is under the table.")
    assert len(await tab.js(NODES)) == 3
    await tab.click("#reread")
    await tab.until(f"{shown} === 'ball.1,table.1,cat.1'")
    assert await tab.js("document.querySelector('#link').textContent") == "Follows the sentence."
    await tab.js(
        "(() => { const json = document.querySelector('#json');"
        'json.value = \'{"objects": [{"id": "q", "name": "<b>q</b>"}]}\';'
        "json.dispatchEvent(new Event('change')); })()"
    )
    await tab.until(f"{NODES}.join() === '<b>q</b>, no relations'")
    await tab.js(
        "(() => { const json = document.querySelector('#json'); json.value = '{';"
        "json.dispatchEvent(new Event('change')); })()"
    )
    assert "This is not a scene graph" in await tab.js(
        "document.querySelector('#json-problem').textContent"
    )
    assert len(await tab.js(NODES)) == 1
    assert tab.console == []


async def test_errors_stand_in_place_and_the_draft_survives_the_way_back(
    tab: Tab, url: str
) -> None:
    await tab.click("#draw")
    assert "Write a sentence" in await tab.js("document.querySelector('#problem').textContent")
    await write(tab)
    await tab.click(".options summary")
    await tab.js("document.querySelector('#rounds').value = '2'")
    await tab.js(
        "(() => { const s = document.querySelector('#strategy');"
        "s.append(new Option('gone', 'gone')); s.value = 'gone'; })()"
    )
    await tab.click("#draw")
    await tab.until("!document.querySelector('#problem').hidden")
    told = await tab.js("document.querySelector('#problem').textContent")
    assert "gone" in told
    tab.console[:] = [line for line in tab.console if "422" not in line]
    await tab.js("document.querySelector('#strategy').value = ''")
    await focus(tab, ".ge-add input")
    await tab.type("dog")
    await press(tab, "Enter")
    await tab.until("document.querySelector('#read').textContent.includes('is drawn')")
    found = await draw(tab, url)
    assert found["request"]["rounds"] == 2
    await tab.js("history.back()")
    await tab.until(
        "location.pathname === '/' && document.querySelectorAll('.ge-node').length === 3"
    )
    assert "Changed by hand" in await tab.js("document.querySelector('#link').textContent")


@pytest.mark.parametrize(("width", "dark"), [(375, False), (1280, True)])
async def test_nothing_sticks_out(tab: Tab, width: int, dark: bool) -> None:
    await write(
        tab,
        "A very tall brown wooden lamp is left of a large grey elephant, a person wearing a red "
        "hat is holding a yellow umbrella, two dogs are near the person.",
    )
    await tab.size(width, 800, dark=dark)
    await tab.js("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    assert await tab.js("document.documentElement.scrollWidth") <= width
    await tab.until(
        "[...document.querySelectorAll('.ge-node')].every(n => {"
        "const b = n.getBoundingClientRect(), s = document.querySelector('.ge-stage')"
        ".getBoundingClientRect(); return b.left >= s.left && b.right <= s.right + 14; })"
    )
    overlaps = await tab.js(
        "(() => { const b = [...document.querySelectorAll('.ge-node .plate')]"
        ".map(n => n.getBoundingClientRect());"
        "return b.flatMap((p, i) => b.slice(i + 1).filter(q => p.left < q.right && q.left < p.right"
        " && p.top < q.bottom && q.top < p.bottom)).length; })()"
    )
    assert overlaps == 0
    light = await tab.js("getComputedStyle(document.body).backgroundColor")
    assert light == ("rgb(19, 20, 22)" if dark else "rgb(247, 246, 243)")
    assert tab.console == []
