"""The realism of a picture by its objects: detected, filtered, scored, averaged.

The two views that realism is judged in: the whole picture, and a square around one object.

How one object is shown to a model that scores it: marked in the picture, or cut out.

The two inputs of the strategies of Liang et al. (Sec. 4.1): ``img``, the whole picture with the
object's box drawn on it, and ``crop``, the object alone.

Which objects of a picture are scored, and what their scores say of the whole picture.

Which detected object is the one that a scene speaks of: by class, then by likeness, then by
size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.optimize import linear_sum_assignment

from scenewright.core.images import nothing_drawn, to_rgb
from scenewright.core.ports.vision import (
    Box,
    Detection,
    Detector,
    ObjectRealism,
    RealismError,
    RealismScorer,
)
from scenewright.tools.vision.detection.labels import normalized_label
from scenewright.tools.vision.extraction.views import RED, line_width

MARGIN = 0.1
"""What is shown around an object, as a share of the longer side of its box."""


def object_crop(image: Image.Image, box: Box, margin: float = MARGIN) -> Image.Image:
    """Return the square around ``box`` with ``margin`` on each side, as RGB.

    Where the square leaves the picture its edge pixels go on, so that nothing is squeezed and no
    border is drawn that could be taken for a fault. Raises ``ValueError`` for an empty box or one
    outside of the picture.
    """
    shown = to_rgb(image)
    left, top, right, bottom = (
        max(0.0, box[0]),
        max(0.0, box[1]),
        min(float(shown.width), box[2]),
        min(float(shown.height), box[3]),
    )
    if not (left < right and top < bottom):
        raise ValueError(
            f"the box {box} is not inside a picture of {shown.width}×{shown.height} pixels: give "
            "(left, top, right, bottom) in pixels of this picture"
        )
    side = max(1, round(max(right - left, bottom - top) * (1 + 2 * margin)))
    x = round((left + right - side) / 2)
    y = round((top + bottom - side) / 2)
    inner = (max(0, x), max(0, y), min(shown.width, x + side), min(shown.height, y + side))
    crop = shown.crop(inner)
    if crop.size == (side, side):
        return crop
    return _edged(crop, (inner[0] - x, inner[1] - y), side)


def _edged(crop: Image.Image, at: tuple[int, int], side: int) -> Image.Image:
    full = Image.new("RGB", (side, side))
    right, bottom = side - at[0] - crop.width, side - at[1] - crop.height
    # Rows first, then columns of what stands by then: corners are filled as well.
    full.paste(crop, at)
    if at[1] > 0:
        full.paste(crop.crop((0, 0, crop.width, 1)).resize((crop.width, at[1])), (at[0], 0))
    if bottom > 0:
        row = crop.crop((0, crop.height - 1, crop.width, crop.height))
        full.paste(row.resize((crop.width, bottom)), (at[0], at[1] + crop.height))
    if at[0] > 0:
        column = full.crop((at[0], 0, at[0] + 1, side))
        full.paste(column.resize((at[0], side)), (0, 0))
    if right > 0:
        edge = at[0] + crop.width
        full.paste(full.crop((edge - 1, 0, edge, side)).resize((right, side)), (edge, 0))
    return full


View = Literal["img", "crop"]
VIEWS: tuple[View, ...] = get_args(View)
VIEW_WORDS: dict[View, str] = {
    "img": "It stands in the red box that is drawn on the picture; the box is no part of it.",
    "crop": "The picture is a crop of a larger one around it.",
}
"""What a prompt says of the view."""
LEAST_SIDE = 224
"""Least side of a crop in pixels; smaller ones are enlarged."""


def view_of(image: Image.Image, box: Box, view: View) -> Image.Image:
    """``image`` with ``box`` marked, or the square around it, enlarged to :data:`LEAST_SIDE`; RGB.

    Raises ``ValueError`` for an empty box, one outside of the picture, or an unknown view.
    """
    if view == "img":
        return marked(image, box)
    if view != "crop":
        raise ValueError(f"unknown view {view!r}: use one of {', '.join(VIEWS)}")
    crop = object_crop(image, box)
    if crop.width >= LEAST_SIDE:
        return crop
    return crop.resize((LEAST_SIDE, LEAST_SIDE), Image.Resampling.LANCZOS)


def marked(image: Image.Image, box: Box) -> Image.Image:
    """Return a copy of ``image`` with a red line around ``box``, as RGB.

    The line runs outside of the box as far as the picture reaches, so that it hides nothing of the
    object where there is room. Raises ``ValueError`` for an empty box or one outside of the
    picture.
    """
    shown = to_rgb(image).copy()
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    right, bottom = min(shown.width, -int(-box[2] // 1)), min(shown.height, -int(-box[3] // 1))
    if not (left < right and top < bottom):
        raise ValueError(
            f"the box {box} is not inside a picture of {shown.width}×{shown.height} pixels: give "
            "(left, top, right, bottom) in pixels of this picture"
        )
    width = line_width(shown.size)
    outline = (
        max(0, left - width),
        max(0, top - width),
        min(shown.width, right + width) - 1,
        min(shown.height, bottom + width) - 1,
    )
    ImageDraw.Draw(shown).rectangle(outline, outline=RED, width=width)
    return shown


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
    """Square pixels of the object's box."""
    left, top, right, bottom = item.box
    return max(0.0, right - left) * max(0.0, bottom - top)


def image_realism(
    objects: Sequence[tuple[Detection, float | None]], most: int = SALIENT
) -> float | None:
    """Mean score over the ``most`` largest objects; None if none of these was scored.

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
    """Tells objects of one class apart by words: scorers that see pictures and texts can."""

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
    (:func:`~scenewright.tools.vision.realism.pictures. scored_objects`: no regions without
    instances, a confidence of 0.5 or more, 1 % or more of the picture of ``size`` (width, height)).
    What is smaller is a candidate only where there are fewer of these than asked for, largest
    first: a scene may ask for a small thing, whose realism then counts, but a fleck must not take
    the place of the thing itself.
    """
    alike = [one for one in found if normalized_label(one.name) == normalized_label(label)]
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


@dataclass(frozen=True, slots=True)
class PictureRealism:
    """How real the objects of one picture look, and what they say of all of it."""

    objects: tuple[tuple[Detection, ObjectRealism], ...]
    """What was scored, largest first."""
    found: int
    """What was detected, with what was left out: too small, too unsure, or without instances."""
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
