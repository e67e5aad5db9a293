"""The judge of realism: which object a fact speaks of, what its score says, what is unscored."""

from __future__ import annotations

from typing import Any

import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import Judge, JudgeError
from scenewright.core.ports.vision import Detection, DetectionError, ObjectRealism, RealismError
from scenewright.core.questions import facts_of, realism_facts_of
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.tools.vision.realism.olip_judge import OlipJudge
from tests.tools.vision.realism.scripted import ReadingScorer, ScriptedDetector, ScriptedScorer

PICTURE = Image.new("RGB", (100, 100))


def dog(left: float, side: float = 20, name: str = "dog", **more: Any) -> Detection:
    return Detection(name, (left, 0, left + side, side), **more)


def scene(*items: str) -> SceneGraph:
    """``red dog``: the object dog.1 with a colour; ``dog``: one without."""
    objects = []
    for number, item in enumerate(items, start=1):
        *color, name = item.split()
        attributes = Attributes({"color": color[0]} if color else {})
        objects.append(SceneObject(id=f"{name}.{number}", name=name, attributes=attributes))
    return SceneGraph(objects=tuple(objects))


async def asked(
    scorer: ScriptedScorer, detector: ScriptedDetector, of: SceneGraph
) -> dict[str, Answer]:
    facts = realism_facts_of(of)
    answers = await OlipJudge(scorer, detector).answer(PICTURE, facts)
    assert [a.fact_id for a in answers] == [f.id for f in facts]
    assert all(a.judge_id == scorer.id for a in answers)
    return {answer.fact_id: answer for answer in answers}


async def test_scores_become_probabilities_with_a_place_and_words() -> None:
    scorer = ScriptedScorer(lambda item: ObjectRealism(2.2, 4.6, 1.0))
    found = await asked(scorer, ScriptedDetector((dog(5, 40),)), scene("dog"))
    shape, texture = found["real:dog.1:shape"], found["real:dog.1:texture"]
    assert (shape.state, shape.choice, shape.method) == ("no", "no", "regression")
    assert (texture.state, texture.choice) == ("yes", "yes")
    assert shape.probability == pytest.approx((2.2 - 1) / 4)
    assert texture.probability == pytest.approx((4.6 - 1) / 4)
    assert shape.region == texture.region == (5, 0, 45, 40)
    assert (shape.rationale, texture.rationale) == ("shape 2.2 of 5", "texture 4.6 of 5")
    assert shape.model == "scorer:scripted-sco"
    assert shape.seconds > 0


@pytest.mark.parametrize(
    ("score", "state"), [(3.0, "no"), (3.01, "yes"), (1.0, "no"), (5.0, "yes")]
)
async def test_real_is_more_than_3_of_5(score: float, state: str) -> None:
    scorer = ScriptedScorer(lambda item: ObjectRealism(score, score))
    found = await asked(scorer, ScriptedDetector((dog(0),)), scene("dog"))
    assert {answer.state for answer in found.values()} == {state}


async def test_one_look_and_one_pass_for_all_objects() -> None:
    detector = ScriptedDetector((dog(0), dog(30, name="cat"), dog(60, name="ball")))
    scorer = ScriptedScorer()
    found = await asked(scorer, detector, scene("dog", "cat", "ball"))
    assert detector.looks == [("dog", "cat", "ball")]
    assert [[item.name for item in items] for items in scorer.asked] == [["dog", "cat", "ball"]]
    assert {a.state for a in found.values()} == {"no", "yes"}


async def test_words_tell_instances_apart() -> None:
    detector = ScriptedDetector((dog(0, 10), dog(30, 40), dog(75, 20)))
    scorer = ReadingScorer(fits={"red dog": 75, "blue dog": 0})
    found = await asked(scorer, detector, scene("red dog", "blue dog"))
    assert scorer.read == [("red dog", "blue dog")]
    assert found["real:dog.1:shape"].region == (75, 0, 95, 20)
    assert found["real:dog.2:shape"].region == (0, 0, 10, 10)


async def test_without_words_or_a_reader_size_tells() -> None:
    detector = ScriptedDetector((dog(0, 10), dog(30, 40)))
    scorer = ReadingScorer()
    found = await asked(scorer, detector, scene("dog", "dog"))
    assert scorer.read == []
    assert [found[f"real:dog.{n}:shape"].region for n in (1, 2)] == [
        (30, 0, 70, 40),
        (0, 0, 10, 10),
    ]
    found = await asked(ScriptedScorer(), detector, scene("red dog"))
    assert found["real:dog.1:shape"].region == (30, 0, 70, 40)


async def test_the_only_one_needs_no_words() -> None:
    scorer = ReadingScorer()
    found = await asked(scorer, ScriptedDetector((dog(0),)), scene("red dog"))
    assert scorer.read == []
    assert found["real:dog.1:shape"].state == "no"


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        ((), "scripted:detector found no dog"),
        ((dog(0, name="cat"),), "found no dog"),
        ((dog(0, score=0.31),), "is not sure of any dog: 0.31, below 0.5"),
        ((dog(0, stuff=True),), "dog is a region without instances"),
    ],
)
async def test_what_is_not_detected_is_unscored(seen: tuple[Detection, ...], said: str) -> None:
    scorer = ScriptedScorer()
    found = await asked(scorer, ScriptedDetector(seen), scene("dog"))
    assert {answer.state for answer in found.values()} == {"unscored"}
    assert all(said in answer.reason for answer in found.values())
    assert not any(scorer.asked)


async def test_too_few_of_a_class_leave_some_unscored() -> None:
    detector = ScriptedDetector((dog(0),))
    found = await asked(ReadingScorer(fits={"red dog": 99, "blue dog": 0}), detector,
                        scene("red dog", "blue dog"))  # fmt: skip
    assert found["real:dog.2:shape"].state == "no"
    assert found["real:dog.1:shape"].reason == (
        "scripted:detector found only 1 of class dog, for other objects"
    )


async def test_a_small_object_of_the_scene_is_judged_all_the_same() -> None:
    found = await asked(ScriptedScorer(), ScriptedDetector((dog(0, 3),)), scene("dog"))
    assert found["real:dog.1:texture"].state == "yes"


async def test_a_score_that_lacks_keeps_its_reason_and_its_cost() -> None:
    scorer = ScriptedScorer(
        lambda item: ObjectRealism(None, 4.0, reason="refused", tokens_in=11, usd=0.5)
    )
    found = await asked(scorer, ScriptedDetector((dog(0),)), scene("dog"))
    shape, texture = found["real:dog.1:shape"], found["real:dog.1:texture"]
    assert (shape.state, shape.reason, shape.probability) == ("unscored", "refused", None)
    assert texture.state == "yes"
    assert shape.tokens_in + texture.tokens_in == 11
    assert shape.usd + texture.usd == pytest.approx(0.5)


@pytest.mark.parametrize("broken", ["detector", "scorer", "count"])
async def test_it_never_raises_for_what_a_model_does(broken: str) -> None:
    detector, scorer = ScriptedDetector((dog(0),)), ScriptedScorer()
    if broken == "detector":
        detector.failing = DetectionError("out of memory")
    elif broken == "scorer":
        scorer.failing = RealismError("out of memory")
    else:
        scorer.score = _nothing  # type: ignore[method-assign]
    found = await asked(scorer, detector, scene("dog"))
    assert {answer.state for answer in found.values()} == {"unscored"}
    assert all(answer.reason for answer in found.values())


async def _nothing(image: Image.Image, objects: Any) -> list[ObjectRealism]:
    return []


async def test_other_facts_are_not_its_business() -> None:
    of = scene("red dog")
    stated, (shape, texture) = facts_of(of), realism_facts_of(of)
    joint = shape.model_copy(update={"id": "real:dog.1:joint", "key": "joint"})
    nameless = texture.model_copy(update={"value": None})
    facts: list[Fact] = [stated[0], shape, joint, stated[1], nameless]
    detector = ScriptedDetector((dog(0),))
    answers = await OlipJudge(ScriptedScorer(), detector).answer(PICTURE, facts)
    assert [a.fact_id for a in answers] == [f.id for f in facts]
    assert [a.state for a in answers] == ["unscored", "no", "unscored", "unscored", "unscored"]
    assert "no facts of the kind object" in answers[0].reason
    assert "not joint" in answers[2].reason
    assert "class" in answers[4].reason
    assert await OlipJudge(ScriptedScorer(), detector).answer(PICTURE, ()) == []
    await OlipJudge(ScriptedScorer(), detector).answer(PICTURE, stated)
    assert len(detector.looks) == 1


async def test_it_is_a_judge_of_realism_alone() -> None:
    detector, scorer = ScriptedDetector(), ScriptedScorer()
    judge = OlipJudge(scorer, detector)
    assert isinstance(judge, Judge)
    assert judge.id == scorer.id
    assert judge.caps.kinds == frozenset({"realism"})
    assert judge.caps.probability == "regression"
    other = OlipJudge(scorer, ScriptedDetector(fingerprint="another"))
    assert judge.fingerprint != other.fingerprint
    assert judge.fingerprint == OlipJudge(scorer, detector).fingerprint
    await judge.aclose()
    assert not scorer.closed
    assert not detector.closed


async def test_a_model_that_cannot_be_loaded_is_told_as_a_judge_is() -> None:
    class Broken(ScriptedScorer):
        async def load(self) -> None:
            raise RealismError("no weights")

    with pytest.raises(JudgeError, match="scripted:scorer: no weights"):
        await OlipJudge(Broken(), ScriptedDetector()).load()
