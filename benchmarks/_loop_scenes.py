"""The held-out scenes of the loop's benchmark: as many of each level, and all can be said."""

from __future__ import annotations

import itertools

from benchmarks._miniature_scenes import LEVELS, painting_of_level
from scenewright.core.scene import Level, SceneGraph
from scenewright.evals.datasets.miniature_scenes import can_be_said


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
