"""The autoencoder's codes: what cells show, and codes that are even when they are shipped."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from diffusers import AutoencoderKL

from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.autoencoder import (
    FACTOR,
    LATENT_CHANNELS,
    Codes,
    export_autoencoder,
    new_autoencoder,
    picture_loss,
)
from scenewright.miniature.training.cells import (
    NOTHING_COLOR,
    NOTHING_KIND,
    UNTOLD,
    cells_of_painting,
)
from scenewright.miniature.training.loop import Training, to_pixels
from scenewright.miniature.world import COLORS, KINDS

VAE = Path(__file__).parents[3] / "scenewright" / "miniature" / "weights" / "generator" / "vae"


@pytest.mark.parametrize("seed", range(6))
def test_cells_tell_what_covers_them(seed: int) -> None:
    painting = sample_painting(random.Random(f"cells {seed}"), 5)
    cells = cells_of_painting(painting.truth, FACTOR)
    kinds, colors = list(KINDS), list(COLORS)
    told = set()
    for row, column in np.argwhere((cells.kinds >= 0).numpy()):
        kind, color = int(cells.kinds[row, column]), int(cells.colors[row, column])
        pixels = cells.objects.view(16, 8, 16, 8)[row, :, column]
        if kind == NOTHING_KIND:
            assert color == NOTHING_COLOR
            assert pixels.mean() < 0.05
        else:
            assert pixels.mean() >= 0.3
            told.add((kinds[kind], colors[color]))
    asked = {(o.name, o.attributes["color"]) for o in painting.scene.objects}
    assert told <= asked
    assert len(told) >= len(asked) - 1  # one may be hidden
    assert (cells.kinds == UNTOLD).any()


def test_losses_see_what_pixels_hardly_tell() -> None:
    painting = sample_painting(random.Random("losses"), 6)
    cells = cells_of_painting(painting.truth, FACTOR)
    wanted, objects = to_pixels([painting.image]), cells.objects[None]
    wrong_thing, wrong_ground = wanted.clone(), wanted.clone()
    # The same number of pixels is wrong by as much, on things and on the ground.
    count = int(objects.sum().item())
    ground = (objects == 0).flatten().nonzero()[:count, 0]
    wrong_thing.view(1, 3, -1)[..., (objects == 1).flatten()] += 0.2
    wrong_ground.view(1, 3, -1)[..., ground] += 0.2
    thing = picture_loss(wrong_thing, wanted, objects)
    assert thing > 1.5 * picture_loss(wrong_ground, wanted, objects)
    assert picture_loss(wanted, wanted, objects) == 0


@torch.no_grad()
def test_exported_codes_are_even_and_decode_as_in_training(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, codes = new_autoencoder(), Codes()
    codes.even.momentum = 0.5
    seen = to_pixels([sample_painting(random.Random(f"even {n}"), 4).image for n in range(8)])
    for _ in range(12):
        latents = codes.even(model.encode(seen).latent_dist.mean)
    modules = {"autoencoder": model, "codes": codes}
    state = Training(
        tmp_path / "none.pt", dict(modules), torch.optim.SGD(model.parameters(), lr=0.1), 1, float
    )
    export_autoencoder(state, tmp_path / "vae")
    shipped = AutoencoderKL.from_pretrained(tmp_path / "vae", torch_dtype=torch.float32)
    found = shipped.encode(seen).latent_dist.mean
    assert found.mean((0, 2, 3)).abs().max() < 0.1
    assert (found.std((0, 2, 3)) - 1).abs().max() < 0.1
    torch.testing.assert_close(found, latents, atol=0.1, rtol=0)
    torch.testing.assert_close(
        shipped.decode(found).sample, model.decode(latents).sample, atol=0.05, rtol=0
    )


@torch.no_grad()
def test_shipped_codes_tell_black_from_green() -> None:
    model = AutoencoderKL.from_pretrained(VAE, torch_dtype=torch.float32)
    paintings = [sample_painting(random.Random(f"held-out codes {n}"), 5) for n in range(24)]
    pixels = to_pixels([painting.image for painting in paintings])
    shown = model.decode(model.encode(pixels).latent_dist.mean).sample
    assert model.config.latent_channels == LATENT_CHANNELS
    wrong = []
    for painting, made in zip(paintings, shown, strict=True):
        cells = cells_of_painting(painting.truth, FACTOR)
        for at, (name, rgb) in enumerate(COLORS.items()):
            whole = (cells.colors == at).repeat_interleave(8, 0).repeat_interleave(8, 1)
            mask = whole & (cells.objects > 0)
            if mask.sum() < 300:
                continue
            original = to_pixels([painting.image])[0][:, mask].mean(1)
            if (made[:, mask].mean(1) - original).abs().max() > 0.2:
                wrong.append((name, rgb))
    assert not wrong
