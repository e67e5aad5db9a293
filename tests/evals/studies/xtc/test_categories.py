"""Attribute keys and predicates, sorted into the paper's dimensions and classes."""

from __future__ import annotations

import pytest

from scenewright.core.formats import load_scene
from scenewright.core.vocabulary import FAIR_PSG as PREDICATES
from scenewright.core.vocabulary import is_handling
from scenewright.evals.studies.xtc.questions import (
    ATTRIBUTE_DIMENSIONS,
    OTHER,
    PREDICATE_NAMES,
    category_of,
    dimension_of,
    form_of,
    predicate_class,
    questions_of,
    says_a_place,
    spoken_label,
)

TABLE_11 = """
upper clothing type/color, lower clothing type/color, held object type, headwear/eyewear,
primary color, viewpoint angle, text/number visible, light color state, text on sign,
mounted position, material type, pattern type, body position, open/closed state,
brand/text visible, content visible, topping type, container type, screen on/off,
door open/closed, text visible, surface material, marking type, wet/dry state, window count,
drawer count, weather type, wave/cloud visible"""
KEYS = [key.strip() for key in TABLE_11.replace("\n", " ").split(",")]


@pytest.mark.parametrize("key", KEYS)
def test_every_key_of_the_meta_classes_has_a_dimension(key: str) -> None:
    assert dimension_of(key) in ATTRIBUTE_DIMENSIONS
    assert dimension_of(key.replace(" ", "_").upper()) == dimension_of(key)


def test_there_are_six_dimensions_and_keys_in_each() -> None:
    assert len(ATTRIBUTE_DIMENSIONS) == 6
    assert {dimension_of(key) for key in KEYS} == set(ATTRIBUTE_DIMENSIONS)


@pytest.mark.parametrize(
    ("key", "dimension"),
    [
        ("color", "Color & Material"),
        ("Primary Color", "Color & Material"),
        ("color 2", "Color & Material"),
        ("hair color", "Color & Material"),
        ("size", "Type & Parts"),
        ("state", "State & Functionality"),
        ("window count", "Text, Symbols & Counts"),
        ("body position", "Pose, View & Placement"),
        ("time of day", "Environment"),
        ("owner", OTHER),
        ("attribute 3", OTHER),
    ],
)
def test_keys_go_by_name_then_by_their_last_word(key: str, dimension: str) -> None:
    assert dimension_of(key) == dimension


def test_a_second_value_of_a_key_asks_for_the_other_one() -> None:
    assert form_of("color 2").asked == "other color"
    assert form_of("color 2").adjective


@pytest.mark.parametrize("predicate", PREDICATES)
def test_every_predicate_of_the_paper_has_a_class(predicate: str) -> None:
    assert predicate_class(predicate) in PREDICATE_NAMES


@pytest.mark.parametrize(
    ("predicate", "name"),
    [
        ("above", "Spatial"),
        ("Next  To", "Spatial"),
        ("in the background of", "Spatial"),
        ("standing on", "Posture"),
        ("sits on", "Posture"),
        ("perched on", "Posture"),
        ("leaning against", "Posture"),
        ("walk on", "Locomotion"),
        ("rides", "Locomotion"),
        ("flies over", "Locomotion"),
        ("swims in", "Locomotion"),
        ("looking at", "Social"),
        ("holds", "Social"),
        ("played with", "Social"),
        ("knee bent", OTHER),
        ("の上", OTHER),
    ],
)
def test_predicates_go_by_verb_and_preposition(predicate: str, name: str) -> None:
    assert predicate_class(predicate) == name


def test_what_says_a_place_and_what_is_done_with_a_thing() -> None:
    assert says_a_place("left of")
    assert not says_a_place("has")
    assert not says_a_place("standing on")
    assert is_handling("holding")
    assert is_handling("kicks")
    assert not is_handling("looking at")


def test_the_category_of_a_question() -> None:
    scene = load_scene(
        "dog [color=red]; dog | knee bent | cat; dog near cat; cat riding mat; mat | of | cat",
        format="triplets",
    )
    categories = [category_of(question) for question in questions_of(scene).questions]
    assert categories == ["Color & Material", "", "Spatial", "Locomotion", "Spatial"]


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ("grass-merged", "grass"),
        ("food-other-merged", "food"),
        ("window-other", "window"),
        ("wall-brick", "brick wall"),
        ("sports_ball", "sports ball"),
        ("t-shirt", "t-shirt"),
        ("-other", "-other"),
    ],
)
def test_panoptic_labels_are_said_as_words(label: str, said: str) -> None:
    assert spoken_label(label) == said
