"""A second look: words that join as no phrase does, or in two ways, with what else fits."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.intent import Doubt


def doubt(caption: str) -> Doubt:
    (found,) = parse_caption(caption).doubts
    assert caption[found.start : found.end] == found.text
    return found


@pytest.mark.parametrize(
    ("caption", "passage"),
    [
        ("a lantern beside a kettle drum set", "set"),
        ("pantry and folding chair", "folding chair"),
        ("a lantern next to a white farm home with a fence", "a white farm home"),
        ("a cook in a kitchen with a parrot", "with a parrot"),
        ("a lamp with a moon on a shelf", "on a shelf"),
        ("a cup, a spoon, a fork and a poster on the wall", "on the wall"),
        ("a herd of deer beside a river", "a herd of deer"),
        ("There are children on a swing. There are children near a fence.", "children"),
        ("A person is on a bench. There is a pigeon behind the woman.", "the woman"),
    ],
)
def test_each_choice_is_another_scene_and_the_first_is_the_reading(
    caption: str, passage: str
) -> None:
    found = doubt(caption)
    taken, other = found.choices
    assert found.text == passage
    scenes = [parse_caption(said) for said in (caption, taken.sentence, other.sentence)]
    read, same, changed = (set(map(str, scene.relations)) for scene in scenes)
    # A choice with a clause of its own says "has" for "with".
    assert {one.replace(" has ", " with ") for one in same} == {
        one.replace(" has ", " with ") for one in read
    }
    names = [[item.name for item in scene.objects] for scene in scenes]
    assert (changed, names[2]) != (same, names[1])


@pytest.mark.parametrize(
    ("caption", "passage"),
    [
        ("a sign with the words 'FRESH FISH' in green", "in green"),
        ("a scarf that she is knitting in her lap", "a scarf that she is knitting"),
    ],
)
def test_what_cannot_be_said_otherwise_is_told_in_plain_words(caption: str, passage: str) -> None:
    found = doubt(caption)
    assert found.text == passage
    assert found.question.endswith("?")
    assert len(found.choices) != 1


@pytest.mark.parametrize(
    "caption",
    [
        "a farmer cutting a pumpkin on a red cart",
        "a sailor whistling at a gull while sitting on a barrel",
        "a baker holding a tray in a kitchen",
        "a table with a bowl on it",
        "a cup and a spoon on a shelf",
        "a lamp on a shelf; lamp is left of a book",
        "There is a goat on a hill. The goat is white.",
        "kettle on stove. kettle next to cup. cup on stove",
        "a knight's shield on a wall",
    ],
)
def test_what_joins_in_one_way_has_no_doubt(caption: str) -> None:
    assert parse_caption(caption).doubts == ()


def test_nobody_is_asked_more_than_three_questions() -> None:
    caption = (
        "a cook in a kitchen with a parrot. a drum with wolf's ears. a herd of deer. "
        "a lantern beside a kettle drum set"
    )
    assert len(parse_caption(caption).doubts) == 3
