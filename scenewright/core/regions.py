"""Where in a picture: regions as shares of its sides, and masks of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PIL import Image, ImageChops, ImageDraw

from scenewright.core.placement import COLUMNS, ROWS, Cell


@dataclass(frozen=True, slots=True)
class Region:
    """A rectangle, in shares (0–1) of the picture's width and height."""

    left: float
    """Of the width."""
    top: float
    """Of the height."""
    right: float
    """Of the width; more than ``left``."""
    bottom: float
    """Of the height; more than ``top``."""


def region_of_cell(cell: Cell, margin: float = 0.02) -> Region:
    """The part of a picture that ``cell`` of the planner's grid means, ``margin`` wider."""
    column, row = cell
    return Region(
        max(0.0, column / COLUMNS - margin),
        max(0.0, row / ROWS - margin),
        min(1.0, (column + 1) / COLUMNS + margin),
        min(1.0, (row + 1) / ROWS + margin),
    )


def mask_of(regions: Iterable[Region], size: tuple[int, int]) -> Image.Image:
    """White where any of ``regions`` is, else black: mode L, ``size`` is (width, height)."""
    width, height = size
    mask = Image.new("L", size)
    draw = ImageDraw.Draw(mask)
    for region in regions:
        corners = (
            *(round(region.left * width), round(region.top * height)),
            *(round(region.right * width) - 1, round(region.bottom * height) - 1),
        )
        draw.rectangle(corners, fill=255)
    return mask


def inverted(mask: Image.Image) -> Image.Image:
    """Black where ``mask`` is white and white where it is black."""
    return ImageChops.invert(mask)
