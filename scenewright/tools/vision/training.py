"""Trainings that can be stopped after any step and go on to the same weights, to the last bit."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from scenewright.core.flushing import replacing

SAVE_SECONDS = 60.0
"""At most so much work is lost by a kill."""


class ResumableTraining:
    """Optimizer steps of a model, with a checkpoint of weights, optimizer and random numbers."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        identity: Mapping[str, Any],
        *,
        file: Path | None,
        wrong: type[Exception],
        schedule: torch.optim.lr_scheduler.LRScheduler | None = None,
        save_seconds: float = SAVE_SECONDS,
    ) -> None:
        """Train ``model`` by ``optimizer``.

        Args:
            model: what is trained.
            optimizer: its optimizer.
            identity: what a checkpoint must agree in, by name in words.
            file: the checkpoint; None: none is kept.
            wrong: error to raise.
            schedule: learning rates, one step each.
            save_seconds: seconds after which a checkpoint is due.
        """
        self._parts: dict[str, Any] = {"model": model, "optimizer": optimizer}
        if schedule is not None:
            self._parts["schedule"] = schedule
        self._optimizer, self._schedule = optimizer, schedule
        self._identity, self._file, self._wrong = dict(identity), file, wrong
        self._seconds, self._saved = save_seconds, time.monotonic()

    def learn(self, loss: torch.Tensor, place: str) -> float:
        """Take one step down ``loss``; ``place`` names it in the error for a loss of no number."""
        if not torch.isfinite(loss):
            rate = self._optimizer.param_groups[0]["lr"]
            raise self._wrong(f"the loss is {loss.item()} {place}: use a lower rate than {rate:g}")
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        self._optimizer.step()
        if self._schedule is not None:
            self._schedule.step()
        return float(loss.item())

    @property
    def due(self) -> bool:
        """Whether the last checkpoint is long ago."""
        return time.monotonic() - self._saved > self._seconds

    def save(self, progress: Mapping[str, Any]) -> None:
        """Write the checkpoint, with the recipe's own ``progress``, whole or not at all."""
        self._saved = time.monotonic()
        if self._file is None:
            return
        state = {
            "identity": self._identity,
            "random": torch.get_rng_state(),
            **{name: part.state_dict() for name, part in self._parts.items()},
            **progress,
        }
        if torch.cuda.is_available():
            state["random_cuda"] = torch.cuda.get_rng_state()
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            with replacing(self._file) as draft:
                torch.save(state, draft)
        except (OSError, RuntimeError) as error:
            raise self._wrong(f"{self._file} cannot be written: {error}") from error

    def load(self) -> Mapping[str, Any] | None:
        """Restore the state of the checkpoint and return it; None if there is no file.

        Raises the error of this training for a damaged file, or the checkpoint of another training.
        """
        if self._file is None or not self._file.is_file():
            return None
        try:
            state: Mapping[str, Any] = torch.load(self._file, map_location="cpu", weights_only=True)
            identity = state["identity"]
        except Exception as error:
            raise self._wrong(
                f"{self._file} is not a readable checkpoint ({type(error).__name__}): delete it to "
                "begin anew"
            ) from error
        changed = [name for name, own in self._identity.items() if identity.get(name) != own]
        if changed:
            raise self._wrong(
                f"{self._file} is the checkpoint of a training with other {' and '.join(changed)}: "
                "name another folder, or delete it to begin anew"
            )
        for name, part in self._parts.items():
            part.load_state_dict(state[name])
        torch.set_rng_state(state["random"])
        if "random_cuda" in state and torch.cuda.is_available():
            torch.cuda.set_rng_state(state["random_cuda"])
        return state
