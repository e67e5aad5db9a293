"""Graded damage: each edit changes one element of its layer, and nothing else."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.evals.studies.psg.graph_damage import (
    DAMAGES,
    MOST_EDITS,
    Damage,
    Layered,
    damaged,
    reference_graph,
)

Parts = Counter[tuple[str, ...]]


def elements(graph: Layered) -> dict[str, Parts]:
    return {
        "node": Counter((o.id, o.name) for o in graph.scene.objects),
        "attribute": Counter(
            (o.id, key, value) for o in graph.scene.objects for key, value in o.attributes.items()
        ),
        "edge": Counter((r.source, r.predicate, r.target) for r in graph.scene.relations),
    }


def owners(part: tuple[str, ...], element: str) -> set[str]:
    return {part[0], part[2]} if element == "edge" else {part[0]}


@given(st.integers(0, 10_000))
@settings(max_examples=25, deadline=None)
def test_reference_graphs_have_two_layers_alike(seed: int) -> None:
    graph = reference_graph(seed)
    assert graph == reference_graph(seed)
    assert len(graph.scene.objects) == 16
    assert len(graph.scene.relations) == 20
    assert len(graph.inside("foreground")) == len(graph.inside("background")) == 8
    assert max(Counter(o.name for o in graph.scene.objects).values()) <= 2
    within = Counter(
        (r.source in graph.background, r.target in graph.background) for r in graph.scene.relations
    )
    assert within == {(False, False): 8, (True, True): 8, (False, True): 4}


def test_other_seeds_are_other_graphs() -> None:
    assert len({reference_graph(seed).scene.digest for seed in range(20)}) == 20


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.key)
@given(seed=st.integers(0, 10_000))
@settings(max_examples=15, deadline=None)
def test_every_edit_is_one_element_of_its_layer(damage: Damage, seed: int) -> None:
    reference = reference_graph(seed)
    steps = list(damaged(reference, damage, seed))
    assert steps[0] == reference
    assert len(steps) == 1 + MOST_EDITS
    behind = damage.layer == "background"
    touched: set[tuple[str, ...]] = set()
    for before, after in pairwise(steps):
        old, new = (elements(graph)[damage.element] for graph in (before, after))
        gone, come = old - new, new - old
        assert gone.total() == (0 if damage.way == "add" else 1)
        assert come.total() == (0 if damage.way == "delete" else 1)
        for part in [*gone, *come]:
            for one in owners(part, damage.element):
                layers = before.background | after.background
                assert (one in layers) == behind
        key = next(iter(gone or come))
        assert key not in touched
        touched.add(key)
        others = {"node", "attribute", "edge"} - {damage.element}
        for other in others:
            rest = elements(before)[other] - elements(after)[other]
            assert not elements(after)[other] - elements(before)[other]
            # What hangs on a deleted object goes with it; all else stays.
            if (damage.element, damage.way) != ("node", "delete"):
                assert not rest
            for part in rest:
                assert owners(part, other) & {key[0]}


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.key)
def test_the_same_seed_is_the_same_damage(damage: Damage) -> None:
    first, second = (list(damaged(reference_graph(3), damage, 5)) for _ in range(2))
    assert first == second
