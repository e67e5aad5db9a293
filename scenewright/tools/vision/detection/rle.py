"""COCO's run-length code of masks, and polygons; detections as data for JSON with it.

A mask is read column by column; the counts are the lengths of runs of 0 and 1 in turn, beginning
with 0. Compressed, each count (from the fourth on its difference to the one before the last) is
written in groups of five bits, the lowest first: a sixth bit says that another group follows, and
48 is added to make a printable character (pycocotools, ``maskApi.c``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from scenewright.core.ports.detector import Detection, DetectionError, Mask

MAX_PIXELS = 2**26
"""Most pixels of a mask."""


def encode(mask: Mask) -> list[int]:
    """The counts of ``mask``."""
    flat = np.asarray(mask, bool).ravel(order="F")
    edges = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    counts = np.diff(np.concatenate(([0], edges, [flat.size])))
    start = [0] if flat.size and flat[0] else []
    return start + [int(count) for count in counts]


def decode(counts: Sequence[int], height: int, width: int) -> Mask:
    """The mask of ``counts``; ``DetectionError`` if they do not fill ``height`` × ``width``."""
    _check_size(height, width)
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts):
        raise DetectionError("the counts of a mask must be whole numbers from 0")
    if sum(counts) != height * width:
        raise DetectionError(
            f"the counts of a mask come to {sum(counts)} pixels, but its size says "
            f"{height}×{width} = {height * width}"
        )
    values = np.arange(len(counts)) % 2 == 1
    return np.repeat(values, counts).reshape((height, width), order="F")


def compress(counts: Sequence[int]) -> str:
    """``counts`` as COCO's text."""
    letters = []
    for at, count in enumerate(counts):
        value = count - counts[at - 2] if at > 2 else count
        more = True
        while more:
            group = value & 0x1F
            value >>= 5
            # The sign is the group's highest bit: done when nothing but it is left.
            more = value != -1 if group & 0x10 else value != 0
            letters.append(chr((group | (0x20 if more else 0)) + 48))
    return "".join(letters)


def decompress(text: str) -> list[int]:
    """The counts of COCO's ``text``; ``DetectionError`` for what is none."""
    counts: list[int] = []
    at = 0
    while at < len(text):
        value = shift = 0
        while True:
            code = ord(text[at]) - 48 if at < len(text) else -1
            if not 0 <= code < 64:
                raise DetectionError(
                    f"the counts of a mask are damaged at character {at}: they are COCO's "
                    "compressed text, or a list of numbers"
                )
            at += 1
            value |= (code & 0x1F) << shift
            shift += 5
            if not code & 0x20:
                if code & 0x10:
                    value -= 1 << shift
                break
        counts.append(value + counts[-2] if len(counts) > 2 else value)
    return counts


def mask_of_polygons(polygons: Sequence[Sequence[float]], height: int, width: int) -> Mask:
    """The pixels within any of ``polygons``, each x, y, x, y … in pixels.

    Raises ``DetectionError`` for one of fewer than three corners.
    """
    _check_size(height, width)
    sheet = Image.new("1", (width, height))
    pen = ImageDraw.Draw(sheet)
    for polygon in polygons:
        if len(polygon) < 6 or len(polygon) % 2:
            raise DetectionError(
                f"a polygon has {len(polygon)} numbers: write x, y, x, y … of three corners or more"
            )
        # Pillow counts from the middle of a pixel, COCO from its corner.
        corners = zip(polygon[::2], polygon[1::2], strict=True)
        pen.polygon([(x - 0.5, y - 0.5) for x, y in corners], fill=1)
    return np.array(sheet, dtype=bool)


def _check_size(height: int, width: int) -> None:
    if height < 1 or width < 1 or height * width > MAX_PIXELS:
        raise DetectionError(f"a mask of {height}×{width} pixels: use 1 to {MAX_PIXELS} pixels")


def data_of_detection(found: Detection) -> dict[str, Any]:
    """``found`` as data for JSON."""
    data: dict[str, Any] = {
        "name": found.name,
        "box": [float(edge) for edge in found.box],
        "score": float(found.score),
        "stuff": bool(found.stuff),
    }
    if found.mask is not None:
        data["mask"] = {
            "size": [int(side) for side in found.mask.shape],
            "counts": compress(encode(found.mask)),
        }
    return data


def detection_of(data: Mapping[str, Any]) -> Detection:
    """The detection of :func:`data_of_detection`.

    Raises ``KeyError``, ``TypeError``, ``ValueError`` and ``DetectionError`` for what is none.
    """
    mask = data.get("mask")
    left, top, right, bottom = map(float, data["box"])
    return Detection(
        name=str(data["name"]),
        box=(left, top, right, bottom),
        score=float(data["score"]),
        mask=None if mask is None else decode(decompress(mask["counts"]), *mask["size"]),
        stuff=bool(data["stuff"]),
    )
