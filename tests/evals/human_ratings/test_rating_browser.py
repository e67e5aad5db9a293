"""Rating with the keyboard alone, in Chromium."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from scenewright.evals.human_ratings.app import serving
from scenewright.evals.human_ratings.study import StudyFolder
from scenewright.evals.human_ratings.table import ratings_of
from tests.evals.human_ratings.rated import evaluation, study_in
from tests.evals.human_ratings.rated_objects import objects_study
from tests.service.chromium import CHROMIUM, Tab, browsing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]

CODES = {"ArrowLeft": 37, "ArrowRight": 39, "ArrowDown": 40, "Backspace": 8, "Enter": 13}


async def press(tab: Tab, key: str) -> None:
    text = {"Enter": "\r"}.get(key, key if len(key) == 1 else None)
    code = CODES.get(key, ord(key[0].upper()))
    for kind in ("keyDown", "keyUp"):
        more = {"text": text} if text and kind == "keyDown" else {}
        await tab.send(
            "Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code, **more
        )


async def at(tab: Tab, task: int, rated: int) -> None:
    await tab.until(f"document.title.startsWith('Task {task} of')")
    await tab.until(f"document.querySelector('.progress')?.innerText.includes('{rated} of')")
    await tab.until("document.querySelector('main')?.hasAttribute('aria-busy') === false")


async def give_name(tab: Tab, url: str) -> None:
    """Without a pointer: the field has the focus by itself."""
    await tab.open(url)
    await tab.until("document.activeElement.id === 'rater'")
    await tab.type("Ann")
    await tab.until("document.activeElement.value === 'Ann'")
    await press(tab, "Enter")


async def begin(tab: Tab, url: str) -> None:
    """Give a name; the first task comes."""
    await give_name(tab, url)
    await at(tab, 1, 0)


async def shown(tab: Tab, number: int, question: str) -> None:
    """The page of an object, with the question that keys answer."""
    await tab.until(f"document.title.startsWith('Object {number} ')")
    current = "document.querySelector('.fact.current .statement')"
    await tab.until(f"{current}.innerText.startsWith('{question}')")
    await tab.until("document.querySelector('main')?.hasAttribute('aria-busy') === false")


async def begin_objects(tab: Tab, url: str) -> None:
    """Give a name; the first object comes."""
    await give_name(tab, url)
    await shown(tab, 1, "Shape")


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with browsing(tmp_path / "profile") as found:
        await found.size(1280, 800)
        yield found


async def test_choices_with_the_keyboard_and_a_reload(tab: Tab, tmp_path: Path) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 4), kind="choice")
    async with serving(folder) as url:
        await begin(tab, url)
        await tab.until("[...document.images].every(i => i.complete && i.naturalWidth)")
        await press(tab, "2")
        await at(tab, 2, 1)
        focused = "document.activeElement.id === 'question'"
        assert await tab.js(focused)
        await press(tab, "4")
        await at(tab, 3, 2)
        await press(tab, "Backspace")
        await at(tab, 2, 2)
        assert await tab.js("document.querySelector('[aria-pressed=true]').value") == "4"
        await press(tab, "1")
        await at(tab, 3, 2)
        await tab.reload()
        await at(tab, 3, 2)
        await press(tab, "ArrowRight")
        await at(tab, 4, 2)
        await press(tab, "3")
        await at(tab, 3, 3)
        await press(tab, "x")
        await press(tab, "3")
        await tab.until("document.title.startsWith('All done')")
        assert tab.console == []
    rows = ratings_of(folder)
    assert [(row.value, row.changes) for row in rows] == [("2", 0), ("1", 1), ("3", 0), ("3", 0)]
    assert all(row.seconds is not None and 0 < row.seconds < 20 for row in rows)


async def test_two_pictures_may_be_no_different(tab: Tab, tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 3)
    folder = study_in(tmp_path / "s", source, kind="choice", arms=("triplets", "feedback"))
    async with serving(folder) as url:
        await begin(tab, url)
        await press(tab, "0")
        await at(tab, 2, 1)
        await tab.click(".tie button")
        await at(tab, 3, 2)
        await press(tab, "ArrowLeft")
        await at(tab, 2, 2)
        assert (
            await tab.js("document.querySelector('[aria-pressed=true]').value") == "no difference"
        )
        await press(tab, "1")
        await at(tab, 3, 2)
        await press(tab, "2")
        await tab.until("document.title.startsWith('All done')")
        assert tab.console == []
    rows = ratings_of(folder)
    assert [(row.value, row.tie) for row in rows] == [
        ("no difference", True), ("1", False), ("2", False),
    ]  # fmt: skip


async def test_the_next_pictures_are_there_before_they_are_shown(tab: Tab, tmp_path: Path) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 3), kind="choice")
    async with serving(folder) as url:
        await begin(tab, url)
        loaded = "performance.getEntriesByType('resource').map(e => new URL(e.name).pathname)"
        ahead = await tab.js("document.querySelector('[data-preload]').dataset.preload")
        for address in ahead.split():
            await tab.until(f"{loaded}.includes({json.dumps(address)})")


async def test_facts_with_the_keyboard(tab: Tab, tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 1)
    folder = study_in(tmp_path / "s", source, kind="facts", arms=("triplets", "feedback"))
    current = "document.querySelector('.fact.current .statement').innerText"
    async with serving(folder) as url:
        await begin(tab, url)
        assert await tab.js(current) == "There is a dog."
        await press(tab, "y")
        await tab.until(f"{current} === 'There is a ball.'")
        await press(tab, "ArrowDown")
        await tab.until(f"{current} === 'The dog is red.'")
        await press(tab, "?")
        await tab.until(f"{current} === 'The dog is left of the ball.'")
        await press(tab, "n")
        await tab.until(f"{current} === 'There is a ball.'")
        await press(tab, "y")
        await at(tab, 2, 1)
        assert tab.console == []
    assert [row.value for row in ratings_of(folder)] == ["yes", "yes", "cannot tell", "no"]


async def test_a_server_that_is_gone_is_said_and_the_answer_can_be_given_again(
    tab: Tab, tmp_path: Path
) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 1), kind="score")
    async with serving(folder) as url:
        await begin(tab, url)
    port = int(url.rstrip("/").rpartition(":")[2])
    await press(tab, "5")
    await tab.until("document.querySelector('#said').innerText.includes('does not answer')")
    async with serving(StudyFolder(folder.folder), port=port):
        await press(tab, "4")
        await at(tab, 2, 1)
        assert await tab.js("document.querySelector('#said').innerText") == ""
    assert [row.value for row in ratings_of(folder)] == ["4"]


async def test_objects_with_the_keyboard(tab: Tab, tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=2, each=1)
    current = "document.querySelector('.fact.current .statement').innerText"
    frame = "getComputedStyle(document.querySelector('.marked svg')).display"
    async with serving(folder) as url:
        await begin_objects(tab, url)
        assert await tab.js(frame) != "none"
        await press(tab, "b")
        await tab.until(f"{frame} === 'none'")
        await press(tab, "b")
        await tab.until(f"{frame} !== 'none'")
        await press(tab, "4")
        await shown(tab, 1, "Texture")
        await press(tab, "Backspace")
        await shown(tab, 1, "Shape")
        await press(tab, "3")
        await shown(tab, 1, "Texture")
        await press(tab, "5")
        await shown(tab, 2, "Shape")
        await press(tab, "Backspace")
        await shown(tab, 1, "Texture")
        assert (await tab.js(current)).startswith("Texture")
        await press(tab, "Enter")
        await shown(tab, 2, "Shape")
        await press(tab, "x")
        await tab.until("document.title.startsWith('All done')")
        assert tab.console == []
    rows = ratings_of(folder)
    assert [(row.fact, row.value) for row in rows] == [
        ("shape", "3"), ("texture", "5"), ("", "cannot tell"),
    ]  # fmt: skip


async def test_the_box_lies_over_the_object(tab: Tab, tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1)
    async with serving(folder) as url:
        await begin_objects(tab, url)
        await tab.until("[...document.images].every(i => i.complete && i.naturalWidth)")
        # The picture is 96 by 64 within a frame of another shape, the box from 4, 8 to 24, 40.
        found = await tab.js(
            "(() => { const i = document.querySelector('.marked img').getBoundingClientRect();"
            "const r = document.querySelector('.marked rect').getBoundingClientRect();"
            "const s = Math.min(i.width / 96, i.height / 64);"
            "const x = i.left + (i.width - 96 * s) / 2, y = i.top + (i.height - 64 * s) / 2;"
            "return [r.left - x, r.top - y, r.right - x, r.bottom - y].map(v => v / s); })()"
        )
        assert found == pytest.approx([4, 8, 24, 40], abs=1.0)


@pytest.mark.parametrize("kind", ["choice", "facts", "score", "objects"])
async def test_pages_fit_a_phone(tab: Tab, tmp_path: Path, kind: str) -> None:
    if kind == "objects":
        folder = objects_study(tmp_path, pictures=1)
    else:
        folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 1), kind=kind)
    await tab.size(390, 844, dark=True)
    async with serving(folder) as url:
        await (begin_objects if kind == "objects" else begin)(tab, url)
        assert await tab.js("document.documentElement.scrollWidth") <= 390
        small = await tab.js(
            "[...document.querySelectorAll('main button')].filter(b => "
            "b.getBoundingClientRect().height < 40).length"
        )
        assert small == 0
