"""Passages that a scene cannot hold: negations, other languages, words without a trace."""

from __future__ import annotations

import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks._negations import affirmations, denials
from scenewright.agents.parsers.rules import CaptionError, parse_caption
from scenewright.agents.parsers.unread import CaptionWarning, warn_of
from scenewright.core.intent import Passage, listed


def refused(caption: str) -> tuple[Passage, ...]:
    with pytest.raises(CaptionError) as raised:
        parse_caption(caption)
    for passage in raised.value.passages:
        assert caption[passage.start : passage.end] == passage.text
        assert passage.text in str(raised.value)
    return raised.value.passages


def unread(caption: str) -> list[str]:
    found = parse_caption(caption).intent.unread
    assert all(caption[p.start : p.end] == p.text for p in found)
    assert list(found) == sorted(found, key=lambda passage: passage.start)
    return [passage.text for passage in found]


@pytest.mark.parametrize(
    ("caption", "passage"),
    [
        ("a dog that is not red", "not red"),
        ("the dog does n't sleep", "n't sleep"),
        ("a cat on a bench. Nobody waits.", "Nobody waits"),
        ("a bird unable to fly", "unable to fly"),
    ],
)
def test_a_denied_deed_or_quality_is_told_with_its_place(caption: str, passage: str) -> None:
    assert unread(caption) == [passage]


@pytest.mark.parametrize(
    ("caption", "name", "bearer", "words"),
    [
        ("a room with no cat", "cat", None, "with no cat"),
        ("a street, no people", "person", None, "no people"),
        ("a man without a hat on a bench", "hat", "man.1", "without a hat"),
        ("a table without a red lamp", "red lamp", "table.1", "without a red lamp"),
        ("The man isn’t wearing a hat.", "hat", "man.1", "isn’t wearing a hat"),
        ("A horse not wearing a saddle", "saddle", "horse.1", "not wearing a saddle"),
        ("a cat instead of a dog", "dog", None, "instead of a dog"),
        ("There are no trees in the field", "tree", None, "There are no trees"),
        ("a garden devoid of flowers", "flower", None, "devoid of flowers"),
        ("a child with a missing tooth", "tooth", "child.1", "with a missing tooth"),
        ("a dog on a sofa --no people", "person", None, "--no people"),
        ("a street free of cars", "car", None, "free of cars"),
        ("nobody on a bench", "person", None, "nobody"),
    ],
)
def test_a_denied_thing_is_an_exclusion(
    caption: str, name: str, bearer: str | None, words: str
) -> None:
    scene = parse_caption(caption)
    (found,) = scene.intent.exclusions
    assert (found.name, found.of, found.text) == (name, bearer, words)
    assert name not in {item.name for item in scene.objects}
    assert not scene.intent.unread


def test_no_denial_becomes_its_opposite() -> None:
    for case in denials():
        try:
            scene = parse_caption(case.text)
        except CaptionError:
            continue
        assert not case.inverted_by(scene), case.text


def test_what_denies_nothing_is_read() -> None:
    for caption in affirmations():
        assert parse_caption(caption), caption


def test_what_is_denied_of_the_picture_is_told() -> None:
    found = parse_caption("a dog on a sofa. The background is not clear.")
    assert [item.name for item in found.objects] == ["dog", "sofa"]
    assert [(p.text, p.reason) for p in found.intent.unread] == [
        ("The background is not clear", "a negation")
    ]


@pytest.mark.parametrize(
    "caption",
    [
        "un perro rojo en la mesa",
        "ein roter Hund sitzt auf dem Tisch",
        "un chien noir dort sur le canapé",
        "een rode hond op de tafel",
        "一只红色的狗",
        "красная собака на столе",
    ],
)
def test_another_language_is_refused(caption: str) -> None:
    (found,) = refused(caption)
    assert (found.text, found.reason) == (caption, "not English")


def test_a_sentence_of_another_language_is_told_beside_english_ones() -> None:
    assert unread("a dog. Ein Hund sitzt auf der Bank.") == ["Ein Hund sitzt auf der Bank"]
    assert unread("a sign in 日本語 on a wall") == ["日本語"]


@pytest.mark.parametrize(
    "caption",
    [
        "a view of Los Angeles",
        "a man in front of the Museo de la Cruz",
        "a café au lait on a table",
    ],
)
def test_names_and_loan_words_are_english_enough(caption: str) -> None:
    assert parse_caption(caption).objects


def test_words_that_left_no_trace_are_told() -> None:
    assert unread("a dog running furtively across the street") == ["furtively"]
    assert unread("a red dog and a table made of wood") == []
    assert unread("Two older women's dogs chase three of the smallest red balls.") == []


def test_places_survive_quotes_links_and_options() -> None:
    caption = "a sign 'no dogs' --ar 16:9, see https://example.org [x] a dog barks furtively"
    assert unread(caption)[-1] == "furtively"


def test_python_callers_are_warned() -> None:
    with pytest.warns(CaptionWarning, match=r"'furtively' \(characters 14 to 23: not understood\)"):
        warn_of(parse_caption("a dog glances furtively"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of(parse_caption("a red dog on a table"))


def test_a_message_quotes_a_few_passages() -> None:
    many = [Passage(start=at, end=at + 1, text="x", reason="not understood") for at in range(5)]
    assert listed(many).endswith(" and 2 more")


@settings(deadline=None, max_examples=150)
@given(st.text(max_size=200))
def test_every_passage_is_one_of_the_text(text: str) -> None:
    try:
        found = parse_caption(text).intent.unread
    except CaptionError as error:
        found = error.passages
    for passage in found:
        assert 0 <= passage.start < passage.end <= len(text)
        assert text[passage.start : passage.end] == passage.text


@pytest.mark.parametrize(
    ("caption", "words"),
    [
        ("two women tennis players on a court", ["tennis players"]),
        ("vikings war near a hill", ["war"]),
        ("dogs ears and mens shoes", []),
        ("a sports car beside a kids table", []),
    ],
)
def test_words_behind_a_plural_are_told_as_part_of_a_name(caption: str, words: list[str]) -> None:
    assert unread(caption) == words
    reasons = {passage.reason for passage in parse_caption(caption).intent.unread}
    assert reasons <= {"read as part of one name"}


@pytest.mark.parametrize("caption", ["A yeti gnarfs a bone", "Knights storgle the gate"])
def test_a_verb_of_no_list_leaves_its_trace(caption: str) -> None:
    assert unread(caption) == []
