"""How well the segmenter tells the kinds of a painting apart, pixel by pixel."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch.nn import functional
from transformers import SegformerForSemanticSegmentation

from benchmarks._miniature_weights import SEGMENTER
from benchmarks._report import interval
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.judge_batch import to_pixels, weather
from scenewright.miniature.training.segmenter import LABELS, truth_of
from scenewright.runs.model_factory.local_models import MINIATURE_WEIGHTS

STYLES = ("flat", "pencil", "weathered")
"""As painted, in pencil, and smeared, noisy and shifted in colour."""
_STRENGTH = 0.8


def overlap(found: npt.NDArray[Any], wanted: npt.NDArray[Any]) -> float:
    """Mean intersection over union of the kinds that are in either of two maps of classes.

    1 where neither shows a thing: class 0 is no kind.
    """
    kinds = sorted({*np.unique(found), *np.unique(wanted)} - {0})
    shares = [
        np.sum((found == at) & (wanted == at)) / np.sum((found == at) | (wanted == at))
        for at in kinds
    ]
    return float(np.mean(shares)) if shares else 1.0


def segmenter_figures(n: int, folder: Path = MINIATURE_WEIGHTS / SEGMENTER) -> dict[str, Any]:
    """``segmenter.{flat,pencil,weathered}.iou``: of the kinds of each of ``n`` held-out paintings,
    its mean over paintings with a 95 % interval; and ``segmenter.n``."""
    model = SegformerForSemanticSegmentation.from_pretrained(
        folder, dtype=torch.float32, local_files_only=True
    ).eval()
    if model.config.id2label != dict(enumerate(LABELS)):
        raise ValueError(f"{folder} knows other kinds than the world: train it anew")
    figures: dict[str, Any] = {"segmenter.n": n}
    generator = torch.Generator().manual_seed(0)
    for style in STYLES:
        rng = random.Random("held-out segmenter")
        scores = []
        for _ in range(n):
            painting = sample_painting(rng, style="pencil" if style == "pencil" else "flat")
            pixels = to_pixels([painting.image])
            if style == "weathered":
                pixels = weather(pixels, generator, _STRENGTH)
            wanted = truth_of(painting)
            with torch.inference_mode():
                logits = model(pixels).logits
            full = functional.interpolate(logits, size=wanted.shape, mode="bilinear")
            scores.append(overlap(full[0].argmax(0).numpy(), wanted))
        figures[f"segmenter.{style}.iou"] = interval(scores)
    return figures
