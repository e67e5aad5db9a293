"""Runs, scores and evaluations that share the answers of judges through PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from scenewright import RunError, refine, score
from scenewright.config.settings import Settings, load_settings
from scenewright.evals.runner.runner import run_eval
from scenewright.providers import StoreError
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, painted
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.providers.postgres import database

SCENE = "red ball on table; dog left of table"


@pytest.fixture(autouse=True)
def shared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SCENEWRIGHT_{name.upper()}", raising=False)
    with database() as url:
        monkeypatch.setenv("SCENEWRIGHT_ANSWERS", url)
        yield url


def asked(book: CallBook) -> int:
    return len([line for line in book.lines if line.startswith("begin answer")])


def run_models(book: CallBook) -> dict[str, Any]:
    return {
        "rounds": 2,
        "backend": ScriptedBackend(lambda request: 120, book),
        "judges": [ScriptedJudge("a", book)],
        "report_judges": [ScriptedJudge("c", book)],
        "composer": ScriptedComposer(book),
    }


async def test_a_second_run_of_the_same_pictures_pays_no_judge() -> None:
    book = CallBook()
    first = await refine(SCENE, out="one", **run_models(book))
    paid = asked(book)
    second = await refine(SCENE, out="two", **run_models(book))
    assert paid > 0
    assert asked(book) == paid
    assert [r.report_card for r in second.rounds] == [r.report_card for r in first.rounds]
    assert first.totals["tokens_in"] > second.totals["tokens_in"] == 0
    assert not list(Path().glob("*/answers.sqlite"))


async def test_scores_find_the_answers_of_others() -> None:
    book = CallBook()
    judge = ScriptedJudge("a", book)
    picture = painted((16, 16), (120, 0, 0))
    first = await score(picture, SCENE, judges=[judge], report_judges=[])
    paid = asked(book)
    second = await score(picture, SCENE, judges=[judge], report_judges=[])
    assert paid > 0
    assert asked(book) == paid
    assert second.loop == first.loop


async def test_an_evaluation_in_another_folder_asks_nothing_again_and_says_the_same(
    tmp_path: Path,
) -> None:
    book = CallBook()
    items = ListedSet(scene_items())
    one = await run_eval(config(), tmp_path / "one", given=scripted(book), dataset=items)
    paid = asked(book)
    two = await run_eval(config(), tmp_path / "two", given=scripted(book), dataset=items)
    assert paid > 0
    assert asked(book) == paid
    for table in ("verdicts", "scores"):
        assert two.rows(table) == one.rows(table)
    assert sum(row["tokens_in"] for row in one.rows("answers")) > 0
    assert sum(row["tokens_in"] for row in two.rows("answers")) == 0


async def test_a_database_that_is_away_is_said_before_anything_is_drawn(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SCENEWRIGHT_ANSWERS", "postgresql://postgres@127.0.0.1:1/x")
    book = CallBook()
    with pytest.raises(StoreError, match="the database is up"):
        await run_eval(
            config(), tmp_path / "e", given=scripted(book), dataset=ListedSet(scene_items())
        )
    with pytest.raises((RunError, StoreError), match="the database is up"):
        await refine(SCENE, out="run", **run_models(book))
    assert not [line for line in book.lines if line.startswith("begin")]


def test_the_setting_must_name_postgresql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCENEWRIGHT_ANSWERS", "answers.sqlite")
    with pytest.raises(ValueError, match=r"answers: .*postgresql://USER:PASSWORD@HOST/NAME"):
        load_settings()
