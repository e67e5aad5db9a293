"""Painted photos with the exact boxes of what they hold, and their truth."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from scenewright.core.formats.base import numbered
from scenewright.core.ports.vision import Detection
from scenewright.evals.datasets.base import Item
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting, Truth

SIZES = (3, 3, 4, 4, 5, 6)
"""Objects of a painting, in turn."""
_SEEDS = "held-out/annotate"
"""Begins the seeds of these paintings; training seeds begin with a number."""


def painting_of(at: int) -> Painting:
    """Painting number ``at``: the same each time."""
    return sample_painting(random.Random(f"{_SEEDS}/{at}"), n_objects=SIZES[at % len(SIZES)])


@lru_cache(maxsize=4096)
def truth_of(at: int) -> Truth:
    """What painting number ``at`` holds."""
    return painting_of(at).truth


class PaintedPhotos:
    """Implements :class:`~scenewright.evals.datasets.base.Dataset`: ``count`` paintings as PNG
    files below a folder, detections in the painted scene's order."""

    def __init__(self, folder: Path, count: int) -> None:
        """Paints what is not there yet."""
        self.folder = folder
        self.count = count
        folder.mkdir(parents=True, exist_ok=True)
        for at in range(count):
            if not self._file(at).exists():
                painting_of(at).image.save(self._file(at))

    def _file(self, at: int) -> Path:
        return self.folder / f"{at:06d}.png"

    @property
    def name(self) -> str:
        """``painted``."""
        return "painted"

    @property
    def source(self) -> str:
        """The miniature world."""
        return "painted scenes of the miniature world"

    @property
    def licence(self) -> str:
        """As the package."""
        return ""

    @property
    def fingerprint(self) -> str:
        """Seeds and count."""
        return json.dumps([_SEEDS, SIZES, self.count])

    @property
    def left_out(self) -> Mapping[str, int]:
        """Nothing is."""
        return {}

    def __iter__(self) -> Iterator[Item]:
        for at in range(self.count):
            truth = truth_of(at)
            found = []
            for item in truth.scene.objects:
                box = truth.boxes[item.id]
                left, top = float(box.left), float(box.top)
                found.append(Detection(item.name, (left, top, left + box.width, top + box.height)))
            yield Item(id=f"{at:06d}", image=str(self._file(at)), detections=tuple(found))


def names_of(truth: Truth) -> dict[str, str]:
    """Id of a detection, as the set numbers them → id in the painting."""
    ids = numbered(item.name for item in truth.scene.objects)
    return dict(zip(ids, (item.id for item in truth.scene.objects), strict=True))


def related_pairs(truth: Truth) -> set[frozenset[str]]:
    """Pairs between which any relation of the world holds, from either end."""
    ids = [item.id for item in truth.scene.objects]
    return {
        frozenset((a, b))
        for a, b in itertools.combinations(ids, 2)
        if truth.relations_between(a, b) or truth.relations_between(b, a)
    }
