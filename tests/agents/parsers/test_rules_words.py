"""The lexicon and the tags: what a word is by itself and beside others."""

from __future__ import annotations

import pytest

from scenewright.agents.parsers.naming import attributes_of
from scenewright.agents.parsers.settling import tag
from scenewright.agents.parsers.splitting import sentences, without_frames
from scenewright.agents.parsers.tagging import (
    ADJECTIVES,
    IGNORED,
    PREPOSITIONS,
    key_of,
    rough,
)
from scenewright.agents.parsers.wishes import without_style
from scenewright.core.inflection import VERBS, WEAK_VERBS, ing_form, verb_base


def tags(text: str) -> dict[str, str]:
    return {
        token.text: token.tag
        for words, said in sentences(text)
        for token in tag(without_frames(words), said)
    }


def test_there_are_a_few_hundred_predicates() -> None:
    assert len(VERBS) + len(PREPOSITIONS) > 400


def test_every_verb_is_known_by_its_ing_form() -> None:
    # Two verbs may share a form, so it is the form that must come back.
    found = {verb: verb_base(ing_form(verb)) for verb in VERBS}
    assert {verb for verb, base in found.items() if base is None} == set()
    assert {verb for verb, base in found.items() if ing_form(base or "") != ing_form(verb)} == set()


@pytest.mark.parametrize(
    ("word", "base"),
    [("sits", "sit"), ("carried", "carry"), ("flies", "fly"), ("stopped", "stop"), ("lamp", None)],
)
def test_forms_have_their_base(word: str, base: str | None) -> None:
    assert verb_base(word) == base


@pytest.mark.parametrize(
    ("word", "kind"),
    [("building", "noun"), ("bed", "noun"), ("wearing", "ing"), ("parked", "participle"),
     ("colorful", "adjective"), ("table", "noun"), ("quickly", "adverb"), ("butterfly", "noun"),
     ("plays", "weak"),     ("zebra", "noun"), ("12", "number")],
)  # fmt: skip
def test_words_by_themselves(word: str, kind: str) -> None:
    assert rough(word) == kind


@pytest.mark.parametrize(
    ("text", "word", "expected"),
    [
        ("a man plays tennis", "plays", "verb"),
        ("two school plays", "plays", "noun"),
        ("a running dog", "running", "adjective"),
        ("a dog running", "running", "ing"),
        ("the left arm", "left", "adjective"),
        ("cars parked on a street", "parked", "participle"),
        ("parked cars", "parked", "adjective"),
        ("an orange", "orange", "noun"),
        ("an orange car", "orange", "adjective"),
        ("a chair next to a bed", "next to", "preposition"),
        ("a chair on the left", "on the left", "place"),
        ("the dining table", "dining table", "noun"),
        ("a whale swimming in the sea", "swimming", "ing"),
        ("a sign that says 'go home'", "go home", "quote"),
    ],
)
def test_words_are_settled_by_their_neighbours(text: str, word: str, expected: str) -> None:
    assert tags(text)[word] == expected


def test_sentences_end_at_points_but_not_after_titles() -> None:
    found = [words for words, _ in sentences("Dr. Evil sits. A cat; a dog - 3.5 m long")]
    assert found == [
        ["Dr.", "Evil", "sits"],
        ["A", "cat"],
        ["a", "dog"],
        ["3.5", "m", "long"],
    ]


def test_adjectives_keep_shades_and_lists_together() -> None:
    words = ["dark", "green", "and", "white", "tall", "wooden"]
    assert attributes_of(words) == [
        ("color", "dark green and white"),
        ("size", "tall"),
        ("material", "wooden"),
    ]


def test_style_is_taken_out_by_fragment() -> None:
    words = ["a", "photo", "of", "a", "dog", ",", "8k", ",", "a", "cat", ",", "concept", "art"]
    assert without_style(words) == ["a", "dog", ";", "a", "cat"]


def test_the_lists_agree() -> None:
    verbs = {word for word in WEAK_VERBS if verb_base(word) is None}
    assert not verbs
    assert key_of("wooden") == "material"
    assert not IGNORED & {"dog", "table"}
    assert set(ADJECTIVES.values()) == {
        *("color", "size", "material", "shape", "texture", "age", "gender", "state"),
    }
