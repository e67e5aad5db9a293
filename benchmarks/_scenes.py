"""Held-out paintings and scenes of the miniature world, by level.

Their seeds begin with "held-out", those of training never do.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import get_args

from scenewright.core.scene import Level, SceneGraph
from scenewright.evals.datasets.miniature_scenes import can_be_said, is_clear, painting_of_ground
from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import GROUNDS, Ground, sample_painting
from scenewright.miniature.training.judges import HELD_OUT

LEVELS: tuple[Level, ...] = get_args(Level)
"""The paper's levels."""
AnyLevel = Level | Ground
ALL_LEVELS: tuple[AnyLevel, ...] = (*LEVELS, *GROUNDS)
"""Those, and the harder ground."""
_OBJECTS: dict[Level, tuple[int, int]] = {"simple": (2, 3), "medium": (5, 6), "hard": (9, 9)}
_TOUCHING: dict[Level, float] = {"simple": 0.2, "medium": 0.5, "hard": 0.95}
_RELATIONS: dict[Level, tuple[int, int]] = {"simple": (1, 3), "medium": (4, 7), "hard": (9, 14)}


def held_out(purpose: str, at: int) -> random.Random:
    """Return the random generator of case ``at`` of a measurement; no training draws from it."""
    return random.Random(f"{HELD_OUT}/{purpose}/{at}")


def painting_of_level(level: AnyLevel, purpose: str, at: int) -> Painting:
    """Return held-out painting ``at`` whose scene is of ``level``: 2–3, 5–6 or 9 objects.

    Hard scenes have one object more than the generator ever saw in training. The harder, the
    more things touch, and hard scenes name all that do. Its relations fit on the planner's grid,
    so that a prompt can say all of it. There are at most two of a kind and these differ in
    colour: judges were not taught to count further, and of two that look alike nobody can say
    which one stands left. Levels of harder ground are as
    :func:`~scenewright.evals.datasets.miniature_scenes.painting_of_ground` says.
    """
    if level == "very_hard" or level == "adversarial":
        return painting_of_ground(level, purpose, at)
    rng = held_out(f"{purpose}/{level}", at)
    while True:
        painting = sample_painting(
            rng,
            rng.randint(*_OBJECTS[level]),
            rng.randint(*_RELATIONS[level]),
            contacts_first=level == "hard",
            p_contact=_TOUCHING[level],
        )
        scene = painting.scene
        if scene.relations and scene.level() == level and is_clear(scene):
            return painting


def sayable_paintings(level: AnyLevel, purpose: str, at: int) -> Iterator[Painting]:
    """Yield paintings ``at`` of ``level`` whose scene both composers can say whole."""
    for n in itertools.count():
        painting = painting_of_level(level, f"{purpose}/{n}", at)
        if can_be_said(painting.scene):
            yield painting


def held_out_painting(level: AnyLevel, at: int) -> Painting:
    """Return painting ``at`` (from 0) of ``level``; the same whichever others are asked for.

    All relations of its scene hold. Both composers can say it whole, so that no strategy loses to
    a prompt that was cut off, but for the level ``very_hard``: there prompts may be.
    """
    if level in GROUNDS:
        return painting_of_level(level, "loop", at)
    return next(sayable_paintings(level, "loop", at))


def held_out_scene(level: AnyLevel, at: int) -> SceneGraph:
    """Return the scene of :func:`held_out_painting`."""
    return held_out_painting(level, at).scene


def level_at(number: int, levels: Sequence[AnyLevel] = LEVELS) -> AnyLevel:
    """Return the level of scene ``number`` of :func:`balanced_scenes`."""
    return levels[number % len(levels)]


def balanced_scenes(
    count: int, levels: Sequence[AnyLevel] = LEVELS, first: int = 0
) -> list[SceneGraph]:
    """Return scenes ``first`` to ``first + count - 1``, ``levels`` in turn.

    Any beginning of the list is balanced too.
    """
    numbers = range(first, first + count)
    return [held_out_scene(level_at(at, levels), at // len(levels)) for at in numbers]
