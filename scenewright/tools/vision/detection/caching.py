"""A detector that looks at each picture once, whoever asks."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from weakref import WeakValueDictionary

from PIL import Image

from scenewright.core.closed_vocabulary import ClosedVocabulary
from scenewright.core.images import hash_of_image
from scenewright.core.ports.vision import Detection, Detector
from scenewright.tools.vision.detection.labels import normalized_labels

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
        """The detector."""
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
        key = (await asyncio.to_thread(hash_of_image, image), normalized_labels(labels))
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
