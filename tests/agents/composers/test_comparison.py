"""What a prompt lost of the person's sentence, and what it added."""

from __future__ import annotations

import asyncio
import random
from functools import lru_cache

import pytest

from benchmarks._harness import DATA
from benchmarks.intent import SETS, Sentence, added_silently, load, read, silent
from scenewright.agents.composers.check import changes_of, compared
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.agents.parsers.rules import parse_caption
from scenewright.core.scene import SceneGraph, SceneObject

beside = pytest.mark.skipif(
    not all((DATA / name).is_dir() for name in SETS.values()),
    reason="the public releases are not beside the repository",
)
EACH = 200


def told(sentence: str, prompt: str, negative: str = "") -> tuple[list[str], list[str]]:
    changes = compared(sentence, prompt, negative)
    return [one.text for one in changes.lost], list(changes.added)


@pytest.mark.parametrize(
    ("sentence", "prompt"),
    [
        ("a photo of a dog", "A photo of a dog."),
        ("van is right to skateboard", "A van is to the right of a skateboard."),
        ("a pair of shoes", "Two shoes."),
        ("both arms", "Two arms."),
        ("a shoe, with the caption 'HI'", 'A shoe that says "HI".'),
        ("a wall with 'HI' written on it", 'A wall that says "HI".'),
        ("one dog and another", "A dog and a second dog."),
        ("a kitchen with a goat in it", "A goat is in a kitchen."),
        ("a very green color", "Very green."),
        ("a cat wears a hat", "A cat is wearing a hat."),
    ],
)
def test_other_words_for_the_same_are_no_change(sentence: str, prompt: str) -> None:
    assert told(sentence, prompt) == ([], [])


@pytest.mark.parametrize(
    ("sentence", "prompt", "lost", "added"),
    [
        ("an oil painting of a cat", "A cat.", ["oil painting"], []),
        ("three dogs", "Dogs.", ["three"], []),
        ("dogs", "Two dogs.", [], ["Two"]),
        ("a dog at night in the rain", "A dog in rain.", ["night"], []),
        ("a dog", "A happy dog on a beach.", [], ["happy", "beach"]),
        ("a cat under a table", "A cat. A table.", ["under"], []),
        ("several dogs", "Dogs.", ["several"], []),
        ("a zebra-print futon", "A print futon.", ["zebra-print"], []),
        ("a two-story house", "A two-story house.", [], []),
        ("a cat under a table", "A cat over a table.", ["under"], ["over"]),
    ],
)
def test_lost_and_added_words_are_told(
    sentence: str, prompt: str, lost: list[str], added: list[str]
) -> None:
    assert told(sentence, prompt) == (lost, added)


def test_what_a_negative_prompt_says_is_not_lost() -> None:
    assert told("a street, no cars", "A street.", "cars") == ([], [])
    assert told("a street, no cars", "A street.") == (["no cars"], [])
    assert told("a street without people", "A street.", "blurry, person") == ([], [])


CARD = "an oil painting of three dogs and a cat wearing a red hat, no people, at night"


def edited(text: str, without: str = "", more: str = "") -> SceneGraph:
    """Return the scene of ``text`` without a class of objects, with one more."""
    scene = parse_caption(text)
    changed = scene.subgraph([item.id for item in scene.objects if item.name != without])
    added = (SceneObject(id=f"{more}.9", name=more),) if more else ()
    return changed.model_copy(update={"objects": (*changed.objects, *added)})


@pytest.mark.parametrize(
    ("without", "more", "prompt", "lost", "added"),
    [
        # What was taken out of the graph is neither lost nor, what was put in, added.
        ("hat", "", "Oil painting: three dogs and a cat at night, no people.", [], []),
        (
            "dog",
            "boat",
            "Oil painting: a cat wearing a red hat, a boat. At night, no people.",
            [],
            [],
        ),
        ("hat", "", "Three dogs and a cat, no people.", ["oil painting", "night"], []),
        ("hat", "", "Oil painting of dogs, a cat at night, no people.", ["three"], []),
        (
            "",
            "boat",
            "Oil painting: three dogs, a cat wearing a red hat at night, no people.",
            [],
            [],
        ),
        (
            "",
            "boat",
            "Oil painting: three dogs, a cat wearing a red hat.",
            ["no people", "night"],
            [],
        ),
        (
            "dog",
            "",
            "Oil painting: a cat wearing a hat on a beach at night, no people.",
            ["red"],
            ["beach"],
        ),
    ],
)
def test_after_an_edit_the_prompt_is_compared_with_what_is_left_of_the_sentence(
    without: str, more: str, prompt: str, lost: list[str], added: list[str]
) -> None:
    scene = edited(CARD, without, more)
    assert scene.edited
    changes = changes_of(scene, prompt)
    assert ([one.text for one in changes.lost], list(changes.added)) == (lost, added)
    assert all(CARD[one.start : one.end] == one.text for one in changes.lost)


def test_without_an_edit_all_of_the_sentence_is_compared_and_a_graph_has_none() -> None:
    scene = parse_caption(CARD)
    assert changes_of(scene, "A cat.") == compared(CARD, "A cat.")
    assert not changes_of(scene.graph, "A cat.").text
    (note,) = edited("a dog and a cat", "cat").warnings
    assert "prompts are composed" in note


@lru_cache
def sentences() -> list[Sentence]:
    """Some sentences of each public set, others each time the sets change."""
    rng = random.Random(7)
    every = load(DATA)
    by_set = ([one for one in every if one.source == source] for source in SETS)
    return [one for some in by_set for one in rng.sample(some, EACH)]


@beside
def test_a_sentence_loses_and_adds_nothing_to_itself() -> None:
    for one in load(DATA):
        assert not compared(one.text, one.text).text


@beside
@pytest.mark.parametrize("composed", [False, True])
def test_every_content_word_of_a_public_sentence_is_in_the_prompt_or_told(composed: bool) -> None:
    composer = SentenceComposer(verbatim=not composed)
    read_at_all = 0
    for one in sentences():
        scene = read(one.text)
        if scene is None:
            continue
        read_at_all += 1
        prompt = asyncio.run(composer.compose(scene, 0))
        changes = compared(one.text, prompt)
        told = " ".join(passage.text for passage in changes.lost)
        assert not silent(one.text, f"{prompt} {told}"), one.key
        assert not added_silently(prompt, f"{one.text} {' '.join(changes.added)}"), one.key
        if not composed:
            assert prompt in one.text
    assert read_at_all > 2 * EACH


@beside
def test_an_edit_of_a_public_sentence_loses_nothing_of_what_is_left() -> None:
    composer = SentenceComposer()
    tried = 0
    for one in sentences()[::4]:
        scene = read(one.text)
        if scene is None or len(scene.objects) < 2:
            continue
        tried += 1
        left = scene.subgraph([item.id for item in scene.objects[1:]])
        prompt = asyncio.run(composer.compose(left, 0))
        changes = changes_of(left, prompt)
        told = " ".join(passage.text for passage in changes.lost)
        kept = " ".join(item.name for item in left.objects)
        assert not silent(kept, f"{prompt} {told}"), one.key
        removed = changes_of(left, f"{prompt} {one.text}")
        assert not removed.lost, one.key
        assert set(changes.added) <= set(compared(one.text, prompt).added), one.key
    assert tried > EACH // 4


def test_a_word_that_asks_is_told_as_lost() -> None:
    (lost,) = compared("a drawing of how a pump works", "A drawing of a pump working.").lost
    assert lost.text == "how"
