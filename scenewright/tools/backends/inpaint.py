"""Image-to-image and inpainting with the weights of a text-to-image pipeline.

The latents of a diffusion model are put under noise by its scheduler; those of a flow-matching
model (SD3, Flux) lie at noise level σ on the straight line ``(1 - σ) · picture + σ · noise``.

Image-to-image is SDEdit (ICLR 2022): the start picture under noise is denoised. Outside of
a mask the picture is held as in Blended Latent Diffusion (SIGGRAPH 2023): after every step
the latents there become those of the start picture under the noise of that step, so that what
is drawn inside fits to it; in the end its own pixels are put back.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageFilter

from scenewright.core.ports.backend import Start
from scenewright.tools.backends.families import Latents
from scenewright.tools.backends.latents import channels_of, encoded, packed

if TYPE_CHECKING:
    import torch


def of_same_parts(pipe: Any, name: str) -> Any:
    """The pipeline class ``name`` over the parts of ``pipe``, which are not loaded again."""
    import diffusers

    other = getattr(diffusers, name).from_pipe(pipe, vae=pipe.vae, dtype=pipe.dtype)
    other.set_progress_bar_config(disable=True)
    return other


def picture_of(
    image: str, load: Callable[[str], Image.Image], size: tuple[int, int]
) -> Image.Image:
    """The picture ``image`` in RGB at ``size``, (width, height) in pixels."""
    picture = load(image).convert("RGB")
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)


def flows(scheduler: Any) -> bool:
    """Whether ``scheduler`` moves on straight lines between noise and picture."""
    return hasattr(scheduler, "scale_noise")


class Inpainter:
    """The image-to-image form of a pipeline: the same parts, not loaded again."""

    def __init__(self, pipe: Any, name: str, latents: Latents = "grid") -> None:
        """``name`` is that of the class and ``latents`` its layout (``Family``)."""
        self.pipe = of_same_parts(pipe, name)
        # Both forms encode prompts alike, and the first one remembers them.
        self.pipe.encode_prompt = pipe.encode_prompt
        self._layout = latents

    def begin(
        self,
        start: Start,
        load: Callable[[str], Image.Image],
        size: tuple[int, int],
        steps: int,
        seed: int,
    ) -> tuple[dict[str, Any], Kept | None]:
        """Call options of a drawing of ``steps`` steps that begins with ``start``, and what of
        the picture stays.

        ``size`` is (width, height) in pixels; a start picture of another size is scaled.
        """
        picture = picture_of(start.image, load, size)
        # No step would draw nothing. Diffusion pipelines round the steps down, so that half a step
        # more gives one; flow-matching ones round up.
        least = 0.5 if flows(self.pipe.scheduler) else 1.5
        strength = min(1.0, max(start.strength, least / steps))
        options: dict[str, Any] = {"image": picture, "strength": strength}
        if start.mask is None:
            return options, None
        mask = load(start.mask).convert("L").resize(size)
        return options, Kept(self.pipe, picture, mask, seed, self._layout)


class Kept:
    """The part of a picture that stays."""

    def __init__(
        self,
        pipe: Any,
        picture: Image.Image,
        mask: Image.Image,
        seed: int,
        layout: Latents = "grid",
    ) -> None:
        """``mask`` is white where ``picture`` may change; a cell of the latents changes if it is
        white on at least half of it."""
        import torch

        self._pipe = pipe
        self._picture = picture
        self._factor = factor = int(pipe.vae_scale_factor)
        width, height = picture.size
        white = np.asarray(mask, dtype=np.float32) / 255
        shares = white.reshape(height // factor, factor, width // factor, factor).mean((1, 3))
        self._cells = shares >= 0.5
        cells = torch.from_numpy(self._cells).to(pipe._execution_device)
        self._changes = packed(pipe, cells.expand(1, channels_of(pipe), -1, -1), layout)
        self._latents = encoded(pipe, picture, layout)
        noise = torch.randn(self._latents.shape, generator=torch.Generator().manual_seed(seed))
        self._noise = noise.to(self._latents)

    def hold(self, step: int, latents: torch.Tensor) -> torch.Tensor:
        """``latents`` after ``step`` (from 0), those of the picture where it stays."""
        import torch

        scheduler = self._pipe.scheduler
        times = scheduler.timesteps[-self._pipe.num_timesteps :]
        held = self._latents
        if step + 1 < len(times) and flows(scheduler):
            level = scheduler.sigmas[scheduler.step_index].to(held)
            held = (1 - level) * held + level * self._noise
        elif step + 1 < len(times):
            held = scheduler.add_noise(held, self._noise, times[step + 1 : step + 2])
        return torch.where(self._changes, latents, held.to(latents.dtype))

    def put_back(self, drawn: Image.Image) -> Image.Image:
        """``drawn`` with the picture's own pixels where it stays, the seam half a cell soft."""
        mask = Image.fromarray(self._cells.astype(np.uint8) * 255)
        mask = mask.resize(drawn.size, Image.Resampling.NEAREST)
        soft = mask.filter(ImageFilter.BoxBlur(self._factor // 4))
        return Image.composite(drawn, self._picture, soft)
