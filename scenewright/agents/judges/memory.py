"""What the weights of a local judge take, from its configuration alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError
from scenewright.providers.hub.known import size_words

if TYPE_CHECKING:
    import torch

# NF4 with nested quantisation: half a byte a weight, a byte of scale for 64 of them, and four
# bytes of scale of the scales for 64 × 256.
_FOUR_BIT = 1 / 2 + 1 / 64 + 4 / (64 * 256)


@dataclass(frozen=True, slots=True)
class JudgeMemory:
    """How a judge's weights lie in memory."""

    weights: int
    """Bytes of all weights."""
    full: int
    """Bytes that they would take without quantisation."""
    dtype: str
    """Number format of the weights that are not quantised."""
    quantization: str
    """``none`` or ``4bit``."""
    offload: bool
    """Whether they wait in main memory while the judge is not asked."""

    @property
    def resident(self) -> int:
        """Bytes that stay on the device while others compute."""
        return 0 if self.offload else self.weights

    def describe(self) -> str:
        """One line for people."""
        told = f"{size_words(self.weights)} of weights in {self.dtype}"
        if self.quantization == "4bit":
            told = (
                f"{size_words(self.weights)} of weights, linear layers in 4 bit "
                f"({size_words(self.full)} in {self.dtype})"
            )
        return told + (", waiting in main memory between questions" if self.offload else "")


def plan_judge(folder: Path, device: torch.device, how: LocalJudgeSpec) -> JudgeMemory:
    """Return what the model in ``folder`` takes on ``device``; no weights are read.

    Only plain linear layers are quantised: embeddings, the output layer and the fused experts of
    mixtures keep their format. Raises ``JudgeError`` if its class cannot be made.
    """
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    dtype = dtype_on(device)
    try:
        config = AutoConfig.from_pretrained(folder, local_files_only=True)
        with torch.device("meta"):
            model: Any = AutoModelForImageTextToText.from_config(config, dtype=dtype)
    except Exception as error:
        raise JudgeError(f"{folder}: no model can be made of its config.json: {error}") from error
    size = dtype.itemsize
    full = sum(parameter.numel() for parameter in model.parameters()) * size
    weights = full
    if how.quantization == "4bit":
        output = model.get_output_embeddings()
        linear = sum(
            module.weight.numel()
            for module in model.modules()
            if type(module) is torch.nn.Linear and module is not output
        )
        weights = full - round(linear * (size - _FOUR_BIT))
    return JudgeMemory(
        weights, full, str(dtype).removeprefix("torch."), how.quantization, how.offload
    )


def together(drawing: int, judges: Sequence[JudgeMemory]) -> int:
    """Return the most bytes on one device of a model that draws and needs ``drawing``, and judges.

    One of those that wait is there at a time, without what computing takes besides weights.
    """
    waiting = max((judge.weights for judge in judges if judge.offload), default=0)
    return drawing + sum(judge.resident for judge in judges) + waiting


def dtype_on(device: torch.device) -> torch.dtype:
    """Return the number format of a judge's weights on ``device``."""
    import torch

    return torch.float32 if device.type == "cpu" else torch.bfloat16
