"""The starting noise of a pipeline, with patches from other seeds."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from scenewright.tools.backends.base import BackendError, GenerationRequest

if TYPE_CHECKING:
    import torch
    from PIL import Image


def patched_noise(
    pipe: Any,
    request: GenerationRequest,
    load: Callable[[str], Image.Image],
    size: tuple[int, int],
    generator: torch.Generator,
) -> torch.Tensor:
    """The noise that ``pipe`` would draw from ``generator``, the request's patches laid over it.

    ``size`` is (width, height) in pixels. A cell of the latents takes the patch's noise if
    the mask is white on at least half of it. Returns (1, channels, height / f, width / f).
    Raises ``BackendError`` for pipelines whose latents are not laid out like this.
    """
    import torch

    unet, factor = getattr(pipe, "unet", None), getattr(pipe, "vae_scale_factor", None)
    if unet is None or factor is None:
        raise BackendError(
            f"the latents of {type(pipe).__name__} are not a picture of cells: "
            "leave the noise patches out"
        )
    width, height = size
    shape = (1, unet.config.in_channels, height // factor, width // factor)

    def drawn(chance: torch.Generator) -> torch.Tensor:
        return torch.randn(shape, generator=chance, dtype=unet.dtype)

    noise = drawn(generator)
    for patch in request.noise_patches:
        mask = load(patch.mask).convert("L").resize((width, height))
        cells = torch.from_numpy(np.asarray(mask, dtype=np.float32) / 255)
        cells = cells.reshape(shape[2], factor, shape[3], factor).mean((1, 3))
        fresh = drawn(torch.Generator("cpu").manual_seed(patch.seed))
        noise = torch.where(cells >= 0.5, fresh, noise)
    return noise.to(pipe.device)
