"""CLIPScore: how near a picture is to its text, by an encoder of both.

``w·max(cos(E_I, E_T), 0)`` (Hessel et al., 2021). They take w = 2.5 and put "A photo depicts"
before each caption; papers on drawing, Scene-Bench among them, report 100 times the cosine of the
plain text, as torchmetrics does, which is the default here.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np

from scenewright.config.settings import Settings
from scenewright.evals.metrics.base import MetricScore, Need, Sample
from scenewright.evals.metrics.encoders import TextImageEncoder
from scenewright.evals.metrics.extractors import encoder_of
from scenewright.evals.metrics.options import real, text

CLIP = "openai/clip-vit-base-patch16"


class CLIPScore:
    """Implements :class:`~scenewright.evals.metrics.base.ItemMetric`."""

    name = "clipscore"
    higher_is_better = True

    def __init__(self, encoder: TextImageEncoder, scale: float = 100.0, prefix: str = "") -> None:
        """``scale``: w above; ``prefix``: words put before each text."""
        self._encoder = encoder
        self._scale = real("scale", scale, 1e-12)
        self._prefix = text("prefix", prefix)

    @property
    def version(self) -> str:
        """Number, scale, prefix and the encoder's fingerprint."""
        prefix = f":prefix={self._prefix}" if self._prefix else ""
        return f"1:scale={self._scale:g}{prefix}:{self._encoder.fingerprint[:16]}"

    @property
    def needs(self) -> frozenset[Need]:
        """The picture and its text."""
        return frozenset({"image", "prompt"})

    async def score(self, sample: Sample) -> MetricScore:
        """The score; parts: ``cosine``, which may be below 0, and ``tokens_cut``, how many tokens
        at the end of the text the encoder had no room for (CLIP reads 77, start and end included).

        Unscored without a text. Raises ``ImageError`` for a picture that cannot be read.
        """
        if not sample.prompt.strip():
            return MetricScore(value=None, reason="there is no text to compare the picture with")
        words = f"{self._prefix} {sample.prompt}".strip() if self._prefix else sample.prompt
        picture = await asyncio.to_thread(sample.load)
        images = await self._encoder.images([picture])
        texts = await self._encoder.texts([words])
        cosine = float(np.dot(images[0].astype(np.float64), texts.vectors[0].astype(np.float64)))
        return MetricScore(
            value=self._scale * max(cosine, 0.0),
            parts={"cosine": cosine, "tokens_cut": float(texts.cut[0])},
        )


def make(
    settings: Settings | None,
    extractor: Any = CLIP,
    scale: Any = 100.0,
    prefix: Any = "",
    **options: Any,
) -> CLIPScore:
    """The metric of the registry."""
    return CLIPScore(encoder_of("clipscore", extractor, options), scale, prefix)
