"""Plurals of class labels and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.inflection import plural, singular


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ("dog", "dogs"),
        ("bus", "buses"),
        ("box", "boxes"),
        ("bench", "benches"),
        ("brush", "brushes"),
        ("wine glass", "wine glasses"),
        ("house", "houses"),
        ("vase", "vases"),
        ("baby", "babies"),
        ("toy", "toys"),
        ("cookie", "cookies"),
        ("axe", "axes"),
        ("lens", "lenses"),
        ("knife", "knives"),
        ("leaf", "leaves"),
        ("child", "children"),
        ("person", "persons"),
        ("woman", "women"),
        ("sheep", "sheep"),
        ("potato", "potatoes"),
        ("photo", "photos"),
        ("TV", "TVs"),
        ("Child", "Children"),
        ("glass of water", "glasses of water"),
        ("sports ball", "sports balls"),
    ],
)
def test_one_and_many(one: str, many: str) -> None:
    assert plural(one) == many
    assert singular(many) == one
    assert plural(many) == many
    assert singular(one) == one


@pytest.mark.parametrize(
    "label", ["jeans", "people", "clouds", "trees", "scissors", "3", "犬", "!?"]
)
def test_labels_without_another_plural(label: str) -> None:
    assert plural(label) == label


@given(word=st.text(st.characters(exclude_categories=["Z", "C"]), max_size=12))
def test_only_the_last_word_counts(word: str) -> None:
    assert plural(f"red {word}") == f"red {plural(word)}"
    assert singular(f"red {word}") == f"red {singular(word)}"
    assert plural(f"{word} of ice") == f"{plural(word)} of ice"
