"""Weights of published architectures: names, shapes and number formats.

The classes are built without memory (torch's ``meta`` device).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from scenewright.core.error_text import error_text
from scenewright.core.ports.backend import BackendError
from scenewright.providers.hub.architectures import AdapterShape, Format, PartSpec

ITEM = {"F32": 4, "F16": 2, "BF16": 2, "I64": 8}
"""Bytes of a number."""


class RehearsalError(BackendError):
    """A rehearsal that cannot be made; says what to do."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Shape and number format of one weight."""

    shape: tuple[int, ...]
    format: str

    @property
    def size(self) -> int:
        """Its bytes in a file."""
        return prod(self.shape) * ITEM[self.format]


def tensors_of(part: PartSpec, format: Format) -> dict[str, Tensor]:
    """Return the weights of a part by name, as a file in ``format`` has them.

    Tied weights are there once. Raises ``RehearsalError`` if the class cannot be made, or has
    another number of weights than is published.
    """
    import torch

    model = _empty(part)
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    if part.parameters is not None:
        count = sum(one.numel() for one in model.parameters())
        if count != part.parameters:
            raise RehearsalError(
                f"{part.kind} has {count:,} weights by its configuration, {part.parameters:,} are "
                "published: correct the architecture file, or install the versions of "
                "constraints.txt"
            )
    kinds = {torch.int64: "I64"}
    return {
        name: Tensor(tuple(one.shape), kinds.get(one.dtype, format))
        for name, one in model.state_dict().items()
        if name not in tied
    }


def adapter_tensors(adapter: AdapterShape, unet: PartSpec, format: Format) -> dict[str, Tensor]:
    """Return the weights of an adapter for the UNet ``unet``, by their published names."""
    model = _empty(unet)
    width = int(model.config.cross_attention_dim)
    shapes = {
        "image_proj.proj.weight": (adapter.tokens * width, adapter.embedding),
        "image_proj.proj.bias": (adapter.tokens * width,),
        "image_proj.norm.weight": (width,),
        "image_proj.norm.bias": (width,),
    }
    # The checkpoints number all attention layers, and the adapter's are every second one.
    layers = [name for name in model.attn_processors if "attn2" in name]
    for at, name in enumerate(layers):
        inner = model.get_submodule(name.removesuffix(".processor")).inner_dim
        for which in ("to_k_ip", "to_v_ip"):
            shapes[f"ip_adapter.{2 * at + 1}.{which}.weight"] = (inner, width)
    return {name: Tensor(shape, format) for name, shape in shapes.items()}


def _empty(part: PartSpec) -> Any:
    """Return the model of a part, whose tensors have no memory."""
    import diffusers
    import torch
    import transformers

    libraries = {"diffusers": diffusers, "transformers": transformers}
    kind: Any = getattr(libraries[part.library], part.name, None)
    try:
        with torch.device("meta"):
            if part.library == "diffusers":
                return kind.from_config(part.config)
            return kind(kind.config_class.from_dict(part.config))
    except Exception as error:
        raise RehearsalError(
            f"no {part.kind} can be made of its configuration ({error_text(error, 200)}): "
            "correct the architecture file, or install the versions of "
            "constraints.txt"
        ) from error
