"""Prompts that a language model wrote are asked for once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from scenewright.agents.composers.rules import TripletComposer
from scenewright.core.formats import load_scene
from scenewright.core.ports.composer import Wording
from scenewright.core.scene import SceneGraph
from scenewright.evals.runner.backends import CachedComposer, kept
from scenewright.evals.store.journal import Journal
from tests.doubles import ScriptedComposer

SCENE, OTHER = load_scene("dog left of cat"), load_scene("dog")


@dataclass
class Telling(ScriptedComposer):
    """Writes another text each time; fails if it is told to."""

    asked: int = 0
    failing: bool = False
    wholes: list[SceneGraph | None] = field(default_factory=list)

    async def word(self, scene: SceneGraph, seed: int, within: SceneGraph | None = None) -> Wording:
        self.asked += 1
        if self.failing:
            return Wording("in sentences", "sentences", problem="no answer")
        return Wording(f"text {self.asked}", "model")


async def test_a_prompt_is_asked_for_once_whoever_asks(tmp_path: Path) -> None:
    telling = Telling()
    with Journal(tmp_path / "journal.sqlite") as journal:
        first = CachedComposer(telling, journal)
        assert await first.compose(SCENE, 1) == "text 1"
        assert await first.compose(SCENE, 1) == "text 1"
        assert await first.compose(SCENE, 2) == "text 2", "another seed is another prompt"
        assert await first.compose(OTHER, 1) == "text 3"
        assert await first.compose(OTHER, 1, SCENE) == "text 4", "a part of a whole is another"
    with Journal(tmp_path / "journal.sqlite") as journal:
        again = CachedComposer(telling, journal)
        assert (await again.word(SCENE, 1)).author == "model"
        assert telling.asked == 4


async def test_what_the_model_did_not_write_is_not_kept(tmp_path: Path) -> None:
    telling = Telling(failing=True)
    with Journal(tmp_path / "journal.sqlite") as journal:
        composer = CachedComposer(telling, journal)
        assert (await composer.word(SCENE, 1)).problem == "no answer"
        telling.failing = False
        assert await composer.compose(SCENE, 1) == "text 2"


def test_a_composer_that_costs_nothing_is_left_as_it_is(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.sqlite") as journal:
        rules = TripletComposer()
        assert kept(rules, journal) is rules
        assert isinstance(kept(Telling(), journal), CachedComposer)
