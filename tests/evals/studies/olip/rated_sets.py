"""Small sets of rated objects on disk, for tests."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from scenewright.evals.human_ratings.rated_objects import RatedObject, write_objects

SIDE = 32


def write_rated(folder: Path, pictures: int = 12, objects: int = 2) -> list[RatedObject]:
    """Noise pictures whose objects are rated by their brightness and by the picture's number."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    rated = []
    for picture in range(pictures):
        pixels = rng.integers(0, 255, (SIDE, SIDE, 3), np.uint8)
        for at in range(objects):
            left = 16 * at
            bright = int(rng.integers(0, 5))
            pixels[4:20, left : left + 14] = 50 * bright
            rated.append(
                RatedObject(
                    id=f"{picture}/{at}", image=f"{picture}.png",
                    category=("dog", "house")[at % 2], box=(left, 4, left + 14, 20),
                    shape=1 + picture % 5, texture=1 + bright,
                )
            )  # fmt: skip
        Image.fromarray(pixels).save(folder / f"{picture}.png")
    write_objects(folder, rated)
    return rated
