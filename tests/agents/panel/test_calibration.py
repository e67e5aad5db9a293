"""Calibration: rates and temperatures found again, its file, weighted panels, corrected scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.panel.aggregation import calibrated_log_odds, expit
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate, fit_temperature
from scenewright.agents.panel.panel import Panel
from scenewright.agents.panel.rates import (
    HOTTEST,
    Calibration,
    CalibrationError,
    PanelCalibration,
    Rates,
    load_calibration,
    temper,
)
from scenewright.agents.panel.scores import card_correction, corrected_scores, rogan_gladen
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.facts import Answer, Fact, FactKind, ScoreCard, Verdict
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from tests.doubles import ScriptedJudge

BALL, TABLE, RED, ON = facts_of(load_scene("red ball on table"))
JUDGES = {"good": "fp-good", "eager": "fp-eager"}
SE, SP = {"good": 0.9, "eager": 0.98}, {"good": 0.95, "eager": 0.4}
KINDS: tuple[FactKind, ...] = ("object", "attribute", "relation")


def labelled(n: int = 600, seed: int = 0) -> list[LabelledAnswer]:
    """Bare votes of two judges about ``n`` facts, 60 % of which hold."""
    rng = np.random.default_rng(seed)
    found = []
    for at in range(n):
        holds = bool(rng.random() < 0.6)
        for judge in JUDGES:
            yes = rng.random() < (SE[judge] if holds else 1.0 - SP[judge])
            found.append(
                LabelledAnswer(f"i{at // 6}", f"f{at}", KINDS[at % 3], judge, holds, float(yes))
            )
    return found


def measured(**options: object) -> Calibration:
    return calibrate(labelled(), judges=JUDGES, about="simulated", **options)  # type: ignore[arg-type]


def test_rates_of_judges_are_found_again_and_smoothed() -> None:
    found = measured()
    for judge in JUDGES:
        rates = found.judge(judge).kinds["all"]
        assert rates.n_true + rates.n_false == 600
        assert rates.sensitivity == pytest.approx(SE[judge], abs=0.03)
        assert rates.specificity == pytest.approx(SP[judge], abs=0.06)
        assert (rates.temperature, rates.brier) == (1.0, rates.brier_scaled)
    assert found.prevalence["all"] == pytest.approx(0.6, abs=0.05)
    always = [LabelledAnswer("i", f"f{at}", "object", "good", True, 1.0) for at in range(4)]
    rates = calibrate(always, judges={"good": "x"}, about="").judge("good").kinds["object"]
    assert (rates.sensitivity, rates.specificity) == (4.5 / 5, 0.5)


def test_a_kind_with_few_labels_takes_the_rates_of_all() -> None:
    rows = [row for row in labelled() if row.kind != "relation" or int(row.fact_id[1:]) < 30]
    entry = calibrate(rows, judges=JUDGES, about="").judge("eager")
    assert entry.rates("relation") == entry.kinds["all"]
    assert entry.rates("object") == entry.kinds["object"] != entry.kinds["all"]


def test_a_number_of_options_has_rates_of_its_own() -> None:
    rng = np.random.default_rng(5)
    rows = []
    for at in range(1200):
        count = 2 + 3 * (at % 2)
        options = tuple(f"o{n}" for n in range(count))
        fact = Fact(
            id=f"f{at}", kind="relation", subject="a", statement="s", question="Which?",
            options=options, expected="o0",
        )  # fmt: skip
        holds = bool(rng.random() < 0.5)
        # Among five options the judge is often wrong, between two it is not.
        right = rng.random() < (0.95 if count == 2 else 0.6)
        yes = holds == bool(right)
        said = Answer(
            fact_id=fact.id, judge_id="good", state="yes" if yes else "no",
            choice="o0" if yes else "o1", probability=0.9 if yes else 0.05, method="decision",
        )  # fmt: skip
        rows.append(LabelledAnswer.of(f"i{at // 6}", fact, said, holds))
    found = calibrate(rows, judges={"good": "x"}, about="")
    entry = found.judge("good")
    assert set(entry.forms) == {"relation/2", "relation/5"}
    assert entry.rates("relation", "relation/2").youden > 0.8
    assert entry.rates("relation", "relation/5").youden < 0.4
    assert entry.rates("relation", "relation/3") == entry.kinds["relation"]
    panel = Panel(aggregation="calibrated", calibration=found)
    few, many = (row.source for row in rows[:2])
    assert few is not None
    assert many is not None
    sure = [
        panel.verdict(fact, [answer.model_copy(update={"state": "yes", "choice": "o0",
            "probability": 0.9})]).probability
        for fact, answer in (few, many)
    ]  # fmt: skip
    assert sure[0] is not None
    assert sure[1] is not None
    assert sure[0] > sure[1] + 0.1
    assert Calibration.model_validate_json(found.model_dump_json()) == found


@pytest.mark.parametrize("truth", [0.5, 1.0, 3.0])
def test_the_temperature_undoes_too_much_or_too_little_certainty(truth: float) -> None:
    rng = np.random.default_rng(3)
    honest = expit(rng.normal(0.0, 2.0, 6000))
    holds = (rng.random(6000) < honest).astype(float)
    said = temper(honest, 1.0 / truth)
    assert fit_temperature(said, holds) == pytest.approx(truth, rel=0.1)
    rows = [
        LabelledAnswer("i", f"f{at}", "object", "good", bool(h), float(p))
        for at, (h, p) in enumerate(zip(holds[:2000], said[:2000], strict=True))
    ]
    rates = calibrate(rows, judges={"good": "x"}, about="").judge("good").kinds["all"]
    assert rates.brier is not None
    assert rates.brier_scaled is not None
    assert rates.ece is not None
    assert rates.ece_scaled is not None
    assert rates.brier_scaled <= rates.brier + 1e-3
    assert rates.ece_scaled < 0.04
    if truth != 1.0:
        assert rates.ece > rates.ece_scaled + 0.02


def test_the_temperature_is_the_least_loss_on_its_range() -> None:
    rng = np.random.default_rng(8)
    said, holds = rng.random(200), (rng.random(200) < 0.6).astype(float)

    def loss(t: float) -> float:
        p = np.clip(temper(said, t), 1e-12, 1.0 - 1e-12)
        return float(-np.log(np.where(holds == 1.0, p, 1.0 - p)).sum())

    found = fit_temperature(said, holds)
    assert loss(found) <= min(loss(t) for t in np.geomspace(0.1, 10.0, 200)) + 1e-9
    assert fit_temperature([0.9, 0.8, 0.1], [0, 0, 1]) == HOTTEST
    assert fit_temperature([0.5, 0.5], [0, 1]) == 1.0


@given(st.lists(st.floats(0, 1), min_size=1, max_size=6), st.floats(0.1, 10))
def test_tempering_keeps_sides_and_votes(values: list[float], t: float) -> None:
    found = temper(values, t)
    assert np.all((found >= 0.0) & (found <= 1.0))
    assert np.all(np.sign(found - 0.5) * np.sign(np.array(values) - 0.5) >= 0.0)
    for before, after in zip(values, found, strict=True):
        if before in (0.0, 1.0):
            assert after == before
    assert np.isnan(temper([np.nan], t)).all()


def test_the_file_keeps_all_of_it(tmp_path: Path) -> None:
    found = measured()
    path = tmp_path / "calibration.json"
    found.save(path)
    assert load_calibration(path) == found
    assert load_calibration(path).digest == found.digest
    with pytest.raises(CalibrationError, match="cannot be written"):
        found.save(tmp_path / "absent" / "calibration.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "there is no calibration .*scenewright judges calibrate"),
        ("{", "not a calibration of this version"),
        ("[]", "not a calibration of this version"),
        ('{"schema_version": 2}', "schema_version"),
    ],
)
def test_a_wrong_file_says_what(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "calibration.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(CalibrationError, match=message):
        load_calibration(path)


def test_it_holds_only_for_the_judges_that_were_measured() -> None:
    found = measured()
    found.check(JUDGES)
    with pytest.raises(CalibrationError, match=r"no entry for new.*scenewright judges calibrate"):
        found.check({**JUDGES, "new": "x"})
    with pytest.raises(CalibrationError, match=r"good has changed.*scenewright judges calibrate"):
        found.check({"good": "other weights"})


def test_a_profile_reads_its_calibration_and_checks_its_judges(tmp_path: Path) -> None:
    judge = ScriptedJudge("a")
    rows = [
        LabelledAnswer("i", f"f{n}", "object", judge.id, n % 2 > 0, n % 3 / 2) for n in range(9)
    ]
    path = tmp_path / "calibration.json"
    calibrate(rows, judges={judge.id: judge.fingerprint}, about="").save(path)
    base = BUILT_IN["miniature"].model_dump()
    profile = Profile.model_validate(base | {"aggregation": "calibrated", "calibration": str(path)})
    assert Panel.of(profile, [judge]).calibration == load_calibration(path)
    with pytest.raises(CalibrationError, match="has changed"):
        Panel.of(profile, [ScriptedJudge("a", version="2")])
    assert Panel.of(BUILT_IN["miniature"], [judge]) == Panel()
    with pytest.raises(ValueError, match="needs a calibration"):
        Profile.model_validate(base | {"aggregation": "calibrated"})


def said(judge: str, fact: Fact, yes: bool, probability: float | None = None) -> Answer:
    return Answer(
        fact_id=fact.id, judge_id=judge, state="yes" if yes else "no", probability=probability
    )


def test_a_calibrated_panel_weighs_judges_by_what_they_are_worth() -> None:
    found = measured()
    panel = Panel("calibrated", calibration=found)
    alone = panel.verdict(BALL, [said("good", BALL, True), said("eager", BALL, True)])
    torn = panel.verdict(BALL, [said("good", BALL, False), said("eager", BALL, True)])
    assert alone.probability is not None
    assert torn.probability is not None
    assert alone.state == "yes"
    # The mean would be undecided; the eager judge's yes is worth little.
    assert torn.probability < 0.2
    rates = [found.judge(judge).rates("object") for judge in ("good", "eager")]
    expected = calibrated_log_odds(
        [[0.0, 1.0]], [r.sensitivity for r in rates], [r.specificity for r in rates], 0.5
    )
    assert torn.probability == pytest.approx(float(expit(expected)[0]))
    only = panel.verdict(BALL, [said("eager", BALL, True)])
    assert only.probability is not None
    assert 0.5 < only.probability < alone.probability


def test_panels_are_measured_as_they_judge() -> None:
    found = measured(panel=Panel("calibrated"), panels=[("good",), ("eager", "good")])
    assert [entry.judges for entry in found.panels] == [("good",), ("eager", "good")]
    both = Panel("calibrated", calibration=found).measured(["good", "eager"])
    assert both is not None
    alone = Panel("calibrated", calibration=found).measured(["good"])
    assert alone is not None
    assert both.kinds["all"].youden >= alone.kinds["all"].youden - 0.02
    assert Panel(calibration=found).measured(["good"]) is None
    default = measured()
    one = Panel(calibration=default).measured(["good"])
    assert one is not None
    judge = default.judge("good").kinds["all"]
    assert (one.kinds["all"].sensitivity, one.kinds["all"].specificity) == (
        judge.sensitivity,
        judge.specificity,
    )


def test_wrong_labels_are_errors() -> None:
    row = labelled(1)[0]
    with pytest.raises(CalibrationError, match="nothing can be measured"):
        calibrate([], judges=JUDGES, about="")
    with pytest.raises(CalibrationError, match="not among the judges"):
        calibrate([row], judges={"other": "x"}, about="")
    with pytest.raises(CalibrationError, match="twice"):
        calibrate([row, row], judges=JUDGES, about="")
    with pytest.raises(CalibrationError, match="no usable labelled answer by eager"):
        calibrate([row], judges=JUDGES, about="")
    with pytest.raises(CalibrationError, match="name judges that are measured"):
        measured(panels=[("nobody",)])


def test_an_answer_is_labelled_as_it_was_given() -> None:
    graded = LabelledAnswer.of("i", BALL, said("a", BALL, True, 0.4), holds=True)
    assert (graded.probability, graded.vote, graded.kind) == (0.4, True, "object")
    assert LabelledAnswer.of("i", BALL, said("a", BALL, False), holds=True).probability == 0.0
    broken = Answer(fact_id=BALL.id, judge_id="good", state="unscored", reason="broken")
    rows = [*labelled(), LabelledAnswer.of("other", BALL, broken, holds=True)]
    entry = calibrate(rows, judges=JUDGES, about="").judge("good")
    assert (entry.n_unscored, entry.kinds["all"].n_true) == (
        1,
        measured().judge("good").kinds["all"].n_true,
    )


def panel_of_rates(se: float, sp: float) -> PanelCalibration:
    rates = Rates(n_true=100, n_false=100, sensitivity=se, specificity=sp)
    return PanelCalibration(
        judges=("good",), aggregation="mean", quorum=1, threshold=0.5, kinds={"all": rates}
    )


@given(st.integers(0, 60), st.integers(1, 60), st.floats(0.65, 0.99), st.floats(0.65, 0.99))
def test_the_share_that_holds_is_found_again(true: int, false: int, se: float, sp: float) -> None:
    yes = se * true + (1 - sp) * false
    assert float(rogan_gladen(yes, true + false - yes, se, sp)) == pytest.approx(true, abs=1e-6)


def test_cards_are_corrected_and_clipped_and_voids_stay() -> None:
    facts = (BALL, TABLE, RED, ON)

    def card(*states: str) -> ScoreCard:
        verdicts = [
            Verdict.model_validate({"fact_id": fact.id, "state": state})
            for fact, state in zip(facts, states, strict=True)
        ]
        return ScoreCard.of(facts, verdicts)

    found = corrected_scores(card("yes", "no", "yes", "void"), panel_of_rates(0.9, 0.7))
    assert found.objects == pytest.approx((0.5 + 0.7 - 1) / 0.6)
    assert (found.attributes, found.relations) == (1.0, 0.0)
    assert found.sgscore == pytest.approx(found.objects / 2)  # type: ignore[operator]
    assert found.fact_recall == pytest.approx((2 * 0.2 / 0.6 + 0.7 / 0.6 + 0.0) / 4)
    near_chance = corrected_scores(card("yes", "no", "yes", "no"), panel_of_rates(0.6, 0.5))
    assert near_chance.model_dump(exclude_none=True) == {}
    unscored = corrected_scores(card("yes", "yes", "yes", "unscored"), panel_of_rates(0.9, 0.9))
    assert (unscored.relations, unscored.sgscore) == (None, None)
    panel = Panel(calibration=measured())
    assert card_correction(card("yes", "no", "yes", "no"), panel, ("good",)) is not None
    assert card_correction(card("yes", "no", "yes", "no"), panel, ("stranger",)) is None
    assert card_correction(card("yes", "no", "yes", "no"), Panel(), ("good",)) is None
