"""Training of OLIP's heads on features (Liang et al., Sec. 4.3): MSE, AdamW, cosine annealing.

A training can be interrupted after any step and goes on to the same weights, to the last bit: the
checkpoint holds the weights, the optimizer, the scheduler, the state of the random numbers and the
order of the running epoch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from pydantic import BaseModel, ConfigDict, Field
from torch.nn import functional

from scenewright.core.ports.vision import RealismError
from scenewright.tools.vision.realism.olip import Olip, OlipConfig, olip_of
from scenewright.tools.vision.training import ResumableTraining

_PREDICTED = 1024


@dataclass(frozen=True, slots=True)
class Features:
    """Features of objects by a frozen BLIP: all that OLIP sees of them."""

    full: torch.Tensor
    """float32 (objects, embedding): the whole picture with the object's category."""
    crop: torch.Tensor
    """The same of the square around the object."""
    digest: str
    """SHA-256 (hex) of encoder, pictures, boxes and categories; ratings are no part of it."""

    def __len__(self) -> int:
        return len(self.full)


class TrainingOptions(BaseModel):
    """Options of training the heads.

    Rate, decay and loss are the paper's, which names no batch size and no number of epochs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    epochs: int = Field(default=60, ge=1)
    """Most passes over the training part; the cosine ends with the last."""
    batch: int = Field(default=64, ge=1)
    """Objects in a step."""
    rate: float = Field(default=1e-4, gt=0)
    """Learning rate of AdamW at the beginning."""
    decay: float = Field(default=0.01, ge=0)
    """Weight decay."""
    patience: int = Field(default=10, ge=1)
    """So many epochs without a lower loss in validation end the training."""
    seed: int = Field(default=0, ge=0)
    """Of weights, order and dropout."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """Result of one pass over the training part."""

    number: int
    """From 1."""
    loss: float
    """Mean squared error over the three outputs in training, on the scale of 1 to 5."""
    validation: float
    """The same on the validation part, without dropout."""


@dataclass(frozen=True, slots=True)
class TrainingResult:
    """State of a training."""

    model: Olip
    """With the weights of the best epoch so far, for inference."""
    history: tuple[Epoch, ...]
    """Epochs done."""
    best: int
    """Number of the epoch with the lowest loss in validation; 0 before the first."""
    finished: bool
    """False: it was interrupted, and goes on from its checkpoint."""


OnEpoch = Callable[[Epoch], None]


def train_olip(
    config: OlipConfig,
    features: Features,
    targets: torch.Tensor,
    train: Sequence[int],
    validation: Sequence[int],
    options: TrainingOptions | None = None,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    on_epoch: OnEpoch | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingResult:
    """Fit the heads to ``targets``, float32 (objects, 3): shape, texture and joint from 1 to 5.

    ``train`` and ``validation``: rows of ``features`` and ``targets`` that the weights are fitted
    to, and that tell when to stop. ``checkpoint``: a file; a training that left one goes on from
    it. ``stop`` is asked after every step whether to end for now. Raises ``RealismError`` for data
    that nothing can be learned from, or a checkpoint of another training.
    """
    options = options or TrainingOptions()
    if not len(targets):
        raise RealismError("there are no objects to train on: rate some first (docs/reports.md)")
    if len(features) != len(targets):
        raise ValueError(f"{len(features)} features of {len(targets)} objects")
    if features.full.shape[1] != config.embedding:
        raise RealismError(
            f"the encoder's features have {features.full.shape[1]} numbers, the architecture takes "
            f"{config.embedding}: set embedding = {features.full.shape[1]}"
        )
    if not train or not validation:
        raise RealismError("training and validation need at least one object each")
    spread = targets[list(train)].std(dim=0, unbiased=False)
    if bool((spread[:2] == 0).any()):
        aspect = "shape" if spread[0] == 0 else "texture"
        raise RealismError(
            f"all {len(train)} objects to train on have the same {aspect} score: there is "
            "nothing to tell apart; rate objects of other quality as well"
        )
    file = Path(checkpoint) if checkpoint is not None else None
    run = _TrainingRun(config, options, features, targets, (tuple(train), tuple(validation)), file)
    # Dropout draws from torch's own numbers: the caller's are left as they were.
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(run.random)
        run.load()
        while not run.finished:
            if run.step() and on_epoch is not None:
                on_epoch(run.history[-1])
            over = stop()
            if over or run.finished or run.training.due:
                run.save()
            if over:
                break
    return run.result()


def predict(model: Olip, features: Features, at: Sequence[int] | None = None) -> torch.Tensor:
    """Return the scores of 1 to 5 of the objects ``at`` (default: all), float32 (objects, 3)."""
    chosen = torch.arange(len(features)) if at is None else torch.tensor(at, dtype=torch.long)
    model.eval()
    with torch.inference_mode():
        parts = [
            model(features.full[some], features.crop[some])
            for some in torch.split(chosen, _PREDICTED)
            if len(some)
        ]
    return torch.cat(parts) if parts else torch.zeros(0, 3)


@dataclass(eq=False)
class _TrainingRun:
    """One training between two steps."""

    config: OlipConfig
    options: TrainingOptions
    features: Features
    targets: torch.Tensor
    parts: tuple[tuple[int, ...], tuple[int, ...]]
    """Rows to train on and to validate with."""
    file: Path | None

    def __post_init__(self) -> None:
        """Begin with random weights."""
        options = self.options
        self.train = torch.tensor(self.parts[0], dtype=torch.long)
        self.batches = -(-len(self.train) // options.batch)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(options.seed)
            self.model = Olip(self.config)
            self.random = torch.get_rng_state()
        optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.rate, weight_decay=options.decay
        )
        data = hashlib.sha256(self.features.digest.encode())
        data.update(self.targets.numpy().tobytes())
        data.update(repr(self.parts).encode())
        self.training = ResumableTraining(
            self.model,
            optimizer,
            {
                "architecture": self.config.model_dump(mode="json"),
                "options": options.model_dump(mode="json"),
                "data": data.hexdigest(),
            },
            file=self.file,
            wrong=RealismError,
            schedule=torch.optim.lr_scheduler.CosineAnnealingLR(
                optimizer, options.epochs * self.batches
            ),
        )
        self.history: list[Epoch] = []
        self.best: dict[str, torch.Tensor] = _copied(self.model.state_dict())
        self.best_epoch = 0
        self.order = self._order()
        self.at = 0
        self.sum = 0.0

    @property
    def finished(self) -> bool:
        """Whether the last epoch is done, or patience is at its end."""
        done = len(self.history)
        return done >= self.options.epochs or done - self.best_epoch >= self.options.patience

    def step(self) -> bool:
        """Take one step; return whether an epoch ended with it."""
        self.model.train()
        some = self.train[self.order[self.at : self.at + self.options.batch]]
        found = self.model(self.features.full[some], self.features.crop[some])
        loss = functional.mse_loss(found, self.targets[some])
        place = f"in epoch {len(self.history) + 1}"
        self.sum += self.training.learn(loss, place) * len(some)
        self.at += len(some)
        if self.at < len(self.train):
            return False
        said = predict(self.model, self.features, self.parts[1])
        wanted = self.targets[list(self.parts[1])]
        epoch = Epoch(
            len(self.history) + 1,
            self.sum / len(self.train),
            functional.mse_loss(said, wanted).item(),
        )
        best = self.history[self.best_epoch - 1].validation if self.best_epoch else float("inf")
        self.history.append(epoch)
        if epoch.validation < best:
            self.best, self.best_epoch = _copied(self.model.state_dict()), epoch.number
        self.order, self.at, self.sum = self._order(), 0, 0.0
        return True

    def _order(self) -> torch.Tensor:
        """Of the running epoch; hangs on seed and epoch alone."""
        generator = torch.Generator().manual_seed(self.options.seed * 100_003 + len(self.history))
        return torch.randperm(len(self.train), generator=generator)

    def result(self) -> TrainingResult:
        """Return the state of the training, with the best weights."""
        # A copy: the run's own must not change with what the caller does to the model.
        return TrainingResult(
            olip_of(self.config, _copied(self.best)),
            tuple(self.history),
            self.best_epoch,
            self.finished,
        )

    def save(self) -> None:
        """Write the checkpoint in one piece; within the run's random numbers."""
        history = [(e.number, e.loss, e.validation) for e in self.history]
        own = {name: getattr(self, name) for name in ("order", "at", "sum", "best", "best_epoch")}
        self.training.save({**own, "history": history})

    def load(self) -> None:
        """Go on from a checkpoint, if there is one."""
        state = self.training.load()
        if state is None:
            return
        self.order, self.at, self.sum = state["order"], state["at"], state["sum"]
        self.best, self.best_epoch = dict(state["best"]), state["best_epoch"]
        self.history = [Epoch(*row) for row in state["history"]]


def _copied(state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {key: value.detach().clone() for key, value in state.items()}
