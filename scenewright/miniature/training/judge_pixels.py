"""What a judge sees in training: dense truth for every image token, and pictures made worse.

Judges look at pictures of a small diffusion model, so training pictures are smeared,
noisy and shifted in colour, and some things in them are rubbed out or melted to a
blot: a thing that cannot be told any more counts as absent.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image, ImageFilter
from torch.nn import functional

from scenewright.miniature.judge_model import GRID, PATCH
from scenewright.miniature.painter import Box, Painting
from scenewright.miniature.world import COLORS, KINDS, SIZE

KIND_INDEX = {kind: at for at, kind in enumerate(sorted(KINDS), start=1)}
"""Kind → class of the dense truth; 0 is the background."""
COLOR_INDEX = {color: at for at, color in enumerate(sorted(COLORS), start=1)}
"""Likewise for colours."""
_MIDDLES = np.array(
    [((at % GRID + 0.5) * PATCH, (at // GRID + 0.5) * PATCH) for at in range(GRID * GRID)],
    np.float32,
)


@dataclass(frozen=True, slots=True)
class DenseTruth:
    """The thing at every image token (row by row)."""

    kinds: np.ndarray
    """int64 [tokens]: class of :data:`KIND_INDEX`, 0 for none."""
    colors: np.ndarray
    """int64 [tokens]: class of :data:`COLOR_INDEX`, 0 for none."""
    middles: np.ndarray
    """float32 [tokens, 2]: centre (x, y) of the thing at the token (without a thing, of the
    token), −1…1 from edge to edge: so that a token knows its place in the picture."""
    centers: dict[str, int]
    """Object id → token that holds its centre."""
    owners: list[str | None]
    """Object id at every token."""


def _token(x: float, y: float) -> int:
    column = min(max(int(x // PATCH), 0), GRID - 1)
    row = min(max(int(y // PATCH), 0), GRID - 1)
    return row * GRID + column


def dense_truth(painting: Painting, gone: Collection[str] = ()) -> DenseTruth:
    """The dense truth of a painting without the objects of ``gone``; small things win."""
    kinds = np.zeros(GRID * GRID, np.int64)
    colors = np.zeros(GRID * GRID, np.int64)
    middles = _MIDDLES.copy()
    owners: list[str | None] = [None] * (GRID * GRID)
    centers: dict[str, int] = {}
    boxes = painting.truth.boxes
    for item in sorted(
        painting.scene.objects, key=lambda o: -boxes[o.id].width * boxes[o.id].height
    ):
        if item.id in gone:
            continue
        box = boxes[item.id]
        x, y = box.center
        centers[item.id] = _token(x, y)
        inside = (
            (_MIDDLES[:, 0] >= box.left)
            & (_MIDDLES[:, 0] < box.left + box.width)
            & (_MIDDLES[:, 1] >= box.top)
            & (_MIDDLES[:, 1] < box.top + box.height)
        )
        inside[centers[item.id]] = True
        kinds[inside] = KIND_INDEX[item.name]
        colors[inside] = COLOR_INDEX[item.attributes["color"]]
        middles[inside] = x, y
        for at in np.flatnonzero(inside):
            owners[at] = item.id
    return DenseTruth(kinds, colors, middles / (SIZE / 2) - 1, centers, owners)


def _overlap(a: Box, b: Box) -> bool:
    return (
        a.left < b.left + b.width
        and b.left < a.left + a.width
        and a.top < b.top + b.height
        and b.top < a.top + a.height
    )


def spoil(
    rng: random.Random, painting: Painting, share: float
) -> tuple[Image.Image, frozenset[str]]:
    """The picture with, in ``share`` of the cases, one free-standing thing rubbed out or melted.

    Returns the picture and the ids of what cannot be told any more.
    """
    boxes = painting.truth.boxes
    free = [
        key
        for key, box in boxes.items()
        if not any(_overlap(box, other) for k, other in boxes.items() if k != key)
    ]
    if not free or rng.random() >= share:
        return painting.image, frozenset()
    chosen = rng.choice(free)
    box = boxes[chosen]
    area = (
        max(0, box.left - 3),
        max(0, box.top - 3),
        min(SIZE, box.left + box.width + 3),
        min(SIZE, box.top + box.height + 3),
    )
    image = painting.image.copy()
    patch = image.crop(area)
    if rng.random() < 0.6:
        melted = patch.filter(ImageFilter.GaussianBlur(rng.uniform(6, 10)))
    else:
        pixels = np.asarray(patch)
        edge = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]).mean(0)
        ground = Image.new("RGB", patch.size, tuple(int(v) for v in edge))
        melted = Image.blend(patch, ground, rng.uniform(0.85, 1.0))
    image.paste(melted, area[:2])
    return image, frozenset({chosen})


def weather(pixels: torch.Tensor, generator: torch.Generator, strength: float) -> torch.Tensor:
    """Pictures (float [n, 3, side, side] in −1…1) smeared, noisy and shifted in colour.

    ``strength`` in [0, 1] is the share of pictures that each effect touches.
    """
    n = pixels.shape[0]

    def uniform(low: float, high: float) -> torch.Tensor:
        return torch.rand(n, 1, 1, 1, generator=generator) * (high - low) + low

    def touched(share: float) -> torch.Tensor:
        return (torch.rand(n, 1, 1, 1, generator=generator) < share * strength).float()

    factor = (2, 4)[int(torch.randint(2, (1,), generator=generator))]
    small = functional.avg_pool2d(pixels, factor)
    smeared = functional.interpolate(small, size=pixels.shape[-2:], mode="bilinear")
    pixels = torch.lerp(pixels, smeared, touched(0.5) * uniform(0.4, 1.0))
    blocks = functional.interpolate(
        torch.randn(n, 3, SIZE // 8, SIZE // 8, generator=generator),
        scale_factor=8.0,
        mode="bilinear",
    )
    pixels = pixels + touched(0.4) * uniform(0.0, 0.12) * blocks
    grain = torch.randn(1, 3, SIZE, SIZE, generator=generator)
    pixels = pixels + touched(0.4) * uniform(0.0, 0.12) * grain
    contrast = 1 + touched(0.6) * uniform(-0.2, 0.15)
    tint = touched(0.6) * (torch.rand(n, 3, 1, 1, generator=generator) - 0.5) * 0.16
    return (pixels * contrast + tint).clamp(-1, 1)


def to_pixels(images: list[Image.Image]) -> torch.Tensor:
    """RGB pictures of the world's size → float [n, 3, side, side] in −1…1."""
    stack = np.stack([np.asarray(image, np.uint8) for image in images])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)
