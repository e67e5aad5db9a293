"""The gallery of the documentation: its page is what its runs say, and nothing was chosen."""

from __future__ import annotations

import json
from typing import Any

import pytest
from PIL import Image

from benchmarks import _gallery
from benchmarks._pages import fill_section
from scenewright.runs.report import words


def runs() -> tuple[str, list[dict[str, Any]]]:
    found = json.loads((_gallery.IMAGES / "gallery.json").read_text(encoding="utf-8"))
    return found["version"], found["runs"]


def card(score: float | None, *missing: str) -> dict[str, Any]:
    return {"line": "", "sgscore": score, "missing": list(missing)}


def row(kept: int, first: dict[str, Any], last: dict[str, Any], loop: bool) -> dict[str, Any]:
    judged = card(None) if loop else card(None, "ball")
    return {"kept": kept, "report": [first, last], "loop": [judged, judged]}


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (row(0, card(1.0), card(1.0), True), "complete at once"),
        (row(0, card(0.5, "ball"), card(0.5, "ball"), False), "not repaired"),
        (row(0, card(1.0), card(1.0), False), "the judges disagree"),
        (row(0, card(0.5, "ball"), card(0.5, "ball"), True), "the judges disagree"),
        (row(1, card(0.5, "ball", "dog"), card(1.0), True), "repaired"),
        (row(1, card(0.5, "ball", "dog"), card(0.8, "dog"), False), "improved"),
        (row(1, card(0.8, "dog"), card(0.5, "ball", "dog"), True), "worse"),
        (row(1, card(0.8, "dog"), card(0.8, "dog"), True), "no difference"),
        (row(1, card(None), card(0.8, "dog"), True), "not judged"),
    ],
)
def test_an_outcome_is_that_of_the_judges_of_the_report(run: dict[str, Any], said: str) -> None:
    assert _gallery.outcome(run) == said


def test_the_page_is_what_the_runs_say() -> None:
    page = _gallery.PAGE.read_text(encoding="utf-8")
    assert page == fill_section(page, _gallery.SECTION, _gallery.section(*runs()))


def test_the_runs_are_the_first_scenes_of_each_level() -> None:
    shown = [(run["level"], run["scene"]) for run in runs()[1]]
    assert shown == [(level, words.scene_words(s, 10_000)) for level, s in _gallery.scenes()]
    others = [level for level, _ in shown if not level.startswith("demo_")]
    assert others == [level for level in _gallery.LEVELS for _ in range(_gallery.EACH)]


def test_the_pictures_are_there_and_small() -> None:
    named = {file for run in runs()[1] for file in run["pictures"]}
    assert named == {path.name for path in _gallery.IMAGES.glob("*.webp")}
    assert sum(path.stat().st_size for path in _gallery.IMAGES.iterdir()) < 1_000_000
    for name in named:
        with Image.open(_gallery.IMAGES / name) as picture:
            assert picture.size == (_gallery.SIDE, _gallery.SIDE)
