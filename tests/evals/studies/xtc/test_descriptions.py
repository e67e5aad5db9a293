"""Overlap of values, and the search for the fewest that do."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.formats import load_scene
from scenewright.evals.studies.xtc.questions import Namer, Unclear, fewest, overlap, tells


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("red", "Red", True),
        ("red", "dark red", True),
        ("red", "bored", True),
        ("dark red", "dark blue", True),
        ("red", "blue", False),
        ("12", "2", True),
        ("!", "?", False),
        ("赤い", "赤", True),
    ],
)
def test_values_overlap_by_words_and_as_text(one: str, other: str, alike: bool) -> None:
    assert overlap(one, other) is alike
    assert overlap(other, one) is alike


def test_a_text_tells_an_answer_if_it_has_all_of_its_words() -> None:
    assert tells("orange juice", "Orange")
    assert tells("man in a suit", "in the suit")
    assert not tells("wine glass", "clear glass")
    assert not tells("person", "on")


@given(st.lists(st.integers(0, 31), max_size=7), st.integers(0, 31), st.integers(0, 2))
def test_the_search_finds_the_first_of_the_smallest(
    out: list[int], everyone: int, least: int
) -> None:
    masks = [mask & everyone for mask in out]
    wanted = None
    for size in range(least, 6):
        fits = [
            subset
            for subset in itertools.combinations(range(len(masks)), size)
            if sum(1 << bit for bit in range(5) if any(masks[i] >> bit & 1 for i in subset))
            == everyone
        ]
        if fits and wanted is None:
            wanted = fits[0]
    assert fewest(masks, everyone, least, 5) == wanted


def test_the_reason_names_who_is_not_told_apart() -> None:
    scene = load_scene(
        "dog.1 [color=red]; dog.2 [color=blue]; dog.3 [color=red]; cat.1", format="triplets"
    )
    namer = Namer(scene)
    assert namer.named(scene.object("dog.2"), ()) == ("color",)
    assert namer.named(scene.object("cat.1"), ()) == ()
    assert namer.named(scene.object("dog.1"), ()) == Unclear(("dog.3",))
    assert namer.named(scene.object("dog.2"), (), "color") == Unclear(("dog.1", "dog.3"))
    assert namer.named(scene.object("dog.2"), ("dark blue",)) == Unclear(("dog.1", "dog.3"))
    assert namer.retrieved(scene.object("cat.1")) == Unclear(())
