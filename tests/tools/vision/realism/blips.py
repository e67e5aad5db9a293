"""A tiny BLIP with random weights, of the same classes as a real one, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from transformers import (
    BertTokenizer,
    BlipConfig,
    BlipImageProcessorPil,
    BlipModel,
)

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "blue", "dog", "house", "ball", "hot")
EMBEDDING = 16
"""Of the layout ``BlipModel``; the retrieval layout has 24."""


def save_tiny_blip(folder: Path, seed: int = 0, layout: Any = BlipModel) -> Path:
    """Model, tokenizer and processor in ``folder``."""
    torch.manual_seed(seed)
    model = layout(
        BlipConfig(
            text_config={
                "vocab_size": len(WORDS), "hidden_size": 24, "encoder_hidden_size": 32,
                "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
                "max_position_embeddings": 12, "bos_token_id": 2, "eos_token_id": 3,
                "sep_token_id": 3, "pad_token_id": 0,
            },
            vision_config={
                "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
                "num_attention_heads": 2, "image_size": 32, "patch_size": 8,
                # Larger than usual, so that random weights tell pictures apart.
                "initializer_range": 0.3,
            },
            projection_dim=EMBEDDING,
            image_text_hidden_size=EMBEDDING,
        )
    ).eval()  # fmt: skip
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.dim() > 1:
                weight.normal_(std=0.3)
            elif name.endswith("bias"):
                weight.normal_(std=0.1)
    model.save_pretrained(folder)
    vocabulary = {word: at for at, word in enumerate(WORDS)}
    BertTokenizer(vocab=vocabulary, model_max_length=12).save_pretrained(folder)
    BlipImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(folder)
    return folder
