"""Which objects of a picture are scored, and what their scores say of the whole picture."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from scenewright.core.ports.detector import Detection

LEAST_SHARE = 0.01
"""Least share of the picture that an object covers (Liang et al., Sec. 3.1)."""
LEAST_SCORE = 0.5
"""Least confidence of its detection (likewise)."""
SALIENT = 5
"""So many of the largest objects tell how real a picture looks (Sec. 3.3.3: R² = 0.62)."""


def scored_objects(
    found: Iterable[Detection],
    size: tuple[int, int],
    *,
    least_share: float = LEAST_SHARE,
    least_score: float = LEAST_SCORE,
) -> list[Detection]:
    """The detections that realism is asked of, largest box first.

    Regions without instances (``stuff``), boxes below ``least_share`` of a picture of ``size``
    (width, height) and detections below ``least_score`` are left out.
    """
    whole = size[0] * size[1]
    kept = [
        item
        for item in found
        if not item.stuff and item.score >= least_score and box_area(item) >= least_share * whole
    ]
    return sorted(kept, key=box_area, reverse=True)


def box_area(item: Detection) -> float:
    """Square pixels of the object's box."""
    left, top, right, bottom = item.box
    return max(0.0, right - left) * max(0.0, bottom - top)


def image_realism(
    objects: Sequence[tuple[Detection, float | None]], most: int = SALIENT
) -> float | None:
    """Mean score over the ``most`` largest objects; None if none of these was scored.

    ``objects`` are pairs of an object and its score (any scale). An object without a score takes
    no other's place: what could not be judged must not make small things count.
    """
    largest = sorted(objects, key=lambda pair: box_area(pair[0]), reverse=True)[:most]
    known = [score for _, score in largest if score is not None]
    return sum(known) / len(known) if known else None
