"""Draw pictures anew by the last steps of the miniature's generator: what it makes of paintings."""

from __future__ import annotations

from pathlib import Path

import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel

from scenewright.miniature.training.text import load_text_encoder

GENERATOR = Path(__file__).resolve().parent.parent / "weights" / "generator"
_STEPS = 20


class Redrawer:
    """Draws the last steps of pictures anew, without a prompt: places and shapes stay."""

    def __init__(self, folder: Path = GENERATOR, device: torch.device | None = None) -> None:
        """Load the generator of ``folder``."""
        self._device = device or torch.device("cpu")
        self._vae = AutoencoderKL.from_pretrained(folder / "vae", torch_dtype=torch.float32)
        self._unet = UNet2DConditionModel.from_pretrained(
            folder / "unet", torch_dtype=torch.float32
        )
        self._scheduler = DDIMScheduler.from_pretrained(folder / "scheduler")
        self._scheduler.set_timesteps(_STEPS)
        tokenizer, text = load_text_encoder(folder, self._device)
        for model in (self._vae, self._unet):
            model.to(self._device).eval().requires_grad_(False)
        ids = tokenizer("", padding="max_length", return_tensors="pt")["input_ids"]
        with torch.no_grad():
            self._words = text(input_ids=ids.to(self._device)).last_hidden_state

    @torch.no_grad()
    def __call__(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Return pictures (float [n, 3, side, side] in −1…1) encoded and decoded.

        Every other time the last step is drawn anew, too.
        """
        steps = int(torch.randint(2, (1,), generator=generator))
        drawn: torch.Tensor = self._vae.decode(self.codes(pixels, steps, generator)).sample
        return drawn.clamp(-1, 1).cpu()

    @torch.no_grad()
    def codes(self, pixels: torch.Tensor, steps: int, generator: torch.Generator) -> torch.Tensor:
        """Return the codes of pictures after the last ``steps`` steps are drawn anew."""
        scale = self._vae.config.scaling_factor
        latents: torch.Tensor = self._vae.encode(pixels.to(self._device)).latent_dist.mean * scale
        if steps:
            times = self._scheduler.timesteps[-steps:]
            noise = torch.randn(latents.shape, generator=generator).to(self._device)
            latents = self._scheduler.add_noise(latents, noise, times[:1])
            words = self._words.expand(len(latents), -1, -1)
            for time in times:
                found = self._unet(latents, time, encoder_hidden_states=words).sample
                latents = self._scheduler.step(found, time, latents).prev_sample
        found_codes: torch.Tensor = latents / scale
        return found_codes
