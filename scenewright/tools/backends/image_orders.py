"""From a request to what is sent to an image API, and from its picture to what was asked for."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass

from PIL import Image, ImageOps

from scenewright.core.images import png_bytes, to_rgb
from scenewright.core.ports.backend import GenerationRequest
from scenewright.tools.backends.image_models import ImageCaps
from scenewright.tools.backends.image_wire import Order
from scenewright.tools.backends.image_words import Box, words_of

_HALF = 128


@dataclass(frozen=True, slots=True)
class Commission:
    """An order, and how its picture becomes the one that was asked for."""

    order: Order
    """What is sent."""
    size: tuple[int, int]
    """(width, height) in pixels of the result."""
    start: Image.Image | None
    """The picture to change, of that size."""
    mask: Image.Image | None
    """Likewise: white where it may change, black where it stays; None: all of it may."""


def commission(
    request: GenerationRequest,
    size: tuple[int, int],
    caps: ImageCaps,
    quality: str | None,
    load: Callable[[str], Image.Image],
) -> Commission:
    """What is sent for a picture of ``size`` (width, height); ``load`` as of a backend.

    Raises what ``load`` raises.
    """
    served = caps.served(size)
    drawn = (served.width, served.height)
    shown = [one for one in request.references if one.weight > 0]
    references = tuple(png_bytes(_within(load(one.image), caps.picture_side)) for one in shown)
    start = mask = None
    box: Box | None = None
    sent_start = sent_mask = None
    if request.start is not None:
        given = to_rgb(load(request.start.image))
        start = _resized(given, size)
        sent_start = png_bytes(_resized(given, drawn))
        if request.start.mask is not None:
            open_part = load(request.start.mask).convert("L")
            mask = _two_toned(open_part, size)
            box = _box(mask)
            if caps.masks:
                sent_mask = _transparent(_two_toned(open_part, drawn), drawn)
    order = Order(
        prompt=words_of(request, len(references), box, sent_mask is not None),
        size=served,
        quality=quality,
        start=sent_start,
        mask=sent_mask,
        references=references,
    )
    return Commission(order, size, start, mask)


def fitted(image: Image.Image, work: Commission) -> Image.Image:
    """``image`` as it was asked for: of its size, and unchanged where the mask is black.

    A picture of another shape loses what stands over at two sides; one that was made from a
    start picture is stretched back as that was.
    """
    if work.start is None:
        return image if image.size == work.size else _covering(image, work.size)
    image = _resized(image, work.size)
    return image if work.mask is None else Image.composite(image, work.start, work.mask)


def _covering(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return ImageOps.fit(image, size, Image.Resampling.LANCZOS)


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def _within(image: Image.Image, side: int) -> Image.Image:
    if max(image.size) > side:
        image = image.copy()
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    return image


def _two_toned(mask: Image.Image, size: tuple[int, int]) -> Image.Image:
    if mask.size != size:
        mask = mask.resize(size, Image.Resampling.BILINEAR)
    return mask.point(lambda value: 255 if value >= _HALF else 0)


def _box(mask: Image.Image) -> Box:
    """Around what is white; everything where nothing is."""
    left, top, right, bottom = mask.getbbox() or (0, 0, *mask.size)
    width, height = mask.size
    return left / width, top / height, right / width, bottom / height


def _transparent(mask: Image.Image, size: tuple[int, int]) -> bytes:
    """A PNG file that is transparent where ``mask`` is white."""
    cut = Image.new("RGBA", size, (0, 0, 0, 255))
    cut.putalpha(ImageOps.invert(mask))
    buffer = io.BytesIO()
    cut.save(buffer, "PNG", optimize=False, compress_level=6)
    return buffer.getvalue()
