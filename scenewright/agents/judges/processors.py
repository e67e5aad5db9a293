"""Processors of vision-language models for pictures alone.

The library's own processors of most families also take videos or sound, for which they need
torchvision or other packages. Here the same classes are built from the PIL image processor and the
tokenizer, so that they expand the placeholders of pictures as published. Pictures go through
PIL in every case: the same picture gives the same numbers with and without torchvision. An image
processor without a PIL form runs with its few operations of torchvision written in torch.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Resampling
from torch.nn.functional import interpolate
from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, AutoTokenizer
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING

IMAGES, TEXT = "image_processor", "tokenizer"
_MODES = {Resampling.BILINEAR: "bilinear", Resampling.BICUBIC: "bicubic"}


class _Absent:
    """Stand-in for a processor's part for videos or sound: whatever is asked of it is None."""

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


def load_images(folder: Path, name: str | None = None) -> Any:
    """Load the image processor in ``folder``; ``name`` as ``images`` of :func:`load_processor`."""
    if name is None:
        return AutoImageProcessor.from_pretrained(folder, local_files_only=True, backend="pil")
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
            # The library's own writes every part as JSON, also where nobody reads it.
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
