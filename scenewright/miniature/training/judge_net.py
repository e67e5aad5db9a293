"""A judge with its helpers for training: losses at every place whose truth is known.

The answer alone is a thin signal. So the image tokens also say which thing stands
there, every referring phrase where its things are and how many, and every option
whether it is right; and some attention heads are told where to look: a phrase at its
things, an option at the two phrases, the answer at the right option. The helpers are
left behind when the judge is saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import LlavaForConditionalGeneration

from scenewright.miniature.judge_model import JudgeShape
from scenewright.miniature.training.judge_batch import BROKEN, MANY, TOKENS, Batch
from scenewright.miniature.world import COLORS

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
        if shape.text_layers < 3:
            raise ValueError(f"{shape.text_layers} text layers: a judge needs at least 3")
        # Phrases look at the image in this layer, options at phrases in the next, answers last.
        self.pointing = shape.text_layers - 3
        self.image_start = image_start
        vision, text = shape.vision_width, shape.text_width
        self.kind = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, BROKEN + 1))
        self.color = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, len(COLORS) + 1))
        self.middle_of = nn.Sequential(nn.LayerNorm(vision), nn.Linear(vision, 2))
        self.told_kind = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, BROKEN + 1))
        self.told_color = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, len(COLORS) + 1))
        self.place = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, TOKENS + 1))
        self.count = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, MANY + 1))
        self.shade = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, len(COLORS)))
        self.option = nn.Sequential(nn.LayerNorm(text), nn.Linear(text, 1))

    def see(self, pixels: torch.Tensor) -> torch.Tensor:
        """Image tokens [b, tokens, width] as the projector reads them."""
        tower: Any = self.model.model.vision_tower
        states: torch.Tensor = tower(pixels, output_hidden_states=True).hidden_states[-1]
        return states[:, 1:]

    def dense_loss(self, seen: torch.Tensor, batch: Batch) -> tuple[torch.Tensor, dict[str, float]]:
        """Loss of what stands at every image token; and the share of things told right."""
        kinds, colors = batch.kinds.flatten(), batch.colors.flatten()
        weight = torch.ones(BROKEN + 1, device=seen.device)
        weight[0] = _BACKGROUND_WEIGHT
        kind_scores = self.kind(seen).flatten(0, 1)
        loss = functional.cross_entropy(kind_scores, kinds, weight)
        loss = loss + 0.7 * functional.cross_entropy(self.color(seen).flatten(0, 1), colors)
        thing = kinds > 0
        errors = (self.middle_of(seen) - batch.middles).abs().sum(-1)
        loss = loss + 2.0 * errors.mean()
        right = (kind_scores.argmax(-1) == kinds)[thing].float().mean()
        return loss, {"things": right.item(), "middles": errors.mean().item()}

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
            output_attentions=True,
            use_cache=False,
        )
        pointed = out.hidden_states[self.pointing + 1]
        compared = out.hidden_states[self.pointing + 2]
        last = out.last_hidden_state

        def at(states: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
            return states[index[:, 0], index[:, 1]]

        scores = self.model.lm_head(at(last, batch.answers)).float()
        losses = -(batch.targets * scores.log_softmax(-1)).sum(-1)
        loss = (losses * batch.weights).sum() / batch.weights.sum()
        # The projector drops what no question has asked yet, colours first: hold them.
        kinds = self.told_kind(image).flatten(0, 1)
        colors = self.told_color(image).flatten(0, 1)
        loss = loss + 0.5 * functional.cross_entropy(kinds, batch.kinds.flatten())
        told = functional.cross_entropy(colors, batch.colors.flatten())
        loss = loss + told
        clear = batch.weights == 1
        hit = batch.targets.gather(1, scores.argmax(-1, keepdim=True))[:, 0] > 0
        choice = (batch.targets @ self._is_letter(scores)) > 0.5
        figures = {
            "told": told.item(),
            "answers": losses[clear].mean().item(),
            "binary": hit[clear & ~choice].float().mean().item(),
            "choice": hit[clear & choice].float().mean().item(),
        }
        referring = at(pointed, batch.referents)
        place = functional.cross_entropy(self.place(referring), batch.places)
        figures["places"] = place.item()
        loss = loss + 0.3 * place
        loss = loss + 0.3 * functional.cross_entropy(self.count(referring), batch.counts)
        shade = functional.binary_cross_entropy_with_logits(self.shade(referring), batch.shades)
        loss = loss + 0.5 * shade
        if len(batch.options):
            flags = self.option(at(compared, batch.options))[:, 0]
            loss = loss + 0.7 * functional.binary_cross_entropy_with_logits(
                flags, batch.option_right
            )
        looks = self._look_loss(out.attentions, batch)
        figures["looks"] = looks.item()
        return loss + 0.2 * looks, figures

    def _look_loss(self, attentions: Sequence[torch.Tensor], batch: Batch) -> torch.Tensor:
        """−log of the attention that the told heads give to where they should look."""

        def rows(step: int, head: int, index: torch.Tensor) -> torch.Tensor:
            weights: torch.Tensor = attentions[self.pointing + step]
            return weights[index[:, 0], head, index[:, 1]]

        def missed(mass: torch.Tensor) -> torch.Tensor:
            return -mass.clamp(min=1e-6).log().mean() if mass.numel() else mass.sum()

        first = self.image_start
        there = batch.covers.any(-1)
        total = batch.covers.new_zeros(())
        for head in (0, 1):
            seen = rows(0, head, batch.referents[there])
            looking = torch.cat([seen[:, :1], seen[:, first : first + TOKENS]], 1)
            total = total + missed((looking * batch.covers[there]).sum(-1))
            looking = rows(1, head, batch.options)
            total = total + missed(looking.gather(1, batch.option_ends[:, head : head + 1]))
            if self.pointing > 0:
                # The words before a phrase's last token: "red" of "red dog".
                words = batch.referents[:, 1:] - 1 - head
                total = total + missed(rows(-1, head, batch.referents).gather(1, words))
        looking = rows(2, 0, batch.answers)
        return total + missed(looking.gather(1, batch.reasons[:, None]))

    letters: torch.Tensor
    """float [vocabulary]: 1 for the tokens that are letters of options."""

    def set_letters(self, ids: list[int], vocabulary: int) -> None:
        """Say which tokens are letters of options (for the figures alone)."""
        mark = torch.zeros(vocabulary)
        mark[ids] = 1.0
        self.register_buffer("letters", mark, persistent=False)

    def _is_letter(self, scores: torch.Tensor) -> torch.Tensor:
        return self.letters.to(scores.dtype)
