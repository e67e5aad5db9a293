"""Object realism by how well an object's crop fits a text about realism (Liang et al., Sec. 4.1).

The cosine of crop and text, of CLIP, SigLIP or BLIP, becomes a score from 1 to 5 between two given
bounds. A cosine knows no scale of realism: bounds of another model, or
:class:`~.calibrated.CalibratedScorer`, can change its error much, its ranking not at all.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import AutoModel, AutoTokenizer

from scenewright.agents.judges.vlm import digest_folder
from scenewright.core.ports.vision import PROMPTS, Detection, ObjectRealism, RealismError, on_scale
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.detection.labels import plain
from scenewright.tools.vision.local_model import image_processor_of, model_of
from scenewright.tools.vision.realism.encoders import LocalEncoder
from scenewright.tools.vision.realism.object_views import MARGIN, crops_of

Bounds = tuple[float, float]
CLIP_BOUNDS: Bounds = (0.15, 0.35)
"""Cosines that are 1 and 5 for CLIP, whose fitting pairs seldom lie outside; ours."""
BLIP_BOUNDS: Bounds = (0.1, 0.5)
"""The same for BLIP, trained harder on captions; ours."""


class AlignmentScorer:
    """Implements :class:`~scenewright.core.ports.vision.RealismScorer` by an encoder."""

    kind = "alignment"
    """Beginning of its id."""

    def __init__(self, encoder: LocalEncoder, bounds: Bounds) -> None:
        """Score by cosines: ``bounds`` are those that become 1 and 5, the limits of the scale.

        Raises ``RealismError`` for bounds in the wrong order.
        """
        if not -1.0 <= bounds[0] < bounds[1] <= 1.0:
            raise RealismError(f"bounds {bounds}: give two cosines, the lower one first")
        self._encoder = encoder
        self._bounds = bounds

    @property
    def id(self) -> str:
        """Its kind and the encoder's name."""
        return f"{self.kind}:{self._encoder.name}"

    @cached_property
    def fingerprint(self) -> str:
        """Of the encoder, the texts, the crops and the bounds."""
        parts = [self._encoder.fingerprint, PROMPTS, MARGIN, self._bounds]
        digest = json_digest(*parts)[:12]
        return f"{self.kind} realism@1 {self._encoder.name}#{digest}"

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        """As the port says; all objects of one category are one question to the model."""
        crops, found = await asyncio.to_thread(crops_of, image, objects)
        low, high = self._bounds
        groups: dict[str, list[int]] = {}
        for at in crops:
            groups.setdefault(plain(objects[at].name), []).append(at)
        for category, members in groups.items():
            texts = [text.format(category=category) for text in PROMPTS.values()]
            started = time.perf_counter()
            cosines = await self._encoder.likeness([crops[at] for at in members], texts)
            seconds = (time.perf_counter() - started) / len(members)
            for at, row in zip(members, cosines, strict=True):
                if not np.isfinite(row).all():
                    lost = "the model gave no number"
                    found[at] = ObjectRealism(None, None, reason=lost, seconds=seconds)
                    continue
                # The prompts are those of shape, texture and joint.
                shape, texture, joint = (on_scale((float(c) - low) / (high - low)) for c in row)
                found[at] = ObjectRealism(shape, texture, joint, seconds=seconds)
        return [found[at] for at in range(len(objects))]

    async def aclose(self) -> None:
        """Free the encoder."""
        await self._encoder.aclose()


class ClipScorer(AlignmentScorer):
    """By a CLIP, or a kin of it such as SigLIP."""

    kind = "clip"

    def __init__(
        self, model: str | os.PathLike[str], *, bounds: Bounds = CLIP_BOUNDS, **options: Any
    ) -> None:
        """Score by ``model``, with ``options`` of :class:`ClipEncoder`.

        Raises ``RealismError`` if it is not on this machine.
        """
        super().__init__(ClipEncoder(model, **options), bounds)


class BlipMatchScorer(AlignmentScorer):
    """By the contrastive side of a BLIP."""

    kind = "blip"

    def __init__(self, model: str | os.PathLike[str], **options: Any) -> None:
        """Score by ``model``, with ``options`` of its encoder; raises as :class:`ClipScorer`."""
        from scenewright.tools.vision.realism.blip import BlipEncoder

        super().__init__(BlipEncoder(model, **options), BLIP_BOUNDS)


class ClipEncoder(LocalEncoder):
    """A CLIP, or a kin of it such as SigLIP."""

    loaded_as = "a CLIP"
    thread = "clip"

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of files, library versions and the device."""
        return json_digest(digest_folder(self.folder), *self.versions, 1)

    def encode_pictures(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Return the projections of ``images``."""
        shown = self._processor(images=list(images), return_tensors="pt")["pixel_values"]
        return _pooled(self._model.get_image_features(pixel_values=shown.to(self._model.device)))

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the projections of ``texts``."""
        model = self._model
        # SigLIP learned with texts filled up to their full length.
        fill = "max_length" if model.config.model_type.startswith("siglip") else "longest"
        room = int(model.config.text_config.max_position_embeddings)
        read = self._tokenizer(
            list(texts), padding=fill, truncation=True, max_length=room, return_tensors="pt"
        )
        return _pooled(model.get_text_features(**read.to(model.device)))

    def open_model(self, device: torch.device) -> None:
        """Load the model, its processor and its tokenizer."""
        self._model = model_of(AutoModel, self.folder, device)
        if not hasattr(self._model, "get_text_features"):
            raise RealismError(
                f"{self.folder} compares no pictures with texts: name a CLIP or one of its kin"
            )
        self._processor = image_processor_of(self.folder)
        self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)


def _pooled(output: Any) -> torch.Tensor:
    # Newer versions of transformers hand the projection over as the pooled output.
    pooled: torch.Tensor = getattr(output, "pooler_output", output)
    return pooled
