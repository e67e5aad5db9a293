"""What every detector must do, whatever stands behind it.

A test module makes a subclass of :class:`DetectorConformance` with a fixture ``detector`` that sees
at least one thing in :func:`picture` among :data:`LABELS`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from PIL import Image

from scenewright.core.images import ImageError
from scenewright.core.ports.vision import Detection, DetectionError, Detector
from scenewright.tools.vision.detection.labels import normalized_label

LABELS = ("dog", "cat", "sky")


def picture(size: tuple[int, int] = (80, 48)) -> Image.Image:
    """Noise with a red square in it; the same pixels each time."""
    width, height = size
    noise = np.random.default_rng(0).integers(0, 255, (height, width, 3), dtype=np.uint8)
    image = Image.fromarray(noise)
    image.paste((250, 20, 10), (width // 8, height // 5, width // 2, height * 4 // 5))
    return image


def check(found: tuple[Detection, ...], image: Image.Image) -> None:
    """Detections lie inside of ``image``, by score, and their masks inside of their boxes."""
    assert isinstance(found, tuple)
    assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
    for one in found:
        left, top, right, bottom = one.box
        assert 0 <= left < right <= image.width
        assert 0 <= top < bottom <= image.height
        assert 0 <= one.score <= 1
        assert one.name
        if one.mask is not None:
            assert one.mask.dtype == np.bool_
            assert one.mask.shape == (image.height, image.width)
            rows, columns = np.nonzero(one.mask)
            assert rows.size
            assert top - 1 < rows.min()
            assert rows.max() < bottom + 1
            assert left - 1 < columns.min()
            assert columns.max() < right + 1


def plainly(found: tuple[Detection, ...]) -> list[Any]:
    """What of detections can be compared."""
    return [(one, None if one.mask is None else np.packbits(one.mask).tobytes()) for one in found]


class DetectorConformance:
    """Inherit and give a fixture ``detector``."""

    def test_is_a_detector(self, detector: Detector) -> None:
        assert isinstance(detector, Detector)
        kind, _, model = detector.id.partition(":")
        assert kind
        assert model
        assert detector.fingerprint == detector.fingerprint
        assert len(detector.fingerprint) == 64

    async def test_detections_fit_their_picture(self, detector: Detector) -> None:
        found = await detector.detect(picture(), LABELS)
        assert found
        check(found, picture())

    async def test_the_same_picture_gives_the_same_detections(self, detector: Detector) -> None:
        first, second = await asyncio.gather(
            detector.detect(picture(), LABELS), detector.detect(picture(), LABELS)
        )
        assert plainly(first) == plainly(second)

    async def test_the_picture_stays_as_it_is(self, detector: Detector) -> None:
        image = picture()
        await detector.detect(image, LABELS)
        assert image.tobytes() == picture().tobytes()

    async def test_only_the_labels_asked_for_are_given(self, detector: Detector) -> None:
        for label in LABELS:
            found = await detector.detect(picture(), [label.upper()])
            assert {normalized_label(one.name) for one in found} <= {label}

    async def test_without_labels_it_gives_all_or_says_that_it_needs_some(
        self, detector: Detector
    ) -> None:
        if getattr(detector, "open_vocabulary", False):
            with pytest.raises(DetectionError, match="labels"):
                await detector.detect(picture())
        else:
            found = await detector.detect(picture())
            check(found, picture())
            assert {one.name for one in found} >= {
                one.name for one in await detector.detect(picture(), LABELS)
            }

    async def test_an_image_that_cannot_be_read_is_told(self, detector: Detector) -> None:
        with pytest.raises(ImageError):
            await detector.detect(Image.new("F", (8, 8)), LABELS)
