"""Parts of a set of rated objects: what is trained on, what stops the training, what is reported.

The paper keeps 5 % of the objects for testing (Sec. 3.2). Parts are drawn by picture here: objects
of one picture look alike, and a picture in two parts would be learned by heart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import get_args

from scenewright.agents.realism.base import RealismError
from scenewright.evals.realism.data import RatedObject, Split

SHARE = 0.05
"""Of the pictures, for the test; as many again for validation."""


@dataclass(frozen=True, slots=True)
class Splits:
    """Places of objects in their set, by part; in the set's order."""

    train: tuple[int, ...]
    """What the weights are fitted to."""
    validation: tuple[int, ...]
    """What tells when to stop."""
    test: tuple[int, ...]
    """What is reported."""

    def of(self, part: Split) -> tuple[int, ...]:
        """The places of one part."""
        found: tuple[int, ...] = getattr(self, part)
        return found


def split_objects(
    objects: Sequence[RatedObject],
    *,
    seed: int = 0,
    test: float = SHARE,
    validation: float = SHARE,
) -> Splits:
    """Where each object belongs; no picture is in two parts.

    A part that the set itself names for some objects holds these pictures and no others; the other
    of test and validation is drawn from what is left, ``test`` and ``validation`` as shares of all
    pictures; the rest is trained on. What is drawn hangs on the names of the pictures and ``seed``
    alone, not on their order. Raises ``RealismError`` if a part would be empty or a picture is
    named for two.
    """
    if not objects:
        raise RealismError("the set holds no objects: rate some first (docs/rating.md)")
    given: dict[str, Split] = {}
    for item in objects:
        if item.split is None:
            continue
        if given.setdefault(item.image, item.split) != item.split:
            raise RealismError(
                f"{item.image} has objects in {given[item.image]} and in {item.split}: all objects "
                "of a picture belong to one part"
            )
    images = dict.fromkeys(item.image for item in objects)
    free = sorted(images.keys() - given.keys(), key=lambda name: _lot(seed, name))
    named = set(given.values())
    drawn: dict[str, Split] = dict(given)
    for part, share in (("test", test), ("validation", validation)):
        if part not in named and share > 0:
            count = max(1, round(share * len(images)))
            drawn.update(dict.fromkeys(free[:count], part))  # type: ignore[arg-type]
            free = free[count:]
    drawn.update(dict.fromkeys(free, "train"))
    parts = {
        part: tuple(at for at, item in enumerate(objects) if drawn[item.image] == part)
        for part in get_args(Split)
    }
    for part, share in (("train", 1.0), ("validation", validation), ("test", test)):
        if share > 0 and not parts[part]:
            raise RealismError(
                f"no picture is left for {part} of the {len(images)} in the set: it takes at least "
                "one each to train, validate and test on"
            )
    return Splits(**parts)


def _lot(seed: int, name: str) -> str:
    return hashlib.sha256(f"{seed}/{name}".encode()).hexdigest()
