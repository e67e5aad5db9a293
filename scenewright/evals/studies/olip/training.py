"""Train OLIP on a set of rated objects, and measure what each of its parts is worth.

Features of the objects come from a frozen BLIP; they are computed once and kept. The trained heads
give a row of Table 3a, the ablations Table 3b: each part of OLIP left out, the literal reading of
its attention, and the rows that look at no picture.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from scenewright.core.images import ImageError, load_image
from scenewright.core.ports.vision import ObjectRealism, RealismError
from scenewright.core.validation import FrozenModel
from scenewright.evals.errors import EvalError
from scenewright.evals.human_ratings.rated_objects import FILE, RatedObject, Split, read_objects
from scenewright.evals.reporting.measured import MeasuredTable
from scenewright.evals.statistics.figures import Bootstrap, Figure
from scenewright.evals.store.journal import open_journal
from scenewright.evals.studies.olip.evaluation import (
    FLOORS,
    MEASURES,
    Evaluation,
    evaluate,
    floor_scores,
    scores_of,
)
from scenewright.evals.studies.olip.splits import (
    Digests,
    Splits,
    picture_digests,
    split_objects,
    trained_on,
)
from scenewright.tools.vision.realism.accuracy import normalized_error, same_class
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.olip import Olip, OlipConfig
from scenewright.tools.vision.realism.olip_training import (
    Features,
    OnEpoch,
    TrainingOptions,
    TrainingResult,
    predict,
    train_olip,
)
from scenewright.tools.vision.realism.trained_on import TrainedOn

PART = 128
"""Objects that are encoded and kept together: what an interruption loses at most."""
FEATURES = "features.sqlite"
"""The journal of features in its folder."""
OnFeatures = Callable[[int, int], None]
"""Gets how many objects are done, and how many there are."""


async def features_of(
    folder: str | os.PathLike[str],
    objects: Sequence[RatedObject],
    encoder: BlipEncoder,
    cache: str | os.PathLike[str] | None = None,
    on_features: OnFeatures | None = None,
) -> Features:
    """Return the features of ``objects``, whose pictures are in ``folder``, in their order.

    ``cache``: a folder with the journal of features, which depend on nothing but the encoder, the
    pictures' bytes, the boxes and the categories: an interrupted run goes on, and new ratings need
    no new features. Raises ``RealismError`` with file and line for a picture
    that cannot be read or a box outside of it, or if the model fails.
    """
    if not objects:
        raise RealismError("there are no objects to compute features of")
    root = Path(folder)
    names = await asyncio.to_thread(_names, root, objects)
    try:
        with open_journal(None if cache is None else Path(cache) / FEATURES) as journal:
            for start in range(0, len(objects), PART):
                some = dict(zip(names[start:][:PART], objects[start:][:PART], strict=True))
                known = journal.known_vectors(encoder.fingerprint, [*some])
                fresh = {name: item for name, item in some.items() if name not in known}
                if fresh:
                    rows = await _encode(root, [*fresh.values()], encoder)
                    journal.put_vectors(encoder.fingerprint, [*fresh], rows)
                if on_features is not None:
                    on_features(min(start + PART, len(objects)), len(objects))
            found = torch.from_numpy(journal.vectors(encoder.fingerprint, names))
    except EvalError as error:
        raise RealismError(f"features cannot be kept: {error}") from error
    full, crop = (side.contiguous() for side in found.tensor_split(2, dim=1))
    whole = hashlib.sha256(json.dumps([encoder.fingerprint, names]).encode())
    return Features(full, crop, whole.hexdigest())


def _names(root: Path, objects: Sequence[RatedObject]) -> list[str]:
    """Return digests of what decides the features of each object besides the encoder."""
    hashes: dict[str, str] = {}
    names = []
    for item in objects:
        if item.image not in hashes:
            try:
                content = (root / item.image).read_bytes()
            except OSError as error:
                raise RealismError(f"{line_of(root, item)}: {error.strerror or error}") from error
            hashes[item.image] = hashlib.sha256(content).hexdigest()
        row = json.dumps((hashes[item.image], item.category, item.box))
        names.append(hashlib.sha256(row.encode()).hexdigest())
    return names


async def _encode(
    root: Path, objects: Sequence[RatedObject], encoder: BlipEncoder
) -> NDArray[np.float32]:
    """Return the features of the whole picture and of the crop side by side, one row an object."""
    # By picture, so that each is opened and looked at once.
    order = sorted(range(len(objects)), key=lambda at: objects[at].image)
    sorted_objects = [objects[at] for at in order]
    full, crops = await asyncio.to_thread(_views, root, sorted_objects)
    names = [item.category for item in sorted_objects]
    found = [await encoder.features(images, names) for images in (full, crops)]
    return np.concatenate(found, axis=1)[np.argsort(order)]


def _views(
    root: Path, objects: Sequence[RatedObject]
) -> tuple[list[Image.Image], list[Image.Image]]:
    opened: dict[str, Image.Image] = {}
    full: list[Image.Image] = []
    crops: list[Image.Image] = []
    for item in objects:
        try:
            if item.image not in opened:
                opened[item.image] = load_image(root / item.image)
            full.append(opened[item.image])
            crops.append(object_crop(opened[item.image], item.box))
        except (ImageError, ValueError) as error:
            raise RealismError(f"{line_of(root, item)}: {error}") from error
    return full, crops


def targets_of(objects: Sequence[RatedObject]) -> torch.Tensor:
    """Return the ratings of 1 to 5, float32 (objects, 3): shape, texture, joint."""
    rows = [(item.shape, item.texture, item.joint) for item in objects]
    return torch.tensor(rows, dtype=torch.float32).reshape(-1, 3)


def line_of(folder: Path, item: RatedObject) -> str:
    """Return where the set's list names ``item``: ``set/objects.jsonl, line 7``."""
    path = folder / FILE
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
            if line.strip() and json.loads(line).get("id") == item.id:
                return f"{path}, line {number}"
    except (OSError, ValueError):
        pass
    return f"object {item.id!r}"


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
        """Return the objects of one part."""
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

    Raises ``RealismError`` as :func:`~scenewright.evals.human_ratings.rated_objects.read_objects`,
    :func:`~scenewright.evals.studies.olip.splits.split_objects` and
    :func:`~scenewright.evals.studies.olip.training.features_of` do.
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
) -> TrainingResult:
    """Train heads on ``prepared``.

    See :func:`~scenewright.tools.vision.realism.olip_training.train_olip`.
    """
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
    """Return the row of Table 3a of ``model`` on the part for testing."""
    rows = predict(model, prepared.features, prepared.splits.of("test")).tolist()
    return evaluate(name, prepared.part("test"), scores_of(rows), seed=seed)


def training_report(
    trained: TrainingResult,
    options: TrainingOptions,
    prepared: Prepared,
    rows: Sequence[Evaluation],
) -> dict[str, Any]:
    """Return the content of ``report.json``: the training, and the figures on the test part."""
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


FULL = "full"
VARIANTS: Mapping[str, Mapping[str, bool]] = {
    FULL: {"full_image": True},
    "no_full_image": {"full_image": False},
    "no_multi_head": {"full_image": True, "multi_head": False},
    "no_deep": {"full_image": True, "deep": False},
    "none": {"full_image": False, "multi_head": False, "deep": False},
    "literal": {"full_image": True, "residual": False},
}
"""Variant → its switches: the rows of Table 3b in their order, then attention as it is written."""
TITLES: Mapping[str, str] = {
    FULL: "Full OLIP",
    "no_full_image": "– Full image",
    "no_multi_head": "– Multi-head",
    "no_deep": "– Deep proj.",
    "none": "– All",
    "literal": "Literal reading (no residual)",
    **FLOORS,
}
"""Variant → its row's name."""


class Ablation(FrozenModel):
    """One row of Table 3b."""

    variant: str
    """Of :data:`VARIANTS`, or a row that looks at no picture, of
    :data:`~scenewright.evals.studies.olip.evaluation.FLOORS`."""
    evaluation: Evaluation
    """All columns, over all seeds: ``objects`` counts an object once a seed."""
    worse_mae: Figure | None = None
    """Its joint MAE minus that of full OLIP on the same objects; None for full OLIP."""
    worse_acc: Figure | None = None
    """The joint ACC of full OLIP minus its own."""


def ablate(
    prepared: Prepared,
    config: OlipConfig,
    options: TrainingOptions,
    *,
    variants: Iterable[str] = VARIANTS,
    seeds: Sequence[int] = (0,),
    work: str | os.PathLike[str] | None = None,
    on_variant: Callable[[str, int], None] | None = None,
) -> list[Ablation]:
    """Train each variant once a seed, and evaluate it on the test part.

    All variants share features, parts, options and seeds; full OLIP is always among them, as the
    differences are paired with it. After them come constant and random scores. ``work``: a folder
    of checkpoints, so that an interrupted ablation goes on. Raises as
    :func:`~scenewright.evals.studies.olip.training.fit`, and ``KeyError`` for a variant that is not
    known.
    """
    objects = prepared.part("test") * len(seeds)
    wanted = np.array([item.joint for item in objects])
    numbers = {name: at for at, name in enumerate(dict.fromkeys(item.image for item in objects))}
    pictures = [numbers[item.image] for item in objects]
    boots = Bootstrap(len(numbers), options.seed)
    rows: list[Ablation] = []
    errors: list[tuple[np.ndarray, np.ndarray]] = []

    def add(variant: str, scores: Sequence[ObjectRealism]) -> None:
        joint = np.array([score.joint for score in scores], np.float64)
        errors.append((normalized_error(joint, wanted), same_class(joint, wanted)))
        mae, acc = errors[-1][0] - errors[0][0], errors[0][1] - errors[-1][1]
        rows.append(
            Ablation(
                variant=variant,
                evaluation=evaluate(TITLES[variant], objects, scores, seed=options.seed),
                worse_mae=boots.share(pictures, mae) if rows else None,
                worse_acc=boots.share(pictures, acc) if rows else None,
            )
        )

    for variant in dict.fromkeys((FULL, *variants)):
        architecture = config.model_copy(update=dict(VARIANTS[variant]))
        said: list[list[float]] = []
        for seed in seeds:
            if on_variant is not None:
                on_variant(variant, seed)
            trained = fit(
                prepared,
                architecture,
                options.model_copy(update={"seed": seed}),
                checkpoint=Path(work) / f"{variant}-{seed}.pt" if work is not None else None,
            )
            said += predict(trained.model, prepared.features, prepared.splits.test).tolist()
        add(variant, scores_of(said))
    for floor in FLOORS:
        add(floor, floor_scores(floor, prepared.part("train"), len(objects), options.seed))
    return rows


def ablation_table(rows: Sequence[Ablation]) -> MeasuredTable:
    """Return Table 3b: joint MAE, ACC and rank correlation, and how much worse than full OLIP."""
    return MeasuredTable(
        title="Table 3b",
        rows=tuple(
            {"Model design": TITLES[row.variant]}
            | {
                head: getattr(row.evaluation.columns["joint"], measure)
                for measure, head in MEASURES.items()
            }
            | {"MAE over full": row.worse_mae or "", "ACC under full": row.worse_acc or ""}
            for row in rows
        ),
    )
