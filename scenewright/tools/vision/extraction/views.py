"""Pictures that show a model which thing is meant.

XTC-Bench, Sec. 3.2.3: a *semantic spotlight* (the scene blurred, the thing sharp, a box around it)
says which one and where, a *detail crop* (the thing alone on grey) shows what it looks like. Sec.
6.2.1: of a pair the subject stands in a red box and the object in a blue one. Models that never
learned what a drawn box means are shown the picture :func:`paint_over` the things that could be
mistaken for it. All are pure: the given picture stays as it is, the result is RGB.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter
from scipy import ndimage

from scenewright.core.images import to_rgb
from scenewright.core.ports.vision import Box, Detection, ExtractionError, Mask

GREY = (128, 128, 128)
"""Colour around a thing in its detail crop."""
RED = (255, 0, 0)
"""The box of a subject, and of the thing in a spotlight."""
BLUE = (0, 0, 255)
"""The box of an object."""
LEAST_SIDE = 336
"""Least length of the longer side of a detail crop, in pixels."""

Place = Box | Detection
"""A box, or a thing whose mask says more where there is one."""

_LINE = 0.006
_BLUR = 0.02
_PADDING = 0.1
_RIM = 3
_MARGIN = 0.01

_Cells = tuple[int, int, int, int]


def spotlight(image: Image.Image, thing: Detection) -> Image.Image:
    """Return the scene blurred, ``thing`` sharp (by its mask, else its box) and in a red box.

    Raises ``ExtractionError`` for a box that is no part of the picture or a mask of another size.
    """
    shown = to_rgb(image)
    radius = max(2.0, _BLUR * max(shown.size))
    blurred = shown.filter(ImageFilter.GaussianBlur(radius))
    blurred.paste(shown, (0, 0), _sheet(_pixels(thing, shown.size)))
    draw_frame(blurred, cells_of(thing.box, shown.size), RED)
    return blurred


def detail_crop(
    image: Image.Image, thing: Detection, *, least_side: int = LEAST_SIDE
) -> Image.Image:
    """Return ``thing`` alone on neutral grey, enlarged, with a margin around it.

    Cut out by its mask, else by its box; the longer side has at least ``least_side`` pixels. Raises
    as :func:`spotlight`.
    """
    shown = to_rgb(image)
    left, top, right, bottom = cells_of(thing.box, shown.size)
    alone = Image.new("RGB", shown.size, GREY)
    alone.paste(shown, (0, 0), _sheet(_pixels(thing, shown.size)))
    edge = max(1, round(_PADDING * max(right - left, bottom - top)))
    crop = Image.new("RGB", (right - left + 2 * edge, bottom - top + 2 * edge), GREY)
    crop.paste(alone.crop((left, top, right, bottom)), (edge, edge))
    scale = least_side / max(crop.size)
    if scale > 1:
        size = max(1, round(crop.width * scale)), max(1, round(crop.height * scale))
        crop = crop.resize(size, Image.Resampling.LANCZOS)
    return crop


def marked_pair(image: Image.Image, subject: Detection, target: Detection) -> Image.Image:
    """``image`` with the ``subject`` in a red box and the ``target`` in a blue one.

    Where their sides coincide the blue line runs within the red one, so that both can be seen.
    Raises ``ExtractionError`` for a box that is no part of the picture.
    """
    shown = to_rgb(image).copy()
    red = draw_frame(shown, cells_of(subject.box, shown.size), RED)
    draw_frame(shown, cells_of(target.box, shown.size), BLUE, beside=red)
    return shown


def paint_over(
    image: Image.Image, hidden: Sequence[Place], kept: Sequence[Place] = ()
) -> Image.Image:
    """``image`` with the ``hidden`` things in the colour around them; ``kept`` ones stay whole.

    A thing with a mask is hidden and kept by it, anything else by its box. A hidden mask is taken a
    little wider, for the edge that masks leave out would still draw the thing. What lies outside
    of the picture is left as it is. Raises ``ExtractionError`` for a mask of another size.
    """
    shown = to_rgb(image)
    found = np.array(shown)
    for place in hidden:
        pixels = _pixels(place, shown.size, strict=False)
        if isinstance(place, Detection) and place.mask is not None:
            wider = max(2, round(_MARGIN * max(shown.size)))
            pixels = ndimage.binary_dilation(pixels, np.ones((3, 3)), iterations=wider)
        if pixels.any():
            # The median colour of what borders on it, or of all the picture if nothing does.
            rim = ndimage.binary_dilation(pixels, np.ones((3, 3)), iterations=_RIM) & ~pixels
            around = found[rim] if rim.any() else found.reshape(-1, found.shape[-1])
            found[pixels] = np.median(around, axis=0).astype(found.dtype)
    whole = np.asarray(shown)
    for place in kept:
        pixels = _pixels(place, shown.size, strict=False)
        found[pixels] = whole[pixels]
    return Image.fromarray(found)


def line_width(size: tuple[int, int]) -> int:
    """Return the pixels of a drawn line in a picture of ``size`` (width, height)."""
    return max(1, round(_LINE * max(size)))


def cells_of(box: Box, size: tuple[int, int]) -> _Cells:
    """Return the whole pixels that ``box`` touches.

    ``ExtractionError`` if it is no box of a picture of ``size`` (width, height).
    """
    left, top, right, bottom = box
    inside = 0 <= left < right <= size[0] and 0 <= top < bottom <= size[1]
    if not inside or not all(map(math.isfinite, box)):
        raise ExtractionError(
            f"the box {box} is not inside a picture of {size[0]}×{size[1]} pixels: give (left, "
            "top, right, bottom) in pixels of this picture"
        )
    return math.floor(left), math.floor(top), math.ceil(right), math.ceil(bottom)


def _pixels(place: Place, size: tuple[int, int], *, strict: bool = True) -> Mask:
    """Which pixels of a picture of ``size`` are meant."""
    box, mask = (place.box, place.mask) if isinstance(place, Detection) else (place, None)
    if mask is not None:
        if mask.shape != (size[1], size[0]):
            raise ExtractionError(
                f"a mask has {mask.shape[1]}×{mask.shape[0]} pixels, its picture "
                f"{size[0]}×{size[1]}: detect in this very picture"
            )
        if mask.any():
            return mask
    found = np.zeros((size[1], size[0]), bool)
    if strict:
        left, top, right, bottom = cells_of(box, size)
    else:
        left, top, right, bottom = (max(0, round(side)) for side in box)
    found[top:bottom, left:right] = True
    return found


def _sheet(mask: Mask) -> Image.Image:
    return Image.fromarray(mask.astype(np.uint8) * 255)


def draw_frame(
    image: Image.Image, cells: _Cells, color: tuple[int, int, int], *, beside: _Cells | None = None
) -> _Cells:
    """Draw a line around ``cells``, as far as ``image`` reaches, and return its outer edges.

    Each side that would cover one of the frame ``beside`` is moved inwards by a line.
    """
    width = line_width(image.size)
    left, top, right, bottom = frame = (
        max(0, cells[0] - width),
        max(0, cells[1] - width),
        min(image.width, cells[2] + width),
        min(image.height, cells[3] + width),
    )
    if beside is not None:
        left, top, right, bottom = (
            other + (width if at < 2 else -width) if abs(own - other) < width else own
            for at, (own, other) in enumerate(zip(frame, beside, strict=True))
        )
        # A thing of a few pixels has no room for two lines.
        if left >= right:
            left, right = frame[0], frame[2]
        if top >= bottom:
            top, bottom = frame[1], frame[3]
    width = max(1, min(width, (right - left) // 2, (bottom - top) // 2))
    pen = ImageDraw.Draw(image)
    pen.rectangle((left, top, right - 1, bottom - 1), outline=color, width=width)
    return left, top, right, bottom
