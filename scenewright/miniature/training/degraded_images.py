"""Paintings as the loop sees pictures: through the generator's autoencoder, and worn."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from diffusers import AutoencoderKL
from PIL import Image

from scenewright.miniature.training.judge_batch import weather
from scenewright.miniature.training.loop import to_pixels

DRAWN = 0.5
"""Share of the paintings that went through the autoencoder."""
WORN = 0.5
"""Strength of the weather: the share of pictures that each of its effects may touch."""


@torch.no_grad()
def as_seen(
    images: Sequence[Image.Image], autoencoder: AutoencoderKL, seed: str
) -> list[Image.Image]:
    """Paintings as the loop sees pictures.

    :data:`DRAWN` of them encoded and decoded, all in weather of strength :data:`WORN`. The same
    ``seed`` gives the same.
    """
    number = int(hashlib.sha256(seed.encode()).hexdigest()[:12], 16)
    generator = torch.Generator().manual_seed(number)
    pixels = to_pixels(list(images))
    drawn = torch.rand(len(images), generator=generator) < DRAWN
    if bool(drawn.any()):
        latents = autoencoder.encode(pixels[drawn]).latent_dist.mean
        pixels[drawn] = autoencoder.decode(latents).sample.clamp(-1, 1)
    pixels = weather(pixels, generator, WORN)
    bytes_ = pixels.add(1).mul(127.5).round().clamp(0, 255).to(torch.uint8)
    return [Image.fromarray(np.ascontiguousarray(p.permute(1, 2, 0).numpy())) for p in bytes_]
