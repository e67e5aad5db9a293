"""The picture between two denoising steps, decoded small from its latents."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from scenewright.core.error_text import error_text
from scenewright.core.images import preview_bytes
from scenewright.tools.backends.editing import from_patches, latent_statistics, patch_statistics
from scenewright.tools.backends.families import Latents

if TYPE_CHECKING:
    import torch

_LOG = logging.getLogger(__name__)
_SIDE = 256
"""Longest side in pixels of what is decoded: larger latents are averaged before."""


@dataclass
class Previews:
    """Previews of one drawing, evenly spaced over its steps.

    Nothing is decoded while nobody looks. Who comes later sees the one that was due last.
    """

    count: int
    """Previews of the drawing."""
    layout: Latents
    size: tuple[int, int]
    """(width, height) in pixels."""
    watched: Callable[[], bool]
    """Whether anybody looks."""
    due: bool = False

    def after(self, pipe: Any, step: int, of: int, latents: torch.Tensor) -> bytes:
        """Return the preview after ``step`` of ``of``, from 1; empty where none is due.

        A preview that cannot be computed is left out with a warning: the drawing goes on.
        """
        parts = self.count + 1
        self.due = self.due or step * parts // of > (step - 1) * parts // of
        if step >= of or not self.count or not self.due or not self.watched():
            return b""
        self.due = False
        try:
            return preview_bytes(self._decoded(pipe, latents))
        except Exception as error:
            # Whatever a pipeline's autoencoder stumbles over, out of memory included.
            self.count = 0
            _LOG.warning(
                "%s shows no partial images (%s)", type(pipe).__name__, error_text(error, 200)
            )
            return b""

    def _decoded(self, pipe: Any, latents: torch.Tensor) -> Image.Image:
        """Undo :func:`~.editing.encoded`, at a size that costs little."""
        import torch

        vae, config, factor = pipe.vae, pipe.vae.config, int(pipe.vae_scale_factor)
        scheduler = pipe.scheduler
        if float(getattr(scheduler, "init_noise_sigma", 1.0)) > 1.0:
            # Such schedulers let the latents grow with the noise.
            sigma = scheduler.sigmas[scheduler.step_index].to(latents)
            latents = latents / (1 + sigma**2) ** 0.5
        cells = unpack_latents(pipe, latents[:1], self.layout, self.size)
        video = cells.ndim == 5
        cells = cells[:, :, 0] if video else cells
        scale = _SIDE / (factor * max(cells.shape[-2:]))
        if scale < 1:
            sides = [max(1, round(side * scale)) for side in cells.shape[-2:]]
            cells = torch.nn.functional.interpolate(cells, size=sides, mode="area")
        if (statistics := latent_statistics(config, cells)) is not None:
            cells = cells * statistics[1] + statistics[0]
        if config.get("scaling_factor") is not None:
            cells = cells / config.scaling_factor
        if config.get("shift_factor"):
            cells = cells + config.shift_factor
        dtype = vae.dtype
        if config.get("force_upcast"):
            # Such autoencoders overflow in half precision.
            vae.to(dtype=torch.float32)
        cells = cells.unsqueeze(2) if video else cells
        try:
            with torch.no_grad():
                pixels = vae.decode(cells.to(vae.dtype), return_dict=False)[0]
        finally:
            vae.to(dtype=dtype)
        pixels = pixels[:, :, 0] if video else pixels
        shades = (pixels[0].float() / 2 + 0.5).nan_to_num().clamp(0, 1).permute(1, 2, 0)
        return Image.fromarray((shades.cpu().numpy() * 255).round().astype(np.uint8)).convert("RGB")


def unpack_latents(
    pipe: Any, latents: torch.Tensor, layout: Latents, size: tuple[int, int]
) -> torch.Tensor:
    """Return ``latents`` as ``[1, channels, height, width]``, or with one frame before the height.

    Those of FLUX.2 are as its autoencoder takes them. Raises ``ValueError`` for a layout that
    cannot be taken apart.
    """
    if layout == "grid" and latents.ndim >= 4:
        return latents
    if layout == "flux2" and latents.ndim == 3:
        patch = 2 * int(pipe.vae_scale_factor)
        height, width = size[1] // patch, size[0] // patch
        mean, deviation = patch_statistics(pipe.vae, latents)
        return from_patches(latents * deviation + mean, height, width)
    unpack = getattr(pipe, "_unpack_latents", None)
    if layout == "packed" and unpack is not None:
        given: dict[str, Any] = {"height": size[1], "width": size[0]}
        if "vae_scale_factor" in inspect.signature(unpack).parameters:
            given["vae_scale_factor"] = pipe.vae_scale_factor
        found: torch.Tensor = unpack(latents, **given)
        return found
    raise ValueError("its latents are in a layout that is not read")
