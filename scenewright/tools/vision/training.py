"""Trainings that can be stopped after any step and go on to the same weights, to the last bit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scenewright.core.flushing import replacing

SAVE_SECONDS = 60.0
"""At most so much work is lost by a kill."""


@dataclass(eq=False)
class ResumableTraining:
    """Optimizer steps of a model, with a checkpoint of weights, optimizer and random numbers."""

    model: nn.Module
    optimizer: torch.optim.Optimizer
    identity: Mapping[str, Any]
    """Values that a checkpoint must agree in, by name in words."""
    _: KW_ONLY
    file: Path | None
    """The checkpoint; None: none is kept."""
    wrong: type[Exception]
    """Error to raise."""
    schedule: torch.optim.lr_scheduler.LRScheduler | None = None
    """Learning rates, one step each."""
    save_seconds: float = SAVE_SECONDS
    """Seconds after which a checkpoint is due."""

    def __post_init__(self) -> None:
        """Begin the time to the next checkpoint."""
        parts = {"model": self.model, "optimizer": self.optimizer, "schedule": self.schedule}
        self._parts: dict[str, Any] = {name: one for name, one in parts.items() if one is not None}
        self._saved = time.monotonic()

    def learn(self, loss: torch.Tensor, place: str) -> float:
        """Take one step down ``loss``; ``place`` names it in the error for a loss of no number."""
        if not torch.isfinite(loss):
            rate = self.optimizer.param_groups[0]["lr"]
            raise self.wrong(f"the loss is {loss.item()} {place}: use a lower rate than {rate:g}")
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        if self.schedule is not None:
            self.schedule.step()
        return float(loss.item())

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is long ago."""
        return time.monotonic() - self._saved > self.save_seconds

    def save(self, progress: Mapping[str, Any]) -> None:
        """Write the checkpoint, with the recipe's own ``progress``, whole or not at all."""
        self._saved = time.monotonic()
        if self.file is None:
            return
        state = {
            "identity": self.identity,
            "random": torch.get_rng_state(),
            **{name: part.state_dict() for name, part in self._parts.items()},
            **progress,
        }
        if torch.cuda.is_available():
            state["random_cuda"] = torch.cuda.get_rng_state()
        try:
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self.file) as draft:
                torch.save(state, draft)
        except (OSError, RuntimeError) as error:
            raise self.wrong(f"{self.file} cannot be written: {error}") from error

    def load(self) -> Mapping[str, Any] | None:
        """Restore the state of the checkpoint and return it; None if there is no file.

        Raises the error of this training for a damaged file, or the checkpoint of another training.
        """
        if self.file is None or not self.file.is_file():
            return None
        try:
            state: Mapping[str, Any] = torch.load(self.file, map_location="cpu", weights_only=True)
            identity = state["identity"]
        except Exception as error:
            raise self.wrong(
                f"{self.file} is not a readable checkpoint ({type(error).__name__}): delete it to "
                "begin anew"
            ) from error
        changed = [name for name, own in self.identity.items() if identity.get(name) != own]
        if changed:
            raise self.wrong(
                f"{self.file} is the checkpoint of a training with other {' and '.join(changed)}: "
                "name another folder, or delete it to begin anew"
            )
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        if "random_cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random_cuda"])
        return state
