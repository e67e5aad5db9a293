"""A run with a cascade: who is asked what, what the events tell, and that it resumes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import load_calibration
from scenewright.config.profiles import BUILT_IN, CascadeSpec, Profile, SettingsError
from scenewright.core.facts import SOUNDNESS, Fact, FactKind
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.graphs.events import Answered
from scenewright.runs.api import refine
from scenewright.runs.folder import RunError
from scenewright.runs.record import read_run
from scenewright.runs.report.content import page_content
from scenewright.runs.report.words import settled_line
from scenewright.runs.scoring import score
from tests.doubles import CallBook, ScriptedBackend, ScriptedComposer, ScriptedJudge, painted

SCENE = "red ball on table; dog left of table"
FACTS = facts_of(load_scene(SCENE))
BALL, TABLE, DOG, RED, ON, LEFT = (fact.id for fact in FACTS)


def profile(**changes: Any) -> Profile:
    """A profile whose cascade names the scripted judges, which are given to the run."""
    base = BUILT_IN["miniature"].model_dump() | {
        "judges": ("local:a", "local:b"),
        "report_judges": (),
        "cascade": {"first": ("local:a",), "unsure": (0.0, 0.14)},
    }
    return Profile.model_validate(base | changes)


class Named(ScriptedJudge):
    @property
    def id(self) -> str:
        return f"local:{self.name}"


def level(fact: Fact) -> int:
    """At quality 100 all is found but the dog and what is left of the table."""
    return 200 if fact.id == DOG else 50


def run_of(out: Path, book: CallBook | None = None, **changes: Any) -> Any:
    book = book or CallBook()
    return refine(
        SCENE,
        changes.pop("profile", None) or profile(),
        out=out,
        rounds=1,
        **{
            "backend": ScriptedBackend(lambda request: 100, book),
            "judges": [Named("a", book, level), Named("b", book, level)],
            "report_judges": [Named("c", book, level)],
            "composer": ScriptedComposer(book),
            **changes,
        },
    )


async def test_the_dear_judge_is_asked_only_what_the_cheap_one_is_unsure_of(
    tmp_path: Path,
) -> None:
    events: list[Any] = []
    result = await run_of(tmp_path / "run", on_event=events.append)
    asked = {e.key: [a.fact_id for a in e.answers] for e in events if isinstance(e, Answered)}
    assert asked == {
        "r0:loop:w0:first:local:a:answered": [BALL, TABLE, DOG],
        "r0:loop:w0:rest:local:b:answered": [DOG],
        # Together they do not find the dog, so nobody is asked what is left of the table.
        "r0:loop:w1:first:local:a:answered": [RED, ON],
        "r0:report:w0:local:c:answered": [BALL, TABLE, DOG, *SOUNDNESS],
        "r0:report:w1:local:c:answered": [RED, ON],
    }
    stages = {e.stage for e in events if isinstance(e, Answered) and e.role == "loop"}
    assert stages == {"first", "rest"}
    verdicts = {v.fact_id: v for v in result.loop_card.verdicts}
    assert (verdicts[BALL].n_scored, verdicts[BALL].n_unscored) == (1, 0)
    assert verdicts[DOG].n_scored == 2
    assert result.loop_card.intervals is not None
    assert result.loop_card.intervals.objects is not None
    assert result.report_card.intervals.sgscore is not None


async def test_asked_together_there_is_one_wave_and_the_same_verdicts(tmp_path: Path) -> None:
    cards = {}
    for asking in ("waves", "together"):
        book, events = CallBook(), []
        alone = profile(cascade=None, asking=asking)
        judges = [Named("a", book, level), Named("b", book, level)]
        result = await refine(
            SCENE,
            alone,
            out=tmp_path / asking,
            rounds=1,
            backend=ScriptedBackend(lambda request: 100, book),
            judges=judges,
            report_judges=[],
            composer=ScriptedComposer(book),
            on_event=events.append,
        )
        asked = [e for e in events if isinstance(e, Answered)]
        assert len(asked) == (4 if asking == "waves" else 2)
        assert sum(len(e.answers) for e in asked) == (10 if asking == "waves" else 12)
        cards[asking] = result.rounds[0].loop_card
    assert cards["waves"].verdicts == cards["together"].verdicts
    assert [v.state for v in cards["together"].verdicts].count("void") == 1


async def test_a_run_that_was_cut_off_between_the_stages_goes_on(tmp_path: Path) -> None:
    whole: list[Any] = []
    expected = await run_of(tmp_path / "whole", on_event=whole.append)

    asked = asyncio.Event()

    async def forever() -> None:
        asked.set()
        await asyncio.sleep(3600)

    book = CallBook()
    slow = Named("b", book, lambda fact: 50, behave=lambda judge, facts, answers: forever())
    cut = asyncio.create_task(
        run_of(tmp_path / "cut", book, judges=[Named("a", book, level), slow])
    )
    await asyncio.wait_for(asked.wait(), 60)
    cut.cancel()
    with pytest.raises(asyncio.CancelledError):
        await cut
    first = [line for line in book.lines if line.startswith("begin answer scripted-judge-a")]
    again = CallBook()
    result = await run_of(tmp_path / "cut", again)
    assert result.loop_card == expected.loop_card
    assert first
    # What the cheap judge had answered in the first wave is not asked again.
    assert not set(first) & set(again.lines)


def measured(path: Path, *, first: str = "local:a") -> Path:
    """A calibration by which the judge a is trusted with objects alone."""
    judges = {judge.id: judge.fingerprint for judge in (Named("a"), Named("b"), Named("c"))}
    kinds: tuple[FactKind, ...] = ("object", "attribute")
    rows = [
        # One fact a picture; a is right of all objects, and of half of the attributes.
        LabelledAnswer(f"i{at}", "f", kinds[at % 2], judge, holds, 0.9 if yes else 0.1)
        for at in range(800)
        for holds in [at % 4 < 2]
        for judge in judges
        for yes in [holds if at % 2 == 0 or judge != "local:a" else at % 8 < 4]
    ]
    spec = CascadeSpec(first=(first,), risk=0.05)
    calibrate(rows, judges=judges, about="a test", cascades=[spec]).save(path)
    return path


async def test_with_a_risk_the_bounds_are_those_of_the_calibration(tmp_path: Path) -> None:
    trusted = profile(
        cascade={"first": ("local:a",), "risk": 0.05}, calibration=measured(tmp_path / "c.json")
    )
    events: list[Any] = []
    result = await run_of(tmp_path / "run", profile=trusted, on_event=events.append)
    asked = [
        (e.stage, [a.fact_id for a in e.answers])
        for e in events
        if isinstance(e, Answered) and e.role == "loop"
    ]
    # Judge a says .86 of all that is there and .14 of the dog.
    assert asked == [("first", [BALL, TABLE, DOG]), ("first", [RED, ON]), ("rest", [RED, ON])]
    view = read_run(tmp_path / "run")
    assert view.rounds[0].settled == {BALL, TABLE, DOG}
    assert settled_line(view.rounds[0]) == "3 of 5 facts settled first"
    marks = page_content(view).rounds[0].marks
    assert ["were sure" in marks[fact].title for fact in (BALL, RED)] == [True, False]
    assert result.loop_card is not None
    other = measured(tmp_path / "other.json", first="local:b")
    with pytest.raises(SettingsError, match="no bounds for a cascade that begins with local:a"):
        await run_of(tmp_path / "no", profile=trusted.model_copy(update={"calibration": other}))


async def test_judges_that_the_cascade_does_not_know_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="local:a is not among them"):
        await run_of(tmp_path / "run", judges=[Named("x"), Named("y")])
    picture = painted((16, 16), (100, 0, 0))
    with pytest.raises(SettingsError, match="does not fit the judges"):
        await score(picture, SCENE, profile(), judges=[Named("x")], report_judges=[])


async def test_one_model_under_two_names_cannot_report_what_it_steered(tmp_path: Path) -> None:
    class Alias(Named):
        @property
        def fingerprint(self) -> str:
            return "the same"

    judges: dict[str, Any] = {
        "judges": [Alias("a"), Named("b")],
        "report_judges": [Alias("c")],
    }
    with pytest.raises(SettingsError, match="local:a and local:c are the same model"):
        await run_of(tmp_path / "run", **judges)
    picture = painted((16, 16), (100, 0, 0))
    with pytest.raises(SettingsError, match="cannot both steer"):
        await score(picture, SCENE, profile(), **judges)


async def test_a_card_of_a_score_has_intervals(tmp_path: Path) -> None:
    picture = painted((16, 16), (100, 0, 0))
    plain = profile(cascade=None)
    found = await score(
        picture,
        SCENE,
        plain,
        judges=[Named("a", level=level), Named("b", level=lambda fact: 50)],
        report_judges=[],
    )
    assert found.loop.intervals is not None
    assert found.loop.intervals.objects is not None
    low, high = found.loop.intervals.objects
    assert low <= (found.loop.objects.value or 0.0) <= high
    assert found.loop.corrected is None


async def test_a_calibration_weighs_and_corrects_and_belongs_to_the_run(tmp_path: Path) -> None:
    judges = [Named("a", level=level), Named("b", level=lambda fact: 50)]
    ids = {judge.id: judge.fingerprint for judge in judges}
    path = tmp_path / "calibration.json"

    def measure(wrong: int) -> None:
        """b finds what is not there in ``wrong`` of 40 cases; a errs once each way."""
        rows = []
        for at in range(80):
            holds = at % 2 == 0
            for judge in judges:
                errs = at in (0, 1) if judge.name == "a" else at % 2 == 1 and at < 2 * wrong
                said = holds != errs
                rows.append(LabelledAnswer("i", f"f{at}", "object", judge.id, holds, float(said)))
        panel = Panel("calibrated")
        calibrate(rows, judges=ids, about="a test", panel=panel).save(path)

    measure(wrong=30)
    weighed = profile(cascade=None, aggregation="calibrated", calibration=path)
    options: dict[str, Any] = {
        "out": tmp_path / "run",
        "rounds": 1,
        "judges": judges,
        "report_judges": [],
        "composer": ScriptedComposer(),
    }
    result = await refine(SCENE, weighed, backend=ScriptedBackend(lambda request: 100), **options)
    card = result.loop_card
    assert card is not None
    states = {verdict.fact_id: verdict.state for verdict in card.verdicts}
    # b's yes is worth little against a's no.
    assert (states[BALL], states[DOG], states[LEFT]) == ("yes", "no", "void")
    assert card.corrected is not None
    assert card.corrected.objects is not None
    assert card.corrected.objects != card.objects.value
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["models"]["calibration"] == load_calibration(path).digest

    (tmp_path / "run" / "events.jsonl").write_text(
        "".join(
            line
            for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines(keepends=True)
            if '"type":"finished"' not in line
        )
    )
    measure(wrong=3)
    with pytest.raises(RunError, match="calibration"):
        await refine(SCENE, weighed, backend=ScriptedBackend(lambda request: 100), **options)
