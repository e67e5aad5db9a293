"""Paintings whose objects are damaged by exact grades: the ground truth of object realism.

Every object of a painting gets a shape grade and a texture grade of its own, from 5 (untouched)
down to 1 (damage of level 4), as two people would rate it on the scale of OcR, but exactly.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
from PIL import Image

from scenewright.miniature.damage import DamagedPainting, DamageRequest, damage
from scenewright.miniature.sampler import sample_painting
from scenewright.miniature.world import SIZE

GRADES = (1, 2, 3, 4, 5)
"""Realism of an aspect: 5 whole, 1 spoilt beyond belief."""
_WEIGHTS = (0.3, 0.2, 0.2, 0.15, 0.15)
_LEAST_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class GradedObject:
    """One object as it can be seen, and how real it is."""

    id: str
    """Within the painting's scene."""
    name: str
    """Its kind."""
    color: str
    """Its colour."""
    box: tuple[int, int, int, int]
    """Left, top, right, bottom of what can be seen of it, in pixels; right and bottom outside."""
    shape: int
    """Realism of its shape, 1–5."""
    texture: int
    """Realism of its texture, 1–5."""
    shape_manner: str
    """How its shape is broken, where it is."""
    texture_manner: str
    """How its surface is spoilt, where it is."""


@dataclass(frozen=True, slots=True)
class GradedPainting:
    """A painting and the grades of its objects."""

    painting: DamagedPainting
    """The painting."""
    objects: tuple[GradedObject, ...]
    """Those of which at least 1 % of the picture can be seen, in the scene's order."""

    @property
    def image(self) -> Image.Image:
        """The picture."""
        return self.painting.image


def sample_graded(
    rng: random.Random, style: str = "flat", n_objects: int | None = None
) -> GradedPainting:
    """A random painting with every object graded; the same ``rng`` gives the same painting."""
    whole = sample_painting(rng, n_objects, style=style)
    requests = [
        DamageRequest(item.id, aspect, rng.choices(range(len(_WEIGHTS)), _WEIGHTS)[0])
        for item in whole.scene.objects
        for aspect in ("shape", "texture")
    ]
    return graded(damage(whole, requests, rng.getrandbits(31)))


def graded(painting: DamagedPainting) -> GradedPainting:
    """The grades of a damaged painting; what was not damaged is 5, levels 4 and 5 are both 1."""
    done = {(item.object_id, item.kind): item for item in painting.damages}
    found: list[GradedObject] = []
    for item in painting.scene.objects:
        mask = painting.masks.get(item.id)
        if mask is None or mask.sum() < _LEAST_SHARE * SIZE * SIZE:
            continue
        rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
        shape, texture = done.get((item.id, "shape")), done.get((item.id, "texture"))
        found.append(
            GradedObject(
                id=item.id,
                name=item.name,
                color=item.attributes["color"],
                box=(int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1),
                shape=_grade(shape.level if shape else 0),
                texture=_grade(texture.level if texture else 0),
                shape_manner=shape.manner if shape else "",
                texture_manner=texture.manner if texture else "",
            )
        )
    return GradedPainting(painting, tuple(found))


def _grade(level: int) -> int:
    return max(GRADES[0], GRADES[-1] - level)
