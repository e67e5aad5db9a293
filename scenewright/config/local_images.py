"""Settings of an image model on this machine: adapter, LoRAs, quantized weights and caches."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scenewright.core.validation import FiniteModel


class AdapterSpec(BaseModel):
    """Location of an IP-Adapter's weights."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    repository: str
    """A local folder or a hub id, for example ``"h94/IP-Adapter"``."""
    subfolder: str = ""
    """Folder of the weights in it."""
    weight_name: str = "ip-adapter.safetensors"
    """File of the weights in the sub-folder."""
    image_encoder: str = "image_encoder"
    """Folder of the image encoder: below the sub-folder, or, with a slash, below the repository;
    where there is no such folder, a folder or hub id of its own."""


class LoraSpec(FiniteModel):
    """A LoRA: small changes to the weights of denoiser and text encoders.

    ``"FILE"``, ``"FOLDER"`` and ``"OWNER/NAME"`` are the short form.
    """

    repository: str = Field(min_length=1)
    """A ``*.safetensors`` file, a folder, or a hub id."""
    weight_name: str = ""
    """File in the folder or repository; empty: the only ``*.safetensors`` file there."""
    weight: float = Field(default=1.0, ge=-4.0, le=4.0)
    """Factor of its changes."""
    triggers: tuple[str, ...] = ()
    """Words that it was trained with, appended to every prompt."""
    partial: bool = Field(default=False, exclude_if=lambda partial: not partial)
    """Load it even if fewer than nine tenths of its layers belong to the model."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"repository": value} if isinstance(value, str) else value

    @field_validator("triggers")
    @classmethod
    def _words(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not all(word.strip() for word in value):
            raise ValueError("an empty trigger word: leave it out")
        return value


QuantizationMethod = Literal[
    "bitsandbytes-8bit", "bitsandbytes-4bit", "torchao-int8", "torchao-float8", "quanto-int8",
    "quanto-int4", "layerwise-float8", "gguf",
]  # fmt: skip


class QuantizationSpec(FiniteModel):
    """Weights that are stored in few bits, which saves memory and changes pictures.

    ``"torchao-int8"`` and the like are the short form.
    """

    method: QuantizationMethod
    """``layerwise-float8`` stores weights in 8 bits and computes each layer in the model's own
    format, without a further package; ``gguf`` takes a quantized denoiser from a file; the others
    quantize linear layers while they are loaded."""
    parts: tuple[str, ...] = ()
    """Parts of the pipeline, for example ``transformer`` and ``text_encoder``; empty: the denoiser.
    """
    repository: str = ""
    """``gguf``: a ``*.gguf`` file, a folder, or a hub id."""
    weight_name: str = ""
    """``gguf``: file in the folder or repository."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"method": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.method == "gguf":
            if not self.repository:
                raise ValueError("gguf needs a file: name it as repository, or with weight_name")
            if self.parts:
                raise ValueError("gguf holds the denoiser only: leave parts out")
        elif self.repository or self.weight_name:
            raise ValueError(f"{self.method} reads the model's own files: leave repository out")
        return self


class CacheSpec(FiniteModel):
    """Reuse of a denoiser's computations from one step to the next, which changes pictures.

    ``"first-block"``, ``"taylor-seer"`` and ``"mag"`` are the short form.
    """

    kind: Literal["first-block", "taylor-seer", "mag"]
    """``first-block`` skips the other blocks while the first one changes little; ``taylor-seer``
    predicts the blocks' outputs between steps that are computed; ``mag`` skips all blocks of steps
    in which, by ``ratios``, little changes."""
    threshold: float = Field(default=0.05, gt=0.0, le=1.0)
    """``first-block``: relative change of the first block's output above which all are computed;
    ``mag``: largest sum of the errors of steps that are skipped in a row."""
    interval: int = Field(default=5, ge=2, le=100)
    """``taylor-seer``: every so many steps are computed."""
    skips: int = Field(default=3, ge=1, le=100, exclude_if=lambda skips: skips == 3)
    """``mag``: most steps that are skipped in a row."""
    ratios: tuple[Annotated[float, Field(gt=0.0, le=10.0)], ...] = Field(
        default=(), exclude_if=lambda ratios: not ratios
    )
    """``mag``: growth of the blocks' change from step to step, measured on this model; empty: as
    published for FLUX.1."""

    @model_validator(mode="before")
    @classmethod
    def _short_form(cls, value: Any) -> Any:
        return {"kind": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.ratios and self.kind != "mag":
            raise ValueError("ratios belong to the cache 'mag': leave them out")
        if len(self.ratios) == 1:
            raise ValueError("ratios needs a number for each step, at least two")
        return self
