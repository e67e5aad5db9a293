"""Trains the IP-Adapter of the miniature generator, in two stages.

First the image encoder learns to read a picture into the language of the text encoder:
the token of a patch becomes what the words that describe the thing there would be. An
adapter whose keys and values start as copies of the text's then works at once. Second,
keys, values and projection are trained in place in the frozen denoiser, with prompts
that leave out what the references show.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import (
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
)

from scenewright.agents.composers.rules import describe
from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_batch import dense_truth, weather
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    pick_device,
    to_pixels,
)
from scenewright.miniature.training.text import WIDTH, Caption, load_text_encoder, pad
from scenewright.miniature.world import COLORS, KINDS, SETTINGS, SIZE

PATCH = 16
GRID = SIZE // PATCH
ADAPTER_FILE = "ip-adapter.safetensors"
"""Weights of the projection, keys and values, in the published layout."""
_CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
_CLIP_STD = (0.26862954, 0.26130258, 0.27577711)


def new_image_encoder() -> CLIPVisionModelWithProjection:
    """Return an untrained CLIP vision encoder; its last but one layer is what the adapter reads."""
    return CLIPVisionModelWithProjection(
        CLIPVisionConfig(
            hidden_size=WIDTH,
            intermediate_size=3 * WIDTH,
            num_hidden_layers=4,
            num_attention_heads=4,
            image_size=SIZE,
            patch_size=PATCH,
            projection_dim=WIDTH,
            hidden_act="gelu",
            attn_implementation="eager",  # its backward pass is the faster one on CPUs
        )
    )


class Reader(nn.Module):
    """Image encoder, the adapter's projection, and the heads that help in the first stage."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = new_image_encoder()
        # The layout of diffusers' IPAdapterFullImageProjection.
        self.proj = nn.Sequential(
            nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        )
        self.kind = nn.Linear(WIDTH, len(KINDS) + 1)
        self.color = nn.Linear(WIDTH, len(COLORS) + 1)

    def normal(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pictures in [−1, 1] → as CLIP's image processor hands them over."""
        mean = torch.tensor(_CLIP_MEAN, device=pixels.device)[:, None, None]
        std = torch.tensor(_CLIP_STD, device=pixels.device)[:, None, None]
        return ((pixels + 1) / 2 - mean) / std

    def see_normal(self, normal: torch.Tensor) -> torch.Tensor:
        """Return the hidden states (batch, 65, width) of the last layer but one."""
        states: torch.Tensor = self.encoder(normal, output_hidden_states=True).hidden_states[-2]
        return states

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Pictures in [−1, 1] → hidden states (batch, 65, width) of the last but one layer."""
        return self.see_normal(self.normal(pixels))


def load_reader(adapter: Path) -> Reader:
    """Return the image encoder and projection of a written adapter; the helping heads are new."""
    reader = Reader()
    encoder = CLIPVisionModelWithProjection.from_pretrained(
        adapter / "image_encoder", dtype=torch.float32
    )
    reader.encoder.load_state_dict(encoder.state_dict())
    prefix = "image_proj.proj."
    tensors = load_file(adapter / ADAPTER_FILE)
    reader.proj.load_state_dict(
        {k.removeprefix(prefix): v.float() for k, v in tensors.items() if k.startswith(prefix)}
    )
    return reader


def full_caption(painting: Painting, tokenizer: CLIPTokenizer) -> Caption:
    """Return the composed description of everything in the painting."""
    truth = painting.truth
    return pad(describe(painting.scene, truth.cells, SETTINGS[truth.setting]), tokenizer, True)


def patch_words(painting: Painting, words: Caption, ends: int) -> list[int]:
    """For CLS and each of the 64 patches the token whose state it should become.

    A thing's patches take the last token of its own description; the ground and CLS take
    the token at ``ends``.
    """
    boxes = painting.truth.boxes
    last: dict[str, int] = {}
    for at, owner in enumerate(words.owners):
        if owner is not None and (owner not in last or at == last[owner] + 1):
            last[owner] = at
    found = [ends] * (1 + GRID * GRID)
    for object_id in sorted(last, key=lambda key: -boxes[key].width * boxes[key].height):
        box = boxes[object_id]
        middle_x, middle_y = box.center
        for patch in range(GRID * GRID):
            x, y = (patch % GRID + 0.5) * PATCH, (patch // GRID + 0.5) * PATCH
            inside = abs(x - middle_x) < box.width / 2 and abs(y - middle_y) < box.height / 2
            if inside or max(abs(x - middle_x), abs(y - middle_y)) <= PATCH / 2:
                found[1 + patch] = last[object_id]
    return found


def train_reader(
    out: Path,
    work: Path,
    steps: int = 1500,
    batch: int = 32,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    adapter: Path | None = None,
) -> tuple[Reader, bool]:
    """Return the first stage; ``out`` holds ``text_encoder`` and ``tokenizer``.

    Resumes from ``work``.

    ``adapter`` holds a written adapter to begin with, in place of random weights.
    """
    where = pick_device(device)
    torch.manual_seed(seed)
    tokenizer, text = load_text_encoder(out, where)
    reader = (Reader() if adapter is None else load_reader(adapter)).to(where)
    optimizer = torch.optim.AdamW(reader.parameters(), lr=1.5e-3, betas=(0.9, 0.98))
    state = Training(
        work / "reader.pt",
        {"reader": reader},
        optimizer,
        steps,
        lambda step: cosine_rate(step, steps, 100),
        decay=0.99,
    )

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        rng = random.Random(f"reader {seed} {step}")
        made = [sample_painting(rng) for _ in range(batch)]
        captions = [full_caption(painting, tokenizer) for painting in made]
        ids = torch.tensor([words.ids for words in captions], device=where)
        end = (ids == tokenizer.eos_token_id).int().argmax(-1).tolist()
        pick = torch.tensor(
            [patch_words(p, w, e) for p, w, e in zip(made, captions, end, strict=True)],
            device=where,
        )
        truths = [dense_truth(painting.truth) for painting in made]
        kinds = torch.stack([torch.from_numpy(t.kinds) for t in truths]).to(where).flatten()
        colors = torch.stack([torch.from_numpy(t.colors) for t in truths]).to(where).flatten()
        chance = torch.Generator().manual_seed(rng.getrandbits(60))
        pixels = weather(to_pixels([p.image for p in made]), chance, 0.5).to(where)
        with torch.no_grad():
            states = text(input_ids=ids).last_hidden_state
            wanted = states.gather(1, pick[..., None].expand(-1, -1, WIDTH))
        with autocast(where):
            seen = reader.see(pixels)
            tokens = reader.proj(seen).float()
            kind = reader.kind(seen[:, 1:]).float().flatten(0, 1)
            color = reader.color(seen[:, 1:]).float().flatten(0, 1)
        things = torch.cat([torch.zeros(batch, 1, device=where), (kinds > 0).view(batch, -1)], 1)
        error = (tokens - wanted).pow(2).mean(-1)
        reading = (error * (0.3 + things)).mean() / (0.3 + things).mean()
        told = functional.cross_entropy(kind, kinds) + 0.7 * functional.cross_entropy(color, colors)
        right = (kind.argmax(-1) == kinds)[kinds > 0].float().mean().item()
        return reading + 0.5 * told, {"reading": reading.item(), "things": right}

    finished = state.run(loss_of, max_seconds)
    state.load_averages()
    return reader, finished


def write_adapter(
    out: Path, reader: Reader, keys: list[torch.Tensor], values: list[torch.Tensor]
) -> None:
    """Write the adapter in the published layout, its image encoder beside it, in half precision."""
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in reader.proj.state_dict().items():
        tensors[f"image_proj.proj.{name}"] = tensor
    for at, (key, value) in enumerate(zip(keys, values, strict=True)):
        tensors[f"ip_adapter.{2 * at + 1}.to_k_ip.weight"] = key
        tensors[f"ip_adapter.{2 * at + 1}.to_v_ip.weight"] = value
    out.mkdir(parents=True, exist_ok=True)
    save_file(
        {k: v.detach().cpu().half().contiguous() for k, v in tensors.items()},
        out / ADAPTER_FILE,
    )
    encoder = new_image_encoder()
    encoder.load_state_dict(reader.encoder.state_dict())
    encoder.half().save_pretrained(out / "image_encoder", safe_serialization=True)


def altered(rng: random.Random, image: Image.Image) -> Image.Image:
    """Return a picture as a generator might give it.

    A little smaller and back, so a little soft.
    """
    side = rng.choice((64, 80, 96, 128))
    return image.resize((side, side), Image.Resampling.BILINEAR).resize(
        image.size, Image.Resampling.BICUBIC
    )
