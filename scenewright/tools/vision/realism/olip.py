"""OLIP: regression of an object's realism from two embeddings of a frozen BLIP.

Liang et al., Sec. 4.3: the full image and the object's crop, each encoded together with the name of
the category, go into three branches (shape, texture, joint). A branch is multi-head attention with
the full image as query and the crop as key and value, then a 4-layer MLP, then a sigmoid that is
scaled and shifted onto the range of the scores.

Each side is one vector. The softmax over a single key is 1 whatever the query is, so the attention
as published returns a projection of the crop alone: the full image is not seen, and the query and
key projections get no gradient. The paper speaks of *attention-enhanced embeddings*, so by default
the query is added to what attention found (``residual``), as in a transformer; ``residual=False``
is the literal reading, kept to be measured.

A BLIP that sees by the encoder of a SegFormer, behind the interface of ``BlipModel``.

Small vision transformers want more pictures than a small world has; a SegFormer that has learned to
find things there sees edges and surfaces already. Its four maps become tokens on a grid; text
encoder, cross-attention, projections and files are transformers' own. A small text encoder reads
what its captions speak of and lets the rest go by, so the multimodal features have a residual: the
token of the whole picture, by its principal components.

The frozen BLIP under OLIP: what a picture and the name of an object say together.

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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import nn
from torch.nn import functional
from transformers import (
    AutoTokenizer,
    BlipConfig,
    BlipForImageTextRetrieval,
    BlipModel,
    SegformerConfig,
    SegformerModel,
)
from transformers.modeling_outputs import BaseModelOutputWithPooling

from scenewright.agents.judges.vlm import digest_folder, neutralise
from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import HIGHEST, LOWEST, RealismError
from scenewright.providers.device_gate import Stop
from scenewright.tools.vision.detection.boxes import plain
from scenewright.tools.vision.local_model import LocalModel, image_processor_of

Aspect = Literal["shape", "texture", "joint"]
ASPECTS: tuple[Aspect, Aspect, Aspect] = ("shape", "texture", "joint")
"""What the columns of :meth:`Olip.forward` are."""


class OlipConfig(BaseModel):
    """The architecture; the defaults are the paper's (Sec. 4.3), the switches its Table 3b."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    embedding: int = Field(default=512, ge=1)
    """Length of the encoder's embeddings."""
    heads: int = Field(default=8, ge=1)
    """Of the attention; ``embedding`` is a multiple of it."""
    dropout: float = Field(default=0.1, ge=0, lt=1)
    """Of the attention."""
    widths: tuple[Annotated[int, Field(ge=1)], ...] = (1024, 768, 384)
    """Hidden layers of the MLP."""
    head_dropout: float = Field(default=0.2, ge=0, lt=1)
    """Of the MLP."""
    full_image: bool = True
    """False: the crop is the query as well."""
    multi_head: bool = True
    """False: one branch with three outputs, not three branches."""
    deep: bool = True
    """False: one linear layer, no MLP."""
    residual: bool = True
    """Whether the query is added to what attention found; False: the full image is not seen."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.embedding % self.heads:
            raise ValueError(
                f"an embedding of {self.embedding} cannot be shared by {self.heads} heads: "
                "choose a number of heads that divides it"
            )
        return self


class Olip(nn.Module):
    """The heads of OLIP; the encoder is not part of it."""

    def __init__(self, config: OlipConfig) -> None:
        """With random weights."""
        super().__init__()
        self.config = config
        """Its architecture."""
        outputs = [1] * len(ASPECTS) if config.multi_head else [len(ASPECTS)]
        self.branches = nn.ModuleList(_Branch(config, n) for n in outputs)

    def forward(self, full: torch.Tensor, crop: torch.Tensor) -> torch.Tensor:
        """Realism from 1 to 5, float (n, 3): columns as :data:`ASPECTS`.

        ``full`` and ``crop``: float (n, embedding), the encoder's features of the whole picture
        and of the object's crop, both with the object's category.
        """
        found = torch.cat([branch(full, crop) for branch in self.branches], dim=1)
        return LOWEST + (HIGHEST - LOWEST) * found.sigmoid()


def olip_of(config: OlipConfig, weights: Mapping[str, torch.Tensor]) -> Olip:
    """Return the heads with ``weights`` (a state dict; kept as they are), for inference.

    Raises ``RuntimeError`` if they do not fit. No random numbers are drawn.
    """
    with torch.device("meta"):
        model = Olip(config)
    model.load_state_dict(weights, assign=True)
    return model.eval()


class _Branch(nn.Module):
    def __init__(self, config: OlipConfig, outputs: int) -> None:
        super().__init__()
        self.config = config
        self.attention = nn.MultiheadAttention(
            config.embedding, config.heads, dropout=config.dropout, batch_first=True
        )
        self.head = _projection(config, outputs)

    def forward(self, full: torch.Tensor, crop: torch.Tensor) -> torch.Tensor:
        query = full if self.config.full_image else crop
        key = crop[:, None]
        found, _ = self.attention(query[:, None], key, key, need_weights=False)
        enhanced = found[:, 0] + query if self.config.residual else found[:, 0]
        scores: torch.Tensor = self.head(enhanced)
        return scores


def _projection(config: OlipConfig, outputs: int) -> nn.Module:
    if not config.deep:
        return nn.Linear(config.embedding, outputs)
    layers: list[nn.Module] = []
    width = config.embedding
    for wanted in config.widths:
        layers += [
            nn.Linear(width, wanted),
            nn.LayerNorm(wanted),
            nn.ReLU(),
            nn.Dropout(config.head_dropout),
        ]
        width = wanted
    return nn.Sequential(*layers, nn.Linear(width, outputs))


ARCHITECTURE = "SegformerBlip"
"""What ``config.json`` calls it."""
GRID = 8
"""Tokens a side; one more tells of the whole picture."""
_EPSILON = 1e-5
_MOST = 6.0


class SegformerVision(nn.Module):
    """Vision tower that turns the feature maps of a SegFormer into tokens.

    A token holds the mean and the spread of each map around a place; each channel is normalised to
    mean 0 and deviation 1 over the pictures of :meth:`measure`.
    """

    mean: torch.Tensor
    deviation: torch.Tensor

    def __init__(self, config: SegformerConfig) -> None:
        """With random weights."""
        super().__init__()
        self.segformer = SegformerModel(config)
        width = width_of(config)
        # One row for the token of the whole picture, one for those of places.
        self.register_buffer("mean", torch.zeros(2, width))
        self.register_buffer("deviation", torch.ones(2, width))

    def raw(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Tokens as they come, float (n, 1 + GRID², width): the whole picture, then row by row.

        ``pixel_values`` is float (n, 3, height, width).
        """
        maps = self.segformer(pixel_values, output_hidden_states=True).hidden_states
        whole: list[torch.Tensor] = []
        places: list[torch.Tensor] = []
        for found in maps:
            whole += [found.mean((2, 3)), found.std((2, 3))]
            mean = functional.avg_pool2d(found, 3, 1, 1, count_include_pad=False)
            square = functional.avg_pool2d(found * found, 3, 1, 1, count_include_pad=False)
            spread = (square - mean * mean).clamp(min=0).add(_EPSILON).sqrt()
            for part in (mean, spread):
                fitted = (
                    functional.adaptive_avg_pool2d(part, GRID)
                    if min(part.shape[2:]) >= GRID
                    else functional.interpolate(part, (GRID, GRID), mode="nearest")
                )
                places.append(fitted.flatten(2).transpose(1, 2))
        return torch.cat([torch.cat(whole, 1)[:, None], torch.cat(places, 2)], 1)

    def forward(self, pixel_values: torch.Tensor, **_: Any) -> BaseModelOutputWithPooling:
        """Return ``last_hidden_state`` and ``pooler_output`` of the pictures.

        Shapes (n, 1 + GRID², width) and (n, width); the latter is the token of the whole picture.
        """
        return self.of(self.raw(pixel_values))

    def of(self, raw: torch.Tensor) -> BaseModelOutputWithPooling:
        """Return the result of :meth:`forward` for tokens of :meth:`raw`."""
        row = torch.ones(raw.shape[1], dtype=torch.long, device=raw.device)
        row[0] = 0
        # The maps' channels differ in size by orders of magnitude: a norm over all of them would
        # leave nothing of the small ones.
        tokens = ((raw - self.mean[row]) / self.deviation[row]).clamp(-_MOST, _MOST)
        return BaseModelOutputWithPooling(last_hidden_state=tokens, pooler_output=tokens[:, 0])

    @torch.no_grad()
    def measure(self, raw: torch.Tensor) -> None:
        """Take mean and deviation of every channel from many pictures' tokens of :meth:`raw`."""
        for row, some in enumerate((raw[:, :1], raw[:, 1:])):
            flat = some.flatten(0, 1).float()
            self.mean[row] = flat.mean(0)
            self.deviation[row] = flat.std(0).clamp(min=_EPSILON)


class SegformerBlip(BlipModel):  # type: ignore[misc]
    """``BlipModel`` with :class:`SegformerVision`; its config's ``segformer`` is a SegFormer's."""

    residual: torch.Tensor

    def __init__(self, config: BlipConfig) -> None:
        """With random weights. Raises ``ValueError`` if the widths do not fit."""
        segformer = SegformerConfig(**config.segformer)
        if config.vision_config.hidden_size != width_of(segformer):
            raise ValueError(
                f"vision_config.hidden_size is {config.vision_config.hidden_size}, the tokens of "
                f"this SegFormer are {width_of(segformer)} wide"
            )
        super().__init__(config)
        self.vision_model = SegformerVision(segformer)
        self.register_buffer("residual", torch.zeros(config.projection_dim, width_of(segformer)))
        self.post_init()

    def multimodal(self, pooled: torch.Tensor, whole: torch.Tensor) -> torch.Tensor:
        """Multimodal features, float (n, projection).

        ``pooled`` is the text encoder's state (n, hidden) after it attended to the picture,
        ``whole`` the picture's first token.
        """
        found: torch.Tensor = self.text_projection(pooled)
        return found + whole @ self.residual.T

    def get_multimodal_features(
        self,
        input_ids: torch.Tensor | None = None,
        pixel_values: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        interpolate_pos_encoding: bool = False,
    ) -> torch.Tensor:
        """As of ``BlipModel``, with the residual."""
        seen = self.vision_model(pixel_values).last_hidden_state
        pooled = self.text_model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            encoder_hidden_states=seen,
            encoder_attention_mask=torch.ones(
                seen.shape[:-1], dtype=torch.long, device=seen.device
            ),
        ).pooler_output
        return self.multimodal(pooled, seen[:, 0])

    @torch.no_grad()
    def measure(self, raw: torch.Tensor) -> None:
        """Fit channel scales and the principal components of the residual.

        ``raw`` are tokens of pictures from ``vision_model.raw``. Components are scaled to deviation
        1; few pictures give fewer components than channels, and the rest is 0.
        """
        self.vision_model.measure(raw)
        whole = self.vision_model.of(raw).last_hidden_state[:, 0].double()
        _, sizes, axes = torch.linalg.svd(whole - whole.mean(0), full_matrices=False)
        deviations = sizes / len(whole) ** 0.5
        found = (axes / deviations.clamp(min=_EPSILON)[:, None])[: len(self.residual)]
        self.residual.zero_()
        self.residual[: len(found)] = found


def width_of(config: SegformerConfig) -> int:
    """Length of a token: mean and spread of every channel of every map."""
    return 2 * sum(int(size) for size in config.hidden_sizes)


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
