"""Judges as scorers: a probability is a place on the scale."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact, ProbabilityMethod
from scenewright.core.ports.judge import JudgeCaps, unscored
from scenewright.core.ports.vision import Detection, RealismError, RealismScorer
from scenewright.tools.vision.realism.judged import (
    JudgeScorer,
    VqaScorer,
    figure_facts,
    object_facts,
)
from tests.doubles import painted

IMAGE = painted((120, 90), (10, 60, 10))
DOG = Detection("dog", (30, 20, 70, 60))


class SayingJudge:
    """Gives prepared probabilities by the aspect asked about."""

    def __init__(
        self,
        name: str = "a",
        *,
        method: ProbabilityMethod = "logprob",
        **said: float | Exception | None,
    ) -> None:
        self.id = f"saying:{name}"
        self.fingerprint = f"saying-{name}"
        self.caps = JudgeCaps(64, method, 512, local=True)
        self._said = said
        self.asked: list[tuple[str, ...]] = []
        self.sizes: list[tuple[int, int]] = []
        self.closed = False

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.asked.append(tuple(fact.question for fact in facts))
        self.sizes.append(image.size)
        return [self._answer(fact) for fact in facts]

    def _answer(self, fact: Fact) -> Answer:
        chance = self._said[str(fact.key)]
        if isinstance(chance, Exception):
            raise chance
        if chance is None:
            return unscored(self.id, [fact], "it declined")[0]
        yes = chance > 0.5
        return Answer(
            fact_id=fact.id, judge_id=self.id, state="yes" if yes else "no",
            choice="yes" if yes else "no", probability=chance, method="logprob",
            tokens_in=10, tokens_out=1, usd=0.5, seconds=0.25,
        )  # fmt: skip

    async def aclose(self) -> None:
        self.closed = True


async def test_a_probability_is_a_place_from_one_to_five_by_hand() -> None:
    judge = SayingJudge(shape=0.25, texture=1.0, joint=0.0)
    scorer = JudgeScorer([judge])
    assert isinstance(scorer, RealismScorer)
    (found,) = await scorer.score(IMAGE, [DOG])
    assert (found.shape, found.texture, found.joint) == (2.0, 5.0, 1.0)
    assert (found.tokens_in, found.tokens_out, found.usd, found.seconds) == (30, 3, 1.5, 0.75)
    assert judge.asked == [
        (
            "Does the dog have realistic shape and structure, as in a photo?",
            "Does the dog have realistic texture, color and shade, as in a photo?",
            "Does the dog have realistic shape, structure, texture, color and shade, as in a "
            "photo?",
        )
    ]
    assert judge.sizes == [(224, 224)]
    await scorer.aclose()
    assert judge.closed


async def test_several_judges_are_a_panel() -> None:
    judges = [SayingJudge(n, shape=p, texture=p, joint=p) for n, p in (("a", 0.2), ("b", 0.6))]
    (found,) = await JudgeScorer(judges, view="img").score(IMAGE, [DOG])
    assert found.shape == pytest.approx(1 + 4 * 0.4)
    assert judges[0].sizes == [IMAGE.size]


async def test_what_was_asked_before_is_not_paid_for_again() -> None:
    judge = SayingJudge(shape=0.5, texture=0.5, joint=0.5)
    scorer = JudgeScorer([judge])
    await scorer.score(IMAGE, [DOG])
    again = await scorer.score(IMAGE, [DOG])
    assert (len(judge.asked), again[0].shape) == (1, 3.0)


async def test_a_missing_answer_is_no_low_score() -> None:
    scorer = JudgeScorer([SayingJudge(shape=None, texture=0.5, joint=0.5)])
    (found,) = await scorer.score(IMAGE, [DOG])
    assert (found.shape, found.texture, found.reason) == (None, 3.0, "shape: it declined")
    broken = JudgeScorer([SayingJudge(shape=OSError("gone"), texture=1, joint=1)])
    (found,) = await broken.score(IMAGE, [DOG])
    assert (found.shape, "gone" in found.reason) == (None, True)


async def test_a_bad_box_costs_its_object_alone() -> None:
    scorer = JudgeScorer([SayingJudge(shape=0.5, texture=0.5, joint=0.5)])
    found = await scorer.score(IMAGE, [Detection("dog", (200, 0, 210, 10)), DOG])
    assert "not inside a picture" in found[0].reason
    assert found[1].shape == 3.0


async def test_vqascore_asks_its_own_question() -> None:
    judge = SayingJudge(shape=0.75, texture=0.5, joint=0.25)
    (found,) = await VqaScorer(judge).score(IMAGE, [DOG])
    assert (found.shape, found.texture, found.joint) == (4.0, 3.0, 2.0)
    assert judge.asked[0][0] == ('Does this figure show "dog with realistic shape and structure."?')
    assert [fact.key for fact in figure_facts("dog")] == ["shape", "texture", "joint"]


def test_vqascore_is_made_of_token_probabilities() -> None:
    with pytest.raises(RealismError, match="verbalized probabilities"):
        VqaScorer(SayingJudge(method="verbalized"))
    with pytest.raises(RealismError, match="no judges"):
        JudgeScorer([])


def test_fingerprints_differ_by_judge_view_and_question() -> None:
    a, b = SayingJudge("a"), SayingJudge("b")
    scorers = [
        JudgeScorer([a]),
        JudgeScorer([b]),
        JudgeScorer([a, b]),
        JudgeScorer([a], view="img"),
    ]
    prints = {scorer.fingerprint for scorer in [*scorers, VqaScorer(a), VqaScorer(a, view="img")]}
    assert len(prints) == 6


def test_an_object_alone_has_no_parents_that_could_void_it() -> None:
    assert all(not fact.parents for fact in object_facts("ice cream"))
    assert len({fact.id for fact in object_facts("dog")}) == 3
