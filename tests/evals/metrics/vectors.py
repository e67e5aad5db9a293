"""Vectors, pictures and an extractor for the tests of metrics."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image

from scenewright.core.facts import Fact, ScoreCard
from scenewright.evals.datasets.base import Item
from scenewright.evals.metrics.base import Sample
from scenewright.evals.metrics.set_metrics import ArrayBlocks
from scenewright.evals.store.journal import Features


class Given:
    """An extractor for metrics whose vectors come from the test."""

    id = "given"
    dimensions = 3

    def __init__(self, fingerprint: str = "0" * 64) -> None:
        self.fingerprint = fingerprint

    async def features(self, images: Sequence[Image.Image]) -> Features:
        return np.array([np.asarray(i.convert("RGB"), np.float32).mean((0, 1)) for i in images])


def blocks(rows: object, size: int = 1024) -> ArrayBlocks:
    return ArrayBlocks(np.asarray(rows, np.float32), size)


def gaussian(n: int, width: int, seed: int, shift: float = 0.0, skew: bool = True) -> Features:
    """``n`` rows of a Gaussian with correlated directions."""
    rng = np.random.default_rng(seed)
    mix = rng.normal(size=(width, width)) / width**0.5 if skew else np.eye(width)
    return (rng.normal(size=(n, width)) @ mix + shift).astype(np.float32)


def picture(seed: int, size: tuple[int, int] = (40, 32)) -> Image.Image:
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8))
    return small.resize(size, Image.Resampling.BILINEAR)


def sample(
    image: Image.Image | None = None,
    prompt: str = "red dog",
    card: ScoreCard | None = None,
    facts: tuple[Fact, ...] = (),
) -> Sample:
    shown = image or picture(0)
    item = Item(id="one", prompt="red dog")
    return Sample(
        item=item, prompt=prompt, image="0" * 64, load=lambda: shown, card=card, facts=facts
    )
