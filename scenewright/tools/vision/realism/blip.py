"""The frozen BLIP under OLIP: features of a picture together with the name of an object.

Li et al., 2022, in the layouts of transformers: ``BlipModel``, whose multimodal features are the
projected state of the text encoder that attends to the picture, and ``BlipForImageTextRetrieval``,
which has no such projection: there they are the state of the first token itself.

The published captioning checkpoints hold no text encoder, and transformers fills the gap with
random weights (huggingface/transformers#28034). A model that lacks a weight is refused here.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional
from transformers import (
    AutoTokenizer,
    BlipForImageTextRetrieval,
    BlipModel,
)

from scenewright.agents.judges.vlm import digest_folder, neutralise
from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import RealismError
from scenewright.providers.device_gate import Stop
from scenewright.tools.vision.detection.labels import plain
from scenewright.tools.vision.local_model import LocalModel, image_processor_of
from scenewright.tools.vision.realism.segformer_blip import ARCHITECTURE, SegformerBlip

Array = NDArray[np.float32]
T = TypeVar("T")
BATCH = 32
"""Pictures in one pass."""
DTYPES = ("float32", "bfloat16")
"""Precisions of its weights; features are float32 in either."""
_READING = 1
"""Raised when the same picture and name would give other features."""


class BlipEncoder(LocalModel):
    """A BLIP on this machine."""

    error = RealismError
    loaded_as = "a BLIP"

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        name: str | None = None,
        device: str = "auto",
        dtype: str = "float32",
        batch: int = BATCH,
    ) -> None:
        """``model``: a folder in transformers layout, or a fetched hub repository ``owner/name``.

        ``name``: how it is called (default: the model as given). Raises ``RealismError`` if it is
        not on this machine.
        """
        if dtype not in DTYPES or batch < 1:
            raise RealismError(
                f"dtype {dtype!r}, batch {batch}: use {' or '.join(DTYPES)} and at least 1"
            )
        super().__init__(model, name=name, device=device, thread="blip")
        self._dtype = dtype
        self._batch = batch
        self._model: _LoadedBlip | None = None

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of its files."""
        return digest_folder(self.folder)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of files, library versions and settings that its features hang on."""
        parts = [
            *(self.digest, transformers.__version__, torch.__version__),
            *(self._device, self._dtype, _READING),
        ]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    async def embedding(self) -> int:
        """Length of its multimodal features; loads it."""
        return (await self.run(self._ready)).embedding

    async def features(self, images: Sequence[Image.Image], categories: Sequence[str]) -> Array:
        """Multimodal features of each picture with its object's category, float32 (n, embedding).

        A picture object that is given several times in a row is looked at once. Raises
        ``RealismError`` if the model cannot be loaded or fails, ``ImageError`` for a picture whose
        pixels cannot be shown.
        """
        if len(images) != len(categories):
            raise ValueError(f"{len(images)} pictures but {len(categories)} categories")

        def work(stop: Stop) -> Array:
            model = self._ready(stop)
            rows = [np.zeros((0, model.embedding), np.float32)]
            for some in _chunks(len(images), self._batch):
                with self._batch_turn(stop):
                    rows.append(model.multimodal(images[some], categories[some]))
            return np.concatenate(rows)

        return await self.run(work)

    async def likeness(self, images: Sequence[Image.Image], texts: Sequence[str]) -> Array:
        """Return the cosine of each picture with each text, float32 (pictures, texts).

        From -1 to 1, in the space of the contrastive loss. Raises as :meth:`features`.
        """

        def work(stop: Stop) -> Array:
            model = self._ready(stop)
            if not images or not texts:
                return np.zeros((len(images), len(texts)), np.float32)
            looks, words = [], []
            for some in _chunks(len(images), self._batch):
                with self._batch_turn(stop):
                    looks.append(model.looks(images[some]))
            for some in _chunks(len(texts), self._batch):
                with self._batch_turn(stop):
                    words.append(model.words(texts[some]))
            found: Array = np.concatenate(looks) @ np.concatenate(words).T
            return found

        return await self.run(work)

    def _batch_turn(self, stop: Stop) -> AbstractContextManager[None]:
        advice = f". Use a smaller batch than {self._batch} if the memory is short"
        return self.turn(stop, self._device, advice)

    def _ready(self, stop: Stop) -> _LoadedBlip:
        self.make_ready(stop)
        assert self._model is not None
        return self._model

    def open_model(self, device: torch.device) -> None:
        self._model = _LoadedBlip(self.folder, device, getattr(torch, self._dtype))

    def free_model(self) -> None:
        self._model = None


class _LoadedBlip:
    """Both layouts behind three verbs. Not thread-safe."""

    def __init__(self, folder: Path, device: torch.device, dtype: torch.dtype) -> None:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        kind = next(iter(config.get("architectures") or ()), "")
        if config.get("model_type") != "blip":
            raise RealismError(
                f"{folder} is a model of type {config.get('model_type')!r}: OLIP stands on a BLIP "
                "(model_type blip)"
            )
        self._retrieval = kind == "BlipForImageTextRetrieval"
        layout: Any = {
            "BlipForImageTextRetrieval": BlipForImageTextRetrieval,
            ARCHITECTURE: SegformerBlip,
        }.get(kind, BlipModel)
        model, told = layout.from_pretrained(
            folder, local_files_only=True, dtype=dtype, output_loading_info=True
        )
        lost = sorted(told["missing_keys"])
        if lost:
            raise RealismError(
                f"{folder} ({kind or 'no architecture named'}) lacks {len(lost)} weights, "
                f"{lost[0]} first: its features would be random. Use a checkpoint with a text "
                "encoder, for example Salesforce/blip-itm-base-coco"
            )
        self._model = model.to(device).eval()
        self._device, self._dtype = device, dtype
        self._prepare = image_processor_of(folder)
        self._tokenizer: Any = AutoTokenizer.from_pretrained(folder, local_files_only=True)
        self._room = int(model.config.text_config.max_position_embeddings)
        self.embedding = int(
            model.config.text_config.hidden_size if self._retrieval else model.config.projection_dim
        )

    def multimodal(self, images: Sequence[Image.Image], categories: Sequence[str]) -> Array:
        """Return the result of ``BlipModel.get_multimodal_features``, (n, embedding)."""
        # Objects of one picture follow each other: it goes through the vision tower once.
        unique = {id(image): image for image in images}
        places = {key: at for at, key in enumerate(unique)}
        seen = self._seen(list(unique.values())).last_hidden_state
        seen = seen[[places[id(image)] for image in images]]
        # The library's own method makes this mask on the CPU, wherever the model is.
        mask = torch.ones(seen.shape[:-1], dtype=torch.long, device=self._device)
        given = self._read([plain(category).lower() for category in categories])
        if self._retrieval:
            found = self._model.text_encoder(
                **given, encoder_hidden_states=seen, encoder_attention_mask=mask
            ).last_hidden_state[:, 0]
        else:
            pooled = self._model.text_model(
                **given, encoder_hidden_states=seen, encoder_attention_mask=mask
            ).pooler_output
            found = (
                self._model.multimodal(pooled, seen[:, 0])
                if isinstance(self._model, SegformerBlip)
                else self._model.text_projection(pooled)
            )
        return _rows(found)

    def looks(self, images: Sequence[Image.Image]) -> Array:
        """Pictures in the space of contrast, of length 1."""
        seen = self._seen(images)
        if self._retrieval:
            found = self._model.vision_proj(seen.last_hidden_state[:, 0])
        else:
            found = self._model.visual_projection(seen.pooler_output)
        return _rows(functional.normalize(found.float(), dim=-1))

    def words(self, texts: Sequence[str]) -> Array:
        """Texts in the same space, of length 1."""
        given = self._read(texts)
        if self._retrieval:
            read = self._model.text_encoder(**given)
            found = self._model.text_proj(read.last_hidden_state[:, 0])
        else:
            found = self._model.text_projection(self._model.text_model(**given).pooler_output)
        return _rows(functional.normalize(found.float(), dim=-1))

    def _seen(self, images: Sequence[Image.Image]) -> Any:
        shown = [to_rgb(image) for image in images]
        pixels = self._prepare(images=shown, return_tensors="pt")["pixel_values"]
        return self._model.vision_model(pixel_values=pixels.to(self._device, self._dtype))

    def _read(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        special = self._tokenizer.all_special_tokens
        given = self._tokenizer(
            [neutralise(text, special) for text in texts],
            padding=True,
            truncation=True,
            max_length=self._room,
            return_tensors="pt",
        )
        return {name: given[name].to(self._device) for name in ("input_ids", "attention_mask")}


def _rows(found: torch.Tensor) -> Array:
    rows: Array = found.float().cpu().numpy()
    return rows


def _chunks(count: int, size: int) -> Iterator[slice]:
    return (slice(start, start + size) for start in range(0, count, size))
