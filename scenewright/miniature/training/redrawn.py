"""Flawed paintings as the miniature's generator would draw them: what judges look at in runs."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from diffusers import AutoencoderKL, DDIMScheduler, UNet2DConditionModel
from PIL import Image

from scenewright.miniature.training.flaws import Flawed, flawed, sample_training_painting
from scenewright.miniature.training.loop import to_pixels
from scenewright.miniature.training.text import load_text_encoder

GENERATOR = Path(__file__).resolve().parent.parent / "weights" / "generator"
_STEPS = 20
_PART = 200
"""Pictures a file."""


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
    def __call__(
        self, pixels: torch.Tensor, generator: torch.Generator, most_steps: int = 1
    ) -> torch.Tensor:
        """Return pictures (float [n, 3, side, side] in −1…1) with up to ``most_steps`` steps anew.

        With none of them they are only encoded and decoded.
        """
        codes = self.codes(pixels, int(torch.randint(most_steps + 1, (1,), generator=generator)),
                           generator)  # fmt: skip
        drawn: torch.Tensor = self._vae.decode(codes).sample
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
        return latents / scale


class RedrawnPaintings:
    """Flawed paintings that a :class:`Redrawer` drew once, for all judges that learn from them."""

    def __init__(self, work: Path, count: int, seed: int, share: float, crowded: float) -> None:
        """Draw ``count`` paintings, or read what lies in ``work``.

        ``seed`` makes them others; ``share`` and ``crowded`` as in
        :func:`~scenewright.miniature.training.flaws.flawed` and
        :func:`~scenewright.miniature.training.flaws.sample_training_painting`.
        """
        self._seed, self._share, self._crowded = seed, share, crowded
        self._nth = lru_cache(maxsize=None)(self._painted)
        redraw: Redrawer | None = None
        parts = []
        for start in range(0, count, _PART):
            path = work / f"redrawn-{seed}" / f"{start}.npy"
            if not path.is_file():
                redraw = redraw or Redrawer()
                self._draw(redraw, start, path)
                print(f"redrawn {start + _PART}/{count}", flush=True)
            parts.append(np.load(path))
        self._pictures = np.concatenate(parts)[:count]

    def __len__(self) -> int:
        """Return the number of paintings."""
        return len(self._pictures)

    def nth(self, index: int) -> Flawed:
        """Return a painting with the picture that the generator drew."""
        return replace(self._nth(index), image=Image.fromarray(self._pictures[index]))

    def _painted(self, index: int) -> Flawed:
        rng = random.Random(f"redrawn {self._seed} {index}")
        return flawed(rng, sample_training_painting(rng, self._crowded), self._share)

    def _draw(self, redraw: Redrawer, start: int, path: Path) -> None:
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + start)
        images = [self._nth(index).image for index in range(start, start + _PART)]
        drawn = torch.cat(
            [redraw(to_pixels(images[at : at + 8]), generator) for at in range(0, _PART, 8)]
        )
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_suffix(".part")
        with part.open("wb") as file:
            np.save(file, ((drawn.permute(0, 2, 3, 1) + 1) * 127.5).round().to(torch.uint8).numpy())
        part.replace(path)
