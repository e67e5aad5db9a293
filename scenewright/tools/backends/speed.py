"""A compiled denoiser whose weights of references may change without compiling it again.

A compiler takes a Python number for a constant: each new λ of Eq. 5 would be another program.
Attention is linear in its values, ``λ · Attn(Q, K, V) = Attn(Q, K, λ · V)``, so λ can be a
tensor that multiplies the values, and a tensor may change.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

PROGRAMS = 64
"""Programs kept for one kind of block: each of its widths with no, one, two, … references, and
once more when another size of picture is asked for."""


class WeightedValues(nn.Module):
    """A projection to values, times a weight that is a tensor."""

    def __init__(self, project: nn.Module, weight: torch.Tensor) -> None:
        """``weight`` has no dimensions; it is no parameter and stays where it is."""
        super().__init__()
        self.project = project
        self._weight = [weight]

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        """``[…, values]``"""
        values: torch.Tensor = self.project(hidden_states) * self._weight[0]
        return values


class HeldWeights:
    """λ_0, λ_1, … as tensors that all layers share."""

    def __init__(self, device: torch.device) -> None:
        """``device`` is the one that computes."""
        self._device = device
        self._tensors: list[torch.Tensor] = []
        self._modules: dict[tuple[int, int], WeightedValues] = {}

    def set(self, weights: Sequence[float]) -> list[float]:
        """Takes over the weights and returns what is left for the layers to multiply by: ones."""
        self._grow(len(weights))
        for tensor, weight in zip(self._tensors, weights, strict=False):
            tensor.fill_(float(weight))
        return [1.0] * len(weights)

    def values(self, project: nn.Module, count: int) -> list[nn.Module]:
        """The projection ``project`` of one layer for each of ``count`` references."""
        self._grow(count)
        return [self._module(project, at) for at in range(count)]

    def _module(self, project: nn.Module, at: int) -> WeightedValues:
        key = (id(project), at)
        if key not in self._modules:
            self._modules[key] = WeightedValues(project, self._tensors[at])
        return self._modules[key]

    def _grow(self, count: int) -> None:
        while len(self._tensors) < count:
            self._tensors.append(torch.ones((), device=self._device))


def compile_blocks(pipe: Any, backend: str = "inductor") -> bool:
    """Compiles the repeated blocks of the denoiser of ``pipe``; False if it names none.

    The compiler runs when a block is first used. ``backend`` is one of ``torch.compile``.
    """
    denoiser = next(filter(None, (getattr(pipe, n, None) for n in ("transformer", "unet"))), None)
    names = getattr(denoiser, "_repeated_blocks", None) or ()
    if denoiser is None or not any(type(one).__name__ in names for one in denoiser.modules()):
        return False
    config = torch._dynamo.config
    config.recompile_limit = max(config.recompile_limit, PROGRAMS)
    denoiser.compile_repeated_blocks(backend=backend)
    return True
