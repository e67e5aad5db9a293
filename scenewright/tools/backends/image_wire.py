"""From a generation request to what is sent to an image API, and from its picture to the result.

A request with pictures is put into words for a model that takes everything in its prompt: the
first paragraph is the request's own prompt, as it is; the notes follow after an empty line.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

from PIL import Image, ImageOps

from scenewright.core.images import png_bytes, to_rgb
from scenewright.core.ports.backend import GenerationRequest, LoadImage
from scenewright.providers.clients.images import ImageRequest
from scenewright.tools.backends.image_models import ImageCaps

_HALF = 128
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


def compose_prompt(
    request: GenerationRequest, references: int, box: Box | None, masked: bool
) -> str:
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


@dataclass(frozen=True, slots=True)
class PreparedRequest:
    """A request to a provider, and how its picture becomes the one that was asked for."""

    request: ImageRequest
    """Request to the provider."""
    size: tuple[int, int]
    """(width, height) in pixels of the result."""
    start: Image.Image | None
    """The picture to change, of that size."""
    mask: Image.Image | None
    """Mask of that size: white where it may change, black where it stays; None: all may."""


def prepare_request(
    request: GenerationRequest,
    size: tuple[int, int],
    caps: ImageCaps,
    load: LoadImage,
    *,
    partial_images: int = 0,
    **words: str | None,
) -> PreparedRequest:
    """Return the request for a picture of ``size`` (width, height); ``load`` as of a backend.

    ``words``: the provider's words for ``quality`` and ``complexity``; None: not sent. Raises what
    ``load`` raises.
    """
    served = caps.served(size)
    drawn = (served.width, served.height)
    shown = [one for one in request.references if one.weight > 0]
    pictures = []
    for one in shown:
        picture = load(one.image).copy()
        if max(picture.size) > caps.picture_side:
            picture.thumbnail((caps.picture_side, caps.picture_side), Image.Resampling.LANCZOS)
        pictures.append(png_bytes(picture))
    start = mask = None
    box: Box | None = None
    sent_mask = None
    if request.start is not None:
        given = to_rgb(load(request.start.image))
        start = _resized(given, size)
        pictures.insert(0, png_bytes(_resized(given, drawn)))
        if request.start.mask is not None:
            open_part = load(request.start.mask).convert("L")
            mask = _two_toned(open_part, size)
            # Around what is white; everything where nothing is.
            left, top, right, bottom = mask.getbbox() or (0, 0, *size)
            box = left / size[0], top / size[1], right / size[0], bottom / size[1]
            if caps.masks:
                # The file is transparent where the mask is white.
                cut = Image.new("RGBA", drawn, (0, 0, 0, 255))
                cut.putalpha(ImageOps.invert(_two_toned(open_part, drawn)))
                buffer = io.BytesIO()
                cut.save(buffer, "PNG", optimize=False, compress_level=6)
                sent_mask = buffer.getvalue()
    sent = ImageRequest(
        prompt=compose_prompt(request, len(shown), box, sent_mask is not None),
        width=served.width,
        height=served.height,
        ratio=served.ratio,
        resolution=served.resolution,
        pictures=tuple(pictures),
        mask=sent_mask,
        parameters={
            **caps.parameters,
            **{name: word for name, word in words.items() if word is not None},
            **(caps.edit_parameters if pictures else {}),
        },
        partial_images=partial_images,
    )
    return PreparedRequest(sent, size, start, mask)


def fit_result(image: Image.Image, work: PreparedRequest) -> Image.Image:
    """``image`` as it was asked for: of its size, and unchanged where the mask is black.

    A picture of another shape loses what stands over at two sides; one that was made from a
    start picture is stretched back as that was.
    """
    if work.start is None:
        return (
            image
            if image.size == work.size
            else ImageOps.fit(image, work.size, Image.Resampling.LANCZOS)
        )
    image = _resized(image, work.size)
    return image if work.mask is None else Image.composite(image, work.start, work.mask)


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image if image.size == size else image.resize(size, Image.Resampling.LANCZOS)


def _two_toned(mask: Image.Image, size: tuple[int, int]) -> Image.Image:
    if mask.size != size:
        mask = mask.resize(size, Image.Resampling.BILINEAR)
    return mask.point(lambda value: 255 if value >= _HALF else 0)
