"""Rated objects in small pictures, for tests of scorers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PIL import Image

from scenewright.core.ports.vision import Detection, ObjectRealism
from scenewright.tools.vision.realism.examples import Example
from tests.doubles import painted

BOX = (20.0, 10.0, 60.0, 50.0)


def example(
    folder: Path, name: str, shape: float, texture: float, category: str = "dog"
) -> Example:
    """An example whose picture's red channel is ten times its shape, its green that of texture."""
    place = folder / f"{name}.png"
    if not place.exists():
        painted((80, 60), (int(10 * shape), int(10 * texture), 0)).save(place)
    return Example(name, place, category, BOX, shape, texture)


class PixelScorer:
    """Reads scores off the first pixel: what ``said`` makes of red and green."""

    id = "pixel:a"

    def __init__(
        self, said: Callable[[float, float], ObjectRealism], fingerprint: str = "pixel-1"
    ) -> None:
        self._said = said
        self.fingerprint = fingerprint
        self.calls: list[tuple[Detection, ...]] = []
        self.closed = False

    async def score(self, image: Image.Image, objects: Sequence[Detection]) -> list[ObjectRealism]:
        self.calls.append(tuple(objects))
        red, green = image.convert("RGB").getpixel((0, 0))[:2]  # type: ignore[index]
        return [self._said(red / 10, green / 10) for _ in objects]

    async def aclose(self) -> None:
        self.closed = True
