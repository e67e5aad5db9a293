"""What the miniature's encoders lack to be measured with: classes, and a space with its texts.

Both are fitted in closed form on painted scenes with fixed seeds, in seconds, and kept in
:func:`~scenewright.config.settings.user_cache`; no weights of them are shipped.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image

from scenewright.agents.composers.rules import describe
from scenewright.config.settings import user_cache
from scenewright.evals.metrics.closed_forms import ClassHead, PairMaps, Real
from scenewright.evals.store.journal import Features
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import KINDS, SETTINGS

CLASSES = tuple(sorted(KINDS))
"""The classes of the head, in the order of its logits."""
SINGLE = 600
"""Paintings of one thing that the head is fitted on."""
PAIRS = 1000
"""Paintings whose texts the common space is fitted on."""
COMMON = 64
"""Dimensions of the common space."""
SHRINKAGE = 0.01
FITTING = "metrics/fit"
"""Begins the seeds of these paintings; training seeds begin with a number."""
VERSION = 1
"""Raised when the same weights and numbers would give other maps."""

Fit = TypeVar("Fit", ClassHead, PairMaps)
See = Callable[[Sequence[Image.Image]], Features]
Read = Callable[[Sequence[str]], Features]


def recipe() -> str:
    """What decides a fit besides the encoder: changes with every number of this module."""
    return f"{VERSION}/{SINGLE}/{PAIRS}/{COMMON}/{SHRINKAGE}"


def single_painting(at: int, seeds: str = FITTING, style: str = "flat") -> Painting:
    """A painting of one thing; deterministic.

    ``seeds`` begins the seed, so that others are held out. The miniature's encoders learned from
    flat paintings alone.
    """
    return sample_painting(random.Random(f"{seeds}/single/{at}"), n_objects=1, style=style)


def class_of(painting: Painting) -> int:
    """Number in :data:`CLASSES` of the first thing of a painting."""
    return CLASSES.index(painting.scene.objects[0].name)


def paired_painting(at: int, seeds: str = FITTING, style: str = "flat") -> Painting:
    """A painting of one to eight things with some of its relations; deterministic."""
    return sample_painting(random.Random(f"{seeds}/pair/{at}"), style=style)


def texts_of(painting: Painting) -> tuple[str, ...]:
    """What may be said of a painting: its composed description, its relations as phrases (if it
    has any), and its things with their colours."""
    scene, truth = painting.scene, painting.truth
    composed = describe(scene, truth.cells, SETTINGS[truth.setting])
    things = ", ".join(f"{o.attributes['color']} {o.name}" for o in scene.objects)
    phrases = ", ".join(
        f"{scene.object(r.source).name} {r.predicate} {scene.object(r.target).name}"
        for r in scene.relations
    )
    return tuple(filter(None, (" ".join(piece.text for piece in composed), phrases, things)))


def class_head(key: str, see: See) -> ClassHead:
    """The head onto the world's kinds for the encoder ``see``, whose fingerprint is ``key``."""

    def fit() -> ClassHead:
        paintings = [single_painting(at) for at in range(SINGLE)]
        rows = see([painting.image for painting in paintings]).astype(np.float64)
        classes = np.array([class_of(painting) for painting in paintings])
        return ClassHead.fit(rows, classes, len(CLASSES), SHRINKAGE)

    return _kept(ClassHead, _name("classes", key), fit)


def pair_maps(key: str, see: See, read: Read) -> PairMaps:
    """The common space of pictures and texts for two encoders whose fingerprint is ``key``."""

    def fit() -> PairMaps:
        paintings = [paired_painting(at) for at in range(PAIRS)]
        seen = see([painting.image for painting in paintings]).astype(np.float64)
        texts = [(at, text) for at, p in enumerate(paintings) for text in texts_of(p)]
        words = read([text for _, text in texts]).astype(np.float64)
        return PairMaps.fit(seen[[at for at, _ in texts]], words, COMMON, SHRINKAGE)

    return _kept(PairMaps, _name("pairs", key), fit)


def _name(what: str, key: str) -> str:
    return f"{what}-{hashlib.sha256(f'{key} {recipe()}'.encode()).hexdigest()[:32]}"


def _kept(kind: type[Fit], name: str, fit: Callable[[], Fit]) -> Fit:
    """The fit of that name from the folder, or made anew where it is not there or damaged."""
    from safetensors.numpy import load_file

    file = user_cache("metrics") / f"{name}.safetensors"
    names = [field.name for field in fields(kind)]
    with contextlib.suppress(Exception):
        # Whatever is wrong with a file that can be made again: it is made again.
        kept: Mapping[str, Real] = load_file(file)
        if set(kept) == set(names) and all(np.isfinite(kept[n]).all() for n in names):
            return kind(*(kept[n] for n in names))
    found = fit()
    with contextlib.suppress(OSError):
        # Without a place to keep it, the next process fits it again.
        _write(file, {n: np.ascontiguousarray(getattr(found, n)) for n in names})
    return found


def _write(file: Path, tensors: dict[str, Real]) -> None:
    from safetensors.numpy import save

    file.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(save(tensors))
        os.replace(name, file)
    except BaseException:
        os.unlink(name)
        raise
