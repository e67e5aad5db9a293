"""A style scorer for the painted world: its flat paintings are the photos, its pencil drawings the
illustrations.

A small CLIP of the ordinary class, from random weights. The miniature's generator draws flat
pictures, smeared by its autoencoder. So that smear does not pass for a style, a part of the flat
paintings goes through that autoencoder, and in a part of both styles the pixels are smeared, noisy
or shifted in colour. Pencil drawings stay out of the autoencoder: it gives them back flat.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from scenewright.evals.studies.real.style_data import LABELS, Label
from scenewright.evals.studies.real.style_training import StylePlan

STYLES: dict[Label, str] = {"photo": "flat", "illustration": "pencil"}
"""Class → the painter's style."""
SIDE = 64
"""Pixels a side that the model sees."""
PLAN = StylePlan(rate=1e-3, batch=16, epochs=14, weight_decay=0.05)
"""A model without any knowledge learns at a higher rate than CLIP is fine-tuned with."""
_WIDTH = 64
_MEAN, _SPREAD = 0.85, 0.12
_PASSED = 0.4
_WEATHERED = 0.5
_BATCH = 16


def new_style_clip(folder: Path, seed: int = 0) -> Path:
    """Write a CLIP with random weights, its tokenizer and its preparation to ``folder``."""
    import torch
    from transformers import CLIPConfig, CLIPImageProcessorPil, CLIPModel

    from scenewright.miniature.world import SIZE, new_tokenizer

    tokenizer = new_tokenizer()
    config = CLIPConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "max_position_embeddings": 32,
            "bos_token_id": tokenizer.bos_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "pad_token_id": tokenizer.pad_token_id,
        },
        vision_config={
            "hidden_size": _WIDTH,
            "intermediate_size": 2 * _WIDTH,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "image_size": SIDE,
            "patch_size": 8,
        },
        projection_dim=32,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = CLIPModel(config)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    # The middle of a picture at its own scale: made small, pencil strokes would be lost.
    CLIPImageProcessorPil(
        size={"shortest_edge": SIZE},
        crop_size={"height": SIDE, "width": SIDE},
        image_mean=[_MEAN] * 3,
        image_std=[_SPREAD] * 3,
    ).save_pretrained(folder)
    return folder


def paint_styles(folder: Path, n: int, seed: int = 0) -> int:
    """Write ``n`` flat paintings to ``folder/photo`` and ``n`` pencil drawings of other scenes to
    ``folder/illustration``, as PNG; how many were new.

    Started again it goes on. The same arguments give the same pictures. Raises ``ValueError`` for
    fewer than one, ``OSError``.
    """
    if n < 1:
        raise ValueError(f"{n} paintings of a style: use 1 or more")
    made = 0
    for label in LABELS:
        (folder / label).mkdir(parents=True, exist_ok=True)
        files = [folder / label / f"{at:05d}.png" for at in range(n)]
        lost = [at for at, file in enumerate(files) if not file.exists()]
        for start in range(0, len(lost), _BATCH):
            part = lost[start : start + _BATCH]
            for at, image in zip(part, _painted(label, part, seed), strict=True):
                draft = files[at].with_suffix(".tmp")
                image.save(draft, "PNG")
                draft.replace(files[at])
        made += len(lost)
    return made


def _painted(label: Label, numbers: Sequence[int], seed: int) -> list[Image.Image]:
    from scenewright.miniature.sampler import sample_painting

    images: list[Image.Image] = []
    passed: list[int] = []
    weathered: list[int] = []
    for place, at in enumerate(numbers):
        rng = random.Random(f"style {label} {seed}/{at}")
        images.append(sample_painting(rng, style=STYLES[label]).image)
        if label == "photo" and rng.random() < _PASSED:
            passed.append(place)
        if rng.random() < _WEATHERED:
            weathered.append(place)
    if passed:
        for place, image in zip(passed, autoencoded([images[at] for at in passed]), strict=True):
            images[place] = image
    for place in weathered:
        images[place] = _worse(images[place], f"{label} {seed}/{numbers[place]}")
    return images


def autoencoded(images: Sequence[Image.Image]) -> list[Image.Image]:
    """Pictures of the world's size as the generator's autoencoder gives them back."""
    import torch

    from scenewright.miniature.training.judge_batch import to_pixels

    model = _autoencoder()
    with torch.inference_mode():
        found = model.decode(model.encode(to_pixels(list(images))).latent_dist.mode()).sample
    return _images(found)


def _worse(image: Image.Image, name: str) -> Image.Image:
    import torch

    from scenewright.miniature.training.judge_batch import to_pixels, weather

    generator = torch.Generator().manual_seed(random.Random(name).getrandbits(31))
    return _images(weather(to_pixels([image]), generator, 1.0))[0]


def _images(pixels: Any) -> list[Image.Image]:
    found = ((pixels.clamp(-1, 1) + 1) * 127.5).round().byte().permute(0, 2, 3, 1).numpy()
    return [Image.fromarray(one) for one in found]


_LOADED: list[Any] = []


def _autoencoder() -> Any:
    if not _LOADED:
        import torch
        from diffusers import AutoencoderKL

        import scenewright.miniature as world

        folder = Path(world.__file__).parent / "weights" / "generator"
        model = AutoencoderKL.from_pretrained(
            folder, subfolder="vae", local_files_only=True, torch_dtype=torch.float32
        )
        _LOADED.append(model.eval())
    return _LOADED[0]
