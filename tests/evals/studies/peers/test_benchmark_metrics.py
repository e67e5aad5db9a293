"""Published rules of benchmarks on small cases that are worked out by hand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from PIL import Image

from benchmarks._published import published_scores
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.facts import Fact
from scenewright.core.ports.vision import Detection
from scenewright.evals.datasets.benchmark_prompts import EXPLANATION
from scenewright.evals.datasets.prompt_sets import THREE_IN_ONE
from scenewright.evals.metrics.base import MetricError
from scenewright.evals.metrics.encoders import EncodedTexts
from scenewright.evals.studies.peers import benchmark_metrics as rules
from scenewright.evals.studies.peers.benchmark_metrics import CompBench, GroundedFacts, Wise
from scenewright.evals.studies.peers.direct_scoring import OptionRater
from scenewright.evals.studies.peers.panel_metric import table_of
from scenewright.evals.studies.peers.question_metrics import (
    Dsg,
    SoftTifa,
    Tifa,
    dsg_score,
    soft_tifa,
    tifa_score,
    void_rows,
)
from scenewright.evals.studies.peers.questions import QuestionSource
from tests.evals.studies.peers.saying import SayingJudge, bench, sample


def question(number: int, key: str = "", parents: tuple[int, ...] = ()) -> Fact:
    return Fact(
        id=str(number), kind="object", subject="s", key=key or None, statement="s",
        question=f"q{number}?", parents=tuple(map(str, parents)),
    )  # fmt: skip


def test_soft_tifa_by_hand() -> None:
    # (0.9 + 0.4 + 0.6) / 3 and the third root of 0.9 · 0.4 · 0.6 = 0.216, which is 0.6.
    likely = np.array([0.9, 0.4, 0.6])
    assert soft_tifa(likely) == pytest.approx(1.9 / 3)
    assert soft_tifa(likely, "geometric") == pytest.approx(0.6)


def test_tifa_by_hand() -> None:
    assert tifa_score(np.array([1.0, 0.0, 1.0, 1.0])) == 0.75


# 1 is denied; 2 hangs on 1, 3 on 2 alone; 4 on nothing.
CHAIN = [question(1), question(2, parents=(1,)), question(3, parents=(2,)), question(4)]
ANSWERS = np.array([0.0, 1.0, 1.0, 1.0])


def test_a_void_parent_voids_nothing_as_published() -> None:
    # Published: 1 is no, 2 counts 0 under it, 3 stands since 2 was answered with yes: 2 of 4.
    assert dsg_score(CHAIN, ANSWERS, chain=False) == 0.5
    assert void_rows(CHAIN, ANSWERS, chain=False) == [1]
    # Ours: 3 is void too.
    assert dsg_score(CHAIN, ANSWERS) == 0.25
    assert void_rows(CHAIN, ANSWERS) == [1, 2]


async def test_dsg_equals_the_published_code_where_every_question_is_answered() -> None:
    rng = np.random.default_rng(3)
    facts = tuple(
        question(n, parents=tuple(int(p) for p in rng.integers(1, n, 2)) if n > 2 else ())
        for n in range(1, 12)
    )
    for seed in range(20):
        said = dict(zip((f.id for f in facts), np.random.default_rng(seed).random(11), strict=True))
        judge = SayingJudge(lambda fact, said=said: float(said[fact.id]))  # type: ignore[misc]
        metric = Dsg(bench(judge), QuestionSource("item"), dependency="parents")
        shown = sample(facts=facts)
        score = await metric.score(shown)
        _, answers = await metric.answered(shown)
        table = table_of(shown, facts, answers, [judge])
        assert score.value == pytest.approx(published_scores(table, 0)[0])
    assert metric.version != Dsg(bench(judge), QuestionSource("item")).version
    with pytest.raises(MetricError, match="dependency is 'all': use one of chain, parents"):
        Dsg(bench(judge), QuestionSource("item"), dependency="all")


async def test_types_are_told_with_their_numbers_so_that_they_can_be_pooled() -> None:
    facts = (question(1, "count"), question(2, "count"), question(3, "object"))
    judge = SayingJudge(lambda fact: {"1": 0.9, "2": None, "3": 0.2}[fact.id])
    for metric, count in (
        (Tifa(bench(judge), QuestionSource("item")), 1.0),
        (SoftTifa(bench(judge), QuestionSource("item")), 0.9),
    ):
        parts = (await metric.score(sample(facts=facts))).parts
        assert (parts["type:count"], parts["answered:count"]) == (pytest.approx(count), 1.0)
        assert parts["answered:object"] == 1.0


@pytest.mark.parametrize(
    ("likely", "score"),
    [([0.9, 0.6], 1.0), ([0.9, 0.5], 0.0), ([0.9, math.nan], None), ([0.1, math.nan], 0.0)],
)
def test_all_questions_must_hold(likely: list[float], score: float | None) -> None:
    assert rules.all_correct(np.array(likely)) == score


def test_wiscore_by_hand() -> None:
    # Marks 2, 1, 0 of 2: (0.7 · 2 + 0.2 · 1 + 0.1 · 0) / 2 = 0.8.
    assert rules.wiscore(1.0, 0.5, 0.0) == pytest.approx(0.8)


async def test_wise_asks_by_release() -> None:
    meant = {EXPLANATION: "a carnation"}
    marks = {"consistency": "2", "realism": "1", "aesthetic quality": "0"}
    rater = OptionRater(SayingJudge(lambda fact: 0.97 if fact.expected == marks[str(fact.key)]
                                    else 0.0))  # fmt: skip
    legacy = await Wise(bench(rater), "legacy").score(sample(meta=meant))
    assert legacy.value == pytest.approx(0.8)
    assert [legacy.parts[key] for key in marks] == [pytest.approx(n) for n in (2, 1, 0)]
    judge = SayingJudge(lambda fact: 0.8)
    verified = await Wise(bench(judge)).score(sample(meta=meant))
    assert verified.value == 1.0
    assert 'meant by "a red dog" (a carnation)' in judge.asked[0].question
    assert (await Wise(bench(judge)).score(sample())).value is None
    silent = OptionRater(SayingJudge(lambda fact: None if fact.key == "realism" else 0.5))
    assert (await Wise(bench(silent), "legacy").score(sample(meta=meant))).value is None


def test_places_by_hand() -> None:
    left, right = (0.0, 0.0, 10.0, 10.0), (40.0, 5.0, 50.0, 15.0)
    assert rules.position_score("on the left of", left, right) == 1.0
    assert rules.position_score("on the right of", left, right) == 0.0
    # Centres are 40 apart across and 5 down: not above.
    assert rules.position_score("on the top of", left, right) == 0.0
    # 5 × 10 of 150 is shared: a third, and 0.1 over it.
    assert rules.position_score("on the left of", left, (5, 0, 15, 10)) == pytest.approx(0.3)
    assert rules.position_score("near", left, right) == 1.0
    far = (300.0, 600.0, 310.0, 610.0)
    assert rules.position_score("next to", left, far) == pytest.approx(150 / 600)
    # The published code knows no such words, although its list has them.
    assert rules.locality_of("a cup on top of a table") == ""
    assert rules.position_score("", left, right) == 0.0


def found(name: str, confidence: float, *box: float) -> Detection:
    return Detection(name, box, confidence)  # type: ignore[arg-type]


def test_spatial_scores_by_hand() -> None:
    dog, tree = found("dog", 0.8, 0, 0, 10, 10), found("tree", 0.6, 40, 0, 50, 10)
    said = "a dog on the left of a tree"
    # A quarter of each confidence, and half for the place.
    assert rules.spatial_score(said, dog, tree) == pytest.approx(0.2 + 0.15 + 0.5)
    # The place is wrong, and what is left is below one half.
    assert rules.spatial_score(said, tree, dog) == 0.0
    assert rules.spatial_score(said, dog, None) == 0.0


def test_numeracy_scores_by_hand() -> None:
    dogs = [found("dog", 0.9, 0, 0, 10, 10), found("dog", 0.8, 30, 0, 40, 10)]
    assert rules.numeracy_score({"dog": 2}, dogs) == 1.0
    # The same thing twice counts once; a class that is there in another number is half.
    assert rules.numeracy_score({"dog": 2}, [dogs[0], found("dog", 0.5, 0, 0, 10, 10)]) == 0.5
    assert rules.numeracy_score({"dog": 2, "cat": 1}, dogs) == 0.5
    assert rules.numeracy_score({"cat": 1}, dogs) == 0.0
    # Two boys and a girl are two numbers of persons, and three persons are neither.
    people = [found("person", 0.9, 20.0 * at, 0, 20.0 * at + 10, 10) for at in range(3)]
    assert rules.numeracy_score({"boy": 2, "girl": 1}, people) == 0.5


@dataclass
class Finder:
    """Finds what it is told to."""

    things: tuple[Detection, ...]
    id: str = "finder"
    fingerprint: str = "finder"
    vocabulary: frozenset[str] | None = None

    async def detect(self, image: Image.Image, labels: object = None) -> list[Detection]:
        return list(self.things)


class Encoder:
    """Gives each text and picture a vector, and keeps the texts."""

    id = fingerprint = "encoder"

    def __init__(self) -> None:
        self.said: list[str] = []

    async def images(self, images: object) -> np.ndarray:
        return np.array([[0.6, 0.8]], np.float32)

    async def texts(self, texts: list[str]) -> EncodedTexts:
        self.said += texts
        return EncodedTexts(np.array([[1.0, 0.0]], np.float32), (0,))


def item(prompt: str, category: str, **meta: str) -> dict[str, object]:
    return {"prompt": prompt, "scene": parse_caption(prompt), "category": category, "meta": meta}


FINDER = Finder((found("ball", 0.8, 0, 0, 10, 10), found("table", 0.6, 40, 0, 50, 10)))


async def test_attributes_are_the_product_over_phrases() -> None:
    judge = SayingJudge(lambda fact: {"Red ball?": 0.8, "Blue table?": 0.5}[fact.question])
    score = await CompBench(bench(judge)).score(sample(**item("a red ball and a blue table",
                                                              "color")))  # fmt: skip
    assert score.value == pytest.approx(0.4)
    silent = SayingJudge(lambda fact: None if fact.question == "Red ball?" else 0.5)
    lost = await CompBench(bench(silent)).score(sample(**item("a red ball and a blue table",
                                                              "color")))  # fmt: skip
    assert (lost.value, "will not say" in lost.reason) == (None, True)


async def test_each_category_has_its_rule() -> None:
    judge = SayingJudge(lambda fact: 0.5)
    encoder = Encoder()
    metric = CompBench(bench(judge), FINDER, encoder)  # type: ignore[arg-type]
    place = await metric.score(sample(**item("a ball on the left of a table", "spatial")))
    assert place.value == pytest.approx(0.2 + 0.15 + 0.5)
    number = await metric.score(sample(**item("two balls", "numeracy")))
    assert number.value == 0.5
    action = await metric.score(sample(**item("a dog sitting on a table", "non_spatial")))
    assert action.value == pytest.approx(0.6)
    assert judge.asked == []
    said = "a red ball on the left of a blue table"
    whole = await metric.score(sample(**item(said, "complex")))
    assert whole.value == pytest.approx((0.25 + 0.85 + 0.6) / 3)
    # Attributes are left out of what the action is compared with.
    assert encoder.said[-1] == "a ball on the left of a table"
    two = await metric.score(sample(**item(said, "complex", **{THREE_IN_ONE: "spatial"})))
    assert two.value == pytest.approx((0.25 + 0.85) / 2)
    assert "action" not in two.parts


async def test_a_complex_prompt_keeps_its_action_and_is_measured_at_its_place() -> None:
    judge, encoder = SayingJudge(lambda fact: 0.5), Encoder()
    seen = Finder((*FINDER.things, found("dog", 0.9, 300, 300, 310, 310)))
    metric = CompBench(bench(judge), seen, encoder)  # type: ignore[arg-type]
    said = "a white dog is sitting on a ball next to a table"
    score = await metric.score(sample(**item(said, "complex")))
    # Ball and table are near; the dog, which sits on the ball, is not.
    assert score.parts["spatial"] == pytest.approx(0.2 + 0.15 + 0.5)
    assert encoder.said == ["a dog is sitting on a ball next to a table"]
    assert [fact.question for fact in judge.asked] == ["White dog?", "Ball?", "Table?"]


async def test_what_cannot_be_measured_is_unscored() -> None:
    metric = CompBench(bench(SayingJudge(lambda fact: 0.5)))
    for category, why in (
        ("spatial", "no detector is named"),
        ("non_spatial", "no encoder is named"),
        ("3d_spatial", "measures depth"),
    ):
        score = await metric.score(sample(**item("a red ball on the left of a table", category)))
        assert score.value is None
        assert why in score.reason
    complex_ = await metric.score(sample(**item("a red ball on the left of a table", "complex")))
    assert complex_.value is None
    assert complex_.parts["attribute"] == pytest.approx(0.25)


async def test_grounded_facts_are_those_of_the_scene_whatever_the_set_asks() -> None:
    judge = SayingJudge(lambda fact: fact.kind != "relation")
    metric = GroundedFacts(bench(judge), QuestionSource("scene", protocol="grounded"))
    score = await metric.score(sample(**item("a red ball on a table", "x"), facts=(question(1),)))
    # Ball, table, red, on: three of four.
    assert score.value == pytest.approx(0.75)
    assert "scene" in metric.needs
