"""Flawed paintings as the miniature's generator would draw them: what judges look at in runs."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional

from scenewright.miniature.painter import scale_of
from scenewright.miniature.training.autoencoder import similarity
from scenewright.miniature.training.flaws import Flawed, flawed, sample_training_painting
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.redrawing import Redrawer
from scenewright.miniature.truth import Truth
from scenewright.miniature.world import SIZE

_PART = 200
"""Pictures a file."""
_BATCH = 8
_DEEP = (2, 4, 6, 8)
"""Last steps of which every other batch is drawn anew, to captions: about as in runs, in places
that are known."""
_REACH = 2
"""Pixels that what is drawn anew may have moved."""
_WINDOW = 2
"""Pixels that a window of :func:`similarity` reaches beyond its middle."""
_FAITHFUL = 0.86
"""Mean similarity to the painting from which on a redrawn thing is the one that was painted.

In 500 pictures 95 % of the things of full size are above (.94 to .98 at the median), 96 % of the
small cats, 75 % of the small dogs and 90 % of the small persons, which are lumps, below."""
_LOST = 0.7
"""Below it a thing of full size that was drawn anew to a caption is lost; from here to
:data:`_FAITHFUL` eyes differ, as its lines may have moved."""


class RedrawnPaintings:
    """Flawed paintings that a :class:`Redrawer` drew once, for all judges that learn from them."""

    def __init__(self, work: Path, count: int, seed: int, share: float, crowded: float) -> None:
        """Draw ``count`` paintings, or read what lies in ``work``.

        ``seed`` makes them others; ``share`` and ``crowded`` as in
        :func:`~scenewright.miniature.training.flaws.flawed` and
        :func:`~scenewright.miniature.training.flaws.sample_training_painting`.
        """
        self._seed, self._share, self._crowded = seed, share, crowded
        self._painted = lru_cache(maxsize=None)(self._paint)
        self.nth = lru_cache(maxsize=None)(self._nth)
        """Returns the n-th painting with the picture that the generator drew.

        What it did not draw as painted is broken, or in doubt."""
        redraw: Redrawer | None = None
        parts = []
        for start in range(0, count, _PART):
            n = min(_PART, count - start)
            path = work / f"redrawn-{seed}" / f"{start}-{n}.npy"
            if not path.is_file():
                redraw = redraw or Redrawer()
                self._draw(redraw, range(start, start + n), path)
                print(f"redrawn {start + n}/{count}", flush=True)
            parts.append(np.load(path))
        self._pictures = np.concatenate(parts)

    def __len__(self) -> int:
        """Return the number of paintings."""
        return len(self._pictures)

    def _nth(self, index: int) -> Flawed:
        painted, image = self._painted(index), Image.fromarray(self._pictures[index])
        deep = _is_deep(index)
        truth = painted.truth
        lost, unsure = set(), set()
        for item_id, like in _likeness(image, painted, _REACH if deep else 0).items():
            small = scale_of(truth.scene.object(item_id), truth.boxes[item_id]) < 1
            if like < (_LOST if deep and not small else _FAITHFUL):
                lost.add(item_id)
            elif like < _FAITHFUL:
                unsure.add(item_id)
        return replace(painted, image=image, broken=painted.broken | lost, unsure=frozenset(unsure))

    def _paint(self, index: int) -> Flawed:
        rng = random.Random(f"redrawn {self._seed} {index}")
        painting = sample_training_painting(rng, self._crowded)
        # A caption would heal the flaws.
        return flawed(rng, painting, 0.0 if _is_deep(index) else self._share)

    def _draw(self, redraw: Redrawer, places: range, path: Path) -> None:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + places.start)
        parts = []
        for start in range(places.start, places.stop, _BATCH):
            batch = [
                self._painted(index) for index in range(start, min(start + _BATCH, places.stop))
            ]
            deep = _is_deep(start)
            able = _DEEP if deep else (0, 1)
            steps = able[int(torch.randint(len(able), (1,), generator=generator))]
            truths = [painted.truth for painted in batch] if deep else ()
            pixels = to_pixels([painted.image for painted in batch])
            parts.append(redraw(pixels, steps, generator, truths))
        drawn = torch.cat(parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, ((drawn.permute(0, 2, 3, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
        part.replace(path)


def _is_deep(index: int) -> bool:
    return index // _BATCH % 2 == 1


def _likeness(image: Image.Image, painted: Flawed, reach: int) -> dict[str, float]:
    """Return thing → mean similarity to the painting where it is most alike within ``reach``.

    Things that the painting lacks, and those hidden by others, are left out.
    """
    owned = {
        item_id: seen
        for item_id, seen in _owned(painted.truth).items()
        if item_id not in painted.lacking and seen.any()
    }
    found = {}
    edge = reach + _WINDOW
    drawn, wanted = (
        functional.pad(to_pixels([one]), (edge,) * 4, mode="replicate")
        for one in (image, painted.image)
    )
    moves = [(y, x) for y in range(2 * reach + 1) for x in range(2 * reach + 1)]
    for item_id, seen in owned.items():
        rows, columns = (np.flatnonzero(seen.any(axis)) for axis in (1, 0))
        top, left = int(rows[0]), int(columns[0])
        # Windows reach beyond the thing.
        height = int(rows[-1]) + 1 - top + 2 * _WINDOW
        width = int(columns[-1]) + 1 - left + 2 * _WINDOW
        painting = wanted[
            ..., top + reach : top + reach + height, left + reach : left + reach + width
        ]
        near = torch.cat(
            [drawn[..., top + y : top + y + height, left + x : left + x + width] for y, x in moves]
        )
        like = similarity(near, painting.expand(len(moves), -1, -1, -1))
        like = like[:, _WINDOW:-_WINDOW, _WINDOW:-_WINDOW]
        own = torch.from_numpy(seen[top : int(rows[-1]) + 1, left : int(columns[-1]) + 1])
        found[item_id] = float(like[:, own].mean(1).max())
    return found


def _owned(truth: Truth) -> dict[str, NDArray[np.bool_]]:
    """Return object id → pixels (by row and column) of its box but for those of smaller things."""
    boxes = sorted(truth.boxes.items(), key=lambda one: one[1].width * one[1].height)
    taken = np.zeros((SIZE, SIZE), bool)
    found = {}
    for item_id, box in boxes:
        inside = np.zeros_like(taken)
        top, left = max(box.top, 0), max(box.left, 0)
        inside[top : box.top + box.height, left : box.left + box.width] = True
        found[item_id] = inside & ~taken
        taken |= inside
    return found
