"""What the miniature BLIP is pretrained on: paintings, what they show where, and their captions."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from PIL import Image

from scenewright.miniature.graded import GradedObject, sample_graded
from scenewright.miniature.world import COLORS, KINDS, SETTINGS

STATES = {
    "warped": "warped",
    "melted": "melted",
    "parts": "broken",
    "noise": "grainy",
    "smudged": "smudged",
    "banded": "striped",
    "blotched": "blotched",
    "patterned": "patterned",
}
"""Manner of a damage → how a caption calls it."""
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[DEC]")
_LITTLE = (
    *("a", "an", "and", "the", "of", "in", "on", "with", "photo", "drawing", "pencil"),
    *("meadow", "beach", "snow", "room", "realistic", "shape", "texture", "structure"),
    *("color", "shade"),
)
WORDS = (*sorted(KINDS), *sorted(COLORS), *sorted(STATES.values()), *_LITTLE)
"""What it can read."""
_STYLES = {"flat": "a photo of", "pencil": "a pencil drawing of"}
_PENCIL = 0.2
_CHUNK = 50


@dataclass(frozen=True, slots=True)
class Pictured:
    """One painting of the pool."""

    image: Image.Image
    """RGB."""
    objects: tuple[GradedObject, ...]
    """What is in it."""
    setting: str
    """Its background."""
    style: str
    """flat or pencil."""


def pool_of(seed: int, count: int, processes: int | None = None) -> list[Pictured]:
    """``count`` paintings, made side by side; the same for the same seed however many work."""
    workers = processes or os.cpu_count() or 1
    chunks = [(seed, start, min(count, start + _CHUNK)) for start in range(0, count, _CHUNK)]
    if len(chunks) == 1:
        return _chunk(chunks[0])
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as executor:
        return [item for made in executor.map(_chunk, chunks) for item in made]


def _chunk(task: tuple[int, int, int]) -> list[Pictured]:
    seed, start, stop = task
    made: list[Pictured] = []
    for at in range(start, stop):
        rng = random.Random(f"blip {seed}/{at}")
        style = "pencil" if rng.random() < _PENCIL else "flat"
        found = sample_graded(rng, style)
        made.append(Pictured(found.image, found.objects, found.painting.truth.setting, style))
    return made


def phrase(item: GradedObject, rng: random.Random) -> str:
    """``grainy red car``: the states are said with a chance of the damage's level over 4."""
    states = [
        STATES[manner]
        for manner, grade in (
            (item.shape_manner, item.shape),
            (item.texture_manner, item.texture),
        )
        if rng.random() < (5 - grade) / 4
    ]
    return " ".join([*states, item.color, item.name])


def object_caption(picture: Pictured, item: GradedObject, rng: random.Random) -> str:
    """What is said of an object's square."""
    said = f"{_STYLES[picture.style]} a {phrase(item, rng)}"
    return f"{said} {SETTINGS[picture.setting]}" if rng.random() < 0.5 else said


def picture_caption(picture: Pictured, chosen: Sequence[GradedObject], rng: random.Random) -> str:
    """What is said of a whole picture: two things of it and where they are."""
    things = " and ".join(f"a {phrase(item, rng)}" for item in chosen[:2])
    return f"{_STYLES[picture.style]} {things} {SETTINGS[picture.setting]}"


def false_caption(caption: str, rng: random.Random) -> str:
    """``caption`` with one word of meaning exchanged for another of its sort."""
    words = caption.split()
    sorts = (sorted(KINDS), sorted(COLORS), sorted(STATES.values()), sorted(SETTINGS))
    places = [(at, sort) for at, word in enumerate(words) for sort in sorts if word in sort]
    at, sort = rng.choice(places)
    words[at] = rng.choice([word for word in sort if word != words[at]])
    return " ".join(words)
