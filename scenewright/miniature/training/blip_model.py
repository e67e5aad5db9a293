"""The miniature BLIP in the layouts of transformers: model, tokenizer, processor."""

from __future__ import annotations

import logging
from pathlib import Path

import torch
from transformers import (
    BertTokenizer,
    BlipConfig,
    BlipImageProcessorPil,
    SegformerConfig,
    SegformerForSemanticSegmentation,
)

from scenewright.miniature.training.blip_pictures import SPECIAL, WORDS
from scenewright.miniature.world import SIZE
from scenewright.tools.vision.realism.segformer_blip import SegformerBlip, width_of

EMBEDDING = 128
"""Length of its embeddings."""
TOKENS = 24
"""Longest text."""
_SEGFORMER = (
    *("num_encoder_blocks", "depths", "sr_ratios", "hidden_sizes", "patch_sizes", "strides"),
    *("num_attention_heads", "mlp_ratios", "drop_path_rate", "hidden_dropout_prob"),
    *("attention_probs_dropout_prob", "hidden_act", "layer_norm_eps"),
)


def new_model(segmenter: Path) -> SegformerBlip:
    """A model with random weights that sees by the ``segmenter``'s encoder, which is kept."""
    seen = SegformerForSemanticSegmentation.from_pretrained(segmenter, dtype=torch.float32)
    model = _empty(seen.config)
    model.vision_model.segformer.load_state_dict(seen.segformer.state_dict())
    return model


def _empty(segformer: SegformerConfig) -> SegformerBlip:
    kept = {name: getattr(segformer, name) for name in _SEGFORMER}
    width = width_of(segformer)
    config = BlipConfig(
        text_config={
            "vocab_size": len(SPECIAL) + len(WORDS),
            "hidden_size": 96,
            "encoder_hidden_size": width,
            "intermediate_size": 288,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": TOKENS,
            "bos_token_id": SPECIAL.index("[DEC]"),
            "eos_token_id": SPECIAL.index("[SEP]"),
            "sep_token_id": SPECIAL.index("[SEP]"),
            "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": width,
            "intermediate_size": 1,
            "num_hidden_layers": 0,
            "num_attention_heads": 4,
            "image_size": SIZE,
            "patch_size": SIZE,
            "initializer_range": 0.02,
        },
        projection_dim=EMBEDDING,
        segformer=kept,
    )
    told = logging.getLogger("transformers.models.blip.modeling_blip")
    level = told.level
    told.setLevel(logging.ERROR)
    try:
        return SegformerBlip(config)
    finally:
        told.setLevel(level)


def emptied(model: SegformerBlip) -> SegformerBlip:
    """Another model of the same kind, for weights to be put in."""
    return SegformerBlip(model.config)


def new_tokenizer(folder: Path) -> BertTokenizer:
    """Its tokenizer, a word a token; ``folder`` takes the vocabulary's file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "vocab.txt"
    file.write_text("".join(f"{word}\n" for word in (*SPECIAL, *WORDS)), encoding="utf-8")
    vocab = {word: at for at, word in enumerate((*SPECIAL, *WORDS))}
    return BertTokenizer(vocab=vocab, model_max_length=TOKENS)


def new_processor() -> BlipImageProcessorPil:
    """What brings a picture to the model's size and range."""
    return BlipImageProcessorPil(
        size={"height": SIZE, "width": SIZE},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
