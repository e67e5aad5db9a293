"""LoRAs of a pipeline: find their files, check that they fit the model, load them."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.config.local_images import LoraSpec
from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.tools.backends.model_folder import (
    ModelFolder,
    check_safetensors,
    digest_files,
    find_weights,
    read_json,
    tensor_shapes,
)
from scenewright.tools.backends.pipeline import pipeline_class, quiet
from scenewright.tools.backends.prompts import PromptReader

if TYPE_CHECKING:
    import torch

_SUFFIX = ".safetensors"
_SIDES = {"lora_A": 1, "lora_B": 0}
"""The two matrices of a layer, and the dimension of the layer's weights that each shares."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA on this machine."""

    file: Path
    """Its ``*.safetensors`` file."""
    weight: float
    """Factor of its changes."""
    triggers: tuple[str, ...]
    """Words appended to every prompt."""

    @classmethod
    def open(cls, spec: LoraSpec) -> Lora:
        """Find the file (of a hub id in the cache) and check it; raises ``BackendError``."""
        file = find_weights(spec.repository, spec.weight_name, _SUFFIX, "the LoRA")
        check_safetensors(file)
        return cls(file, spec.weight, spec.triggers)

    @property
    def name(self) -> str:
        """The file's name without its suffix."""
        return self.file.stem

    def describe(self) -> str:
        """Return name and weight, for people."""
        return f"LoRA {self.name} × {self.weight:g}"

    def identity(self) -> dict[str, Any]:
        """Return what of it decides pictures, for fingerprints."""
        return {
            "files": digest_files(self.file.parent, [self.file]),
            "weight": self.weight,
            "triggers": self.triggers,
        }


def open_loras(specs: Iterable[LoraSpec], model: ModelFolder) -> tuple[Lora, ...]:
    """Return the LoRAs of ``specs`` for ``model``; no weights are read.

    Raises ``BackendError`` if one is missing or made for another family, or if the pipeline takes
    none.
    """
    found = tuple(Lora.open(spec) for spec in specs)
    for lora in found:
        _check_fits(lora, model)
    return found


def _check_fits(lora: Lora, model: ModelFolder) -> None:
    with quiet():
        kind = pipeline_class(model.pipeline_class)
        if not hasattr(kind, "load_lora_weights"):
            raise BackendError(f"{model.pipeline_class} takes no LoRA: leave 'loras' out")
        _check_layers(lora, model, kind)


def _check_layers(lora: Lora, model: ModelFolder, kind: Any) -> None:
    part = model.denoiser
    if part is None:
        return
    layers = _shapes_of_layers(lora, model, kind, part)
    if layers is None:
        return
    weights = tensor_shapes(model.place(part).glob("*.safetensors"))
    if not weights:
        return
    own, wrong = 0, ""
    for name, (side, length) in layers:
        shape = weights.get(f"{name}.weight")
        if shape is None:
            continue
        own += 1
        if shape[side] != length:
            wrong = f"{name} has {shape[side]} channels in the model and {length} in the LoRA"
    if wrong or not own:
        raise BackendError(
            f"the LoRA {lora.file} is not made for {model.pipeline_class} "
            f"({wrong or f'none of its {len(layers)} layers is in the {part}'}): use one that was "
            "trained on this model or its base"
        )


def _shapes_of_layers(
    lora: Lora, model: ModelFolder, kind: Any, part: str
) -> list[tuple[str, tuple[int, int]]] | None:
    """Return (layer of the denoiser, (its dimension, length)) for the matrices of ``lora``.

    None if nothing can be said from names and shapes alone: a LoRA of text encoders only, or a
    layout whose conversion computes with the weights.
    """
    from diffusers.configuration_utils import FrozenDict
    from diffusers.utils.state_dict_utils import convert_unet_state_dict_to_peft

    options: dict[str, Any] = {}
    if part == "unet":
        options["unet_config"] = FrozenDict(read_json(model.place(part) / "config.json"))
    try:
        found = kind.lora_state_dict(_without_numbers(lora.file), **options)
    except Exception as error:
        if isinstance(error, RuntimeError) and "meta" in str(error):
            # The conversion needs the numbers.
            return None
        raise BackendError(
            f"the LoRA {lora.file} is not one that {model.pipeline_class} can read "
            f"({error_text(error, 200)}): use one that was trained on this model "
            "or its base"
        ) from error
    whole = found[0] if isinstance(found, tuple) else found
    parts = kind._lora_loadable_modules
    named = any(name.startswith(f"{one}.") for name in whole for one in parts)
    own = {
        name.removeprefix(f"{part}."): tensor
        for name, tensor in whole.items()
        if name.startswith(f"{part}.")
    }
    if (not own and named) or any(".lokr_" in name for name in whole):
        return None
    if own and "lora_A" not in next(iter(own)):
        own = convert_unet_state_dict_to_peft(own)
    layers = []
    for name, tensor in own.items():
        layer, _, side = name.removesuffix(".weight").rpartition(".")
        if side in _SIDES and tensor.ndim > 1:
            layers.append((layer, (_SIDES[side], tensor.shape[_SIDES[side]])))
    return layers


def _without_numbers(file: Path) -> dict[str, torch.Tensor]:
    """Return the tensors of ``file`` without their numbers, so that nothing large is read."""
    import torch

    # Factors that some layouts multiply by are single numbers.
    return {
        name: torch.ones(shape) if len(shape) < 2 else torch.empty(shape, device="meta")
        for name, shape in tensor_shapes([file]).items()
    }


def load_loras(pipe: Any, loras: Sequence[Lora], *, fused: bool) -> None:
    """Load ``loras`` into ``pipe``; raises ``BackendError`` if one does not load.

    ``fused``: add them to the weights, which costs nothing later; quantized weights are too coarse
    for that, so that there they compute beside the layers.
    """
    names = [f"lora_{at}" for at in range(len(loras))]
    for name, lora in zip(names, loras, strict=True):
        try:
            with warnings.catch_warnings():
                # That there are several is what was asked for.
                warnings.simplefilter("ignore", UserWarning)
                pipe.load_lora_weights(
                    str(lora.file.parent),
                    weight_name=lora.file.name,
                    adapter_name=name,
                    local_files_only=True,
                )
        except Exception as error:
            raise BackendError(
                f"the LoRA {lora.file} does not load ({error_text(error)}): "
                "use one that was trained on this model or its base"
            ) from error
    pipe.set_adapters(names, [lora.weight for lora in loras])
    if fused:
        parts = [part for part in pipe._lora_loadable_modules if getattr(pipe, part, None)]
        pipe.fuse_lora(components=parts, adapter_names=names)
        pipe.unload_lora_weights()


class Triggers:
    """Trigger words of a model's LoRAs, which stand at the end of every prompt."""

    def __init__(self, loras: Iterable[Lora], reader: PromptReader) -> None:
        """``reader`` reads the whole prompt; raises ``BackendError`` if no room is left for one."""
        words = [word.strip() for lora in loras for word in lora.triggers]
        self._end = f", {', '.join(words)}" if words else ""
        self._needed = reader.tokens(self._end) if words else 0
        self._reader = reader
        if reader.budget is not None and self._needed >= reader.budget:
            raise BackendError(
                f"the trigger words of the LoRAs have {self._needed} tokens, and the model reads "
                f"{reader.budget}: leave some out"
            )

    @cached_property
    def reader(self) -> PromptReader:
        """Reader of prompts without the words: it leaves them room."""
        return self._reader.less(self._needed) if self._end else self._reader

    def added(self, prompt: str, *, whole: bool = False) -> str:
        """Return ``prompt`` with the words.

        What would push them out of the model's input is cut off, unless it reads the ``whole``
        prompt whatever its length.
        """
        if not self._end:
            return prompt
        read = None if whole else self.reader.count(prompt).read
        kept = prompt if read is None else prompt[:read]
        return kept.rstrip().removesuffix(".") + self._end
