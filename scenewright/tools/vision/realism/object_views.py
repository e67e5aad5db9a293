"""Views of one object for a model that scores it: marked in the picture, or cut out.

The two inputs of the strategies of Liang et al. (Sec. 4.1): ``img``, the whole picture with the
object's box drawn on it, and ``crop``, the object alone, in a square.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
from PIL import Image

from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import Box, Detection, ObjectRealism
from scenewright.tools.vision.detection.boxes import clipped
from scenewright.tools.vision.extraction.views import RED, draw_frame

MARGIN = 0.1
"""Margin around an object in its crop, as a share of the longer side of its box."""
View = Literal["img", "crop"]
VIEWS: tuple[View, ...] = get_args(View)
VIEW_WORDS: dict[View, str] = {
    "img": "It stands in the red box that is drawn on the picture; the box is no part of it.",
    "crop": "The picture is a crop of a larger one around it.",
}
"""Sentence of a prompt about the view."""
LEAST_SIDE = 224
"""Least side of a crop in pixels; smaller ones are enlarged."""


def object_crop(image: Image.Image, box: Box, margin: float = MARGIN) -> Image.Image:
    """Return the square around ``box`` with ``margin`` on each side, as RGB.

    Where the square leaves the picture its edge pixels go on, so that nothing is squeezed and no
    border is drawn that could be taken for a fault. Raises ``ValueError`` for an empty box or one
    outside of the picture.
    """
    shown = to_rgb(image)
    left, top, right, bottom = _inside(box, shown.size)
    side = max(1, round(max(right - left, bottom - top) * (1 + 2 * margin)))
    x = round((left + right - side) / 2)
    y = round((top + bottom - side) / 2)
    inner = (max(0, x), max(0, y), min(shown.width, x + side), min(shown.height, y + side))
    beyond = ((inner[1] - y, y + side - inner[3]), (inner[0] - x, x + side - inner[2]), (0, 0))
    return Image.fromarray(np.pad(np.asarray(shown.crop(inner)), beyond, mode="edge"))


def crops_of(
    image: Image.Image, objects: Sequence[Detection]
) -> tuple[dict[int, Image.Image], dict[int, ObjectRealism]]:
    """Return the crops of ``objects`` by their place.

    Also returns, by place, the result of those that are no part of ``image``.
    """
    crops: dict[int, Image.Image] = {}
    unscored: dict[int, ObjectRealism] = {}
    for at, item in enumerate(objects):
        try:
            crops[at] = object_crop(image, item.box)
        except ValueError as error:
            unscored[at] = ObjectRealism(None, None, reason=str(error))
    return crops, unscored


def view_of(image: Image.Image, box: Box, view: View) -> Image.Image:
    """``image`` with ``box`` marked, or the square around it, enlarged to :data:`LEAST_SIDE`; RGB.

    Raises ``ValueError`` for an empty box, one outside of the picture, or an unknown view.
    """
    if view == "img":
        return mark_object(image, box)
    if view != "crop":
        raise ValueError(f"unknown view {view!r}: use one of {', '.join(VIEWS)}")
    crop = object_crop(image, box)
    if crop.width >= LEAST_SIDE:
        return crop
    return crop.resize((LEAST_SIDE, LEAST_SIDE), Image.Resampling.LANCZOS)


def mark_object(image: Image.Image, box: Box) -> Image.Image:
    """Return a copy of ``image`` with a red line around ``box``, as RGB.

    The line runs outside of the box as far as the picture reaches, so that it hides nothing of the
    object where there is room. Raises ``ValueError`` for an empty box or one outside of the
    picture.
    """
    shown = to_rgb(image).copy()
    left, top, right, bottom = _inside(box, shown.size)
    draw_frame(shown, (math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)), RED)
    return shown


def _inside(box: Box, size: tuple[int, int]) -> Box:
    inside = clipped(box, size)
    if inside is None:
        raise ValueError(
            f"the box {box} is not inside a picture of {size[0]}×{size[1]} pixels: give "
            "(left, top, right, bottom) in pixels of this picture"
        )
    return inside
