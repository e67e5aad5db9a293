"""Flawed paintings as the miniature's generator would draw them: what judges look at in runs."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from scenewright.miniature.training.flaws import Flawed, flawed, sample_training_painting
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.redrawing import Redrawer

_PART = 200
"""Pictures a file."""


class RedrawnPaintings:
    """Flawed paintings that a :class:`Redrawer` drew once, for all judges that learn from them."""

    def __init__(self, work: Path, count: int, seed: int, share: float, crowded: float) -> None:
        """Draw ``count`` paintings, or read what lies in ``work``.

        ``seed`` makes them others; ``share`` and ``crowded`` as in
        :func:`~scenewright.miniature.training.flaws.flawed` and
        :func:`~scenewright.miniature.training.flaws.sample_training_painting`.
        """
        self._seed, self._share, self._crowded = seed, share, crowded
        self._nth = lru_cache(maxsize=None)(self._painted)
        redraw: Redrawer | None = None
        parts = []
        for start in range(0, count, _PART):
            path = work / f"redrawn-{seed}" / f"{start}.npy"
            if not path.is_file():
                redraw = redraw or Redrawer()
                self._draw(redraw, start, path)
                print(f"redrawn {start + _PART}/{count}", flush=True)
            parts.append(np.load(path))
        self._pictures = np.concatenate(parts)[:count]

    def __len__(self) -> int:
        """Return the number of paintings."""
        return len(self._pictures)

    def nth(self, index: int) -> Flawed:
        """Return a painting with the picture that the generator drew."""
        return replace(self._nth(index), image=Image.fromarray(self._pictures[index]))

    def _painted(self, index: int) -> Flawed:
        rng = random.Random(f"redrawn {self._seed} {index}")
        return flawed(rng, sample_training_painting(rng, self._crowded), self._share)

    def _draw(self, redraw: Redrawer, start: int, path: Path) -> None:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + start)
        images = [self._nth(index).image for index in range(start, start + _PART)]
        drawn = torch.cat(
            [redraw(to_pixels(images[at : at + 8]), generator) for at in range(0, _PART, 8)]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, ((drawn.permute(0, 2, 3, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
        part.replace(path)
