"""Image generators of the mock providers.

The miniature's generator through the port of backends, and ``instant-image``, which paints a
pattern from a hash.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from PIL import Image, ImageOps

from scenewright.config.profiles import BackendSpec
from scenewright.core.images import ImageError, hash_of_image, read_image
from scenewright.core.ports.backend import BackendError, GenerationRequest, Reference, Start
from scenewright.mock_providers.models import GENERATORS, model_alias
from scenewright.mock_providers.problems import Problem
from scenewright.runs.model_factory.profiles import backend_of

if TYPE_CHECKING:
    from scenewright.core.ports.backend import ImageBackend

MINIATURE = "miniature"
INSTANT = "instant-image"
IMAGE_MODELS: dict[str, str] = {
    MINIATURE: "miniature generator: draws 128 pixels square and scales that",
    INSTANT: "paints a pattern at once, from a hash of all that it is given",
}
"""Name → what it is."""
OWN_SIDE = 128
"""Sides of what the models draw, in pixels; an answer of another size is that, scaled."""
MAX_SIDE = 2048
"""Longest side of an answer."""
STEPS = {"low": 8, "medium": 16, "auto": 20, "high": 28, "xhigh": 40, "max": 50}
"""Quality → denoising steps of the miniature."""
_REFERENCE_WEIGHT = 0.6
_MASKED_STRENGTH = 0.8
_CELLS = 8
_KNOWN = 65_536


@dataclass(frozen=True, slots=True)
class Wanted:
    """A picture that is asked for, whichever provider's format it came in."""

    model: str
    """The model's name as given."""
    prompt: str
    """What it shows."""
    size: tuple[int, int] | None = None
    """(width, height) in pixels; none: the model's own."""
    quality: str = "auto"
    """A key of :data:`STEPS`."""
    pictures: tuple[bytes, ...] = ()
    """Files: the one to change first if there is a mask, else references all of them."""
    mask: bytes | None = None
    """A file, transparent where the first picture may change."""
    partial_images: int | None = None
    """Pictures to show of it while it is drawn, in a stream; none: no stream is wanted."""

    @property
    def digest(self) -> bytes:
        """SHA-256 of all of it."""
        digest = hashlib.sha256(f"{self.model}\0{self.size}\0{self.quality}\0".encode())
        digest.update(self.prompt.encode("utf-8", "replace"))
        for file in (*self.pictures, self.mask or b""):
            digest.update(hashlib.sha256(file).digest())
        return digest.digest()


class Seeds:
    """Another seed each time that the same picture is asked for.

    A provider's models know no seed. So that a mock's answers can still be repeated, the seed comes
    of the mock server's own, of the request, and of how often that was asked before.
    """

    def __init__(self, seed: int, *, same: bool = False) -> None:
        """``seed``: the mock server's; ``same``: equal requests have equal seeds all the same."""
        self._seed = seed
        self._same = same
        self._asked: OrderedDict[bytes, int] = OrderedDict()

    def next(self, wanted: Wanted) -> int:
        """Return the seed of the next picture of ``wanted``."""
        digest = wanted.digest
        count = self._asked[digest] = 1 if self._same else self._asked.pop(digest, 0) + 1
        if len(self._asked) > _KNOWN:
            self._asked.popitem(last=False)
        mixed = hashlib.sha256(f"{self._seed}:{count}:".encode() + digest).digest()
        return int.from_bytes(mixed[:7], "big")


def image_model(model: str) -> str | None:
    """Which model of :data:`IMAGE_MODELS` answers for ``model``; none if it is no such name."""
    name = model.rpartition("/")[2]
    return name if name in IMAGE_MODELS else model_alias(name, GENERATORS)


def known_image_model(model: str) -> str:
    """As :func:`image_model`; raises ``Problem`` if it is no such name."""
    found = image_model(model)
    if found is None:
        known = ", ".join((*IMAGE_MODELS, *GENERATORS))
        raise Problem("unknown_model", 404, f"{model} (there are {known})", param="model")
    return found


async def drawn(wanted: Wanted, seed: int) -> Image.Image:
    """Return the picture, of the size asked for.

    Raises ``Problem`` if it cannot be drawn.
    """
    name = known_image_model(wanted.model)
    size = wanted.size or (OWN_SIDE, OWN_SIDE)
    pictures = [await asyncio.to_thread(_read, file, "image") for file in wanted.pictures]
    kept = mask = None
    if wanted.mask is not None:
        if not pictures:
            raise Problem.invalid("a mask needs an image", "mask")
        mask = await asyncio.to_thread(_mask_of, wanted.mask, pictures[0].size)
        kept = pictures.pop(0)
    if name == INSTANT:
        image = _pattern(wanted.digest + seed.to_bytes(8, "big"))
    else:
        image = await _painted(wanted, seed, pictures, kept, mask)
    image = image.resize(size, Image.Resampling.BICUBIC) if image.size != size else image
    if kept is None or mask is None:
        return image
    return Image.composite(image, kept.resize(size), mask.resize(size))


async def _painted(
    wanted: Wanted,
    seed: int,
    references: list[Image.Image],
    kept: Image.Image | None,
    mask: Image.Image | None,
) -> Image.Image:
    store: dict[str, Image.Image] = {}

    def put(image: Image.Image) -> str:
        name = hash_of_image(image)
        store[name] = image
        return name

    start = None
    if kept is not None and mask is not None:
        start = Start(image=put(kept), mask=put(mask), strength=_MASKED_STRENGTH)
    backend = await asyncio.to_thread(_backend)
    shown = references[: backend.features.references]
    # What follows the first paragraph is written for models that can read more than captions.
    prompt = wanted.prompt.strip().partition("\n\n")[0]
    request = GenerationRequest(
        prompt=prompt or "nothing",
        seed=seed,
        steps=STEPS[wanted.quality],
        references=tuple(Reference(image=put(one), weight=_REFERENCE_WEIGHT) for one in shown),
        start=start,
    )
    try:
        return (await backend.generate(request, store.__getitem__)).image
    except BackendError as error:
        raise Problem("server", 500, str(error)) from error


def unfinished(image: Image.Image, number: int) -> Image.Image:
    """Return ``image`` as coarse as partial image ``number``, from 0, shows it."""
    cells = _CELLS << number
    coarse = image.resize((cells, cells), Image.Resampling.BOX)
    return coarse.resize(image.size, Image.Resampling.NEAREST)


def _backend() -> ImageBackend:
    return backend_of(BackendSpec(model=MINIATURE))


def _pattern(seed: bytes) -> Image.Image:
    pixels = hashlib.shake_256(seed).digest(_CELLS * _CELLS * 3)
    cells = Image.frombytes("RGB", (_CELLS, _CELLS), pixels)
    return cells.resize((OWN_SIDE, OWN_SIDE), Image.Resampling.NEAREST)


def _read(file: bytes, param: str) -> Image.Image:
    try:
        return read_image(file, "the image")
    except ImageError as error:
        raise Problem.image(str(error), param) from None


def _mask_of(file: bytes, size: tuple[int, int]) -> Image.Image:
    """White where the picture may change."""
    _read(file, "mask")
    with Image.open(io.BytesIO(file)) as image:
        if "A" not in image.getbands():
            raise Problem.image("the mask has no transparent part: give a PNG with alpha", "mask")
        if image.size != size:
            raise Problem.image("the mask and the image differ in size", "mask")
        return ImageOps.invert(image.getchannel("A"))
