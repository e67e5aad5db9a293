"""The cascade: who is unsure, what a replay saves, and how often it agrees with the full panel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.cascade import (
    check_cascade,
    guarantee_in,
    unsure_facts,
)
from scenewright.agents.panel.guarantee import CascadeGuarantee, KindBound
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import CalibrationError, load_calibration
from scenewright.config.profiles import BUILT_IN, CascadeSpec, Profile, SettingsError
from scenewright.core.facts import Answer, Fact, FactKind, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from tests.doubles import ScriptedJudge

FACTS = facts_of(load_scene("red ball on table; dog left of table"))
BALL, TABLE, DOG, RED, ON, LEFT = FACTS
SPEC = CascadeSpec(first=("cheap",), unsure=(0.2, 0.8))


def said(judge: str, fact: Fact, probability: float | None) -> Answer:
    if probability is None:
        return Answer(fact_id=fact.id, judge_id=judge, state="unscored", reason="broken")
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        state="yes" if probability > 0.5 else "no",
        probability=probability,
        method="logprob",
        tokens_in=100,
        tokens_out=5,
        usd=0.01 if judge == "dear" else 0.001,
    )


def answers(**rows: list[float | None]) -> dict[str, list[Answer]]:
    return {
        judge: [said(judge, fact, value) for fact, value in zip(FACTS, row, strict=True)]
        for judge, row in rows.items()
    }


def test_unsure_is_what_lies_within_the_bounds_or_has_no_verdict() -> None:
    likely = {BALL: 0.9, TABLE: 0.8, DOG: 0.2, RED: 0.1}
    verdicts = [
        Verdict(fact_id=fact.id, state="yes" if p > 0.5 else "no", probability=p)
        for fact, p in likely.items()
    ]
    verdicts += [
        Verdict(fact_id=ON.id, state="unscored"),
        Verdict(fact_id=LEFT.id, state="void"),
    ]
    assert unsure_facts(FACTS, verdicts, SPEC) == (TABLE, DOG, ON)
    assert unsure_facts((BALL,), [], SPEC) == (BALL,)


def test_a_cascade_must_fit_the_judges() -> None:
    a, b = ScriptedJudge("a"), ScriptedJudge("b")
    check_cascade(CascadeSpec(first=(a.id,)), [a, b])
    with pytest.raises(SettingsError, match="scripted:c is not among them"):
        check_cascade(CascadeSpec(first=("scripted:c",)), [a, b])
    with pytest.raises(SettingsError, match="no judge is left"):
        check_cascade(CascadeSpec(first=(a.id, b.id)), [a, b])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": ["local:other"]}, "some of the profile's judges"),
        ({"first": ["local:miniature/judge-a"] * 2}, "each once"),
        ({"first": list(BUILT_IN["miniature"].judges)}, "leave some for the second step"),
        ({"first": []}, "first"),
        ({"first": ["local:miniature/judge-a"], "unsure": [0.9, 0.1]}, "the lower first"),
        ({"first": ["local:miniature/judge-a"], "unsure": [0.1, 1.5]}, "two bounds in"),
    ],
)
def test_a_wrong_cascade_in_a_profile_says_what(changes: dict[str, object], message: str) -> None:
    base = BUILT_IN["miniature"].model_dump()
    with pytest.raises(ValueError, match=message):
        Profile.model_validate(base | {"cascade": changes})


def test_a_quorum_above_the_first_judges_would_ask_everybody() -> None:
    base = BUILT_IN["miniature"].model_dump()
    extra = {"report_judges": (), "quorum": 2, "cascade": {"first": ["local:miniature/judge-a"]}}
    with pytest.raises(ValueError, match="every fact would go to all judges"):
        Profile.model_validate(base | extra)


def with_bounds(*kinds: KindBound) -> Panel:
    made = calibrate(
        [
            LabelledAnswer("i", fact.id, fact.kind, judge, True, 0.9)
            for fact in FACTS
            for judge in ("cheap", "dear")
        ],
        judges={"cheap": "fp", "dear": "fp"},
        about="test",
    )
    guarantee = CascadeGuarantee(
        first=("cheap",), aggregation="mean", quorum=1, risk=0.05, confidence=0.95, pictures=100,
        facts=1000, kinds=kinds,
    )  # fmt: skip
    return Panel(calibration=made.model_copy(update={"cascades": (guarantee,)}))


def bound(level: float | None, *kinds: FactKind) -> KindBound:
    return KindBound(
        kinds=kinds, level=level, n=300, accepted=200, wrong=1, at_most=0.04, design_effect=1.0
    )


def test_a_risk_takes_its_bounds_from_the_calibration_by_kind() -> None:
    panel = with_bounds(bound(0.7, "object"), bound(None, "attribute", "relation"))
    spec = CascadeSpec(first=("cheap",), risk=0.05)
    likely = {BALL: 0.75, TABLE: 0.65, DOG: 0.25, RED: 0.999, ON: 0.999, LEFT: 0.001}
    verdicts = [
        Verdict(fact_id=fact.id, state="yes" if p > 0.5 else "no", probability=p)
        for fact, p in likely.items()
    ]
    assert set(unsure_facts(FACTS, verdicts, spec, panel)) == {TABLE, RED, ON, LEFT}
    assert guarantee_in(SPEC, panel) is None
    for other in (
        CascadeSpec(first=("dear",), risk=0.05),
        CascadeSpec(first=("cheap",), risk=0.1),
        CascadeSpec(first=("cheap",), risk=0.05, confidence=0.9),
    ):
        with pytest.raises(CalibrationError, match="no bounds for a cascade"):
            guarantee_in(other, panel)
    with pytest.raises(CalibrationError, match="needs a calibration"):
        guarantee_in(spec, Panel())


def test_bounds_are_measured_with_the_calibration_and_kept_in_its_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    kinds: tuple[FactKind, ...] = ("object", "attribute", "relation")
    rows = []
    for at in range(1800):
        holds = bool(rng.random() < 0.5)
        right = rng.random() < 0.99
        said = 0.97 if holds == right else 0.03
        for judge, likely in (("cheap", said), ("dear", 0.9 if holds else 0.1)):
            kind = kinds[at % 3]
            rows.append(LabelledAnswer(f"i{at // 10}", f"f{at}", kind, judge, holds, likely))
    spec = CascadeSpec(first=("cheap",), risk=0.05)
    fingerprints = {"cheap": "fp", "dear": "fp"}
    made = calibrate(rows, judges=fingerprints, about="test", cascades=[spec, SPEC])
    (found,) = made.cascades
    assert (found.first, found.risk, found.pictures, found.facts) == (("cheap",), 0.05, 180, 1800)
    assert found.coverage > 0.9
    assert all(0.0 < one.at_most <= 0.05 for one in found.kinds)
    made.save(tmp_path / "c.json")
    assert load_calibration(tmp_path / "c.json") == made
    assert guarantee_in(spec, Panel(calibration=made)) == found
    bare = calibrate(rows, judges=fingerprints, about="test")
    assert bare.cascades == ()
    assert "cascades" not in bare.model_dump(exclude_defaults=True)
    stranger = SPEC.model_copy(update={"first": ("x",)})
    with pytest.raises(CalibrationError, match="a panel of x"):
        calibrate(rows, judges=fingerprints, about="test", cascades=[stranger])


def profile(**changes: object) -> Profile:
    given = {
        "backend": {"kind": "diffusers", "model": "m"},
        "name": "p",
        "judges": ["decision:openai/gpt-6-luna", "gemini:gemini-4-flash"],
    }
    return Profile.model_validate(given | changes)


def test_decision_is_a_cascade_of_the_decision_judges() -> None:
    made = profile(cascade="decision", calibration="c.json")
    assert made.cascade == CascadeSpec(first=("decision:openai/gpt-6-luna",), risk=0.05)
    assert Profile.model_validate(made.model_dump(mode="json")) == made
    with pytest.raises(ValueError, match="needs a calibration"):
        profile(cascade="decision")
    with pytest.raises(ValueError, match="judges has none"):
        profile(cascade="decision", judges=["gemini:gemini-4-flash", "local:m"])
    with pytest.raises(ValueError, match="give unsure or risk"):
        CascadeSpec(first=("a",), risk=0.1, unsure=(0.2, 0.8))
    assert "risk" not in CascadeSpec(first=("a",)).model_dump()
