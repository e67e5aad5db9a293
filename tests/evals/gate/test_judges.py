"""The gate of two judges on labelled facts."""

from __future__ import annotations

from pathlib import Path

import pytest

from scenewright.core.facts import Answer
from scenewright.evals.errors import EvalError
from scenewright.evals.gate.judges import JudgeGate, plan_judge_gate, run_judge_gate
from scenewright.evals.gate.result import GateOptions
from scenewright.evals.reporting.pages import ChoiceError
from tests.doubles import CallBook, ScriptedJudge, painted

OPTIONS = GateOptions(margin=0.1)
PICTURES = 40


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Forty pictures with a true and a false fact each."""
    place = tmp_path_factory.mktemp("labels")
    rows = ["image,subject,holds"]
    for at in range(PICTURES):
        painted((8, 8), (at * 6, 200 - at, 90)).save(place / f"{at}.png")
        rows += [f"{at}.png,dog,1", f"{at}.png,cat,0"]
    (place / "labels.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return place / "labels.csv"


def judge(name: str, behave: object = None, book: CallBook | None = None) -> ScriptedJudge:
    """A judge that answers every question right, unless ``behave`` changes it."""

    def right(_: ScriptedJudge, facts: object, answers: list[Answer]) -> list[Answer]:
        found = [
            answer.model_copy(
                update={"state": "yes", "choice": "yes", "probability": 0.9}
                if "dog" in fact.question
                else {"state": "no", "choice": "no", "probability": 0.1}
            )
            for fact, answer in zip(facts, answers, strict=True)
        ]
        return found if behave is None else behave(found)

    return ScriptedJudge(name, book or CallBook(), behave=right)


def yes_to_all(answers: list[Answer]) -> list[Answer]:
    return [
        a.model_copy(update={"state": "yes", "choice": "yes", "probability": 0.9}) for a in answers
    ]


def planned(labels: Path, place: Path, candidate: ScriptedJudge) -> JudgeGate:
    given = judge("a"), candidate
    return plan_judge_gate("x:a", "x:b", labels, OPTIONS, place, given=given)


async def test_a_worse_judge_is_told_with_the_facts_it_gets_wrong(
    labels: Path, tmp_path: Path
) -> None:
    found = await run_judge_gate(planned(labels, tmp_path, judge("b", yes_to_all)), batch=5)
    assert found.verdict == "worse"
    assert found.of_judges
    assert (found.before, found.after) == (1.0, 0.5)
    assert found.looked_at < PICTURES
    assert found.kinds["object"].lost == found.scenes
    assert found.kinds["object"].kept == found.scenes
    assert found.facts[0].statement == "cat (false)"
    page = (tmp_path / "report" / "index.html").read_text(encoding="utf-8")
    assert "are judged right by the baseline alone" in page
    assert list((tmp_path / "report" / "thumbs").glob("*.webp"))


async def test_a_judge_as_good_is_not_worse_and_is_not_asked_again(
    labels: Path, tmp_path: Path
) -> None:
    book = CallBook()
    found = await run_judge_gate(planned(labels, tmp_path, judge("b", book=book)), batch=5)
    assert found.verdict == "not worse"
    asked = len(book.lines)
    assert asked
    again = await run_judge_gate(planned(labels, tmp_path, judge("b", book=book)), batch=5)
    assert again == found
    assert len(book.lines) == asked


async def test_unscored_facts_are_in_no_score(labels: Path, tmp_path: Path) -> None:
    def silent(answers: list[Answer]) -> list[Answer]:
        return [
            Answer(fact_id=a.fact_id, judge_id=a.judge_id, state="unscored", reason="no reply")
            for a in answers
        ]

    found = await run_judge_gate(planned(labels, tmp_path, judge("b", silent)))
    assert found.verdict == "undecided"
    assert found.scenes == 0
    assert found.kinds["object"].unscored == 2 * PICTURES
    assert found.left_out == {"no fact is scored by both judges": PICTURES}


async def test_it_stops_before_the_limit(labels: Path, tmp_path: Path) -> None:
    def paid(answers: list[Answer]) -> list[Answer]:
        return [answer.model_copy(update={"usd": 1.0}) for answer in answers]

    gate = planned(labels, tmp_path, judge("b", paid))
    with pytest.raises(EvalError, match=r"5 pictures cost \$10.00, the next ones would pass"):
        await run_judge_gate(gate, batch=5, limit_usd=15.0)
    found = await run_judge_gate(planned(labels, tmp_path, judge("b", paid)), batch=5)
    assert found.verdict == "not worse"
    assert found.usd == 2.0 * found.looked_at


def test_what_is_no_pair_of_judges_is_told(labels: Path, tmp_path: Path) -> None:
    with pytest.raises(ChoiceError, match="name two judges"):
        plan_judge_gate("x:a", "x:a", labels, OPTIONS, tmp_path)
    with pytest.raises(ChoiceError, match="leave out --metric"):
        plan_judge_gate("x:a", "x:b", labels, GateOptions(metric="sgscore"), tmp_path)
