"""Trains the text encoder of the miniature generator before the generator itself.

Every word that speaks of an object learns to know that object: kind, colour, cell and
place. A denoiser that attends to such words learns to draw in a fraction of the steps.
"""

from __future__ import annotations

import random
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional
from transformers import CLIPTextConfig, CLIPTextModel, CLIPTokenizer

from scenewright.miniature.painter import Painting
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.training.captions import Caption, caption
from scenewright.miniature.training.loop import Training, autocast, cosine_rate, pick_device
from scenewright.miniature.vocabulary import MAX_TOKENS, new_tokenizer
from scenewright.miniature.world import COLORS, KINDS, SETTINGS, SIZE

WIDTH = 128
"""Features a token."""
_KINDS, _COLORS, _SETTINGS = list(KINDS), list(COLORS), list(SETTINGS)
_SIZES = (len(_KINDS), len(_COLORS), 9, 2)


def new_text_encoder(tokenizer: CLIPTokenizer) -> CLIPTextModel:
    """An untrained CLIP text encoder of 3 layers."""
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
    """Indices (n, 2) of tokens that speak of objects, their rows (n, 5), settings (batch,)."""
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
