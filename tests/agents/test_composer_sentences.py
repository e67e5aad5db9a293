"""Plain sentences: readable English without a language model, and nothing that nobody asked for."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given

from scenewright.agents.composer import Composer
from scenewright.agents.composer_english import predicate_in_english
from scenewright.agents.composer_sentences import SentenceComposer, sentences
from scenewright.built_in_profiles import BUILT_IN
from scenewright.formats import load_scene, loads_scene
from scenewright.profile_specs import Profile
from scenewright.scene import Relation, SceneGraph, SceneObject
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
        if name == "miniature":
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
