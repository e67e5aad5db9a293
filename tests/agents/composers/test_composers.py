"""Composition without a language model."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.agents.composers.sentences import SentenceComposer
from scenewright.core.formats import load_scene
from scenewright.core.layout import Region, cell_at, region_of_cell, region_within
from scenewright.core.ports.composer import Composer, PlacingComposer, compose_with_origin
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


def test_places_of_a_crop_are_said_in_the_setting_of_the_whole() -> None:
    part = SCENE.subgraph([item.id for item in SCENE.objects if item.name == "dog"])
    crop = Region(0.5, 0.0, 1.0, 0.5)
    where = region_within(Region(0.6, 0.3, 0.7, 0.4), crop)
    said = asyncio.run(GridComposer().compose_at(part, {"dog.1": where}, SCENE))
    assert said == "in a room: a dog at the bottom left"
    assert asyncio.run(GridComposer().compose_at(part, {}, SCENE)) == "in a room: a dog"


@pytest.mark.parametrize("composer", [GridComposer(), TripletComposer(), SentenceComposer()])
def test_only_composers_that_say_places_are_told_them(composer: Composer) -> None:
    where = {item.id: Region(0.7, 0.7, 0.9, 0.9) for item in SCENE.objects}
    told = asyncio.run(compose_with_origin(composer, SCENE, 0, None, where)).prompt
    assert (told != compose(composer, SCENE)) == isinstance(composer, PlacingComposer)


@given(cell=st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_a_cell_is_where_its_region_is(cell: tuple[int, int]) -> None:
    assert cell_at(region_of_cell(cell)) == cell


def test_triplets_are_the_papers_baseline() -> None:
    scene = load_scene("cat sitting on desk; dog near chair; lamp", format="triplets")
    assert compose(TripletComposer(), scene) == "cat sitting on desk, dog near chair, lamp"


@given(scenes())
def test_every_object_is_named_and_the_seed_decides(scene: SceneGraph) -> None:
    for composer in (GridComposer(), TripletComposer()):
        prompt = compose(composer, scene, 3)
        assert prompt == compose(composer, scene, 3)
        assert all(item.name in prompt for item in scene.objects)


def test_a_relation_that_no_plan_holds_with_the_others_is_told_as_unsaid() -> None:
    scene = load_scene("dog left of cat; cat left of ball; ball left of dog")
    told = asyncio.run(compose_with_origin(GridComposer(), scene, 0))
    assert told.unsaid == (("ball.1", "left of", "dog.1"),)
    fits = load_scene("dog left of cat; cat left of ball")
    assert asyncio.run(compose_with_origin(GridComposer(), fits, 0)).unsaid == ()
