"""Spoilt textures: noise, smudges, bands, blotches and wrong patterns within an outline.

How far it goes is measured: a level stands for a mean difference of the colours, so it
means the same for every kind of thing and manner.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, minimum_filter

from scenewright.miniature.severity import force_for

TARGETS = (0.0, 7.0, 15.0, 25.0, 37.0, 51.0)
"""Level → mean absolute difference (0–255) of the pixels inside the outline."""
MANNERS = ("noise", "smudged", "banded", "blotched", "patterned")
"""Grain; blur with stains; parallel bands; patches; a fine regular pattern."""

_MOST = 4.0

Pixels = NDArray[np.float32]
"""(rows, columns, 3), 0 to 255."""
Cover = NDArray[np.float32]
"""(rows, columns), 0 to 1."""
Spoil = Callable[[float], Pixels]
"""Force → what the colours become, before they are kept to the inside."""


def _unit(field: NDArray[np.floating], inside: Cover) -> Pixels:
    """``field`` with a mean of 0 and a mean size of 1 inside, so that the colour stays."""
    weight = inside[..., None] if field.ndim == 3 else inside
    total = max(float(np.broadcast_to(weight, field.shape).sum()), 1e-6)
    centred = field - (field * weight).sum() / total
    size = float((np.abs(centred) * weight).sum()) / total
    found = centred / max(size, 1e-6)
    return np.asarray(found if field.ndim == 3 else found[..., None], np.float32)


def _noise(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    grey, tint = rng.standard_normal(inside.shape), rng.standard_normal(rgb.shape)
    field = _unit(grey[..., None] * rng.uniform(0, 1) + tint, inside)
    return lambda force: rgb + 30 * force * field


def _stains(rng: np.random.Generator, inside: Cover, size: float) -> NDArray[np.floating]:
    tint = np.array(rng.uniform(0.75, 1, 3))
    field = gaussian_filter(rng.standard_normal(inside.shape), size, mode="wrap")
    return np.asarray(np.tanh(3 * field / field.std())[..., None] * tint)


def _smudged(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    stains = _unit(_stains(rng, inside, 1.6), inside)

    def spoil(force: float) -> Pixels:
        sigma = 0.3 + 1.6 * min(force, 2.0)
        weight = gaussian_filter(inside, sigma) + 1e-6
        soft = gaussian_filter(rgb * inside[..., None], (sigma, sigma, 0)) / weight[..., None]
        share = min(2 * force, 1.0)
        return np.asarray(rgb + share * (soft - rgb) + 26 * force * stains, np.float32)

    return spoil


def _banded(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    y, x = np.indices(inside.shape)
    angle, pitch = rng.uniform(0, np.pi), rng.uniform(3, 6)
    across = (x * np.cos(angle) + y * np.sin(angle)) / pitch + rng.uniform(0, 1)
    heights = rng.uniform(0.5, 1, 256) * np.where(np.arange(256) % 2, 1, -1)
    bands = heights[np.floor(across).astype(int) % 256][..., None] * rng.uniform(0.75, 1, 3)
    field = _unit(bands, inside)
    return lambda force: rgb + 30 * force * field


def _blotched(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    field = _unit(_stains(rng, inside, rng.uniform(1.8, 2.8)), inside)
    return lambda force: rgb + 30 * force * field


def _patterned(rng: np.random.Generator, rgb: Pixels, inside: Cover) -> Spoil:
    y, x = np.indices(inside.shape)
    which, phase = int(rng.integers(3)), rng.integers(0, 4, 2)
    if which == 0:
        tiles = ((x + phase[0]) // 2 + (y + phase[1]) // 2) % 2
    elif which == 1:
        tiles = (x + phase[0] + 2 * (y % 2)) % 4 < 2
    else:
        tiles = ((x + phase[0]) % 3 == 0) | ((y + phase[1]) % 3 == 0)
    field = _unit(tiles.astype(float)[..., None] * rng.uniform(0.75, 1, 3), inside)
    return lambda force: rgb + 30 * force * field


_SPOIL: dict[str, Callable[[np.random.Generator, Pixels, Cover], Spoil]] = {
    "noise": _noise,
    "smudged": _smudged,
    "banded": _banded,
    "blotched": _blotched,
    "patterned": _patterned,
}


def spoilt(
    drawing: NDArray[np.uint8], manner: str, level: int, rng: np.random.Generator
) -> NDArray[np.uint8]:
    """``drawing`` (rows, columns, RGBA) with its texture spoilt; its alpha and rim stay.

    Equal generators spoil the same way further with every level (0–5).
    """
    alpha = drawing[..., 3]
    inside = (minimum_filter(alpha, 3, mode="constant") >= 250).astype(np.float32)
    rgb = drawing[..., :3].astype(np.float32)
    spoil = _SPOIL[manner](rng, rgb, inside)
    total = max(float(inside.sum()) * 3, 1.0)

    def picture(force: float) -> Pixels:
        new = np.clip(np.rint(spoil(force)), 0, 255)
        return np.asarray(rgb + (new - rgb) * inside[..., None], np.float32)

    def difference(force: float) -> float:
        return float(np.abs(picture(force) - rgb).sum()) / total

    found = drawing.copy()
    if level:
        found[..., :3] = picture(force_for(TARGETS[level], difference, _MOST)).astype(np.uint8)
    return found
