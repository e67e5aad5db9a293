"""Detections as data for JSON, with masks in COCO's run-length code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scenewright.agents.detection.base import Detection
from scenewright.agents.detection.rle import compress, decode, decompress, encode


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
