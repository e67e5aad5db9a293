"""Image-to-image and inpainting with the weights of a text-to-image pipeline.

Image-to-image is SDEdit (ICLR 2022): the start picture under noise is denoised. Outside of
a mask the picture is held as in Blended Latent Diffusion (SIGGRAPH 2023): after every step
the latents there become those of the start picture under the noise of that step, so that what
is drawn inside fits to it; in the end its own pixels are put back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image, ImageFilter

from scenewright.tools.backends.base import Start
from scenewright.tools.backends.pipeline import quiet

if TYPE_CHECKING:
    import torch


def image_to_image_class(pipeline_class: str, parts: Collection[str]) -> str | None:
    """The image-to-image pipeline for the weights of ``pipeline_class``, if there is one here.

    Only of families whose ``parts`` hold a UNet, for their schedulers can put a picture under
    noise again, and an autoencoder: cascades of pixels have no latents to keep.
    """
    if not {"unet", "vae"}.issubset(parts):
        return None
    with quiet():
        from diffusers.pipelines.auto_pipeline import (
            AUTO_IMAGE2IMAGE_PIPELINES_MAPPING,
            AUTO_TEXT2IMAGE_PIPELINES_MAPPING,
        )
    for family, drawing in AUTO_TEXT2IMAGE_PIPELINES_MAPPING.items():
        if drawing.__name__ == pipeline_class and family in AUTO_IMAGE2IMAGE_PIPELINES_MAPPING:
            name: str = AUTO_IMAGE2IMAGE_PIPELINES_MAPPING[family].__name__
            return name
    return None


class Inpainter:
    """The image-to-image form of a pipeline: the same parts, not loaded again."""

    def __init__(self, pipe: Any, name: str) -> None:
        """``name`` is that of the class, from :func:`image_to_image_class`."""
        import diffusers

        self.pipe = getattr(diffusers, name).from_pipe(pipe, vae=pipe.vae, dtype=pipe.dtype)
        # Both forms encode prompts alike, and the first one remembers them.
        self.pipe.encode_prompt = pipe.encode_prompt
        self.pipe.set_progress_bar_config(disable=True)

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
        picture = load(start.image).convert("RGB")
        if picture.size != size:
            picture = picture.resize(size, Image.Resampling.LANCZOS)
        # Half a step more than asked is rounded down to what is asked; none would draw nothing.
        strength = min(1.0, max(start.strength, 1.5 / steps))
        options: dict[str, Any] = {"image": picture, "strength": strength}
        if start.mask is None:
            return options, None
        mask = load(start.mask).convert("L").resize(size)
        return options, Kept(self.pipe, picture, mask, seed)


class Kept:
    """The part of a picture that stays."""

    def __init__(self, pipe: Any, picture: Image.Image, mask: Image.Image, seed: int) -> None:
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
        self._changes = torch.from_numpy(self._cells).to(pipe.device)
        self._latents = self._encoded()
        noise = torch.randn(self._latents.shape, generator=torch.Generator().manual_seed(seed))
        self._noise = noise.to(self._latents)

    def hold(self, step: int, latents: torch.Tensor) -> torch.Tensor:
        """``latents`` after ``step`` (from 0), those of the picture where it stays."""
        import torch

        scheduler = self._pipe.scheduler
        times = scheduler.timesteps[-self._pipe.num_timesteps :]
        held = self._latents
        if step + 1 < len(times):
            held = scheduler.add_noise(held, self._noise, times[step + 1 : step + 2])
        return torch.where(self._changes, latents, held.to(latents.dtype))

    def put_back(self, drawn: Image.Image) -> Image.Image:
        """``drawn`` with the picture's own pixels where it stays, the seam half a cell soft."""
        mask = Image.fromarray(self._cells.astype(np.uint8) * 255)
        mask = mask.resize(drawn.size, Image.Resampling.NEAREST)
        soft = mask.filter(ImageFilter.BoxBlur(self._factor // 4))
        return Image.composite(drawn, self._picture, soft)

    def _encoded(self) -> torch.Tensor:
        import torch
        from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_img2img import (
            retrieve_latents,
        )

        vae, config = self._pipe.vae, self._pipe.vae.config
        dtype = vae.dtype
        if config.force_upcast:
            # Such autoencoders overflow in half precision.
            vae.to(dtype=torch.float32)
        pixels = self._pipe.image_processor.preprocess(self._picture).to(vae.device, vae.dtype)
        latents: torch.Tensor = retrieve_latents(vae.encode(pixels), sample_mode="argmax")
        vae.to(dtype=dtype)
        if config.get("latents_mean") is not None and config.get("latents_std") is not None:
            mean, std = (
                latents.new_tensor(config[name]).view(1, -1, 1, 1)
                for name in ("latents_mean", "latents_std")
            )
            latents = (latents - mean) / std
        scaled: torch.Tensor = latents.to(dtype) * config.scaling_factor
        return scaled
