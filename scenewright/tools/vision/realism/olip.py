"""OLIP: regression of an object's realism from two embeddings of a frozen BLIP.

Liang et al., Sec. 4.3: the full image and the object's crop, each encoded together with the name of
the category, go into three branches (shape, texture, joint). A branch is multi-head attention with
the full image as query and the crop as key and value, then a 4-layer MLP, then a sigmoid that is
scaled and shifted onto the range of the scores.

Each side is one vector. The softmax over a single key is 1 whatever the query is, so the attention
as published returns a projection of the crop alone: the full image is not seen, and the query and
key projections get no gradient. The paper speaks of *attention-enhanced embeddings*, so by default
the query is added to what attention found (``residual``), as in a transformer; ``residual=False``
is the literal reading, kept to be measured. Heads that see the crop alone (``full_image=False``)
were the best in our ablation, and are the default.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import nn

from scenewright.core.ports.vision import HIGHEST, LOWEST

Aspect = Literal["shape", "texture", "joint"]
ASPECTS: tuple[Aspect, Aspect, Aspect] = ("shape", "texture", "joint")
"""Columns of :meth:`Olip.forward`."""


class OlipConfig(BaseModel):
    """The architecture: sizes of the paper (Sec. 4.3), switches of its Table 3b."""

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
    full_image: bool = False
    """Whether the full image is the query, as in the paper; False: the crop is the query as
    well."""
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
        """Return the realism from 1 to 5, float (n, 3): columns as :data:`ASPECTS`.

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
