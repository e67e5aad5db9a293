"""Attributes, relations and verifications by judges."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from PIL import Image

from scenewright.core.facts import Fact
from scenewright.core.ports.vision import (
    Candidate,
    Detection,
    ExtractionError,
    PairScores,
    ReadAttribute,
    Thing,
    Unread,
)
from scenewright.core.questions import NO_RELATION
from scenewright.core.scene import Relation
from scenewright.tools.vision.extraction.judged_readers import (
    JudgedAttributes,
    JudgedRelations,
    JudgedVerifier,
)
from scenewright.tools.vision.extraction.panel_questions import ExtractionPanel
from scenewright.tools.vision.extraction.world import World, miniature_world
from tests.tools.vision.extraction.extraction_doubles import SayingJudge, picture

SILENT = "0 of 1 judges scored it, the quorum is 1 (test:judge: it is silent)"
COLORS = {"color": ("red", "blue")}
PERSON = Thing("person.1", Detection("person", (4, 4, 16, 16)))
BALL = Thing("ball.1", Detection("ball", (14, 6, 24, 16)))
FAR = Thing("tree.1", Detection("tree", (40, 4, 60, 16)))


def yes(chance: float) -> dict[str, float]:
    return {"yes": chance, "no": 1 - chance}


def bench(*judges: SayingJudge) -> ExtractionPanel:
    return ExtractionPanel(judges)


async def test_the_likeliest_value_that_is_confirmed_is_taken() -> None:
    judge = SayingJudge(lambda fact, image: yes(0.9 if "red" in fact.question else 0.6))
    reader = JudgedAttributes(bench(judge), COLORS)
    assert await reader.read(picture(), PERSON, ("color", "size")) == (
        ReadAttribute("color", "red", 0.9),
    )
    assert judge.asked[0][0] == "Is the person red?"
    assert await reader.read(picture(), PERSON, ("size",)) == ()
    unsure = JudgedAttributes(bench(SayingJudge(lambda fact, image: yes(0.4))), COLORS)
    assert await unsure.read(picture(), PERSON, ("color",)) == ()


async def test_the_judges_do_not_see_rivals_of_the_class() -> None:
    judge = SayingJudge(lambda fact, image: yes(0.9))
    other = Thing("person.2", Detection("person", (40, 20, 60, 40)))
    image = picture()
    reader = JudgedAttributes(bench(judge), COLORS)
    await reader.read(image, PERSON, ("color",), [PERSON, other, BALL])
    assert judge.pictures[0].getpixel((50, 30)) == (128, 128, 128)
    assert judge.pictures[0].getpixel((10, 10)) == image.getpixel((10, 10))
    await JudgedAttributes(bench(judge), COLORS, "crop").read(image, other, ("color",))
    assert judge.pictures[1].getpixel((0, 0)) == (128, 128, 128)


async def test_silent_judges_are_an_error_with_their_reason() -> None:
    silent = bench(SayingJudge(lambda fact, image: None))
    with pytest.raises(ExtractionError, match="silent"):
        await JudgedAttributes(silent, COLORS).read(picture(), PERSON, ("color",))
    with pytest.raises(ExtractionError, match="silent"):
        await JudgedRelations(silent, miniature_world()).score(picture(), [PERSON, BALL])
    with pytest.raises(ExtractionError, match="no judges"):
        ExtractionPanel([])


async def test_a_key_is_unread_where_no_value_is_confirmed_and_some_got_no_answer() -> None:
    def says(fact: Fact, image: Image.Image) -> Mapping[str, float] | None:
        return None if "red" in fact.question else yes(blue)

    reader = JudgedAttributes(bench(SayingJudge(says)), COLORS)
    blue = 0.2
    assert await reader.read(picture(), PERSON, ("color",)) == (
        Unread("attributes", SILENT, ("person.1",), ("color",)),
    )
    # Red might be likelier still.
    likeliest = JudgedAttributes(bench(SayingJudge(says)), COLORS, sure=0.0)
    assert isinstance((await likeliest.read(picture(), PERSON, ("color",)))[0], Unread)
    blue = 0.9
    found = await reader.read(picture(), PERSON, ("color",))
    assert found == (ReadAttribute("color", "blue", 0.9),)


async def test_a_pair_without_an_answer_is_unread_and_not_without_relation() -> None:
    def says(fact: Fact, image: Image.Image) -> Mapping[str, float] | None:
        if "holding" in fact.options or fact.expected == "above":
            return None
        return holding(fact, image)

    scorer = JudgedRelations(bench(SayingJudge(says)), miniature_world(), touch=0.05)
    found = await scorer.score(picture(), [PERSON, BALL, FAR])
    lost = [one for one in found if isinstance(one, Unread)]
    assert [(one.objects, "holding" in one.words) for one in lost] == [
        (("person.1", "ball.1"), True)
    ]
    assert {one.reason for one in lost} == {SILENT}
    assert any(isinstance(one, PairScores) for one in found)


async def test_an_option_without_a_probability_of_its_own_is_unread() -> None:
    def says(fact: Fact, image: Image.Image) -> Mapping[str, float] | None:
        return {"left of": 0.9, NO_RELATION: 0.05} if fact.expected == NO_RELATION else None

    found = await JudgedRelations(bench(SayingJudge(says)), miniature_world()).score(
        picture(), [PERSON, FAR]
    )
    assert Unread("relations", SILENT, ("person.1", "tree.1"), ("left of",)) in found
    assert not any(one.predicates for one in found if isinstance(one, PairScores))


async def test_a_judge_that_raises_leaves_the_others_answers() -> None:
    def broken(fact: Fact, image: Image.Image) -> Mapping[str, float]:
        raise RuntimeError("out of memory")

    good = SayingJudge(lambda fact, image: yes(0.9), id="test:good")
    reader = JudgedAttributes(bench(SayingJudge(broken), good), COLORS)
    assert await reader.read(picture(), PERSON, ("color",))


def holding(fact: Fact, image: Image.Image) -> dict[str, float]:
    """A person holds a ball; both are left of all else."""
    if "holding" in fact.options:
        return {"holding": 0.8, NO_RELATION: 0.1}
    if "left of" in fact.options:
        return {"left of": 0.9, NO_RELATION: 0.05}
    return {NO_RELATION: 0.9}


async def test_pairs_are_scored_by_what_boxes_allow() -> None:
    judge = SayingJudge(holding)
    scorer = JudgedRelations(bench(judge), miniature_world(), touch=0.05)
    found = await scorer.score(picture(), [PERSON, BALL, FAR])
    scores = {(one.source, one.target): one for one in found if isinstance(one, PairScores)}
    held = scores["person.1", "ball.1"]
    assert held.predicates["holding"] == pytest.approx(0.8)
    assert held.none == pytest.approx(0.05)
    # A direction counts as far as there is no contact.
    assert held.predicates["left of"] == pytest.approx(0.9 * 0.2)
    assert scores["person.1", "tree.1"].predicates == {"left of": pytest.approx(0.9)}
    far = [options for question, options in judge.asked if "tree" in question]
    assert far
    assert not {"holding", "on", "under"} & {word for one in far for word in one}


async def test_of_several_contacts_the_likeliest_counts_whole() -> None:
    def both(fact: Fact, image: Image.Image) -> dict[str, float]:
        chances = {"on": 0.6, "riding": 0.3, "under": 0.9}
        known = {option: chances.get(option, 0.0) for option in fact.options}
        return {**known, NO_RELATION: 0.05}

    rider = Thing("person.1", Detection("person", (10, 4, 22, 16)))
    car = Thing("car.1", Detection("car", (8, 15, 26, 30)))
    world = World(kinds=("person", "car"), predicates=("on", "riding", "under"))
    scores = await JudgedRelations(bench(SayingJudge(both)), world).score(picture(), [rider, car])
    found = {
        (s.source, p, s.target): v
        for s in scores
        if isinstance(s, PairScores)
        for p, v in s.predicates.items()
    }
    assert found["car.1", "under", "person.1"] == pytest.approx(0.9)
    assert found["person.1", "on", "car.1"] == pytest.approx(0.6 * 0.1)


async def test_two_of_a_class_are_asked_about_by_their_attributes() -> None:
    judge = SayingJudge(lambda fact, image: {"left of": 0.9, NO_RELATION: 0.05})
    red = Thing("dog.1", Detection("dog", (4, 4, 16, 16)), (), (ReadAttribute("color", "red"),))
    blue = Thing("dog.2", Detection("dog", (40, 4, 60, 16)), (), (ReadAttribute("color", "blue"),))
    scorer = JudgedRelations(bench(judge), miniature_world())
    found = await scorer.score(picture(), [red, blue])
    assert [(s.source, s.target) for s in found if isinstance(s, PairScores)] == [
        ("dog.1", "dog.2")
    ]
    assert "between the red dog and the blue dog" in judge.asked[0][0]
    plain = [Thing("dog.1", red.detection), Thing("dog.2", blue.detection)]
    assert await scorer.score(picture(), plain) == ()


async def test_predicates_that_boxes_say_nothing_of_are_asked_of_every_pair() -> None:
    judge = SayingJudge(lambda fact, image: {"watching": 0.9, NO_RELATION: 0.05})
    world = World(kinds=("person", "tree"), predicates=("watching",))
    scores = await JudgedRelations(bench(judge), world).score(picture(), [PERSON, FAR])
    assert {(s.source, s.target) for s in scores if isinstance(s, PairScores)} == {
        ("person.1", "tree.1"),
        ("tree.1", "person.1"),
    }


async def test_candidates_are_confirmed_refused_or_left_open() -> None:
    def sees(fact: Fact, image: Image.Image) -> Mapping[str, float] | None:
        if fact.expected == "above":
            return None
        return {"left of": 0.8, NO_RELATION: 0.2}

    things = {one.id: one for one in (PERSON, BALL, FAR)}
    things["person.2"] = Thing("person.2", Detection("person", (30, 30, 40, 40)))
    asked = [("left of", "tree.1"), ("on", "tree.1"), ("above", "tree.1"), ("on", "person.2")]
    candidates = [
        Candidate(Relation(source="person.1", predicate=predicate, target=target), 0.9)
        for predicate, target in asked
    ]
    found = await JudgedVerifier(bench(SayingJudge(sees))).verify(picture(), things, candidates)
    assert [one.holds for one in found] == [True, False, None, None]
    assert found[0].confidence == pytest.approx(0.8)
    assert "silent" in found[2].reason
    assert "person.1 from person.2" in found[3].reason


def test_fingerprints_change_with_judges_words_and_thresholds() -> None:
    one, two = bench(SayingJudge(holding)), bench(SayingJudge(holding, fingerprint="saying-2"))
    world = miniature_world()
    prints = [
        JudgedAttributes(one, COLORS).fingerprint,
        JudgedAttributes(two, COLORS).fingerprint,
        JudgedAttributes(one, COLORS, "crop").fingerprint,
        JudgedAttributes(one, {"color": ("red",)}).fingerprint,
        JudgedAttributes(one, COLORS, sure=0.6).fingerprint,
        JudgedRelations(one, world).fingerprint,
        JudgedRelations(two, world).fingerprint,
        JudgedRelations(one, world, touch=0.1).fingerprint,
        JudgedVerifier(one).fingerprint,
        JudgedVerifier(two).fingerprint,
    ]
    assert len(set(prints)) == len(prints)
    assert JudgedRelations(one, world).fingerprint == JudgedRelations(one, world).fingerprint
