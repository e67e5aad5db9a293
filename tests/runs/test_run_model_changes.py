"""Runs and scores whose models are served by another version, or are one model under two names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from scenewright import RunError, refine, score
from scenewright.cli import run_display
from scenewright.graphs.events import Event, Warned
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge, painted
from tests.evals.served_judges import ServedJudge, changing

SCENE = "red ball on table; dog left of table"


@pytest.fixture(autouse=True)
def in_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def served(name: str, serves: Callable[[int], str], level: int = 250) -> ServedJudge:
    return ServedJudge(name, level=lambda fact: level, serves=serves)


def models(
    judges: Sequence[ScriptedJudge], report: Sequence[ScriptedJudge] = ()
) -> dict[str, object]:
    return {
        "rounds": 3,
        "backend": ScriptedBackend(lambda request: 120),
        "judges": judges,
        "report_judges": report,
        "composer": ScriptedComposer(),
        "out": "run",
    }


def warned(events: Sequence[Event], about: str) -> list[str]:
    return [e.text for e in events if isinstance(e, Warned) and e.about == about]


async def test_a_judge_that_changes_in_a_run_is_told_in_events_result_page_and_table() -> None:
    events: list[Event] = []
    judge = served("a", changing(1))
    found = await refine(SCENE, on_event=events.append, **models([judge]))
    (text,) = warned(events, "version")
    assert text.startswith("scripted:a was served as v1 (")
    assert text.endswith(" and is now served as v2: the scores of this run are of both.")
    assert found.warnings == (text,)
    assert "is now served as v2" in write_page(found.folder).read_text()
    assert ("note", text) in run_display.result_lines(read_run(found.folder))


async def test_a_run_that_is_to_stop_stops_and_goes_on_where_that_is_accepted() -> None:
    judge = served("a", changing(1))
    with pytest.raises(RunError, match=r"served as v1 .* and v2 .*--on-model-change accept"):
        await refine(SCENE, on_model_change="stop", **models([judge]))
    calls = judge.calls
    with pytest.raises(RunError, match="--on-model-change accept"):
        await refine(SCENE, on_model_change="stop", **models([judge]))
    assert judge.calls == calls
    found = await refine(SCENE, **models([judge]))
    assert found.best is not None
    assert len(found.warnings) == 1
    with pytest.raises(RunError, match="'split' is for the tables of evaluations"):
        await refine(SCENE, on_model_change="split", **models([judge]))


async def test_a_resumed_run_compares_with_the_versions_in_its_events() -> None:
    count = 0

    def falls(event: Event) -> None:
        nonlocal count
        count += event.type == "judged"
        if count == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await refine(SCENE, on_event=falls, **models([served("a", changing(99))]))
    count = 9
    found = await refine(SCENE, **models([served("a", changing(0))]))
    (text,) = found.warnings
    assert "scripted:a was served as v1 (" in text


async def test_loop_and_report_served_by_one_model_are_told_with_the_first_answers() -> None:
    events: list[Event] = []
    one = served("alias", lambda call: "gpt-4o-2024-08-06")
    other = served("other-alias", lambda call: "openai/gpt-4o")
    found = await refine(SCENE, on_event=events.append, **models([one], [other]))
    (text,) = warned(events, "independence")
    assert text == (
        "The answers tell that gpt-4o steers the loop and reports its result, under names that do "
        "not show it: this is a self-report."
    )
    assert found.reporting.kind == "self"
    assert found.reporting.models == ("gpt-4o",)
    # The result says it once.
    assert found.warnings == ()


async def test_two_judges_of_a_panel_served_by_one_model_are_told() -> None:
    events: list[Event] = []
    pair = [served(name, lambda call: "gpt-4o") for name in ("one", "two")]
    found = await refine(SCENE, on_event=events.append, **models(pair))
    assert warned(events, "independence") == [
        "The answers tell that gpt-4o answers under two names of one panel: its vote counts double."
    ]
    assert found.reporting.doubled == ("gpt-4o",)


async def test_a_score_of_two_versions_says_so() -> None:
    judge = served("a", changing(1), level=0)
    found = await score(painted((16, 16), (120, 0, 0)), SCENE, judges=[judge], report_judges=[])
    (text,) = found.warnings
    assert "is now served as v2" in text
