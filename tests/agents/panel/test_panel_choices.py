"""A choice is decided by the pooled choice, a yes/no by its threshold, under every aggregation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from scenewright.agents.panel.answer_arrays import answer_arrays, two_way_probability
from scenewright.agents.panel.calibration import LabelledAnswer, calibrate
from scenewright.agents.panel.panel import AGGREGATIONS, Panel, unsure_facts
from scenewright.agents.panel.scores import card_correction, score_intervals
from scenewright.config.profiles import CascadeSpec
from scenewright.core.answers import UNNAMED, shares_of
from scenewright.core.facts import Answer, Fact, ScoreCard, Verdict

OPTIONS = ("on", "under", "holding", "no visible relationship")


def choice(number: int = 0) -> Fact:
    return Fact(
        id=f"r:{number}",
        kind="relation",
        subject="cup",
        target="table",
        predicate="on",
        statement="cup on table",
        question=f"What is the relationship? {number}",
        options=OPTIONS,
        expected="on",
    )


FACT = choice()
BINARY = Fact(id="o:cup", kind="object", subject="cup", statement="cup", question="Is there a cup?")


def told(judge: str, shares: tuple[float, ...], fact: Fact = FACT) -> Answer:
    best = OPTIONS[shares.index(max(shares))]
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        state="yes" if best == fact.expected else "no",
        choice=best,
        probability=shares[OPTIONS.index(fact.expected)],
        distribution=dict(zip(OPTIONS, shares, strict=True)),
        method="logprob",
    )


def chose(
    judge: str, option: str | None, probability: float | None = None, fact: Fact = FACT
) -> Answer:
    return Answer(
        fact_id=fact.id,
        judge_id=judge,
        state="yes" if option == fact.expected else "no",
        choice=option,
        probability=probability,
    )


def labelled() -> list[LabelledAnswer]:
    """Two judges on forty choices: a picks the right one nine times of ten, b three of four, both
    at .45 against three others."""
    found = []
    for number in range(40):
        fact, holds = choice(number), number % 2 == 0
        for judge, wrong in (("a", 10), ("b", 4)):
            right = number % wrong != 1
            on = holds == right
            shares = (0.45, 0.25, 0.2, 0.1) if on else (0.25, 0.45, 0.2, 0.1)
            answer = told(judge, shares, fact)
            found.append(LabelledAnswer.of(f"picture {number % 8}", fact, answer, holds))
    return found


def panel(aggregation: str, *, of: str = "ab") -> Panel:
    plain = Panel(aggregation)  # type: ignore[arg-type]
    if aggregation not in ("calibrated", "stacked"):
        return plain
    known = [one for one in labelled() if one.judge_id in of]
    return replace(
        plain,
        calibration=calibrate(
            known, judges={judge: judge for judge in of}, about="test", panel=plain
        ),
    )


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_the_best_of_four_options_at_45_percent_holds(aggregation: str) -> None:
    verdict = panel(aggregation).verdict(FACT, [told("a", (0.45, 0.3, 0.15, 0.1))])
    assert verdict.state == "yes"
    assert verdict.rival == "under"
    assert verdict.probability is not None
    assert verdict.rival_probability is not None
    assert verdict.probability > verdict.rival_probability
    assert verdict.lead is not None
    assert verdict.lead > 0.5


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_another_option_that_is_likelier_denies_it(aggregation: str) -> None:
    verdict = panel(aggregation).verdict(FACT, [told("a", (0.4, 0.15, 0.45, 0.0))])
    assert (verdict.state, verdict.rival) == ("no", "holding")
    assert verdict.lead is not None
    assert verdict.lead < 0.5


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_undecided_options_do_not_confirm(aggregation: str) -> None:
    answers = [told("a", (0.4, 0.4, 0.1, 0.1))]
    if aggregation == "majority":
        answers = [chose("a", "on"), chose("b", "under")]
    assert panel(aggregation).verdict(FACT, answers).state == "no"


def test_the_mean_keeps_the_pooled_probabilities() -> None:
    answers = [told("a", (0.3, 0.6, 0.1, 0.0)), told("b", (0.6, 0.0, 0.3, 0.1))]
    verdict = Panel().verdict(FACT, answers)
    assert verdict.state == "yes"
    assert verdict.probability == pytest.approx(0.45)
    assert (verdict.rival, verdict.rival_probability) == ("under", pytest.approx(0.3))
    assert verdict.lead == pytest.approx(0.6)


def test_a_plurality_of_choices_is_the_majority() -> None:
    votes = [chose("a", "on"), chose("b", "on"), chose("c", "under"), chose("d", "holding"),
             chose("e", "no visible relationship")]  # fmt: skip
    verdict = Panel("majority").verdict(FACT, votes)
    assert (verdict.state, verdict.probability) == ("yes", pytest.approx(0.4))
    assert Panel("majority").verdict(FACT, votes[1:]).state == "no", "one each"


def test_a_yes_no_question_keeps_its_threshold() -> None:
    def verdict(probability: float, threshold: float) -> Verdict:
        said = Answer(fact_id=BINARY.id, judge_id="a", state="yes", probability=probability)
        return Panel(threshold=threshold).verdict(BINARY, [said])

    assert [verdict(p, 0.5).state for p in (0.45, 0.5, 0.55)] == ["no", "no", "yes"]
    assert verdict(0.55, 0.6).state == "no"
    assert verdict(0.55, 0.5).rival_probability is None
    assert verdict(0.55, 0.5).lead == 0.55
    high = Panel(threshold=0.9)
    assert high.verdict(FACT, [told("a", (0.45, 0.3, 0.15, 0.1))]).state == "yes"


@pytest.mark.parametrize(
    ("option", "stated", "shares"),
    [
        ("on", 0.7, (0.7, 0.1, 0.1, 0.1)),
        ("under", 0.1, (0.1, 0.7, 0.1, 0.1)),
        ("under", 0.4, (0.4, 0.6, 0.0, 0.0)),
        ("on", None, (1.0, 0.0, 0.0, 0.0)),
        ("under", None, (0.0, 1.0, 0.0, 0.0)),
        ("on", 0.1, (1.0, 0.0, 0.0, 0.0)),
        ("under", 0.8, (0.0, 1.0, 0.0, 0.0)),
    ],
)
def test_a_named_option_counts_as_its_stated_distribution(
    option: str, stated: float | None, shares: tuple[float, ...]
) -> None:
    said = shares_of(FACT, chose("a", option, stated))
    assert tuple(said[one] for one in OPTIONS) == pytest.approx(shares)
    assert sum(said.values()) == pytest.approx(1.0)


def test_a_no_that_names_nothing_leaves_the_rest_to_a_rival_without_name() -> None:
    assert shares_of(FACT, chose("a", None, 0.4))[UNNAMED] == pytest.approx(0.6)
    verdict = Panel().verdict(FACT, [chose("a", None, 0.4)])
    assert (verdict.state, verdict.rival) == ("no", "")
    both = Panel().verdict(FACT, [chose("a", None, 0.4), chose("b", "on", 0.7)])
    assert (both.state, both.probability) == ("yes", pytest.approx(0.55))


def test_a_distribution_must_be_one() -> None:
    for shares in ({"on": 0.7}, {"on": 1.4, "under": -0.4}, {}):
        with pytest.raises(ValueError, match="add up to 1"):
            Answer(fact_id="r", judge_id="a", state="yes", choice="on", distribution=shares)


def test_two_way_probability_is_above_half_where_the_choice_is_right() -> None:
    assert two_way_probability(FACT, told("a", (0.3, 0.25, 0.25, 0.2))) == pytest.approx(0.3 / 0.55)
    assert two_way_probability(FACT, told("a", (0.3, 0.4, 0.2, 0.1))) == pytest.approx(0.3 / 0.7)
    assert two_way_probability(FACT, chose("a", "under")) is None
    yes = Answer(fact_id=BINARY.id, judge_id="a", state="yes", probability=0.8)
    assert two_way_probability(BINARY, yes) == 0.8


def test_arrays_of_a_yes_no_have_no_rivals() -> None:
    said = answer_arrays([BINARY, FACT], {"a": {FACT.id: told("a", (0.45, 0.3, 0.15, 0.1))}})
    assert said.choices.tolist() == [False, True]
    assert np.isnan(said.values[0]).all()
    assert [
        said.rival_names[row] for row in np.flatnonzero(said.rival_facts == 1).tolist()
    ] == list(OPTIONS[1:])


def test_a_cascade_asks_on_where_two_options_are_near() -> None:
    spec = CascadeSpec(first=("a",), unsure=(0.4, 0.6))
    near = Panel().verdict(FACT, [told("a", (0.45, 0.40, 0.1, 0.05))])
    sure = Panel().verdict(FACT, [told("a", (0.45, 0.2, 0.2, 0.15))])
    assert unsure_facts([FACT], [near], spec) == (FACT,)
    assert unsure_facts([FACT], [sure], spec) == ()


@pytest.mark.parametrize("aggregation", AGGREGATIONS)
def test_intervals_decide_as_the_panel_does(aggregation: str) -> None:
    facts = [choice(number) for number in range(6)]
    working = panel(aggregation)
    table = {
        judge: [told(judge, (0.45, 0.3, 0.15, 0.1), fact) for fact in facts] for judge in ("a", "b")
    }
    verdicts = working.verdicts(facts, table)
    found = score_intervals(facts, table, verdicts, working)
    assert {verdict.state for verdict in verdicts} == {"yes"}
    assert found.relations == (1.0, 1.0)


def test_rates_are_those_of_the_choices() -> None:
    measured = calibrate(labelled(), judges={"a": "a", "b": "b"}, about="test")
    rates = measured.judge("a").rates("relation")
    assert rates.sensitivity > 0.8
    assert rates.specificity > 0.7
    alone = Panel(calibration=measured).measured(["a"])
    assert alone is not None
    assert alone.rates("relation").sensitivity == pytest.approx(rates.sensitivity)
    assert alone.choices == "pooled"


def test_a_panel_measured_by_the_old_rule_corrects_nothing() -> None:
    measured = calibrate(labelled(), judges={"a": "a", "b": "b"}, about="test")
    old = measured.model_copy(
        update={
            "panels": tuple(
                one.model_copy(update={"choices": "threshold"}) for one in measured.panels
            )
        }
    )
    verdict = Panel().verdict(FACT, [told("a", (0.45, 0.3, 0.15, 0.1))])
    card = ScoreCard.of([FACT], [verdict])
    assert card_correction(card, Panel(calibration=measured), ["a"]) is not None
    assert card_correction(card, Panel(calibration=old), ["a"]) is None
