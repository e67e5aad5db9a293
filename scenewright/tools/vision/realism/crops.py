"""The two views that realism is judged in: the whole picture, and a square around one object."""

from __future__ import annotations

from PIL import Image

from scenewright.core.images import to_rgb
from scenewright.core.ports.detector import Box

MARGIN = 0.1
"""What is shown around an object, as a share of the longer side of its box."""


def object_crop(image: Image.Image, box: Box, margin: float = MARGIN) -> Image.Image:
    """The square around ``box`` with ``margin`` on each side, as RGB.

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
            f"the box {box} is no part of a picture of {shown.width}×{shown.height} pixels: give "
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
