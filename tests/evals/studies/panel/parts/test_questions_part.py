"""The study of questions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from scenewright.core.facts import Fact
from scenewright.evals.judge_reports.synthetic_facts import synthetic_facts
from scenewright.evals.studies.panel.parts.questions import (
    PART,
    PREMISE,
    QuestionsOptions,
    forms_of,
)
from scenewright.evals.studies.panel.study import PanelStudyResult
from tests.evals.oracle import Oracle
from tests.evals.studies.panel.lookers import Looker, context_of, sees, shades

PAINTED = synthetic_facts(6, seed=4)
SHADES = shades(6)


def value(result: PanelStudyResult, voter: str, measure: str) -> Any:
    found = [
        row["value"] for row in result.records.get("questions_voters", ())
        if (row["voter"], row["measure"]) == (voter, measure)
    ]  # fmt: skip
    return found[0] if found else None


async def test_a_judge_that_looks_is_consistent(tmp_path: Path) -> None:
    judges = [Oracle(PAINTED, name="right"), Oracle(PAINTED, name="other")]
    options = QuestionsOptions(limit_usd=10.0)
    result = await PART.run(context_of(PAINTED, judges, tmp_path), options)
    for voter in ("oracle:right", "mean", "dawid_skene"):
        assert value(result, voter, "right") == value(result, voter, "worst_right") == 1.0
        assert value(result, voter, "steady") == 1.0
        assert value(result, voter, "contradictions") == 0.0
        assert value(result, voter, "averaging_gain") == 0.0
        assert value(result, voter, "swayed") == 0.0
        # The table's own absent things.
        assert value(result, voter, "premise_yes") == 0.0
    assert value(result, "oracle:right", "inconsistency") == pytest.approx(0.0, abs=1e-12)
    assert any("own facts of the group absent" in note for note in result.notes)
    assert "does not clearly change" in result.findings[0]
    for chart in result.charts:
        assert chart.draw().axes


async def test_one_that_says_yes_to_all_contradicts_itself(tmp_path: Path) -> None:
    def yes(image: Image.Image, fact: Fact) -> float:
        return 0.9 if fact.expected == "yes" else 0.1

    judges = [Looker("yes", yes), Looker("firm", lambda image, fact: sees(fact))]
    result = await PART.run(context_of(SHADES, judges, tmp_path), QuestionsOptions())
    assert value(result, "looker:yes", "contradictions") == 1.0
    assert value(result, "looker:yes", "both_yes") == 1.0
    # P(q) and P(not q) are both 0.9.
    assert value(result, "looker:yes", "inconsistency") == pytest.approx(0.8)
    assert value(result, "looker:firm", "contradictions") == 0.0
    # All pictures are asked about cats and dogs: there is nothing to make premises of.
    assert value(result, "looker:yes", "premise_yes") is None


async def test_one_that_follows_hints_is_swayed(tmp_path: Path) -> None:
    def follows(image: Image.Image, fact: Fact) -> float:
        if fact.question.startswith('I think the answer is "yes"'):
            return 0.8
        return 0.3 if fact.question.startswith("I think") else sees(fact)

    judges = [Looker("follows", follows), Looker("firm", lambda image, fact: sees(fact))]
    result = await PART.run(
        context_of(SHADES, judges, tmp_path), QuestionsOptions(subjects=("pressure",))
    )
    assert value(result, "looker:follows", "sway") == pytest.approx(0.5)
    assert value(result, "looker:follows", "swayed") == 1.0
    assert value(result, "looker:firm", "sway") == 0.0
    (finding,) = result.findings
    assert "judges that clearly follow: follows" in finding
    assert value(result, "looker:follows", "steady") is None


async def test_averaging_mends_what_one_wording_gets_wrong(tmp_path: Path) -> None:
    def plain_is_wrong(image: Image.Image, fact: Fact) -> float:
        truth = sees(fact)
        return 1.0 - truth if fact.question.endswith("in the image?") else truth

    judges = [Looker("a", plain_is_wrong), Looker("b", plain_is_wrong)]
    options = QuestionsOptions(subjects=("paraphrase", "order"))
    result = await PART.run(context_of(SHADES, judges, tmp_path), options)
    # Two paraphrases and two orders are right where the plain question is wrong.
    assert value(result, "mean", "right") == 0.0
    assert value(result, "mean", "averaged_right") == value(result, "mean", "averaging_gain") == 1.0
    assert value(result, "mean", "variant_right") == pytest.approx(0.8)
    assert value(result, "mean", "worst_right") == 0.0
    assert value(result, "mean", "steady") == 0.0
    # The mean of one 0.1 and four 0.9 is 0.74.
    assert value(result, "mean", "averaging_brier") == pytest.approx(0.26**2 - 0.9**2)
    assert "raises" in result.findings[0]
    assert "falls" in result.findings[0]


async def test_premises_are_made_where_the_table_has_none(tmp_path: Path) -> None:
    facts = [*shades(2), *PAINTED]
    facts = [of for of in facts if of.group != "absent"]
    forms = forms_of(facts, QuestionsOptions(subjects=("premise",)), 0)
    assert set(forms) == {"plain", PREMISE}
    judges = [
        Looker("yes", lambda image, fact: 0.9),
        Looker("no", lambda image, fact: 0.2),
    ]
    result = await PART.run(
        context_of(facts, judges, tmp_path), QuestionsOptions(subjects=("premise",))
    )
    assert value(result, "looker:yes", "premise_yes") == 1.0
    assert value(result, "looker:no", "premise_yes") == 0.0
    assert any("nobody has checked" in note for note in result.notes)
    assert {row["form"] for row in result.records["questions_answers"]} == {"plain"}


async def test_what_the_limit_cut_off_is_told(tmp_path: Path) -> None:
    judges = [Oracle(PAINTED, name="dear"), Oracle(PAINTED, name="other")]
    options = QuestionsOptions(limit_usd=0.1)
    result = await PART.run(context_of(PAINTED, judges, tmp_path), options)
    assert any("limit of 0.1 USD is reached" in note for note in result.notes)


async def test_lost_answers_are_told_by_form(tmp_path: Path) -> None:
    def shy(image: Image.Image, fact: Fact) -> float | None:
        return None if fact.expected == "no" else sees(fact)

    judges = [Looker("shy", shy), Looker("other", shy)]
    result = await PART.run(
        context_of(SHADES, judges, tmp_path), QuestionsOptions(subjects=("negation",))
    )
    assert value(result, "looker:shy", "contradictions") is None
    assert any("not 100.0 %" in note for note in result.notes)


async def test_a_limit_that_lets_nothing_pass_is_told_too(tmp_path: Path) -> None:
    judges = [Oracle(PAINTED, name="dear"), Oracle(PAINTED, name="other")]
    for limit in (0.001, 0.01, 0.03, 0.05, 0.2):
        place = tmp_path / str(limit)
        place.mkdir()
        options = QuestionsOptions(limit_usd=limit)
        result = await PART.run(context_of(PAINTED, judges, place), options)
        assert any("USD is reached" in note for note in result.notes)
