"""Scenes of the painted world, sampled by complexity: none was used in training, all can be drawn.

Every scene was painted once, so its relations are consistent, and they fit on the planner's 3×3
grid. The miniature's composers can say all of it within their text encoder, but for the level
``very_hard``, of which a prompt may be cut off. Seeds begin with "held-out", those of training
never do.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scenewright.agents.composers.rules import TripletComposer
from scenewright.agents.parsers.classes import diversity
from scenewright.config.profiles import BUILT_IN
from scenewright.core.layout import fits_grid
from scenewright.core.ports.composer import Composer
from scenewright.core.ports.vision import Detection
from scenewright.core.scene import Attributes, SceneGraph
from scenewright.evals.datasets.base import DatasetError, Item, StreamedSet
from scenewright.evals.datasets.reading import whole, written_once
from scenewright.miniature.sampler import (
    GROUNDS,
    Ground,
    sample_contrast,
    sample_crowd,
    sample_painting,
)
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import MAX_TOKENS, new_tokenizer
from scenewright.runs.model_factory.profiles import composer_of

if TYPE_CHECKING:
    from transformers import CLIPTokenizer

VERSION = 1
NAME = "miniature"
LEVELS: dict[str, tuple[int, ...]] = {
    "simple": (1, 2, 3),
    "medium": (4, 5, 6, 7),
    "hard": (8, 9, 10, 11, 12),
}
"""Level → complexities (relations, γ = 0) that its scenes have, each as often."""
MOST_COMPLEX = 12
"""Most relations of a scene: with more the prompt outgrows the text encoder."""
MOST_OF_A_KIND = 2
"""Judges of the miniature were not trained to count further."""
_P_CONTACT = 0.35
_TRIES = 4000


def load(
    path: Path | None = None,
    *,
    n: int = 60,
    seed: int = 0,
    levels: Sequence[str] = tuple(LEVELS),
    complexity: Sequence[int] | str | None = None,
    attributes: bool = True,
    out: str | None = None,
) -> StreamedSet:
    """Return ``n`` scenes; the first ones are the same whatever ``n`` is.

    ``levels`` are taken in turn (naming one twice gives it twice as often), and within a level its
    complexities; those of :data:`~scenewright.miniature.sampler.GROUNDS` need ``attributes``.
    ``complexity`` (numbers from 1 to 12, or text such as ``1-10``) is taken in turn in place of
    levels. Without ``attributes`` objects have no colour, and no two are of a kind.
    With ``out`` the painting of each scene is written into this folder, once, and is the item's
    photo, with the boxes of its things as detections.

    Raises ``DatasetError`` for an option of another kind, and on iteration if ``out`` cannot be
    written.
    """
    whole("n", n, 1)
    whole("seed", seed, 0)
    if path is not None:
        raise DatasetError(f"{NAME} reads no file: leave the path {path} out")
    sizes = _turns(levels) if complexity is None else _numbers(complexity)
    if not attributes and (bare := [one for one in GROUNDS if one in sizes]):
        raise DatasetError(
            f"option levels has {bare[0]!r}, whose things are told apart by their colours: leave "
            "attributes = false out, or the level"
        )
    folder = None if out is None else Path(out).expanduser()
    return StreamedSet(
        partial(_entries, n, seed, sizes, bool(attributes), folder),
        name=NAME,
        version=VERSION,
        options={
            **{"n": n, "seed": seed, "complexity": sizes, "attributes": bool(attributes)},
            "pictures": folder is not None,
        },
        unique=True,
    )


def _turns(levels: Sequence[str]) -> tuple[int | Ground, ...]:
    """Return the complexities of ``levels`` in turn, until each level has gone through its own.

    A level of ``GROUNDS`` stands for itself.
    """
    named = [levels] if isinstance(levels, str) else list(levels)
    every = ", ".join((*LEVELS, *GROUNDS))
    for level in named:
        if level not in LEVELS and level not in GROUNDS:
            raise DatasetError(f"option levels has {level!r}: use {every}")
    if not named:
        raise DatasetError(f"option levels is empty: use one of {every}")
    turns: dict[str, tuple[int | Ground, ...]] = {**LEVELS, **{one: (one,) for one in GROUNDS}}
    given = {level: itertools.cycle(turns[level]) for level in named}
    # 60 is a multiple of 3, 4 and 5: then the pattern begins anew.
    return tuple(next(given[level]) for _ in range(60) for level in named)


def _numbers(complexity: Sequence[int] | str) -> tuple[int, ...]:
    remedy = f"use numbers from 1 to {MOST_COMPLEX}, or text such as 1-10"
    numbers: list[Any]
    if isinstance(complexity, str):
        first, dash, last = complexity.partition("-")
        if not (first.isdecimal() and (last.isdecimal() if dash else not last)):
            raise DatasetError(f"option complexity is {complexity!r}: {remedy}")
        numbers = list(range(int(first), int(last if dash else first) + 1))
    elif isinstance(complexity, int):
        numbers = [complexity]
    else:
        numbers = list(complexity)
    for number in numbers:
        if not isinstance(number, int) or not 1 <= number <= MOST_COMPLEX:
            raise DatasetError(f"option complexity has {number!r}: {remedy}")
    if not numbers:
        raise DatasetError(f"option complexity is empty: {remedy}")
    return tuple(numbers)


def _entries(
    n: int,
    seed: int,
    sizes: tuple[int | Ground, ...],
    attributes: bool,
    folder: Path | None,
    left_out: Counter[str],
) -> Iterator[Item]:
    for at in range(n):
        size = sizes[at % len(sizes)]
        name = f"s{seed}-{at:05d}"
        if isinstance(size, int):
            painting = painting_of(size, f"{seed}/{at}", attributes)
            yield _item(name, painting, attributes, folder)
        else:
            # Twins of the level "adversarial" follow each other.
            turn = at // len(sizes) * sizes.count(size) + sizes[: at % len(sizes)].count(size)
            painting = painting_of_ground(size, f"set/{seed}", turn)
            yield _item(name, painting, attributes, folder, level=size)


def _item(
    name: str, painting: Painting, attributes: bool, folder: Path | None, **meta: str
) -> Item:
    scene = painting.scene if attributes else without_attributes(painting.scene)
    group, category = diversity(scene)
    said: dict[str, Any] = {}
    if folder is not None:
        write = partial(painting.image.save, format="PNG")
        said["image"] = str(written_once(folder / f"{name}.png", write))
        boxes = ((item.name, painting.truth.boxes[item.id]) for item in scene.objects)
        said["detections"] = tuple(
            Detection(kind, (b.left, b.top, b.left + b.width, b.top + b.height))
            for kind, b in boxes
        )
    meta |= {"setting": painting.truth.setting}
    return Item(
        id=name,
        scene=scene,
        predicates=NAME,
        group=group,
        category=category,
        meta=meta,
        **said,
    )


def painting_of(complexity: int, key: str, attributes: bool = True) -> Painting:
    """Return the held-out painting ``key`` whose scene has ``complexity`` relations (1 to 12).

    At most two things are of a kind and these differ in colour, for of two that look alike nobody
    can say which one stands left; without ``attributes`` all are of different kinds.
    """
    for attempt in range(_TRIES):
        rng = random.Random(f"held-out/set/{complexity}/{key}/{attempt}")
        painting = sample_painting(
            rng,
            _objects(complexity, rng),
            complexity,
            contacts_first=complexity >= MOST_COMPLEX - 2,
            p_contact=_P_CONTACT,
        )
        scene = painting.scene
        if len(scene.relations) != complexity or not is_clear(scene, attributes):
            continue
        if can_be_said(scene if attributes else without_attributes(scene)):
            return painting
    raise DatasetError(f"no scene of complexity {complexity} was found in {_TRIES} tries")


def painting_of_ground(ground: Ground, key: str, at: int) -> Painting:
    """Return held-out painting ``at`` of ``ground`` in the series ``key``.

    Paintings 2k and 2k + 1 of ``adversarial`` are twins (see
    :func:`~scenewright.miniature.sampler.sample_contrast`) whose scenes can be said whole.
    """
    if ground == "very_hard":
        return sample_crowd(random.Random(f"held-out/{key}/{ground}/{at}"))
    for attempt in range(_TRIES):
        twins = sample_contrast(random.Random(f"held-out/{key}/{ground}/{at // 2}/{attempt}"))
        if all(can_be_said(twin.scene) for twin in twins):
            return twins[at % 2]
    raise DatasetError(f"no scene that can be said was found in {_TRIES} tries")


def _objects(complexity: int, rng: random.Random) -> int:
    """Return a number of objects that makes that many relations likely."""
    least = next(n for n in itertools.count(2) if n * (n - 1) // 2 >= complexity)
    return min(8, least + rng.randint(0, 1 if complexity < 8 else 2))


def is_clear(scene: SceneGraph, attributes: bool = True) -> bool:
    """Return whether all objects are distinguishable and the relations fit on the grid."""
    kinds = Counter(item.name for item in scene.objects)
    looks = Counter((item.name, item.attributes.get("color")) for item in scene.objects)
    if max(kinds.values()) > (MOST_OF_A_KIND if attributes else 1) or max(looks.values()) > 1:
        return False
    return fits_grid(scene)


def without_attributes(scene: SceneGraph) -> SceneGraph:
    """Return ``scene`` whose objects have no attributes."""
    bare = (item.model_copy(update={"attributes": Attributes()}) for item in scene.objects)
    return SceneGraph(objects=tuple(bare), relations=scene.relations)


def can_be_said(scene: SceneGraph) -> bool:
    """Return whether the miniature's prompts of ``scene`` fit into its text encoder.

    The prompts are the triplets and the composed one.
    """
    composers: tuple[Composer, ...] = (TripletComposer(), composer_of(BUILT_IN["miniature"]))
    return all(
        len(_tokenizer()(_prompt(composer, scene))["input_ids"]) <= MAX_TOKENS
        for composer in composers
    )


def _prompt(composer: Composer, scene: SceneGraph) -> str:
    # These composers wait for nothing, and a set may be read where an event loop runs already:
    # one step finishes them.
    coroutine = composer.compose(scene, 0)
    try:
        coroutine.send(None)
    except StopIteration as done:
        return str(done.value)
    coroutine.close()
    raise RuntimeError(f"the composer {composer.id} waits for something")


@cache
def _tokenizer() -> CLIPTokenizer:
    return new_tokenizer()
