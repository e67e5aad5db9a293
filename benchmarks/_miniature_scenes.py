"""Held-out paintings of the miniature world, by level of their scene.

Their seeds begin with "held-out", those of training never do.
"""

from __future__ import annotations

import random
from typing import get_args

from scenewright.core.scene import Level
from scenewright.evals.datasets.miniature_scenes import is_clear
from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judges import HELD_OUT

LEVELS: tuple[Level, ...] = get_args(Level)
_OBJECTS: dict[Level, tuple[int, int]] = {"simple": (2, 3), "medium": (5, 6), "hard": (9, 9)}
_TOUCHING: dict[Level, float] = {"simple": 0.2, "medium": 0.5, "hard": 0.95}
_RELATIONS: dict[Level, tuple[int, int]] = {"simple": (1, 3), "medium": (4, 7), "hard": (9, 14)}


def held_out(purpose: str, at: int) -> random.Random:
    """The source of chance of case ``at`` of a measurement; no training draws from it."""
    return random.Random(f"{HELD_OUT}/{purpose}/{at}")


def painting_of_level(level: Level, purpose: str, at: int) -> Painting:
    """Held-out painting ``at`` whose scene is of ``level``: 2–3, 5–6 or 9 objects.

    Hard scenes have one object more than the generator ever saw in training. The harder, the
    more things touch, and hard scenes name all that do. Its relations fit on the planner's grid,
    so that a prompt can say all of it. There are at most two of a kind and these differ in
    colour: judges were not taught to count further, and of two that look alike nobody can say
    which one stands left.
    """
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
