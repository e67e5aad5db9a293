"""A judge with its helpers for training: losses at every place whose truth is known.

The answer alone is a thin signal. So the image tokens also say which thing stands
there, every referring phrase where its things are and how many, and every option
whether it is right. The helpers are left behind when the judge is saved.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import LlavaForConditionalGeneration

from scenewright.miniature.judge_model import JudgeShape
from scenewright.miniature.training.judge_batch import MANY, TOKENS, Batch
from scenewright.miniature.world import COLORS, KINDS

_BACKGROUND_WEIGHT = 0.4


def question_mask(groups: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Additive attention mask [b, 1, s, s]: causal, and no question sees another one.

    ``groups`` int64 [b, s]: 0 image and prefix, 1… questions, −1 padding.
    """
    length = groups.shape[1]
    asking, asked = groups[:, :, None], groups[:, None, :]
    earlier = torch.ones(length, length, dtype=torch.bool, device=groups.device).tril()
    itself = torch.eye(length, dtype=torch.bool, device=groups.device)
    allowed = ((asked == 0) | ((asked == asking) & (asked > 0))) & earlier | itself
    mask = torch.zeros(allowed.shape, dtype=dtype, device=groups.device)
    return mask.masked_fill_(~allowed, torch.finfo(dtype).min)[:, None]


class JudgeNet(nn.Module):
    """A judge and its helper heads."""

    def __init__(
        self, model: LlavaForConditionalGeneration, shape: JudgeShape, image_start: int
    ) -> None:
        super().__init__()
        self.model = model
        self.middle = max(1, shape.text_layers // 2)
        self.image_start = image_start
        vision, text = shape.vision_width, shape.text_width
        self.kind = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, len(KINDS) + 1))
        self.color = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, len(COLORS) + 1))
        self.offset = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, 2))
        self.place = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, TOKENS + 1))
        self.count = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, MANY + 1))
        self.option = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, 1))

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Image tokens [b, tokens, width] as the projector reads them."""
        tower: Any = self.model.model.vision_tower
        states: torch.Tensor = tower(pixels, output_hidden_states=True).hidden_states[-1]
        return states[:, 1:]

    def dense_loss(self, seen: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, dict[str, float]]:
        """Loss of what stands at every image token; and the share of things told right."""
        kinds, colors = batch.kinds.flatten(), batch.colors.flatten()
        weight = torch.ones(len(KINDS) + 1, device=seen.device)
        weight[0] = _BACKGROUND_WEIGHT
        kind_scores = self.kind(seen).flatten(0, 1)
        loss = functional.cross_entropy(kind_scores, kinds, weight)
        loss = loss + 0.7 * functional.cross_entropy(self.color(seen).flatten(0, 1), colors)
        thing = kinds > 0
        errors = (self.offset(seen) - batch.offsets).abs().sum(-1).flatten()
        loss = loss + 0.3 * (errors * thing).sum() / thing.sum().clamp(min=1)
        right = (kind_scores.argmax(-1) == kinds)[thing].float().mean()
        return loss, {"things": right.item()}

    def question_loss(
        self, seen: torch.Tensor, batch: Batch
    ) -> tuple[torch.Tensor, dict[str, float]]:
        """Loss of all answers, options and referring phrases; and the share of right answers."""
        inner: Any = self.model.model
        embedded = self.model.get_input_embeddings()(batch.ids)
        image = inner.multi_modal_projector(seen).to(embedded.dtype)
        start = self.image_start
        embedded = torch.cat([embedded[:, :start], image, embedded[:, start + TOKENS :]], dim=1)
        out = inner.language_model(
            inputs_embeds=embedded,
            attention_mask=question_mask(batch.groups, embedded.dtype),
            position_ids=batch.positions,
            output_hidden_states=True,
            use_cache=False,
        )
        middle, last = out.hidden_states[self.middle], out.last_hidden_state

        def at(states: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return states[index[:, 0], index[:, 1]]

        scores = self.model.lm_head(at(last, batch.answers)).float()
        losses = -(batch.targets * scores.log_softmax(-1)).sum(-1)
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        clear = batch.weights == 1
        hit = batch.targets.gather(1, scores.argmax(-1, keepdim=True))[:, 0] > 0
        choice = (batch.targets @ self._is_letter(scores)) > 0.5
        figures = {
            "answers": losses[clear].mean().item(),
            "binary": hit[clear & ~choice].float().mean().item(),
            "choice": hit[clear & choice].float().mean().item(),
        }
        referring = at(middle, batch.referents)
        loss = loss + 0.3 * functional.cross_entropy(self.place(referring), batch.places)
        loss = loss + 0.3 * functional.cross_entropy(self.count(referring), batch.counts)
        if len(batch.options):
            flags = self.option(at(last, batch.options))[:, 0]
            loss = loss + 0.7 * functional.binary_cross_entropy_with_logits(
                flags, batch.option_right
            )
        return loss, figures

    letters: torch.Tensor
    """float [vocabulary]: 1 for the tokens that are letters of options."""

    def set_letters(self, ids: list[int], vocabulary: int) -> None:
        """Say which tokens are letters of options (for the figures alone)."""
        mark = torch.zeros(vocabulary)
        mark[ids] = 1.0
        self.register_buffer("letters", mark, persistent=False)

    def _is_letter(self, scores: torch.Tensor) -> torch.Tensor:
        return self.letters.to(scores.dtype)
