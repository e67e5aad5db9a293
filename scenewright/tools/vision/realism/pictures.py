"""Realism of a picture by its objects: detected, filtered, scored, averaged.

Which objects of a picture are scored, what their scores say of the whole picture, and which of
them a scene speaks of: by class, then by likeness, then by size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy.optimize import linear_sum_assignment

from scenewright.core.images import nothing_drawn
from scenewright.core.ports.vision import (
    Detection,
    Detector,
    ObjectRealism,
    RealismError,
    RealismScorer,
)
from scenewright.tools.vision.detection.boxes import area_of
from scenewright.tools.vision.detection.labels import normalized_label

LEAST_SHARE = 0.01
"""Least share of the picture that an object covers (Liang et al., Sec. 3.1)."""
LEAST_SCORE = 0.5
"""Least confidence of its detection (likewise)."""
SALIENT = 5
"""So many of the largest objects tell how real a picture looks (Sec. 3.3.3: R² = 0.62)."""


def scored_objects(
    found: Iterable[Detection],
    size: tuple[int, int],
    *,
    least_share: float = LEAST_SHARE,
    least_score: float = LEAST_SCORE,
) -> list[Detection]:
    """Return the detections that realism is asked of, largest box first.

    Regions without instances (``stuff``), boxes below ``least_share`` of a picture of ``size``
    (width, height) and detections below ``least_score`` are left out.
    """
    whole = size[0] * size[1]
    kept = [
        item
        for item in found
        if not item.stuff and item.score >= least_score and box_area(item) >= least_share * whole
    ]
    return sorted(kept, key=box_area, reverse=True)


def box_area(item: Detection) -> float:
    """Return the square pixels of the object's box."""
    return area_of(item.box)


def image_realism(
    objects: Sequence[tuple[Detection, float | None]], most: int = SALIENT
) -> float | None:
    """Return the mean score over the ``most`` largest objects; None if none of these was scored.

    ``objects`` are pairs of an object and its score (any scale). An object without a score takes
    no other's place: what could not be judged must not make small things count.
    """
    largest = sorted(objects, key=lambda pair: box_area(pair[0]), reverse=True)[:most]
    known = [score for _, score in largest if score is not None]
    return sum(known) / len(known) if known else None


Likenesses = NDArray[np.float32]
"""(phrases, objects): how well each phrase says what an object looks like; more is better."""


@runtime_checkable
class InstanceReader(Protocol):
    """Names that tell objects of one class apart, for scorers that see pictures and texts."""

    async def likeness(
        self, image: Image.Image, objects: Sequence[Detection], phrases: Sequence[str]
    ) -> Likenesses:
        """Return how well each of ``phrases`` fits each of ``objects``: (phrases, objects).

        Boxes are in pixels of ``image``.
        """
        ...


def candidates(
    found: Sequence[Detection], label: str, count: int, size: tuple[int, int]
) -> list[Detection]:
    """Return the objects of class ``label`` among which ``count`` are looked for, largest first.

    They are those that realism is asked of at all
    (:func:`~scenewright.tools.vision.realism.pictures.scored_objects`: no regions without
    instances, a confidence of 0.5 or more, 1 % or more of the picture of ``size`` (width, height)).
    What is smaller is a candidate only where there are fewer of these than asked for, largest
    first: a scene may ask for a small thing, whose realism then counts, but a fleck must not take
    the place of the thing itself.
    """
    alike = [one for one in found if normalized_label(one.name) == normalized_label(label)]
    every = scored_objects(alike, size, least_share=0.0)
    large = sum(box_area(one) >= LEAST_SHARE * size[0] * size[1] for one in every)
    return every[: max(large, count)]


def assign_objects(
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


@dataclass(frozen=True, slots=True)
class PictureRealism:
    """Realism of the objects of one picture, and of all of it by them."""

    objects: tuple[tuple[Detection, ObjectRealism], ...]
    """Scored objects, largest first."""
    found: int
    """Number of detections, with those left out: too small, too unsure, or without instances."""
    most: int = SALIENT
    """So many of the largest objects speak for the picture."""

    @property
    def ocr(self) -> float | None:
        """Mean OcR of the largest objects, from 1 to 5.

        None if none of these was scored (Liang et al., Sec. 3.3.3).
        """
        return self._mean(lambda one: one.average)

    @property
    def shape(self) -> float | None:
        """The same of shape."""
        return self._mean(lambda one: one.shape)

    @property
    def texture(self) -> float | None:
        """The same of texture."""
        return self._mean(lambda one: one.texture)

    @property
    def joint(self) -> float | None:
        """The same of both, asked or regressed at once; none where the scorer does not tell."""
        return self._mean(lambda one: one.joint)

    @property
    def reason(self) -> str:
        """Why there is no :attr:`ocr`; empty if there is one."""
        if self.ocr is not None:
            return ""
        if self.objects:
            said = [one.reason for _, one in self.objects[: self.most] if one.reason]
            return said[0] if said else "the scorer gave no shape and texture scores"
        if self.found:
            return (
                f"none of {self.found} detections counts: they are below 1 % of the picture, "
                "unsure, or regions without instances"
            )
        return "no object was detected"

    def _mean(self, of: Callable[[ObjectRealism], float | None]) -> float | None:
        return image_realism([(item, of(one)) for item, one in self.objects], self.most)


async def picture_realism(
    image: Image.Image,
    detector: Detector,
    scorer: RealismScorer,
    *,
    labels: Sequence[str] = (),
    most: int = SALIENT,
) -> PictureRealism:
    """Return the realism of ``image`` by the objects that ``detector`` finds.

    Each object that counts is scored (:func:`scored_objects`). ``labels``: classes that are looked
    for, all that the detector knows if there are none. Raises ``DetectionError``,
    ``RealismError`` and ``ImageError`` as the two ports say, and ``RealismError`` for a picture on
    which nothing is drawn.
    """
    if empty := nothing_drawn(image):
        raise RealismError(empty)
    found = await detector.detect(image, labels)
    objects = scored_objects(found, image.size)
    scores = await scorer.score(image, objects) if objects else []
    return PictureRealism(tuple(zip(objects, scores, strict=True)), len(found), most)
