"""Draw pictures anew by the last steps of the miniature's generator: what it makes of paintings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

from scenewright.miniature.training.text import caption, load_text_encoder
from scenewright.miniature.truth import Truth

GENERATOR = Path(__file__).resolve().parent.parent / "weights" / "generator"
_STEPS = 20
_GUIDANCE = 3.0


class Redrawer:
    """Draws the last steps of pictures anew: places stay, and shapes where there are few steps."""

    def __init__(self, folder: Path = GENERATOR, device: torch.device | None = None) -> None:
        """Load the generator of ``folder``."""
        self._device = device or torch.device("cpu")
        self._vae = AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=torch.float32)
        self._unet = UNet2DConditionModel.from_pretrained(
            folder / "unet", torch_dtype=torch.float32
        )
        self._scheduler = DDIMScheduler.from_pretrained(folder / "scheduler")
        self._scheduler.set_timesteps(_STEPS)
        self._tokenizer, self._text = load_text_encoder(folder, self._device)
        for model in (self._vae, self._unet):
            model.to(self._device).eval().requires_grad_(False)
        ids = self._tokenizer("", padding="max_length", return_tensors="pt")["input_ids"]
        self._nothing = self._states(ids)

    @torch.no_grad()
    def _states(self, ids: torch.Tensor) -> torch.Tensor:
        states: torch.Tensor = self._text(input_ids=ids.to(self._device)).last_hidden_state
        return states

    @torch.no_grad()
    def __call__(
        self,
        pixels: torch.Tensor,
        steps: int,
        generator: torch.Generator,
        truths: Sequence[Truth] = (),
    ) -> torch.Tensor:
        """Return pictures (float [n, 3, side, side] in −1…1) as :meth:`codes` are decoded."""
        codes = self.codes(pixels, steps, generator, truths)
        drawn: torch.Tensor = self._vae.decode(codes).sample
        return drawn.clamp(-1, 1).cpu()

    @torch.no_grad()
    def codes(
        self,
        pixels: torch.Tensor,
        steps: int,
        generator: torch.Generator,
        truths: Sequence[Truth] = (),
    ) -> torch.Tensor:
        """Return the codes of pictures after the last ``steps`` steps of 20 are drawn anew.

        They are drawn to the captions of ``truths``, with guidance as in runs, or without a prompt.
        """
        scale = self._vae.config.scaling_factor
        latents: torch.Tensor = self._vae.encode(pixels.to(self._device)).latent_dist.mean * scale
        if steps:
            times = self._scheduler.timesteps[-steps:]
            noise = torch.randn(latents.shape, generator=generator).to(self._device)
            latents = self._scheduler.add_noise(latents, noise, times[:1])
            nothing = self._nothing.expand(len(latents), -1, -1)
            words = self._caption_states(truths, generator) if truths else None
            for time in times:
                found = self._unet(latents, time, encoder_hidden_states=nothing).sample
                if words is not None:
                    told = self._unet(latents, time, encoder_hidden_states=words).sample
                    found = found + _GUIDANCE * (told - found)
                latents = self._scheduler.step(found, time, latents).prev_sample
        found_codes: torch.Tensor = latents / scale
        return found_codes

    def _caption_states(self, truths: Sequence[Truth], generator: torch.Generator) -> torch.Tensor:
        rng = random.Random(int(torch.randint(1 << 31, (1,), generator=generator)))
        ids = [caption(truth, rng, self._tokenizer).ids for truth in truths]
        return self._states(torch.tensor(ids))
