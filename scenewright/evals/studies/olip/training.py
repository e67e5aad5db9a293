"""OLIP on a set of rated objects: features, parts, training, and its row of Table 3a."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from scenewright.evals.human_ratings.objects.data import RatedObject, Split, read_objects
from scenewright.evals.studies.olip.evaluation import Evaluation, evaluate, scores_of
from scenewright.evals.studies.olip.features import OnFeatures, features_of, targets_of
from scenewright.evals.studies.olip.splits import (
    Digests,
    Splits,
    picture_digests,
    split_objects,
    trained_on,
)
from scenewright.tools.vision.realism.olip import BlipEncoder, Olip, OlipConfig
from scenewright.tools.vision.realism.olip_training import (
    Features,
    OnEpoch,
    Trained,
    TrainingOptions,
    predict,
    train_olip,
)
from scenewright.tools.vision.realism.trained_on import TrainedOn


@dataclass(frozen=True, slots=True)
class Prepared:
    """A set, ready to be learned from."""

    objects: tuple[RatedObject, ...]
    """All of it, in its order."""
    features: Features
    """One row an object."""
    splits: Splits
    """Which of them are in which part."""
    encoder: str
    """``digest`` of the encoder."""
    digests: Digests = field(default_factory=dict)
    """Digest of each picture."""

    @property
    def targets(self) -> torch.Tensor:
        """Ratings, float32 (objects, 3)."""
        return targets_of(self.objects)

    @property
    def trained_on(self) -> TrainedOn:
        """Its pictures by part, as they are saved with heads trained on it."""
        return trained_on(self.objects, self.digests, self.splits)

    def part(self, name: Split) -> list[RatedObject]:
        """The objects of one part."""
        return [self.objects[at] for at in self.splits.of(name)]


async def prepare(
    folder: str | os.PathLike[str],
    encoder: BlipEncoder,
    *,
    cache: str | os.PathLike[str] | None = None,
    seed: int = 0,
    on_features: OnFeatures | None = None,
) -> Prepared:
    """Read the set in ``folder``, draw its parts, compute its features (kept in ``cache``).

    Raises ``RealismError`` as :func:`~scenewright.evals.human_ratings.objects.data.read_objects`,
    :func:`~scenewright.evals.studies.olip.splits.split_objects` and
    :func:`~scenewright.evals.studies.olip.features.features_of` do.
    """
    objects = read_objects(folder)
    digests = await asyncio.to_thread(picture_digests, folder, objects)
    splits = split_objects(objects, digests, seed=seed)
    features = await features_of(folder, objects, encoder, cache, on_features)
    return Prepared(tuple(objects), features, splits, encoder.digest, digests)


def fit(
    prepared: Prepared,
    config: OlipConfig,
    options: TrainingOptions,
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    on_epoch: OnEpoch | None = None,
) -> Trained:
    """Train heads on ``prepared``; as
    :func:`~scenewright.tools.vision.realism.olip_training.train_olip` tells."""
    return train_olip(
        config,
        prepared.features,
        prepared.targets,
        prepared.splits.train,
        prepared.splits.validation,
        options,
        checkpoint=checkpoint,
        on_epoch=on_epoch,
    )


def evaluate_heads(name: str, model: Olip, prepared: Prepared, seed: int = 0) -> Evaluation:
    """The row of Table 3a of ``model`` on the part for testing."""
    rows = predict(model, prepared.features, prepared.splits.of("test")).tolist()
    return evaluate(name, prepared.part("test"), scores_of(rows), seed=seed)


def training_report(
    trained: Trained, options: TrainingOptions, prepared: Prepared, rows: Sequence[Evaluation]
) -> dict[str, Any]:
    """What ``report.json`` says: how it was trained, and its figures on what it never saw."""
    return {
        "options": options.model_dump(mode="json"),
        "objects": {
            part: len(prepared.splits.of(part)) for part in ("train", "validation", "test")
        },
        "best_epoch": trained.best,
        "history": [
            {"epoch": e.number, "loss": round(e.loss, 5), "validation": round(e.validation, 5)}
            for e in trained.history
        ],
        "test": [row.model_dump(mode="json") for row in rows],
    }
