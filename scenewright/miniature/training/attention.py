"""Lets training see where a denoiser's cross-attention looks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from diffusers import UNet2DConditionModel
from diffusers.models.attention_processor import Attention, AttnProcessor


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
        """The probabilities of the last forward pass, one tensor a layer."""
        for processor in self._watched:
            if processor.probabilities is not None:
                yield processor.probabilities
                processor.probabilities = None
