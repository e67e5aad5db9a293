"""Training recipe of the miniature segmenter: which kind of thing every pixel shows.

A SegFormer in the ordinary transformers layout, as those for ADE20K or COCO are, so that the
detectors of :mod:`scenewright.tools.vision.extraction` meet the same classes here as there.
``scenewright miniature train segmenter`` trains or continues it.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional
from transformers import (
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SegformerImageProcessorPil,
)

from scenewright.miniature.damage import DamageRequest, damage, masks_of
from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_batch import weather
from scenewright.miniature.training.loop import (
    Training,
    autocast,
    cosine_rate,
    forget_origin,
    pick_device,
    to_pixels,
)
from scenewright.miniature.world import KINDS, SIZE

LABELS = ("background", *sorted(KINDS))
"""Class → label; class 0 is whatever is no thing."""
FOLDER = "segmenter"
"""Below the weights."""
BATCH = 16
"""Paintings a step."""
STEPS = 3000
"""Optimizer steps in all."""
_RATE = 2e-3
_PENCIL = 0.1
_DAMAGED = 0.1
_WEATHER = 0.8


def new_model() -> SegformerForSemanticSegmentation:
    """Return a model with random weights; its map has a quarter of the picture's sides."""
    config = SegformerConfig(
        image_size=SIZE,
        num_encoder_blocks=4,
        depths=[2, 2, 2, 1],
        sr_ratios=[4, 2, 1, 1],
        hidden_sizes=[32, 64, 96, 128],
        patch_sizes=[7, 3, 3, 3],
        strides=[4, 2, 2, 2],
        num_attention_heads=[1, 2, 4, 4],
        mlp_ratios=[3, 3, 3, 3],
        decoder_hidden_size=96,
        drop_path_rate=0.0,
        classifier_dropout_prob=0.0,
        num_labels=len(LABELS),
        id2label=dict(enumerate(LABELS)),
        label2id={label: at for at, label in enumerate(LABELS)},
    )
    return SegformerForSemanticSegmentation(config)


def new_processor() -> SegformerImageProcessorPil:
    """Return the image processor of the model's size and range."""
    return SegformerImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
        do_reduce_labels=False,
    )


def sample(rng: random.Random) -> Painting:
    """Return a painting of either style, now and then with a damaged thing."""
    style = "pencil" if rng.random() < _PENCIL else "flat"
    painting = sample_painting(rng, style=style)
    if rng.random() >= _DAMAGED:
        return painting
    thing = rng.choice(painting.scene.objects).id
    kind = rng.choice(("shape", "texture"))
    request = DamageRequest(thing, kind, rng.randint(1, 5))
    return damage(painting, [request], rng.getrandbits(31))


def truth_of(painting: Painting) -> np.ndarray:
    """Class of every pixel: int64 (128, 128)."""
    found = np.zeros((SIZE, SIZE), np.int64)
    for object_id, mask in masks_of(painting).items():
        found[mask] = LABELS.index(painting.scene.object(object_id).name)
    return found


def train_segmenter(
    out: Path,
    work: Path,
    steps: int = STEPS,
    *,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train or continue the segmenter; returns whether it is finished.

    The checkpoint lies in ``work``; the averaged weights go to ``out``, in half precision, with
    every checkpoint. ``max_seconds`` stops early.
    """
    place = pick_device(device)
    torch.manual_seed(seed)
    model = new_model().to(place).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=0.02, fused=True)
    training = Training(
        path=work / f"{FOLDER}.pt",
        modules={"model": model},
        optimizer=optimizer,
        steps=steps,
        rate=lambda step: cosine_rate(step, steps, warmup=min(100, steps), floor=0.02),
        decay=0.998,
    )

    def export() -> None:
        averaged = new_model()
        averaged.load_state_dict(training.averages["model"].values)
        averaged.half().save_pretrained(out)
        new_processor().save_pretrained(out)
        forget_origin(out)

    training.on_save = export

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        # Everything random hangs on (seed, step) alone, so that a resumed run sees the same.
        rng = random.Random(f"{seed}/{step}")
        generator = torch.Generator().manual_seed(seed * 1_000_003 + step)
        paintings = [sample(rng) for _ in range(BATCH)]
        pixels = to_pixels([painting.image for painting in paintings])
        strength = _WEATHER * min(1.0, 2 * step / max(1, steps))
        pixels = weather(pixels, generator, strength).to(place)
        wanted = torch.from_numpy(np.stack([truth_of(p) for p in paintings])).to(place)
        with autocast(place):
            logits = model(pixels.contiguous(memory_format=torch.channels_last)).logits
        full = functional.interpolate(logits.float(), size=wanted.shape[-2:], mode="bilinear")
        loss = functional.cross_entropy(full, wanted)
        with torch.no_grad():
            thing = wanted > 0
            right = (full.argmax(1) == wanted)[thing].float().mean().item()
        return loss, {"things": right}

    return training.run(loss_of, max_seconds)
