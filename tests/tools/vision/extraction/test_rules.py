"""Thresholds, exclusive predicates and the joining of scores."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.ports.vision import Candidate, ExtractionError, PairScores
from scenewright.core.scene import Relation
from scenewright.tools.vision.extraction.building import (
    Thresholds,
    above_thresholds,
    merge_scores,
    without_rivals,
)

IDS = st.sampled_from(["a.1", "a.2", "b.1", "c.1"])
CHANCE = st.floats(0.0, 1.0)
PREDICATE = st.sampled_from(["on", "eating", "driving", "left of", "holding"])
SCORES = st.lists(
    st.builds(PairScores, IDS, IDS, CHANCE, st.dictionaries(PREDICATE, CHANCE, max_size=4)),
    max_size=12,
    unique_by=lambda pair: (pair.source, pair.target),
)
CANDIDATES = st.lists(
    st.builds(
        lambda s, p, t, score: Candidate(Relation(source=s, predicate=p, target=t), score),
        *(IDS, PREDICATE, IDS, CHANCE),
    ),
    max_size=12,
    unique_by=lambda one: one.relation,
)


@given(SCORES, CHANCE, CHANCE)
def test_a_relation_passes_exactly_if_its_pair_and_its_predicate_do(
    scores: list[PairScores], none: float, predicate: float
) -> None:
    kept, dropped = above_thresholds(scores, Thresholds(none, predicate))
    expected = {
        (pair.source, word, pair.target): score
        for pair in scores
        if pair.none < none and pair.source != pair.target
        for word, score in pair.predicates.items()
        if score >= predicate
    }
    assert {
        (c.relation.source, c.relation.predicate, c.relation.target): c.score for c in kept
    } == expected
    pairs = sum(pair.source == pair.target or pair.none >= none for pair in scores)
    words = sum(
        len(pair.predicates) for pair in scores if pair.none < none and pair.source != pair.target
    )
    assert len(dropped) == pairs + words - len(kept)


@given(SCORES, CHANCE, CHANCE, CHANCE)
def test_higher_thresholds_never_let_more_through(
    scores: list[PairScores], none: float, low: float, high: float
) -> None:
    low, high = sorted((low, high))
    more = {c.relation for c in above_thresholds(scores, Thresholds(none, low))[0]}
    assert {c.relation for c in above_thresholds(scores, Thresholds(none, high))[0]} <= more


def test_the_defaults_and_what_is_told() -> None:
    edge = PairScores("dog.1", "ball.1", 0.499, {"on": 0.4, "near": 0.399})
    kept, dropped = above_thresholds(
        [edge, PairScores("dog.1", "cat.1", 0.5, {"on": 1.0})], Thresholds()
    )
    assert [str(one.relation) for one in kept] == ["dog.1 on ball.1"]
    assert [(one.what, one.reason) for one in dropped] == [
        ("dog.1 near ball.1", "score 0.40 < 0.4"),
        ("dog.1 and cat.1", "no relation 0.50 ≥ 0.5"),
    ]


def test_parallel_edges_stay() -> None:
    pair = PairScores("a.1", "b.1", 0.1, {"on": 0.9, "riding": 0.6})
    assert [c.relation.predicate for c in above_thresholds([pair], Thresholds())[0]] == [
        "on",
        "riding",
    ]


def test_what_cannot_be_is_told() -> None:
    with pytest.raises(ExtractionError, match=r"none is 1\.5"):
        Thresholds(none=1.5)
    with pytest.raises(ExtractionError, match=r"a\.1 and b\.1"):
        above_thresholds([PairScores("a.1", "b.1", 0.1, {"on": float("nan")})], Thresholds())
    _, dropped = above_thresholds([PairScores("a.1", "b.1", 0.1, {" ": 0.9})], Thresholds())
    assert "empty" in dropped[0].reason


@given(CANDIDATES)
def test_one_subject_at_most_has_an_exclusive_predicate(candidates: list[Candidate]) -> None:
    kept, dropped = without_rivals(candidates, frozenset({"eating", "driving"}))
    assert len(kept) + len(dropped) == len(candidates)
    assert kept == [one for one in candidates if one in kept]
    for predicate in ("eating", "driving"):
        for target in {one.relation.target for one in candidates}:
            rivals = [
                one
                for one in candidates
                if (one.relation.predicate, one.relation.target) == (predicate, target)
            ]
            left = [one for one in rivals if one in kept]
            assert len(left) == min(1, len(rivals))
            assert all(left[0].score >= one.score for one in rivals)
    others = [c for c in candidates if c.relation.predicate not in ("eating", "driving")]
    assert [c for c in kept if c in others] == others


def test_the_likelier_eater_stays_and_the_other_is_told() -> None:
    def eating(who: str, score: float) -> Candidate:
        relation = Relation(source=who, predicate="Eating", target="pizza.1")
        return Candidate(relation, score)

    kept, dropped = without_rivals([eating("person.1", 0.6), eating("person.2", 0.8)])
    assert [one.relation.source for one in kept] == ["person.2"]
    assert dropped[0].what == "person.1 Eating pizza.1"
    assert "person.2 does so likelier: 0.80 ≥ 0.60" in dropped[0].reason


@given(SCORES)
def test_joined_scores_are_the_best_of_the_instances(scores: list[PairScores]) -> None:
    owner = {"a.1": "a.1", "a.2": "a.1", "b.1": "b.1", "c.1": "c.1"}
    found = {(pair.source, pair.target): pair for pair in merge_scores(scores, owner)}
    assert all(source != target for source, target in found)
    for (source, target), pair in found.items():
        parts = [p for p in scores if (owner[p.source], owner[p.target]) == (source, target)]
        assert pair.none == min(part.none for part in parts)
        words = {word for part in parts for word in part.predicates}
        assert pair.predicates == {
            word: max(part.predicates.get(word, 0.0) for part in parts) for word in words
        }


def test_scores_of_something_unknown_are_told() -> None:
    with pytest.raises(ExtractionError, match=r"'dog.7', which was not detected.*a.1"):
        merge_scores([PairScores("dog.7", "a.1", 0.0, {})], {"a.1": "a.1"})
