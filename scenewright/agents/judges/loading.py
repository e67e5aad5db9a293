"""Loading of a local vision-language model with its processor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers import AutoModelForDecision, AutoModelForImageTextToText, BitsAndBytesConfig
from transformers.utils import is_bitsandbytes_available
from transformers.utils import logging as transformers_logging

from scenewright.agents.judges.families import Family, family_of
from scenewright.agents.judges.memory import dtype_on
from scenewright.agents.judges.processors import load_processor
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError

EXTRA = "scenewright[quantization]"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A model that is ready to be asked."""

    model: Any
    """The model, in evaluation mode on its device."""
    processor: Any
    """Its processor, for pictures and text."""
    tokenizer: Any
    """The processor's tokenizer, which pads on the left."""
    family: Family
    """What is known of its class."""


def load_model(
    folder: Path,
    device: torch.device,
    how: LocalJudgeSpec | None = None,
    *,
    decides: bool = False,
) -> LoadedModel:
    """Load the vision-language model in ``folder``; ``JudgeError`` if that fails.

    On the CPU in float32, elsewhere in bfloat16. Model and processor are those of transformers and
    go together into its pipelines. ``decides``: with its decision head, where it has one. With
    offload the weights are left in main memory: whoever asks the model moves it.
    """
    how = how or LocalJudgeSpec()
    check_loading(folder, device, how)
    home = torch.device("cpu") if how.offload else device
    family = family_of(folder)
    dtype = dtype_on(device)
    placed = quantized(dtype, home) if how.quantization == "4bit" else {}
    with _without_bars():
        try:
            processor = load_processor(
                folder,
                getattr(transformers, family.processor) if family.processor else None,
                family.images,
            )
            model = _with_head(folder, dtype, placed) if decides else None
            if model is None:
                model = AutoModelForImageTextToText.from_pretrained(
                    folder, local_files_only=True, dtype=dtype, **placed
                )
            if not placed:
                model.to(home)
            model.eval()
        except Exception as error:
            raise JudgeError(
                f"{folder} could not be loaded with transformers {transformers.__version__} as an "
                f"image-text-to-text model on {device}: {error}"
            ) from error
    tokenizer: Any = getattr(processor, "tokenizer", None)
    if tokenizer is None or not getattr(processor, "chat_template", None):
        raise JudgeError(
            f"{folder} has no tokenizer with a chat template: use an instruction-tuned model"
        )
    tokenizer.padding_side = "left"
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return LoadedModel(model, processor, tokenizer, family)


def _with_head(folder: Path, dtype: torch.dtype, placed: dict[str, Any]) -> Any:
    """The model with its decision head; None if it has none."""
    try:
        return AutoModelForDecision.from_pretrained(
            folder, local_files_only=True, dtype=dtype, **placed
        )
    except ValueError:
        # The library's word for another kind of model, and for one without the head's files.
        return None


def check_loading(folder: Path, device: torch.device, how: LocalJudgeSpec) -> None:
    """Raise ``JudgeError`` where the model could not be loaded so; reads its configuration."""
    family = family_of(folder)
    if family.needs is not None:
        raise JudgeError(
            f"{folder} is a model of the family {family.name}: transformers "
            f"{transformers.__version__} prepares pictures for it with {family.needs} only, which "
            "scenewright does without; use another family (docs/judges.md has the table), or serve "
            "it with another program, such as vLLM, and name it through an account"
        )
    if how.offload and device.type == "cpu":
        raise JudgeError(
            "offload: the judge runs in main memory, where nothing can wait elsewhere: leave it "
            "out, or use a device such as 'cuda'"
        )
    if how.quantization == "4bit" and not is_bitsandbytes_available():
        raise JudgeError(
            'quantization = "4bit" needs the package bitsandbytes: install it with '
            f"`pip install '{EXTRA}'`"
        )


def quantized(dtype: torch.dtype, home: torch.device) -> dict[str, Any]:
    """Return the options that load linear layers in 4 bit, computing in ``dtype``."""
    # Weights are quantised where they are put, one after the other.
    place = f"cuda:{home.index or 0}" if home.type == "cuda" else str(home)
    return {
        "device_map": {"": place},
        "quantization_config": BitsAndBytesConfig(
            load_in_4bit=True,
            bnb_4bit_quant_type="nf4",
            bnb_4bit_use_double_quant=True,
            bnb_4bit_compute_dtype=dtype,
        ),
    }


@contextmanager
def on_device(model: Any, device: torch.device, waits: bool) -> Iterator[None]:
    """Bring the weights of ``model`` to ``device`` and back, if it ``waits`` in main memory."""
    if not waits:
        yield
        return
    try:
        model.to(device)
        yield
    finally:
        model.to("cpu")
        if device.type == "cuda":
            torch.cuda.empty_cache()


@contextmanager
def _without_bars() -> Iterator[None]:
    """Keep the library's progress bars off the terminal."""
    bar = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()
    try:
        yield
    finally:
        if bar:
            transformers_logging.enable_progress_bar()
