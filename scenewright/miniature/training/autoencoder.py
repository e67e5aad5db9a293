"""Trains the autoencoder of the miniature generator on fresh paintings.

Its codes must tell more than pixels: from every code, through noise, a linear layer reads
which kind and which colour of thing the cell shows. Differences that are few in pixels (black
against green) are large in such codes, and the denoiser learns them early (the idea of
aligning latents with meaning: VA-VAE, CVPR 2025).

Trained onward, the decoder alone learns: codes stay those that a denoiser knows. Half of them have
been through the denoiser then, so that the decoder draws whole things from what it blurs.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path

import torch
from diffusers import AutoencoderKL
from torch import nn
from torch.nn import functional

from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.cells import (
    NOTHING_COLOR,
    NOTHING_KIND,
    Cells,
    cells_of_painting,
)
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    join_workers,
    pick_device,
    share_of,
    to_pixels,
)
from scenewright.miniature.training.redrawing import Redrawer
from scenewright.miniature.truth import Painting

LATENT_CHANNELS = 12
FACTOR = 8
"""Pixels a latent cell covers, along each side."""
_CROWDED = (3, 4, 5, 6, 6, 7, 7, 8)
"""Objects in a painting to learn from: the more, the more each step tells."""
_WINDOW, _DARK, _FLAT = 5, 4e-4, 4e-3
"""Window of SSIM, and what keeps its ratios finite where a window is dark or flat."""
_BLUR, _DOUBT = 0.15, 0.6
"""Noise (codes have a standard deviation of 1) on what is decoded and on what is read."""


def new_autoencoder() -> AutoencoderKL:
    """Return an untrained autoencoder: 128×128×3 ↔ 16×16×12.

    Few channels where pixels are many: the pictures are flat, and a CPU trains it.
    """
    return AutoencoderKL(
        block_out_channels=(16, 32, 64, 128),
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        layers_per_block=1,
        latent_channels=LATENT_CHANNELS,
        norm_num_groups=8,
        sample_size=128,
        mid_block_add_attention=False,
        scaling_factor=1.0,
    )


def _sample(rng: random.Random) -> Painting:
    """Return a painting, in two of three cases with most things in contact: these are small."""
    if rng.random() < 1 / 3:
        return sample_painting(rng, rng.choice(_CROWDED))
    return sample_painting(rng, rng.choice(_CROWDED), p_contact=0.9, even_contacts=True)


def _edges(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x[..., :, 1:] - x[..., :, :-1], x[..., 1:, :] - x[..., :-1, :]


def _opponents(x: torch.Tensor) -> torch.Tensor:
    """Differences of the colour channels: where hue lives, whatever the brightness."""
    return x - x.roll(1, dims=1)


def picture_loss(made: torch.Tensor, wanted: torch.Tensor, objects: torch.Tensor) -> torch.Tensor:
    """L1 of pixels and of hue, L1 of edges, and structure (:func:`structure_loss`).

    Edges count more, so that thin and pale parts count, and so do the pixels of ``objects``,
    (batch, 128, 128): 0 outside of things, and more in small ones.
    """
    dx, dy = _edges(wanted)
    detail = functional.pad(dx.abs(), (0, 1)) + functional.pad(dy.abs(), (0, 0, 0, 1))
    near_edges = functional.max_pool2d(detail.mean(1, keepdim=True), 5, 1, 2).clamp(max=0.5)
    weight = 1 + 4 * near_edges + 3 * objects[:, None]
    across, down = _edges(made)
    known = 1 + objects[:, None]
    edges = ((across - dx).abs() * known[..., :, 1:]).mean()
    edges = edges + ((down - dy).abs() * known[..., 1:, :]).mean()
    hue = ((_opponents(made) - _opponents(wanted)).abs() * weight).mean()
    structure = structure_loss(made, wanted, 0.25 + objects)
    return ((made - wanted).abs() * weight).mean() + 2 * edges + hue + structure


def structure_loss(made: torch.Tensor, wanted: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Return 1 − :func:`similarity` by ``weights`` (batch, h, w)."""
    return ((1 - similarity(made, wanted)) * weights).sum() / weights.sum()


def similarity(made: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return SSIM (Wang et al., 2004) by pixel, (batch, h, w), over windows of 5×5 pixels.

    Pictures are float (batch, 3, h, w) in −1…1; the mean over colours counts. Contrast is compared
    with that of the window, so that the eyes of a face count as much as its outline does.
    """

    def mean(values: torch.Tensor) -> torch.Tensor:
        return functional.avg_pool2d(values, _WINDOW, 1, _WINDOW // 2)

    one, two = (made + 1) / 2, (wanted + 1) / 2
    mean_one, mean_two = mean(one), mean(two)
    spread_one = (mean(one * one) - mean_one**2).clamp(min=0)
    spread_two = (mean(two * two) - mean_two**2).clamp(min=0)
    common = mean(one * two) - mean_one * mean_two
    bright = (2 * mean_one * mean_two + _DARK) / (mean_one**2 + mean_two**2 + _DARK)
    return (bright * (2 * common + _FLAT) / (spread_one + spread_two + _FLAT)).mean(1)


class Codes(nn.Module):
    """Gives codes mean 0 and variance 1, and reads from them what their cells show."""

    def __init__(self) -> None:
        super().__init__()
        self.even = nn.BatchNorm2d(LATENT_CHANNELS, affine=False, momentum=0.02)
        self.kind = nn.Conv2d(LATENT_CHANNELS, NOTHING_KIND + 1, 1)
        self.color = nn.Conv2d(LATENT_CHANNELS, NOTHING_COLOR + 1, 1)

    def reading_loss(
        self, codes: torch.Tensor, kinds: torch.Tensor, colors: torch.Tensor
    ) -> torch.Tensor:
        """Cross-entropy of kinds and colours, both (batch, 16, 16), read through noise."""
        unclear = codes + _DOUBT * torch.randn_like(codes)
        kind, color = self.kind(unclear).float(), self.color(unclear).float()
        return functional.cross_entropy(kind, kinds) + functional.cross_entropy(color, colors)


def train_autoencoder(
    out: Path,
    work: Path,
    steps: int = 6000,
    batch: int = 8,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train and write the autoencoder (diffusers layout) to ``out``; resumes from ``work``.

    Its latents have mean 0 and variance 1. Returns whether the last step was reached.
    """
    where, share = pick_device(device), share_of(batch)
    torch.manual_seed(seed)
    model, codes = new_autoencoder().to(where), Codes().to(where)
    model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(
        [*model.parameters(), *codes.parameters()], lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0
    )
    state = Training(
        work / "autoencoder.pt",
        {"autoencoder": model, "codes": codes},
        optimizer,
        steps,
        lambda step: cosine_rate(step, steps, 100),
        decay=0.998,
        on_save=lambda: export_autoencoder(state, out),
    )
    model.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        wanted, shown = _pictures(f"autoencoder {seed} {step}", share, where)
        kinds, colors, objects = (
            torch.stack([getattr(cells, name) for cells in shown]).to(where)
            for name in ("kinds", "colors", "objects")
        )
        with autocast(where):
            latents = codes.even(model.encode(wanted).latent_dist.mean)
            # Noise keeps neighbouring codes alike in meaning, which diffusion needs.
            made = model.decode(latents + _BLUR * torch.randn_like(latents)).sample
            reading = codes.reading_loss(latents, kinds, colors)
        drawing = picture_loss(made.float(), wanted, objects)
        return drawing + 0.1 * reading, {"drawing": drawing.item(), "reading": reading.item()}

    finished = state.run(loss_of, max_seconds)
    if join_workers()[0] == 0:
        export_autoencoder(state, out)
    return finished


def train_decoder(
    generator: Path,
    work: Path,
    steps: int = 2000,
    batch: int = 4,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train the decoder of the pipeline in ``generator`` onward; resumes from ``work``.

    Encoder and codes stay as they are. Returns whether the last step was reached.
    """
    where, share = pick_device(device), share_of(batch)
    torch.manual_seed(seed)
    redraw = Redrawer(generator, where)
    model = AutoencoderKL.from_pretrained(generator / "vae", torch_dtype=torch.float32).to(where)
    learning = [*model.decoder.parameters(), *model.post_quant_conv.parameters()]
    model.requires_grad_(False)
    for parameter in learning:
        parameter.requires_grad_(True)
    state = Training(
        work / "decoder.pt",
        {"autoencoder": model},
        torch.optim.AdamW(learning, lr=2e-3, betas=(0.9, 0.98), weight_decay=0.0),
        steps,
        lambda step: cosine_rate(step, steps, 50),
        decay=0.995,
        on_save=lambda: _export(state.averages["autoencoder"].values, generator / "vae"),
    )
    model.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        wanted, shown = _pictures(f"decoder {seed} {step}", share, where)
        noise = torch.Generator().manual_seed(seed * 1_000_003 + step)
        half = share // 2
        codes = torch.cat(
            [redraw.codes(wanted[:half], 1, noise), redraw.codes(wanted[half:], 0, noise)]
        )
        codes[half:] += _BLUR * torch.rand(1).item() * torch.randn_like(codes[half:])
        with autocast(where):
            made = model.decode(codes).sample
        objects = torch.stack([cells.objects for cells in shown]).to(where)
        loss = picture_loss(made.float(), wanted, objects)
        return loss, {"drawing": loss.item()}

    finished = state.run(loss_of, max_seconds)
    if join_workers()[0] == 0:
        _export(state.averages["autoencoder"].values, generator / "vae")
    return finished


def _pictures(seed: str, count: int, where: torch.device) -> tuple[torch.Tensor, list[Cells]]:
    """Return pictures (count, 3, 128, 128) in −1…1 and what their cells show."""
    rng = random.Random(f"{seed} {join_workers()[0]}")
    paintings = [_sample(rng) for _ in range(count)]
    pixels = to_pixels([painting.image for painting in paintings])
    shown = [cells_of_painting(painting.truth, FACTOR) for painting in paintings]
    return pixels.to(where, memory_format=torch.channels_last), shown


def _export(values: Mapping[str, torch.Tensor], out: Path) -> None:
    model = new_autoencoder()
    model.load_state_dict({key: value.cpu() for key, value in values.items()})
    model.half().save_pretrained(out, safe_serialization=True)
    forget_origin(out)


@torch.no_grad()
def export_autoencoder(state: Training, out: Path) -> None:
    """Write the averaged autoencoder in half precision, the evening of the codes folded in."""
    model = new_autoencoder()
    model.load_state_dict({k: v.cpu() for k, v in state.averages["autoencoder"].values.items()})
    even = state.averages["codes"].values
    mean, deviation = even["even.running_mean"], (even["even.running_var"] + 1e-5).sqrt()
    last = model.quant_conv
    assert last is not None
    means = slice(0, LATENT_CHANNELS)  # the other half of the channels are log-variances
    last.weight[means] /= deviation[:, None, None, None]
    last.bias[means] = (last.bias[means] - mean) / deviation
    # They are not trained, and pipelines that start from a picture draw its code from them.
    last.weight[LATENT_CHANNELS:] = 0.0
    last.bias[LATENT_CHANNELS:] = -30.0
    model.half().save_pretrained(out, safe_serialization=True)
    forget_origin(out)
