"""Matching of scene graphs: the paper's definition, checked against a plain one, and its edges."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from benchmarks.matching import Alike, of_objects, plain_match
from scenewright.core.scene import SceneGraph
from scenewright.evals.metrics.graph_matching.matching import EdgeReading, match_graphs, match_many
from scenewright.evals.metrics.graph_matching.text_similarity import (
    ExactSimilarity,
    GraphMatch,
    MatchingError,
    folded,
)
from tests.evals.metrics.graph_matching.graphs import (
    LEXICAL,
    alike,
    alike_scenes,
    graph,
    shuffled,
    thing,
)
from tests.strategies import scenes

EXACT = ExactSimilarity()


def total(match: GraphMatch) -> float:
    return sum(node.similarity for node in match.nodes)


def best_by_trying(a: SceneGraph, b: SceneGraph, alike: Alike, published: bool = True) -> float:
    """Return the largest total of likeness over all ways to match equal labels; tries every one."""
    total = 0.0
    for label in {folded(item.name) for item in a.objects}:
        ours = [item for item in a.objects if folded(item.name) == label]
        theirs = [item for item in b.objects if folded(item.name) == label]
        table = [[of_objects(a, u, b, v, alike, published) for v in theirs] for u in ours]
        if len(ours) > len(theirs):
            table = [list(column) for column in zip(*table, strict=True)]
        total += max(_totals(table), default=0.0)
    return total


def _totals(table: list[list[float]]) -> Iterable[float]:
    columns = len(table[0]) if table else 0
    for order in permutations(range(columns), len(table)):
        yield sum(row[column] for row, column in zip(table, order, strict=True))


@given(alike_scenes(), alike_scenes(prefix="s"), st.booleans())
@settings(max_examples=80)
def test_it_is_the_definition(a: SceneGraph, b: SceneGraph, published: bool) -> None:
    match = match_graphs(a, b, LEXICAL, edges="published" if published else "directed")
    assert total(match) == pytest.approx(best_by_trying(a, b, alike, published), abs=1e-9)
    plain = plain_match(a, b, alike, published)
    assert total(match) == pytest.approx(sum(value for *_, value in plain), abs=1e-9)
    assert len(match.nodes) == len(plain)
    for node in match.nodes:
        u, v = a.object(node.reference), b.object(node.seen)
        expected = of_objects(a, u, b, v, alike, published)
        assert node.similarity == pytest.approx(expected, abs=1e-9)


@given(st.data(), alike_scenes(), alike_scenes(prefix="s"))
@settings(max_examples=60)
def test_order_and_ids_change_nothing_of_the_total(
    data: st.DataObject, a: SceneGraph, b: SceneGraph
) -> None:
    one = match_graphs(a, b, LEXICAL)
    other = match_graphs(
        data.draw(shuffled(a, prefix="p")), data.draw(shuffled(b, prefix="q")), LEXICAL
    )
    assert total(other) == pytest.approx(total(one), abs=1e-9)
    assert len(other.missing) == len(one.missing)
    assert len(other.extra) == len(one.extra)


@given(scenes())
@settings(max_examples=40)
def test_a_scene_is_matched_fully_with_itself_under_other_ids(scene: SceneGraph) -> None:
    turned = SceneGraph(
        objects=tuple(
            item.model_copy(update={"id": f"s{at}"}) for at, item in enumerate(scene.objects)
        )[::-1],
        relations=tuple(
            relation.model_copy(
                update={
                    end: f"s{[item.id for item in scene.objects].index(getattr(relation, end))}"
                    for end in ("source", "target")
                }
            )
            for relation in scene.relations
        ),
    )
    match = match_graphs(scene, turned, EXACT)
    assert [node.similarity for node in match.nodes] == pytest.approx([1.0] * len(scene.objects))
    assert not match.missing
    assert not match.extra
    distinct = {(folded(item.name), item.attributes) for item in scene.objects}
    if len(distinct) == len(scene.objects):
        assert all(len(edge.seen) == len(edge.reference) for edge in match.edges)
        assert not match.extra_edges


@given(scenes(), scenes())
@settings(max_examples=40)
def test_every_object_and_relation_is_told_once(a: SceneGraph, b: SceneGraph) -> None:
    for match in (match_graphs(a, b, LEXICAL), match_graphs(a, b, LEXICAL, edges="directed")):
        assert len(set(match.mapping.values())) == len(match.mapping) == len(match.nodes)
        assert sorted([*match.mapping, *match.missing]) == sorted(item.id for item in a.objects)
        assert sorted([*match.mapping.values(), *match.extra]) == sorted(
            item.id for item in b.objects
        )
        assert sorted(r for edge in match.edges for r in map(str, edge.reference)) == sorted(
            map(str, a.relations)
        )
        assert sorted(
            map(str, [r for edge in match.edges for r in edge.seen] + [*match.extra_edges])
        ) == sorted(map(str, b.relations))
        assert all(0 <= node.similarity <= 1 for node in match.nodes)
        assert [n.reference for n in match.nodes] == [
            item.id for item in a.objects if item.id in match.mapping
        ]


@given(st.lists(st.tuples(alike_scenes(), alike_scenes(prefix="s")), max_size=5))
@settings(max_examples=25)
def test_many_are_matched_as_each_alone(pairs: list[tuple[SceneGraph, SceneGraph]]) -> None:
    assert match_many(pairs, LEXICAL) == [match_graphs(a, b, LEXICAL) for a, b in pairs]


def test_attributes_decide_and_a_key_on_one_side_counts_nothing() -> None:
    a = graph(thing("a", color="red", size="big"), thing("b", color="blue"))
    b = graph(thing("x", color="blue"), thing("y", color="red"))
    match = match_graphs(a, b, EXACT)
    assert match.mapping == {"a": "y", "b": "x"}
    assert [node.similarity for node in match.nodes] == [0.5, 1.0]


def test_values_are_sorted_and_keys_folded() -> None:
    a = graph(thing("a", primary_color="White and black"))
    b = graph(thing("x", **{"Primary Color": "black, white"}))
    assert match_graphs(a, b, EXACT).nodes[0].similarity == 1.0


def test_edges_tell_equal_objects_apart() -> None:
    a = graph(thing("a"), thing("b"), thing("c", "ball"), edges="a holding c")
    b = graph(thing("x"), thing("y"), thing("z", "ball"), edges="y holding z")
    match = match_graphs(a, b, EXACT)
    assert match.mapping == {"a": "y", "b": "x", "c": "z"}
    assert not match.extra_edges


def test_neighbours_attributes_tell_edges_apart() -> None:
    a = graph(
        thing("a"), thing("b"), thing("c", "ball", color="red"), thing("d", "ball", color="blue"),
        edges="a holding c; b holding d",
    )  # fmt: skip
    b = graph(
        thing("x"), thing("y"), thing("z", "ball", color="blue"), thing("w", "ball", color="red"),
        edges="x holding z; y holding w",
    )  # fmt: skip
    assert match_graphs(a, b, EXACT).mapping == {"a": "y", "b": "x", "c": "w", "d": "z"}


def test_equation_three_by_hand() -> None:
    a = graph(thing("a"), thing("c", "ball", color="red"), edges="a holding c")
    b = graph(thing("x"), thing("z", "ball", color="blue"), edges="x near z; x holding z")
    first, second = match_graphs(a, b, EXACT).nodes
    # Text 1, ends (1 + 0) / 2: 0.4 + 0.6 · 0.5; one edge is matched, and it is the mean of one.
    assert first.similarity == pytest.approx(0.7 + 0.3 * 0.7)
    assert second.similarity == pytest.approx(0.3 * 0.7)
    # Ours divides by the larger number of edges, 2.
    first, second = match_graphs(a, b, EXACT, edges="directed").nodes
    assert first.similarity == pytest.approx(0.7 + 0.3 * 0.7 / 2)
    assert second.similarity == pytest.approx(0.3 * 0.7 / 2)


@pytest.mark.parametrize("edges", ["published", "directed"])
def test_who_chases_whom_is_told_apart_by_direction_only(edges: EdgeReading) -> None:
    a = graph(thing("a"), thing("b"), edges="a chasing b")
    b = graph(thing("x"), thing("y"), edges="y chasing x")
    match = match_graphs(a, b, EXACT, edges=edges)
    assert match.mapping == {"a": "y", "b": "x"}
    assert [n.similarity for n in match.nodes] == [1.0, 1.0]


def test_an_edge_on_one_side_only_costs_its_whole_share() -> None:
    a = graph(thing("a"), thing("c", "ball"), edges="a holding c")
    b = graph(thing("x"), thing("z", "ball"))
    assert [n.similarity for n in match_graphs(a, b, EXACT).nodes] == [0.7, 0.7]


def test_of_equal_ways_the_one_that_keeps_the_edges() -> None:
    # All four dogs cost the same within each end of a pair; only the edges say which goes with
    # which.
    a = graph(*(thing(i) for i in "abcd"), edges="a chasing b; c chasing d")
    b = graph(*(thing(i) for i in "wxyz"), edges="w chasing z; x chasing y")
    match = match_graphs(a, b, EXACT)
    assert all(edge.seen for edge in match.edges)
    assert not match.extra_edges


def test_a_spare_twin_is_left_over_where_it_keeps_no_edge() -> None:
    # Both balls are worth the same to the ball; the dogs say which one.
    a = graph(thing("a", color="red"), thing("c", "ball"), edges="a near c")
    b = graph(
        thing("x", color="blue"), thing("y", color="red"), thing("p", "ball"), thing("q", "ball"),
        edges="x near p; y near q",
    )  # fmt: skip
    assert match_graphs(a, b, EXACT).mapping == {"a": "y", "c": "q"}


def test_without_edges_twins_keep_their_order() -> None:
    many = 6
    a = graph(*(thing(f"a{i}") for i in range(many)))
    b = graph(*(thing(f"b{i}") for i in range(many + 2)))
    match = match_graphs(a, b, EXACT)
    assert match.mapping == {f"a{i}": f"b{i}" for i in range(many)}
    assert match.extra == ("b6", "b7")


def test_parallel_edges_are_one_and_an_edge_the_other_way_round_is_none() -> None:
    a = graph(thing("a"), thing("c", "ball"), edges="a on c; a near c; c under a")
    b = graph(thing("x"), thing("z", "ball"), edges="x above z")
    match = match_graphs(a, b, EXACT)
    assert [(len(e.reference), [r.predicate for r in e.seen]) for e in match.edges] == [
        (2, ["above"]),
        (1, []),
    ]
    back = match_graphs(b, a, EXACT)
    assert [str(r) for r in back.extra_edges] == ["c under a"]


def test_an_edge_of_a_missing_object_is_missing() -> None:
    a = graph(thing("a"), thing("c", "ball"), edges="a on c")
    match = match_graphs(a, graph(thing("x")), EXACT)
    assert match.missing == ("c",)
    assert [edge.seen for edge in match.edges] == [()]


def test_graphs_without_objects() -> None:
    empty, one = graph(), graph(thing("a"))
    for left, right in ((empty, empty), (one, empty), (empty, one)):
        match = match_graphs(left, right, EXACT)
        assert match.nodes == ()
        assert match.missing == tuple(item.id for item in left.objects)
        assert match.extra == tuple(item.id for item in right.objects)
    assert match_many([], EXACT) == []


def test_the_result_names_what_compared_the_words() -> None:
    assert match_graphs(graph(), graph(), LEXICAL).similarity == "lexical@2"


class Asked:
    """Remembers what it was asked, and gives what it was made with."""

    id = "asked@1"

    def __init__(self, answer: Any = None) -> None:
        self.calls: list[list[tuple[str, str]]] = []
        self._answer = answer

    def similarities(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
        self.calls.append(list(pairs))
        if self._answer is not None:
            return np.asarray(self._answer)
        return EXACT.similarities(pairs)


def test_all_texts_are_compared_in_one_call_and_each_pair_once() -> None:
    a = graph(thing("a", color="red"), thing("b", color="red"), thing("c", "cat"), edges="a on b")
    b = graph(thing("x", color="blue"), thing("y", color="blue"), edges="x on y; y near x")
    asked = Asked()
    match_many([(a, b), (b, a)] * 20, asked)
    assert len(asked.calls) == 1
    assert len(asked.calls[0]) == len({frozenset(pair) for pair in asked.calls[0]})


@pytest.mark.parametrize("answer", [[0.5, 0.5, 0.5], [1.5], [float("nan")], 0.5])
def test_a_similarity_that_gives_no_likeness_is_refused(answer: Any) -> None:
    a, b = graph(thing("a", color="red")), graph(thing("x", color="blue"))
    with pytest.raises(MatchingError, match=r"asked@1 .* \[0, 1\]"):
        match_graphs(a, b, Asked(answer))


def test_a_crowd_of_equals_is_matched_in_time() -> None:
    crowd = [thing(f"p{i}", "person") for i in range(120)]
    edges = "; ".join(f"p{i} near p{(i * 7 + 1) % 120}" for i in range(119))
    match = match_graphs(graph(*crowd, edges=edges), graph(*crowd[::-1], edges=edges), EXACT)
    assert len(match.nodes) == 120
    assert min(node.similarity for node in match.nodes) == 1.0
