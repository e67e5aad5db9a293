"""What every extractor must do, whatever stands behind it.

A test module makes a subclass of :class:`ExtractorConformance` with fixtures ``extractor``, which
sees something in ``image``, and ``broken``, whose models fail.
"""

from __future__ import annotations

import asyncio

import pytest
from PIL import Image

from scenewright.core.images import ImageError
from scenewright.core.ports.vision import Extraction, ExtractionError, GraphExtractor
from scenewright.core.questions import facts_of
from tests.tools.vision.extraction.extraction_doubles import picture


def check(found: Extraction, size: tuple[int, int]) -> None:
    """Places and confidences are of the scene, and what was left out says why."""
    ids = {item.id for item in found.scene.objects}
    assert set(found.things) <= ids
    assert set(found.confidence) <= {fact.id for fact in facts_of(found.scene)}
    assert all(0.0 <= value <= 1.0 for value in found.confidence.values())
    for thing in found.things.values():
        left, top, right, bottom = thing.box
        assert 0 <= left < right <= size[0]
        assert 0 <= top < bottom <= size[1]
    assert all(one.what and one.reason for one in found.dropped)
    assert all(one.reason for one in found.unread)
    assert {end for one in found.unread for end in one.objects} <= ids
    assert found.complete == (not found.unread) == (not found.reason)


class ExtractorConformance:
    """Inherit and bring the fixtures."""

    @pytest.fixture
    def image(self) -> Image.Image:
        """A picture in which the extractor sees something."""
        return picture()

    async def test_it_gives_a_graph_that_fits_together(
        self, extractor: GraphExtractor, image: Image.Image
    ) -> None:
        assert isinstance(extractor, GraphExtractor)
        found = await extractor.extract(image)
        assert found.scene
        check(found, image.size)

    async def test_it_says_the_same_again_and_leaves_the_picture_alone(
        self, extractor: GraphExtractor, image: Image.Image
    ) -> None:
        before = image.tobytes()
        first, second = await asyncio.gather(extractor.extract(image), extractor.extract(image))
        assert first == second
        assert image.tobytes() == before

    async def test_it_takes_pictures_of_any_mode(
        self, extractor: GraphExtractor, image: Image.Image
    ) -> None:
        plain = await extractor.extract(image)
        assert (await extractor.extract(image.convert("RGBA"))).scene == plain.scene

    async def test_a_picture_without_a_range_is_told(self, extractor: GraphExtractor) -> None:
        with pytest.raises(ImageError, match="range"):
            await extractor.extract(Image.new("F", (8, 8)))

    async def test_it_has_a_name_and_a_steady_fingerprint(self, extractor: GraphExtractor) -> None:
        assert extractor.id
        assert extractor.fingerprint
        assert extractor.fingerprint == extractor.fingerprint

    async def test_models_that_say_nothing_are_told(
        self, broken: GraphExtractor, image: Image.Image
    ) -> None:
        with pytest.raises(ExtractionError):
            await broken.extract(image)

    async def test_it_can_be_closed_twice(self, extractor: GraphExtractor) -> None:
        await extractor.aclose()
        await extractor.aclose()
