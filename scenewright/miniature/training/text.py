"""Trains the text encoder of the miniature generator before the generator itself.

Every word that speaks of an object learns to know that object: kind, colour, cell and
place. A denoiser that attends to such words learns to draw in a fraction of the steps.

What is said of a painting in training, and which token speaks of which object.

Lets training see where a denoiser's cross-attention looks.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor
from torch import nn
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from scenewright.agents.composers.rules import Piece, describe, triplets
from scenewright.miniature.painter import Painting, Truth
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.loop import Training, autocast, cosine_rate, pick_device
from scenewright.miniature.world import (
    COLORS,
    KINDS,
    MAX_TOKENS,
    SETTINGS,
    SIZE,
    new_tokenizer,
    token_owners,
)

P_COMPOSED = 0.75
P_EMPTY = 0.1


@dataclass(frozen=True, slots=True)
class Caption:
    """A prompt as tokens."""

    ids: list[int]
    """:data:`MAX_TOKENS` token ids: start, words, end, padding."""
    owners: list[str | None]
    """For each token the id of the object it speaks of."""
    composed: bool
    """Whether the places are said."""


def pad(pieces: list[Piece], tokenizer: CLIPTokenizer, composed: bool) -> Caption:
    """Return the caption that the tokenizer makes of the joined pieces."""
    ids, owners = token_owners(pieces, tokenizer)
    fill = MAX_TOKENS - 1 - len(ids)
    return Caption(
        [tokenizer.bos_token_id, *ids, *([tokenizer.eos_token_id] * fill)],
        [None, *owners, *([None] * fill)],
        composed,
    )


def caption(truth: Truth, rng: random.Random, tokenizer: CLIPTokenizer) -> Caption:
    """Return a composed description mostly, bare triplets sometimes, nothing now and then."""
    draw = rng.random()
    if draw < P_EMPTY:
        return pad([], tokenizer, False)
    scene = truth.scene
    if draw < P_EMPTY + (1 - P_EMPTY) * P_COMPOSED:
        return pad(describe(scene, truth.cells, SETTINGS[truth.setting]), tokenizer, True)
    return pad(triplets(scene), tokenizer, False)


WIDTH = 128
"""Features a token."""
_KINDS, _COLORS, _SETTINGS = list(KINDS), list(COLORS), list(SETTINGS)
_SIZES = (len(_KINDS), len(_COLORS), 9, 2)


def new_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """Return an untrained CLIP text encoder of 3 layers."""
    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=len(tokenizer),
            hidden_size=WIDTH,
            intermediate_size=3 * WIDTH,
            num_hidden_layers=3,
            num_attention_heads=4,
            max_position_embeddings=MAX_TOKENS,
            projection_dim=WIDTH,
            hidden_act="gelu",
            bos_token_id=tokenizer.bos_token_id,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )


def load_text_encoder(out: Path, where: torch.device) -> tuple[CLIPTokenizer, CLIPTextModel]:
    """Return the tokenizer and the trained encoder of the pipeline in ``out``, frozen."""
    tokenizer = CLIPTokenizer.from_pretrained(out / "tokenizer", local_files_only=True)
    model = CLIPTextModel.from_pretrained(out / "text_encoder", dtype=torch.float32)
    return tokenizer, model.to(where).eval().requires_grad_(False)


def _object_row(painting: Painting, object_id: str) -> list[float]:
    truth = painting.truth
    item = painting.scene.object(object_id)
    column, row = truth.cells[object_id]
    x, y = truth.boxes[object_id].center
    return [
        _KINDS.index(item.name),
        _COLORS.index(item.attributes["color"]),
        3 * row + column,
        x / SIZE,
        y / SIZE,
    ]


def _targets(
    batch: list[tuple[Painting, Caption]],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the targets of the tokens that name objects.

    Indices of the tokens (n, 2), their rows (n, 5), settings (batch,).
    """
    where: list[tuple[int, int]] = []
    rows: list[list[float]] = []
    for at, (painting, words) in enumerate(batch):
        for token, owner in enumerate(words.owners):
            if owner is not None:
                where.append((at, token))
                rows.append(_object_row(painting, owner))
    settings = [
        _SETTINGS.index(painting.truth.setting) if words.composed else -100
        for painting, words in batch
    ]
    return torch.tensor(where), torch.tensor(rows), torch.tensor(settings)


def train_text_encoder(
    out: Path,
    work: Path,
    steps: int = 1500,
    batch: int = 64,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
) -> bool:
    """Train and write ``text_encoder`` and ``tokenizer`` into ``out``; resumes from ``work``."""
    where = pick_device(device)
    torch.manual_seed(seed)
    tokenizer = new_tokenizer()
    model = new_text_encoder(tokenizer).to(where)
    heads = nn.ModuleDict(
        {"object": nn.Linear(WIDTH, sum(_SIZES)), "setting": nn.Linear(WIDTH, len(_SETTINGS))}
    ).to(where)
    optimizer = torch.optim.AdamW([*model.parameters(), *heads.parameters()], lr=2e-3)
    state = Training(
        work / "text.pt",
        {"text": model, "heads": heads},
        optimizer,
        steps,
        lambda step: cosine_rate(step, steps, 100),
        decay=0.99,
    )

    def loss_of(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        rng = random.Random(f"text {seed} {step}")
        made = [sample_painting(rng) for _ in range(batch)]
        pairs = [(painting, caption(painting.truth, rng, tokenizer)) for painting in made]
        ids = torch.tensor([words.ids for _, words in pairs], device=where)
        at, rows, settings = (t.to(where) for t in _targets(pairs))
        with autocast(where):
            states = model(input_ids=ids).last_hidden_state
            kind, colour, cell, place = (
                heads["object"](states[at[:, 0], at[:, 1]]).float().split(_SIZES, dim=-1)
            )
            ends = (ids == tokenizer.eos_token_id).int().argmax(-1)
            setting = heads["setting"](states[torch.arange(batch, device=where), ends]).float()
        losses = {
            "kind": functional.cross_entropy(kind, rows[:, 0].long()),
            "color": functional.cross_entropy(colour, rows[:, 1].long()),
            "cell": functional.cross_entropy(cell, rows[:, 2].long()),
            "place": 10 * functional.mse_loss(place, rows[:, 3:]),
            "setting": functional.cross_entropy(setting, settings, ignore_index=-100),
        }
        return sum(losses.values(), torch.zeros((), device=where)), {
            key: value.item() for key, value in losses.items()
        }

    finished = state.run(loss_of, max_seconds)
    state.load_averages()
    model.cpu().eval().half().save_pretrained(out / "text_encoder", safe_serialization=True)
    tokenizer.save_pretrained(out / "tokenizer")
    return finished


class _WatchedProcessor:
    """Plain attention that keeps the probabilities of its last call, averaged over heads."""

    def __init__(self) -> None:
        self.probabilities: torch.Tensor | None = None

    def __call__(
        self,
        attn: Attention,
        hidden_states: torch.Tensor,
        encoder_hidden_states: torch.Tensor | None = None,
        attention_mask: torch.Tensor | None = None,
        temb: torch.Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> torch.Tensor:
        assert encoder_hidden_states is not None
        query = attn.head_to_batch_dim(attn.to_q(hidden_states))
        key = attn.head_to_batch_dim(attn.to_k(encoder_hidden_states))
        value = attn.head_to_batch_dim(attn.to_v(encoder_hidden_states))
        probabilities = attn.get_attention_scores(query, key, attention_mask)
        mixed = attn.batch_to_head_dim(torch.bmm(probabilities, value))
        self.probabilities = probabilities.unflatten(0, (-1, attn.heads)).float().mean(1)
        out: torch.Tensor = attn.to_out[1](attn.to_out[0](mixed))
        return out


class AttentionWatch:
    """Watches every cross-attention of a denoiser; shapes (batch, cells, tokens)."""

    def __init__(self, unet: UNet2DConditionModel) -> None:
        self._watched: list[_WatchedProcessor] = []
        processors: dict[str, Any] = {}
        for name in unet.attn_processors:
            if name.endswith("attn2.processor"):
                self._watched.append(_WatchedProcessor())
                processors[name] = self._watched[-1]
            else:
                processors[name] = AttnProcessor()
        unet.set_attn_processor(processors)

    def taken(self) -> Iterator[torch.Tensor]:
        """Return the probabilities of the last forward pass, one tensor a layer."""
        for processor in self._watched:
            if processor.probabilities is not None:
                yield processor.probabilities
                processor.probabilities = None
