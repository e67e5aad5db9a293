"""A BLIP with random weights and OLIP's heads over it, in folders, for tests."""

from __future__ import annotations

from pathlib import Path

import torch

from scenewright.miniature.training.blip import EMBEDDING, new_model, new_processor, new_tokenizer
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.olip import Olip, OlipConfig
from scenewright.tools.vision.realism.olip_files import save_olip


def save_blip(folder: Path, seed: int = 1) -> Path:
    """An encoder of the miniature's shape."""
    torch.manual_seed(seed)
    new_model(MINIATURE_WEIGHTS / "segmenter").save_pretrained(folder)
    new_tokenizer(folder).save_pretrained(folder)
    new_processor().save_pretrained(folder)
    return folder


def save_heads(folder: Path, encoder: Path, seed: int = 1) -> Path:
    """Small heads for ``encoder``."""
    torch.manual_seed(seed)
    heads = Olip(OlipConfig(embedding=EMBEDDING, heads=4, widths=(16, 8)))
    digest = BlipEncoder(encoder).digest
    return save_olip(folder, heads, encoder=encoder, encoder_digest=digest)
