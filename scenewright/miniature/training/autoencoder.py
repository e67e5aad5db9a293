"""Trains the autoencoder of the miniature generator on fresh paintings."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKL
from torch import nn
from torch.nn import functional

from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    pick_device,
)

LATENT_CHANNELS = 8
_CROPPED = 0.85
# Share of the steps on crops; the rest, on whole pictures, settles the norms' statistics.
FACTOR = 8
"""Pixels a latent cell covers, along each side."""


def new_autoencoder() -> AutoencoderKL:
    """An untrained autoencoder: 128×128×3 ↔ 16×16×8.

    Few channels where pixels are many: the pictures are flat, and a CPU trains it.
    """
    return AutoencoderKL(
        block_out_channels=(8, 16, 48, 96),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=4,
        sample_size=128,
        mid_block_add_attention=False,
        scaling_factor=1.0,
    )


def _tensor(images: list[np.ndarray[Any, Any]]) -> torch.Tensor:
    return torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def pictures(rng: random.Random, count: int, crowded: bool = False) -> torch.Tensor:
    """``count`` fresh paintings, float in [−1, 1], shape (count, 3, 128, 128).

    ``crowded`` ones hold 4 to 7 objects: more to learn from each.
    """
    sizes = [rng.randint(4, 7) if crowded else None for _ in range(count)]
    return _tensor([np.asarray(sample_painting(rng, size).image) for size in sizes])


def crops(rng: random.Random, count: int, side: int = 64) -> torch.Tensor:
    """``count`` crops of fresh paintings around their objects, shape (count, 3, side, side)."""
    found: list[np.ndarray[Any, Any]] = []
    while len(found) < count:
        painting = sample_painting(rng)
        picture = np.asarray(painting.image)
        for box in painting.truth.boxes.values():
            x, y = (int(c) - side // 2 + rng.randint(-12, 12) for c in box.center)
            x, y = (min(max(v, 0), picture.shape[0] - side) for v in (x, y))
            found.append(picture[y : y + side, x : x + side])
    rng.shuffle(found)
    return _tensor(found[:count])


def _edges(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[..., :, 1:] - x[..., :, :-1], x[..., 1:, :] - x[..., :-1, :]


def _opponents(x: torch.Tensor) -> torch.Tensor:
    """Differences of the colour channels: where hue lives, whatever the brightness."""
    return x - x.roll(1, dims=1)


def picture_loss(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """L1 with more weight near edges, plus L1 of hue and of edges, so thin and pale parts count."""
    dx, dy = _edges(wanted)
    detail = functional.pad(dx.abs(), (0, 1)) + functional.pad(dy.abs(), (0, 0, 0, 1))
    weight = 1 + 6 * functional.max_pool2d(detail.mean(1, keepdim=True), 5, 1, 2).clamp(max=0.5)
    edges = sum((a - b).abs().mean() for a, b in zip(_edges(made), (dx, dy), strict=True))
    hue = ((_opponents(made) - _opponents(wanted)).abs() * weight).mean()
    return ((made - wanted).abs() * weight).mean() + edges + hue


def code_loss(latents: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Makes the first three channels the colours of the cells: without it, hue is learned last."""
    return functional.mse_loss(latents[:, :3], 2 * functional.avg_pool2d(wanted, FACTOR))


def train_autoencoder(
    out: Path,
    work: Path,
    steps: int = 6000,
    batch: int = 16,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train and write the autoencoder (diffusers layout) to ``out``; resumes from ``work``.

    Latents are whitened. Returns whether the last step was reached.
    """
    where = pick_device(device)
    torch.manual_seed(seed)
    model = new_autoencoder().to(where)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0)
    state = Training(
        work / "autoencoder.pt",
        {"autoencoder": model},
        optimizer,
        steps,
        lambda step: cosine_rate(step, steps, 100),
        decay=0.998,
    )
    model.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        wanted = (
            crops(random.Random(f"{seed} {step}"), batch)
            if step < _CROPPED * steps
            else pictures(random.Random(f"{seed} {step}"), batch // 4)
        )
        wanted = wanted.to(where, memory_format=torch.channels_last)
        with autocast(where):
            latents = model.encode(wanted).latent_dist.mean
            # Noise keeps neighbouring codes alike in meaning, which diffusion needs.
            made = model.decode(latents + 0.1 * torch.randn_like(latents)).sample
        loss = picture_loss(made.float(), wanted) + code_loss(latents.float(), wanted)
        prior = latents.float().pow(2).mean()
        l1 = (made.detach().float() - wanted).abs().mean().item()
        return loss + 0.01 * (prior - 1).clamp(min=0) + 0.001 * prior, {
            "l1": l1,
            "z2": prior.item(),
        }

    finished = state.run(loss_of, max_seconds)
    state.load_averages()
    export_autoencoder(model, out, seed)
    return finished


def polish_decoder(
    out: Path,
    work: Path,
    steps: int = 800,
    batch: int = 4,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train only the decoder of the autoencoder in ``out`` further, on whole pictures.

    The codes stay what they are, so a denoiser trained on them keeps its worth.
    """
    where = pick_device(device)
    torch.manual_seed(seed)
    model = AutoencoderKL.from_pretrained(out, torch_dtype=torch.float32).to(where)
    model.requires_grad_(False)
    learning = nn.ModuleList([model.post_quant_conv, model.decoder]).requires_grad_(True)
    state = Training(
        work / "decoder.pt",
        {"decoder": learning},
        torch.optim.AdamW(learning.parameters(), lr=1e-3, betas=(0.9, 0.98), weight_decay=0.0),
        steps,
        lambda step: cosine_rate(step, steps, 30),
        decay=0.99,
    )

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        wanted = pictures(random.Random(f"decoder {seed} {step}"), batch, crowded=True).to(where)
        with autocast(where):
            with torch.no_grad():
                latents = model.encode(wanted).latent_dist.mean
            made = model.decode(latents + 0.1 * torch.randn_like(latents)).sample
        l1 = (made.detach().float() - wanted).abs().mean().item()
        return picture_loss(made.float(), wanted), {"l1": l1}

    finished = state.run(loss_of, max_seconds)
    state.load_averages()
    model.cpu().eval().half().save_pretrained(out, safe_serialization=True)
    forget_origin(out)
    return finished


@torch.no_grad()
def whiten_latents(model: AutoencoderKL, seed: int = 0, count: int = 512) -> None:
    """Make the latents of paintings uncorrelated, of mean 0 and variance 1, in place.

    The two 1×1 convolutions around the latents take the change up, so pictures decode as
    before. Without it the ground, which is most of a picture, makes most of the variance,
    and what tells a black thing from a green one drowns in the noise of diffusion.
    """
    where = next(model.parameters()).device
    rng = random.Random(f"whiten {seed}")
    scale = model.config.scaling_factor
    cells = []
    for _ in range(0, count, 32):
        latents = model.encode(pictures(rng, 32).to(where)).latent_dist.mean * scale
        cells.append(latents.movedim(1, -1).flatten(0, 2).double())
    data = torch.cat(cells)
    middle = data.mean(0)
    values, vectors = torch.linalg.eigh(torch.cov(data.T))
    # A floor keeps directions that hold next to nothing from being blown up.
    whiten = vectors @ torch.diag((values + 0.005 * values.sum()).rsqrt()) @ vectors.T
    whiten = whiten / ((data - middle) @ whiten.T).std()
    unwhiten = torch.linalg.inv(whiten)
    before, after = model.quant_conv, model.post_quant_conv
    assert before is not None
    assert after is not None
    weight, bias = before.weight.double(), before.bias.double()
    means = slice(0, len(middle))  # the other half of the channels are log-variances
    before.weight[means] = (scale * whiten @ weight[means, :, 0, 0])[..., None, None].float()
    before.bias[means] = (whiten @ (scale * bias[means] - middle)).float()
    weight = after.weight.double()[..., 0, 0]
    after.bias += (weight @ middle / scale).float()
    after.weight.copy_((weight @ unwhiten / scale)[..., None, None].float())
    model.register_to_config(scaling_factor=1.0)


@torch.no_grad()
def export_autoencoder(model: nn.Module, out: Path, seed: int) -> None:
    """Write ``model`` in half precision, with whitened latents."""
    model.eval().cpu()
    assert isinstance(model, AutoencoderKL)
    whiten_latents(model, seed)
    model.half().save_pretrained(out, safe_serialization=True)
