"""A BLIP that sees by the encoder of a SegFormer, behind the interface of ``BlipModel``.

Small vision transformers want more pictures than a small world has; a SegFormer that has learned to
find things there sees edges and surfaces already. Its four maps become tokens on a grid; text
encoder, cross-attention, projections and files are transformers' own. A small text encoder reads
what its captions speak of and lets the rest go by, so the multimodal features have a residual: the
token of the whole picture, by its principal components.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from transformers import BlipConfig, BlipModel, SegformerConfig, SegformerModel
from transformers.modeling_outputs import BaseModelOutputWithPooling

ARCHITECTURE = "SegformerBlip"
"""Its name in ``config.json``."""
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
        """Return the multimodal features, float (n, projection).

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
    """Return the length of a token: mean and spread of every channel of every map."""
    return 2 * sum(int(size) for size in config.hidden_sizes)
