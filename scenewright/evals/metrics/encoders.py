"""The port of encoders that bring pictures and texts into one space."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from PIL import Image

from scenewright.evals.metrics.base import MetricError
from scenewright.evals.store.journal import Features


@dataclass(frozen=True, slots=True)
class EncodedTexts:
    """Texts as vectors."""

    vectors: Features
    """One row a text, of length 1: (n, dimensions)."""
    cut: tuple[int, ...]
    """Tokens at the end of each text that the encoder has no room for: they were left out."""


@runtime_checkable
class TextImageEncoder(Protocol):
    """Pictures and texts as unit vectors whose cosine says how well they go together."""

    @property
    def id(self) -> str:
        """For example ``transformers:openai/clip-vit-base-patch16``."""
        ...

    @property
    def fingerprint(self) -> str:
        """Changes whenever a picture or text could get another vector."""
        ...

    async def images(self, images: Sequence[Image.Image]) -> Features:
        """One row of length 1 a picture. Cancelling waits for the batch at work."""
        ...

    async def texts(self, texts: Sequence[str]) -> EncodedTexts:
        """One row of length 1 a text; longer texts than the encoder takes are cut, and counted."""
        ...


def unit(vectors: Features, what: str) -> Features:
    """Rows brought to length 1; ``MetricError`` if one is 0 or not finite."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.isfinite(length).all() or not length.all():
        raise MetricError(f"the encoder gives vectors of {what} that have no direction")
    found: Features = (vectors / length).astype(np.float32)
    return found
