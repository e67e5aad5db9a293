"""Families of vision-language models (``families.toml``), and the memory of their weights.

Memory is computed from a model's configuration alone.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError
from scenewright.core.validation import FrozenModel
from scenewright.providers.hub.needs import size_words

if TYPE_CHECKING:
    import torch


class Family(FrozenModel):
    """Knowledge about the models of one or several classes of transformers."""

    name: str
    """Name for people."""
    classes: tuple[str, ...] = ()
    """Model classes of transformers."""
    processor: str | None = None
    """Processor class used in place of the model's own, which needs more packages; both write the
    same text for a picture.
    """
    images: str | None = None
    """Its image processor where that has no PIL form: ``module.class`` in ``transformers.models``,
    run without torchvision (``loading.py``)."""
    needs: str | None = None
    """Package required by the installed transformers to show it a picture; such a model is not
    loaded.
    """
    template: dict[str, str | bool] = Field(default_factory=dict)
    """Arguments of the chat template that disable thinking, each passed where the model's template
    knows it.
    """
    thinks: str = "no"
    """Whether it thinks before it answers, for people."""
    opens: str = ""
    """Mark at the start of thinking; empty: it never thinks."""
    closes: str = ""
    """Mark at the end of thinking."""
    leads: tuple[str, ...] = ()
    """Text allowed between the end of thinking, or the start of the reply, and the answer."""
    licence: str = ""
    """The hub's names of the licences of its models."""
    models: dict[str, float] = Field(default_factory=dict)
    """Repositories of the hub and their parameters in 10^9."""

    def reading(self) -> dict[str, object]:
        """Return the properties that decide how a model of the family is asked and read."""
        return self.model_dump(
            include={"name", "processor", "images", "template", "opens", "closes", "leads"},
            mode="json",
        )


UNKNOWN = Family(name="other")
"""Default family: no template arguments, and the answer comes first."""


@cache
def families() -> tuple[Family, ...]:
    """Return the built-in table."""
    text = files(__package__).joinpath("families.toml").read_text(encoding="utf-8")
    return tuple(Family.model_validate(row) for row in tomllib.loads(text)["family"])


def family_of(folder: Path) -> Family:
    """Return the family of the model in ``folder`` by the class that its configuration names."""
    found: Any = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    named = set(found.get("architectures") or ()) if isinstance(found, dict) else set()
    return next((row for row in families() if named & set(row.classes)), UNKNOWN)


# NF4 with nested quantisation: half a byte a weight, a byte of scale for 64 of them, and four
# bytes of scale of the scales for 64 × 256.
_FOUR_BIT = 1 / 2 + 1 / 64 + 4 / (64 * 256)


@dataclass(frozen=True, slots=True)
class JudgeMemory:
    """Memory use of a judge's weights."""

    weights: int
    """Bytes of all weights."""
    full: int
    """Bytes without quantisation."""
    dtype: str
    """Number format of the weights that are not quantised."""
    quantization: str
    """``none`` or ``4bit``."""
    offload: bool
    """Whether they wait in main memory while the judge is idle."""

    @property
    def resident(self) -> int:
        """Bytes that stay on the device while other models compute."""
        return 0 if self.offload else self.weights

    def describe(self) -> str:
        """Return one line for people."""
        told = f"{size_words(self.weights)} of weights in {self.dtype}"
        if self.quantization == "4bit":
            told = (
                f"{size_words(self.weights)} of weights, linear layers in 4 bit "
                f"({size_words(self.full)} in {self.dtype})"
            )
        return told + (", waiting in main memory between questions" if self.offload else "")


def plan_judge(folder: Path, device: torch.device, how: LocalJudgeSpec) -> JudgeMemory:
    """Return the memory of the model in ``folder`` on ``device``; reads no weights.

    Only plain linear layers are quantised: embeddings, the output layer and the fused experts of
    mixtures keep their format. Raises ``JudgeError`` if its class cannot be made.
    """
    import torch
    from transformers import AutoConfig, AutoModelForImageTextToText

    dtype = dtype_on(device, how.dtype)
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
    """Return the peak bytes on one device of judges and an image model that needs ``drawing``.

    One of those that wait is there at a time, without what computing takes besides weights.
    """
    waiting = max((judge.weights for judge in judges if judge.offload), default=0)
    return drawing + sum(judge.resident for judge in judges) + waiting


def dtype_on(device: torch.device, wanted: str = "auto") -> torch.dtype:
    """Return the number format of a judge's weights on ``device``; ``wanted``: as set for it."""
    import torch

    if wanted == "auto":
        wanted = "float32" if device.type == "cpu" else "bfloat16"
    found: torch.dtype = getattr(torch, wanted)
    return found
