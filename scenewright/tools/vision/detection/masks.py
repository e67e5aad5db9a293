"""Masks as COCO's run-length code and polygons (pycocotools), and detections as JSON with them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from pycocotools import mask as coco

from scenewright.core.ports.vision import Detection, DetectionError, Mask

MAX_PIXELS = 2**26
"""Most pixels of a mask."""
_FOREIGN = re.compile(r"[^0-o]")
"""A character that COCO's compressed counts do not use."""


def encode_mask(mask: Mask) -> dict[str, Any]:
    """Return ``mask`` as ``{"size": [height, width], "counts": COCO's compressed text}``."""
    code = coco.encode(np.asfortranarray(mask, dtype=np.uint8))
    return {"size": [int(side) for side in mask.shape], "counts": code["counts"].decode("ascii")}


def decode_mask(counts: str | list[int], height: int, width: int) -> Mask:
    """Return the mask of ``counts``, COCO's compressed text or the list of its runs.

    Raises ``DetectionError`` for damaged counts, and for those that do not fill ``height`` ×
    ``width``.
    """
    _check_size(height, width)
    if isinstance(counts, str):
        if foreign := _FOREIGN.search(counts):
            raise DetectionError(
                f"the counts of a mask are damaged at character {foreign.start()}: they are COCO's "
                "compressed text, or a list of numbers"
            )
        code = {"size": [height, width], "counts": counts}
    else:
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
            raise DetectionError("the counts of a mask must be whole numbers from 0")
        if sum(counts) != height * width:
            raise DetectionError(
                f"the counts of a mask come to {sum(counts)} pixels, but its size says "
                f"{height}×{width} = {height * width}"
            )
        code = coco.frPyObjects({"size": [height, width], "counts": counts}, height, width)
    try:
        mask = coco.decode(code)
    except ValueError:
        mask = None
    # The library fills up what counts leave open with whatever the memory holds.
    if mask is None or (isinstance(counts, str) and encode_mask(mask)["counts"] != counts):
        raise DetectionError(
            f"the counts of a mask do not fill its size of {height}×{width} pixels, or are damaged "
            f"near character {len(counts)}"
        )
    return np.ascontiguousarray(mask, dtype=bool)


def mask_of_polygons(polygons: Sequence[Sequence[float]], height: int, width: int) -> Mask:
    """Return the pixels within any of ``polygons``, each x, y, x, y … in pixels.

    Raises ``DetectionError`` for one of fewer than three corners.
    """
    _check_size(height, width)
    for polygon in polygons:
        if len(polygon) < 6 or len(polygon) % 2:
            raise DetectionError(
                f"a polygon has {len(polygon)} numbers: write x, y, x, y … of three corners or more"
            )
    # The library takes a list of four numbers for a box, and of lists only those of floats.
    rings = [[float(number) for number in polygon] for polygon in polygons]
    codes = coco.frPyObjects(rings, height, width)
    return np.ascontiguousarray(coco.decode(coco.merge(codes)), dtype=bool)


def _check_size(height: int, width: int) -> None:
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise DetectionError(f"a mask of {height}×{width} pixels: use 1 to {MAX_PIXELS} pixels")


def data_of_detection(detection: Detection) -> dict[str, Any]:
    """Return ``detection`` as data for JSON."""
    data: dict[str, Any] = {
        "name": detection.name,
        "box": [float(edge) for edge in detection.box],
        "score": float(detection.score),
        "stuff": bool(detection.stuff),
    }
    if detection.mask is not None:
        data["mask"] = encode_mask(detection.mask)
    return data


def detection_of(data: Mapping[str, Any]) -> Detection:
    """Return the detection of :func:`data_of_detection`.

    Raises ``KeyError``, ``TypeError``, ``ValueError`` and ``DetectionError`` for anything else.
    """
    mask = data.get("mask")
    left, top, right, bottom = map(float, data["box"])
    return Detection(
        name=str(data["name"]),
        box=(left, top, right, bottom),
        score=float(data["score"]),
        mask=None if mask is None else decode_mask(mask["counts"], *mask["size"]),
        stuff=bool(data["stuff"]),
    )
