"""A Stable Diffusion pipeline with a second denoiser that edits from several pictures.

The editor is a UNet that sees the latents of pictures as further channels beside the noise, as
InstructPix2Pix (CVPR 2023) does with one: the picture to change first, then those that the
instruction speaks of. A picture that is not given is zeros. The other parts are those of an
ordinary Stable Diffusion pipeline, which draws from prompts alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from diffusers import AutoencoderKL, SchedulerMixin, StableDiffusionPipeline, UNet2DConditionModel
from diffusers.pipelines.stable_diffusion.pipeline_output import StableDiffusionPipelineOutput
from PIL import Image
from transformers import CLIPTextModel, PreTrainedTokenizerBase

from scenewright.tools.backends.editing import encode_picture


class ChannelEditPipeline(StableDiffusionPipeline):  # type: ignore[misc]
    """Edits pictures by instruction; the parts of a Stable Diffusion pipeline and an ``editor``."""

    model_cpu_offload_seq = "text_encoder->unet->editor->vae"

    def __init__(
        self,
        vae: AutoencoderKL,
        text_encoder: CLIPTextModel,
        tokenizer: PreTrainedTokenizerBase,
        unet: UNet2DConditionModel,
        editor: UNet2DConditionModel,
        scheduler: SchedulerMixin,
        safety_checker: None = None,
        feature_extractor: None = None,
        image_encoder: None = None,
        requires_safety_checker: bool = False,
    ) -> None:
        """Join the parts; raises ``ValueError`` if ``editor`` was made for other latents."""
        super().__init__(
            vae=vae,
            text_encoder=text_encoder,
            tokenizer=tokenizer,
            unet=unet,
            scheduler=scheduler,
            safety_checker=safety_checker,
            feature_extractor=feature_extractor,
            image_encoder=image_encoder,
            requires_safety_checker=requires_safety_checker,
        )
        self.register_modules(editor=editor)
        channels, taken = vae.config.latent_channels, editor.config.in_channels
        self.pictures = taken // channels - 1
        if taken % channels or self.pictures < 1 or editor.config.out_channels != channels:
            raise ValueError(
                f"the editor takes {taken} channels and gives {editor.config.out_channels}, the "
                f"autoencoder has {channels}: it must take a multiple of these, at least two"
            )

    @torch.no_grad()
    def __call__(
        self,
        prompt: str,
        image: Sequence[Image.Image],
        height: int | None = None,
        width: int | None = None,
        num_inference_steps: int = 20,
        guidance_scale: float = 3.0,
        generator: torch.Generator | None = None,
        output_type: str = "pil",
        callback_on_step_end: Callable[..., dict[str, Any]] | None = None,
    ) -> StableDiffusionPipelineOutput:
        """Return the first picture of ``image`` changed as ``prompt`` says.

        The others are what the prompt speaks of. Above 1, ``guidance_scale`` strengthens what the
        prompt and they change, compared to what the first picture alone gives. Raises
        ``ValueError`` for no picture or more than the editor takes.
        """
        if not 1 <= len(image) <= self.pictures:
            raise ValueError(f"{len(image)} pictures were given: give 1 to {self.pictures}")
        side = self.editor.config.sample_size * self.vae_scale_factor
        width, height = width or side, height or side
        device = self._execution_device
        self._guidance_scale = guidance_scale
        guided = guidance_scale > 1.0
        words, none = self.encode_prompt(prompt, device, 1, guided)
        seen = self._seen(image, (width, height), words.dtype)
        if guided:
            words = torch.cat([none, words])
            seen = torch.cat([self._seen(image[:1], (width, height), words.dtype), seen])
        self.scheduler.set_timesteps(num_inference_steps, device=device)
        self._num_timesteps = len(self.scheduler.timesteps)
        channels = self.vae.config.latent_channels
        latents = self.prepare_latents(1, channels, height, width, words.dtype, device, generator)
        extra = self.prepare_extra_step_kwargs(generator, 0.0)
        for step, time in enumerate(self.scheduler.timesteps):
            scaled = self.scheduler.scale_model_input(latents, time).expand(len(seen), -1, -1, -1)
            found = self.editor(
                torch.cat([scaled, seen], 1), time, encoder_hidden_states=words
            ).sample
            if guided:
                plain, told = found.chunk(2)
                found = plain + guidance_scale * (told - plain)
            latents = self.scheduler.step(found, time, latents, **extra).prev_sample
            if callback_on_step_end is not None:
                latents = callback_on_step_end(self, step, time, {"latents": latents})["latents"]
        pixels = self.vae.decode(latents / self.vae.config.scaling_factor).sample
        images = self.image_processor.postprocess(pixels, output_type, [True])
        self.maybe_free_model_hooks()
        return StableDiffusionPipelineOutput(images=images, nsfw_content_detected=None)

    def _seen(
        self, pictures: Sequence[Image.Image], size: tuple[int, int], dtype: torch.dtype
    ) -> torch.Tensor:
        """Return the channels of ``pictures`` at ``size``; zeros for those that are not given."""
        found = [
            encode_picture(
                self, picture.convert("RGB").resize(size, Image.Resampling.LANCZOS), "grid"
            )
            for picture in pictures
        ]
        found += [torch.zeros_like(found[0])] * (self.pictures - len(found))
        return torch.cat(found, 1).to(dtype)
