"""The report in a real browser, from the disk: it filters, sorts, and opens items."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from scenewright.evals.reporting.comparison import compare, comparison_page
from scenewright.evals.reporting.evaluations import open_sides, pairs_of
from scenewright.evals.reporting.items import Flag
from scenewright.evals.reporting.report import build_report
from scenewright.evals.store.results import Results
from tests.evals.reporting.made import Made, write_evaluation
from tests.headless import CHROMIUM
from tests.service.chromium import Tab, launched, tabbing

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed"),
]
HOSTILE = "<img src=x onerror=alert(1)>"
COUNT = "document.querySelectorAll('#list a').length"
READY = "document.documentElement.classList.contains('ready')"
MADE = Made(
    items=60, failing=0.1, unscored=0.05, hostile=HOSTILE,
    panels={"report": ("a", "b"), "other": ("c",)},
)  # fmt: skip


@pytest.fixture(scope="module")
def chromium() -> Iterator[str]:
    with tempfile.TemporaryDirectory() as profile, launched(Path(profile)) as address:
        yield address


@pytest.fixture
async def tab(chromium: str) -> AsyncIterator[Tab]:
    async with tabbing(chromium) as page:
        await page.size(1280)
        yield page
        assert page.console == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_evaluation(tmp_path_factory.mktemp("made"), MADE)
    return build_report(Results(folder), resamples=200).page.parent


async def items(tab: Tab, report: Path, state: str = "") -> None:
    # Another part of the address alone would not load the page anew.
    await tab.open("about:blank")
    await tab.open((report / "items.html").as_uri() + (f"#{state}" if state else ""))
    await tab.until(READY)


async def letter(tab: Tab, key: str) -> None:
    """Press the key of a character."""
    await tab.send("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
    await tab.send("Input.dispatchKeyEvent", type="keyUp", key=key)


async def choose(tab: Tab, field: str, value: str) -> None:
    await tab.js(
        f"(() => {{ const f = document.getElementById('f-{field}'); f.value = {value!r};"
        "f.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )


async def test_on_a_phone_the_first_plot_is_seen_whole_and_can_be_read(
    tab: Tab, report: Path
) -> None:
    await tab.size(375)
    await tab.open((report / "index.html").as_uri())
    await tab.until("[...document.images].every((i) => i.complete && i.naturalWidth)")
    shown = await tab.js(
        "[...document.querySelectorAll('.plots figure')].map((f) => {"
        "const i = f.querySelector('img');"
        "return [i.currentSrc.split('/').pop(), i.getBoundingClientRect().width,"
        " i.naturalWidth, f.scrollWidth <= f.clientWidth]; })"
    )
    assert shown[0][0] == "arms-narrow.svg"
    for _, width, drawn, whole in shown:
        assert whole
        # Its letters of 10 points (13.3 px) stay at 11 px at least.
        assert width / drawn * 13.3 >= 11
    await tab.size(1280)
    await tab.until("document.querySelector('.plots img').currentSrc.endsWith('/arms.svg')")


def verdicts(report: Path, **wanted: Any) -> set[str]:
    """Items that have a verdict of that kind."""
    return {
        row["item"]
        for row in Results(report.parent).rows("verdicts")
        if all(row[name] == value for name, value in wanted.items())
    }


@pytest.mark.parametrize("width", [375, 1280])
@pytest.mark.parametrize("dark", [False, True])
async def test_nothing_sticks_out(tab: Tab, report: Path, width: int, dark: bool) -> None:
    await tab.size(width, dark=dark)
    await tab.open((report / "index.html").as_uri())
    wide = "document.documentElement.scrollWidth"
    assert await tab.js(wide) <= width
    await tab.js("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    assert await tab.js(wide) <= width
    await tab.until("[...document.images].every((i) => i.complete && i.naturalWidth)")
    await items(tab, report)
    assert await tab.js(wide) <= width
    await tab.click("#list a")
    await tab.until("document.querySelector('dialog .facts')")
    assert await tab.js("(() => { const d = document.querySelector('dialog');"
                        "return d.scrollWidth <= d.clientWidth; })()")  # fmt: skip
    colour = await tab.js("getComputedStyle(document.body).backgroundColor")
    assert ("19, 20, 22" in colour) is dark


async def test_what_is_wrong_filters_the_items(tab: Tab, report: Path) -> None:
    await items(tab, report)
    assert await tab.js("document.getElementById('status').textContent") == "60 items"
    assert await tab.js(COUNT) == 25
    absent = verdicts(report, panel="report", kind="object", state="no", arm="miniature/feedback/0")
    await choose(tab, "what", str(int(Flag.OBJECT)))
    await choose(tab, "arm", "miniature/feedback/0")
    said = await tab.js("document.getElementById('status').textContent")
    assert said == f"{len(absent)} of 60 items"
    shown = await tab.js("ItemsData.choose({q: '', what: '1', label: '', sort: '', panel: 'report',"
                         "arm: 'miniature/feedback/0'}).map((i) => i.id)")  # fmt: skip
    assert set(shown) == absent
    # The address keeps the choice.
    address = await tab.js("location.href")
    await tab.open("about:blank")
    await tab.open(address)
    await tab.until(READY)
    assert await tab.js("document.getElementById('status').textContent") == said
    await tab.click("button[type=reset]")
    await tab.until("document.getElementById('status').textContent === '60 items'")


async def test_a_fact_that_fails_a_class_and_words_filter_too(tab: Tab, report: Path) -> None:
    await items(tab, report)
    label = await tab.js("document.getElementById('f-label').options[1].value")
    kind, _, what = label.partition(": ")
    rows = Results(report.parent).rows("verdicts")
    failing = {
        row["item"]
        for row in rows
        if (row["panel"], row["state"], row["kind"]) == ("report", "no", kind)
        and (what in row["statement"])
    }
    await choose(tab, "label", label)
    count = int((await tab.js("document.getElementById('status').textContent")).split()[0])
    assert 0 < count <= len(failing)
    await choose(tab, "label", "")
    await choose(tab, "level", "hard")
    hard = sum(row["level"] == "hard" for row in Results(report.parent).rows("items"))
    assert (await tab.js("document.getElementById('status').textContent")).startswith(f"{hard} of")
    await choose(tab, "level", "")
    await choose(tab, "q", "number 17")
    assert await tab.js(COUNT) == 1
    await choose(tab, "q", "no such words")
    assert "No item fits" in await tab.js("document.getElementById('list').innerText")


async def test_items_are_sorted_by_score_and_by_difference(tab: Tab, report: Path) -> None:
    scores = {
        (row["item"], row["condition"]): row["value"]
        for row in Results(report.parent).rows("scores")
        if (row["metric"], row["part"], row["panel"]) == ("sgscore", "", "report")
    }
    ids = [row["item"] for row in Results(report.parent).rows("items")]
    known = {
        item: scores[item, "feedback"] - scores[item, "composition"]
        for item in ids
        if scores.get((item, "feedback")) is not None
        and scores.get((item, "composition")) is not None
    }
    await items(tab, report, "sort=difference-down")
    order = await tab.js("[...document.querySelectorAll('#list a')]"
                         ".map((a) => ItemsData.items[a.dataset.at].id)")  # fmt: skip
    shown = [round(known[item], 3) for item in order]
    assert shown == sorted(shown, reverse=True)
    assert shown[0] == round(max(known.values()), 3)
    await items(tab, report, "sort=up&arm=miniature/feedback/0")
    first = await tab.js("document.querySelector('#list a').dataset.at")
    lowest = min(v for (_, c), v in scores.items() if c == "feedback" and v is not None)
    assert scores[ids[int(first)], "feedback"] == lowest


async def test_an_item_opens_with_its_facts_and_every_answer(tab: Tab, report: Path) -> None:
    await items(tab, report)
    await tab.click("#list a")
    await tab.until("document.querySelector('dialog .facts')")
    rows = Results(report.parent)
    facts = [row for row in rows.rows("verdicts") if row["item"] == "item-00000"]
    arm = "miniature/composition/0"
    mine = {row["fact"]: row for row in facts if (row["arm"], row["panel"]) == (arm, "report")}
    assert await tab.js("document.querySelectorAll('dialog .fact-row').length") == len(mine)
    states = await tab.js("[...document.querySelectorAll('dialog .fact-row td:nth-child(2) .icon')]"
                          ".map((i) => i.getAttribute('aria-label'))")  # fmt: skip
    assert states.count("holds") == sum(row["state"] == "yes" for row in mine.values())
    # The drawn graph shows the same verdicts.
    drawn = await tab.js("[...document.querySelectorAll('dialog .graph [data-fact].node')]"
                         ".map((g) => [g.dataset.fact, g.getAttribute('class')])")  # fmt: skip
    assert drawn
    assert all(f"s-{mine[fact]['state']}" in css for fact, css in drawn)
    asked = next(f for f, row in mine.items() if row["state"] in ("yes", "no"))
    order = await tab.js("[...document.querySelectorAll('dialog .fact .statement')]"
                         ".map((e) => e.textContent)")  # fmt: skip
    at = order.index(mine[asked]["statement"])
    await tab.js(f"document.querySelectorAll('dialog .fact')[{at}].click()")
    shown = await tab.js("document.querySelector('dialog .more:not([hidden])').innerText")
    said = [row for row in rows.rows("answers")
            if (row["item"], row["arm"], row["panel"], row["fact"])
            == ("item-00000", arm, "report", asked)]  # fmt: skip
    assert len(said) == 2
    assert all(row["judge"] in shown for row in said)
    assert "It is plain to see." in shown
    # Names from elsewhere are text.
    assert await tab.js("document.querySelectorAll('img[src=x]').length") == 0
    assert HOSTILE in await tab.js("document.querySelector('dialog').innerText")


async def test_the_keyboard_is_enough(tab: Tab, report: Path) -> None:
    await items(tab, report)
    await letter(tab, "j")
    await letter(tab, "j")
    assert await tab.js("document.activeElement.dataset.at") == "1"
    await tab.press("Enter")
    await tab.until("document.querySelector('dialog').open")
    await tab.until("document.querySelector('dialog .facts')")
    before = await tab.js("document.getElementById('item-title').textContent")
    await tab.press("ArrowRight")
    await tab.until(f"document.getElementById('item-title').textContent !== {before!r}")
    await tab.press("Escape")
    await tab.until("!document.querySelector('dialog').open")
    # The page gives the focus back as the dialog closes, a moment after.
    await tab.until("document.activeElement.dataset.at === '2'")
    await letter(tab, "n")
    await tab.until("document.getElementById('where').textContent.startsWith('page 2')")
    await letter(tab, "/")
    assert await tab.js("document.activeElement.id") == "f-q"


async def test_a_link_leads_to_an_item(tab: Tab, report: Path) -> None:
    await items(tab, report, "item=item-00041")
    await tab.until("document.querySelector('dialog .facts')")
    assert await tab.js("document.getElementById('item-title').textContent") == "item-00041"


async def test_another_panel_shows_other_verdicts_and_scores(tab: Tab, report: Path) -> None:
    await items(tab, report)
    await choose(tab, "panel", "other")
    assert await tab.js("document.getElementById('f-score').value") == "sgscore by other"
    wrong = verdicts(report, panel="other", state="no", kind="relation")
    await choose(tab, "what", str(int(Flag.RELATION)))
    said = await tab.js("document.getElementById('status').textContent")
    assert said.startswith(f"{len(wrong)} of")


async def test_data_that_is_lost_is_said(tab: Tab, tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path, Made(items=25, pictures=False))
    page = build_report(Results(folder), resamples=200).page
    (page.parent / "data" / "chunk-1.js").unlink()
    await items(tab, page.parent, "item=item-00021")
    await tab.until("document.querySelector('dialog').innerText.includes('make the report again')")
    assert len(tab.console) == 1
    tab.console.clear()


async def test_two_thousand_items_can_be_filtered(tab: Tab, tmp_path: Path) -> None:
    made = Made(items=2000, pictures=False, most=2, clip=False, conditions=("composition",))
    page = build_report(Results(write_evaluation(tmp_path, made)), resamples=200).page
    await items(tab, page.parent)
    assert await tab.js("document.getElementById('status').textContent") == "2,000 items"
    await choose(tab, "q", "number 1999")
    assert await tab.js(COUNT) == 1
    await tab.click("#list a")
    await tab.until("document.querySelector('dialog .facts')")
    assert await tab.js("document.getElementById('item-title').textContent") == "item-01999"


async def test_the_page_of_a_comparison_fits(tab: Tab, report: Path, tmp_path: Path) -> None:
    found = compare(pairs_of(open_sides([str(report.parent)])), resamples=200)
    page = tmp_path / "compared.html"
    page.write_text(comparison_page(found), encoding="utf-8")
    for width in (375, 1280):
        await tab.size(width)
        await tab.open(page.as_uri())
        assert await tab.js("document.documentElement.scrollWidth") <= width
        await tab.open("about:blank")
