"""Small encoders with random weights, in the published classes and layout.

They test the plumbing of metrics, which does not depend on what a network has learned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPTextConfig,
    CLIPVisionConfig,
    Dinov2Config,
    Dinov2Model,
)
from transformers.models.bit.image_processing_pil_bit import BitImageProcessorPil
from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
from transformers.utils import logging

from scenewright.miniature.world import new_tokenizer

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
"""What DINOv2's pictures are normalised by."""
TEXT_ROOM = 24
"""Tokens that the small CLIP reads."""
_SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}


def save_clip(folder: Path, seed: int = 0) -> Path:
    """Return a CLIP of 32-pixel pictures and :data:`TEXT_ROOM` tokens.

    With processor and tokenizer.
    """
    torch.manual_seed(seed)
    tokenizer = new_tokenizer()
    text = CLIPTextConfig(
        **_SMALL,
        vocab_size=len(tokenizer),
        max_position_embeddings=TEXT_ROOM,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    vision = CLIPVisionConfig(**_SMALL, image_size=32, patch_size=8)
    model = CLIPModel(
        CLIPConfig(text_config=text.to_dict(), vision_config=vision.to_dict(), projection_dim=16)
    )
    _save(model, folder)
    CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size=32).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_dinov2(folder: Path, seed: int = 0) -> Path:
    """Return a DINOv2 of 28-pixel pictures, with its processor."""
    torch.manual_seed(seed)
    config = Dinov2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        mlp_ratio=2,
        image_size=28,
        patch_size=14,
    )
    _save(Dinov2Model(config), folder)
    processor = BitImageProcessorPil(
        size={"shortest_edge": 32},
        crop_size=28,
        image_mean=list(IMAGENET_MEAN),
        image_std=list(IMAGENET_STD),
    )
    processor.save_pretrained(folder)
    return folder


def _save(model: Any, folder: Path) -> None:
    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    # Random weights at the usual scale give vectors that are nearly the same for all pictures.
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=parameter[0].numel() ** -0.5)
    model.save_pretrained(folder)
    if shown:
        logging.enable_progress_bar()
