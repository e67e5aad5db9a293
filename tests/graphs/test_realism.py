"""Realism in the loop: who is asked, what is kept, what is repaired, what stays as it was."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from scenewright.agents.panel.panel import CascadeSpec
from scenewright.config.options import LoopOptions
from scenewright.config.profiles import BUILT_IN, Profile, SettingsError
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.ports.backend import GenerationRequest
from scenewright.core.ports.judge import JudgeCaps
from scenewright.core.questions import QuestionForm
from scenewright.graphs.events import Answered, Edit, Event, Judged, Planned
from scenewright.graphs.record import improves
from scenewright.graphs.state import round_seed
from scenewright.runs.api import refine
from scenewright.runs.folder import RunError
from scenewright.runs.result import RunResult
from scenewright.runs.scoring import score
from tests.doubles import ScriptedBackend, ScriptedComposer, ScriptedJudge, ScriptedRealism, painted

SCENE = "red ball on table; dog left of table"
FACTS = QuestionForm(realism=True).facts(load_scene(SCENE))
STATED = {fact.id for fact in FACTS if fact.kind != "realism"}
REAL = {fact.id for fact in FACTS if fact.kind == "realism"}
BOXES = {"ball.1": (1.0, 1.0, 6.0, 6.0), "dog.1": (8.0, 4.0, 16.0, 12.0)}
NEEDS = {"ball.1": 80, "table.1": 10, "dog.1": 120}
"""The realism above which each object of a picture looks real."""
SEED = 5
MINIATURE = BUILT_IN["miniature"]


def needed(fact: Fact) -> int:
    return NEEDS[fact.subject]


def by_round(*values: int) -> Callable[[GenerationRequest], int]:
    """One value a candidate; the last goes on. References have none."""
    rest = itertools.chain(values, itertools.repeat(values[-1]))
    references = {round_seed(SEED, n, "reference") for n in range(1, 20)}
    return lambda request: 0 if request.seed in references else next(rest)


def real(name: str = "real", **more: Any) -> ScriptedRealism:
    return ScriptedRealism(name, **{"level": needed, "boxes": BOXES, **more})


async def run(
    out: Path,
    looks: Sequence[int] = (0,),
    quality: Sequence[int] = (255,),
    backend: dict[str, Any] | None = None,
    **options: Any,
) -> tuple[RunResult, list[Event]]:
    events: list[Event] = []
    drawn = {"masks": True, "realism": by_round(*looks), **(backend or {})}
    asked: dict[str, Any] = {
        "out": out,
        "seed": SEED,
        "rounds": 4,
        "patience": 4,
        "realism": True,
        "backend": ScriptedBackend(by_round(*quality), **drawn),
        "judges": [ScriptedJudge("a", level=stated_level), ScriptedJudge("b", level=stated_level)],
        "report_judges": [],
        "realism_judges": [real()],
        "realism_report_judges": [],
        "composer": ScriptedComposer(),
        "on_event": events.append,
        **options,
    }
    return await refine(SCENE, **asked), events


def stated_level(fact: Fact) -> int:
    """Every fact is found above 100, the dog's above 200."""
    return 200 if "dog" in fact.id else 100


def plans(events: Sequence[Event]) -> list[Planned]:
    return [event for event in events if isinstance(event, Planned)]


def asked(events: Sequence[Event], judge: str, round: int = 0) -> list[list[str]]:
    """The facts of each call of a judge, in order."""
    return [
        [answer.fact_id for answer in event.answers]
        for event in events
        if isinstance(event, Answered) and (event.judge_id, event.round) == (judge, round)
    ]


async def test_each_fact_goes_to_the_judges_of_its_kind_after_the_objects(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", [255])
    assert (result.stop_reason, len(result.rounds)) == ("satisfied", 1)
    assert asked(events, "scripted:real") == [[f.id for f in FACTS if f.id in REAL]]
    for judge in ("scripted:a", "scripted:b"):
        first, second = asked(events, judge)
        assert {id_[0] for id_ in first} == {"o"}
        assert {*first, *second} == STATED
    (card,) = (event.card for event in events if isinstance(event, Judged))
    by_id = {verdict.fact_id: verdict for verdict in card.verdicts}
    assert all((by_id[id_].n_scored, by_id[id_].n_unscored) == (2, 0) for id_ in STATED)
    assert all((by_id[id_].n_scored, by_id[id_].n_unscored) == (1, 0) for id_ in REAL)


async def test_an_absent_object_is_void_and_never_asked_for_realism(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", [255], [150], rounds=1)
    (said,) = asked(events, "scripted:real")
    assert {id_.split(":")[1] for id_ in said} == {"ball.1", "table.1"}
    card = result.loop_card
    assert card is not None
    assert (card.realism.yes, card.realism.void) == (4, 2)


async def test_asked_together_an_absent_object_is_void_all_the_same(tmp_path: Path) -> None:
    profile = MINIATURE.model_copy(update={"asking": "together"})
    result, events = await run(tmp_path / "run", [255], [150], rounds=1, profile=profile)
    assert len(asked(events, "scripted:real")) == len(asked(events, "scripted:a")) == 1
    card = result.loop_card
    assert card is not None
    assert (card.realism.yes, card.realism.void) == (4, 2)


async def test_a_picture_that_holds_every_fact_ends_the_run_real_or_not(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", [60, 255])
    assert (result.stop_reason, len(result.rounds), plans(events)) == ("satisfied", 1, [])
    card = result.loop_card
    assert card is not None
    assert card.satisfied
    assert card.realism.no > 0


async def test_what_is_missing_is_repaired_by_the_strategy_of_the_run(tmp_path: Path) -> None:
    result, events = await run(tmp_path / "run", [60, 60], [150, 255])
    (plan,) = plans(events)
    assert (plan.strategy, plan.object, plan.region) == ("feedback", None, None)
    assert plan.reference is not None
    assert "real" not in plan.why
    assert (result.stop_reason, result.best_round) == ("satisfied", 1)


async def test_of_equally_correct_pictures_the_more_real_one_is_kept(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run", [60, 130, 100], strategy="best-of-n", rounds=3)
    assert (result.best_round, len(result.rounds)) == (1, 3)
    assert result.ocr is not None
    change = result.ocr["loop"]
    assert change.before is not None
    assert change.after is not None
    assert change.before < change.after == pytest.approx(result.loop_card.ocr)  # type: ignore[union-attr]
    assert set(result.ocr) == {"loop"}


async def test_more_realism_never_costs_a_fact(tmp_path: Path) -> None:
    result, _ = await run(
        tmp_path / "run", [60, 255, 70], [255, 150, 255], strategy="best-of-n", rounds=3
    )
    assert result.best_round == 2
    assert result.rounds[1].loop_card.ocr > result.rounds[2].loop_card.ocr  # type: ignore[union-attr, operator]
    assert result.loop_card.fact_recall == 1.0  # type: ignore[union-attr]


async def test_without_judges_of_realism_those_that_can_tell_are_asked(tmp_path: Path) -> None:
    judges = [ScriptedJudge("a", level=lambda fact: 0), ScriptedJudge("b", level=lambda fact: 0)]
    profile = MINIATURE.model_copy(update={"realism_judges": (), "realism_report_judges": ()})
    result, events = await run(
        tmp_path / "run", [255], judges=judges, realism_judges=None, profile=profile
    )
    assert result.stop_reason == "satisfied"
    assert all({*itertools.chain(*asked(events, judge.id))} >= REAL for judge in judges)
    assert all(len(asked(events, judge.id)) == 2 for judge in judges)


class Stated(ScriptedJudge):
    """A judge of what a scene states, and of nothing else."""

    @property
    def caps(self) -> JudgeCaps:
        return replace(super().caps, kinds=frozenset({"object", "attribute", "relation"}))


async def test_a_profile_whose_judges_cannot_tell_is_an_error_before_anything_is_drawn(
    tmp_path: Path,
) -> None:
    profile = MINIATURE.model_copy(update={"realism_judges": (), "realism_report_judges": ()})
    with pytest.raises(RunError, match=r"no judge of the profile 'miniature'.*realism_judges"):
        await run(
            tmp_path / "run",
            judges=[Stated("a")],
            realism_judges=None,
            realism_report_judges=None,
            profile=profile,
        )
    assert not (tmp_path / "run" / "manifest.json").exists()
    with pytest.raises(RunError, match="set realism"):
        await run(tmp_path / "run", realism=False, realism_judges=[real()])


async def test_a_report_that_cannot_tell_leaves_realism_unscored(tmp_path: Path) -> None:
    result, _ = await run(
        tmp_path / "run", [255], report_judges=[Stated("c", level=stated_level)], rounds=1
    )
    card = result.report_card
    assert card is not None
    assert (card.realism.unscored, card.fact_recall, card.ocr) == (6, 1.0, None)
    reasons = {v.reason for v in card.verdicts if v.state == "unscored"}
    assert reasons == {"no judge of the report can answer it"}


async def test_the_judges_of_the_report_say_how_real_it_was_before_and_after(
    tmp_path: Path,
) -> None:
    result, events = await run(
        tmp_path / "run",
        [60, 130],
        strategy="best-of-n",
        rounds=2,
        report_judges=[ScriptedJudge("c", level=stated_level)],
        realism_report_judges=[real("seen-last", level=lambda fact: 65)],
    )
    assert result.ocr is not None
    told = result.ocr["report"]
    assert told.before == pytest.approx(0.5 - 5 / 510)
    assert told.after == pytest.approx(0.5 + 65 / 510)
    drawn = max(at for at, e in enumerate(events) if e.type == "generated")
    seen = [at for at, e in enumerate(events) if getattr(e, "judge_id", "") == "scripted:seen-last"]
    assert min(seen) > drawn
    stored = json.loads((tmp_path / "run" / "result.json").read_text())
    assert stored["ocr"]["report"]["after"] == pytest.approx(told.after)
    assert result.gain() == 0.0


async def test_one_model_cannot_steer_and_report_realism(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="given twice"):
        await run(tmp_path / "a", realism_report_judges=[real()])
    with pytest.raises(SettingsError, match="same model"):
        await run(tmp_path / "b", realism_report_judges=[Twin("twin")])


class Twin(ScriptedRealism):
    """Another name for the model of :func:`real`."""

    @property
    def fingerprint(self) -> str:
        return real().fingerprint


def silent(judge: ScriptedJudge, facts: Sequence[Fact], answers: list[Answer]) -> list[Answer]:
    return [
        Answer(fact_id=fact.id, judge_id=judge.id, state="unscored", reason="blind")
        for fact in facts
    ]


async def test_a_silent_judge_of_realism_costs_no_fact(tmp_path: Path) -> None:
    result, _ = await run(tmp_path / "run", realism_judges=[real(behave=silent)])
    assert (result.stop_reason, len(result.rounds)) == ("satisfied", 1)
    card = result.loop_card
    assert card is not None
    assert (card.fact_recall, card.ocr, card.realism.unscored) == (1.0, None, 6)


@pytest.mark.parametrize("aggregation", ["mean", "dawid_skene", "majority"])
async def test_scores_of_facts_know_nothing_of_realism(tmp_path: Path, aggregation: str) -> None:
    profile = MINIATURE.model_copy(update={"aggregation": aggregation, "quorum": 2})
    options: dict[str, Any] = {"quality": [150], "rounds": 1, "profile": profile}
    one, _ = await run(tmp_path / "with", [100], **options)
    other, _ = await run(
        tmp_path / "without", realism=False, realism_judges=None, realism_report_judges=None,
        **options,
    )  # fmt: skip
    first, second = one.loop_card, other.loop_card
    assert first is not None
    assert second is not None
    assert first.stated == second.verdicts
    assert first.intervals == second.intervals
    assert (first.sgscore, first.fact_recall, first.expected_recall) == (
        second.sgscore, second.fact_recall, second.expected_recall,
    )  # fmt: skip
    # One judge of realism is its quorum, and its probability the verdict's.
    assert {v.fact_id: v.probability for v in first.verdicts}["real:ball.1:shape"] == pytest.approx(
        0.5 + 20 / 510
    )


async def test_a_cascade_is_about_stated_facts(tmp_path: Path) -> None:
    cascade = CascadeSpec(first=("scripted:a",), unsure=(0.9, 1.0))
    profile = MINIATURE.model_copy(update={"cascade": cascade})
    result, events = await run(tmp_path / "run", [255], rounds=1, profile=profile)
    (said,) = asked(events, "scripted:real")
    assert {*said} == REAL
    assert {*itertools.chain(*asked(events, "scripted:b"))} < STATED
    assert result.stop_reason == "satisfied"


async def test_without_realism_nothing_of_it_is_told(tmp_path: Path) -> None:
    result, _ = await run(
        tmp_path / "run", quality=[150, 255], realism=False, realism_judges=None,
        realism_report_judges=None,
    )  # fmt: skip
    folder = tmp_path / "run"
    manifest = json.loads((folder / "manifest.json").read_text())
    config = json.dumps(manifest["config"]) + json.dumps(manifest["models"])
    assert "realism" not in config
    assert "detector" not in config
    for line in (folder / "events.jsonl").read_text().splitlines():
        event = json.loads(line)
        if event["type"] == "planned":
            assert {"object", "region"}.isdisjoint(event)
    assert "ocr" not in json.loads((folder / "result.json").read_text())
    assert result.ocr is None
    assert LoopOptions().model_dump() == {
        k: v for k, v in LoopOptions(realism=True).model_dump().items() if k != "realism"
    }


async def test_a_person_may_speak_of_realism_too(tmp_path: Path) -> None:
    options: dict[str, Any] = {"rounds": 1, "looks": [60]}
    await run(tmp_path / "run", **options)
    said = {"real:dog.1:shape": "yes", "real:dog.1:texture": "yes"}
    edit = Edit(key="real", verdicts=said, rounds=1)  # type: ignore[arg-type]
    result, _ = await run(tmp_path / "run", edit=edit, **options)
    assert result.rounds[1].corrected == {"o:dog.1": "yes", **said}


def card_of(*states: str, realism: float = 0.4) -> ScoreCard:
    stated = [
        Verdict(fact_id=fact.id, state=state, probability=0.9 if state == "yes" else 0.1)  # type: ignore[arg-type]
        for fact, state in zip((f for f in FACTS if f.id in STATED), states, strict=True)
    ]
    state: Any = "yes" if realism > 0.5 else "no"
    real = [Verdict(fact_id=id_, state=state, probability=realism) for id_ in sorted(REAL)]
    return ScoreCard.of(FACTS, [*stated, *real])


def test_keep_best_weighs_facts_first_and_realism_second() -> None:
    n = len(STATED)
    every = ["yes"] * n
    for lost in range(n):
        less = [*every]
        less[lost] = "no"
        assert not improves(card_of(*less, realism=1.0), card_of(*every, realism=0.0), FACTS)
        assert improves(card_of(*every, realism=0.0), card_of(*less, realism=1.0), FACTS)
        assert improves(card_of(*less, realism=0.5), card_of(*less, realism=0.4), FACTS)
    assert improves(card_of(*every, realism=0.6), card_of(*every, realism=0.4), FACTS)
    assert not improves(card_of(*every, realism=0.4), card_of(*every, realism=0.4), FACTS)


def test_realism_that_falls_silent_does_not_make_a_picture_better() -> None:
    n = len(STATED)
    best = card_of(*["yes"] * n, realism=0.4)
    verdicts = [
        Verdict(fact_id=v.fact_id, state="unscored", reason="blind")
        if v.fact_id in REAL and "table" not in v.fact_id
        else (v.model_copy(update={"probability": 0.49}) if v.fact_id in REAL else v)
        for v in best.verdicts
    ]
    # The mean of what is left is higher, over fewer objects.
    card = ScoreCard.of(FACTS, verdicts)
    assert card.ocr is not None
    assert card.ocr > 0.4
    assert not improves(card, best, FACTS)


async def test_a_single_picture_is_scored_with_realism(tmp_path: Path) -> None:

    profile: Profile = MINIATURE
    found = await score(
        painted((16, 16), (255, 100, 0)),
        SCENE,
        profile,
        judges=[ScriptedJudge("a", level=stated_level)],
        report_judges=[],
        realism=True,
        realism_judges=[real()],
        realism_report_judges=[],
    )
    assert found.report is None
    assert (found.loop.fact_recall, found.loop.realism.yes, found.loop.realism.no) == (1.0, 4, 2)
    boxes = {a.fact_id: a.region for said in found.answers for a in said.answers}
    assert boxes["real:dog.1:shape"] == BOXES["dog.1"]
