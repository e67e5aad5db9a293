"""The code of the autoencoder: whitening changes the latents and not the pictures."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from diffusers import AutoencoderKL

from scenewright.miniature.training.autoencoder import pictures, whiten_latents

VAE = Path(__file__).parents[3] / "scenewright" / "miniature" / "weights" / "generator" / "vae"


@torch.no_grad()
def test_whitened_latents_are_even_and_decode_as_before() -> None:
    torch.manual_seed(0)
    model = AutoencoderKL.from_pretrained(VAE, torch_dtype=torch.float32)
    model.quant_conv.weight.mul_(torch.linspace(0.5, 2.0, 16)[:, None, None, None])
    model.quant_conv.bias.add_(0.7)
    seen = pictures(random.Random(1), 16)
    before = model.decode(model.encode(seen).latent_dist.mean).sample
    whiten_latents(model, count=96)
    latents = model.encode(seen).latent_dist.mean * model.config.scaling_factor
    after = model.decode(latents / model.config.scaling_factor).sample
    torch.testing.assert_close(after, before, atol=1e-3, rtol=0)
    cells = latents.movedim(1, -1).flatten(0, 2)
    spread = cells.std(0)
    assert 0.6 < spread.min() <= spread.max() < 1.5
    assert cells.mean(0).abs().max() < 0.4
    assert (torch.corrcoef(cells.T) - torch.eye(8)).abs().mean() < 0.12
