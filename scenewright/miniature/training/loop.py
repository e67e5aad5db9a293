"""What every training recipe shares: device, resumable state, averaged weights, progress.

A training started by ``torchrun --nproc-per-node N`` runs as N workers with one batch between
them: each takes its share of every step and their gradients are averaged.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import distributed, nn


def join_workers() -> tuple[int, int]:
    """Return this process's rank among its training's workers and their number; alone (0, 1)."""
    if "WORLD_SIZE" not in os.environ:
        return 0, 1
    if not distributed.is_initialized():
        distributed.init_process_group("gloo")
    return distributed.get_rank(), distributed.get_world_size()


def share_of(batch: int) -> int:
    """How much of ``batch`` this worker takes; raises ``ValueError`` if it cannot be shared."""
    workers = join_workers()[1]
    if batch % workers:
        raise ValueError(f"a batch of {batch} cannot be shared by {workers} workers")
    return batch // workers


def average_gradients(parameters: Iterable[nn.Parameter]) -> None:
    """Replace the gradients by their mean over all workers."""
    workers = join_workers()[1]
    if workers == 1:
        return
    gradients = [p.grad for p in parameters if p.grad is not None]
    flat = torch.cat([gradient.flatten() for gradient in gradients])
    distributed.all_reduce(flat)
    parts = torch.split(flat / workers, [gradient.numel() for gradient in gradients])
    for gradient, part in zip(gradients, parts, strict=True):
        gradient.copy_(part.view_as(gradient))


def pick_device(name: str = "auto") -> torch.device:
    """``name``, or CUDA if there is one, else the CPU."""
    if name != "auto":
        return torch.device(name)
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def to_pixels(images: list[Image.Image]) -> torch.Tensor:
    """RGB pictures of the world's size → float [n, 3, side, side] in −1…1."""
    stack = np.stack([np.asarray(image, np.uint8) for image in images])
    return torch.from_numpy(stack).permute(0, 3, 1, 2).float().div_(127.5).sub_(1.0)


def autocast(device: torch.device) -> Any:
    """bfloat16 where the machine computes it faster than float32.

    CUDA, or a CPU with AMX or AVX-512 bf16.
    """
    if device.type == "cuda" or torch.cpu._is_avx512_bf16_supported():
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


def cosine_rate(step: int, steps: int, warmup: int, floor: float = 0.05) -> float:
    """Learning-rate factor: linear warm-up, then a cosine from 1 down to ``floor``."""
    if step < warmup:
        return (step + 1) / warmup
    done = min(1.0, (step - warmup) / max(1, steps - warmup))
    return floor + (1 - floor) * 0.5 * (1 + math.cos(math.pi * done))


class AveragedWeights:
    """Exponential moving average of a module's floating-point parameters and buffers."""

    def __init__(self, module: nn.Module, decay: float = 0.999) -> None:
        self.decay = decay
        self.values = {key: value.detach().clone() for key, value in module.state_dict().items()}

    @torch.no_grad()
    def update(self, module: nn.Module, step: int) -> None:
        """Move towards the weights of ``module``; faster in the first steps."""
        decay = min(self.decay, (1 + step) / (10 + step))
        for key, value in module.state_dict().items():
            if value.dtype.is_floating_point:
                self.values[key].lerp_(value, 1 - decay)
            else:
                self.values[key].copy_(value)


def forget_origin(folder: Path) -> None:
    """Take out of every ``config.json`` below ``folder`` where its weights were loaded from."""
    for path in folder.rglob("config.json"):
        config = json.loads(path.read_text())
        if config.pop("_name_or_path", None) is not None:
            path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


@dataclass
class Training:
    """A resumable training: modules and optimizer in one file, replaced atomically."""

    path: Path
    """Checkpoint file."""
    modules: dict[str, nn.Module]
    """What is trained, by name."""
    optimizer: torch.optim.Optimizer
    """Its optimizer."""
    steps: int
    """Steps in all."""
    rate: Callable[[int], float]
    """Learning-rate factor of a step."""
    decay: float = 0.999
    """Of the averaged weights."""
    save_seconds: float = 120.0
    """At most this much work is lost by a kill."""
    report_steps: int = 50
    """Steps between two progress lines."""
    step: int = 0
    """Steps done."""
    averages: dict[str, AveragedWeights] = field(default_factory=dict)
    """Averaged weights, by name: what is shipped."""
    on_save: Callable[[], None] | None = None
    """Called after every checkpoint, for example to export the averaged weights."""

    def __post_init__(self) -> None:
        self._base_rates = [group["lr"] for group in self.optimizer.param_groups]
        self.averages = {
            name: AveragedWeights(module, self.decay) for name, module in self.modules.items()
        }
        if self.path.is_file():
            state = torch.load(self.path, map_location="cpu", weights_only=True)
            for name, module in self.modules.items():
                module.load_state_dict(state["modules"][name])
                for key, value in state["averages"][name].items():
                    self.averages[name].values[key].copy_(value)
            self.optimizer.load_state_dict(state["optimizer"])
            self.step = state["step"]
            print(f"{self.path.name}: continues after step {self.step}", flush=True)

    def save(self) -> None:
        """Write the checkpoint atomically; of several workers the first does."""
        if join_workers()[0]:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        torch.save(
            {
                "modules": {name: module.state_dict() for name, module in self.modules.items()},
                "averages": {name: avg.values for name, avg in self.averages.items()},
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
            },
            part,
        )
        os.replace(part, self.path)
        if self.on_save is not None:
            self.on_save()

    def load_averages(self) -> None:
        """Put the averaged weights into the modules (after training)."""
        for name, module in self.modules.items():
            module.load_state_dict(self.averages[name].values)

    def run(
        self,
        loss_of: Callable[[int], tuple[torch.Tensor, dict[str, float]]],
        max_seconds: float | None = None,
    ) -> bool:
        """Train to the end, or until ``max_seconds``; returns whether the end was reached.

        ``loss_of(step)`` gives the loss and figures for the progress line.
        """
        started = last_save = time.monotonic()
        first, first_worker = self.step, join_workers()[0] == 0
        shown: dict[str, float] = {}
        for _ in self._steps():
            for group, base in zip(self.optimizer.param_groups, self._base_rates, strict=True):
                group["lr"] = base * self.rate(self.step)
            loss, figures = loss_of(self.step)
            if not torch.isfinite(loss):
                raise FloatingPointError(f"the loss is {loss.item()} at step {self.step}")
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()  # type: ignore[no-untyped-call]
            parameters = [p for g in self.optimizer.param_groups for p in g["params"]]
            average_gradients(parameters)
            nn.utils.clip_grad_norm_(parameters, 1.0)
            self.optimizer.step()
            self.step += 1
            for name, module in self.modules.items():
                self.averages[name].update(module, self.step)
            for key, value in {"loss": loss.item(), **figures}.items():
                shown[key] = value if key not in shown else 0.95 * shown[key] + 0.05 * value
            now = time.monotonic()
            if first_worker and (self.step % self.report_steps == 0 or self.step == self.steps):
                pace = (now - started) / (self.step - first)
                left = (self.steps - self.step) * pace / 60
                text = "  ".join(f"{key} {value:.4f}" for key, value in shown.items())
                done = f"step {self.step}/{self.steps}"
                print(f"{done}  {text}  {pace:.2f} s/step, {left:.0f} min left", flush=True)
            if now - last_save > self.save_seconds:
                self.save()
                last_save = now
            if max_seconds is not None and self._any(now - started > max_seconds):
                break
        self.save()
        return self.step >= self.steps

    @staticmethod
    def _any(told: bool) -> bool:
        """Whether any worker says so: they must stop after the same step."""
        if join_workers()[1] == 1:
            return told
        votes = torch.tensor([float(told)])
        distributed.all_reduce(votes)
        return bool(votes.item())

    def _steps(self) -> Iterator[int]:
        while self.step < self.steps:
            yield self.step
