"""The miniature's judges asked with options and wordings that they were never taught."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest

from scenewright.core.facts import Fact
from scenewright.core.ports.judge import Judge
from scenewright.core.questions import NO_RELATION, facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import RIVALS
from scenewright.runs.model_factory.local_models import make_local_judge

STRANGE = ("kicking", "eating", "behind", "feeding", "watching")


@pytest.fixture
async def judge() -> AsyncIterator[Judge]:
    made = make_local_judge("miniature/judge-a")
    yield made
    await made.aclose()


def asked(a: SceneObject, b: SceneObject, predicate: str, wrong: tuple[str, ...]) -> Fact:
    scene = SceneGraph(
        objects=(SceneObject(id=a.id, name=a.name), SceneObject(id=b.id, name=b.name)),
        relations=(Relation(source=a.id, predicate=predicate, target=b.id),),
    )
    options = (wrong[0], predicate, *wrong[1:], NO_RELATION)
    return facts_of(scene)[-1].model_copy(update={"options": options, "id": f"{a.id}{wrong}"})


async def test_strange_options_and_wordings_cost_no_right_answers(judge: Judge) -> None:
    rng = random.Random(8)
    held = {"taught": 0, "strange": 0, "fewer": 0, "worded": 0}
    count = worded = 0
    for _ in range(14):
        painting = sample_painting(rng, n_objects=3)
        truth = painting.truth
        names = [item.name for item in truth.scene.objects]
        for a in truth.scene.objects:
            for b in truth.scene.objects:
                true = sorted(truth.relations_between(a.id, b.id)) if a is not b else []
                if not true or truth.is_ambiguous(a.id, b.id):
                    continue
                if names.count(a.name) + names.count(b.name) > 2:
                    continue
                predicate = rng.choice(true)
                facts = {
                    "taught": asked(a, b, predicate, RIVALS[predicate][:2]),
                    "strange": asked(a, b, predicate, tuple(rng.sample(STRANGE, 2))),
                    "fewer": asked(a, b, predicate, RIVALS[predicate][:1]),
                }
                if predicate in ("left of", "right of"):
                    said = f"to the {predicate}"
                    facts["worded"] = asked(a, b, said, RIVALS[predicate][:2])
                    worded += 1
                answers = await judge.answer(painting.image, tuple(facts.values()))
                for way, answer in zip(facts, answers, strict=True):
                    assert answer.state != "unscored"
                    held[way] += answer.state == "yes"
                count += 1
    assert count >= 20
    assert worded >= 5
    assert held["taught"] >= 0.9 * count
    for way, of in (("strange", count), ("fewer", count), ("worded", worded)):
        assert held[way] >= 0.85 * of, (way, held, count)
