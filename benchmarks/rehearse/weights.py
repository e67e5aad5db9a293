"""Weights without their numbers: files that take no disk, filled at random once they are loaded."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.rehearse.tensors import Tensor

if TYPE_CHECKING:
    import torch


def write_weights(file: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file with the header of ``tensors`` and zeros that take no disk."""
    header: dict[str, object] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, tensor in tensors.items():
        header[name] = {
            "dtype": tensor.format,
            "shape": tensor.shape,
            "data_offsets": (at, at + tensor.size),
        }
        at += tensor.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with file.open("wb") as stream:
        stream.write(len(text).to_bytes(8, "little") + text)
        stream.truncate(8 + len(text) + at)


def fill(module: torch.nn.Module) -> None:
    """Give every weight of ``module`` a random value in its number format, in place of its own.

    A block of random numbers is repeated: drawing all of them would take minutes. Matrices have the
    spread at which activations keep their size, gains are 1, and other vectors are near 0.
    """
    import torch

    # Odd in length, so that no two rows of a matrix are equal.
    noise = torch.randn(1_000_003, generator=torch.Generator().manual_seed(0))
    done: set[int] = set()
    for name, value in (*module.named_parameters(), *module.named_buffers()):
        # Buffers that no file has, such as frequencies, are computed by the class.
        if id(value) in done or not value.is_floating_point() or value.is_meta:
            continue
        done.add(id(value))
        running = name.endswith(("running_mean", "running_var"))
        if not (isinstance(value, torch.nn.Parameter) or running):
            continue
        held = value.data
        if value.ndim >= 2:
            flat = held.as_strided((held.numel(),), (1,))
            spread = (value.numel() / value.shape[0]) ** -0.5
            block = (noise * spread).to(value.device, value.dtype)
            for start in range(0, len(flat), len(block)):
                rest = flat[start : start + len(block)]
                rest.copy_(block[: len(rest)])
        elif running or name.endswith(("norm.weight", "weight")):
            held.fill_(0.0 if name.endswith("running_mean") else 1.0)
        else:
            held.copy_((noise[: len(held)] * 0.01).to(held) if value.ndim else held.zero_())
