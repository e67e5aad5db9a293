"""The PSG-style score: 1 for isomorphic graphs alone, lower with every damage, a Dice
coefficient."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.core.vocabulary import (
    PREDICATES,
    canonical,
    converse,
    entailed,
    entails,
    inverse,
    is_symmetric,
    is_weak,
)
from scenewright.evals.metrics.graph_edit import (
    EditCosts,
    EditError,
    EditLimits,
    PsgScore,
    psg_score,
)
from scenewright.evals.metrics.graph_matching.text_similarity import LexicalSimilarity
from tests.evals.metrics.graph_edit.edits import (
    Graded,
    damaged,
    damages,
    graphs,
    random_graph,
    shuffled,
)
from tests.isomorphism import isomorphic

SCENE = SceneGraph(
    objects=(
        SceneObject(id="dog.1", name="dog", attributes=Attributes({"color": "red"})),
        SceneObject(id="ball.1", name="ball"),
        SceneObject(id="tree.1", name="tree", attributes=Attributes({"size": "big"})),
    ),
    relations=(
        Relation(source="dog.1", predicate="near", target="ball.1"),
        Relation(source="tree.1", predicate="behind", target="dog.1"),
    ),
)


def some(scene: SceneGraph, seed: int) -> list[str]:
    """Some of the objects."""
    rng = random.Random(seed)
    return [o.id for o in scene.objects if rng.random() < 0.5]


@settings(max_examples=60)
@given(
    first=graphs(), second=graphs(), seed=st.integers(0, 99), weight=st.sampled_from([0.2, 0.5, 1])
)
def test_it_is_1_for_isomorphic_graphs_and_no_others(
    first: SceneGraph, second: SceneGraph, seed: int, weight: float
) -> None:
    twin, _ = shuffled(first, seed)
    behind = some(twin, seed)
    assert psg_score(first, twin, background=behind, background_weight=weight).value == 1.0
    found = psg_score(
        first,
        second,
        background=some(second, seed),
        background_weight=weight,
        converses=False,
    )
    assert 0.0 <= found.value <= 1.0
    assert found.highest == found.value
    assert (found.value == 1.0) == isomorphic(first, second)


@settings(max_examples=60)
@given(first=graphs(), second=graphs(), seed=st.integers(0, 99), graded=st.booleans())
def test_it_is_symmetric_where_both_backgrounds_are_given(
    first: SceneGraph, second: SceneGraph, seed: int, graded: bool
) -> None:
    similarity = Graded() if graded else None
    mine, theirs = some(first, seed), some(second, seed + 1)
    one = psg_score(
        first, second, similarity=similarity, reference_background=mine, background=theirs
    )
    other = psg_score(
        second, first, similarity=similarity, reference_background=theirs, background=mine
    )
    assert one.value == pytest.approx(other.value, abs=1e-9)
    assert one.whole.recall == (
        None if other.whole.precision is None else pytest.approx(one.whole.recall)
    )


@settings(max_examples=60)
@given(first=graphs(), second=graphs(), seed=st.integers(0, 99), graded=st.booleans())
def test_it_is_the_dice_coefficient_of_its_parts(
    first: SceneGraph, second: SceneGraph, seed: int, graded: bool
) -> None:
    found = psg_score(
        first,
        second,
        similarity=Graded() if graded else None,
        costs=EditCosts(node=2.0, attribute=0.5, edge=1.5),
        background=some(second, seed),
    )
    whole = found.whole
    total = whole.reference + whole.seen
    if not total:
        assert found.value == 1.0
        return
    assert whole.dice == pytest.approx(found.value, abs=1e-9)
    parts = (found.nodes, found.attributes, found.edges)
    by_part = sum((p.reference + p.seen) / total * (p.dice or 0.0) for p in parts)
    assert by_part == pytest.approx(found.value, abs=1e-9)
    if whole.recall and whole.precision:
        harmonic = 2 / (1 / whole.recall + 1 / whole.precision)
        assert harmonic == pytest.approx(found.value, abs=1e-9)
    for part in parts:
        assert 0.0 <= part.common <= min(part.reference, part.seen) + 1e-12


@settings(max_examples=50)
@given(scene=graphs(5, 8), seed=st.integers(0, 10**6), weight=st.sampled_from([0.3, 1.0]))
def test_every_further_damage_lowers_it(scene: SceneGraph, seed: int, weight: float) -> None:
    rng = random.Random(seed)
    behind = set(some(scene, seed))
    seen, value = scene, 1.0
    for number, step in enumerate(damages(scene, rng)):
        seen = damaged(seen, step, number)
        found = psg_score(
            scene,
            seen,
            reference_background=behind,
            background=[o.id for o in seen.objects if o.id in behind],
            background_weight=weight,
            converses=False,
        )
        assert found.distance.exact
        # Where nothing is left in common there is nothing left to lose.
        assert found.value < value - 1e-9 or found.value == value == 0.0, step
        value = found.value


KINDS = (
    ("delete object", "{}.1"),
    ("change label", "{}.1"),
    ("delete attribute", ("{}.1", "size")),
    ("change attribute", ("{}.1", "size")),
    ("add attribute", "{}.1"),
    ("delete relation", "{}"),
    ("change relation", "{}"),
)


@pytest.mark.parametrize(("kind", "what"), KINDS)
@pytest.mark.parametrize("carried", [True, False])
def test_damage_in_front_costs_more_than_the_same_behind(
    kind: str, what: Any, carried: bool
) -> None:
    def side(name: str) -> tuple[tuple[SceneObject, ...], tuple[Relation, ...]]:
        return (
            (
                SceneObject(id=f"{name}.1", name=name, attributes=Attributes({"size": "big"})),
                SceneObject(id=f"{name}.2", name=f"{name} side"),
            ),
            (Relation(source=f"{name}.1", predicate=name, target=f"{name}.2"),),
        )

    (front, near), (back, far) = side("front"), side("back")
    scene = SceneGraph(objects=front + back, relations=near + far)
    behind = {"back.1", "back.2"}

    def score(name: str) -> float:
        place: Any = (
            next(r for r in scene.relations if r.predicate == name)
            if "relation" in kind
            else tuple(part.format(name) for part in what)
            if isinstance(what, tuple)
            else what.format(name)
        )
        seen = damaged(scene, (kind, place), 0)
        return psg_score(
            scene,
            seen,
            background=[o.id for o in seen.objects if o.id in behind],
            reference_background=None if carried else behind,
        ).value

    assert score("front") < score("back") < 1.0


def test_the_reference_takes_the_weights_of_the_picture() -> None:
    found = psg_score(SCENE, SCENE, background=["tree.1"])
    assert found.background == {"tree.1"}
    assert (found.nodes.reference, found.edges.reference) == (2.5, 1.75)
    fixed = psg_score(SCENE, SCENE, background=["tree.1"], reference_background=())
    # Asked for in front and drawn behind: |1 − 0.5| of the object, its attribute and half an edge.
    assert fixed.distance.upper == pytest.approx(0.5 + 0.5 + 0.25)


def test_a_missing_object_takes_along_what_hangs_on_it() -> None:
    seen = damaged(SCENE, ("delete object", "dog.1"), 0)
    found = psg_score(SCENE, seen)
    assert (found.nodes.recall, found.attributes.recall) == (pytest.approx(2 / 3), 0.5)
    assert (found.edges.recall, found.edges.precision, found.edges.dice) == (0.0, None, 0.0)
    assert found.value == pytest.approx(2 * 3 / (7 + 3))


def test_nothing_in_common_and_nothing_at_all() -> None:
    nothing = SceneGraph()
    assert psg_score(SCENE, nothing).value == 0.0
    assert psg_score(nothing, SCENE).value == 0.0
    empty = psg_score(nothing, nothing)
    assert (empty.value, empty.whole.dice, empty.nodes.recall) == (1.0, None, None)


def test_a_graph_twice_as_large_is_no_better() -> None:
    """Precision: what is in the picture and was not asked for lowers the score too."""
    twice = SceneGraph(
        objects=SCENE.objects
        + tuple(o.model_copy(update={"id": f"{o.id}b"}) for o in SCENE.objects),
        relations=SCENE.relations,
    )
    found = psg_score(SCENE, twice)
    assert found.whole.recall == 1.0
    assert found.value == pytest.approx(2 * 7 / (7 + 12))


def related(*triples: tuple[str, str, str]) -> SceneGraph:
    return SceneGraph(
        objects=SCENE.objects,
        relations=tuple(Relation(source=a, predicate=p, target=b) for a, p, b in triples),
    )


def turned(relation: Relation) -> Relation:
    """The same relation, said the other way round."""
    other = converse(relation.predicate)
    if other is None or converse(other) != canonical(relation.predicate):
        return relation
    return Relation(source=relation.target, predicate=other, target=relation.source)


@settings(max_examples=60)
@given(first=graphs(), second=graphs(), seed=st.integers(0, 99))
def test_which_way_round_a_relation_is_said_makes_no_difference(
    first: SceneGraph, second: SceneGraph, seed: int
) -> None:
    rng = random.Random(seed)
    relations = dict.fromkeys(turned(r) if rng.random() < 0.5 else r for r in first.relations)
    other = SceneGraph(objects=first.objects, relations=tuple(relations))
    assert psg_score(first, other).value == 1.0
    for a, b in ((first, second), (second, first)):
        mine, theirs = (other if one is first else one for one in (a, b))
        assert psg_score(mine, theirs).value == pytest.approx(psg_score(a, b).value, abs=1e-9)


def test_converses_are_one_and_opposites_are_not() -> None:
    dog, ball, tree = "dog.1", "ball.1", "tree.1"
    asked = related((dog, "left of", ball), (tree, "near", dog))
    same = related((ball, "right of", dog), (dog, "near", tree))
    assert psg_score(asked, same).value == 1.0
    assert psg_score(asked, same, converses=False).edges.common == 0.0
    assert psg_score(asked, related((dog, "right of", ball))).edges.common == 0.0
    assert psg_score(asked, related((ball, "left of", dog))).edges.common == 0.0
    # What is said both ways is said once.
    twice = related((dog, "left of", ball), (ball, "Right  of", dog), (tree, "near", dog))
    assert psg_score(asked, twice).edges.seen == 2.0
    assert psg_score(asked, twice).value == 1.0


@pytest.mark.parametrize(
    ("word", "back"),
    [
        ("on the left of", "to the right of"),
        ("higher than", "on the bottom of"),
        ("in back of", "in front of"),
        ("holds", "held by"),
        ("beside", "next to"),
    ],
)
def test_every_wording_of_a_converse_is_the_relation_itself(word: str, back: str) -> None:
    asked, seen = related(("dog.1", word, "ball.1")), related(("ball.1", back, "dog.1"))
    assert psg_score(asked, seen).value == 1.0
    assert psg_score(asked, related(("dog.1", back, "ball.1"))).value < 1.0 or is_symmetric(word)


@pytest.mark.parametrize("name", PREDICATES)
def test_told_rightly_in_other_words_is_better_than_mirrored(name: str) -> None:
    asked = related(("dog.1", name, "ball.1"))
    back = converse(name)
    told = [("dog.1", one, "ball.1") for one in entailed(name) if not is_weak(one)]
    told += [("ball.1", back, "dog.1")] if back is not None and not is_weak(back) else []
    for source, word, target in told:
        said = psg_score(asked, related((source, word, target)))
        assert said.edges.common > 0.0
        mirrored = psg_score(asked, related((target, word, source)))
        if not (is_symmetric(word) or holds_both_ways(name, word, source)):
            assert said.value > mirrored.value


def holds_both_ways(name: str, word: str, source: str) -> bool:
    """Whether a word follows from a predicate both as it is said and mirrored."""
    mirrored = word if source == "ball.1" else inverse(word)
    return entails(name, mirrored) or entails(mirrored, name)


@pytest.mark.parametrize(("asked", "seen"), [("on", "under"), ("left of", "right of")])
def test_what_excludes_it_is_not_alike_whatever_a_similarity_says(asked: str, seen: str) -> None:
    class Fond(LexicalSimilarity):
        """Finds all texts alike, as sentence embeddings find opposites."""

        def similarities(self, pairs: Any) -> Any:
            return np.maximum(super().similarities(pairs), 0.9)

    one, other = (related(("dog.1", word, "ball.1")) for word in (asked, seen))
    assert psg_score(one, other, similarity=Fond()).edges.common == 0.0
    assert psg_score(one, one, similarity=Fond()).edges.common == 1.0


def test_opposites_get_no_credit_by_default() -> None:
    def scene(word: str) -> SceneGraph:
        return SceneGraph(
            objects=SCENE.objects,
            relations=(Relation(source="dog.1", predicate=word, target="ball.1"),),
        )

    found = psg_score(scene("left of"), scene("right of"))
    assert (found.edges.common, found.similarity) == (0.0, "exact@1")


def test_without_time_the_score_has_a_range() -> None:
    rng = random.Random(2)
    first, second = random_graph(rng, 9, 14), random_graph(rng, 9, 14)
    quick = psg_score(first, second, limits=EditLimits(seconds=0.0))
    exact = psg_score(first, second)
    assert not quick.distance.exact
    assert quick.value <= exact.value <= quick.highest + 1e-12
    assert isinstance(quick, PsgScore)


def test_background_that_is_not_there_is_told() -> None:
    with pytest.raises(EditError, match="'sky', which is not in the scene"):
        psg_score(SCENE, SCENE, background=["sky"])
    with pytest.raises(EditError, match="weight of the background"):
        psg_score(SCENE, SCENE, background=["dog.1"], background_weight=1.5)
