"""Nobody is asked the same question about a picture twice: no judge, and no person.

Two alike objects are counted or told apart; whatever else of a scene puts one question, as one
value of two attributes does, is answered together.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from scenewright.core.facts import Answer, Fact, FactError
from scenewright.core.formats import load_scene
from scenewright.core.questions import PROTOCOLS, Protocol, QuestionForm
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.evals.human_ratings.study import question_of, sheet
from scenewright.providers import AnswerStore, ask
from tests.doubles import ScriptedJudge, painted
from tests.strategies import intended, scenes

LOW = Attributes({"size": "low", "height": "low"})
IMAGE = painted((8, 8), (128, 0, 0))


@dataclass
class Recording(ScriptedJudge):
    """Keeps the facts of each call."""

    calls: list[list[Fact]] = field(default_factory=list)

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.calls.append(list(facts))
        return await super().answer(image, facts)


def facts_in(scene: SceneGraph, protocol: Protocol) -> tuple[Fact, ...]:
    try:
        return QuestionForm(protocol, realism=True).facts(scene)
    except FactError:
        # A relation that says "no visible relationship" is refused.
        return ()


any_scene = st.one_of(scenes(), intended())


@given(scene=any_scene, protocol=st.sampled_from(PROTOCOLS))
@settings(max_examples=40)
def test_no_person_is_asked_twice(scene: SceneGraph, protocol: Protocol) -> None:
    facts = facts_in(scene, protocol)
    assert len({fact.id for fact in facts}) == len(facts)
    asked = [question_of(fact) for fact in sheet(facts)]
    assert len(set(asked)) == len(asked)
    assert set(asked) == set(map(question_of, facts))


async def calls_of(facts: Sequence[Fact], *, at_once: bool) -> tuple[Recording, list[Answer]]:
    judge = Recording(at_once=at_once, usd=1.0)
    half = len(facts) // 2
    with (
        tempfile.TemporaryDirectory() as folder,
        closing(AnswerStore(Path(folder) / "answers.db")) as store,
    ):
        now, later = (facts[:half], facts[half:]) if at_once else (facts, ())
        found = list((await ask(judge, "f" * 64, IMAGE, now, store=store, ahead=later)).answers)
        if later:
            reply = await ask(judge, "f" * 64, IMAGE, later, store=store)
            assert reply.cached
            found += reply.answers
    return judge, found


def check_calls(judge: Recording) -> None:
    for call in judge.calls:
        # What a scene wants and excludes at once is asked with either outcome.
        asked = [(fact.question, fact.options, fact.expected) for fact in call]
        assert len(set(asked)) == len(asked)


@given(scene=any_scene, protocol=st.sampled_from(PROTOCOLS))
@settings(max_examples=15)
async def test_no_judge_is_asked_twice(scene: SceneGraph, protocol: Protocol) -> None:
    facts = facts_in(scene, protocol)
    judge, found = await calls_of(facts, at_once=False)
    check_calls(judge)
    assert [answer.fact_id for answer in found] == [fact.id for fact in facts]
    # Each question is paid once, whoever shares it.
    assert sum(answer.usd for answer in found) == sum(map(len, judge.calls))
    # All at once, further facts are on the same sheet, and those that are asked by class label.
    judge, found = await calls_of(facts, at_once=True)
    check_calls(judge)
    assert [answer.fact_id for answer in found] == [fact.id for fact in facts]


async def test_two_attributes_of_one_value_are_one_question() -> None:
    table = SceneObject(id="table.1", name="table", attributes=LOW)
    facts = facts_in(SceneGraph(objects=(table,)), "scene-bench")
    judge, found = await calls_of(facts[:3], at_once=False)
    assert [fact.question for fact in judge.calls[0]] == [
        "Is there a table in the image?",
        "Is the table low?",
    ]
    one, other = found[1:]
    assert (one.state, one.choice) == (other.state, other.choice)
    assert (one.usd, other.usd) == (1.0, 0.0)


async def test_two_alike_are_counted() -> None:
    facts = facts_in(load_scene("two dogs"), "grounded")
    assert [fact.question for fact in sheet(facts) if fact.kind == "object"] == [
        "Is there a dog in the image?",
        "Are there at least 2 dogs in the image?",
    ]
    facts = facts_in(load_scene("two dogs"), "scene-bench")
    assert [fact.question for fact in sheet(facts) if fact.kind == "object"] == [
        "Is there a dog in the image?"
    ]
