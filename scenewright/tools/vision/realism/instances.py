"""Which detected object is the one that a scene speaks of: by class, then by likeness, then by
size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.optimize import linear_sum_assignment

from scenewright.core.ports.detector import Detection
from scenewright.tools.vision.detection.labels import folded
from scenewright.tools.vision.realism.objects import LEAST_SHARE, box_area, scored_objects

Likenesses = NDArray[np.float32]
"""(phrases, objects): how well each phrase says what an object looks like; more is better."""


@runtime_checkable
class InstanceReader(Protocol):
    """Tells objects of one class apart by words: scorers that see pictures and texts can."""

    async def likeness(
        self, image: Image.Image, objects: Sequence[Detection], phrases: Sequence[str]
    ) -> Likenesses:
        """How well each of ``phrases`` fits each of ``objects``, whose boxes are in pixels of
        ``image``: (phrases, objects)."""
        ...


def candidates(
    found: Sequence[Detection], label: str, count: int, size: tuple[int, int]
) -> list[Detection]:
    """The objects of class ``label`` among which ``count`` are looked for, largest first.

    They are those that realism is asked of at all
    (:func:`~scenewright.tools.vision.realism.objects. scored_objects`: no regions without
    instances, a confidence of 0.5 or more, 1 % or more of the picture of ``size`` (width, height)).
    What is smaller is a candidate only where there are fewer of these than asked for, largest
    first: a scene may ask for a small thing, whose realism then counts, but a fleck must not take
    the place of the thing itself.
    """
    alike = [one for one in found if folded(one.name) == folded(label)]
    every = scored_objects(alike, size, least_share=0.0)
    large = sum(box_area(one) >= LEAST_SHARE * size[0] * size[1] for one in every)
    return every[: max(large, count)]


def assigned(
    phrases: Sequence[str], objects: Sequence[Detection], likeness: Likenesses | None = None
) -> list[int | None]:
    """For each phrase the index of its object, no object twice; None where there are too few.

    ``likeness`` (phrases, objects) is made as large as it can be in all (Kuhn, 1955); without it,
    and among equal phrases, the first phrase gets the largest object, as its question says.
    """
    if likeness is None:
        likeness = np.zeros((len(phrases), len(objects)), np.float32)
    if likeness.shape != (len(phrases), len(objects)) or not np.isfinite(likeness).all():
        raise ValueError(
            f"likenesses of shape {likeness.shape} for {len(phrases)} phrases and {len(objects)} "
            "objects: give one finite number a phrase and object"
        )
    by_size = sorted(range(len(objects)), key=lambda at: box_area(objects[at]), reverse=True)
    if not likeness.any():
        chosen = dict(zip(range(len(phrases)), by_size, strict=False))
    else:
        rows, columns = linear_sum_assignment(likeness, maximize=True)
        chosen = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    for phrase in dict.fromkeys(phrases):
        same = [at for at, other in enumerate(phrases) if other == phrase]
        theirs = {chosen[at] for at in same if at in chosen}
        ordered = [at for at in by_size if at in theirs]
        for position, at in enumerate(same):
            chosen.pop(at, None)
            if position < len(ordered):
                chosen[at] = ordered[position]
    return [chosen.get(at) for at in range(len(phrases))]
