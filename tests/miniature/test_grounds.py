"""Levels beyond the paper's: crowds on nine cells, and twins of what models confuse."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks._scenes import ALL_LEVELS, held_out_painting, held_out_scene, level_at
from scenewright.core.layout import COLUMNS, ROWS, is_allowed, place_what_fits
from scenewright.core.questions import facts_of
from scenewright.core.referring import distinguishing_keys
from scenewright.core.scene import SceneGraph
from scenewright.evals.datasets.base import DatasetError
from scenewright.evals.datasets.miniature_scenes import load
from scenewright.miniature.sampler import (
    COMPANIONS,
    COUNTED,
    CROWD,
    CROWD_RELATIONS,
    GROUNDS,
    LEAST_SEEN,
    MOST_ALIKE,
    SHARING,
    sample_contrast,
    sample_crowd,
    sample_painting,
    seen_shares,
)
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import CONTACTS, HIDING, LARGE, SMALL, UNUSUAL, can_hold

SEEDS = st.integers(0, 10_000)


def holds_all(painting: Painting, asked: SceneGraph) -> bool:
    return all(painting.truth.holds(fact, asked) for fact in facts_of(asked))


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_a_crowd_is_as_large_as_it_says_and_every_fact_of_it_holds(seed: int) -> None:
    painting = sample_crowd(random.Random(seed))
    scene = painting.scene
    assert CROWD[0] <= len(scene.objects) <= CROWD[1]
    assert CROWD_RELATIONS[0] <= len(scene.relations) <= CROWD_RELATIONS[1]
    assert len(set(painting.truth.cells.values())) <= COLUMNS * ROWS
    assert holds_all(painting, scene)
    assert min(seen_shares(painting.truth).values()) >= LEAST_SEEN
    # The composer finds a place for everything, and keeps every relation.
    assert len(place_what_fits(scene)) == len(scene.objects)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_a_crowd_holds_what_makes_it_hard(seed: int) -> None:
    painting = sample_crowd(random.Random(seed))
    contacts = painting.truth.contacts
    assert {p for _, p, _ in contacts} & {"inside", "under"}
    hiding = [(s, t) for s, p, t in contacts if p == HIDING]
    assert hiding
    items = {item.id: item for item in painting.scene.objects}
    boxes = painting.truth.boxes
    for small, large in hiding:
        assert items[large].name in LARGE
        assert boxes[small].height < boxes[large].height
        assert boxes[small].top < boxes[large].top
        assert not painting.truth.relations_between(small, large)
        assert painting.truth.is_ambiguous(small, large)
        assert not any({r.source, r.target} == {small, large} for r in painting.scene.relations)
    kinds = Counter(item.name for item in items.values())
    assert max(kinds.values()) <= MOST_ALIKE
    # No two look alike, so every question can say which one it means.
    assert all(distinguishing_keys(painting.scene, item) is not None for item in items.values())
    worn = {
        kind: {i.attributes["color"] for i in items.values() if i.name == kind} for kind in kinds
    }
    several = [kind for kind in kinds if kinds[kind] > 1]
    assert any(len(worn[a] & worn[b]) > 1 for a in several for b in several if a != b)


@settings(deadline=None, max_examples=40)
@given(SEEDS)
def test_twins_differ_in_the_places_of_two_things_alone(seed: int) -> None:
    one, other = sample_contrast(random.Random(seed))
    assert one.scene.objects == other.scene.objects
    moved = [key for key, cell in one.truth.cells.items() if other.truth.cells[key] != cell]
    assert len(moved) == 2
    first, second = moved
    assert one.truth.cells[first] == other.truth.cells[second]
    said = [
        next(r for r in twin.scene.relations if {r.source, r.target} == {first, second})
        for twin in (one, other)
    ]
    assert said[0] != said[1]
    # What tells them apart is false in the other one.
    asked = SceneGraph(objects=one.scene.objects, relations=(said[0],))
    assert holds_all(one, asked)
    assert not holds_all(other, asked)


@settings(deadline=None, max_examples=15)
@given(SEEDS)
def test_contrasts_count_one_kind_swap_colours_and_name_an_unusual_contact(seed: int) -> None:
    for twin in sample_contrast(random.Random(seed)):
        scene = twin.scene
        items = {item.id: item for item in scene.objects}
        named = [
            (items[r.source], r.predicate, items[r.target])
            for r in scene.relations
            if r.predicate in CONTACTS
        ]
        kinds = Counter((a.name, word, b.name) for a, word, b in named)
        (several, number), (single, one) = kinds.most_common(2)
        assert several in COMPANIONS
        assert SHARING[0] <= number <= SHARING[1]
        assert single in UNUSUAL
        assert one == 1
        assert len(kinds) == 2
        shared = [(a, b) for a, word, b in named if (a.name, word, b.name) == several]
        counts = Counter(item.name for item in scene.objects)
        assert COUNTED[0] <= max(counts[end.name] for end in shared[0]) <= COUNTED[1]
        # Each of the companions wears the colour of another one's host.
        worn = [[end.attributes["color"] for end in ends] for ends in zip(*shared, strict=True)]
        assert sorted(worn[0]) == sorted(worn[1])
        assert all(one != other for one, other in zip(*worn, strict=True))
        assert holds_all(twin, scene)
        assert 4 <= len(scene.relations) <= 8
        for relation in scene.relations:
            for end in (relation.source, relation.target):
                assert distinguishing_keys(scene, items[end]) is not None


def test_unusual_contacts_can_be_painted() -> None:
    assert all(can_hold(*contact) for contact in UNUSUAL)
    assert 0 < SMALL < 1


def test_sizes_of_a_crowd_are_checked() -> None:
    with pytest.raises(ValueError, match="n_objects is 9: use 10 to 16"):
        sample_crowd(random.Random(0), 9)
    with pytest.raises(ValueError, match="n_relations is 21: use 12 to 20"):
        sample_crowd(random.Random(0), 12, 21)
    painting = sample_crowd(random.Random(0), 16, 20)
    assert len(painting.scene.objects) == 16
    assert len(painting.scene.relations) == 20


def test_planner_and_truth_agree_on_relations_of_a_crowd() -> None:
    for seed in range(20):
        truth = sample_crowd(random.Random(seed)).truth
        for r in truth.scene.relations:
            assert is_allowed(r.predicate, truth.cells[r.source], truth.cells[r.target])


@pytest.mark.parametrize("ground", GROUNDS)
def test_the_set_gives_the_level_and_the_same_scenes_however_many(ground: str) -> None:
    some, more = (list(load(n=n, levels=[ground])) for n in (3, 6))
    assert more[:3] == some
    assert {item.level for item in more} == {ground}
    assert len({item.scene.digest for item in more if item.scene}) == 6


def test_twins_follow_each_other_in_the_set() -> None:
    items = list(load(n=9, levels=["hard", "adversarial", "very_hard"]))
    twins = [item.scene for item in items if item.level == "adversarial"]
    assert twins[0] is not None
    assert twins[1] is not None
    assert twins[0].objects == twins[1].objects
    assert [item.level for item in items[:3]] == ["hard", "adversarial", "very_hard"]


def test_levels_told_apart_by_colour_need_colours() -> None:
    with pytest.raises(DatasetError, match="leave attributes = false out"):
        load(levels=["hard", "very_hard"], attributes=False)
    with pytest.raises(DatasetError, match="simple, medium, hard, very_hard, adversarial"):
        load(levels=["harder"])


def test_held_out_scenes_are_those_of_their_paintings_and_repeat() -> None:
    for number in range(5):
        level = level_at(number, ALL_LEVELS)
        painting = held_out_painting(level, 3)
        assert painting.scene == held_out_scene(level, 3)
        assert holds_all(painting, painting.scene)


def test_other_paintings_know_nothing_of_hiding() -> None:
    for seed in range(50):
        contacts = sample_painting(random.Random(seed)).truth.contacts
        assert all(predicate in CONTACTS for _, predicate, _ in contacts)
