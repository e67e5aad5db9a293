"""Training recipe of the miniature's OLIP: two small heads sets over the miniature BLIP.

``olip-a`` steers and ``olip-b`` reports: other weights and other paintings, one encoder. Both
learn from objects with exact grades. The loop shows them pictures of a diffusion model, so
:data:`DRAWN` of the paintings went through the generator's autoencoder, and then all of them
through weather of strength :data:`WORN`; the grades stay. Smear alone is then no damage.
``scenewright miniature train olip`` trains or continues them.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from diffusers import AutoencoderKL
from safetensors.torch import load_file, save_file

from scenewright.agents.judges.vlm import digest_folder
from scenewright.miniature.training.blip import Pictured, pool_of
from scenewright.miniature.training.degraded_images import DRAWN, WORN, as_seen
from scenewright.tools.vision.realism.accuracy import normalized_error, same_class
from scenewright.tools.vision.realism.blip import BlipEncoder
from scenewright.tools.vision.realism.object_views import object_crop
from scenewright.tools.vision.realism.olip import ASPECTS, OlipConfig
from scenewright.tools.vision.realism.olip_files import save_olip
from scenewright.tools.vision.realism.olip_training import (
    Epoch,
    Features,
    TrainingOptions,
    TrainingResult,
    predict,
    train_olip,
)
from scenewright.tools.vision.realism.trained_on import Part, TrainedOn, picture_digest

FOLDER = "olip"
"""Below the weights."""
RECIPES = {"olip-a": 9_001, "olip-b": 9_002}
"""Name → seed of its paintings, its weights and its order."""
PAINTINGS = 2000
"""For each: about 8,000 objects."""
EPOCHS = 60
"""Most passes over them."""
WIDTHS = (128, 96, 48)
"""Hidden layers of the MLPs: the folder stays below 0.7 MB."""
_HELD_OUT = 0.05
_BATCH = 50


@dataclass(frozen=True, slots=True)
class Lesson:
    """Graded objects of a pool and what the encoder says of them."""

    features: Features
    """One row an object."""
    targets: torch.Tensor
    """float32 (objects, 3): shape, texture, joint from 1 to 5."""
    paintings: torch.Tensor
    """int64 (objects,): the painting that each is in."""


def train_heads(
    out: Path,
    work: Path,
    *,
    weights: Path,
    epochs: int = EPOCHS,
    seed: int = 0,
    device: str = "auto",
    max_seconds: float | None = None,
    paintings: int = PAINTINGS,
    names: Sequence[str] = tuple(RECIPES),
    processes: int | None = None,
) -> bool:
    """Train or continue the heads of ``names`` into folders of ``out``; whether all are finished.

    ``weights``: the folder with ``blip`` and ``generator/vae``. Features and checkpoints lie in
    ``work``. ``max_seconds`` stops early. Raises ``RealismError`` without a BLIP.
    """
    started = time.monotonic()

    def over() -> bool:
        return max_seconds is not None and time.monotonic() - started > max_seconds

    return asyncio.run(
        _all(out, work, weights, epochs, seed, device, paintings, names, processes, over)
    )


async def _all(
    out: Path,
    work: Path,
    weights: Path,
    epochs: int,
    seed: int,
    device: str,
    paintings: int,
    names: Sequence[str],
    processes: int | None,
    over: Callable[[], bool],
) -> bool:
    encoder = BlipEncoder(weights / "blip", device=device)
    try:
        for name in names:
            number = RECIPES[name] + seed
            pool = _Pool(name, number, paintings, processes)
            lesson = await _lesson(pool, encoder, weights / "generator" / "vae", work, over)
            if lesson is None:
                return False
            if not _train(name, number, lesson, pool, encoder, out, work, epochs, over).finished:
                return False
    finally:
        await encoder.aclose()
    return True


def _train(
    name: str,
    seed: int,
    lesson: Lesson,
    pool: _Pool,
    encoder: BlipEncoder,
    out: Path,
    work: Path,
    epochs: int,
    over: Callable[[], bool],
) -> TrainingResult:
    count = int(lesson.paintings.max()) + 1
    first, last = _bounds(count)
    test = lesson.paintings >= last
    validation = (lesson.paintings >= first) & ~test
    options = TrainingOptions(epochs=epochs, seed=seed)
    config = OlipConfig(embedding=lesson.features.full.shape[1], widths=WIDTHS)

    def told(epoch: Epoch) -> None:
        print(
            f"{name} epoch {epoch.number}/{epochs}  loss {epoch.loss:.4f}  "
            f"validation {epoch.validation:.4f}",
            flush=True,
        )

    trained = train_olip(
        config,
        lesson.features,
        lesson.targets,
        _places(~test & ~validation),
        _places(validation),
        options,
        checkpoint=work / f"{name}.pt",
        on_epoch=told,
        stop=over,
    )
    report = {
        "seed": seed,
        "options": options.model_dump(mode="json"),
        "paintings": count,
        "objects": len(lesson.targets),
        "share_through_autoencoder": DRAWN,
        "strength_of_weather": WORN,
        "best_epoch": trained.best,
        "finished": trained.finished,
        "test": _figures(trained, lesson, _places(test)),
    }
    print(f"{name}  {json.dumps(report['test'])}", flush=True)
    save_olip(
        out / name,
        trained.model,
        encoder=encoder.folder,
        encoder_digest=encoder.digest,
        trained_on=pool.record(count),
        report=report,
    )
    return trained


def _bounds(count: int) -> tuple[int, int]:
    """Return the first painting of validation, and the first of the test."""
    held = max(1, round(_HELD_OUT * count))
    return count - 2 * held, count - held


def _figures(trained: TrainingResult, lesson: Lesson, test: Sequence[int]) -> dict[str, Any]:
    said = predict(trained.model, lesson.features, test).numpy()
    wanted = lesson.targets[list(test)].numpy()
    error, right = normalized_error(said, wanted).mean(0), same_class(said, wanted).mean(0)
    return {
        "objects": len(test),
        "mae": {aspect: round(float(error[at]), 4) for at, aspect in enumerate(ASPECTS)},
        "acc": {aspect: round(float(right[at]), 4) for at, aspect in enumerate(ASPECTS)},
    }


@dataclass
class _Pool:
    """Paintings that are made when the first of them is needed."""

    name: str
    seed: int
    count: int
    processes: int | None
    made: list[Pictured] = field(default_factory=list)

    def part(self, start: int) -> list[Pictured]:
        """Return the :data:`_BATCH` from ``start`` on."""
        return self._all()[start : start + _BATCH]

    def record(self, count: int) -> TrainedOn:
        """Return the first ``count`` by part: as they are painted, before any weather."""
        first, last = _bounds(count)

        def part(at: int) -> Part:
            return "train" if at < first else "validation" if at < last else "test"

        # Of equal paintings that which is learned from counts.
        found: dict[str, Part] = {}
        for at, picture in enumerate(self._all()[:count]):
            found.setdefault(picture_digest(picture.image), part(at))
        return TrainedOn.of(found.items())

    def _all(self) -> list[Pictured]:
        if not self.made:
            self.made = pool_of(self.seed, self.count, self.processes)
        return self.made


async def _lesson(
    pool: _Pool, encoder: BlipEncoder, vae: Path, work: Path, over: Callable[[], bool]
) -> Lesson | None:
    """Return the pool's objects as the encoder sees them, kept in ``work`` by parts.

    None if it is over before the last.
    """
    key = hashlib.sha256(
        json.dumps([encoder.fingerprint, digest_folder(vae), pool.seed, DRAWN, WORN]).encode()
    ).hexdigest()
    folder = work / f"{pool.name}-{key[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    autoencoder = AutoencoderKL.from_pretrained(vae, torch_dtype=torch.float32).eval()
    parts: list[dict[str, torch.Tensor]] = []
    for start in range(0, pool.count, _BATCH):
        file = folder / f"{start:06d}-{min(_BATCH, pool.count - start)}.safetensors"
        if not file.is_file():
            if over():
                return None
            draft = file.with_suffix(".part")
            save_file(await _encoded(pool.part(start), autoencoder, encoder, start, key), draft)
            draft.replace(file)
            print(f"{pool.name} encoded {start}/{pool.count} paintings", flush=True)
        parts.append(load_file(file))
    whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    features = Features(whole["full"], whole["crop"], f"{key}/{pool.count}")
    return Lesson(features, whole["targets"], whole["paintings"])


async def _encoded(
    some: Sequence[Pictured],
    autoencoder: AutoencoderKL,
    encoder: BlipEncoder,
    first: int,
    key: str,
) -> dict[str, torch.Tensor]:
    shown = as_seen([picture.image for picture in some], autoencoder, f"{key}/{first}")
    objects = [(at, item) for at, picture in enumerate(some) for item in picture.objects]
    names = [item.name for _, item in objects]
    full = await encoder.features([shown[at] for at, _ in objects], names)
    crop = await encoder.features([object_crop(shown[at], item.box) for at, item in objects], names)
    grades = [(i.shape, i.texture, (i.shape + i.texture) / 2) for _, i in objects]
    return {
        "full": torch.from_numpy(full),
        "crop": torch.from_numpy(crop),
        "targets": torch.tensor(grades, dtype=torch.float32).reshape(-1, len(ASPECTS)),
        "paintings": torch.tensor([first + at for at, _ in objects], dtype=torch.long),
    }


def _places(chosen: torch.Tensor) -> tuple[int, ...]:
    return tuple(int(at) for at in chosen.nonzero()[:, 0])
