"""Held-out paintings of the miniature world, by level of their scene.

Their seeds begin with "held-out", those of training never do.
"""

from __future__ import annotations

import random
from typing import get_args

from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_report import HELD_OUT
from scenewright.scene import Level

LEVELS: tuple[Level, ...] = get_args(Level)
_OBJECTS: dict[Level, tuple[int, int]] = {"simple": (2, 3), "medium": (4, 5), "hard": (5, 6)}
_RELATIONS: dict[Level, tuple[int, int]] = {"simple": (1, 3), "medium": (4, 7), "hard": (8, 9)}


def held_out(purpose: str, at: int) -> random.Random:
    """The source of chance of case ``at`` of a measurement; no training draws from it."""
    return random.Random(f"{HELD_OUT}/{purpose}/{at}")


def painting_of_level(level: Level, purpose: str, at: int) -> Painting:
    """Held-out painting ``at`` whose scene is of ``level``: 2–3, 4–5 or 5–6 objects."""
    rng = held_out(f"{purpose}/{level}", at)
    while True:
        painting = sample_painting(
            rng, rng.randint(*_OBJECTS[level]), rng.randint(*_RELATIONS[level])
        )
        if painting.scene.relations and painting.scene.level() == level:
            return painting
