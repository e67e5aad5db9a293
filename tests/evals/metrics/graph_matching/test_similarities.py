"""Likeness of texts: what every similarity holds to, and what the lexical one knows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.vocabulary import canonical_key
from scenewright.evals.metrics.graph_matching.embeddings import SimilaritySettings, similarity_of
from scenewright.evals.metrics.graph_matching.text_similarity import (
    MOST,
    ExactSimilarity,
    LexicalSimilarity,
    MatchingError,
    TextSimilarity,
    attribute_texts,
    folded,
    values_of,
)
from tests.evals.metrics.graph_matching.graphs import PREDICATES, VALUES, alike
from tests.strategies import any_text

texts = st.one_of(
    any_text,
    st.text(max_size=12),
    st.lists(st.sampled_from((*VALUES, *PREDICATES, "man", "a", "the", "two")), max_size=4).map(
        " ".join
    ),
)


@given(texts, texts)
@settings(max_examples=200)
def test_lexical_likeness_is_symmetric_and_one_for_equal_texts_only(left: str, right: str) -> None:
    there, back, itself = LexicalSimilarity().similarities(
        [(left, right), (right, left), (left, f"  {left.upper().lower()} ")]
    )
    assert there == back
    assert 0 <= there <= 1
    assert (there == 1) == (folded(left) == folded(right))
    if there < 1:
        assert there <= MOST
    if folded(left) == folded(left.upper().lower()):
        assert itself == 1


@given(st.lists(st.tuples(texts, texts), max_size=8))
def test_a_pair_gets_the_same_whatever_it_is_asked_with(pairs: list[tuple[str, str]]) -> None:
    together = LexicalSimilarity()
    found = together.similarities(pairs)
    assert found.shape == (len(pairs),)
    alone = [LexicalSimilarity().similarities([pair])[0] for pair in pairs]
    assert np.array_equal(found, np.array(alone))
    assert np.array_equal(together.similarities(pairs), found)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("gray", "grey"),
        ("wood", "wooden"),
        ("running", "runs"),
        ("two dogs", "2 dog"),
        ("couch", "sofa"),
        ("the person to the left of a dog", "person left of dog"),
        ("cup next to table", "cup beside table"),
        ("shelf", "shelves"),
    ],
)
def test_the_same_in_other_words(left: str, right: str) -> None:
    assert alike(left, right) == pytest.approx(MOST)


@pytest.mark.parametrize(
    ("nearer", "farther"),
    [
        (("red", "dark red"), ("red", "dark blue")),
        (("man", "person"), ("man", "woman")),
        (("man", "woman"), ("man", "car")),
        (("smartphone", "phone"), ("smartphone", "table")),
        (("person left of dog", "person right of dog"), ("person left of dog", "car on road")),
    ],
)
def test_what_shares_more_is_liker(nearer: tuple[str, str], farther: tuple[str, str]) -> None:
    assert alike(*nearer) > alike(*farther)


def test_unlike_words_share_nothing() -> None:
    assert alike("red", "blue") == 0
    assert alike("...", "!") == 0
    assert alike("", "red") == 0


def test_exact_likeness_folds_case_and_spaces_only() -> None:
    found = ExactSimilarity().similarities([("Dark  RED", "dark red"), ("gray", "grey")])
    assert found.tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("White and black", ("black", "white")),
        ("red, blue;  Green", ("blue", "green", "red")),
        ("red & red", ("red",)),
        ("sandy", ("sandy",)),
        (" , ", (",",)),
    ],
)
def test_values_are_apart_folded_and_sorted(text: str, values: tuple[str, ...]) -> None:
    assert values_of(text) == values


@given(st.dictionaries(any_text, any_text, max_size=4))
def test_attributes_become_one_text_a_key(attributes: dict[str, str]) -> None:
    found = attribute_texts(attributes)
    assert set(found) == {canonical_key(key) for key in attributes}
    turned = attribute_texts({k.replace(" ", "_"): v for k, v in reversed(attributes.items())})
    assert turned == found


def test_keys_that_are_one_after_folding_hold_the_values_of_both() -> None:
    assert attribute_texts({"Color": "red", "color": "Blue"}) == {"color": "blue red"}


@pytest.mark.parametrize(("spec", "id_"), [("exact", "exact@1"), ("lexical", "lexical@2")])
def test_similarities_by_name(spec: str, id_: str) -> None:
    similarity = similarity_of(spec)
    assert isinstance(similarity, TextSimilarity)
    assert similarity.id == id_


@pytest.mark.parametrize("spec", ["", "cosine", "lexical:en", "exact:"])
def test_a_name_that_is_none_is_told(spec: str) -> None:
    if spec == "exact:":
        assert similarity_of(spec).id == "exact@1"
        return
    with pytest.raises(MatchingError, match="take auto, exact, lexical or sentence-transformers"):
        similarity_of(spec)


def test_auto_takes_words_where_no_sentence_model_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "scenewright.evals.metrics.graph_matching.embeddings.find_sentence_model",
        lambda name: None,
    )
    assert similarity_of("auto", SimilaritySettings(store=tmp_path / "v.sqlite")).id == "lexical@2"
