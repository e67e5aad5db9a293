"""Arithmetic of boxes, masks and lists of detections.

Class labels: how data sets write them, how people say them, and which of them are stuff.

A detector that looks at each picture once, whoever asks.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

import numpy as np
from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary, Unknown
from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import Box, Detection, Detector, Mask


def clipped(box: Box, size: tuple[int, int]) -> Box | None:
    """Return the part of ``box`` inside a picture of ``size`` (width, height).

    None if nothing of it is, or if a side is no number.
    """
    left, top = max(0.0, box[0]), max(0.0, box[1])
    right, bottom = min(float(size[0]), box[2]), min(float(size[1]), box[3])
    return (left, top, right, bottom) if left < right and top < bottom else None


def box_of(mask: Mask) -> Box | None:
    """Return the smallest box around what is true in ``mask``; none if nothing is."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def iou(a: Box, b: Box) -> float:
    """Intersection over union, in [0, 1]; 0 for two boxes without an area."""
    across, down = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if across <= 0 or down <= 0:
        return 0.0
    shared = across * down
    return shared / (_area(a) + _area(b) - shared)


def non_maximum_suppression(found: Iterable[Detection], most: float) -> list[Detection]:
    """Apply non-maximum suppression per label; the result is ordered by score.

    Of detections with one label that share more than ``most`` of their union, the one with the
    highest score stays.
    """
    kept: list[Detection] = []
    for one in by_score(found):
        if all(one.name != other.name or iou(one.box, other.box) <= most for other in kept):
            kept.append(one)
    return kept


def by_score(found: Iterable[Detection]) -> list[Detection]:
    """Highest score first; equal ones by label and place, so that the order is always the same."""
    return sorted(found, key=lambda one: (-one.score, one.name, one.box))


def scaled(
    found: Sequence[Detection], size: tuple[int, int], to: tuple[int, int]
) -> Iterable[Detection]:
    """Return ``found`` (picture of ``size``) scaled to the same picture of size ``to``.

    Sizes are (width, height). Boxes without area after scaling are left out.
    """
    across, down = to[0] / size[0], to[1] / size[1]
    for one in found:
        mask = None if one.mask is None else resized(one.mask, to)
        left, top, right, bottom = one.box
        box = clipped((left * across, top * down, right * across, bottom * down), to)
        if mask is not None and size != to:
            box = box_of(mask)
        if box is not None:
            yield replace(one, box=box, mask=mask)


def resized(mask: Mask, size: tuple[int, int]) -> Mask:
    """``mask`` for a picture of ``size`` (width, height): each pixel as the nearest one of it."""
    if (mask.shape[1], mask.shape[0]) == size:
        return mask
    sheet = Image.fromarray(mask.astype(np.uint8) * 255)
    return np.asarray(sheet.resize(size, Image.Resampling.NEAREST)) > 127


def _area(box: Box) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ENDINGS = ("-other-merged", "-merged", "-other", "-stuff")

COCO_STUFF: frozenset[str] = frozenset(
    _words(
        "banner blanket bridge cardboard counter curtain door-stuff floor-wood flower fruit "
        "gravel house light mirror-stuff net pillow platform playingfield railroad river road "
        "roof sand sea shelf snow stairs tent towel wall-brick wall-stone wall-tile wall-wood "
        "water-other window-blind window-other tree-merged fence-merged ceiling-merged "
        "sky-other-merged cabinet-merged table-merged floor-other-merged pavement-merged "
        "mountain-merged grass-merged dirt-merged paper-merged food-other-merged "
        "building-other-merged rock-merged wall-other-merged rug-merged"
    )
)
"""The 53 stuff categories of COCO's panoptic task (Kirillov et al., 2019), as its files write
them."""


def plain(label: str) -> str:
    """``label`` as people say it: without COCO's endings, and of several words the first.

    >>> plain("sky-other-merged"), plain("door-stuff"), plain("sofa, couch"), plain("hot dog")
    ('sky', 'door', 'sofa', 'hot dog')
    """
    first = " ".join(label.partition(",")[0].replace("_", " ").split())
    for ending in _ENDINGS:
        # A label that is nothing but an ending stays a label.
        if first.lower().endswith(ending) and len(first) > len(ending):
            return first[: -len(ending)]
    return first


def normalized_label(label: str) -> str:
    """Return a label in its form for comparison: plain, lower case, spaces for hyphens.

    >>> folded("Tree-merged"), folded("wall-brick"), folded("Cell_Phone")
    ('tree', 'wall brick', 'cell phone')
    """
    return " ".join(plain(label).lower().replace("-", " ").split())


def among(label: str, wanted: frozenset[str]) -> bool:
    """Whether ``label`` is one of the folded labels ``wanted``; of none wanted each is."""
    return not wanted or normalized_label(label) in wanted


def wanted_of(labels: Iterable[str]) -> frozenset[str]:
    """``labels`` folded."""
    return frozenset(normalized_label(label) for label in labels)


def stuff_ids(names: Mapping[int, str], given: Iterable[str] | None = None) -> frozenset[int]:
    """Classes of ``names`` (class → label) that have no instances.

    ``given`` are their labels. Without them a model with all of COCO's stuff has these, and of any
    other set of labels each is a thing: what stuff is, a list of labels does not tell.
    """
    if given is None:
        known = {name.lower() for name in names.values()}
        given = COCO_STUFF if known >= COCO_STUFF else ()
    wanted = {label.strip().lower() for label in given}
    return frozenset(at for at, name in names.items() if name.strip().lower() in wanted)


def unknown_labels(detector: Detector, labels: Sequence[str]) -> dict[str, str]:
    """Those of ``labels`` that ``detector`` has no class for, each with the reason."""
    words = detector.vocabulary
    if words is None:
        return {}
    unknown = [Unknown("class", label) for label in labels if not words.knows_class(plain(label))]
    return {one.word: f"{detector.id}: {words.reason([one])}" for one in unknown}


REMEMBERED = 32
"""Pictures whose detections are kept; masks make them large."""
_Key = tuple[str, frozenset[str]]


class CachedDetector:
    """Implements :class:`~scenewright.core.ports.vision.Detector` over another.

    Judges and metrics that look for the same labels in one picture share a look, also where they
    ask at the same time. Failures are not kept. The other detector stays its owner's.
    """

    def __init__(self, detector: Detector, remembered: int = REMEMBERED) -> None:
        """``remembered``: pictures whose detections are kept, the latest ones; 1 or more."""
        if remembered < 1:
            raise ValueError(f"remembered is {remembered}: use 1 or more")
        self.detector = detector
        """Who looks."""
        self._remembered = remembered
        self._found: OrderedDict[_Key, tuple[Detection, ...]] = OrderedDict()
        # A lock lives as long as somebody waits for it, so that no event loop meets another's.
        self._locks: WeakValueDictionary[_Key, asyncio.Lock] = WeakValueDictionary()

    @property
    def id(self) -> str:
        """The other's."""
        return self.detector.id

    @property
    def fingerprint(self) -> str:
        """The other's."""
        return self.detector.fingerprint

    @property
    def vocabulary(self) -> ClosedVocabulary | None:
        """The other's."""
        return self.detector.vocabulary

    async def load(self) -> None:
        """Load the other's model now, if it can be loaded ahead."""
        load = getattr(self.detector, "load", None)
        if load is not None:
            await load()

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        """As the port says."""
        key = (await asyncio.to_thread(hash_of_image, image), wanted_of(labels))
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            found = self._found.get(key)
            if found is None:
                found = await self.detector.detect(image, labels)
            self._found[key] = found
            self._found.move_to_end(key)
            while len(self._found) > self._remembered:
                self._found.popitem(last=False)
            return found

    async def aclose(self) -> None:
        """Forget what was seen."""
        self._found.clear()
