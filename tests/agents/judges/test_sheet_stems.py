"""Words that questions share."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.judges.sheet import Stem, filled, stems_of

WORDS = st.lists(st.sampled_from(["a", "b", "and", "the", "*", "?", "é", "-", " "]), max_size=7)


def test_a_stem_has_a_blank_wherever_its_questions_differ() -> None:
    asked = ["Is the dog on the bed here?", "Is there a cat?", "Is the big cat on the box here?"]
    assert stems_of(asked, [0, 0, 0]) == [
        Stem("Is the * on the * here?", ((0, ("dog", "bed")), (2, ("big cat", "box")))),
        Stem("Is there a cat?", ((1, ()),)),
    ]


def test_what_stands_between_must_do_so_once_in_each() -> None:
    asked = ["Is the salt and pepper and a cat near?", "Is the dog and the cat and mouse near?"]
    (stem,) = stems_of(asked, [0, 0])
    assert stem.text == "Is the * near?"


def test_keys_keep_questions_apart() -> None:
    asked = ["Is there a cat?", "Is there a dog?", "Is there a car?"]
    assert [len(stem.rows) for stem in stems_of(asked, [1, 2, 1])] == [2, 1]
    assert [stem.is_shared for stem in stems_of(asked, [1, 2, 3])] == [False] * 3


@pytest.mark.parametrize("asked", [["a", "b"], ["Is it *, a cat?", "Is it *, a dog?"], ["", ""]])
def test_no_stem_where_it_would_save_nothing_or_hold_a_blank(asked: list[str]) -> None:
    assert not any(stem.is_shared for stem in stems_of(asked, [0, 0]))


@given(st.lists(WORDS, min_size=1, max_size=6), st.booleans())
def test_filling_the_blanks_gives_back_the_questions(rows: list[list[str]], framed: bool) -> None:
    asked = [" ".join(row) for row in rows]
    if framed:
        asked = [f"Is there {text} to be seen?" for text in asked]
    found = stems_of(asked, [0] * len(asked))
    said = {at: filled(stem.text, words) for stem in found if stem.is_shared
            for at, words in stem.rows}  # fmt: skip
    said |= {stem.rows[0][0]: stem.text for stem in found if not stem.is_shared}
    assert [said[at] for at in range(len(asked))] == asked


def test_words_must_fit_the_blanks() -> None:
    with pytest.raises(ValueError, match="2 words for the 1 blanks"):
        filled("Is there a *?", ["dog", "cat"])
