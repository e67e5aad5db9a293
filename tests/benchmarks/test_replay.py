"""The bare loop makes the very calls of the run it is compared with."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks._models import InstantBackend, InstantJudge
from benchmarks.overhead import calls_of, replay
from scenewright import refine
from scenewright.core.formats import load_scene
from scenewright.core.layout import region_of_cell
from scenewright.runs.model_factory.profiles import RunModels
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge

# Two equal dogs: two facts of the scene are one question.
SCENE = load_scene("red ball on table; dog left of table; dog right of table")


PLACES = {key: region_of_cell((at, 1)) for at, key in enumerate(("ball.1", "table.1", "dog.1"))}


@pytest.mark.parametrize("region", [False, True], ids=["whole picture", "region"])
async def test_images_and_questions_are_those_of_the_run(tmp_path: Path, region: bool) -> None:
    book = CallBook()
    planned = {item.id: region_of_cell((0, 0)) for item in SCENE.objects} | PLACES
    run_models = RunModels(
        backend=ScriptedBackend(
            lambda request: 80 + 40 * len(request.references), book, masks=region
        ),
        composer=ScriptedComposer(planned=planned if region else {}),
        loop_judges=(ScriptedJudge("a", book), ScriptedJudge("b", book)),
        report_judges=(ScriptedJudge("c", book),),
    )
    result = await refine(
        SCENE,
        out=tmp_path / "run",
        backend=run_models.backend,
        composer=run_models.composer,
        judges=run_models.loop_judges,
        report_judges=run_models.report_judges,
    )
    assert len(result.rounds) > 1
    drawn = calls_of(tmp_path / "run")
    starts = [s.request.start for s in drawn if s.request is not None]
    assert any(start is not None for start in starts) is region
    made = sorted(book.lines)
    book.lines.clear()
    await replay(calls_of(tmp_path / "run"), run_models)
    assert sorted(book.lines) == made


async def test_an_image_that_was_not_drawn_by_the_run_cannot_be_replayed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    await refine(
        SCENE,
        out=folder,
        rounds=1,
        backend=ScriptedBackend(lambda request: 80),
        judges=[ScriptedJudge("a")],
        report_judges=[],
        composer=ScriptedComposer(),
    )
    log = folder / "events.jsonl"
    text = log.read_text()
    drawn = next(line for line in text.splitlines() if '"type":"generated"' in line)
    log.write_text(text.replace(drawn, drawn.replace('"cached":false', '"cached":true')))
    with pytest.raises(ValueError, match="r0:candidate:generated"):
        calls_of(folder)


async def test_instant_models_go_through_all_rounds_with_other_images(tmp_path: Path) -> None:
    result = await refine(
        SCENE,
        out=tmp_path / "run",
        rounds=3,
        patience=3,
        backend=InstantBackend(),
        judges=[InstantJudge("a")],
        report_judges=[InstantJudge("c")],
    )
    assert result.stop_reason == "rounds"
    assert len(list((tmp_path / "run" / "images").glob("*.png"))) == 5
