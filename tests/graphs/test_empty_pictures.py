"""A picture on which nothing is drawn is unscored, at every door, and never the best of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.core.facts import ScoreCard
from scenewright.core.images import nothing_drawn
from scenewright.runs.api import refine
from scenewright.runs.scoring import score
from tests.doubles import EMPTY, EmptyAtFirst, ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table; dog left of table"


def models(backend: ScriptedBackend | None = None) -> dict[str, Any]:
    given: dict[str, Any] = {"judges": [ScriptedJudge("a", level=lambda fact: -1)]}
    if backend is not None:
        given |= {"backend": backend, "composer": ScriptedComposer()}
    return given | {"report_judges": []}


@pytest.mark.parametrize(
    ("picture", "told"),
    [
        (EMPTY, "all of it is black"),
        (Image.new("L", (5, 3), 255), "all of it is white"),
        (Image.new("RGB", (4, 4), (16, 32, 48)), "all of it is #102030"),
        (Image.effect_noise((8, 8), 0.0), "nothing is drawn"),
    ],
)
def test_one_even_colour_is_a_picture_of_nothing(picture: Image.Image, told: str) -> None:
    assert told in nothing_drawn(picture)


def test_a_spot_is_a_picture_of_something() -> None:
    picture = EMPTY.copy()
    picture.putpixel((3, 3), (0, 9, 0))
    assert nothing_drawn(picture) == ""


async def test_a_score_of_an_empty_picture_is_none() -> None:
    found = await score(EMPTY, SCENE, "miniature", **models())
    assert (found.loop.fact_recall, found.loop.sgscore) == (None, None)
    assert {answer.reason for said in found.answers for answer in said.answers} == {
        "nothing is drawn on the picture: all of it is black"
    }


async def test_the_shipped_judges_hold_nothing_of_it() -> None:
    found = await score(Image.new("RGB", (128, 128)), "dog", "miniature")
    cards: list[ScoreCard | None] = [found.loop, found.report]
    assert [card and card.fact_recall for card in cards] == [None, None]


@pytest.mark.parametrize("empty", [1, 2])
async def test_an_empty_picture_is_drawn_anew_and_never_kept(tmp_path: Path, empty: int) -> None:
    backend = EmptyAtFirst(lambda asked: 200)
    backend.empty = empty
    result = await refine(SCENE, out=tmp_path / "run", rounds=4, patience=9, **models(backend))
    cards = [record.loop_card for record in result.rounds]
    assert [card is not None and card.fact_recall for card in cards[:empty]] == [None] * empty
    assert (result.best_round, result.stop_reason) == (empty, "satisfied")


async def test_a_run_of_empty_pictures_alone_is_unscored(tmp_path: Path) -> None:
    backend = EmptyAtFirst(lambda asked: 200)
    backend.empty = 9
    result = await refine(SCENE, out=tmp_path / "run", rounds=3, patience=9, **models(backend))
    assert (result.stop_reason, len(result.rounds)) == ("rounds", 3)
    assert result.loop_card is not None
    assert result.loop_card.sgscore is None
