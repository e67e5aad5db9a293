"""How one object is shown to a model that scores it: marked in the picture, or cut out.

The two inputs of the strategies of Liang et al. (Sec. 4.1): ``img``, the whole picture with the
object's box drawn on it, and ``crop``, the object alone.
"""

from __future__ import annotations

from typing import Literal, get_args

from PIL import Image, ImageDraw

from scenewright.core.images import to_rgb
from scenewright.core.ports.detector import Box
from scenewright.tools.vision.extraction.views import RED, line_width
from scenewright.tools.vision.realism.crops import object_crop

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
    """A copy of ``image`` with a red line around ``box``, as RGB.

    The line runs outside of the box as far as the picture reaches, so that it hides nothing of the
    object where there is room. Raises ``ValueError`` for an empty box or one outside of the
    picture.
    """
    shown = to_rgb(image).copy()
    left, top = max(0, int(box[0])), max(0, int(box[1]))
    right, bottom = min(shown.width, -int(-box[2] // 1)), min(shown.height, -int(-box[3] // 1))
    if not (left < right and top < bottom):
        raise ValueError(
            f"the box {box} is no part of a picture of {shown.width}×{shown.height} pixels: give "
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
