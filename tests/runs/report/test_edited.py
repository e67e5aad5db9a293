"""The page of a run that a person edited."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scenewright.core.formats import load_scene
from scenewright.graphs.events import Edit
from scenewright.runs.record import RunRecord, read_run
from scenewright.runs.report.content import page_content
from scenewright.runs.report.render import write_page
from tests.graphs.editing import DOG, RED, SCENE, Person
from tests.runs.report.test_page import check


@pytest.fixture
async def run(tmp_path: Path) -> Path:
    """Two rounds, then an edit that corrects the dog and asks for a hat, then one that draws on."""
    person = Person(tmp_path / "run", 130, 90, 210)
    await person()
    hat = load_scene(f"{SCENE}; hat on dog")
    corrected = {f"o:{DOG}": "no"}
    await person(
        Edit(key="1", verdicts=corrected, scene=hat, rounds=1, note="A <b>smudge</b>, no dog.")  # type: ignore[arg-type]
    )
    await person(Edit(key="2", rounds=1, note="Once more."))
    return tmp_path / "run"


def text_of(page: Path) -> str:
    return re.sub(r"\s+", " ", " ".join(check(page).text))


def test_the_edit_is_a_step_of_its_own(run: Path) -> None:
    page = write_page(run)
    text = text_of(page)
    assert "A person looked at round 0’s picture" in text
    assert "A <b>smudge</b>, no dog." in text
    assert "<b>smudge</b>" not in page.read_text()
    assert "dog is not there; the panel: holds" in text
    assert "hat on dog asked from here on" in text
    assert "A person looked after round 3 and let the run go on: “Once more.”" in text
    assert text.count("round 0 again") == 2, "in the round's card and in the table of facts"
    assert "after a cut" not in text


def test_facts_added_later_are_not_asked_of_earlier_pictures(run: Path) -> None:
    view = read_run(run)
    hat = next(fact.id for fact in view.facts if fact.statement == "hat")
    assert [r.state(hat) for r in view.rounds[:2]] == ["unasked", "unasked"]
    assert view.rounds[2].state(hat) in ("yes", "no")
    first, _, third, *_ = page_content(view).rounds
    assert first.marks[hat].state == "unasked"
    assert "a person said so" in third.marks[f"o:{DOG}"].title
    assert "a person said so" not in third.marks[RED].title
    assert write_page(run).read_text().count('class="unasked"') == 2 * 2


def test_scores_are_compared_within_the_newest_scene(run: Path) -> None:
    view = read_run(run)
    assert view.scenes[-1].round == 2
    assert view.best is not None
    before, after = view.rounds[2].score(), view.best.score()
    assert before is not None
    assert after is not None
    assert view.change("loop") == pytest.approx(after - before)


async def test_facts_that_are_no_longer_asked_stay_on_the_page(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 130)
    await person(rounds=1)
    await person(Edit(key="1", scene=load_scene("dog left of table"), rounds=1), rounds=1)
    view: RunRecord = read_run(tmp_path / "run")
    assert [fact.statement for fact in view.former] == ["ball", "ball is red", "red ball on table"]
    text = text_of(write_page(tmp_path / "run"))
    assert text.count("no longer asked") == 2 * len(view.former), "by the person, and as rows"


async def test_a_paused_run_says_how_it_goes_on(tmp_path: Path) -> None:
    person = Person(tmp_path / "run", 130)
    await person(pause=lambda: True)
    view = read_run(tmp_path / "run")
    assert view.paused
    text = text_of(write_page(tmp_path / "run"))
    assert "waits for a person" in text
    assert "cut off" not in text
