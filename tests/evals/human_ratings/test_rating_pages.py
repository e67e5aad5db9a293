"""The pages that raters see: blind, idempotent, never ahead of the disk."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenewright.core.images import read_image
from scenewright.evals.human_ratings.store import RatingStore
from scenewright.evals.human_ratings.study import RatingError, StudyFolder
from scenewright.evals.human_ratings.table import Rating, ratings_of
from tests.evals.human_ratings.rated import ARMS, CONDITIONS, evaluation, picture, study_in
from tests.evals.human_ratings.rating_client import begin, client, heading, pictures, press


@pytest.fixture
def choice(tmp_path: Path) -> StudyFolder:
    return study_in(tmp_path / "s", evaluation(tmp_path / "e", 4), kind="choice")


@pytest.fixture
def facts(tmp_path: Path) -> StudyFolder:
    source = evaluation(tmp_path / "e", 1)
    return study_in(tmp_path / "s", source, kind="facts", arms=("triplets", "feedback"))


def hold(folder: StudyFolder) -> list[Rating]:
    return list(ratings_of(folder))


async def test_a_rater_chooses_until_all_is_rated(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        for n in range(1, 5):
            assert f"Task {n} of 4" in page.text
            assert f"{n - 1} of 4 rated" in page.text
            assert len(pictures(page)) == 5
            page = await press(browser, page, "2", seconds="1.5")
        assert heading(page) == "That was all. Thank you!"
    rows = hold(choice)
    assert [row.value for row in rows] == ["2"] * 4
    assert all(row.arm == row.shown[1] for row in rows)
    assert all(row.seconds == 1.5 and row.shown_at and row.rated_at for row in rows)
    assert {row.item for row in rows} == {f"item-{i}" for i in range(4)}


async def test_the_picture_that_is_pressed_is_the_one_that_counts(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        shown = [(await browser.get(address)).content for address in pictures(page)[1:]]
        await press(browser, page, "3")
    row = hold(choice)[0]
    item = int(row.item[5:])
    assert read_image(shown[2], "it").tobytes() == picture(item, ARMS.index(row.arm)).tobytes()


@pytest.mark.parametrize("kind", ["choice", "facts", "score"])
async def test_no_arm_reaches_the_browser(tmp_path: Path, kind: str) -> None:
    folder = study_in(tmp_path / "s", evaluation(tmp_path / "e", 3), kind=kind, repeats=0.5)
    told: list[str] = []
    files: list[bytes] = []
    async with client(folder) as browser:
        browser.event_hooks["response"].append(lambda r: keep(told, r))
        page = await begin(browser)
        told.append(page.text)
        value = "1:yes" if kind == "facts" else "1"
        for _ in range(3):
            for address in {*pictures(page), *re.findall(r"/picture/[^\s\"]+", page.text)}:
                reply = await browser.get(address)
                assert reply.headers["content-type"] == "image/png"
                files.append(reply.content)
            page = await press(browser, page, value)
            told.append(page.text)
            value = "2:yes" if value == "1:yes" else value
            if kind == "facts":
                break
        for name in ("rate.js", "rate.css"):
            told.append((await browser.get(f"/static/{name}")).text)
    hashes = {c.image for t in folder.study.tasks for c in t.candidates}
    hidden = {*ARMS, *CONDITIONS, "miniature", "item-", "sgscore", *hashes}
    for text in told:
        assert not [word for word in hidden if word in text]
    assert files
    assert not [word for word in {*ARMS, *CONDITIONS} for f in files if word.encode() in f]


async def keep(told: list[str], reply: object) -> None:
    """Addresses and headers, redirects included."""
    told.append(str(reply.url))  # type: ignore[attr-defined]
    told.append(str(reply.headers))  # type: ignore[attr-defined]


async def test_a_repeat_cannot_be_told_from_its_pictures_addresses(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 3)
    folder = study_in(tmp_path / "s", source, kind="choice", repeats=1.0)
    seen: set[str] = set()
    tags: list[str] = []
    async with client(folder) as browser:
        page = await begin(browser)
        while pictures(page):
            for address in pictures(page):
                assert address not in seen
                seen.add(address)
                reply = await browser.get(address)
                tags.extend(n for n in reply.headers if n in ("etag", "last-modified"))
            page = await press(browser, page, "1")
    assert len(seen) == 6 * 5
    assert tags == []
    rows = hold(folder)
    assert sum(row.repeat for row in rows) == 3


async def test_an_answer_that_comes_twice_is_one(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        await press(browser, page, "1", seconds="2")
        await press(browser, page, "1", seconds="9")
    rows = hold(choice)
    assert [(row.value, row.seconds, row.changes) for row in rows] == [("1", 2.0, 0)]


async def test_a_rater_goes_back_and_changes_an_answer(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        first = await begin(browser)
        second = await press(browser, first, "1")
        back = re.search(r'href="([^"]+)" rel="prev"', second.text)
        assert back is not None
        again = await browser.get(back[1])
        assert 'value="1" data-keys="1" aria-pressed="true"' in again.text
        assert "another answer replaces yours" in again.text
        onward = await press(browser, again, "4")
        assert "Task 2 of 4" in onward.text
    rows = hold(choice)
    assert [(row.value, row.changes) for row in rows] == [("4", 1)]
    assert rows[0].arm == rows[0].shown[3]


async def test_what_was_skipped_comes_at_the_end(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        place = str(page.url).rpartition("/")[0]
        page = await browser.get(f"{place}/2")
        for _ in range(3):
            page = await press(browser, page, "1")
        assert "Task 1 of 4" in page.text
        end = await browser.get(f"{place}/end")
        assert heading(end) == "1 of 4 tasks is left"


async def test_the_name_finds_the_ratings_again(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser, "Ann O’Neil")
        await press(browser, page, "1")
    async with client(choice) as browser:
        page = await browser.get("/", params={"rater": "  ann   o’neil "})
        assert "Task 2 of 4" in page.text
        assert "1 of 4 rated" in page.text
        other = await begin(browser, "Bea")
        assert "0 of 4 rated" in other.text
    assert {row.rater for row in hold(choice)} == {"Ann O’Neil"}


@pytest.mark.parametrize("name", ["", "   ", "=1+2", "@x", "a\x00b", "x" * 81])
async def test_a_name_that_cannot_be_kept_is_asked_for_again(
    choice: StudyFolder, name: str
) -> None:
    async with client(choice) as browser:
        page = await begin(browser, name)
    assert page.status_code == 422
    assert 'role="alert"' in page.text
    assert 'name="rater"' in page.text


async def test_facts_are_asked_until_what_they_need_is_denied(facts: StudyFolder) -> None:
    async with client(facts) as browser:
        page = await begin(browser)
        statements = [fact.statement for fact in facts.study.tasks[0].facts]
        assert [s in page.text for s in statements] == [True] * 4
        page = await press(browser, page, "1:yes")
        page = await press(browser, page, "2:no")
        assert page.text.count("not asked:") == 1
        page = await press(browser, page, "3:cannot tell")
        # The relation needs the ball, which is denied: the next picture comes.
        assert "Task 2 of 2" in page.text
        assert "1 of 2 rated" in page.text
    assert [(row.fact, row.value) for row in hold(facts)] == [
        ("o:dog.1", "yes"),
        ("o:ball.1", "no"),
        ("a:dog.1:color", "cannot tell"),
    ]


async def test_a_fact_that_was_made_void_later_does_not_count(facts: StudyFolder) -> None:
    async with client(facts) as browser:
        first = page = await begin(browser)
        for n in range(1, 5):
            page = await press(browser, page, f"{n}:yes")
        assert "Task 2 of 2" in page.text
        assert len(hold(facts)) == 4
        await press(browser, first, "1:no")
        rows = hold(facts)
        assert [(row.fact, row.value) for row in rows] == [("o:dog.1", "no"), ("o:ball.1", "yes")]
        page = await press(browser, first, "1:yes")
        assert len(hold(facts)) == 4


async def test_scores_are_kept(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 1)
    wish = {"kind": "score", "question": "How red is it?", "scale": ("grey", "red")}
    folder = study_in(tmp_path / "s", source, **wish)
    async with client(folder) as browser:
        page = await begin(browser)
        assert heading(page) == "How red is it?"
        assert 'aria-label="1 of 5: grey"' in page.text
        assert 'aria-label="5 of 5: red"' in page.text
        for value in "1355":
            page = await press(browser, page, value)
    assert sorted(row.value for row in hold(folder)) == ["1", "3", "5", "5"]
    assert {row.arm for row in hold(folder)} == set(ARMS)


@pytest.mark.parametrize("value", ["0", "5", "yes", "", "1:yes", "\u0661"])
async def test_what_is_no_answer_is_refused_and_nothing_kept(
    choice: StudyFolder, value: str
) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        reply = await browser.post(str(page.url), data={"value": value})
        assert reply.status_code == 422
        assert "is not an answer to this question" in reply.text
    assert hold(choice) == []


async def test_strange_addresses_say_so(choice: StudyFolder) -> None:
    async with client(choice) as browser:
        page = await begin(browser)
        place = str(page.url).rpartition("/")[0]
        picture_place = pictures(page)[0].rpartition("/")[0]
        for address in (
            "/r/nobody", "/r/nobody/1", f"{place}/0", f"{place}/5", f"{place}/99999999999999999999",
            f"{picture_place}/9", f"{picture_place}/0", f"{picture_place}/..", "/picture/x/1",
            "/static/study.json", "/static/..%2fstudy.json", "/nowhere",
        ):  # fmt: skip
            reply = await browser.get(address)
            assert reply.status_code == 404, address


async def test_ratings_of_other_tasks_are_not_mixed(tmp_path: Path) -> None:
    source = evaluation(tmp_path / "e", 4)
    folder = study_in(tmp_path / "a", source, kind="choice")
    async with client(folder) as browser:
        await press(browser, await begin(browser), "1")
    other = study_in(tmp_path / "b", source, kind="choice", n=2)
    (folder.folder / "study.json").write_bytes((other.folder / "study.json").read_bytes())
    with pytest.raises(RatingError, match="ratings of other tasks"):
        RatingStore(StudyFolder(folder.folder))
