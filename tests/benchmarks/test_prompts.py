"""The benchmark of prompts: what counts as accepted, exchanged and unasked."""

from __future__ import annotations

import random

from benchmarks.prompts import Exchanges, Said, bag_of_words, checked, unasked
from scenewright.agents.composer_check import LostFact
from scenewright.formats import load_scene
from scenewright.scene import SceneGraph

SAID = [
    Said("A red ball is on a table.", load_scene("red ball on table")),
    Said("A black dog chases a cat.", load_scene("black dog | chasing | cat")),
    Said("A green boat is near a house.", load_scene("green boat near house")),
]


def test_a_check_that_accepts_everything_accepts_what_is_exchanged() -> None:
    def blind(scene: SceneGraph, text: str) -> tuple[LostFact, ...]:
        return ()

    own, changed, whole = checked(blind, SAID, Exchanges(SAID))
    assert all(all(values) for values in (*own.values(), *changed.values(), whole))
    own, changed, whole = checked(bag_of_words, SAID, Exchanges(SAID))
    assert not any(changed["object"])
    assert all(own["object"])


def test_an_exchange_changes_one_part_and_is_never_a_synonym() -> None:
    for kind, scene in Exchanges(SAID).of(SAID[0].scene, random.Random(3)):
        assert scene != SAID[0].scene
        if kind == "relation":
            assert scene.relations[0].predicate not in ("on", "on top of")


def test_a_place_counts_as_unasked_unless_the_scene_names_it() -> None:
    scene = load_scene("dog left of tree")
    assert unasked(scene, "in a meadow: a dog at the middle left")
    assert not unasked(scene, "A dog is to the left of a tree.")
