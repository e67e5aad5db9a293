"""The pages of a study of objects: two questions an object, blind, and one hand is enough."""

from __future__ import annotations

import re
from pathlib import Path

import httpx2
import pytest

from scenewright.core.images import load_image, read_image
from scenewright.evals.human_ratings.study import UNFIT, StudyFolder
from scenewright.evals.human_ratings.table import ratings_of
from scenewright.tools.vision.realism.object_views import object_crop
from tests.evals.human_ratings.rated_objects import CATEGORIES, SOURCES, objects_study, thing_of
from tests.evals.human_ratings.rating_client import begin, client, heading, pictures, press

OUT = f"0:{UNFIT}"


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return objects_study(tmp_path, pictures=2)


def current(page: httpx2.Response) -> str:
    """The question that keys answer."""
    found = re.search(r'class="fact current".*?class="statement"[^>]*>([^<]+)<', page.text, re.S)
    assert found is not None
    return found[1]


def link(page: httpx2.Response, rel: str) -> str:
    found = re.search(rf'href="([^"]+)" rel="{rel}"', page.text)
    assert found is not None
    return found[1]


async def test_two_answers_rate_an_object_and_the_next_comes(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        for n in range(1, 5):
            assert f"Object {n}" in page.text
            assert f"{n - 1} of 4 rated" in page.text
            assert current(page) == "Shape and structure"
            page = await press(browser, page, "1:4", seconds="1.5")
            assert f"Object {n}" in page.text
            assert current(page) == "Texture, color and shade"
            page = await press(browser, page, "2:2", seconds="1.0")
        assert heading(page) == "That was all. Thank you!"
        assert "You rated 4 objects" in page.text
    rows = ratings_of(folder)
    assert [(row.fact, row.value) for row in rows] == [("shape", "4"), ("texture", "2")] * 4
    assert {row.arm for row in rows} == set(SOURCES)
    assert all(row.kind == "objects" and row.seconds for row in rows)


async def test_the_page_shows_the_picture_its_box_and_the_crop(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        shown = [read_image((await browser.get(a)).content, "it") for a in pictures(page)]
        category = re.search(r'class="category">([^<]+)<', page.text)
        page = await press(browser, await press(browser, page, "1:3"), "2:3")
    task = next(t for t in folder.study.tasks if t.id == ratings_of(folder)[0].task)
    thing = thing_of(task)
    whole = load_image(folder.picture(task.candidates[0].image))
    assert [image.size for image in shown] == [whole.size, (thing_crop := shown[1]).size]
    assert thing_crop.tobytes() == object_crop(whole, thing.box).tobytes()
    assert category is not None
    assert category[1] == thing.category
    assert whole.size == thing.size


async def test_the_box_is_drawn_where_the_object_is(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        await press(browser, await press(browser, page, "1:3"), "2:3")
    task = next(t for t in folder.study.tasks if t.id == ratings_of(folder)[0].task)
    left, top, right, bottom = thing_of(task).box
    box = f'x="{left}" y="{top}" width="{right - left}" height="{bottom - top}"'
    assert page.text.count(box) == 2
    assert 'viewBox="0 0 96 64"' in page.text
    assert 'data-keys="b"' in page.text
    assert "style=" not in page.text


async def test_nothing_tells_what_made_a_picture(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=3, whole_share=0.4)
    told: list[str] = []
    async with client(folder) as browser:
        page = await begin(browser)
        while pictures(page):
            told.append(page.text)
            told += [str((await browser.get(a)).headers) for a in pictures(page)]
            page = await press(browser, page, next_answer(page))
    hashes = {c.image for t in folder.study.tasks for c in t.candidates}
    ids = {thing_of(t).id for t in folder.study.tasks if t.thing is not None}
    assert len(told) > 12
    for text in told:
        assert not [word for word in (*SOURCES, *hashes, *ids, "images/") if word in text]


def next_answer(page: httpx2.Response) -> str:
    """The lowest score for what keys answer."""
    if 'class="fact current"' not in page.text:
        return "1"
    return "1:1" if current(page) == "Shape and structure" else "2:1"


async def test_an_object_can_be_taken_out_and_put_back(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        first = await begin(browser)
        page = await press(browser, first, OUT)
        assert "Object 2" in page.text
        assert [(row.fact, row.value) for row in ratings_of(folder)] == [("", UNFIT)]
        back = await browser.get(link(page, "prev"))
        assert re.search(rf'value="{OUT}"[^>]*aria-pressed="true"', back.text)
        page = await press(browser, back, "1:2")
        assert current(page) == "Texture, color and shade"
        assert len(ratings_of(folder)) == 1
        await press(browser, page, "2:5")
        rows = ratings_of(folder)
    assert [(row.fact, row.value) for row in rows] == [("shape", "2"), ("texture", "5")]


async def test_back_leads_to_the_last_answer_then_to_the_one_before(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await press(browser, await begin(browser), "1:1")
        again = await browser.get(link(page, "prev"))
        assert "Object 1" in again.text
        assert current(again) == "Shape and structure"
        page = await press(browser, again, "1:3")
        page = await press(browser, page, "2:5")
        assert "Object 2" in page.text
        slip = await browser.get(link(page, "prev"))
        assert current(slip) == "Texture, color and shade"
        assert 'data-keys="arrowright enter"' in slip.text
        page = await press(browser, slip, "2:4")
        assert "Object 2" in page.text
    rows = ratings_of(folder)
    assert [(row.value, row.changes) for row in rows] == [("3", 1), ("4", 1)]


@pytest.mark.parametrize("value", ["3", "1:6", "1:0", "3:1", "0:1", "0:yes", "1:", "\u0661:1", ""])
async def test_what_is_no_answer_is_refused_and_nothing_kept(
    folder: StudyFolder, value: str
) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        reply = await browser.post(str(page.url), data={"value": value})
        assert reply.status_code == 422
        assert "is not an answer to this question" in reply.text
    assert ratings_of(folder) == ()


async def test_the_next_object_is_loaded_ahead_and_stays_the_next(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        page = await begin(browser)
        ahead = re.search(r'data-preload="([^"]+)"', page.text)
        assert ahead is not None
        await begin(browser, "Bea")
        page = await press(browser, await press(browser, page, "1:3"), "2:3")
        assert pictures(page) == ahead[1].split()


async def test_a_picture_as_a_whole_gets_one_score(tmp_path: Path) -> None:
    folder = objects_study(tmp_path, pictures=1, each=1, whole_share=1.0)
    async with client(folder) as browser:
        page = await begin(browser)
        seen = set()
        while pictures(page):
            if 'class="fact current"' in page.text:
                seen.add("object")
            else:
                assert heading(page) == "How real does the picture look as a whole?"
                assert "5 of 5: as in a photo" in page.text
                seen.add("whole")
            page = await press(browser, page, next_answer(page))
    assert seen == {"object", "whole"}
    assert sorted(row.fact for row in ratings_of(folder)) == ["", "shape", "texture"]


async def test_who_is_not_needed_is_told_so(folder: StudyFolder) -> None:
    async with client(folder) as browser:
        for name in ("Ann", "Bea"):
            page = await begin(browser, name)
            while pictures(page):
                page = await press(browser, await press(browser, page, "1:3"), "2:3")
        page = await begin(browser, "Cid")
        while not heading(page).startswith("That was all"):
            page = await browser.get(f"{page.url}/end")
        assert "You rated 0 objects" in page.text
        assert "Back to the last" not in page.text


def test_categories_are_those_of_the_source(folder: StudyFolder) -> None:
    assert {thing_of(task).category for task in folder.study.tasks} == set(CATEGORIES)
