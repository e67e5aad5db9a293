"""Foreground of a picture: maps of salience, and which detections they set in front.

PSG-Bench splits foreground from background by BiRefNet (Zheng et al., 2024), a model of salient
objects. Where there is none, ``centre-and-size`` tells by the boxes alone, without a model and
without looking at the picture::

    sqrt(c · s),   c = 1 − d / D,   s = min(1, sqrt(a / 0.1))

with ``d`` the distance of the box's middle from the picture's, ``D`` half the picture's diagonal,
and ``a`` the share of the picture that the mask (or box) covers: what stands near the middle and
covers a tenth or more is in front. Stuff (sky, grass) never is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from scenewright.core.ports.vision import Detection, DetectionError

SaliencyMap = NDArray[np.float32]
"""(height, width) of the picture, each in [0, 1]: how much a pixel belongs to what is in front."""
CENTRE_AND_SIZE = "centre-and-size"
"""Name of the rule that needs no model."""
BIREFNET = "ZhengPeng7/BiRefNet"
"""Repository of the model that PSG-Bench takes."""
THRESHOLD = 0.5
"""From this mean salience on, an object is in front."""
FULL_SIZE = 0.1
"""Share of a picture from which on size counts in full."""


def centre_and_size(thing: Detection, size: tuple[int, int]) -> float:
    """Return the rule of this module's head, in [0, 1]; ``size`` is (width, height) of the picture.

    Raises ``DetectionError`` for a picture without pixels.
    """
    width, height = size
    if width < 1 or height < 1:
        raise DetectionError(f"a picture of {width}×{height} pixels has no foreground")
    if thing.stuff:
        return 0.0
    left, top, right, bottom = thing.box
    away = math.hypot((left + right - width) / 2.0, (top + bottom - height) / 2.0)
    central = max(0.0, 1.0 - away / (math.hypot(width, height) / 2.0))
    share = min(1.0, thing.area / (width * height))
    return math.sqrt(central * min(1.0, math.sqrt(share / FULL_SIZE)))


def salience_of(thing: Detection, salient: SaliencyMap) -> float:
    """Mean of ``salient`` within the mask of ``thing``, or within its box where it has none.

    0 if there is no pixel in it.

    Raises ``DetectionError`` if mask and map differ in size.
    """
    if thing.mask is not None:
        if thing.mask.shape != salient.shape:
            raise DetectionError(
                f"the mask of {thing.name} has {thing.mask.shape} rows and columns, the map of "
                f"salience {salient.shape}: both must be of the picture's size"
            )
        within = salient[thing.mask]
    else:
        left, top, right, bottom = thing.box
        rows = slice(max(0, math.floor(top)), max(0, math.ceil(bottom)))
        within = salient[rows, max(0, math.floor(left)) : max(0, math.ceil(right))]
    return float(within.mean()) if within.size else 0.0


def foreground(
    things: Mapping[str, Detection],
    salient: SaliencyMap | None,
    size: tuple[int, int],
    threshold: float = THRESHOLD,
) -> frozenset[str]:
    """Return the ids of the ``things`` that are in front: mean salience of ``threshold`` or more.

    ``salient``: a model's map; None goes by :func:`centre_and_size`. ``size``: (width, height) of
    the picture. Raises ``DetectionError`` for a threshold outside [0, 1], and for a map of another
    size.
    """
    if not 0.0 <= threshold <= 1.0:
        raise DetectionError(f"threshold {threshold}: use a number from 0 to 1")
    if salient is None:
        return frozenset(
            name for name, thing in things.items() if centre_and_size(thing, size) >= threshold
        )
    if salient.shape != (size[1], size[0]):
        raise DetectionError(
            f"the map of salience has {salient.shape} rows and columns, the picture "
            f"{(size[1], size[0])}"
        )
    return frozenset(
        name for name, thing in things.items() if salience_of(thing, salient) >= threshold
    )
