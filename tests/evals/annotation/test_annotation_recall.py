"""R@K and mR@K against a reference of a few lines, and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.core.scene import Relation, SceneGraph, SceneObject
from scenewright.evals.annotation.graph_sets import BuiltGraph
from scenewright.evals.annotation.panel_queries import Triple
from scenewright.evals.annotation.quality import Recalls, quality, ranked
from scenewright.evals.errors import AnnotationError

ENDS = st.sampled_from(["a.1", "b.1", "c.1"])
TRIPLE = st.tuples(ENDS, st.sampled_from(["on", "near", "in"]), ENDS).filter(lambda t: t[0] != t[2])
IMAGE = st.tuples(
    st.dictionaries(TRIPLE, st.integers(0, 10), max_size=12), st.sets(TRIPLE, max_size=8)
)


def reference(images: list[tuple[dict[Triple, int], set[Triple]]], k: int, one: bool) -> object:
    recalls, words = [], {}  # type: ignore[var-annotated]
    for found, true in images:
        order = sorted(found, key=lambda t: -found[t])
        if one:
            order = [t for i, t in enumerate(order)
                     if all((t[0], t[2]) != (o[0], o[2]) for o in order[:i])]  # fmt: skip
        if true:
            recalls.append(len(true & set(order[:k])) / len(true))
        for word in {t[1] for t in true}:
            mine = {t for t in true if t[1] == word}
            words.setdefault(word, []).append(len(mine & set(order[:k])) / len(mine))
    means = [sum(w) / len(w) for w in words.values()]
    return (
        sum(recalls) / len(recalls) if recalls else None,
        sum(means) / len(means) if means else None,
    )


@given(st.lists(IMAGE, max_size=6), st.integers(1, 6), st.booleans())
def test_recall_is_that_of_the_reference(
    images: list[tuple[dict[Triple, int], set[Triple]]], k: int, one: bool
) -> None:
    sums = Recalls(k)
    for found, true in images:
        sums.add(ranked(list(found), list(found.values()), one), true)
    assert (sums.recall, sums.mean_recall) == pytest.approx(reference(images, k, one))


def test_by_hand() -> None:
    sums = Recalls(2)
    order: list[Triple] = [("a", "on", "b"), ("a", "near", "b"), ("b", "in", "c")]
    scores = [0.9, 0.8, 0.7]
    truth: list[Triple] = [("a", "near", "b"), ("b", "in", "c")]
    sums.add(ranked(order, scores, True), truth)
    assert (sums.recall, sums.predicates) == (0.5, {"in": 1.0, "near": 0.0})
    free = Recalls(2)
    free.add(ranked(order, scores, False), truth)
    assert (free.recall, free.predicates) == (0.5, {"in": 0.0, "near": 1.0})


def graph(id_: str, *triples: Triple, scores: tuple[float, ...] = ()) -> BuiltGraph:
    names = sorted({end for s, _, t in triples for end in (s, t)})
    scene = SceneGraph(
        objects=tuple(SceneObject(id=n, name=n.partition(".")[0]) for n in names),
        relations=tuple(Relation(source=s, predicate=p, target=t) for s, p, t in triples),
    )
    return BuiltGraph(id_, scene, scores or (1.0,) * len(triples))


def test_quality_by_hand() -> None:
    truth = {
        "1": graph("1", ("dog.1", "on", "mat.1"), ("cat.1", "near", "dog.1")),
        "2": graph("2", ("dog.1", "on", "mat.1")),
        "3": graph("3", ("man.1", "riding", "horse.1")),
    }
    built = [
        graph("1", ("dog.1", "On", "mat.1"), ("cat.1", "on", "dog.1")),
        graph("2", ("dog.1", "on", "mat.1")),
        graph("9", ("dog.1", "on", "mat.1")),
    ]
    found = quality(built, truth)
    assert (found.photos, found.missing, found.unknown) == (2, 1, 1)
    assert found.relations["precision"].value == pytest.approx(2 / 3)
    assert found.relations["recall"].value == pytest.approx(2 / 4)
    assert found.objects["recall"].value == pytest.approx(5 / 7)
    assert found.recall_at["R@20"].value == pytest.approx((0.5 + 1 + 0) / 3)
    assert found.mean_recall_at["mR@20"] == pytest.approx((1 + 0 + 0) / 3)
    low, high = found.relations["recall"].low, found.relations["recall"].high
    assert low is not None
    assert high is not None
    assert low <= 0.5 <= high


def test_a_set_is_perfect_against_itself() -> None:
    graphs = {str(n): graph(str(n), ("dog.1", "on", "mat.1")) for n in range(3)}
    found = quality(graphs.values(), graphs)
    assert found.recall_at["ng-R@50"].value == found.mean_recall_at["mR@100"] == 1.0


def test_sets_of_other_photos_cannot_be_measured() -> None:
    one = graph("1", ("dog.1", "on", "mat.1"))
    with pytest.raises(AnnotationError, match="same ids"):
        quality([one], {"2": one})
