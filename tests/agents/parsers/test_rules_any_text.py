"""Whatever the text, the rules parser gives a valid scene or its one clear error."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.agents.parsers.rules import MAX_CHARACTERS, CaptionError, parse_caption, read_text
from scenewright.agents.parsers.tagging import PREPOSITIONS
from scenewright.core.formats import FormatError, dump_scene, load_scene
from scenewright.core.intent import Doubt, Passage
from scenewright.core.scene import MAX_OBJECTS, SceneGraph
from tests.isomorphism import isomorphic

_PLAIN = """a the two another his it they who there is are has and with of on holding
red wooden standing striped dog man's dogs table left in-the 12 1,000 photo by"""
_WORDS = st.sampled_from(
    [
        *_PLAIN.split(),
        *[",", ".", "'", '"', "’s", "--ar", "not", "like", "to", "very", "both", "each", "“x”"],
        *sorted(" ".join(phrase) for phrase in PREPOSITIONS)[::7],
    ]
)


def scene_or_none(text: str) -> SceneGraph | None:
    try:
        return parse_caption(text)
    except CaptionError:
        return None


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=300))
def test_any_text_parses_or_is_refused(text: str) -> None:
    scene = scene_or_none(text)
    assert scene is None or scene.objects


@settings(deadline=None, max_examples=300)
@given(st.lists(_WORDS, max_size=40).map(" ".join))
def test_any_words_parse_and_the_scene_can_be_kept(text: str) -> None:
    scene = scene_or_none(text)
    if scene is not None:
        assert isomorphic(load_scene(dump_scene(scene, "json")), scene)
        assert parse_caption(text) == scene


_SPACE = st.text(" \n\t\u3000", max_size=3)


@settings(deadline=None, max_examples=200)
@given(_SPACE, st.lists(_WORDS, max_size=30).map(" ".join), _SPACE)
def test_passages_and_doubts_count_in_the_sentence_that_is_kept(
    before: str, text: str, after: str
) -> None:
    for read in (parse_caption, read_text):
        try:
            said = read(f"{before}{text} not red{after}").intent
        except (CaptionError, FormatError):
            continue
        assert said.sentence == f"{before}{text} not red{after}"
        places: list[Passage | Doubt] = [*said.unread, *said.doubts]
        for place in places:
            assert said.sentence[place.start : place.end] == place.text


@settings(deadline=None, max_examples=100)
@given(st.lists(_WORDS, max_size=20).map(" ".join))
def test_every_label_stands_in_the_caption(text: str) -> None:
    scene = scene_or_none(text)
    said = text.casefold()
    for item in scene.objects if scene else ():
        if "text" in item.attributes:
            continue
        for word in re.findall(r"\w+", item.name.casefold()):
            assert word[:3] in said


@pytest.mark.parametrize(
    "piece",
    ["dog ", "a's ", "pair of ", "dog and ", "dog, ", "very ", "a dog on a cat and ", "' ",
     "of of ", "--a ", "red and ", "12 ", "it ", "there is ", "a b c d e in front of ", "é\u0301"],
)  # fmt: skip
def test_repetition_to_the_limit_is_no_trouble(piece: str) -> None:
    scene = scene_or_none(piece * (MAX_CHARACTERS // len(piece)))
    assert scene is None or len(scene.objects) <= MAX_OBJECTS
