"""Relations said the other way round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.studies.xtc.lookup import with_converses

IDS = ("a", "b", "c")
PREDICATES = (
    *("left of", "to the right of", "above", "below", "behind", "in front of", "near", "beside"),
    *("on", "holding", "talking to"),
)


def scene(*triples: tuple[str, str, str]) -> SceneGraph:
    return SceneGraph(
        objects=tuple(SceneObject(id=name, name=name) for name in IDS),
        relations=tuple(Relation(source=s, predicate=p, target=t) for s, p, t in triples),
    )


@pytest.mark.parametrize(
    ("predicate", "converse"),
    [
        ("left of", "right of"),
        ("Below", "above"),
        ("near", "near"),
        ("to the left of", "right of"),
        ("talking to", None),
    ],
)
def test_only_what_follows_from_the_words(predicate: str, converse: str | None) -> None:
    told = with_converses(scene(("a", predicate, "b")))
    assert [str(r) for r in told.relations[1:]] == ([f"b {converse} a"] if converse else [])


@pytest.mark.parametrize("back", ["right of", "to the right of", "standing on the right of"])
def test_what_is_said_both_ways_stays_as_it_is(back: str) -> None:
    told = scene(("a", "left of", "b"), ("b", back, "a"))
    assert with_converses(told).relations[:2] == told.relations
    assert with_converses(told) is told


def test_another_relation_of_the_pair_keeps_no_converse_away() -> None:
    told = with_converses(scene(("a", "left of", "b"), ("b", "talking to", "a")))
    assert [str(r) for r in told.relations[2:]] == ["b right of a"]


def test_parallel_edges_are_all_turned() -> None:
    told = with_converses(scene(("a", "left of", "b"), ("a", "near", "b"), ("b", "above", "c")))
    assert [str(r) for r in told.relations[3:]] == ["b right of a", "b near a", "c below b"]


@given(
    st.lists(
        st.tuples(st.sampled_from(IDS), st.sampled_from(PREDICATES), st.sampled_from(IDS)).filter(
            lambda triple: triple[0] != triple[2]
        ),
        max_size=6,
        unique=True,
    )
)
def test_nothing_is_lost_and_twice_is_once(triples: list[tuple[str, str, str]]) -> None:
    told = scene(*triples)
    more = with_converses(told)
    assert more.relations[: len(told.relations)] == told.relations
    assert with_converses(more) == more
    directions = {(r.source, r.target) for r in told.relations}
    assert all((r.target, r.source) in directions for r in more.relations[len(triples) :])
