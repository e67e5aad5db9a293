"""Facts of a picture read off a detector's outlines, without any judge.

The truth of a painting is known exactly, that of a generated picture is not. What stands in for it
shares no weights with a judge: the miniature's segmenter says where things of which kind are, the
pixels inside of an outline say their colour, and relations follow from the boxes by the rule that
paintings are true by (:meth:`~scenewright.miniature.truth.Truth.relations_between`). Contacts are
not read off boxes, so facts of them are left out. How far it is to be trusted is measured on
paintings against their truth, and on generated pictures that were labelled by eye.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from PIL import Image

from scenewright.core.facts import Fact, Recall
from scenewright.core.layout import canonical_predicate
from scenewright.core.ports.vision import Detection, Detector
from scenewright.core.scene import Attributes, SceneGraph, SceneObject
from scenewright.miniature.truth import Box, Truth
from scenewright.miniature.world import COLORS, CONTACTS
from scenewright.runs.model_factory.local_models import detector_of

INK = 60
"""Pixels whose brightest channel is below this are outline, unless most of the thing is so."""
_PALETTE = np.array([COLORS[name] for name in sorted(COLORS)], float)


@cache
def detector() -> Detector:
    """Return the miniature's detector, loaded once a process."""
    return detector_of("miniature")


def colour_of(image: Image.Image, found: Detection) -> str:
    """Return the colour of the world that most pixels of a detection are nearest to.

    Pixels near none of the colours (skin, windows, wheels' hubs) do not vote.
    """
    pixels = np.asarray(image.convert("RGB"), float)
    mask = found.mask
    if mask is None:
        left, top, right, bottom = (round(at) for at in found.box)
        mask = np.zeros(pixels.shape[:2], bool)
        mask[top:bottom, left:right] = True
    inside = pixels[mask]
    coloured = inside[inside.max(-1) >= INK]
    # Shades of a colour have its hue: compare directions, and black by its darkness alone.
    far = np.linalg.norm((coloured if len(coloured) else inside)[:, None] - _PALETTE[None], axis=-1)
    near = far.min(-1) <= np.quantile(far.min(-1), 0.6)
    votes = np.bincount(far.argmin(-1)[near], minlength=len(_PALETTE))
    return sorted(COLORS)[int(votes.argmax())]


def truth_of(image: Image.Image, found: Sequence[Detection]) -> Truth:
    """Return what the detections say that ``image`` holds, without contacts."""
    objects: list[SceneObject] = []
    boxes: dict[str, Box] = {}
    for at, one in enumerate(found):
        key = f"{one.name}.{at}"
        colour = colour_of(image, one)
        objects.append(SceneObject(id=key, name=one.name, attributes=Attributes({"color": colour})))
        left, top, right, bottom = (round(side) for side in one.box)
        boxes[key] = Box(left, top, right - left, bottom - top)
    return Truth(SceneGraph(objects=tuple(objects)), "", boxes, {}, frozenset(), "flat", 0)


async def detected_truth(image: Image.Image) -> Truth:
    """Return what the miniature's detector sees in ``image``."""
    return truth_of(image, await detector().detect(image))


def is_readable(fact: Fact) -> bool:
    """Return whether outlines alone can decide ``fact``: all but relations of contact."""
    return fact.kind != "relation" or canonical_predicate(str(fact.predicate)) not in CONTACTS


def recalls(truth: Truth, asked: SceneGraph, facts: Sequence[Fact]) -> dict[str, Recall]:
    """Return by kind how many readable facts of ``asked`` hold in ``truth``."""
    found: dict[str, list[int]] = {"object": [0, 0], "attribute": [0, 0], "relation": [0, 0]}
    for fact in facts:
        if is_readable(fact):
            found[fact.kind][0 if truth.holds(fact, asked) else 1] += 1
    return {kind: Recall(yes=yes, no=no) for kind, (yes, no) in found.items()}
