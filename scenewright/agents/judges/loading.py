"""Load local vision-language models, with processors for pictures alone.

The library's own processors of most families also take videos or sound, for which they need
torchvision or other packages. Here the same classes are built from the PIL image processor and the
tokenizer, so that they expand the placeholders of pictures as published. Pictures always go through
PIL: the same picture gives the same numbers with and without torchvision. An image processor
without a PIL form runs with its few torchvision operations written in torch.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import torch
import transformers
from PIL.Image import Resampling
from torch.nn.functional import interpolate
from transformers import (
    AutoConfig,
    AutoImageProcessor,
    AutoModelForDecision,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    BitsAndBytesConfig,
)
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING
from transformers.utils import is_bitsandbytes_available
from transformers.utils import logging as transformers_logging

from scenewright.agents.judges.families import Family, dtype_on, family_of
from scenewright.config.profiles import LocalJudgeSpec
from scenewright.core.ports.judge import JudgeError

IMAGES, TEXT = "image_processor", "tokenizer"
_MODES = {Resampling.BILINEAR: "bilinear", Resampling.BICUBIC: "bicubic"}


class _Absent:
    """Placeholder for a processor's part for videos or sound; every attribute is None."""

    model_input_names: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> None:
        if name.startswith("_"):
            raise AttributeError(name)


def load_processor(folder: Path, kind: type[Any] | None = None, images: str | None = None) -> Any:
    """Load the processor in ``folder``, with its tokenizer and chat template.

    ``kind``: the processor's class, for pictures alone (default: the one that the library has for
    the model; left to the library where it takes no more than pictures and text). ``images``:
    ``module.class`` in ``transformers.models`` of an image processor that has no PIL form.
    """
    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    own = kind or PROCESSOR_MAPPING.get(type(config), None)
    if own is None or (kind is None and set(own.get_attributes()) <= {IMAGES, TEXT}):
        return AutoProcessor.from_pretrained(folder, local_files_only=True)
    return pictures_alone(own, folder, images)


def load_images(folder: Path, name: str | None = None, **overrides: Any) -> Any:
    """Load the image processor in ``folder`` with ``overrides`` of its settings.

    ``name`` as ``images`` of :func:`load_processor`.
    """
    if name is None:
        # Without a backend the library asks for torchvision first.
        options = {"local_files_only": True, "backend": "pil", **overrides}
        return AutoImageProcessor.from_pretrained(folder, **options)
    module, _, kind = name.rpartition(".")
    own = getattr(import_module(f"transformers.models.{module}"), kind)
    return without_torchvision(own).from_pretrained(folder, local_files_only=True)


def without_torchvision(kind: type[Any]) -> type[Any]:
    """Return the image processor ``kind`` with its operations on pixels in torch.

    These are resizing, which for tensors torchvision leaves to torch as well, and normalising.
    """

    class TorchImageProcessor(kind):  # type: ignore[misc]
        def resize(
            self, image: Any, size: Any, resample: Any = None, antialias: bool = True, **_: Any
        ) -> Any:
            mode = _MODES.get(Resampling.BILINEAR if resample is None else resample)
            if mode is None or not (size.height and size.width):
                raise ValueError(f"resizing to {size} with resample {resample} is not known here")
            side = (size.height, size.width)
            return interpolate(image, side, mode=mode, align_corners=False, antialias=antialias)

        def normalize(self, image: Any, mean: Any, std: Any, **_: Any) -> Any:
            shift, scale = (
                torch.as_tensor(one, dtype=image.dtype, device=image.device).view(-1, 1, 1)
                for one in (mean, std)
            )
            return (image - shift) / scale

    # As repositories name it.
    TorchImageProcessor.__name__ = kind.__name__
    return TorchImageProcessor


def pictures_alone(kind: type[Any], folder: Path, images: str | None = None) -> Any:
    """Load a processor of the class ``kind`` without its parts for videos and sound."""

    class PictureProcessor(kind):  # type: ignore[misc]
        def check_argument_for_proper_class(self, argument_name: str, argument: Any) -> Any:
            if isinstance(argument, _Absent):
                return _Absent
            return super().check_argument_for_proper_class(argument_name, argument)

        def __repr__(self) -> str:
            # The library's own version writes every part as JSON, even if unused.
            return f"{kind.__name__} for pictures alone"

    parts = {
        IMAGES: load_images(folder, images),
        TEXT: AutoTokenizer.from_pretrained(folder, local_files_only=True),
    }
    settings, _ = kind.get_processor_dict(folder, local_files_only=True)
    given = [parts.get(name) or _Absent() for name in kind.get_attributes()]
    processor = PictureProcessor.from_args_and_dict(given, settings)
    # Some repositories keep the template with the tokenizer.
    processor.chat_template = processor.chat_template or parts[TEXT].chat_template
    return processor


EXTRA = "scenewright[quantization]"


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """A loaded model."""

    model: Any
    """The model, in evaluation mode on its device."""
    processor: Any
    """Its processor, for pictures and text."""
    tokenizer: Any
    """The processor's tokenizer, which pads on the left."""
    family: Family


def load_model(
    folder: Path, device: torch.device, how: LocalJudgeSpec | None = None, *, decides: bool = False
) -> LoadedModel:
    """Load the vision-language model in ``folder``.

    Raises ``JudgeError`` if that fails. The number format is that of ``how``. Model and processor
    are those of transformers and fit its pipelines. ``decides``: with its decision head, where it
    has one. With offload the weights stay in main memory, and the user of the model moves it.
    """
    how = how or LocalJudgeSpec()
    check_loading(folder, device, how)
    home = torch.device("cpu") if how.offload else device
    family = family_of(folder)
    dtype = dtype_on(device, how.dtype)
    placed = quantized(dtype, home) if how.quantization == "4bit" else {}
    with _without_bars():
        try:
            processor = load_processor(
                folder,
                getattr(transformers, family.processor) if family.processor else None,
                family.images,
            )
            model: Any = None
            if decides:
                # The library's word for another kind of model, and for one without a head's files.
                with suppress(ValueError):
                    model = AutoModelForDecision.from_pretrained(
                        folder, local_files_only=True, dtype=dtype, **placed
                    )
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


def check_loading(folder: Path, device: torch.device, how: LocalJudgeSpec) -> None:
    """Raise ``JudgeError`` where the model cannot be loaded so; reads its configuration."""
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
