"""Species of the miniature: classes that differ in the colours of their parts, and pictures.

A species is a person who wears a hat and holds a ball, with a dog beside; all species have these
four parts, and any two differ in two colours or more. A picture is *exact* (all colours right), or
a candidate as a generator might draw it: parts in a wrong colour or left out, things of a broken
shape or a spoilt surface, drawn in pencil where a photo was wanted. Everything wrong with a
candidate is known.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from PIL import Image

from scenewright.core.layout import PlacementError
from scenewright.core.scene import Attributes, Relation, SceneGraph, SceneObject
from scenewright.evals.studies.real.augmentation import Example
from scenewright.miniature.damage import DamageRequest, damage
from scenewright.miniature.painter import PaintError, paint
from scenewright.miniature.truth import Painting
from scenewright.miniature.world import COLORS

PARTS = ("person", "hat", "ball", "dog")
"""Kinds of the parts; the first is always there."""
PHOTO, ILLUSTRATION = "flat", "pencil"
"""Styles of the painter that stand for the paper's photo and illustration."""
WORST = 3
"""Most parts of a candidate that are wrong; each number from 0 is as frequent."""
_APART = 2
_P_ILLUSTRATION = 0.4
_P_DAMAGED = 0.4
_P_LEFT_OUT = 0.35
_CONTACTS = {"hat": "wearing", "ball": "holding"}


@dataclass(frozen=True, slots=True)
class Species:
    """A class."""

    name: str
    """``species 3``."""
    colors: Mapping[str, str]
    """Part → its colour."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A picture of the pool, with what is wrong with it."""

    name: str
    """Unique within the pool."""
    label: str
    """The species that was asked for."""
    image: Image.Image
    """RGB."""
    present: int
    """Parts that are there."""
    right: int
    """Parts that are there in their colour."""
    style: str
    """The painter's."""
    damage: int
    """Level of the worst damage, 0 to 4."""

    @property
    def share(self) -> float:
        """Share of all parts that are there in their colour."""
        return self.right / len(PARTS)

    @property
    def s_att(self) -> float:
        """S_att = R / C of judges that are never wrong."""
        return self.right / self.present


def species_of(n: int, seed: str) -> list[Species]:
    """``n`` species; others for another ``seed``. ``ValueError`` if there are not so many."""
    codes = list(itertools.product(sorted(COLORS), repeat=len(PARTS)))
    random.Random(f"species {seed}").shuffle(codes)
    found: list[tuple[str, ...]] = []
    for code in codes:
        if len(found) < n and all(_difference(code, other) >= _APART for other in found):
            found.append(code)
    if len(found) == n:
        return [
            Species(f"species {at:02d}", dict(zip(PARTS, code, strict=True)))
            for at, code in enumerate(found, start=1)
        ]
    raise ValueError(f"found no {n} species that differ in {_APART} colours: ask for fewer")


def _difference(code: Sequence[str], other: Sequence[str]) -> int:
    return sum(a != b for a, b in zip(code, other, strict=True))


def scene_of(colors: Mapping[str, str]) -> SceneGraph:
    """The parts that ``colors`` names, the person first."""
    return SceneGraph(
        objects=tuple(
            SceneObject(id=f"{part}.1", name=part, attributes=Attributes({"color": color}))
            for part, color in colors.items()
        ),
        relations=tuple(
            Relation(source="person.1", predicate=predicate, target=f"{part}.1")
            for part, predicate in _CONTACTS.items()
            if part in colors
        ),
    )


def painted(scene: SceneGraph, rng: random.Random, style: str = PHOTO) -> Painting:
    """``scene`` in a layout and a setting of chance; ``PaintError`` if none was found."""
    try:
        return paint(scene, rng.getrandbits(31), style=style)
    except PlacementError as error:
        raise PaintError(f"found no layout: {error}") from error


def exact(species: Sequence[Species], per_class: int, seed: str) -> list[Example]:
    """``per_class`` real pictures of each species."""
    found: list[Example] = []
    for one in species:
        rng = random.Random(f"exact {seed} {one.name} {sorted(one.colors.items())}")
        scene = scene_of(one.colors)
        found += [Example(painted(scene, rng).image, one.name) for _ in range(per_class)]
    return found


def candidates(species: Sequence[Species], per_class: int, seed: str) -> list[Candidate]:
    """The pool: ``per_class`` candidates of each species."""
    found: list[Candidate] = []
    for one in species:
        rng = random.Random(f"candidates {seed} {one.name} {sorted(one.colors.items())}")
        for at in range(per_class):
            found.append(_candidate(one, f"{one.name} {at:03d}", at % (WORST + 1), rng))
    return found


def _candidate(species: Species, name: str, wrong: int, rng: random.Random) -> Candidate:
    drawn = dict(species.colors)
    spoilt = rng.sample(PARTS, wrong)
    for part in spoilt:
        if part != PARTS[0] and rng.random() < _P_LEFT_OUT:
            del drawn[part]
        else:
            drawn[part] = rng.choice([c for c in sorted(COLORS) if c != species.colors[part]])
    style = ILLUSTRATION if rng.random() < _P_ILLUSTRATION else PHOTO
    painting, level = damaged(painted(scene_of(drawn), rng, style), rng)
    return Candidate(
        name=name,
        label=species.name,
        image=painting.image,
        present=len(drawn),
        right=len(PARTS) - wrong,
        style=style,
        damage=level,
    )


def damaged(painting: Painting, rng: random.Random) -> tuple[Painting, int]:
    """``painting``, in some cases with damage to its things, and the worst level (0: none)."""
    if rng.random() >= _P_DAMAGED:
        return painting, 0
    things = [item.id for item in painting.scene.objects]
    requests = [
        DamageRequest(thing, rng.choice(("shape", "texture")), rng.randint(1, 4))
        for thing in rng.sample(things, rng.randint(1, len(things)))
    ]
    return damage(painting, requests, rng.getrandbits(31)), max(r.level for r in requests)
