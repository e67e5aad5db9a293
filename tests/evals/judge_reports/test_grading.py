"""Report cards of judges whose faults are known."""

from __future__ import annotations

import pytest

from scenewright.config.profiles import CascadeSpec
from scenewright.core.facts import Fact
from scenewright.core.questions import NO_RELATION
from scenewright.evals.judge_reports.grading import Grading
from scenewright.evals.judge_reports.judge_card import JudgeCard, JudgeReport, markdown, sections
from scenewright.evals.judge_reports.judge_runs import PLAIN, VariantPlan, run_judges
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.providers import AnswerStore
from tests.evals.oracle import Choose, Oracle, right

FACTS = synthetic_facts(5, seed=7)


async def report(*judges: Oracle, plan: VariantPlan | None = None) -> JudgeReport:
    found = await run_judges(judges, FACTS, store=AnswerStore(None), plan=plan)
    return Grading(FACTS, seed=1).report(found, "tests")


async def card(choose: Choose, **more: object) -> JudgeCard:
    judge = Oracle(FACTS, choose, **more)  # type: ignore[arg-type]
    return (await report(judge)).cards[0]


async def test_a_judge_without_faults() -> None:
    found = await card(right, sure=0.9)
    quality = found.quality
    assert quality.n == len(FACTS)
    assert quality.sensitivity.value == quality.specificity.value == 1.0
    assert quality.balanced_accuracy.value == 1.0
    assert quality.false_premise.value == found.claims_absent.value == 0.0
    assert quality.yes_rate.value == pytest.approx(quality.holds / quality.n)
    assert quality.brier.value == pytest.approx(0.01)
    assert quality.ece.value == pytest.approx(0.1)
    assert {s.same.value for s in (*found.order.values(), *found.paraphrase.values())} == {1.0}
    assert found.order["all"].shift.value == 0.0
    for places in found.places:
        assert [share.value for share in places.shares] == [
            pytest.approx(1 / places.options)
        ] * places.options
        assert places.p_value == pytest.approx(1.0)
    assert found.methods == {"verbalized": len(FACTS)}
    assert found.notes == ()
    assert set(found.kinds) == {"object", "attribute", "relation"}


async def test_a_judge_that_says_yes_to_everything() -> None:
    found = await card(lambda fact, holds: fact.expected)
    quality = found.quality
    assert (quality.yes_rate.value, quality.sensitivity.value) == (1.0, 1.0)
    assert (quality.specificity.value, quality.balanced_accuracy.value) == (0.0, 0.5)
    assert quality.false_premise.value == found.claims_absent.value == 1.0
    assert found.order["all"].same.value == 1.0


async def test_a_judge_that_takes_the_first_option() -> None:
    found = await card(lambda fact, holds: fact.options[0])
    assert {group: s.same.value for group, s in found.order.items()} == {
        "all": 0.0,
        "yes/no": 0.0,
        "choice": 0.0,
        "turned": 0.0,
    }
    assert found.order["yes/no"].shift.value == pytest.approx(0.8)
    places = {(one.options, one.last_kept): one for one in found.places}
    # One relation has fewer wrong options.
    assert places.keys() == {(2, True), (3, True), (3, False), (4, False)}
    kept, turned = places[3, True], places[4, False]
    assert kept.first_bias.value == pytest.approx(2 / 3)
    assert turned.first_bias.value == pytest.approx(3 / 4)
    assert turned.last_bias.value == pytest.approx(-1 / 4)
    assert turned.p_value is not None
    assert turned.p_value < 1e-9


async def test_a_judge_that_hangs_on_the_words() -> None:
    def fussy(fact: Fact, holds: bool) -> str:
        plain = fact.question.startswith(("Is ", "Are ", "What "))
        return right(fact, holds if plain else not holds)

    found = await card(fussy)
    # Of three wordings the two paraphrases agree, and neither agrees with the question.
    assert found.paraphrase["all"].same.value == pytest.approx(1 / 3)
    assert found.order["choice"].same.value == 1.0


async def test_silence_is_counted_with_its_reasons_and_is_in_no_rate() -> None:
    found = await card(lambda fact, holds: right(fact, holds) if holds else None)
    holding = sum(known.holds for known in FACTS)
    assert found.quality.n == holding
    assert found.quality.specificity.value is None
    assert found.quality.balanced_accuracy.value is None
    assert found.silence.unscored == len(FACTS) - holding
    assert set(found.silence.reasons) == {"it would not say"}
    assert sum(found.silence.reasons.values()) == (
        found.silence.unscored + found.silence.variants_unscored
    )


async def test_a_judge_without_probabilities_says_so() -> None:
    found = await card(right, sure=None)
    assert found.quality.brier.value is found.quality.ece.value is None
    assert found.order["all"].shift.value is None
    assert found.methods == {"none": len(FACTS)}
    assert any("no probability" in note for note in found.notes)


async def test_cost_and_time() -> None:
    found = await card(right, seconds=0.25)
    costs = found.costs
    assert costs.tokens_in == 100 * costs.questions
    assert (costs.fact_tokens_in, costs.fact_tokens_out) == (100, 10)
    assert costs.picture_tokens_in == pytest.approx(100 * len(FACTS) / 5)
    assert costs.picture_usd == pytest.approx(0.001 * len(FACTS) / 5)
    assert found.latency.per_fact == pytest.approx(0.25)
    assert found.latency.median is not None
    assert found.latency.median <= (found.latency.p95 or 0.0)


async def test_agreement_and_the_panel() -> None:
    def contrary(fact: Fact, holds: bool) -> str:
        return right(fact, not holds)

    same = await report(Oracle(FACTS, name="a"), Oracle(FACTS, name="b"), plan=PLAIN)
    assert same.agreement is not None
    assert same.agreement.pairs[0].kappa.value == same.agreement.alpha.value == 1.0
    other = await report(
        Oracle(FACTS, name="a", sure=0.9),
        Oracle(FACTS, contrary, name="b", sure=0.6),
        plan=PLAIN,
    )
    assert other.agreement is not None
    assert other.agreement.pairs[0].kappa.value == pytest.approx(-1.0, abs=0.1)
    assert other.panel is not None
    # The surer judge carries the mean.
    assert other.panel.quality.balanced_accuracy.value == 1.0
    assert (await report(Oracle(FACTS), plan=PLAIN)).agreement is None


async def test_a_cascade_is_replayed() -> None:
    judges = [Oracle(FACTS, name="cheap", sure=0.95), Oracle(FACTS, name="dear")]
    found = await run_judges(judges, FACTS, store=AnswerStore(None), plan=PLAIN)
    made = Grading(FACTS).report(found, "tests", CascadeSpec(first=("oracle:cheap",)))
    assert made.cascade is not None
    assert made.cascade.rest == ("oracle:dear",)
    assert made.cascade.saved["answers"] == pytest.approx(0.5)
    assert made.cascade.agreement == 1.0


async def test_the_report_can_be_kept_and_shown() -> None:
    def judges() -> tuple[Oracle, Oracle]:
        return Oracle(FACTS, name="a|b"), Oracle(FACTS, lambda fact, holds: None, name="mute")

    made = await report(*judges())
    assert JudgeReport.model_validate_json(made.model_dump_json()) == made
    assert await report(*judges()) == made
    page = markdown(made)
    for section in sections(made):
        assert f"## {section.title}" in page
        assert all(len(row) == len(section.heads) for row in section.rows)
    assert "oracle:a\\|b" in page
    assert "it would not say" in page
    assert NO_RELATION in page


def test_nothing_to_grade_is_refused() -> None:
    with pytest.raises(ValueError, match="no labelled facts"):
        Grading(())
