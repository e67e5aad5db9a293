"""Graph edit distance against brute force and NetworkX, its bounds, and that it is a metric."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.metrics.graph_edit import EditCosts, EditError, EditLimits, edit_distance
from scenewright.evals.metrics.graph_edit.problem import EditProblem, Likeness, background_weights
from scenewright.evals.metrics.graph_edit.solvers import Improver, solve
from tests.evals.metrics.graph_edit.edits import (
    Graded,
    brute_force,
    by_networkx,
    graphs,
    random_graph,
    shuffled,
    weighted,
)

ODD = EditCosts(node=1.0, attribute=0.3, edge=0.7)


def one(*names: str, relations: tuple[Relation, ...] = ()) -> SceneGraph:
    return SceneGraph(
        objects=tuple(SceneObject(id=f"{n}.{at}", name=n) for at, n in enumerate(names)),
        relations=relations,
    )


@settings(max_examples=60)
@given(first=weighted(3), second=weighted(4), graded=st.booleans())
def test_it_is_the_cheapest_of_all_mappings(first: Any, second: Any, graded: bool) -> None:
    similarity = Graded() if graded else None
    alike = Graded.of if graded else (lambda a, b: float(a == b))
    wanted = brute_force(first[0], second[0], (first[1], second[1]), ODD, alike)
    for a, b in ((first, second), (second, first)):
        found = edit_distance(
            a[0],
            b[0],
            similarity=similarity,
            costs=ODD,
            reference_weights=a[1],
            seen_weights=b[1],
        )
        assert found.exact
        assert found.upper == pytest.approx(wanted, abs=1e-9)
        assert found.lower == found.upper


@settings(max_examples=40)
@given(first=weighted(4), second=weighted(4), graded=st.booleans())
def test_networkx_finds_the_same(first: Any, second: Any, graded: bool) -> None:
    alike = Graded.of if graded else (lambda a, b: float(a == b))
    # NetworkX takes its node costs as matrices and fails on two empty graphs.
    if not first[0].objects and not second[0].objects:
        return
    wanted = by_networkx(first[0], second[0], (first[1], second[1]), ODD, alike)
    found = edit_distance(
        first[0],
        second[0],
        similarity=Graded() if graded else None,
        costs=ODD,
        reference_weights=first[1],
        seen_weights=second[1],
    )
    assert found.upper == pytest.approx(wanted, abs=1e-5)


def test_networkx_agrees_on_five_objects() -> None:
    rng = random.Random(5)
    for _ in range(3):
        first, second = random_graph(rng, 5, 7), random_graph(rng, 5, 7)
        wanted = by_networkx(first, second, ({}, {}), EditCosts())
        assert edit_distance(first, second).upper == pytest.approx(wanted, abs=1e-5)


@settings(max_examples=40)
@given(first=weighted(5), second=weighted(5))
def test_the_program_proves_the_best_of_all_mappings(first: Any, second: Any) -> None:
    problem = EditProblem(
        first[0],
        second[0],
        likeness=Likeness(Graded()),
        reference_weights=first[1],
        seen_weights=second[1],
    )
    bound, start = Improver(problem).start()
    best = max(map(problem.saving, all_mappings(*problem.shape)))
    programmed = solve(problem, 20.0)
    assert programmed.mapping is not None
    assert problem.saving(programmed.mapping) == pytest.approx(best, abs=1e-6)
    assert programmed.bound == pytest.approx(best, abs=1e-6)
    assert problem.saving(start) <= best + 1e-9 <= bound + 2e-9


def all_mappings(rows: int, columns: int) -> Iterator[dict[int, int]]:
    """Yield every one-to-one mapping that leaves nothing of the shorter side out."""
    if rows > columns:
        yield from ({i: j for j, i in one.items()} for one in all_mappings(columns, rows))
        return
    for order in permutations(range(columns), rows):
        yield dict(enumerate(order))


@pytest.mark.parametrize("seed", range(6))
def test_without_time_there_are_bounds(seed: int) -> None:
    rng = random.Random(seed)
    first, second = random_graph(rng, 6, 9), random_graph(rng, 7, 10)
    exact = edit_distance(first, second)
    found = edit_distance(first, second, limits=EditLimits(seconds=0.0))
    assert exact.exact
    assert found.lower - 1e-9 <= exact.upper <= found.upper + 1e-9
    assert found.exact == (found.gap == 0.0)


def test_larger_graphs_with_few_edits_are_exact() -> None:
    rng = random.Random(8)
    first = random_graph(rng, 30, 45)
    second, names = shuffled(first, 1)
    cut = SceneGraph(objects=second.objects, relations=second.relations[2:])
    found = edit_distance(first, cut)
    assert found.exact
    assert found.upper == pytest.approx(2.0)
    assert sum(found.mapping.get(a) == b for a, b in names.items()) >= 25


@settings(max_examples=60)
@given(first=weighted(4), second=weighted(4), third=weighted(4))
def test_it_is_a_metric(first: Any, second: Any, third: Any) -> None:
    def between(a: Any, b: Any) -> float:
        return edit_distance(a[0], b[0], costs=ODD, reference_weights=a[1], seen_weights=b[1]).upper

    assert between(first, first) == pytest.approx(0.0, abs=1e-9)
    assert between(first, second) == pytest.approx(between(second, first), abs=1e-9)
    assert between(first, third) <= between(first, second) + between(second, third) + 1e-9


def test_the_triangle_inequality_needs_a_likeness_that_has_it() -> None:
    class Between:
        """``cat`` is near both others, which are far from each other."""

        id = "between@1"

        def similarities(self, pairs: Any) -> Any:
            return np.array([0.9 if "cat" in pair else 0.0 for pair in pairs])

    def between(a: str, b: str) -> float:
        return edit_distance(one(a), one(b), similarity=Between()).upper

    assert between("dog", "tree") > between("dog", "cat") + between("cat", "tree")


@given(scene=graphs(), seed=st.integers(0, 99))
def test_a_graph_is_at_no_distance_from_itself(scene: SceneGraph, seed: int) -> None:
    other, _ = shuffled(scene, seed)
    found = edit_distance(scene, other)
    assert (found.lower, found.upper, found.exact) == (0.0, 0.0, True)
    assert len(found.mapping) == len(scene.objects)


def test_case_spaces_and_the_order_of_listed_values_are_no_edits() -> None:
    first = SceneGraph(
        objects=(
            SceneObject(id="a", name="Sports  Ball", attributes={"Main Color": "black and White"}),
        )
    )
    second = SceneGraph(
        objects=(
            SceneObject(id="b", name="sports ball", attributes={"main_color": "white, black"}),
        )
    )
    assert edit_distance(first, second).upper == 0.0


def test_relations_have_a_direction() -> None:
    def pair(source: str, target: str) -> SceneGraph:
        return one(
            "dog", "cat", relations=(Relation(source=source, predicate="on", target=target),)
        )

    found = edit_distance(pair("dog.0", "cat.1"), pair("cat.1", "dog.0"))
    assert found.upper == pytest.approx(2.0)


def test_parallel_relations_are_paired_among_themselves() -> None:
    def pair(*words: str) -> SceneGraph:
        return one(
            "dog",
            "cat",
            relations=tuple(Relation(source="dog.0", predicate=w, target="cat.1") for w in words),
        )

    assert edit_distance(pair("on", "near"), pair("near", "on")).upper == 0.0
    assert edit_distance(pair("on", "near"), pair("near")).upper == 1.0
    assert edit_distance(pair("on", "near"), pair("near", "under")).upper == 2.0


def test_labels_too_unlike_are_never_paired() -> None:
    def named(name: str) -> SceneGraph:
        return SceneGraph(
            objects=(SceneObject(id="a", name=name, attributes=Attributes({"color": "red"})),)
        )

    free = edit_distance(named("dog"), named("cat"))
    bound = edit_distance(named("dog"), named("cat"), least_label=0.5)
    assert (free.upper, dict(free.mapping)) == (2.0, {"a": "a"})
    assert (bound.upper, dict(bound.mapping)) == (4.0, {})


def test_pairs_that_save_nothing_are_no_pairs() -> None:
    assert dict(edit_distance(one("dog"), one("cat")).mapping) == {}


def test_all_texts_are_compared_in_one_batch_each_pair_once() -> None:
    similarity = Graded()
    rng = random.Random(0)
    edit_distance(random_graph(rng, 6, 9), random_graph(rng, 6, 9), similarity=similarity)
    assert similarity.asked
    assert len(similarity.asked) == len(set(similarity.asked))


def test_what_is_hardly_alike_counts_as_not_alike() -> None:
    class Half:
        id = "half@1"

        def similarities(self, pairs: Any) -> Any:
            return np.full(len(pairs), 0.5)

    assert edit_distance(one("dog"), one("cat"), similarity=Half()).upper == 1.0
    assert edit_distance(one("dog"), one("cat"), similarity=Half(), least=0.6).upper == 2.0
    assert Likeness(Half(), 0.6).id == "half@1≥0.6"


def test_empty_graphs() -> None:
    nothing = SceneGraph()
    assert edit_distance(nothing, nothing).upper == 0.0
    assert edit_distance(nothing, one("dog", "cat")).upper == 2.0
    assert edit_distance(one("dog", "cat"), nothing).exact


def test_the_same_call_gives_the_same_mapping() -> None:
    rng = random.Random(4)
    first, second = random_graph(rng, 8, 12), random_graph(rng, 8, 12)
    assert edit_distance(first, second) == edit_distance(first, second)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: EditCosts(node=0.0), "the cost node is 0.0"),
        (lambda: EditCosts(edge=float("nan")), "the cost edge"),
        (lambda: EditLimits(seconds=float("inf")), "seconds is inf"),
        (lambda: background_weights({"a"}, 0.0), "weight of the background is 0.0"),
        (lambda: Likeness(None, 1.5), "least similarity is 1.5"),
        (lambda: edit_distance(one("dog"), one("dog"), seen_weights={"x": 1.0}), "'x', which is"),
        (
            lambda: edit_distance(one("dog"), one("dog"), seen_weights={"dog.0": 2.0}),
            "weight of 'dog.0' is 2.0",
        ),
    ],
)
def test_numbers_that_cannot_be_are_told(make: Any, said: str) -> None:
    with pytest.raises(EditError, match=said):
        make()


def test_a_likeness_outside_of_its_range_is_told() -> None:
    class Wild:
        id = "wild@1"

        def similarities(self, pairs: Any) -> Any:
            return np.full(len(pairs), 1.5)

    with pytest.raises(EditError, match="wild@1 must give one number from 0 to 1"):
        edit_distance(one("dog"), one("cat"), similarity=Wild())
