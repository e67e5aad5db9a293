"""The held-out scenes of the loop's benchmark: as many of each level, and all can be said."""

from __future__ import annotations

import asyncio
import itertools
from functools import cache

from transformers import CLIPTokenizer

from benchmarks._miniature_scenes import LEVELS, painting_of_level
from scenewright.agents.composer import Composer, TripletComposer
from scenewright.miniature.vocabulary import MAX_TOKENS, new_tokenizer
from scenewright.profiles import composer_of
from scenewright.scene import Level, SceneGraph
from scenewright.settings import BUILT_IN


def held_out_scene(level: Level, at: int) -> SceneGraph:
    """Scene ``at`` (from 0) of ``level``; the same whichever others are asked for.

    Its relations hold together, for a painting had them all. Both composers can say it
    whole, so that no strategy loses to a prompt that was cut off.
    """
    attempts = (painting_of_level(level, f"loop/{n}", at).scene for n in itertools.count())
    return next(scene for scene in attempts if can_be_said(scene))


def balanced_scenes(count: int) -> list[SceneGraph]:
    """``count`` scenes, the levels in turn: any beginning of the list is balanced too."""
    return [held_out_scene(LEVELS[at % len(LEVELS)], at // len(LEVELS)) for at in range(count)]


def can_be_said(scene: SceneGraph) -> bool:
    """Whether the miniature's prompts of ``scene`` fit into its text encoder."""
    composers: tuple[Composer, ...] = (TripletComposer(), composer_of(BUILT_IN["miniature"]))
    return all(
        len(_tokenizer()(prompt)["input_ids"]) <= MAX_TOKENS
        for prompt in asyncio.run(_prompts(scene, composers))
    )


async def _prompts(scene: SceneGraph, composers: tuple[Composer, ...]) -> list[str]:
    return [await composer.compose(scene, 0) for composer in composers]


@cache
def _tokenizer() -> CLIPTokenizer:
    return new_tokenizer()
