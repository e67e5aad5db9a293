"""What the wires of all image APIs have in common: an order, a drawing, a client a loop.

How a request with pictures is put into words for a model that is told all in its prompt.

The first paragraph is the request's own prompt, as it is; the notes follow after an empty line.

From a request to what is sent to an image API, and from its picture to what was asked for.
"""

from __future__ import annotations

import io
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from PIL import Image, ImageOps

from scenewright.core.images import png_bytes, to_rgb
from scenewright.core.ports.backend import GenerationRequest
from scenewright.providers.retry import Decision
from scenewright.providers.sdk_clients import SdkWire
from scenewright.providers.usage import Usage
from scenewright.tools.backends.image_models import ImageCaps, Served

Box = tuple[float, float, float, float]
"""Left, top, right, bottom, as shares of width and height."""

DRAFT = (
    "The first picture is a draft of this scene. Draw it again so that it shows everything that "
    "is described above, and keep what is right already."
)
OPEN_PART = (
    "The first picture is a draft of this scene. Draw anew only {part}, so that the whole picture "
    "shows everything that is described above. Keep the rest exactly as it is."
)
ORDERED = "This says what to change in the first picture. Keep everything else exactly as it is."
ORDERED_PART = (
    "This says what to change in the first picture. Change only {part}. Keep the rest exactly as "
    "it is."
)
MASKED = "the part that the mask leaves transparent"
BOXED = (
    "the region from {left}% to {right}% of the width (from the left) and from {top}% to "
    "{bottom}% of the height (from the top)"
)
SHOWN_ONE = "The {place} picture shows something of the scene: let it look like that."
SHOWN_MORE = "The {place} {count} pictures show things of the scene: let them look like that."
AVOID = "Leave out: {words}"

WORDING = (DRAFT, OPEN_PART, ORDERED, ORDERED_PART, MASKED, BOXED, SHOWN_ONE, SHOWN_MORE, AVOID)
"""All words, for fingerprints."""


def words_of(request: GenerationRequest, references: int, box: Box | None, masked: bool) -> str:
    """Return the prompt of ``request`` as it is sent, with notes on its pictures.

    ``references``: how many are shown. ``box``: where the start picture may change, if only a
    part of it may; ``masked``: the model is given that as a mask, else it is told here.
    """
    notes: list[str] = []
    start = request.start
    if start is not None and box is None:
        notes.append(ORDERED if start.instruct else DRAFT)
    elif start is not None and box is not None:
        left, top, right, bottom = (round(100 * share) for share in box)
        part = BOXED.format(left=left, top=top, right=right, bottom=bottom)
        part = f"{MASKED}: {part}" if masked else part
        notes.append((ORDERED_PART if start.instruct else OPEN_PART).format(part=part))
    if references:
        place = "last" if start is not None else "first" if references > 1 else "given"
        text = SHOWN_ONE if references == 1 else SHOWN_MORE
        notes.append(text.format(place=place, count=references))
    if request.negative_prompt.strip():
        notes.append(AVOID.format(words=request.negative_prompt.strip()))
    return "\n\n".join((request.prompt, " ".join(notes))) if notes else request.prompt


C = TypeVar("C")

MAX_BYTES = 64 * 2**20
"""Largest file of a picture that is taken from a provider."""


@dataclass(frozen=True, slots=True, repr=False)
class Order:
    """A picture as it is ordered from a provider; all files are PNG."""

    prompt: str
    """Its words."""
    size: Served
    """What is asked for."""
    quality: str | None = None
    """The provider's word for how much work goes into it."""
    start: bytes | None = None
    """The picture to change."""
    mask: bytes | None = None
    """As large as ``start``: transparent where that may change."""
    references: tuple[bytes, ...] = ()
    """Pictures of things to be seen in it."""
    complexity: str | None = None
    """The provider's word for how much planning goes into it."""
    partial_images: int = 0
    """Most pictures that are wanted of it while it is drawn."""

    @property
    def pictures(self) -> tuple[bytes, ...]:
        """All of them, the one to change first."""
        return (*(() if self.start is None else (self.start,)), *self.references)


@dataclass(frozen=True, slots=True, repr=False)
class Drawn:
    """What came back."""

    data: bytes
    """A file."""
    usage: Usage
    """What it took."""
    request_id: str = ""
    """How the provider names the request."""


ShowPartial = Callable[[int, bytes], Awaitable[None]]
"""Takes a partial image: its number, from 0, and its file, which may be broken."""


class ImageWire(SdkWire[ImageCaps, C]):
    """How one provider's model is asked for a picture; C is the client."""

    @abstractmethod
    async def draw(self, order: Order, show: ShowPartial) -> Drawn:
        """Return one attempt; ``show`` gets the order's partial images as they come.

        Raises ``UnusableReply`` for a refusal or a reply without a picture, or what the provider's
        SDK raises.
        """

    @abstractmethod
    def classify(self, error: Exception) -> Decision:
        """Return the call decision for an error of :meth:`draw`; its reason holds no secret."""


def too_large(length: int) -> str:
    """Why a file of ``length`` bytes is not taken."""
    return f"the picture's file has {length} bytes or more, the limit is {MAX_BYTES}"


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


def order_for(
    request: GenerationRequest,
    size: tuple[int, int],
    caps: ImageCaps,
    load: Callable[[str], Image.Image],
    **chosen: Any,
) -> Commission:
    """Return the order for a picture of ``size`` (width, height); ``load`` as of a backend.

    ``chosen``: further fields of the order. Raises what ``load`` raises.
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
        start=sent_start,
        mask=sent_mask,
        references=references,
        **chosen,
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
    """Return a PNG file that is transparent where ``mask`` is white."""
    cut = Image.new("RGBA", size, (0, 0, 0, 255))
    cut.putalpha(ImageOps.invert(mask))
    buffer = io.BytesIO()
    cut.save(buffer, "PNG", optimize=False, compress_level=6)
    return buffer.getvalue()
