"""A picture as the latents of a pipeline, whatever its family holds them like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenewright.tools.backends.families import Latents

if TYPE_CHECKING:
    import torch
    from PIL import Image


def encoded(pipe: Any, picture: Image.Image, layout: Latents) -> torch.Tensor:
    """The latents of ``picture`` as ``pipe`` denoises them, without noise."""
    import torch
    from diffusers.pipelines.stable_diffusion.pipeline_stable_diffusion_img2img import (
        retrieve_latents,
    )

    vae, config = pipe.vae, pipe.vae.config
    dtype = vae.dtype
    if config.get("force_upcast"):
        # Such autoencoders overflow in half precision.
        vae.to(dtype=torch.float32)
    pixels = pipe.image_processor.preprocess(picture).to(pipe._execution_device, vae.dtype)
    if _of_videos(config):
        pixels = pixels.unsqueeze(2)
    latents: torch.Tensor = retrieve_latents(vae.encode(pixels), sample_mode="argmax")
    vae.to(dtype=dtype)
    if config.get("latents_mean") is not None and config.get("latents_std") is not None:
        places = (1, -1, *[1] * (latents.ndim - 2))
        mean, std = (
            latents.new_tensor(config[name]).view(places)
            for name in ("latents_mean", "latents_std")
        )
        latents = (latents - mean) / std
    latents = latents.to(dtype)
    if config.get("shift_factor"):
        latents = latents - config.shift_factor
    if config.get("scaling_factor") is not None:
        latents = latents * config.scaling_factor
    return packed(pipe, latents, layout)


def packed(pipe: Any, latents: torch.Tensor, layout: Latents) -> torch.Tensor:
    """``[1, channels, height, width]`` (or with one frame before the height) in ``layout``."""
    if layout == "grid":
        return latents
    channels, (height, width) = latents.shape[1], latents.shape[-2:]
    found: torch.Tensor = pipe._pack_latents(latents, 1, channels, height, width)
    return found


def channels_of(pipe: Any) -> int:
    """The channels of a latent cell."""
    config = pipe.vae.config
    return int(config.get("latent_channels") or config["z_dim"])


def _of_videos(config: Any) -> bool:
    return "temperal_downsample" in config
