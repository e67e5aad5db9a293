"""The gate with scripted models: verdicts, what is left out, resuming, and wrong input."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from scenewright.core.facts import Answer
from scenewright.evals.errors import EvalError
from scenewright.evals.gate.result import (
    Change,
    Comparison,
    FactChange,
    GateOptions,
    losses_beside,
)
from scenewright.evals.gate.running import expected_cost, plan_gate, read_result, run_gate
from scenewright.evals.gate.subjects import Drawn, Finished, RandomOrder, change_of, subject_of
from scenewright.evals.reporting.pages import ChoiceError
from scenewright.evals.reporting.score_matrix import Column
from scenewright.evals.runner.runner import run_eval
from scenewright.evals.statistics.sequential import Decided, Decision
from scenewright.evals.store.results import Results
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scene_items
from tests.evals.gate.gate_models import (
    BASELINE,
    CANDIDATE,
    OPTIONS,
    SET,
    gate_config,
    models,
    planned,
)

ROOT = Path(__file__).resolve().parents[3]
KILLED_AT = 150
"""Lines of the book of calls after which the process is killed."""


async def test_a_worse_candidate_is_told_with_its_lost_facts(tmp_path: Path) -> None:
    found = await run_gate(planned(tmp_path, models(candidate=60)), batch=20)
    assert found.verdict == "worse"
    assert not found.passed
    assert found.decided_at <= found.scenes < len(SET.items)
    assert found.scenes == 20
    assert found.difference is not None
    assert found.difference < -0.1
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.difference <= found.high < 0
    assert found.pictures == 2 * found.scenes
    assert found.kinds["object"].lost > found.kinds["object"].gained
    assert {fact.change for fact in found.facts} >= {"lost"}
    assert read_result(tmp_path) == found
    page = (tmp_path / "report" / "index.html").read_text()
    assert "Most often lost" in page
    lost = next(fact for fact in found.facts if fact.change == "lost")
    assert lost.statement in page
    assert list((tmp_path / "report" / "thumbs").glob("*.webp"))
    assert (tmp_path / "report" / "evidence.svg").stat().st_size > 1000


async def test_the_same_model_is_not_worse(tmp_path: Path) -> None:
    found = await run_gate(planned(tmp_path, models(candidate=BASELINE)), batch=20)
    assert found.verdict == "not worse"
    assert found.passed
    assert found.difference == 0.0
    assert all(count.lost == count.gained == 0 for count in found.kinds.values())


async def test_the_verdict_does_not_depend_on_the_batches(tmp_path: Path) -> None:
    results = [
        await run_gate(planned(tmp_path / str(size), models(candidate=90)), batch=size)
        for size in (5, 23)
    ]
    assert results[0].verdict == results[1].verdict != "undecided"
    assert results[0].decided_at == results[1].decided_at


async def test_finished_evaluations_give_the_same_verdict_and_draw_nothing(tmp_path: Path) -> None:
    overrides = models(candidate=60)
    for role, profile in (("a", "miniature"), ("b", "miniature-edit")):
        await run_eval(
            config(backends=[profile], conditions=["triplets"], panels=gate_config().panels),
            tmp_path / role,
            given=overrides,
            dataset=SET,
        )
    drawn = await run_gate(planned(tmp_path / "drawn", overrides), batch=5)
    plan = plan_gate(
        Finished(str(tmp_path / "a")), Finished(str(tmp_path / "b")), OPTIONS, tmp_path / "found"
    )
    found = await run_gate(plan)
    assert (found.verdict, found.decided_at) == (drawn.verdict, drawn.decided_at)
    assert found.scenes == len(SET.items)
    assert found.pictures == 0
    assert not (tmp_path / "found" / "baseline").exists()


async def test_a_finished_baseline_saves_its_pictures(tmp_path: Path) -> None:
    overrides = models(candidate=60)
    await run_eval(
        gate_config().model_copy(update={"backends": ("miniature",)}),
        tmp_path / "a",
        given=overrides,
        dataset=SET,
    )
    plan = plan_gate(
        subject_of(str(tmp_path / "a")),
        Drawn("miniature-edit"),
        OPTIONS,
        tmp_path / "gate",
        dataset=SET,
        given=overrides,
    )
    found = await run_gate(plan, batch=5)
    assert found.verdict == "worse"
    assert found.pictures == found.scenes
    assert found.left_out == {}
    assert found.of == len(SET.items)


async def test_unscored_scenes_are_left_out_and_are_no_zeros(tmp_path: Path) -> None:
    def refuses(judge: object, facts: object, answers: list[Answer]) -> list[Answer]:
        # One kind of scene: those with an umbrella and a cat.
        if not any("cat" in answer.fact_id for answer in answers):
            return answers
        return [
            Answer(fact_id=a.fact_id, judge_id=a.judge_id, state="unscored", reason="no reply")
            for a in answers
        ]

    calm = await run_gate(planned(tmp_path / "calm", models(candidate=BASELINE)), batch=20)
    found = await run_gate(
        planned(tmp_path / "gaps", models(candidate=BASELINE, behave=refuses)), batch=20
    )
    assert calm.left_out == {}
    assert found.left_out == {"unscored in both": found.left_out["unscored in both"]}
    assert found.difference == 0.0
    assert found.verdict == calm.verdict


async def test_where_nothing_is_scored_nothing_is_decided(tmp_path: Path) -> None:
    def silent(judge: object, facts: object, answers: list[Answer]) -> list[Answer]:
        raise RuntimeError("the judge is down")

    plan = planned(tmp_path, models(behave=silent), dataset=ListedSet(scene_items(6)))
    found = await run_gate(plan, batch=3)
    assert found.verdict == "undecided"
    assert found.scenes == 0
    assert found.before is None
    assert "nothing is scored on both sides" in found.reason
    assert found.left_out == {"unscored in both": 6}
    assert "undecided" in (tmp_path / "report" / "index.html").read_text()


@pytest.mark.parametrize("n", [1, 2])
async def test_a_small_set_ends_undecided(tmp_path: Path, n: int) -> None:
    plan = planned(tmp_path, models(candidate=60), dataset=ListedSet(scene_items(n)))
    found = await run_gate(plan)
    assert found.verdict == "undecided"
    assert found.scenes == n
    assert ("needs two or more" in found.reason) == (n == 1)


def begun(place: Path, book: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.evals.gate.gate_models", str(place), str(book)]
    return subprocess.Popen(command, cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"})


@pytest.mark.slow
async def test_a_killed_gate_goes_on_and_repeats_nothing(tmp_path: Path) -> None:
    book = tmp_path / "book"
    process = begun(tmp_path, book)
    until = time.monotonic() + 90
    while not book.exists() or book.read_text().count("\n") < KILLED_AT:
        assert process.poll() is None, "it ended before it was killed"
        assert time.monotonic() < until
        await asyncio.sleep(0.005)
    process.kill()
    process.wait()
    there = planned(tmp_path / "gate", models(candidate=CANDIDATE, book=CallBook(book)))
    found = await run_gate(there, batch=5)
    calm = await run_gate(planned(tmp_path / "calm", models(candidate=CANDIDATE)), batch=5)
    assert found == calm
    drawn = [line for line in book.read_text().splitlines() if line.startswith("end generate")]
    # What was under way at the kill may be drawn twice.
    assert 2 * found.scenes <= len(drawn) <= 2 * found.scenes + 3
    before = book.read_text()
    assert await run_gate(there, batch=5) == found
    assert book.read_text() == before


async def test_other_options_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    overrides = models(candidate=60)
    await run_gate(planned(tmp_path, overrides), batch=20)
    with pytest.raises(EvalError, match="holds another gate"):
        planned(tmp_path, overrides, options=GateOptions(margin=0.2))
    with pytest.raises(EvalError, match="holds another gate"):
        planned(tmp_path, overrides, candidate=Drawn("miniature-edit", {"composer": "grid"}))


async def test_sides_on_other_scenes_are_refused(tmp_path: Path) -> None:
    overrides = models()
    for name, items in (("a", SET), ("b", ListedSet(scene_items(5), "listed-2"))):
        await run_eval(gate_config(), tmp_path / name, given=overrides, dataset=items)
    sides = Finished(f"{tmp_path / 'a'}"), Finished(f"{tmp_path / 'b'}")
    with pytest.raises(ChoiceError, match="they differ in the set"):
        await run_gate(plan_gate(*sides, OPTIONS, tmp_path / "gate"))
    forced = await run_gate(plan_gate(*sides, OPTIONS, tmp_path / "gate", force=True))
    assert forced.scenes == 5
    assert forced.left_out
    assert forced.warnings[0].startswith("the set")
    with pytest.raises(ChoiceError, match="is an evaluation of other scenes"):
        plan_gate(
            *(sides[0], Drawn("miniature-edit"), OPTIONS, tmp_path / "third"),
            dataset=ListedSet(scene_items(5), "listed-2"),
            given=overrides,
        )


def test_what_is_no_side_is_told(tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="holds no evaluation"):
        subject_of(str(tmp_path / "gone"))
    with pytest.raises(ChoiceError, match="two profiles need scenes"):
        plan_gate(Drawn("miniature"), Drawn("miniature-edit"), OPTIONS, tmp_path)
    with pytest.raises(EvalError, match="no field 'step'"):
        planned(tmp_path, models(), candidate=Drawn("miniature-edit", {"step": 4}))
    with pytest.raises(EvalError, match="it cannot differ"):
        planned(tmp_path, models(), candidate=Drawn("miniature", {"report_judges": ["x:y"]}))
    with pytest.raises(EvalError, match="different report judges"):
        plan_gate(
            Drawn("miniature"),
            Drawn("sdxl"),
            OPTIONS,
            tmp_path,
            config=gate_config().model_copy(update={"panels": {}}),
            dataset=SET,
        )  # fmt: skip


def test_changes_are_json_or_text() -> None:
    assert change_of("steps=8") == ("steps", 8)
    assert change_of("composer=triplets") == ("composer", "triplets")
    assert change_of('a=["x=y"]') == ("a", ["x=y"])
    with pytest.raises(ChoiceError, match="KEY=VALUE"):
        change_of("steps")
    assert subject_of("miniature", {"steps": 8}).text == "miniature, steps=8"


def test_a_change_reaches_the_profile_and_keeps_the_rest_of_its_table(tmp_path: Path) -> None:
    gate = planned(tmp_path, models(), candidate=Drawn("miniature", {"backend.model": "other"}))
    condition = gate.configs["candidate"].condition["triplets"]
    assert condition.profile["composer"] == "triplets"
    assert condition.profile["backend"]["model"] == "other"
    assert condition.profile["backend"]["kind"] == "diffusers"


def test_the_order_is_that_of_the_seed_and_starts_alike_whatever_the_limit() -> None:
    whole = [item.id for item in RandomOrder(SET, 0)]
    assert sorted(whole) == sorted(item.id for item in SET)
    assert whole != [item.id for item in SET]
    assert [item.id for item in RandomOrder(SET, 0, 7)] == whole[:7]
    assert [item.id for item in RandomOrder(SET, 1)] != whole
    assert RandomOrder(SET, 0, 7).fingerprint == SET.fingerprint


async def test_a_score_outside_of_0_to_1_is_refused(tmp_path: Path) -> None:
    overrides = models()
    for name in ("a", "b"):
        await run_eval(gate_config(), tmp_path / name, given=overrides, dataset=SET)
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    file = Results(tmp_path / "b").path("scores")
    table = pq.read_table(file)
    at = table.schema.get_field_index("value")
    pq.write_table(
        table.set_column(at, table.schema.field(at), pc.multiply(table["value"], 30.0)), file
    )
    plan = plan_gate(
        *(Finished(str(tmp_path / name)) for name in ("a", "b")), OPTIONS, tmp_path / "gate"
    )
    with pytest.raises(ChoiceError, match="scores between 0 and 1"):
        await run_gate(plan)


def changed(kind: str, lost: int, gained: int) -> list[FactChange]:
    """Facts of one kind that so many scenes lost, and so many gained."""
    places: list[tuple[Change, int]] = [("lost", at) for at in range(lost)]
    places += [("gained", lost + at) for at in range(gained)]
    return [
        FactChange(
            change=change,
            item=str(at),
            seed=0,
            kind=kind,
            statement="red",
            image_before="a",
            image_after="b",
        )
        for change, at in places
    ]


def scored(decision: Decision, fell: int = 0, by: float = -0.01) -> Comparison:
    """Thirty scenes, the score of the first ``fell`` of which fell ``by``."""
    differences = np.array([by] * fell + [0.0] * (30 - fell))
    blank, items = np.zeros(30), tuple(map(str, range(30)))
    decided = Decided(decision, 30, 1.0, 1.0)
    return Comparison(
        *(Column("sgscore", "", "p"), items, differences, blank, blank + differences, decided),
        *({}, ()),
    )


def test_a_loss_that_the_score_does_not_show_is_noted() -> None:
    facts = [*changed("attribute", 12, 1), *changed("object", 6, 5)]
    (note,) = losses_beside(facts, scored("not worse"))
    assert note.startswith("attribute facts: 12 scenes lost some and 1 gained some")
    assert "The score does not show it" in note
    assert losses_beside(facts, scored("worse")) == ()
    assert losses_beside(changed("relation", 0, 20), scored("not worse")) == ()
    # Eight facts of one scene are one scene.
    one = [fact.model_copy(update={"item": "0"}) for fact in changed("attribute", 8, 0)]
    assert losses_beside(one, scored("undecided")) == ()


@pytest.mark.parametrize(("fell", "is_shown"), [(0, False), (6, False), (7, True), (12, True)])
def test_the_note_says_where_the_score_shows_the_loss(fell: int, is_shown: bool) -> None:
    (note,) = losses_beside(changed("relation", 12, 1), scored("not worse", fell))
    assert ("does not show it" in note) is not is_shown
    assert (f"The score fell in {fell} of these 12, too little" in note) is is_shown


async def test_the_cost_is_that_of_both_sides(tmp_path: Path) -> None:
    assert await expected_cost(planned(tmp_path, models())) == (0.0, [])


def test_a_damaged_result_is_told(tmp_path: Path) -> None:
    (tmp_path / "gate.json").write_text(json.dumps({"verdict": "maybe"}))
    with pytest.raises(EvalError, match="damaged"):
        read_result(tmp_path)
    with pytest.raises(EvalError, match="holds no gate"):
        read_result(tmp_path / "gone")
