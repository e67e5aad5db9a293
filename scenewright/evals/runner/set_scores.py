"""Metrics of sets: a picture's vector is made once and kept, and scores are made of vectors."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
from PIL import Image

from scenewright.core.images import ImageStore, load_image
from scenewright.evals.metrics.base import FeatureExtractor, MetricError, MetricScore, SetMetric
from scenewright.evals.runner.arms import Arm, digest, file_mark
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.measuring import SCORE, error_text, score_rows, state_of
from scenewright.evals.runner.model_setup import EvalModels
from scenewright.evals.store.journal import Features, Journal, Unit

BATCH = 32
_BLOCK = 1024
_FROM = 2**40
"""Position in the plan at which the scores of sets begin, behind those of all items."""


@dataclass(slots=True)
class Members:
    """The pictures of one arm in one part of the set."""

    pictures: list[str] = field(default_factory=list)
    """Content hashes of the kept pictures."""
    originals: list[str] = field(default_factory=list)
    """Photos of the same items, as :func:`original_name` says them; those that are there."""
    failed: list[str] = field(default_factory=list)
    """Why each of the pictures that are lacking could not be drawn."""


@dataclass(frozen=True, slots=True)
class StoredVectors:
    """The vectors of a list of pictures, read from the journal block by block."""

    journal: Journal
    """Where they are."""
    extractor: str
    """Fingerprint of what made them."""
    names: Sequence[str]
    """Whose."""

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[Features]:
        for at in range(0, len(self.names), _BLOCK):
            yield self.journal.vectors(self.extractor, self.names[at : at + _BLOCK])


def original_name(path: str) -> str:
    """A photo's name among vectors: its path, size and time of change."""
    return digest("original", file_mark(Path(path)))


def scopes_of(config: EvalConfig, row: dict[str, object]) -> list[str]:
    """The parts of the set that an item with that row of ``items`` belongs to; ``""`` is all."""
    found = [""]
    for scope in config.scopes:
        value = row[scope]
        if value in ("", None):
            continue
        shown = f"{value:g}" if isinstance(value, float) else value
        found.append(f"{scope}={shown}")
    return found


class OnProgress(Protocol):
    """Is told what was done."""

    def __call__(self, *, unscored: int = 0) -> None:
        """Something was done; so many scores are unscored."""
        ...


@dataclass(frozen=True, slots=True)
class SetMetricRunner:
    """Works out the scores of sets when all pictures are there."""

    journal: Journal
    """What was drawn, and where vectors and scores go."""
    plan: str
    """The evaluation."""
    eval_models: EvalModels
    """Arms and metrics."""
    config: EvalConfig
    """Which parts of the set are scored."""

    async def score(self, images: ImageStore, again: bool, tell: OnProgress) -> None:
        """All metrics of sets, for every arm and part; ``again``: unscored ones too."""
        members, photos = await asyncio.to_thread(self._members)
        load = loader(images, photos)
        pictures = list(dict.fromkeys(n for _, _, m in members for n in m.pictures))
        makers = {
            metric.extractor.fingerprint: metric.extractor for metric in self.eval_models.of_sets
        }
        compared = {
            m.extractor.fingerprint for m in self.eval_models.of_sets if "original" in m.needs
        }
        gone: dict[str, dict[str, str]] = {}
        for name, maker in makers.items():
            wanted = [*pictures, *photos] if name in compared else pictures
            gone[name] = await make_vectors(self.journal, maker, wanted, load, tell)
        keys: list[str] = []
        for metric in self.eval_models.of_sets:
            lost = gone[metric.extractor.fingerprint]
            for arm, scope, found in members:
                whole = Members(
                    [name for name in found.pictures if name not in lost],
                    [name for name in found.originals if name not in lost],
                )
                reasons = [lost[name] for name in found.pictures if name in lost]
                if "original" in metric.needs:
                    reasons += [lost[name] for name in found.originals if name in lost]
                reasons += found.failed
                unit = await set_score(self.journal, metric, arm, scope, whole, reasons, again)
                keys.append(unit.key)
                tell(unscored=int(unit.state == "unscored"))
        self.journal.plan(self.plan, _FROM, keys)

    def _members(self) -> tuple[list[tuple[Arm, str, Members]], dict[str, str]]:
        """The kept pictures of every arm in every part of the set, and the photos by name."""
        wanted = any("original" in metric.needs for metric in self.eval_models.of_sets)
        parts: dict[str, tuple[list[str], str]] = {}
        photos: dict[str, str] = {}
        for unit in self.journal.units(self.plan, "item"):
            row = dict(unit.rows["items"][0])
            name = ""
            if wanted and row["original"] and Path(row["original"]).is_file():
                name = original_name(row["original"])
                photos[name] = row["original"]
            parts[row["item"]] = (scopes_of(self.config, row), name)
        arms = {arm.name: arm for arm in self.eval_models.arms}
        members: dict[tuple[str, str], Members] = {}
        for unit in self.journal.units(self.plan, "draw"):
            row = dict(unit.rows["rounds"][0])
            scopes, name = parts[row["item"]]
            for scope in scopes:
                part = members.setdefault((row["arm"], scope), Members())
                if unit.state == "failed":
                    part.failed.append(f"the drawing failed: {unit.reason}")
                    continue
                part.pictures.append(unit.facts["kept"])
                part.originals += [name] if name else []
        return [(arms[arm], scope, part) for (arm, scope), part in members.items()], photos


async def make_vectors(
    journal: Journal,
    extractor: FeatureExtractor,
    names: Sequence[str],
    load: Callable[[str], Image.Image],
    tell: Callable[[], None],
) -> dict[str, str]:
    """Make and keep the vectors of ``names`` that are lacking; ``load`` gives the pixels.

    ``tell`` is called after each batch. A batch that fails is tried one by one.
    Gives name → reason of those that cannot be made.
    """
    lost: dict[str, str] = {}
    for at in range(0, len(names), _BLOCK):
        lacking = journal.vectors_missing(extractor.fingerprint, names[at : at + _BLOCK])
        for start in range(0, len(lacking), BATCH):
            batch = lacking[start : start + BATCH]
            try:
                await _kept(journal, extractor, batch, load)
            except Exception:
                for name in batch:
                    try:
                        await _kept(journal, extractor, [name], load)
                    except Exception as error:
                        lost[name] = error_text(error)
            tell()
    return lost


async def _kept(
    journal: Journal,
    extractor: FeatureExtractor,
    batch: Sequence[str],
    load: Callable[[str], Image.Image],
) -> None:
    images = await asyncio.to_thread(lambda: [load(name) for name in batch])
    vectors = np.asarray(await extractor.features(images))
    if vectors.shape != (len(batch), extractor.dimensions):
        raise MetricError(
            f"{extractor.id} gave vectors of shape {vectors.shape} for {len(batch)} pictures"
        )
    # Kept, they would be taken for the picture's for good.
    if not np.isfinite(vectors).all():
        raise MetricError(f"{extractor.id} gave a vector that is not finite")
    journal.put_vectors(extractor.fingerprint, batch, vectors)


async def set_score(
    journal: Journal,
    metric: SetMetric,
    arm: Arm,
    scope: str,
    members: Members,
    lost: Sequence[str],
    again: bool,
) -> Unit:
    """The score of one part of one arm; found in the journal if it was worked out before, unless
    it was unscored and ``again`` is asked. ``lost``: why each of the pictures and photos that are
    not among ``members`` has no vector, or is not there.

    The score is of the pictures that are there; it says how many are not, and is tried again.
    """
    key = digest(
        SCORE, metric.name, metric.version, arm.name, scope, members.pictures, members.originals,
        *([len(lost)] if lost else []),
    )  # fmt: skip
    unit = journal.get(key)
    if unit is not None and not (again and unit.state != "done"):
        return unit
    needs_originals = "original" in metric.needs
    fingerprint = metric.extractor.fingerprint
    pictures = StoredVectors(journal, fingerprint, members.pictures)
    originals = StoredVectors(journal, fingerprint, members.originals) if needs_originals else None
    no_photos = originals is not None and not originals
    if lost and (no_photos or not pictures):
        found = MetricScore(value=None, reason=f"none of {len(lost)} pictures: {lost[0]}")
    elif no_photos or not pictures:
        lacking = "the items have no original photos" if no_photos else "there are no pictures"
        found = MetricScore(value=None, reason=lacking)
    else:
        try:
            found = await asyncio.to_thread(metric.compute, pictures, originals)
        except Exception as error:
            found = MetricScore(value=None, reason=error_text(error))
    if lost and found.value is not None:
        more = f"{len(lost)} pictures or photos are not in it: {lost[0]}"
        found = found.model_copy(update={"unscored": len(lost), "reason": more})
    base = {**arm.columns(""), "panel": "", "round": None, "image": ""}
    rows = score_rows(found, metric.name, metric.version, base, scope, len(pictures))
    unit = Unit(key, SCORE, state_of(found), found.reason, rows)
    journal.put([unit])
    return unit


def loader(images: ImageStore, photos: dict[str, str]) -> Callable[[str], Image.Image]:
    """Loads a picture by content hash, or a photo by its :func:`original_name`."""

    def load(name: str) -> Image.Image:
        return load_image(photos[name]) if name in photos else images.get(name)

    return load
