"""Images to scene graphs by judges who are asked for every word of a closed world."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest
from PIL import Image

from scenewright.core.facts import Answer, Fact
from scenewright.core.ports.judge import JudgeCaps, unscored
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import Attributes, Relation, SceneError, SceneGraph, SceneObject
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_questions import know
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import COLORS, KINDS, PREDICATES, can_hold
from scenewright.runs.model_factory.profiles import build_judge
from scenewright.tools.vision.extraction.judged_parser import JudgedPictureParser, Vocabulary

WORDS = Vocabulary(
    tuple(KINDS),
    {"color": tuple(COLORS)},
    tuple(p for p in PREDICATES if p != "near"),
    can_hold,
    "miniature",
)
IMAGE = Image.new("RGB", (8, 8))


class Oracle:
    """Answers questions about a scene of two things of different kinds by their words."""

    caps = JudgeCaps(facts_per_call=999, probability="binary", max_side=64, local=True)

    def __init__(self, name: str, yes: Sequence[str], relations: Sequence[str] = ()) -> None:
        self.id = f"oracle:{name}"
        self.fingerprint = name
        self._yes = {question.casefold() for question in yes}
        self._relations = set(relations)
        self.asked: list[str] = []

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        self.asked += [fact.question for fact in facts]
        return [self._one(fact) for fact in facts]

    def _one(self, fact: Fact) -> Answer:
        assert fact.parents == ()
        if fact.kind == "relation":
            holds = f"{fact.subject} {fact.predicate} {fact.target}" in self._relations
        else:
            holds = fact.question.casefold() in self._yes
        choice = fact.expected if holds else ("no" if fact.is_binary else NO_RELATION)
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if holds else "no",
            choice=choice,
            probability=0.9 if holds else 0.1,
            method="binary",
        )

    async def aclose(self) -> None:
        return


SEEN = ("Is there a dog in the image?", "Is there a ball in the image?", "Is the dog black?",
        "Is the ball red?")  # fmt: skip


async def test_what_the_judges_confirm_is_the_graph() -> None:
    oracle = Oracle("a", SEEN, ["dog.1 left of ball.1", "ball.1 right of dog.1"])
    found = await JudgedPictureParser([oracle], WORDS).parse(IMAGE)
    assert [(o.id, dict(o.attributes)) for o in found.objects] == [
        ("dog.1", {"color": "black"}),
        ("ball.1", {"color": "red"}),
    ]
    assert [str(r) for r in found.relations] == ["dog.1 left of ball.1"]
    assert "Is the cat red?" not in oracle.asked
    assert "Are there at least 2 dogs in the image?" in oracle.asked
    assert "Are there at least 2 cats in the image?" not in oracle.asked


async def test_a_direction_that_the_other_end_denies_is_not_kept() -> None:
    oracle = Oracle("a", SEEN, ["dog.1 above ball.1"])
    assert (await JudgedPictureParser([oracle], WORDS).parse(IMAGE)).relations == ()


async def test_several_things_of_one_kind_have_a_value_each() -> None:
    seen = (
        "Is there a dog in the image?",
        "Are there at least 2 dogs in the image?",
        "Is there a red dog in the image?",
        "Is there a blue dog in the image?",
    )
    for extra, colors in (((), ["blue", "red"]), (("Are there at least 2 red dogs in the image?",),
                                                  ["blue", "red"])):  # fmt: skip
        found = await JudgedPictureParser([Oracle("a", seen + extra)], WORDS).parse(IMAGE)
        assert [item.attributes["color"] for item in found.objects] == colors
    twins = (*seen[:3], "Are there at least 2 red dogs in the image?")
    found = await JudgedPictureParser([Oracle("a", twins)], WORDS).parse(IMAGE)
    assert [item.attributes["color"] for item in found.objects] == ["red", "red"]


async def test_judges_decide_together() -> None:
    yes, no = Oracle("a", SEEN), Oracle("b", ["Is there a dog in the image?"])
    found = await JudgedPictureParser([yes, no], WORDS).parse(IMAGE)
    assert [item.id for item in found.objects] == ["dog.1"]


class Silent(Oracle):
    """Gives nothing usable."""

    async def answer(self, image: Image.Image, facts: Sequence[Fact]) -> list[Answer]:
        return unscored(self.id, facts, "no credit")


async def test_silent_judges_are_an_error_and_an_empty_image_is_none() -> None:
    with pytest.raises(SceneError, match="no judge says what is in the image"):
        await JudgedPictureParser([Silent("a", ())], WORDS).parse(IMAGE)
    found = await JudgedPictureParser([Oracle("a", ())], WORDS).parse(IMAGE)
    assert not found
    found = await JudgedPictureParser([Silent("s", ()), Oracle("a", SEEN)], WORDS).parse(IMAGE)
    assert len(found.objects) == 2


@pytest.mark.parametrize(
    ("judges", "words", "most", "says"),
    [
        ([], WORDS, 2, "no judges"),
        ([Oracle("a", ())], Vocabulary(()), 2, "no kinds"),
        ([Oracle("a", ())], WORDS, 0, "most is 0"),
    ],
)
def test_there_is_somebody_to_ask_and_something(
    judges: list[Oracle], words: Vocabulary, most: int, says: str
) -> None:
    with pytest.raises(SceneError, match=says):
        JudgedPictureParser(judges, words, most=most)


class Knowing(Oracle):
    """Knows the truth of a painting."""

    def __init__(self, truth: Truth) -> None:
        super().__init__("truth", ())
        self._truth = truth

    def _one(self, fact: Fact) -> Answer:
        # Things of one kind are left out of this test, so that names mean one thing.
        ids = [i for i in (fact.subject, fact.target) if i]
        given = Attributes({fact.key: fact.value} if fact.key and fact.value else {})
        most = [f"{i.rpartition('.')[0]}.{n + 1}" for i in ids for n in range(int(i[-1]))]
        objects = tuple(
            SceneObject(id=i, name=i.rpartition(".")[0], attributes=given)
            for i in dict.fromkeys(most)
        )
        relations: tuple[Relation, ...] = ()
        if fact.predicate and fact.target:
            relations = (
                Relation(source=fact.subject, predicate=fact.predicate, target=fact.target),
            )
        asked = SceneGraph(objects=objects, relations=relations)
        holds = know(fact, asked, self._truth, "grounded").holds
        return Answer(
            fact_id=fact.id,
            judge_id=self.id,
            state="yes" if holds else "no",
            choice=fact.expected if holds else fact.options[-1],
            probability=1.0 if holds else 0.0,
            method="binary",
        )


async def test_who_knows_the_truth_gives_the_painted_graph() -> None:
    done = 0
    for at in range(40):
        truth = sample_painting(random.Random(f"known {at}"), n_objects=4).truth
        scene = truth.scene
        if len({item.name for item in scene.objects}) < 4:
            continue
        done += 1
        found = await JudgedPictureParser([Knowing(truth)], WORDS).parse(IMAGE)
        assert {(o.name, *o.attributes.values()) for o in found.objects} == {
            (o.name, *o.attributes.values()) for o in scene.objects
        }
        for relation in found.relations:
            assert relation.predicate in truth.relations_between(relation.source, relation.target)
        for one in scene.objects:
            for other in scene.objects:
                true = truth.relations_between(one.id, other.id) - {"near"}
                if true:
                    ends = {one.id, other.id}
                    assert any({r.source, r.target} == ends for r in found.relations)
    assert done > 10


@pytest.mark.slow
def test_the_miniatures_judges_read_paintings_that_no_training_saw() -> None:
    judges = [build_judge(f"local:miniature/judge-{letter}") for letter in "ab"]
    parser = JudgedPictureParser(judges, WORDS)
    things = right = said = held = 0
    for at in range(10):
        painting = sample_painting(random.Random(f"read {at}"), n_objects=3)
        truth = painting.truth
        found = asyncio.run(parser.parse(painting.image))
        painted = [(o.name, o.attributes["color"]) for o in painting.scene.objects]
        read = [(o.name, o.attributes.get("color")) for o in found.objects]
        things += len(painted)
        right += sum(thing in read for thing in painted)
        assert len(read) <= len(painted) + 1
        said += len(found.relations)
        held += sum(
            relation.source in truth.boxes
            and relation.target in truth.boxes
            and relation.predicate in truth.relations_between(relation.source, relation.target)
            for relation in found.relations
        )
    assert right >= 0.8 * things
    assert said >= 10
    assert held >= 0.6 * said
