"""Composition without a language model."""

from __future__ import annotations

import asyncio

from hypothesis import given

from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.core.formats import load_scene
from scenewright.core.ports.composer import Composer
from scenewright.core.scene import SceneGraph
from tests.strategies import scenes

SCENE = load_scene("red ball on blue table; dog left of table", format="triplets")


def compose(composer: Composer, scene: SceneGraph, seed: int = 0) -> str:
    return asyncio.run(composer.compose(scene, seed))


def test_description_sets_the_scene_and_places_every_object() -> None:
    prompt = compose(GridComposer(), SCENE)
    assert prompt.startswith("in a room: a red ball at the ")
    assert "on the blue table" in prompt
    assert "left of" not in prompt  # said by the places
    row_of = dict.fromkeys(("ball", "table", "dog"), "")
    for part in prompt.split(", "):
        for name in row_of:
            if f"{name} at the" in part:
                row_of[name] = part.split(f"{name} at the ")[1]
    assert row_of["dog"].split()[1] in ("left", "center")
    assert row_of["ball"].split()[1] == row_of["table"].split()[1]


def test_defaults_are_said_where_the_scene_is_silent() -> None:
    composer = GridComposer({"dog": {"color": "black"}, "ball": {"color": "green"}})
    prompt = compose(composer, SCENE)
    assert "a black dog" in prompt
    assert "a red ball" in prompt
    assert composer.fingerprint != GridComposer().fingerprint


def test_relations_that_cannot_be_placed_are_said_in_words() -> None:
    scene = load_scene("dog | chasing | cat", format="triplets")
    assert "chasing the cat" in compose(GridComposer(), scene)


def test_a_part_is_placed_as_in_the_whole() -> None:
    part = SCENE.subgraph([item.id for item in SCENE.objects if item.name == "dog"])
    for seed in range(10):
        whole = compose(GridComposer(), SCENE, seed)
        prompt = asyncio.run(GridComposer().compose(part, seed, within=SCENE))
        assert prompt.startswith("in a room: a dog at the ")
        assert prompt.removeprefix("in a room: ") in whole


def test_triplets_are_the_papers_baseline() -> None:
    scene = load_scene("cat sitting on desk; dog near chair; lamp", format="triplets")
    assert compose(TripletComposer(), scene) == "cat sitting on desk, dog near chair, lamp"


@given(scenes())
def test_every_object_is_named_and_the_seed_decides(scene: SceneGraph) -> None:
    for composer in (GridComposer(), TripletComposer()):
        prompt = compose(composer, scene, 3)
        assert prompt == compose(composer, scene, 3)
        assert all(item.name in prompt for item in scene.objects)
