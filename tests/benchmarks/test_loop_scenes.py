"""Scenes of the loop's benchmark: balanced, repeatable, and short enough to be said."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks._scenes import LEVELS, balanced_scenes
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.datasets.miniature_scenes import can_be_said
from scenewright.miniature.world import COLORS, KINDS, PREDICATES

SCENES = balanced_scenes(24)


@pytest.mark.parametrize("count", [3, 6, 24])
def test_every_beginning_of_the_list_holds_the_levels_alike(count: int) -> None:
    levels = Counter(scene.level() for scene in SCENES[:count])
    assert levels == dict.fromkeys(LEVELS, count // 3)


def test_scenes_are_the_same_whatever_their_number_and_none_comes_twice() -> None:
    assert balanced_scenes(5) == SCENES[:5]
    assert len({scene.digest for scene in SCENES}) == len(SCENES)


def test_scenes_have_relations_and_words_of_the_miniature_world_alone() -> None:
    for scene in SCENES:
        assert scene.relations
        assert {item.name for item in scene.objects} <= set(KINDS)
        assert {item.attributes["color"] for item in scene.objects} <= set(COLORS)
        assert {relation.predicate for relation in scene.relations} <= set(PREDICATES)
        assert can_be_said(scene)


def test_a_scene_whose_triplets_are_cut_off_cannot_be_said() -> None:
    red = Attributes({"color": "red"})
    objects = tuple(SceneObject(id=f"dog.{at}", name="dog", attributes=red) for at in range(9))
    relations = tuple(
        Relation(source=a.id, predicate="left of", target=b.id)
        for a in objects
        for b in objects
        if a.id < b.id
    )
    assert can_be_said(SceneGraph(objects=objects, relations=relations[:8]))
    assert not can_be_said(SceneGraph(objects=objects, relations=relations))
