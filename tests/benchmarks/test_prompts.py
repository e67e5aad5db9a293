"""The benchmark of prompts: what counts as accepted, exchanged and unasked."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from benchmarks._harness import DATA as RELEASES
from benchmarks.prompts import (
    SDXL,
    Exchanges,
    Said,
    bag_of_words,
    checked,
    composed,
    load,
    unasked,
)
from scenewright.agents.composers.check import dropped_facts
from scenewright.agents.composers.rules import GridComposer, TripletComposer
from scenewright.agents.composers.sentences import SentenceComposer, sentences, sentences_within
from scenewright.config.profiles import BUILT_IN
from scenewright.core.formats import load_scene
from scenewright.core.ports.composer import LostFact
from scenewright.core.questions import facts_of
from scenewright.core.scene import SceneGraph
from scenewright.runs.model_factory.profiles import composer_of
from scenewright.tools.backends.prompts import PromptReader, find_prompt_reader

DATA = RELEASES / "dsg"

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


@pytest.fixture(scope="module")
def published() -> list[SceneGraph]:
    """The scenes of DSG-1k."""
    if not DATA.is_dir():
        pytest.skip("the DSG release is not beside the repository")
    return [one.scene for one in load(DATA)]


def bad(scenes: Sequence[SceneGraph], prompts: Sequence[str]) -> int:
    return sum(unasked(scene, prompt) for scene, prompt in zip(scenes, prompts, strict=True))


def test_prompts_of_real_profiles_name_no_place_that_people_did_not(
    published: list[SceneGraph],
) -> None:
    plain = [one for one in BUILT_IN.values() if one.name != "miniature" and not one.chat]
    composers = {one.fingerprint: one for one in map(composer_of, plain)}
    assert len(plain) > 1
    for composer in (*composers.values(), TripletComposer()):
        assert bad(published, composed(composer, published)) == 0
    # The painted world's own composer does, in most of them: the words would be found.
    few = published[:200]
    assert bad(few, composed(GridComposer(), few)) > 100


def test_prompts_past_clips_77_tokens_are_read_to_their_end(published: list[SceneGraph]) -> None:
    reader = find_prompt_reader(SDXL)
    for composer in (SentenceComposer(), TripletComposer()):
        prompts = composed(composer, published)
        counts = [reader.count(prompt) for prompt in prompts]
        assert sum(count.tokens > 75 for count in counts) > 5, "some are longer than one chunk"
        assert not any(count.dropped for count in counts)
        for scene, prompt, count in zip(published, prompts, counts, strict=True):
            assert not dropped_facts(scene, facts_of(scene), prompt, count.read)


def test_a_model_that_reads_77_tokens_gets_no_more_and_what_is_left_out_is_told(
    published: list[SceneGraph],
) -> None:
    reader = PromptReader((), 75)
    assert reader.room is not None
    long = [scene for scene in published if not reader.room.holds(sentences(scene))]
    assert len(long) > 5
    told = [sentences_within(scene, reader.room) for scene in long]
    assert not any(reader.count(prompt).dropped for prompt, _ in told)
    assert any(unsaid for _, unsaid in told)
    for scene, (prompt, unsaid) in zip(long, told, strict=True):
        lost = dropped_facts(scene, facts_of(scene), prompt, None, unsaid)
        assert len(lost) >= len(unsaid), "what has no room is among the facts that were dropped"
