"""LoRAs of a pipeline: find their files, check that they fit the model, load them."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
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

_SIDES = {"lora_A": 1, "lora_B": 0}
"""The two matrices of a layer, and the dimension of the layer's weights that each shares."""
_LAYER = re.compile(r"(.+?)[._](lora\w*)(\..+)?")
_ENOUGH = 0.9
"""Least share of a LoRA's layers that must belong to the model."""


@dataclass(frozen=True, slots=True)
class Lora:
    """A LoRA on this machine."""

    file: Path
    """Its ``*.safetensors`` file."""
    spec: LoraSpec
    """Weight, trigger words, and whether it is loaded with few of its layers."""
    layers: int = 0
    """Layers that it changes; 0: unknown."""
    taken: int = 0
    """Number of them that the model has."""

    def describe(self) -> str:
        """Return name, weight and how many of its layers were taken, for people."""
        count = f"{self.layers}" if self.taken == self.layers else f"{self.taken} of {self.layers}"
        return f"LoRA {self.file.stem} × {self.spec.weight:g}" + (
            f" ({count} layers)" if self.layers else ""
        )

    def identity(self) -> dict[str, Any]:
        """Return what of it decides pictures, for fingerprints."""
        return {
            "files": digest_files(self.file.parent, [self.file]),
            "weight": self.spec.weight,
            "triggers": self.spec.triggers,
        }


def open_loras(specs: Iterable[LoraSpec], model: ModelFolder) -> tuple[Lora, ...]:
    """Return the LoRAs of ``specs`` for ``model``, with the count of their layers.

    No weights of the model are read. Raises ``BackendError`` if one is missing or made for another
    family, or if the pipeline takes none.
    """
    opened = []
    for spec in specs:
        # Of a hub id in the cache.
        file = find_weights(spec.repository, spec.weight_name, ".safetensors", "the LoRA")
        check_safetensors(file)
        lora = Lora(file, spec)
        with quiet():
            kind = pipeline_class(model.pipeline_class)
            if not hasattr(kind, "load_lora_weights"):
                raise BackendError(f"{model.pipeline_class} takes no LoRA: leave 'loras' out")
            if (part := model.denoiser) is not None:
                tensors = _tensors_by_part(lora, model, kind, part)
                # LoKr computes with blocks of layers; a GGUF file replaces a denoiser's weights.
                if not any(".lokr_" in name for name in tensors) and model.shapes(part):
                    lora = _counted(lora, model, kind, tensors)
        opened.append(lora)
    return tuple(opened)


def _counted(
    lora: Lora, model: ModelFolder, kind: Any, tensors: Mapping[str, torch.Tensor]
) -> Lora:
    """Return ``lora`` with its layers counted; raises ``BackendError`` if too few fit."""
    taken: dict[str, bool] = {}
    wrong = ""
    for part in dict.fromkeys(name.partition(".")[0] for name in tensors):
        known = part in kind._lora_loadable_modules and part in model.parts
        shapes = {_flat(name): one for name, one in model.shapes(part).items()} if known else {}
        of_part = {
            name.removeprefix(f"{part}."): tensor
            for name, tensor in tensors.items()
            if name.startswith(f"{part}.")
        }
        if known and not any("lora_A" in name for name in of_part):
            from diffusers.utils import state_dict_utils as names

            of_part = dict(
                names.convert_unet_state_dict_to_peft(of_part)
                if part == model.denoiser
                else names.convert_state_dict_to_peft(
                    names.convert_state_dict_to_diffusers(of_part)
                )
            )
        for name, tensor in of_part.items():
            match = _LAYER.fullmatch(name)
            if match is None:
                continue
            layer, side = _flat(match[1]), _SIDES.get(match[2])
            shape = shapes.get(f"{layer}.weight")
            taken[f"{part}.{layer}"] = shape is not None
            if shape is None or side is None or tensor.ndim < 2:
                continue
            if shape[side] != tensor.shape[side]:
                wrong = (
                    f"{layer} has {shape[side]} channels in the model and {tensor.shape[side]} "
                    "in the LoRA"
                )
    count = sum(taken.values())
    if wrong or not count:
        raise BackendError(
            f"the LoRA {lora.file} is not made for {model.pipeline_class} "
            f"({wrong or f'none of its {len(taken)} layers is in the model'}): use one that was "
            "trained on this model or its base"
        )
    if count < _ENOUGH * len(taken) and not lora.spec.partial:
        foreign = next(layer for layer, own in taken.items() if not own)
        raise BackendError(
            f"{count} of the {len(taken)} layers of the LoRA {lora.file} belong to this "
            f"{model.pipeline_class}, the others, such as {foreign}, to no part of it: use one "
            "that was trained on this model or its base, or set 'partial' of the LoRA to draw with "
            "those"
        )
    return replace(lora, layers=len(taken), taken=count)


def _flat(name: str) -> str:
    # Files of CLIP's encoders name a level that its class has in some versions only.
    return name.removeprefix("text_model.")


def _tensors_by_part(lora: Lora, model: ModelFolder, kind: Any, part: str) -> dict[str, Any]:
    """Return the tensors of ``lora`` by the names that ``kind`` gives them, each after its part.

    Raises ``BackendError`` if it is of another layout.
    """
    import torch
    from diffusers.configuration_utils import FrozenDict
    from safetensors.torch import load_file

    options: dict[str, Any] = {}
    if part == "unet":
        options["unet_config"] = FrozenDict(read_json(model.place(part) / "config.json"))
    try:
        try:
            # Nothing large is read; factors that some layouts multiply by are single numbers.
            stand_ins = {
                name: torch.ones(shape) if len(shape) < 2 else torch.empty(shape, device="meta")
                for name, shape in tensor_shapes([lora.file]).items()
            }
            found = kind.lora_state_dict(stand_ins, **options)
        except RuntimeError as error:
            if "meta" not in str(error):
                raise
            # The conversion of some layouts computes with the numbers.
            found = kind.lora_state_dict(load_file(lora.file), **options)
    except Exception as error:
        raise BackendError(
            f"the LoRA {lora.file} is not one that {model.pipeline_class} can read "
            f"({error_text(error, 200)}): use one that was trained on this model "
            "or its base"
        ) from error
    return dict(found[0] if isinstance(found, tuple) else found)


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
    pipe.set_adapters(names, [lora.spec.weight for lora in loras])
    if fused:
        parts = [part for part in pipe._lora_loadable_modules if getattr(pipe, part, None)]
        pipe.fuse_lora(components=parts, adapter_names=names)
        pipe.unload_lora_weights()


class Triggers:
    """Trigger words of a model's LoRAs, which stand at the end of every prompt."""

    def __init__(self, loras: Iterable[Lora], reader: PromptReader) -> None:
        """``reader`` reads the whole prompt; raises ``BackendError`` if no room is left for one."""
        words = [word.strip() for lora in loras for word in lora.spec.triggers]
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
