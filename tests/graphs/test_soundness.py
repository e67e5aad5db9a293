"""Facts of soundness: asked of the report's judges, told apart from every score."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from rich.console import Console

from scenewright.cli.refine import card_json
from scenewright.cli.run_display import card_lines, print_result, unscored_lines
from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.facts import NOTHING_EXTRA, SOUNDNESS, WELL_FORMED, Fact
from scenewright.core.formats import load_scene
from scenewright.core.questions import ALL_WHOLE, facts_of
from scenewright.graphs.events import Answered
from scenewright.runs.api import refine
from scenewright.runs.record import read_run
from scenewright.runs.report.render import write_page
from scenewright.runs.result import RunResult, load_run
from scenewright.runs.scoring import score
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge

SCENE = "red ball on table"
WORDS = {"classes": ("ball", "table"), "attributes": {"color": ("red",)}, "predicates": ("on",)}
BESIDES = "Besides a ball and a table, is there anything else in the image?"


def level(fact: Fact) -> int:
    """In a picture of quality 100 all holds but that nothing else is there."""
    return 150 if fact.id == NOTHING_EXTRA else 50


def judge(name: str = "c", **more: Any) -> ScriptedJudge:
    return ScriptedJudge(name, level=level, **more)


async def run(out: Path, **changes: Any) -> tuple[RunResult, list[Answered]]:
    """Return a run of one round, and what the judges were asked in it."""
    events: list[Any] = []
    options: dict[str, Any] = {
        "out": out,
        "rounds": 1,
        "backend": ScriptedBackend(lambda request: 100),
        "judges": [judge("a")],
        "report_judges": [judge()],
        "composer": ScriptedComposer(),
        "on_event": events.append,
    }
    result = await refine(SCENE, **options | changes)
    return result, [event for event in events if isinstance(event, Answered)]


def asked(calls: Sequence[Answered]) -> dict[str, int]:
    """Return role → number of answers about soundness."""
    found = {"loop": 0, "report": 0}
    for call in calls:
        found[call.role] += sum(answer.fact_id in SOUNDNESS for answer in call.answers)
    return found


async def test_the_report_is_asked_in_the_same_call_and_no_score_changes(tmp_path: Path) -> None:
    result, calls = await run(tmp_path / "run")
    assert asked(calls) == {"loop": 0, "report": 2}
    # Objects with the picture as a whole, then what is said of them.
    assert [len(call.answers) for call in calls if call.role == "report"] == [4, 2]
    loop, report = result.loop_card, result.report_card
    assert loop is not None
    assert report is not None
    assert {v.fact_id: v.state for v in report.soundness} == {
        WELL_FORMED: "yes",
        NOTHING_EXTRA: "no",
    }
    assert not loop.soundness
    assert [v.fact_id for v in report.verdicts] == [v.fact_id for v in loop.verdicts]
    assert (report.sgscore, report.fact_recall, report.satisfied) == (1.0, 1.0, True)
    assert report.expected_recall == pytest.approx(
        sum(v.likelihood for v in report.verdicts) / len(report.verdicts)
    )
    assert load_run(tmp_path / "run").report_card == report
    assert [fact.id for fact in result.facts] == [fact.id for fact in facts_of(load_scene(SCENE))]


async def test_every_door_tells_it_beside_the_score(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run")
    assert result.report_card is not None
    whole, extra = (verdict.probability for verdict in result.report_card.soundness)
    said = f"well formed: yes ({whole:.2f}), nothing extra: no ({extra:.2f})"
    told = io.StringIO()
    print_result(read_run(tmp_path / "run"), Console(file=told, width=200))
    assert f"picture  {said}" in told.getvalue()
    page = write_page(tmp_path / "run").read_text("utf-8")
    for words in ("Well formed", f"yes ({whole:.2f})", "Nothing extra", f"no ({extra:.2f})"):
        assert words in page
    written = card_json(result.report_card)
    assert written is not None
    assert written["soundness"]["nothing extra"] == {
        "state": "no",
        "probability": extra,
        "reason": "",
    }
    saved = json.loads((tmp_path / "run" / "result.json").read_text("utf-8"))
    [drawn] = saved["rounds"]
    assert [one["state"] for one in drawn["report_card"]["soundness"]] == ["yes", "no"]
    assert "soundness" not in drawn["loop_card"]


async def test_judges_that_were_not_taught_it_are_not_asked(tmp_path: Path) -> None:
    words = ClosedVocabulary(**WORDS)  # type: ignore[arg-type]
    reporter = judge(vocabulary=words)
    result, calls = await run(tmp_path / "run", report_judges=[reporter])
    assert asked(calls) == {"loop": 0, "report": 2}
    assert len(reporter.book.lines) == 2 * len(result.facts)
    card = result.report_card
    assert card is not None
    assert [verdict.state for verdict in card.soundness] == ["unscored"] * 2
    assert all("cannot say" in verdict.reason for verdict in card.soundness)
    assert (card.sgscore, card.unscored, card.satisfied) == (1.0, 0, True)
    told = io.StringIO()
    print_result(read_run(tmp_path / "run"), Console(file=told, width=200))
    assert "well formed" not in told.getvalue()
    page = write_page(tmp_path / "run").read_text("utf-8")
    assert "no judge of the report can say" in page
    taught = judge(vocabulary=ClosedVocabulary(soundness=True, **WORDS))  # type: ignore[arg-type]
    result, _ = await run(tmp_path / "taught", report_judges=[taught])
    assert result.report_card is not None
    assert [verdict.state for verdict in result.report_card.soundness] == ["yes", "no"]


async def test_the_papers_protocol_does_not_ask_it(tmp_path: Path) -> None:
    result, calls = await run(tmp_path / "run", protocol="scene-bench")
    assert asked(calls) == {"loop": 0, "report": 0}
    assert result.report_card is not None
    assert not result.report_card.soundness


async def test_a_loop_that_reports_itself_is_asked_at_once(tmp_path: Path) -> None:
    reporter = judge("a")
    result, calls = await run(
        tmp_path / "run", judges=[reporter], report_judges=None, self_report=True
    )
    assert asked(calls) == {"loop": 2, "report": 2}
    assert all(call.cached for call in calls if call.role == "report")
    assert result.report_card == result.loop_card


async def test_a_picture_is_scored_with_it() -> None:
    questions: list[str] = []

    def noting(_: ScriptedJudge, facts: Sequence[Fact], answers: list[Any]) -> list[Any]:
        questions.extend(fact.question for fact in facts)
        return answers

    picture = Image.new("RGB", (16, 16), (100, 0, 0))
    picture.putpixel((0, 1), (0, 0, 0))
    found = await score(picture, SCENE, judges=[judge("a")], report_judges=[judge(behave=noting)])
    assert {ALL_WHOLE, BESIDES} <= set(questions)
    assert any("well formed: yes" in text for _, text in card_lines(found))
    assert unscored_lines(found) == []
