"""Trains the denoiser of the miniature generator on latents of paintings.

v-prediction with zero terminal SNR, timesteps drawn towards high noise (that is where
text is learned), and cross-attention that is shown which tokens speak of which place
(the idea of TokenCompose, CVPR 2024: attention of an object's words belongs inside the
object).
"""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import torch
from diffusers import (
    AutoencoderKL,
    DDIMScheduler,
    StableDiffusionPipeline,
    UNet2DConditionModel,
)
from torch import nn
from transformers import CLIPTextModel, CLIPTokenizer

from scenewright.core.closed_vocabulary import write_vocabulary
from scenewright.miniature.painter import Box, Painting, Truth, scale_of
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.autoencoder import FACTOR, LATENT_CHANNELS
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
from scenewright.miniature.training.text import (
    WIDTH,
    AttentionWatch,
    Caption,
    caption,
    load_text_encoder,
)
from scenewright.miniature.world import SIZE, VOCABULARY

SIDE = SIZE // FACTOR
"""Latent cells along each side."""
WATCHED = (SIDE // 2, SIDE)
"""Cells along each side of the maps on which words are attended to: coarse and fine."""
DEFAULTS = {"steps": 20, "guidance": 3.0, "size": [SIZE, SIZE]}
"""How the shipped pipeline is best used."""


def new_scheduler() -> DDIMScheduler:
    """DDIM, v-prediction, zero terminal SNR, trailing timesteps."""
    return DDIMScheduler(
        num_train_timesteps=1000,
        beta_schedule="scaled_linear",
        beta_start=0.00085,
        beta_end=0.012,
        prediction_type="v_prediction",
        rescale_betas_zero_snr=True,
        timestep_spacing="trailing",
        clip_sample=False,
        set_alpha_to_one=True,
        steps_offset=1,
    )


def new_denoiser() -> UNet2DConditionModel:
    """Return an untrained denoiser: 16×16×12 latents, words attended to at 8×8 and 16×16.

    What is small covers one cell of the coarse map; which of its corners it fills is said on
    the fine one.
    """
    return UNet2DConditionModel(
        sample_size=SIDE,
        in_channels=LATENT_CHANNELS,
        out_channels=LATENT_CHANNELS,
        layers_per_block=1,
        block_out_channels=(48, 96),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DCrossAttn",
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=WIDTH,
        attention_head_dim=4,
        norm_num_groups=16,
    )


def nth_painting(seed: int, index: int) -> Painting:
    """Painting ``index`` of the training set ``seed``: the same on every machine.

    In every other one most things touch, each predicate as often: what is small, inside or
    under another, is learned last.
    """
    rng = random.Random(f"paintings {seed} {index}")
    if index % 2:
        return sample_painting(rng, p_contact=0.9, even_contacts=True)
    return sample_painting(rng)


@cache
def nth_truth(seed: int, index: int) -> Truth:
    """Return the truth of :func:`nth_painting` without painting its pixels."""
    return nth_painting(seed, index).truth


@torch.no_grad()
def encode_paintings(
    vae: AutoencoderKL, count: int, seed: int, path: Path, device: torch.device
) -> np.ndarray[tuple[int, ...], np.dtype[np.float16]]:
    """Scaled latents of ``count`` paintings, float16 (count, 12, 16, 16), kept in ``path``."""
    if path.is_file():
        kept: np.ndarray[tuple[int, ...], np.dtype[np.float16]] = np.load(path)
        if len(kept) >= count:
            return kept[:count]
    vae = vae.to(device).eval()
    parts = []
    for start in range(0, count, 64):
        paintings = [nth_painting(seed, i) for i in range(start, min(start + 64, count))]
        pixels = to_pixels([painting.image for painting in paintings])
        latents = vae.encode(pixels.to(device)).latent_dist.mean * vae.config.scaling_factor
        parts.append(latents.cpu().numpy().astype(np.float16))
        if start % 4096 == 0:
            print(f"encoded {start}/{count}", flush=True)
    made = np.concatenate(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, made)
    return made


def draw_timesteps(count: int, generator: torch.Generator) -> torch.Tensor:
    """Timesteps with density rising linearly, one in six at the very end."""
    u = torch.rand(count, 2, generator=generator).amax(1)
    last = torch.rand(count, generator=generator) < 1 / 6
    return torch.where(last, 999, (u * 1000).long().clamp(max=999))


def cells_of(box: Box, side: int = SIDE) -> torch.Tensor:
    """Return which of side × side cells hold the box, bool (side²,).

    A few pixels beyond a cell do not count.
    """
    cell = SIZE // side
    inside = torch.zeros(side, side, dtype=torch.bool)
    top, left = (box.top + 3) // cell, (box.left + 3) // cell
    bottom, right = (box.top + box.height - 4) // cell, (box.left + box.width - 4) // cell
    inside[top : bottom + 1, left : right + 1] = True
    return inside.flatten()


def place_maps(truth: Truth, words: Caption, side: int) -> torch.Tensor:
    """(side², tokens): 1 where a cell lies in the box of the object that the token speaks of."""
    maps = torch.zeros(side * side, len(words.owners))
    for object_id, box in truth.boxes.items():
        tokens = torch.tensor([owner == object_id for owner in words.owners])
        maps[cells_of(box, side)[:, None] & tokens] = 1.0
    return maps


def emphasis(truths: Sequence[Truth]) -> torch.Tensor:
    """Weights (batch, 16, 16) of latent cells, 1 on average.

    An object's cells count four-fold, those of one that touches another eight-fold, of one drawn
    small twelve-fold.

    The ground is most of a picture, and it is easy; heads under hats and what is inside another
    thing are hard.
    """
    weights = torch.ones(len(truths), SIDE * SIDE)
    for row, truth in zip(weights, truths, strict=True):
        touching = {one for source, _, target in truth.contacts for one in (source, target)}
        for item in truth.scene.objects:
            box = truth.boxes[item.id]
            cells = cells_of(box)
            least = 12.0 if scale_of(item, box) < 1 else 8.0 if item.id in touching else 4.0
            row[cells] = row[cells].clamp(min=least)
    return weights.view(-1, SIDE, SIDE) / weights.mean()


def looking_loss(probabilities: torch.Tensor, by_side: Mapping[int, torch.Tensor]) -> torch.Tensor:
    """−log of the attention that goes where the maps are 1; all (batch, side², tokens).

    Of the maps those on as many cells count; cells whose map is empty do not.
    """
    maps = by_side[math.isqrt(probabilities.shape[1])]
    counted = (maps.sum(-1) > 0).float()
    given = (probabilities * maps).sum(-1).clamp(min=1e-4)
    return -(given.log() * counted).sum() / counted.sum().clamp(min=1)


def _silence(model: UNet2DConditionModel, untrained: Iterable[str]) -> None:
    """Let attention blocks among trained layers begin as if they were not there."""
    for name in untrained:
        if ".attentions." in name and ".proj_out." in name:
            nn.init.zeros_(model.get_parameter(name))


def train_generator(
    out: Path,
    work: Path,
    steps: int,
    batch: int = 32,
    paintings: int = 20_000,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    onward: bool = False,
) -> bool:
    """Train the denoiser and write the whole pipeline to ``out``; resumes from ``work``.

    ``out`` must hold ``vae``, ``text_encoder`` and ``tokenizer``; with ``onward`` also the
    trained ``unet`` to begin with, of which layers that fit other latents are left aside.
    Returns whether the last step was reached.
    """
    where, share, worker = pick_device(device), share_of(batch), join_workers()[0]
    torch.manual_seed(seed)
    vae = AutoencoderKL.from_pretrained(out / "vae", torch_dtype=torch.float32)
    tokenizer, text = load_text_encoder(out, where)
    latents = encode_paintings(vae, paintings, seed, work / f"latents-{seed}.npy", where)
    model = new_denoiser()
    if onward:
        trained = UNet2DConditionModel.from_pretrained(out / "unet", torch_dtype=torch.float32)
        fitting = {key: value.shape for key, value in model.state_dict().items()}
        found = {k: v for k, v in trained.state_dict().items() if v.shape == fitting.get(k)}
        model.load_state_dict(found, strict=False)
        _silence(model, fitting.keys() - found.keys())
    model.to(where)
    scheduler = new_scheduler()
    watch = AttentionWatch(model)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1.5e-3, betas=(0.9, 0.98), weight_decay=0.01
    )
    state = Training(
        work / "generator.pt",
        {"unet": model},
        optimizer,
        steps,
        lambda step: cosine_rate(step, steps, 200),
        decay=0.998,
        on_save=lambda: export_denoiser(state, out),
    )
    model.train()

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        rng = random.Random(f"generator {seed} {step} {worker}")
        noise_rng = torch.Generator().manual_seed(rng.getrandbits(60))
        chosen = [rng.randrange(len(latents)) for _ in range(share)]
        made = [nth_truth(seed, index) for index in chosen]
        captions = [caption(truth, rng, tokenizer) for truth in made]
        clean = torch.from_numpy(latents[chosen].astype(np.float32))
        noise = torch.randn(clean.shape, generator=noise_rng)
        times = draw_timesteps(share, noise_rng)
        noisy = scheduler.add_noise(clean, noise, times)
        wanted = scheduler.get_velocity(clean, noise, times)
        pairs = list(zip(made, captions, strict=True))
        maps = {
            side: torch.stack([place_maps(t, c, side) for t, c in pairs]).to(where)
            for side in WATCHED
        }
        ids = torch.tensor([words.ids for words in captions])
        with autocast(where):
            with torch.no_grad():
                states = text(input_ids=ids.to(where)).last_hidden_state
            found = model(noisy.to(where), times.to(where), encoder_hidden_states=states).sample
        errors = (found.float() - wanted.to(where)).pow(2).mean(1)
        denoising = (errors * emphasis(made).to(where)).mean()
        looks = [looking_loss(probabilities, maps) for probabilities in watch.taken()]
        attention = torch.stack(looks).mean()
        return denoising + 0.03 * attention, {
            "v": denoising.item(),
            "attention": attention.item(),
        }

    finished = state.run(loss_of, max_seconds)
    if worker == 0:
        export_denoiser(state, out)
    return finished


def export_denoiser(state: Training, out: Path) -> None:
    """Write the averaged denoiser in half precision and make ``out`` a whole pipeline."""
    model = new_denoiser()
    model.load_state_dict({k: v.cpu() for k, v in state.averages["unet"].values.items()})
    pipe = StableDiffusionPipeline(
        vae=AutoencoderKL.from_pretrained(out / "vae"),
        text_encoder=CLIPTextModel.from_pretrained(out / "text_encoder"),
        tokenizer=CLIPTokenizer.from_pretrained(out / "tokenizer", local_files_only=True),
        unet=model,
        scheduler=new_scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.to(dtype=torch.float16)
    pipe.save_pretrained(out, safe_serialization=True)
    (out / "scenewright.json").write_text(json.dumps(DEFAULTS, indent=2) + "\n")
    write_vocabulary(out, VOCABULARY)
    forget_origin(out)
