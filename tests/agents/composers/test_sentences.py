"""Plain sentences: readable English without a language model, and nothing that nobody asked for."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given

from scenewright.agents.composers.check import dropped_facts
from scenewright.agents.composers.english import predicate_in_english
from scenewright.agents.composers.sentences import SentenceComposer, sentences, sentences_within
from scenewright.agents.judges.pictures import text_tokens
from scenewright.agents.parsers.tagging import PEOPLE, is_animate, is_person
from scenewright.config.profiles import BUILT_IN, Profile
from scenewright.core.formats import load_scene, loads_scene
from scenewright.core.ports.composer import Composer, PromptBudget
from scenewright.core.questions import facts_of
from scenewright.core.scene import Relation, SceneGraph, SceneObject
from tests.strategies import scenes

TABLE_6 = {
    "objects": ["cymbal.1", "cymbal.2", "drum.3", "guitar.4", "microphone.5", "person.6"],
    "relationships": [
        {"source": "person.6", "target": "guitar.4", "relation": "playing"},
        {"source": "person.6", "target": "microphone.5", "relation": "using"},
        {"source": "guitar.4", "target": "cymbal.1", "relation": "near"},
        {"source": "guitar.4", "target": "drum.3", "relation": "near"},
    ],
}


def test_the_papers_own_example_reads_like_english_and_names_no_place() -> None:
    """Scene-Bench, Table 6."""
    assert sentences(loads_scene(json.dumps(TABLE_6))) == (
        "A person is playing a guitar and using a microphone. "
        "The guitar is near a cymbal and a drum. There is another cymbal."
    )


def scene(objects: dict[str, dict[str, str]], *relations: tuple[str, str, str]) -> SceneGraph:
    return SceneGraph(
        objects=tuple(
            SceneObject(id=key, name=key.partition(".")[0], attributes=attributes)
            for key, attributes in objects.items()
        ),
        relations=tuple(Relation(source=s, predicate=p, target=t) for s, p, t in relations),
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (scene({"dog.1": {}}), "A dog."),
        (scene({"ball.1": {"color": "red"}, "dog.1": {}, "dog.2": {}}), "A red ball and two dogs."),
        # A state goes on with where it is.
        (
            scene(
                {"man.1": {"state": "sit"}, "chair.1": {"material": "wooden"}},
                ("man.1", "in", "chair.1"),
            ),
            "A man is sitting in a wooden chair.",
        ),
        # What one has stands with it.
        (
            scene(
                {"man.1": {}, "hat.1": {}, "horse.1": {"color": "brown", "size": "big"}},
                ("man.1", "has", "hat.1"),
                ("man.1", "rides", "horse.1"),
            ),
            "A man with a hat is riding a big brown horse.",
        ),
        # Like instances are counted, others told apart.
        (
            scene(
                {"woman.1": {}, "woman.2": {}, "flag.1": {}},
                ("woman.1", "holding", "flag.1"),
                ("woman.2", "holding", "flag.1"),
            ),
            "Two women are holding a flag.",
        ),
        (
            scene(
                {"woman.1": {}, "woman.2": {}, "bag.1": {}, "bag.2": {}},
                ("woman.1", "holding", "bag.1"),
                ("woman.2", "holding", "bag.2"),
            ),
            "Two women are each holding a bag.",
        ),
        (
            scene({"person.1": {}, "person.2": {}, "guitar.1": {}}, ("person.2", "play", "guitar.1")),  # noqa: E501
            "A person is playing a guitar. There is another person.",
        ),
        (
            scene(
                {"dog.1": {"color": "red"}, "dog.2": {"color": "black"}, "cat.1": {}, "cup.1": {}},
                ("dog.1", "chasing", "cat.1"),
                ("dog.2", "behind", "dog.1"),
                ("dog.2", "near", "cup.1"),
            ),
            "A black dog is behind a red dog and near a cup. The red dog is chasing a cat.",
        ),
        # A chain is one sentence.
        (
            scene(
                {"car.1": {}, "truck.1": {}, "house.1": {}},
                ("car.1", "behind", "truck.1"),
                ("truck.1", "parked", "house.1"),
            ),
            "A car is behind a truck, which is parked on a house.",
        ),
        (scene({"sky.1": {"color": "blue"}, "grass.1": {}}, ("sky.1", "above", "grass.1")),
         "A blue sky is above grass."),
        (scene({"cup.1": {}, "tea.1": {}}, ("cup.1", "of", "tea.1")), "There is a cup of tea."),
    ],
)  # fmt: skip
def test_scenes_read_like_english(asked: SceneGraph, said: str) -> None:
    assert sentences(asked) == said


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        ("left of", "to the left of"), ("is on a", "on"), ("hold", "holding"), ("wears", "wearing"),
        ("sat on", "sitting on"), ("held by", "held by"), ("attached", "attached to"),
        ("has", "have"), ("contains", "contain"), ("in front", "in front of"), ("rode", "riding"),
        ("on the side of", "on the side of"), ("squat", "squatting"), ("covered", "covered with"),
    ],
)  # fmt: skip
def test_predicates_of_data_sets_become_verb_phrases(predicate: str, said: str) -> None:
    assert predicate_in_english(predicate).words == said


@given(scenes())
def test_every_object_is_named_once_or_more_and_nothing_is_left_to_chance(
    asked: SceneGraph,
) -> None:
    composer = SentenceComposer()
    assert isinstance(composer, Composer)
    text = asyncio.run(composer.compose(asked, 1))
    assert text == asyncio.run(composer.compose(asked, 2))
    assert composer.places(asked, 1) == {}
    folded = text.casefold()
    assert all(item.name.casefold() in folded for item in asked.objects if "." not in item.name)


def test_real_profiles_have_a_language_model_or_plain_sentences() -> None:
    """The grid, its settings and its colours belong to the miniature alone."""
    for name, profile in BUILT_IN.items():
        if name.startswith("miniature"):
            assert profile.composer == "grid"
            continue
        assert profile.composer == ("llm" if profile.chat else "sentences")
        assert not profile.composer_defaults


def test_a_profile_with_a_language_model_composes_with_it() -> None:
    base = {"name": "mine", "backend": "diffusers:x", "judges": ["local:a"]}
    assert Profile.model_validate(base).composer == "sentences"
    assert Profile.model_validate({**base, "chat": "openai:gpt-4.1"}).composer == "llm"
    assert Profile.model_validate({**base, "chat": "scripted:director"}).composer == "sentences"
    saved = Profile.model_validate({**base, "composer": "rules"})
    assert saved.composer == "grid", "saved profiles and manifests name it so"


def test_no_place_and_no_setting_is_named_that_the_scene_does_not() -> None:
    text = sentences(load_scene("car behind another car; lamp left of tree; boat"))
    for word in ("meadow", "room", "beach", "top", "bottom", "middle", "center"):
        assert word not in text


BUSY = load_scene("red ball on blue table; dog left of table; dog | chasing | cat; cat behind lamp")


def within(asked: SceneGraph, budget: int) -> tuple[str, set[str]]:
    """The prompt of so many tokens, and the facts that it drops."""
    text, unsaid = sentences_within(asked, PromptBudget(budget, text_tokens))
    facts = facts_of(asked)
    dropped = dropped_facts(asked, facts, text, None, unsaid)
    return text, {fact.statement for fact in facts if fact.id in dropped}


def test_a_prompt_that_has_room_stays_as_it_is() -> None:
    assert within(BUSY, text_tokens(sentences(BUSY))) == (sentences(BUSY), set())


def test_a_longer_one_says_every_fact_without_function_words() -> None:
    text, dropped = within(BUSY, text_tokens(sentences(BUSY)) - 1)
    assert text == (
        "Dog chasing cat and to the left of blue table. Red ball on table. Cat behind lamp."
    )
    assert dropped == set()


def test_what_has_no_room_is_dropped_relations_first_then_attributes_then_objects() -> None:
    facts = facts_of(BUSY)
    kinds = {fact.statement: fact.kind for fact in facts}
    seen: set[str] = set()
    for budget in range(text_tokens(sentences(BUSY, brief=True)), 0, -1):
        text, dropped = within(BUSY, budget)
        assert text_tokens(text) <= budget or len(dropped) == len(facts) - 1
        lost = {kinds[statement] for statement in dropped}
        bare = SceneGraph(objects=tuple(SceneObject(id=o.id, name=o.name) for o in BUSY.objects))
        objects = {statement for statement in dropped if kinds[statement] == "object"}
        assert objects == within(bare, budget)[1], "no attribute takes an object's room"
        seen |= lost
    assert seen == {"object", "attribute", "relation"}
    assert text == "Ball.", "something is drawn"


@pytest.mark.slow
@pytest.mark.parametrize("budget", [75, 255, 511])
def test_budgets_of_clip_sd3_and_flux_hold_as_much_as_has_room(budget: int) -> None:
    colors = ("red", "blue", "green", "black")
    objects = tuple(
        SceneObject(id=f"thing{n}.1", name=f"thing{n}", attributes={"color": colors[n % 4]})
        for n in range(140)
    )
    relations = tuple(
        Relation(source=objects[n].id, predicate="behind", target=objects[(n * 7 + 1) % 140].id)
        for n in range(140)
        if n != (n * 7 + 1) % 140
    )
    text, dropped = within(SceneGraph(objects=objects, relations=relations), budget)
    assert budget - 8 < text_tokens(text) <= budget
    assert dropped


def test_the_composer_of_a_model_that_reads_little_keeps_to_it() -> None:
    plain, small = SentenceComposer(), SentenceComposer(PromptBudget(12, text_tokens))
    assert plain.fingerprint != small.fingerprint
    told = asyncio.run(small.word(BUSY, 0))
    assert told.prompt == asyncio.run(small.compose(BUSY, 0))
    assert text_tokens(told.prompt) <= 12
    assert ("ball.1",) not in told.unsaid
    assert ("dog.1", "left of", "table.1") in told.unsaid
    assert asyncio.run(plain.word(BUSY, 0)).unsaid == ()


def test_who_stands_for_those_whom_the_parser_takes_for_people() -> None:
    """One list: whom a caption says "who" of is a being to the tagger, and no animal is a who."""
    assert all(is_person(name) and is_animate(name) for name in PEOPLE)
    assert is_person("old man")
    assert is_person("firefighters")
    for name in ("dog", "robot", "fire truck"):
        assert not is_person(name)
    asked = load_scene("dog behind umpire; umpire left of car")
    assert sentences(asked) == "A dog is behind an umpire, who is to the left of a car."
