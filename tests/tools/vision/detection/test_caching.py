"""A detector that looks at each picture once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from PIL import Image

from scenewright.core.ports.vision import Detection, DetectionError, Detector
from scenewright.tools.vision.detection.caching import CachedDetector

DOG = Detection("dog", (0, 0, 9, 9))


class Counting:
    """Finds a dog, and counts its looks."""

    id = "counting"
    fingerprint = "counting-1"

    def __init__(self) -> None:
        self.looks: list[tuple[str, ...]] = []
        self.failing = False
        self.closed = False

    vocabulary = None

    async def detect(self, image: Image.Image, labels: Sequence[str] = ()) -> tuple[Detection, ...]:
        self.looks.append(tuple(labels))
        await asyncio.sleep(0)
        if self.failing:
            raise DetectionError("out of memory")
        return (DOG,)

    async def aclose(self) -> None:
        self.closed = True


def picture(shade: int = 0) -> Image.Image:
    return Image.new("RGB", (8, 8), (shade, 0, 0))


async def test_one_look_serves_all_who_ask() -> None:
    inner = Counting()
    kept = CachedDetector(inner)
    assert isinstance(kept, Detector)
    assert (kept.id, kept.fingerprint) == (inner.id, inner.fingerprint)
    found = await asyncio.gather(*(kept.detect(picture(), ["dog", "cat"]) for _ in range(5)))
    assert set(found) == {(DOG,)}
    await kept.detect(picture(), ["cat", "Dog"])
    assert len(inner.looks) == 1
    await kept.detect(picture(), ["dog"])
    await kept.detect(picture(1), ["dog", "cat"])
    assert len(inner.looks) == 3


async def test_failures_are_not_kept() -> None:
    inner = Counting()
    kept = CachedDetector(inner)
    inner.failing = True
    with pytest.raises(DetectionError, match="out of memory"):
        await kept.detect(picture())
    inner.failing = False
    assert await kept.detect(picture()) == (DOG,)


async def test_the_latest_pictures_are_remembered() -> None:
    inner = Counting()
    kept = CachedDetector(inner, remembered=2)
    for shade in (1, 2, 1, 3, 1, 2):
        await kept.detect(picture(shade))
    assert len(inner.looks) == 4
    await kept.aclose()
    assert not inner.closed
    with pytest.raises(ValueError, match="use 1 or more"):
        CachedDetector(inner, remembered=0)


def test_it_serves_one_event_loop_after_another() -> None:
    kept = CachedDetector(Counting())
    for _ in range(2):
        assert asyncio.run(kept.detect(picture())) == (DOG,)
