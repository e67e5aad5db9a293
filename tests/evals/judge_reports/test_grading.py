"""Report cards of judges whose faults are known."""

from __future__ import annotations

import pytest

from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.grading import TOGETHER, Grading, JudgeReport
from scenewright.evals.judge_reports.judge_runs import PLAIN, VariantPlan, run_judges
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.statistics.estimates import Estimate
from scenewright.providers import AnswerStore
from tests.evals.oracle import Choose, Oracle, right

FACTS = synthetic_facts(5, seed=7)


async def report(*judges: Oracle, plan: VariantPlan | None = None) -> JudgeReport:
    found = await run_judges(judges, FACTS, store=AnswerStore(None), plan=plan)
    return Grading(FACTS, seed=1).report(found, "tests")


JUDGE = "oracle:oracle"


async def card(choose: Choose, **more: object) -> JudgeReport:
    judge = Oracle(FACTS, choose, **more)  # type: ignore[arg-type]
    return await report(judge)


def quality(found: JudgeReport, measure: str) -> float | None:
    return found.figure("quality", JUDGE, measure).value


def same(found: JudgeReport, form: str) -> float | None:
    return found.figure("stability", f"{JUDGE} {form}", "same").value


def remarks(found: JudgeReport) -> list[str]:
    return [str(row["remark"]) for row in found.tables["remarks"].rows]


async def test_a_judge_without_faults() -> None:
    found = await card(right, sure=0.9)
    about = {"fingerprint": "fingerprint-of-oracle", "probability": "verbalized"}
    assert found.judges == {JUDGE: about}
    assert found.cell("quality", JUDGE, "facts") == len(FACTS)
    assert quality(found, "sensitivity") == quality(found, "specificity") == 1.0
    assert quality(found, "balanced") == 1.0
    assert quality(found, "false_premise") == 0.0
    assert found.figure("unscored", JUDGE, "claims").value == 0.0
    assert quality(found, "yes") == pytest.approx(found.holds / found.facts)
    assert quality(found, "brier") == pytest.approx(0.01)
    assert quality(found, "ece") == pytest.approx(0.1)
    assert {one.value for one in found.tables["stability"].figures("same")} == {1.0}
    assert found.figure("stability", f"{JUDGE} order", "shift").value == 0.0
    for row in found.tables["positions"].rows:
        shares = [cell for name, cell in row.items() if name.startswith("place") and cell]
        for share in shares:
            assert isinstance(share, Estimate)
            assert share.value == pytest.approx(1 / len(shares))
        assert row["p"] == pytest.approx(1.0)
    assert remarks(found) == [f"{len(FACTS)} answers: probability by verbalized"]
    assert found.tables["kinds"].names == [
        f"{JUDGE} {kind}" for kind in ("object", "attribute", "relation")
    ]


async def test_a_judge_that_says_yes_to_everything() -> None:
    found = await card(lambda fact, holds: fact.expected)
    assert (quality(found, "yes"), quality(found, "sensitivity")) == (1.0, 1.0)
    assert (quality(found, "specificity"), quality(found, "balanced")) == (0.0, 0.5)
    assert quality(found, "false_premise") == 1.0
    assert found.figure("unscored", JUDGE, "claims").value == 1.0
    assert same(found, "order") == 1.0


async def test_a_judge_that_takes_the_first_option() -> None:
    found = await card(lambda fact, holds: fact.options[0])
    forms = ("order", "order yes/no", "order choice", "turned")
    assert [same(found, form) for form in forms] == [0.0] * 4
    shift = found.figure("stability", f"{JUDGE} order yes/no", "shift")
    assert shift.value == pytest.approx(0.8)
    # One relation has fewer wrong options.
    assert sorted(found.tables["positions"].names) == [
        f"{JUDGE} {options}" for options in ("2 + none last", "3", "3 + none last", "4")
    ]
    kept, turned = f"{JUDGE} 3 + none last", f"{JUDGE} 4"
    assert found.figure("positions", kept, "first").value == pytest.approx(2 / 3)
    assert found.figure("positions", turned, "first").value == pytest.approx(3 / 4)
    assert found.figure("positions", turned, "last").value == pytest.approx(-1 / 4)
    p = found.cell("positions", turned, "p")
    assert isinstance(p, float)
    assert p < 1e-9


async def test_a_judge_that_hangs_on_the_words() -> None:
    def fussy(fact: Fact, holds: bool) -> str:
        plain = fact.question.startswith(("Is ", "Are ", "What "))
        return right(fact, holds if plain else not holds)

    found = await card(fussy)
    # Of three wordings the two paraphrases agree, and neither agrees with the question.
    assert same(found, "words") == pytest.approx(1 / 3)
    assert same(found, "order choice") == 1.0


async def test_silence_is_counted_with_its_reasons_and_is_in_no_rate() -> None:
    found = await card(lambda fact, holds: right(fact, holds) if holds else None)
    holding = sum(known.holds for known in FACTS)
    assert found.cell("quality", JUDGE, "facts") == holding
    assert quality(found, "specificity") is None
    assert quality(found, "balanced") is None
    unscored = found.cell("unscored", JUDGE, "unscored")
    assert unscored == len(FACTS) - holding
    lost = unscored + found.cell("unscored", JUDGE, "variants_unscored")  # type: ignore[operator]
    assert f"unscored, {lost}: it would not say" in remarks(found)


async def test_a_judge_without_probabilities_says_so() -> None:
    found = await card(right, sure=None)
    assert quality(found, "brier") is quality(found, "ece") is None
    assert found.figure("stability", f"{JUDGE} order", "shift").value is None
    assert remarks(found) == [
        f"{len(FACTS)} answers: no probability",
        "gives no probability: no Brier score and no calibration error",
    ]


async def test_cost_and_time() -> None:
    found = await card(right, seconds=0.25)
    tokens, dollars, seconds = (
        found.tables[name].rows[0] for name in ("tokens", "dollars", "latency")
    )
    assert tokens["tokens_in"] == 100 * tokens["questions"]  # type: ignore[operator]
    assert (tokens["fact_tokens_in"], tokens["fact_tokens_out"]) == (100, 10)
    assert tokens["picture_tokens_in"] == pytest.approx(100 * len(FACTS) / 5)
    assert dollars["picture_usd"] == pytest.approx(0.001 * len(FACTS) / 5)
    assert seconds["per_fact"] == pytest.approx(0.25)
    assert seconds["median"] <= seconds["p95"]  # type: ignore[operator]


async def test_agreement_and_the_panel() -> None:
    def contrary(fact: Fact, holds: bool) -> str:
        return right(fact, not holds)

    alike = await report(Oracle(FACTS, name="a"), Oracle(FACTS, name="b"), plan=PLAIN)
    assert [one.value for one in alike.tables["alike"].figures("kappa")] == [1.0, 1.0]
    other = await report(
        Oracle(FACTS, name="a", sure=0.9),
        Oracle(FACTS, contrary, name="b", sure=0.6),
        plan=PLAIN,
    )
    assert other.tables["alike"].figures("kappa")[0].value == pytest.approx(-1.0, abs=0.1)
    # The surer judge carries the mean.
    assert other.figure("quality", TOGETHER, "balanced").value == 1.0
    assert "alike" not in (await report(Oracle(FACTS), plan=PLAIN)).tables


async def test_a_cascade_is_replayed() -> None:
    judges = [Oracle(FACTS, name="cheap", sure=0.95), Oracle(FACTS, name="dear")]
    found = await run_judges(judges, FACTS, store=AnswerStore(None), plan=PLAIN)
    made = Grading(FACTS).report(found, "tests", CascadeSpec(first=("oracle:cheap",)))
    assert made.tables["cascade"].caption.endswith("also oracle:dear.")
    assert made.cell("cascade", "answers saved", "share") == pytest.approx(0.5)
    assert made.cell("cascade", "same verdict as the full panel", "share") == 1.0


async def test_the_report_can_be_kept_and_shown() -> None:
    def judges() -> tuple[Oracle, Oracle]:
        return Oracle(FACTS, name="a|b"), Oracle(FACTS, lambda fact, holds: None, name="mute")

    made = await report(*judges())
    assert JudgeReport.model_validate_json(made.model_dump_json()) == made
    assert await report(*judges()) == made
    page = made.document("Judges", "Card", made.summary()).markdown()
    for found in made.tables.values():
        assert f"## {found.title}" in page
        assert len({tuple(row) for row in found.rows}) == 1
    assert "oracle:a\\|b" in page
    assert "it would not say" in page
    assert NO_RELATION in page


def test_nothing_to_grade_is_refused() -> None:
    with pytest.raises(ValueError, match="no labelled facts"):
        Grading(())
