"""Rated objects as examples: few of each category, chosen to span the scale.

Examples drawn at random crowd around the average and bias a model towards it (Liang et al., Sec.
4.2); these are spread over the range of both scores.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from scenewright.core.ports.vision import (
    Box,
    Detection,
    RealismError,
)

MOST = 5
"""Most examples of a category (Liang et al., Sec. 4.2)."""


@dataclass(frozen=True, slots=True)
class Example:
    """A rated object that a scorer is shown, or is calibrated on."""

    id: str
    """Unique among the examples."""
    picture: Path
    """File of its picture."""
    category: str
    """Class label."""
    box: Box
    """Left, top, right, bottom in pixels of the picture."""
    shape: float
    """Realism of its shape, 1 to 5."""
    texture: float
    """Realism of its texture, likewise."""

    @property
    def joint(self) -> float:
        """The mean of both."""
        return (self.shape + self.texture) / 2

    @property
    def detection(self) -> Detection:
        """The example as a detection."""
        return Detection(name=self.category, box=self.box)


@dataclass(frozen=True, slots=True)
class Spanning:
    """Examples that were chosen for a category."""

    objects: tuple[Example, ...]
    """In the order in which they were chosen: the least real one, the most real one, then each
    time the one farthest from all before."""
    note: str = ""
    """Note on a shortage, such as too few objects of the category; empty without one."""


def spanning_examples(objects: Sequence[Example], category: str, count: int = MOST) -> Spanning:
    """``count`` of ``objects`` of ``category`` that span the range of shape and texture scores.

    Greedy farthest points on the plane of (shape, texture), from the two ends of its diagonal on;
    ties go to the smaller id, so that the order of ``objects`` does not matter. Where the category
    has fewer objects, others fill up in the same way. Raises ``RealismError`` for no objects or a
    ``count`` below 1.
    """
    if count < 1:
        raise RealismError(f"{count} examples of a category: use 1 or more")
    if not objects:
        raise RealismError("there are no rated objects to take examples from: give a rated set")
    name = category.casefold()
    own = sorted((o for o in objects if o.category.casefold() == name), key=lambda o: o.id)
    chosen = _spread(own, [], count)
    if len(chosen) == count:
        return Spanning(tuple(chosen))
    others = sorted((o for o in objects if o.category.casefold() != name), key=lambda o: o.id)
    filled = _spread(others, chosen, count)
    note = f"{len(chosen)} of {count} examples are of the category {category!r}"
    if len(filled) > len(chosen):
        note += f", {len(filled) - len(chosen)} of others"
    return Spanning(tuple(filled), note)


def _spread(objects: Sequence[Example], before: Sequence[Example], count: int) -> list[Example]:
    chosen, left = list(before), list(objects)
    while left and len(chosen) < count:
        if not chosen:
            found = min(left, key=lambda o: (o.shape + o.texture, o.id))
        elif len(chosen) == 1 and not before:
            found = min(left, key=lambda o: (-(o.shape + o.texture), o.id))
        else:
            # Squared distances to the nearest of those before.
            nearest = {
                o.id: min((o.shape - c.shape) ** 2 + (o.texture - c.texture) ** 2 for c in chosen)
                for o in left
            }
            found = min(left, key=lambda o: (-nearest[o.id], o.id))
        chosen.append(found)
        left.remove(found)
    return chosen


@dataclass(frozen=True)
class Examples:
    """Rated objects, of which each category gets its own few.

    Take them from the part that scorers are trained on: an example among the scored objects gives
    its answer away.
    """

    objects: tuple[Example, ...]
    """All that may be chosen from."""
    count: int = MOST
    """Number of examples of a category."""
    _chosen: dict[str, Spanning] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        """Check that there are some."""
        if not self.objects or self.count < 1:
            raise RealismError(
                f"{self.count} examples a category of {len(self.objects)} rated objects: give at "
                "least one of each"
            )

    def of(self, category: str) -> Spanning:
        """Return the examples for ``category``; see :func:`spanning_examples`."""
        key = category.casefold()
        if key not in self._chosen:
            self._chosen[key] = spanning_examples(self.objects, category, self.count)
        return self._chosen[key]

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes on shortages, of the categories that were asked for so far."""
        return tuple(found.note for found in self._chosen.values() if found.note)

    @property
    def categories(self) -> tuple[str, ...]:
        """The categories that there are examples of, in the order of the alphabet."""
        return tuple(sorted({one.category for one in self.objects}))

    @property
    def chosen(self) -> dict[str, Example]:
        """Return the examples of all categories by id."""
        return {one.id: one for name in self.categories for one in self.of(name).objects}

    @cached_property
    def digest(self) -> str:
        """Return 12 hex digits that change with any example of a known category.

        The bytes of its picture are included. Raises ``RealismError`` for a picture that cannot be
        read.
        """
        chosen = self.chosen
        ratings = sorted((o.id, o.category, o.box, o.shape, o.texture) for o in self.objects)
        try:
            files = {
                path: hashlib.sha256(path.read_bytes()).hexdigest()
                for path in {one.picture for one in chosen.values()}
            }
        except OSError as error:
            raise RealismError(f"the picture of an example cannot be read: {error}") from error
        pictures = sorted((id_, files[one.picture]) for id_, one in chosen.items())
        text = json.dumps([self.count, ratings, pictures])
        return hashlib.sha256(text.encode()).hexdigest()[:12]
