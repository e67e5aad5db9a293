"""Lessons of the IP-Adapter: a prompt, and references that show what a picture lacks.

They are made as the loop makes them: I0, the best picture so far, lacks something or has
it wrong, and I1 shows that alone and right.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from transformers import CLIPTokenizer

from scenewright.agents.composers.rules import describe
from scenewright.core.layout import PlacementError, place_objects
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.miniature.painter import Painting, Truth, render
from scenewright.miniature.training.adapter import GRID
from scenewright.miniature.training.generator import SIDE, cells_of
from scenewright.miniature.training.text import Caption, pad
from scenewright.miniature.world import COLORS, KINDS, SETTINGS

_P_OMIT = 0.65
_P_EMPTY = 0.1
_P_ONE = 0.25
_P_MISTAKEN = 0.4
_P_IN_PLACE = 0.75
_WEIGHTS = (0.3, 0.8)


@dataclass(frozen=True, slots=True)
class Shown:
    """A reference in a lesson; without a painting, the blank picture of guidance."""

    painting: Painting | None
    weight: float
    """Its λ of Eq. 5."""
    ids: frozenset[str] = frozenset()
    """Objects of the wanted picture that it shows as they are to be."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """What the denoiser is told of the picture it is to draw."""

    words: Caption
    """The prompt."""
    shown: tuple[Shown, Shown]
    """I0 and I1, or one reference and the blank."""
    lost: frozenset[str]
    """Objects that are wrong or missing in I0."""


def _part(truth: Truth, ids: frozenset[str], rng: random.Random, in_place: bool) -> Painting:
    """Return a picture of some of a painting's objects, in their places or in others."""
    scene = SceneGraph(objects=tuple(o for o in truth.scene.objects if o.id in ids))
    contacts = frozenset(c for c in truth.contacts if c[0] in ids and c[2] in ids)
    cells = {key: cell for key, cell in truth.cells.items() if key in ids}
    if not in_place:
        contacts = frozenset()
        with suppress(PlacementError):
            cells = place_objects(scene, rng.getrandbits(30))
    return render(scene, cells, contacts, truth.setting, rng)


def _mistaken(truth: Truth, ids: frozenset[str], rng: random.Random) -> Painting:
    """Return the painting with those objects in another colour or kind.

    The kind changes only for things that stand free.
    """
    touching = {end for s, _, t in truth.contacts for end in (s, t)}

    def mistake(item: SceneObject) -> SceneObject:
        if item.id not in ids:
            return item
        changes: dict[str, Any] = {"attributes": Attributes({"color": rng.choice(sorted(COLORS))})}
        if item.id not in touching and rng.random() < 0.6:
            changes["name"] = rng.choice(sorted(KINDS))
        return item.model_copy(update=changes)

    scene = SceneGraph(objects=tuple(mistake(item) for item in truth.scene.objects))
    return render(scene, truth.cells, truth.contacts, truth.setting, rng)


def make_lesson(truth: Truth, rng: random.Random, tokenizer: CLIPTokenizer) -> Lesson:
    """Return a prompt and two references, as the loop gives them.

    I0 lacks something or has it wrong, I1 shows it right.
    """
    ids = [item.id for item in truth.scene.objects]
    lost = frozenset(rng.sample(ids, rng.randint(1, max(1, min(2, len(ids) - 1)))))
    kept = frozenset(ids) - lost
    first, second = (rng.uniform(*_WEIGHTS) for _ in range(2))
    draw = rng.random()
    if draw < _P_EMPTY:
        return Lesson(
            pad([], tokenizer, False), (Shown(None, first), Shown(None, second)), frozenset()
        )
    said = truth.scene
    if rng.random() < _P_OMIT and kept:
        said = said.subgraph(kept)
    words = pad(describe(said, truth.cells, SETTINGS[truth.setting]), tokenizer, True)
    right = Shown(_part(truth, lost, rng, rng.random() < _P_IN_PLACE), second, lost)
    if not kept or rng.random() < _P_ONE:
        return Lesson(words, (right, Shown(None, 0.0)), lost)
    if rng.random() < _P_MISTAKEN:
        lacks = _mistaken(truth, lost, rng)
    else:
        lacks = _part(truth, kept, rng, True)
    return Lesson(words, (Shown(lacks, first, kept), right), lost)


def look_maps(wanted: Truth, shown: Shown, side: int) -> torch.Tensor:
    """(side², 65): 1 where a cell of an object meets a token of the reference that shows it."""
    maps = torch.zeros(side * side, 1 + GRID * GRID)
    if shown.painting is not None:
        boxes = shown.painting.truth.boxes
        for object_id in shown.ids & boxes.keys():
            there = cells_of(wanted.boxes[object_id], side).float()
            maps[:, 1:] += there[:, None] * cells_of(boxes[object_id], GRID).float()
    return maps.clamp(max=1.0)


def lesson_emphasis(wanted: Truth, lost: frozenset[str]) -> torch.Tensor:
    """Weights (16, 16), 1 on average: the cells of lost objects count most."""
    weights = torch.ones(SIDE * SIDE)
    for object_id, box in wanted.boxes.items():
        weights[cells_of(box)] = 8.0 if object_id in lost else 2.0
    return weights.view(SIDE, SIDE) / weights.mean()
