"""Where a decision judge may stand: whatever asks typed questions of a judge."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import pytest

from scenewright.agents.judges.decisions.judge import DecisionJudge, decision_judge
from scenewright.agents.panel.panel import Panel
from scenewright.core.facts import Fact
from scenewright.core.formats import load_scene
from scenewright.core.ports.vision import Detection
from scenewright.core.questions import facts_of
from scenewright.evals.runner.judging import JudgePanel, judge_picture
from scenewright.evals.studies.peers.direct_scoring import MARKS, DirectScore, OptionRater
from scenewright.evals.studies.peers.question_metrics import (
    Dsg,
    SoftTifa,
    Tifa,
    VqaScore,
    dsg_score,
)
from scenewright.evals.studies.peers.questions import QuestionSource
from scenewright.evals.studies.real.real_scorer import Picture, RealScorer, score_pictures
from scenewright.evals.studies.real.schema import AttributeSchema, SchemaAttribute, classes_of
from scenewright.evals.studies.xtc.models import JudgeUnderstander, Vocabulary
from scenewright.evals.studies.xtc.questions import questions_of
from scenewright.graphs.limits import expected_of
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers import AnswerStore
from scenewright.providers.caller import Caller
from scenewright.tools.vision.realism.judged import JudgeScorer, VqaScorer
from tests.doubles import painted
from tests.evals.studies.peers.saying import bench, sample

SCENE = load_scene("red ball left of table; blue dog right of table", format="triplets")
FACTS = facts_of(SCENE)
IMAGE = painted((64, 64), (200, 40, 40))


@pytest.fixture
async def judge(lab: ThreadedMockProviders, key: str) -> AsyncIterator[DecisionJudge]:
    caller = Caller("lab", timeout=30.0, priced=False)
    made = decision_judge("openai", "instant", caller, api_key=key, base_url=lab.openai_url)
    yield made
    await made.aclose()


async def test_a_panel_that_asks_in_waves_sends_one_request_and_voids_here(
    judge: DecisionJudge, lab: ThreadedMockProviders, key: str
) -> None:
    judge_panel = JudgePanel("decisions", (judge,), Panel())
    store = AnswerStore(None)
    found = await judge_picture(
        judge_panel, "a" * 64, lambda: IMAGE, FACTS, store=store, origin="o"
    )
    report = lab.report()["accounts"][key]
    assert report["arrivals"] == 1
    states = {verdict.fact_id: verdict.state for verdict in found.card.verdicts}
    for fact in FACTS:
        if any(states[parent] != "yes" for parent in fact.parents):
            assert states[fact.id] == "void"
        else:
            assert states[fact.id] in ("yes", "no")
    assert sum(answer.tokens_in for answer in found.answers[judge.id]) > 258
    assert expected_of(judge, IMAGE.size, FACTS, "waves").calls == 1


async def test_realism_is_a_place_on_the_scale(judge: DecisionJudge) -> None:
    thing = Detection(name="dog", box=(0.0, 0.0, 64.0, 64.0), score=1.0)
    for scorer in (JudgeScorer([judge], view="img"), VqaScorer(judge, view="img")):
        (found,) = await scorer.score(IMAGE, [thing])
        assert found.reason == ""
        assert found.average is not None
        assert 1.0 <= found.average <= 5.0


async def test_a_mark_is_the_mean_of_its_distribution(judge: DecisionJudge) -> None:
    fact = Fact(
        id="mark:text", kind="object", subject="picture", key="text", statement="a dog",
        question="How well does the image show a dog?", options=MARKS, expected=MARKS[-1],
    )  # fmt: skip
    (plain,) = await judge.answer(IMAGE, [fact])
    (mark,) = await OptionRater(judge).answer(IMAGE, [fact])
    assert plain.distribution is not None
    mean = sum(float(option) * share for option, share in plain.distribution.items())
    assert mark.method == "decision"
    assert mark.probability == pytest.approx(mean / float(MARKS[-1]))


async def test_vqascore_and_direct_marks_take_its_probabilities(judge: DecisionJudge) -> None:
    score = await VqaScore(bench(judge)).score(sample())
    assert score.value is not None
    assert 0.0 <= score.value <= 1.0
    assert score.parts["bare"] == 0.0
    marks = await DirectScore(bench(OptionRater(judge)), quality=False).score(sample())
    assert marks.value is not None
    assert marks.reason == ""


async def test_questions_of_tifa_dsg_and_soft_tifa_go_in_one_request_each(
    judge: DecisionJudge, lab: ThreadedMockProviders, key: str
) -> None:
    facts = facts_of(SCENE)
    asked = sample(scene=SCENE, facts=facts)
    answers = await judge.answer(asked.load(), facts)
    said = np.array([answer.probability for answer in answers])
    right = np.array([float(answer.state == "yes") for answer in answers])
    assert len(np.unique(said)) > 2
    assert 0.0 < right.mean() < 1.0
    for metric, wanted in (
        # TIFA and DSG count choices, Soft-TIFA probabilities.
        (Tifa(bench(judge), QuestionSource()), right.mean()),
        (SoftTifa(bench(judge), QuestionSource()), said.mean()),
        (SoftTifa(bench(judge), QuestionSource(), "geometric"), said.prod() ** (1 / len(said))),
        (Dsg(bench(judge), QuestionSource()), dsg_score(facts, right)),
    ):
        before = lab.report()["accounts"][key]["arrivals"]
        found = await metric.score(asked)
        assert found.value == pytest.approx(wanted)
        assert lab.report()["accounts"][key]["arrivals"] == before + 1


async def test_real_scores_a_picture_by_its_probabilities(
    judge: DecisionJudge, tmp_path: Path
) -> None:
    IMAGE.save(tmp_path / "bird.png")
    schema = AttributeSchema(
        name="bird",
        attributes=(
            SchemaAttribute(part="bill", description="hooked"),
            SchemaAttribute(part="legs", description="red"),
        ),
    )
    scorer = RealScorer([judge], AnswerStore(None))
    rows = await score_pictures(
        scorer, [Picture(tmp_path / "bird.png", "bird")], classes_of([schema]), None
    )
    (row,) = rows
    assert row.visible in (0, 1, 2)
    assert row.s_att is not None or row.visible == 0
    assert row.unscored == 0


async def test_xtc_takes_the_likeliest_word(judge: DecisionJudge) -> None:
    understands = JudgeUnderstander(judge, Vocabulary.of([SCENE]))
    questions = questions_of(SCENE).questions
    replies = await understands.answer(IMAGE, questions)
    asked = [fact for one in questions for fact in understands._choices(one).values()]
    answers = {a.fact_id: a for a in await judge.answer(IMAGE, asked)}
    assert len(replies) == len(questions) > 2
    for question, reply in zip(questions, replies, strict=True):
        shares = {
            word: answers[fact.id].probability
            for word, fact in understands._choices(question).items()
        }
        assert reply.text in shares
        assert shares[reply.text] == max(shares.values())
