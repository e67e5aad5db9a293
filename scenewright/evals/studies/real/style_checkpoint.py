"""Checkpoints of a training in one safetensors file: weights, optimizer and random state."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from scenewright.evals.studies.real.style_data import StyleError


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What stands beside the tensors."""

    step: int
    """Steps done."""
    seconds: float
    """Time that they took."""
    before: str
    """Figures of the model as it was, as JSON."""


def save_checkpoint(
    file: Path, key: str, model: nn.Module, optimizer: torch.optim.Optimizer, stand: Checkpoint
) -> None:
    """Write all that a training needs to go on as if it had not been stopped.

    ``key`` names the training; the file is whole or the former one. Raises ``OSError``.
    """
    tensors: dict[str, Tensor] = {
        f"model.{name}": value.detach().cpu().contiguous().clone()
        for name, value in model.state_dict().items()
    }
    for at, values in optimizer.state_dict()["state"].items():
        for name, value in values.items():
            tensors[f"optimizer.{at}.{name}"] = torch.as_tensor(value).detach().cpu().contiguous()
    tensors["random.cpu"] = torch.get_rng_state()
    if torch.cuda.is_available():
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    draft = file.with_name(f".{file.name}.{secrets.token_hex(4)}.tmp")
    try:
        save_file(tensors, draft, {"key": key, "stand": json.dumps(asdict(stand))})
        with draft.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(draft, file)
    finally:
        draft.unlink(missing_ok=True)


def load_checkpoint(
    file: Path, key: str, model: nn.Module, optimizer: torch.optim.Optimizer
) -> Checkpoint | None:
    """Put a checkpoint's state into ``model`` and ``optimizer``; none if there is no file.

    Raises ``StyleError`` for a damaged file, or one of a training with another ``key``.
    """
    if not file.exists():
        return None
    try:
        with safe_open(file, "pt") as opened:
            about = opened.metadata() or {}
            if about.get("key") != key:
                raise StyleError(
                    f"{file.parent} holds a training that was begun otherwise (other pictures, "
                    "model, settings or library versions): name another folder, or delete it"
                )
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
            stand = Checkpoint(**json.loads(about["stand"]))
    except (OSError, SafetensorError, KeyError, ValueError, TypeError) as error:
        if isinstance(error, StyleError):
            raise
        raise StyleError(f"{file} is damaged ({error}): delete it to begin anew") from error
    model.load_state_dict(_part(tensors, "model."))
    state: dict[int, dict[str, Tensor]] = {}
    for name, value in _part(tensors, "optimizer.").items():
        at, _, field = name.partition(".")
        state.setdefault(int(at), {})[field] = value
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
    torch.set_rng_state(tensors["random.cpu"])
    if "random.cuda" in tensors and torch.cuda.is_available():
        torch.cuda.set_rng_state(tensors["random.cuda"])
    return stand


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(prefix): value
        for name, value in tensors.items()
        if name.startswith(prefix)
    }
