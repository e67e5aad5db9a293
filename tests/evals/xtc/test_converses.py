"""Relations said the other way round."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.evals.xtc.converses import CONVERSES, converse_of, with_converses
from scenewright.scene import Relation, SceneGraph, SceneObject

IDS = ("a", "b", "c")
PREDICATES = (*CONVERSES, "on", "holding", "to the left of")


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
        ("on", None),
        ("holding", None),
        ("under", None),
    ],
)
def test_only_what_follows_from_the_words(predicate: str, converse: str | None) -> None:
    assert converse_of(predicate) == converse


def test_a_converse_of_a_converse_is_the_word_itself() -> None:
    assert all(CONVERSES[CONVERSES[word]] == word for word in CONVERSES)


def test_what_is_said_both_ways_stays_as_it_is() -> None:
    told = scene(("a", "left of", "b"), ("b", "above", "a"))
    assert with_converses(told) is told


def test_parallel_edges_are_all_turned() -> None:
    told = with_converses(scene(("a", "left of", "b"), ("a", "near", "b"), ("b", "on", "c")))
    assert [str(r) for r in told.relations[3:]] == ["b right of a", "b near a"]


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
