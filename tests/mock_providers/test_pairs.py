"""Two pictures compared by judges behind the wire formats, and what is made of both orders."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from PIL import Image

from scenewright.agents.judges.pictures import answer_tokens, character_tokens
from scenewright.agents.judges.remote import (
    FIRST,
    NEITHER,
    OPTIONS,
    SECOND,
    RemoteJudge,
    pair_fact,
    remote_judge,
)
from scenewright.agents.judges.sheet import PAIR_PROMPT, sheet_of
from scenewright.core.facts import Answer, Fact
from scenewright.core.formats import load_scene
from scenewright.core.questions import facts_of
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import MetricError, Sample
from scenewright.evals.metrics.pairs import compare
from scenewright.evals.metrics.picture_scores import PreferenceMetric
from scenewright.evals.metrics.registry import metric_of
from scenewright.miniature.painter import paint
from scenewright.mock_providers import ThreadedMockProviders
from scenewright.providers.caller import Caller
from scenewright.providers.usage import Usage

SCENE = load_scene("red ball on table; dog left of table", format="triplets")
FACTS = facts_of(SCENE)
RIGHT = paint(SCENE, 3).image
WRONG = paint(load_scene("red ball on table; dog right of table", format="triplets"), 3).image
EMPTY = paint(load_scene("blue boat", format="triplets"), 3).image


class Scripted:
    """A comparing judge that says what ``choose`` says of a pair in the order shown."""

    id = "scripted"

    def __init__(self, choose: Callable[[Image.Image, Image.Image], str | None]) -> None:
        self.choose = choose

    async def answer_pair(
        self, first: Image.Image, second: Image.Image, facts: Sequence[Fact]
    ) -> list[Answer]:
        choice = self.choose(first, second)
        state = "unscored" if choice is None else "yes" if choice == FIRST else "no"
        return [
            Answer(
                fact_id=fact.id,
                judge_id=self.id,
                state=state,
                choice=choice,
                reason="" if choice else "timed out",
            )
            for fact in facts
        ]


def served(lab: ThreadedMockProviders, provider: str, **overrides: object) -> RemoteJudge:
    url = lab.openai_url if provider == "openai" else lab.url
    caller = Caller("pairs")
    return remote_judge(
        provider, "judge-a", caller, api_key="key-of-pairs", base_url=url, overrides=overrides
    )


@pytest.mark.parametrize("provider", ["openai", "gemini", "anthropic"])
async def test_the_picture_that_holds_the_facts_is_preferred_in_either_place(
    lab: ThreadedMockProviders, provider: str
) -> None:
    judge = served(lab, provider)
    objects = [fact for fact in FACTS if fact.kind == "object"]
    better = await compare(judge, RIGHT, EMPTY, objects)
    worse = await compare(judge, EMPTY, RIGHT, objects)
    assert {one.preferred for one in better} == {"first"}
    assert {one.preferred for one in worse} == {"second"}
    for one, other in zip(better, worse, strict=True):
        assert one.steady
        assert one.probability is not None
        assert one.probability == pytest.approx(1 - (other.probability or 0), abs=0.02)
        assert {answer.prompt_id.partition("@")[0] for answer in one.answers} == {"judge_pair"}
    same = await compare(judge, RIGHT, RIGHT, objects)
    assert {one.preferred for one in same} == {"tie"}
    await judge.aclose()


async def test_a_relation_names_the_wanted_answer(lab: ThreadedMockProviders) -> None:
    judge = served(lab, "openai")
    (relation,) = [fact for fact in FACTS if "left of" in fact.statement]
    assert pair_fact(relation).question.endswith(" Wanted: left of.")
    (found,) = await compare(judge, RIGHT, WRONG, [relation])
    assert found.preferred == "first"
    await judge.aclose()


async def test_a_judge_that_likes_a_place_prefers_nothing() -> None:
    found = await compare(Scripted(lambda *_: FIRST), RIGHT, WRONG, FACTS)
    assert {(one.preferred, one.steady, one.probability) for one in found} == {("tie", False, 0.5)}


async def test_both_orders_must_agree_and_both_must_answer() -> None:
    honest = Scripted(lambda first, _: FIRST if first is RIGHT else SECOND)
    assert {one.preferred for one in await compare(honest, RIGHT, WRONG, FACTS)} == {"first"}
    assert {one.preferred for one in await compare(honest, WRONG, RIGHT, FACTS)} == {"second"}
    half = Scripted(lambda first, _: NEITHER if first is RIGHT else FIRST)
    assert {one.preferred for one in await compare(half, RIGHT, WRONG, FACTS)} == {"tie"}
    silent = Scripted(lambda first, _: FIRST if first is RIGHT else None)
    found = await compare(silent, RIGHT, WRONG, FACTS)
    assert {(one.preferred, one.probability, one.reason) for one in found} == {
        ("unscored", None, "timed out")
    }
    assert await compare(honest, RIGHT, WRONG, []) == []


async def test_a_model_that_takes_one_image_a_call_says_so(lab: ThreadedMockProviders) -> None:
    judge = served(lab, "openai", images_per_call=1)
    found = await compare(judge, RIGHT, WRONG, FACTS[:1])
    assert found[0].preferred == "unscored"
    assert "takes one image a call" in found[0].reason
    await judge.aclose()


def sample(drawn: Image.Image, original: Image.Image | None, id: str = "one") -> Sample:
    return Sample(
        item=Item(id=id, scene=SCENE),
        prompt="",
        image="0" * 64,
        load=lambda: drawn,
        original=None if original is None else (lambda: original),
    )


def test_the_metric_counts_what_is_won_lost_and_unsteady(
    lab: ThreadedMockProviders, tmp_path: Path
) -> None:
    judge = served(lab, "openai")
    metric = PreferenceMetric([judge])

    async def scores() -> list[object]:
        try:
            return [
                await metric.score(sample(RIGHT, EMPTY)),
                await metric.score(sample(EMPTY, RIGHT)),
                await metric.score(sample(RIGHT, RIGHT)),
                await metric.score(sample(RIGHT, None)),
            ]
        finally:
            await judge.aclose()

    won, lost, same, none = asyncio.run(scores())
    assert won.value > 0.8 > 0.2 > lost.value
    assert won.parts["won"] > 0.7
    assert won.parts["won"] == pytest.approx(lost.parts["lost"], abs=0.2)
    assert same.value == pytest.approx(0.5)
    assert (same.parts["tied"], same.parts["unsteady"]) == (1.0, 0.0)
    assert won.tokens_in > 0
    assert none.value is None
    assert "no original picture" in none.reason
    folder = PreferenceMetric([served(lab, "openai")], tmp_path)
    assert "no picture one.png" in asyncio.run(folder.score(sample(RIGHT, None))).reason
    expected = asyncio.run(metric.expected(sample(RIGHT, EMPTY), (128, 128)))
    assert expected["openai:judge-a"].calls == 2


def test_a_comparison_is_expected_to_take_both_pictures_and_its_own_instructions(
    lab: ThreadedMockProviders,
) -> None:
    judge = served(lab, "gemini", image_tokens="tiles-258")
    both = judge.expected_pair(((64, 64), (768, 1536)), FACTS[:3])
    sheet = sheet_of([pair_fact(fact) for fact in FACTS[:3]], prompt=PAIR_PROMPT)
    once = 258 + 2 * 258 + character_tokens(sheet.characters)
    assert both.calls == 2
    assert both.usage == Usage(2 * once, 2 * answer_tokens(3))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "name chat models"),
        ({"judges": "local:miniature/judge-a"}, "looks at one picture at a time"),
        ({"judges": "openai:gpt-6-luna", "baseline": "nowhere"}, "is not a folder"),
    ],
)
def test_wrong_options_of_the_metric_are_told(
    options: dict[str, object], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-pairs")
    with pytest.raises(MetricError, match=said):
        metric_of("preference", options)


def test_a_pair_offers_two_pictures_and_neither() -> None:
    assert pair_fact(FACTS[0]).options == OPTIONS
    assert pair_fact(FACTS[0]).question == FACTS[0].question
