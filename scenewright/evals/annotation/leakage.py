"""Photos that a test set holds already: two sets compared by the similarity of their pictures.

Scene-Bench (Table 5) trains on photos alone whose CLIP similarity with the test set is below .9. A
picture is a vector of an extractor, computed once and kept; two are alike by the cosine of theirs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from scenewright.core.images import load_image
from scenewright.evals.annotation.config import LEAST_ALIKE, LeakageGuard
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.datasets.registry import PartOfSet, open_dataset
from scenewright.evals.errors import EvalError
from scenewright.evals.metrics.base import FeatureExtractor
from scenewright.evals.metrics.extractors import extractor_of
from scenewright.evals.runner.runner import BATCH, StoredVectors, make_vectors, original_name
from scenewright.evals.store.journal import Features, Journal

LEAK = "leak"
"""Key of an item's ``meta``: the photo of the test set that its own is like."""
VECTORS = "leakage.sqlite"
"""File of the vectors, in the folder of what is built."""


@dataclass(frozen=True, slots=True)
class Leaks:
    """What two sets have in common."""

    photos: int
    """Photos of the first set that could be compared."""
    against: int
    """Photos of the test set that could be compared."""
    found: Mapping[str, tuple[str, float]]
    """File of the first set → the most similar file of the test set, and their cosine."""
    unread: Mapping[str, str]
    """File → why it could not be compared."""


async def leaks_between(
    photos: Dataset,
    against: Dataset,
    extractor: FeatureExtractor,
    folder: Path,
    least: float = LEAST_ALIKE,
    told: Callable[[int], None] = lambda done: None,
) -> Leaks:
    """Compare the photos of two sets; vectors are kept in ``folder`` and found there again.

    ``told`` gets the photos done so far. Raises ``EvalError`` for a set without photos, or whose
    photos can all not be read.
    """
    names = {which: _names(items) for which, items in (("first", photos), ("test", against))}
    files = names["first"] | names["test"]
    done = 0

    def batch_done() -> None:
        nonlocal done
        done += 1
        told(min(done * BATCH, len(files)))

    def load(name: str) -> Image.Image:
        return load_image(files[name])

    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with Journal(folder / VECTORS) as journal:
        lost = await make_vectors(journal, extractor, [*files], load, batch_done)
        first, test = ([n for n in names[which] if n not in lost] for which in ("first", "test"))
        for which, kept in (("first", first), ("test", test)):
            if not kept:
                why = next((lost[name] for name in names[which]), "it has no photos here")
                raise EvalError(f"the {which} set has nothing to compare: {why}")
        found: dict[str, tuple[str, float]] = {}
        at = 0
        for block in StoredVectors(journal, extractor.fingerprint, first):
            best, nearest = np.full(len(block), -1.0), np.zeros(len(block), int)
            start = 0
            for other in StoredVectors(journal, extractor.fingerprint, test):
                alike = _unit(block) @ _unit(other).T
                top = alike.argmax(1)
                value = alike[np.arange(len(block)), top]
                nearest = np.where(value > best, start + top, nearest)
                best = np.maximum(best, value)
                start += len(other)
            for row in np.flatnonzero(best >= least):
                pair = (files[test[nearest[row]]], float(best[row]))
                found[files[first[at + row]]] = pair
            at += len(block)
    return Leaks(len(first), len(test), found, {files[name]: why for name, why in lost.items()})


class GuardedSet(PartOfSet):
    """A set whose items with a leaking photo are marked (:data:`LEAK`)."""

    def __init__(self, items: Dataset, leaks: Leaks) -> None:
        """Mark the items of ``items``."""
        super().__init__(items)
        self.leaks = leaks

    @property
    def fingerprint(self) -> str:
        """That of the set itself: it has the same items."""
        return self.whole.fingerprint

    def __iter__(self) -> Iterator[Item]:
        for item in self.whole:
            like = self.leaks.found.get(item.image or "")
            yield item.model_copy(update={"meta": item.meta | {LEAK: like[0]}}) if like else item


async def guarded(
    items: Dataset,
    guard: LeakageGuard,
    root: Path,
    folder: Path,
    told: Callable[[int], None] = lambda done: None,
) -> GuardedSet:
    """Return ``items``, those marked whose photo is like one of the guard's test set.

    Raises ``DatasetError``, ``MetricError`` and ``EvalError`` for what cannot be compared.
    """
    extractor = extractor_of("leakage", guard.extractor, "projection", {})
    against = open_dataset(guard.against, root)
    return GuardedSet(
        items, await leaks_between(items, against, extractor, folder, guard.least, told)
    )


def _names(items: Dataset) -> dict[str, str]:
    """Return name among vectors → file of every photo that is here."""
    files = (item.image for item in items if item.image and Path(item.image).is_file())
    return {original_name(file): file for file in files}


def _unit(vectors: Features) -> Features:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)
