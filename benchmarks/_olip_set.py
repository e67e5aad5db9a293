"""Graded paintings as a set of rated objects: what OLIP and its rivals are measured on."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from benchmarks._progress import progress
from scenewright.evals.human_ratings.objects.data import (
    FILE,
    RatedObject,
    Split,
    read_objects,
    write_objects,
)
from scenewright.miniature.damage import sample_graded

SEED = "benchmark of olip"
SHARES: tuple[tuple[Split, float], ...] = (("train", 0.75), ("validation", 0.08), ("test", 0.17))
"""Of the paintings; the paper tests on 5 % of its objects, which here would be too few for the
intervals of an ablation."""
PENCIL = 0.2
"""Share of the paintings in the pencil style."""


def split_of(number: int, count: int) -> Split:
    """Which part painting ``number`` of ``count`` belongs to."""
    done = 0.0
    for split, share in SHARES:
        done += share
        if number < round(done * count):
            return split
    return SHARES[-1][0]


def paint_set(folder: Path, paintings: int) -> list[RatedObject]:
    """``paintings`` held-out graded paintings below ``folder``; a set that is there is taken.

    Held out: the miniature's own OLIP and its BLIP never saw them.
    """
    if (folder / FILE).is_file():
        found = read_objects(folder)
        if len({item.image for item in found}) == paintings:
            return found
    folder.mkdir(parents=True, exist_ok=True)
    objects: list[RatedObject] = []
    made = 0
    for number in progress("paintings", range(2 * paintings), paintings):
        if made == paintings:
            break
        rng = random.Random(f"{SEED} {number}")
        style = "pencil" if rng.random() < PENCIL else "flat"
        painting = sample_graded(rng, style)
        if not painting.objects:
            continue
        name = f"{made:05d}.png"
        painting.image.save(folder / name)
        objects += [
            RatedObject(
                id=f"{made:05d}/{item.id}",
                image=name,
                category=item.name,
                box=item.box,
                shape=item.shape,
                texture=item.texture,
                source=style,
                split=split_of(made, paintings),
            )
            for item in painting.objects
        ]
        made += 1
    write_objects(folder, objects)
    return objects


def part(objects: Sequence[RatedObject], split: Split) -> list[RatedObject]:
    """The objects of one part."""
    return [item for item in objects if item.split == split]
