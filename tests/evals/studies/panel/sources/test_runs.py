"""Runs of the loop as tables of answers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scenewright.evals.studies.panel.sources.recorded import load_runs
from scenewright.evals.studies.panel.table import PanelStudyError
from scenewright.runs.api import refine
from scenewright.runs.result import RunResult
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge
from tests.evals.served_judges import ServedJudge

SCENES = ("red ball on table; dog left of table", "cat under umbrella")


async def run(folder: Path, scene: str, version: str = "") -> RunResult:
    book = CallBook()
    return await refine(
        scene,
        rounds=3,
        out=folder,
        backend=ScriptedBackend(lambda request: 40 + 20 * len(request.references), book),
        composer=ScriptedComposer(book),
        judges=[ScriptedJudge("a", book), ScriptedJudge("b", book)],
        report_judges=[ServedJudge("c", book, serves=lambda call: version)],
    )


async def test_rounds_of_several_runs_are_images_and_all_judges_columns(tmp_path: Path) -> None:
    done = [await run(tmp_path / f"run-{at}", scene) for at, scene in enumerate(SCENES)]
    found = load_runs(tmp_path)
    table = found.table
    assert set(found.loop_judges) == {"scripted:a", "scripted:b"}
    assert set(table.judge_ids) == {"scripted:a", "scripted:b", "scripted:c"}
    assert len(table.images) == sum(len(one.rounds) for one in done)
    assert table.n_items == 2
    assert {image.round for image in table.images} >= {0, 1}
    for number, image in enumerate(table.images):
        one = next(one for one in done if image.id.startswith(f"{one.run_id}/"))
        record = next(record for record in one.rounds if record.round == image.round)
        for said in record.answers:
            column = table.judge_ids.index(said.judge_id)
            known = {answer.fact_id: answer for answer in said.answers}
            for row in np.flatnonzero(table.image_of == number):
                answer = known.get(table.facts[row].id)
                if answer is None or answer.state == "void":
                    assert not table.asked[row, column]
                else:
                    assert table.votes[row, column] == (answer.state == "yes")
                    assert table.said[row, column] == pytest.approx(answer.probability)
    alone = load_runs(tmp_path / "run-0")
    assert alone.table.n_items == 1


async def test_runs_of_several_versions_of_a_judge_say_so(tmp_path: Path) -> None:
    for at, version in enumerate(("v1", "v2")):
        await run(tmp_path / f"run-{at}", SCENES[0], version)
    notes = load_runs(tmp_path).notes
    assert any(note.startswith("Model changed: scripted:c was served as v1 (") for note in notes)
    assert not any("Model changed" in note for note in load_runs(tmp_path / "run-0").notes)


def test_a_folder_without_runs_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(PanelStudyError, match="scenewright refine"):
        load_runs(tmp_path)
    with pytest.raises(PanelStudyError, match="cannot be read"):
        load_runs(tmp_path / "nothing")
