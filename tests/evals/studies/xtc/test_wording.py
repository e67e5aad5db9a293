"""Phrases and sentences of questions."""

from __future__ import annotations

import pytest

from scenewright.core.scene import Attributes, SceneObject
from scenewright.evals.studies.xtc.questions import (
    attribute_text,
    is_many,
    object_phrase,
    relation_text,
    retrieval_text,
    the,
)


def thing(name: str, **attributes: str) -> SceneObject:
    spaced = {key.replace("_", " "): value for key, value in attributes.items()}
    return SceneObject(id="x", name=name, attributes=Attributes(spaced))


PERSON = SceneObject(
    id="x",
    name="person",
    attributes=Attributes(
        {
            "upper clothing type/color": "blue shirt",
            "headwear/eyewear": "none",
            "body position": "leaning on a wall",
            "held object type": 'a "thing"',
        }
    ),
)


@pytest.mark.parametrize(
    ("item", "phrase"),
    [
        (thing("car", color="dark red", state="parked", size="big"), "big parked dark red car"),
        (thing("table", material="wood"), "wood table"),
        (thing("dog", color="black and white"), "dog that is black and white"),
        (thing("dogs", state="asleep in the sun"), "dogs that are asleep in the sun"),
        (thing("tv", state="on"), "tv that is on"),
        (thing("dog", breed="poodle"), 'dog with breed "poodle"'),
        (thing("chair", material="very old oak"), "chair that is made of very old oak"),
        (thing("wall-brick", color="red"), "red brick wall"),
    ],
)
def test_an_object_by_its_values(item: SceneObject, phrase: str) -> None:
    assert object_phrase(item, tuple(item.attributes)) == phrase
    assert the(phrase) == f"the {phrase}"


def test_values_that_need_their_key_are_quoted() -> None:
    keys = ("upper clothing type/color", "held object type", "body position")
    assert object_phrase(PERSON, keys) == (
        'person with upper clothing "blue shirt" and held object "a \'thing\'"'
        " that is leaning on a wall"
    )
    assert retrieval_text(PERSON, keys) == (
        'What object is leaning on a wall and has upper clothing "blue shirt" and held object '
        "\"a 'thing'\"?"
    )


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (thing("car", primary_color="red"), "What is the primary color of the car?"),
        (thing("jeans", color="blue"), "What is the color of the jeans?"),
        (thing("dog", attribute="cute"), "What is the dog like?"),
        (thing("people", attribute="cute"), "What are the people like?"),
        (thing("house", window_count="4"), "What is the number of windows of the house?"),
        (thing("sign", text_visible="yes"), "Is there visible text on the sign?"),
        (thing("dog", striped="no"), "Is the dog striped?"),
        (thing("dogs", striped="true"), "Are the dogs striped?"),
        (thing("dog", has_a_tail="yes"), "Is it true of the dog: has a tail?"),
        (thing("someone", state="sad"), "What is the state of someone?"),
        (thing("the Eiffel Tower", color="gray"), "What is the color of the Eiffel Tower?"),
    ],
)
def test_attribute_questions_read_well(item: SceneObject, text: str) -> None:
    assert attribute_text(item, next(iter(item.attributes)), object_phrase(item)) == text


@pytest.mark.parametrize(
    ("key", "asked"),
    [
        ("upper clothing type/color", "type and color of the upper clothing"),
        ("door open/closed", "open or closed state of the door"),
        ("screen on/off", "on or off state of the screen"),
        ("indoor/outdoor", "indoor or outdoor"),
    ],
)
def test_keys_with_slashes_are_put_into_words(key: str, asked: str) -> None:
    item = SceneObject(id="x", name="thing", attributes=Attributes({key: "a"}))
    assert attribute_text(item, key, "thing") == f"What is the {asked} of the thing?"


def test_retrievals() -> None:
    assert retrieval_text(thing("car", color="dark red", state="parked"), ("color", "state")) == (
        "What object is dark red and parked?"
    )
    assert retrieval_text(thing("table", material="wood"), ("material",)) == (
        "What object is made of wood?"
    )
    assert retrieval_text(thing("table", material="wooden"), ("material",)) == (
        "What object is wooden?"
    )
    assert retrieval_text(thing("dog", breed="poodle"), ("breed",)) == (
        'What object has breed "poodle"?'
    )


@pytest.mark.parametrize(
    ("predicates", "text"),
    [
        (("on",), "What is the spatial position of the men relative to the ball?"),
        (("on", "near"), "What is the spatial position of the men relative to the ball?"),
        (("kicking",), "What are the men doing with the ball?"),
        (("on", "kicking"), "What is the relationship between the men and the ball?"),
        (("has",), "What is the relationship between the men and the ball?"),
        (("looking at",), "What is the relationship between the men and the ball?"),
    ],
)
def test_relation_questions(predicates: tuple[str, ...], text: str) -> None:
    assert relation_text("men", True, "ball", predicates) == text


@pytest.mark.parametrize(
    ("label", "many"),
    [
        *(("jeans", True), ("people", True), ("dogs", True), ("glasses of water", True)),
        *(("bus", False), ("grass", False), ("sheep", False), ("glass of water", False)),
        *(("two of the men", True), ("pair of shoes", False), ("dog", False), ("の", False)),
    ],
)
def test_the_number_of_a_label(label: str, many: bool) -> None:
    assert is_many(label) is many
