"""The frozen BLIP under OLIP: features of a picture together with the name of an object.

Li et al., 2022, in the layouts of transformers: ``BlipModel``, whose multimodal features are the
projected state of the text encoder that attends to the picture, and ``BlipForImageTextRetrieval``,
which has no such projection: there they are the state of the first token itself.

The published captioning checkpoints hold no text encoder, and transformers fills the gap with
random weights (huggingface/transformers#28034). A model that lacks a weight is refused here.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import torch
from PIL import Image
from transformers import (
    AutoTokenizer,
    BlipForImageTextRetrieval,
    BlipModel,
)

from scenewright.agents.judges.vlm import digest_folder, neutralise
from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import RealismError
from scenewright.providers.device_gate import Stop
from scenewright.tools.digests import json_digest
from scenewright.tools.vision.detection.labels import plain
from scenewright.tools.vision.local_model import image_processor_of
from scenewright.tools.vision.realism.encoders import Array, LocalEncoder
from scenewright.tools.vision.realism.segformer_blip import ARCHITECTURE, SegformerBlip

DTYPES = ("float32", "bfloat16")
"""Precisions of its weights; features are float32 in either."""
_READING = 1
"""Raised when the same picture and name would give other features."""


class BlipEncoder(LocalEncoder):
    """A BLIP on this machine."""

    loaded_as = "a BLIP"
    thread = "blip"

    def __init__(
        self,
        model: str | os.PathLike[str],
        *,
        dtype: str = "float32",
        **options: Any,
    ) -> None:
        """As :class:`LocalEncoder`; ``dtype``: precision of the weights, one of :data:`DTYPES`."""
        if dtype not in DTYPES:
            raise RealismError(f"dtype {dtype!r}: use {' or '.join(DTYPES)}")
        super().__init__(model, **options)
        self._dtype = dtype
        self._torch_dtype: torch.dtype = getattr(torch, dtype)

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of its files."""
        return digest_folder(self.folder)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of files, library versions and settings that its features hang on."""
        return json_digest(self.digest, *self.versions, self._dtype, _READING)

    async def embedding(self) -> int:
        """Return the length of its multimodal features; loads it."""
        await self.load()
        return self._embedding

    async def features(self, images: Sequence[Image.Image], categories: Sequence[str]) -> Array:
        """Multimodal features of each picture with its object's category, float32 (n, embedding).

        A picture object that is given several times in a row is looked at once. Raises
        ``RealismError`` if the model cannot be loaded or fails, ``ImageError`` for a picture whose
        pixels cannot be shown.
        """
        if len(images) != len(categories):
            raise ValueError(f"{len(images)} pictures but {len(categories)} categories")

        def work(stop: Stop) -> Array:
            self.make_ready(stop)
            rows = [np.zeros((0, self._embedding), np.float32)]
            for some in self.batches(len(images)):
                with self.batch_turn(stop):
                    found = self._encode_together(images[some], categories[some])
                    rows.append(found.float().cpu().numpy())
            return np.concatenate(rows)

        return await self.run(work)

    def encode_pictures(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Return the projections of ``images`` into the space of contrast."""
        seen = self._seen(images)
        found: torch.Tensor = (
            self._model.vision_proj(seen.last_hidden_state[:, 0])
            if self._retrieval
            else self._model.visual_projection(seen.pooler_output)
        )
        return found

    def encode_texts(self, texts: Sequence[str]) -> torch.Tensor:
        """Return the projections of ``texts`` into the same space."""
        given = self._read(texts)
        found: torch.Tensor = (
            self._model.text_proj(self._model.text_encoder(**given).last_hidden_state[:, 0])
            if self._retrieval
            else self._model.text_projection(self._model.text_model(**given).pooler_output)
        )
        return found

    def open_model(self, device: torch.device) -> None:
        """Load the model, which must have all its weights, its processor and its tokenizer."""
        config = json.loads((self.folder / "config.json").read_text(encoding="utf-8"))
        kind = next(iter(config.get("architectures") or ()), "")
        if config.get("model_type") != "blip":
            raise RealismError(
                f"{self.folder} is a model of type {config.get('model_type')!r}: OLIP stands on a "
                "BLIP (model_type blip)"
            )
        self._retrieval = kind == "BlipForImageTextRetrieval"
        layout: Any = {
            "BlipForImageTextRetrieval": BlipForImageTextRetrieval,
            ARCHITECTURE: SegformerBlip,
        }.get(kind, BlipModel)
        model, told = layout.from_pretrained(
            self.folder, local_files_only=True, dtype=self._torch_dtype, output_loading_info=True
        )
        lost = sorted(told["missing_keys"])
        if lost:
            raise RealismError(
                f"{self.folder} ({kind or 'no architecture named'}) lacks {len(lost)} weights, "
                f"{lost[0]} first: its features would be random. Use a checkpoint with a text "
                "encoder, for example Salesforce/blip-itm-base-coco"
            )
        self._model = model.to(device).eval()
        self._processor = image_processor_of(self.folder)
        self._tokenizer = AutoTokenizer.from_pretrained(self.folder, local_files_only=True)
        self._room = int(model.config.text_config.max_position_embeddings)
        self._embedding = int(
            model.config.text_config.hidden_size if self._retrieval else model.config.projection_dim
        )

    def _encode_together(
        self, images: Sequence[Image.Image], categories: Sequence[str]
    ) -> torch.Tensor:
        """Return the result of ``BlipModel.get_multimodal_features``, (n, embedding)."""
        # Objects of one picture follow each other: it goes through the vision tower once.
        unique = {id(image): image for image in images}
        places = {key: at for at, key in enumerate(unique)}
        seen = self._seen(list(unique.values())).last_hidden_state
        seen = seen[[places[id(image)] for image in images]]
        # The library's own method makes this mask on the CPU, wherever the model is.
        mask = torch.ones(seen.shape[:-1], dtype=torch.long, device=self._model.device)
        given = self._read([plain(category).lower() for category in categories])
        if self._retrieval:
            found: torch.Tensor = self._model.text_encoder(
                **given, encoder_hidden_states=seen, encoder_attention_mask=mask
            ).last_hidden_state[:, 0]
            return found
        pooled = self._model.text_model(
            **given, encoder_hidden_states=seen, encoder_attention_mask=mask
        ).pooler_output
        if isinstance(self._model, SegformerBlip):
            return self._model.multimodal(pooled, seen[:, 0])
        projected: torch.Tensor = self._model.text_projection(pooled)
        return projected

    def _seen(self, images: Sequence[Image.Image]) -> Any:
        shown = [to_rgb(image) for image in images]
        pixels = self._processor(images=shown, return_tensors="pt")["pixel_values"]
        return self._model.vision_model(
            pixel_values=pixels.to(self._model.device, self._torch_dtype)
        )

    def _read(self, texts: Sequence[str]) -> dict[str, torch.Tensor]:
        special = self._tokenizer.all_special_tokens
        given = self._tokenizer(
            [neutralise(text, special) for text in texts],
            padding=True,
            truncation=True,
            max_length=self._room,
            return_tensors="pt",
        )
        return {
            name: given[name].to(self._model.device) for name in ("input_ids", "attention_mask")
        }
