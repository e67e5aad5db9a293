"""Encoders of pictures and texts into one space, on this machine."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.ports.vision import RealismError
from scenewright.providers.device_gate import Stop
from scenewright.tools.vision.local_model import LocalModel

Array = NDArray[np.float32]
BATCH = 32
"""Pictures in one pass."""


class LocalEncoder(LocalModel):
    """A model that compares pictures with texts, in batches."""

    error = RealismError
    thread: ClassVar[str]
    """Prefix of its thread's name."""

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        batch: int = BATCH,
    ) -> None:
        """``model``: a folder in transformers layout, or a fetched hub repository ``owner/name``.

        ``name``: how it is called (default: the model as given). Raises ``RealismError`` if it is
        not on this machine.
        """
        if batch < 1:
            raise RealismError(f"batch {batch}: use at least 1")
        super().__init__(model, name=name, device=device, thread=self.thread)
        self._batch = batch

    async def likeness(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Array:
        """Return the cosine of each picture with each text, float32 (pictures, texts), -1 to 1.

        Texts longer than the model's room are cut. Raises ``RealismError`` if the model cannot be
        loaded or fails, ``ImageError`` for a picture whose pixels cannot be shown.
        """
        self.check_open()
        if not images or not texts:
            return np.zeros((len(images), len(texts)), np.float32)

        def compare(stop: Stop) -> Array:
            self.make_ready(stop)
            sides: list[list[torch.Tensor]] = [[], []]
            for some in self.batches(len(images)):
                with self.batch_turn(stop):
                    sides[0].append(self.encode_pictures(images[some]))
            for some in self.batches(len(texts)):
                with self.batch_turn(stop):
                    sides[1].append(self.encode_texts(texts[some]))
            pictures, words = (
                torch.nn.functional.normalize(torch.cat(side).float(), dim=-1) for side in sides
            )
            return (pictures @ words.T).cpu().numpy().astype(np.float32)

        return await self.run(compare)

    @property
    @abstractmethod
    def fingerprint(self) -> str:
        """Changes with weights, libraries and settings."""

    @abstractmethod
    def encode_pictures(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Return the embeddings of ``images``, (n, width)."""

    @abstractmethod
    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the embeddings of ``texts``, (n, width)."""

    def batches(self, count: int) -> list[slice]:
        """Return the batches of ``count`` items."""
        return [slice(start, start + self._batch) for start in range(0, count, self._batch)]

    def batch_turn(self, stop: Stop) -> AbstractContextManager[None]:
        """Hold the device for one batch."""
        advice = f". Use a smaller batch than {self._batch} if the memory is short"
        return self.turn(stop, self._device, advice)
