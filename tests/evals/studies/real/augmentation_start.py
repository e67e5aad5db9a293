"""A tiny image encoder to start trainings from, and pictures that it can learn."""

from __future__ import annotations

import random
from pathlib import Path

import torch
from PIL import Image

from scenewright.evals.studies.real.augmentation import Example

COLORS = {"red": (210, 40, 40), "green": (40, 180, 60), "blue": (50, 60, 220)}


def tiny_encoder(folder: Path, kind: str = "clip") -> Path:
    """Write CLIP's vision tower, or a ViT classifier of two classes, with random weights."""
    from transformers import (
        CLIPVisionConfig,
        CLIPVisionModelWithProjection,
        ViTConfig,
        ViTForImageClassification,
    )

    sizes = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "image_size": 32,
        "patch_size": 8,
    }
    torch.manual_seed(0)
    if kind == "clip":
        CLIPVisionModelWithProjection(CLIPVisionConfig(**sizes)).half().save_pretrained(folder)
    else:
        ViTForImageClassification(ViTConfig(**sizes)).save_pretrained(folder)
    return folder


def colored(n: int, seed: int, swap: bool = False) -> list[Example]:
    """``n`` noisy pictures of each colour; with ``swap`` under the next colour's name."""
    rng = random.Random(seed)
    names = list(COLORS)
    found = []
    for at, name in enumerate(names):
        label = names[(at + 1) % len(names)] if swap else name
        for _ in range(n):
            pixel = tuple(min(255, max(0, c + rng.randint(-30, 30))) for c in COLORS[name])
            image = Image.new("RGB", (32, 32), pixel)
            image.putpixel((0, 0), (rng.randrange(256), rng.randrange(256), 0))
            found.append(Example(image, label))
    return found
