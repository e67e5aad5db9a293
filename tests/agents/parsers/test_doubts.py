"""Doubts: told where a caption can be read otherwise, and gone once a choice is sent back."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.intent import Doubt


def doubts(caption: str) -> list[Doubt]:
    return list(parse_caption(caption).intent.doubts)


@pytest.mark.parametrize(
    ("caption", "kind", "passage"),
    [
        ("a gren cat", "word", "gren"),
        ("an elefant in a zoo", "word", "elefant"),
        ("two dogs and cats on a lawn", "count", "two dogs and cats"),
        ("three women holding a sign", "count", "three women holding a sign"),
        ("two red and blue balls", "count", "two red and blue balls"),
        ("a man watching a dog with a telescope", "attachment", "with a telescope"),
        ("a man with a dog wearing a hat", "attachment", "wearing a hat"),
        ("a man and a woman with a hat", "attachment", "with a hat"),
        ("a ball fell through the table because it was heavy", "reading", "because it was heavy"),
    ],
)
def test_what_can_be_meant_otherwise_is_told(caption: str, kind: str, passage: str) -> None:
    (found,) = doubts(caption)
    assert (found.kind, found.text) == (kind, passage)
    assert caption[found.start : found.end] == found.text
    assert found.text in str(found)
    assert len({choice.sentence for choice in found.choices}) == len(found.choices) == 2


@pytest.mark.parametrize(
    "caption",
    [
        "a gren cat",
        "an elefant in a zoo",
        "two dogs and cats on a lawn",
        "two red and blue balls",
        "a man watching a dog with a telescope",
        "a man with a dog wearing a hat",
        "a man and a woman with a hat",
    ],
)
def test_the_other_choice_leaves_no_doubt_and_another_scene(caption: str) -> None:
    taken, other = doubts(caption)[0].choices
    assert not doubts(other.sentence)
    read, changed = parse_caption(taken.sentence), parse_caption(other.sentence)
    assert (read.graph, read.intent.counts) != (changed.graph, changed.intent.counts)


@pytest.mark.parametrize(
    "caption",
    [
        "a red ball on a wooden table",
        "three dogs on a sofa",
        "a man and a woman walking a dog",
        "a boy hugging a girl with long hair",
        "a tophat beside a railcar",
        "Jeff Bezos in a shiba inu costume",
        "an oil painting of a cat wearing a top hat, no people",
    ],
)
def test_what_is_plain_has_no_doubt(caption: str) -> None:
    assert doubts(caption) == []


def test_a_misspelt_word_is_no_part_of_a_label() -> None:
    scene = parse_caption("a gren cat")
    assert [item.name for item in scene.objects] == ["cat"]
    assert [passage.text for passage in scene.intent.unread] == ["gren"]
