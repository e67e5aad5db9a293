"""An evaluation whose judge is served by another version from some call on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from scenewright.evals.errors import EvalError, ModelChangedError
from scenewright.evals.reporting.comparison import mismatches
from scenewright.evals.reporting.evaluations import open_sides
from scenewright.evals.reporting.report import build_report
from scenewright.evals.runner.independence import self_report_notes, told_self_reports
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.runner import export_folder, run_eval
from scenewright.evals.runner.served_versions import told_labels, told_versions, version_notes
from scenewright.evals.store.results import Results
from scenewright.evals.studies.readings import read
from tests.doubles import CallBook
from tests.evals.eval_sets import ListedSet, config, scene_items, scripted
from tests.evals.served_judges import ServedJudge, changing

JUDGE = "scripted:c"


def given(
    serves: Callable[[int], str], book: CallBook | None = None
) -> tuple[EvalModelOverrides, ServedJudge]:
    models = scripted(book)
    # Everything is there, so that each picture takes two waves.
    judge = ServedJudge("c", book or CallBook(), lambda fact: 0, serves=serves)
    return replace(models, judges={**models.judges, "local:miniature/judge-c": judge}), judge


async def run(folder: Path, models: EvalModelOverrides, **fields: object) -> Results:
    asked = config(concurrency=1, protocol="grounded", **fields)
    return await run_eval(asked, folder, given=models, dataset=ListedSet(scene_items()))


def versions_by_image(found: Results) -> dict[str, set[str]]:
    by: dict[str, set[str]] = {}
    for row in found.rows("answers"):
        by.setdefault(row["item"], set()).add(row["model"])
    return by


async def test_it_stops_keeps_what_is_judged_and_splits_where_that_is_asked(
    tmp_path: Path,
) -> None:
    # Two calls a picture: the change comes between the two waves of the second one.
    book = CallBook()
    models, judge = given(changing(3), book)
    with pytest.raises(ModelChangedError) as stopped:
        await run(tmp_path / "e", models)
    said = str(stopped.value)
    assert f"{JUDGE} was served as v1 (6 answers since " in said
    assert "and is now served as v2" in said
    assert "--on-model-change split" in said
    assert "--on-model-change accept" in said
    # The same again asks nothing more, and stops again.
    calls = judge.calls
    with pytest.raises(ModelChangedError, match="served as v2"):
        await run(tmp_path / "e", models)
    assert judge.calls == calls
    found = await run(tmp_path / "e", models, on_model_change="split")
    # No picture is judged by two versions, and no question was put twice to one.
    by = versions_by_image(found)
    assert by == {"item-0": {"v1"}, "item-1": {"v2"}, "item-2": {"v2"}, "item-3": {"v2"}}
    assert judge.calls == 2 + 1 + 3 * 2
    for table in ("answers", "verdicts", "scores"):
        assert {row["item"]: row["panel"] for row in found.rows(table)} == {
            "item-0": "report@v1",
            **{f"item-{at}": "report@v2" for at in (1, 2, 3)},
        }
    assert told_labels(found.manifest) == {
        "report@v1": ("report", {JUDGE: "v1"}),
        "report@v2": ("report", {JUDGE: "v2"}),
    }
    (note,) = version_notes(found.manifest)
    assert "panels stand apart, as report@v1, report@v2" in note
    # A report shows both, a comparison of versions is refused.
    page = build_report(found, resamples=100).page.read_text()
    assert "Models behind the judges" in page
    assert "report@v2" in page
    with pytest.raises(EvalError, match="hold served versions of a judge apart"):
        read(found, "miniature")
    # Going on without the option changes nothing: v2 is known.
    again = await run(tmp_path / "e", models)
    assert {row["panel"] for row in again.rows("scores")} == {"report@v1", "report@v2"}


async def test_evaluations_judged_by_other_versions_are_not_compared(tmp_path: Path) -> None:
    one = await run(tmp_path / "one", given(changing(99))[0])
    two = await run(tmp_path / "two", given(changing(0))[0])
    same = await run(tmp_path / "same", given(changing(99))[0])
    sides = open_sides([str(each.folder) for each in (one, two, same)])
    first, second, third = (side.evaluation for (side,) in sides)
    (mismatch,) = mismatches(first, second)
    assert mismatch.what == (
        "the versions that served the judges of the panel report: scripted:c v1 against "
        "scripted:c v2"
    )
    assert not mismatches(first, third)


async def test_what_a_repeated_look_took_is_counted(tmp_path: Path) -> None:
    book = CallBook()
    models, _ = given(changing(3), book)
    found = await run(tmp_path / "e", models, on_model_change="split")
    begun = [line for line in book.lines if line.startswith("begin answer")]
    assert len(begun) == len(found.rows("answers")) + 2
    assert found.manifest["totals"]["tokens_in"] == 10 * len(begun)
    assert found.manifest["totals"]["usd"] == pytest.approx(0.001 * len(begun))


async def test_it_pools_both_versions_and_says_so_where_that_is_accepted(tmp_path: Path) -> None:
    models, _ = given(changing(3))
    found = await run(tmp_path / "e", models, on_model_change="accept")
    assert {row["panel"] for row in found.rows("scores")} == {"report"}
    assert versions_by_image(found)["item-1"] == {"v1", "v2"}
    (one, two) = told_versions(found.manifest)[JUDGE]
    assert (one.version, two.version) == ("v1", "v2")
    assert one.answers + two.answers == len(found.rows("answers"))
    (note,) = version_notes(found.manifest)
    assert "the tables pool them" in note
    # Tables that are written anew keep to it.
    assert {row["panel"] for row in export_folder(tmp_path / "e").rows("scores")} == {"report"}


@pytest.mark.parametrize("serves", [changing(3, "", ""), changing(3, "v1", "v1")])
async def test_one_version_or_none_told_is_no_change(
    tmp_path: Path, serves: Callable[[int], str]
) -> None:
    models, _ = given(serves)
    found = await run(tmp_path / "e", models)
    assert {row["panel"] for row in found.rows("scores")} == {"report"}
    assert version_notes(found.manifest) == ()


async def test_a_judge_that_changes_with_every_call_judges_no_picture(tmp_path: Path) -> None:
    models, _ = given(lambda call: f"v{call % 2}")
    found = await run(tmp_path / "e", models, on_model_change="split", stop_after_failures=99)
    reasons = {row["reason"] for row in found.rows("scores") if row["part"] == ""}
    assert len(reasons) == 1
    assert "served by several models in turns" in reasons.pop()


async def test_failed_looks_stand_with_the_version_of_their_time(tmp_path: Path) -> None:
    models, judge = given(changing(2))

    def mute(judge: object, facts: object, answers: list[object]) -> object:
        # The third picture is judged by nobody.
        if 4 <= models_judge.calls - 1 <= 5:
            raise RuntimeError("away")
        return answers

    models_judge = judge
    judge.behave = mute  # type: ignore[assignment]
    found = await run(tmp_path / "e", models, on_model_change="split")
    panels = {row["item"]: row["panel"] for row in found.rows("scores")}
    assert panels == {
        "item-0": "report@v1", "item-1": "report@v2", "item-2": "report@v2", "item-3": "report@v2",
    }  # fmt: skip


async def test_loop_and_report_served_by_one_model_are_labelled_a_self_report(
    tmp_path: Path,
) -> None:
    models, _ = given(changing(0, then="gpt-4o-2024-08-06"))
    loop = ServedJudge("a", level=lambda fact: 999, serves=changing(3, "openai/gpt-4o", "gpt-4.1"))
    models = replace(models, judges={**models.judges, "local:miniature/judge-a": loop})
    found = await run(tmp_path / "e", models, conditions=["feedback"])
    arm = "miniature/feedback/0"
    assert told_self_reports(found.manifest) == {"report": {arm: ("gpt-4o",)}}
    assert version_notes(found.manifest) == (
        f"Model changed: scripted:a steered loops of {arm} as gpt-4.1 and as openai/gpt-4o.",
    )
    (note,) = self_report_notes(found.manifest)
    assert "gpt-4o of the panel report steered the loop" in note
    # Tables that are written anew tell the same.
    assert told_self_reports(export_folder(tmp_path / "e").manifest) == {
        "report": {arm: ("gpt-4o",)}
    }


async def test_two_judges_of_a_panel_served_by_one_model_are_told(tmp_path: Path) -> None:
    models = scripted()
    pair = {
        f"local:miniature/judge-{name}": ServedJudge(name, serves=lambda call: "gpt-4o")
        for name in ("b", "c")
    }
    models = replace(models, judges={**models.judges, **pair})
    found = await run(tmp_path / "e", models, panels={"both": {"judges": sorted(pair)}})
    assert version_notes(found.manifest) == (
        "Doubled vote: gpt-4o answered under two names of the panel both.",
    )
