"""How exactly the miniature autoencoder gives a painting back, and where it does not.

Errors are mean absolute differences of 8-bit values (0–255). Things are small and the
ground is easy, so the error is told for parts of the picture as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from diffusers import AutoencoderKL
from PIL import Image, ImageFilter

from benchmarks._miniature_scenes import held_out
from benchmarks._progress import progress
from benchmarks._report import interval
from scenewright.miniature.painter import Mask, Painting, layers_of, silhouettes
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import SIZE
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

EDGE = 40
"""Step between neighbouring pixels, in 8-bit values, from which it is an edge."""
NEAR_EDGE = 2
"""Pixels from an edge that count as near it."""
THIN = 5
"""A part through which no square of this side fits is thin: whiskers, poles, masts, tails."""
PALE = 200
"""A part whose darkest channel is at least this is pale: sails, house fronts, hat bands."""
_BATCH = 16


def opened(mask: Mask) -> Mask:
    """``mask`` without its thin parts: morphological opening with a square."""
    image = Image.fromarray(mask.astype(np.uint8) * 255)
    # The frame keeps the border of the drawing from counting as inside.
    framed = Image.new("L", (image.width + 2 * THIN, image.height + 2 * THIN))
    framed.paste(image, (THIN, THIN))
    rest = framed.filter(ImageFilter.MinFilter(THIN)).filter(ImageFilter.MaxFilter(THIN))
    return np.asarray(rest)[THIN:-THIN, THIN:-THIN] > 127


def regions(painting: Painting) -> dict[str, Mask]:
    """Boolean [128, 128] masks: ``objects`` (inside their boxes), ``ground`` (outside),
    ``edges``, and of the things' visible pixels the ``thin`` and the ``pale``."""
    pixels = np.asarray(painting.image).astype(int)
    objects = np.zeros((SIZE, SIZE), bool)
    thin, pale = objects.copy(), objects.copy()
    for box in painting.truth.boxes.values():
        objects[box.top : box.top + box.height, box.left : box.left + box.width] = True
    layers = layers_of(painting.truth)
    visible = silhouettes(layers)
    for layer in layers:
        # A thing that is partly hidden is thin where it is so by itself, not where it peeps out.
        whole = silhouettes([layer])[layer.object_id]
        shown = visible.get(layer.object_id, np.zeros_like(whole))
        thin |= shown & ~opened(whole)
        pale |= shown & (pixels.min(-1) >= PALE)
    step = np.zeros((SIZE, SIZE), bool)
    step[:, 1:] |= np.abs(np.diff(pixels, axis=1)).max(-1) >= EDGE
    step[1:] |= np.abs(np.diff(pixels, axis=0)).max(-1) >= EDGE
    wide = Image.fromarray(step.astype(np.uint8) * 255)
    edges = np.asarray(wide.filter(ImageFilter.MaxFilter(2 * NEAR_EDGE + 1))) > 127
    return {"objects": objects, "ground": ~objects, "edges": edges, "thin": thin, "pale": pale}


def errors_of(painting: Painting, made: npt.NDArray[np.uint8]) -> dict[str, float]:
    """L1 (8-bit values) of all and of each region that is there, and PSNR (dB)."""
    difference = np.asarray(painting.image).astype(float) - made
    absolute = np.abs(difference).mean(-1)
    found = {"l1": float(absolute.mean())}
    for name, mask in regions(painting).items():
        if mask.any():
            found[f"l1.{name}"] = float(absolute[mask].mean())
    found["psnr"] = float(10 * np.log10(255.0**2 / max(1e-3, float((difference**2).mean()))))
    return found


@torch.inference_mode()
def _rebuilt(vae: AutoencoderKL, images: Sequence[Image.Image]) -> npt.NDArray[np.uint8]:
    stack = np.stack([np.asarray(image) for image in images])
    pixels = torch.from_numpy(stack).permute(0, 3, 1, 2).float().div(127.5).sub(1)
    made = vae.decode(vae.encode(pixels).latent_dist.mean).sample
    whole: torch.Tensor = ((made.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1)
    return whole.numpy()


def _batches(count: int) -> Iterator[list[Painting]]:
    for start in range(0, count, _BATCH):
        yield [
            sample_painting(held_out("autoencoder", at))
            for at in range(start, min(start + _BATCH, count))
        ]


def autoencoder_figures(
    count: int, folder: Path = MINIATURE_WEIGHTS / "generator" / "vae"
) -> dict[str, Any]:
    """``autoencoder.l1``, ``.l1.<region>``, ``.psnr``: means over held-out paintings."""
    vae = AutoencoderKL.from_pretrained(folder, torch_dtype=torch.float32).eval()
    rows: dict[str, list[float]] = {}
    total = -(-count // _BATCH)
    for batch in progress("autoencoder, batches", _batches(count), total):
        for painting, made in zip(batch, _rebuilt(vae, [p.image for p in batch]), strict=True):
            for key, value in errors_of(painting, made).items():
                rows.setdefault(key, []).append(value)
    return {f"autoencoder.{key}": interval(values) for key, values in rows.items()}
