"""The red and the blue box that are drawn on a picture to say what a question is about."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from scipy import ndimage

from scenewright.core.ports.detector import Box
from scenewright.mock_providers.problems import Problem

_PURE = 190
_LEAST_PIECE = 4


@dataclass(frozen=True, slots=True)
class Marked:
    """A picture with two boxes."""

    image: Image.Image
    """Without the lines of the boxes: what was under them is as what is beside them."""
    red: Box
    """The subject's place, lines included."""
    blue: Box
    """The object's."""


def read_marks(image: Image.Image) -> Marked:
    """The boxes of (255, 0, 0) and (0, 0, 255) on an RGB ``image``, which JPEG may have dimmed.

    Raises ``Problem`` where one is missing.
    """
    pixels = np.asarray(image).astype(np.int16)
    boxes: list[Box] = []
    drawn = np.zeros(pixels.shape[:2], dtype=bool)
    for channel, name in ((0, "red"), (2, "blue")):
        others = np.delete(pixels, channel, axis=2).max(axis=2)
        pure = pixels[:, :, channel] - others > _PURE
        found = _outline(pure)
        if found is None:
            raise Problem.invalid(f"the picture has no {name} box: draw its lines in pure {name}")
        boxes.append(found)
        drawn |= pure
    # Beside a line its colour has bled into the picture.
    lines = ndimage.binary_dilation(drawn, iterations=1)
    nearest = ndimage.distance_transform_edt(lines, return_distances=False, return_indices=True)
    whole = pixels[tuple(nearest)].astype(np.uint8)
    return Marked(Image.fromarray(whole), boxes[0], boxes[1])


def _outline(pure: NDArray[np.bool_]) -> Box | None:
    """What all pixels of the colour span, specks left out: the lines of two boxes that cross leave
    one of them in pieces."""
    labels, count = ndimage.label(pure, structure=np.ones((3, 3)))
    sizes = np.bincount(labels.ravel(), minlength=count + 1)
    kept = pure & (sizes[labels] >= _LEAST_PIECE)
    down, across = np.nonzero(kept.any(axis=1))[0], np.nonzero(kept.any(axis=0))[0]
    if not len(down):
        return None
    return float(across[0]), float(down[0]), float(across[-1] + 1), float(down[-1] + 1)
