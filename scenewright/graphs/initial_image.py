"""A loop that begins with a given picture, and the part of it that may change.

The picture is the candidate of round 0: it is judged as if it had been drawn, and repaired from
there. With a mask every repair starts from the best picture and keeps it where the mask is black.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image, ImageChops

from scenewright.config.options import LoopOptions
from scenewright.core.images import ImageError, ImageStore, hash_of_image, load_image
from scenewright.core.ports.backend import ImageBackend, Start
from scenewright.graphs.errors import RunError
from scenewright.graphs.strategies.base import GenerationOverrides, RoundContext


@dataclass(frozen=True, slots=True)
class InitialImage:
    """Pictures that come with a run, RGB; they are kept in its folder before it begins."""

    start: Image.Image | None = None
    """Image to begin with."""
    mask: Image.Image | None = None
    """White where that may change."""

    @property
    def hashes(self) -> dict[str, str]:
        """Their content hashes, as options of the loop."""
        found = {"start": self.start, "mask": self.mask}
        return {name: hash_of_image(one) for name, one in found.items() if one is not None}


def load_initial_image(
    start: Image.Image | str | Path | None, mask: Image.Image | str | Path | None
) -> InitialImage:
    """Return the pictures, read where they are files.

    Raises ``RunError`` for a mask without a picture or of another size, for a mask that lets
    nothing change, and for what is not a picture.
    """
    try:
        found = InitialImage(_read(start), _read(mask))
    except ImageError as error:
        raise RunError(str(error)) from error
    if found.mask is None:
        return found
    if found.start is None:
        raise RunError("a mask needs the picture that it belongs to: give start as well")
    if found.mask.size != found.start.size:
        raise RunError(
            f"the mask has {'×'.join(map(str, found.mask.size))} pixels and the picture "
            f"{'×'.join(map(str, found.start.size))}: give both in one size"
        )
    if found.mask.convert("L").getbbox() is None:
        raise RunError("the mask lets nothing change: make it white where the picture may change")
    return found


def check_initial_image(options: LoopOptions, backend: ImageBackend) -> None:
    """Raise ``RunError`` if a part of the picture is to stay and ``backend`` cannot keep it."""
    if options.mask is not None and not backend.features.edit:
        raise RunError(
            f"{backend.id} cannot keep a part of a picture: leave the mask out, or use a model "
            "that inpaints"
        )


def store_initial_image(given: InitialImage, options: LoopOptions, images: ImageStore) -> None:
    """Put the pictures where the loop finds them; ``RunError`` if one is neither given nor there.

    Safe to repeat: a picture that is there stays as it is.
    """
    for name, one, digest in (
        ("start", given.start, options.start),
        ("mask", given.mask, options.mask),
    ):
        if one is not None:
            images.put(one)
        elif digest is not None and not images.sound(digest):
            raise RunError(
                f"the picture that the run was given as {name} is lost from {images.folder}: "
                "ask for the run again with the same picture"
            )


def within_mask(redrawn: GenerationOverrides, round_context: RoundContext) -> GenerationOverrides:
    """``redrawn`` kept to the mask of the run, if there is one.

    What would be drawn from noise alone then starts from the best picture; of a start picture
    with a mask of its own only what both let change does, or all that the run's mask lets change
    where that is nothing.
    """
    mask = round_context.options.mask
    if mask is None:
        return redrawn
    start = redrawn.start or Start(image=round_context.best, strength=1.0)
    if start.mask is not None:
        images = round_context.images
        own = images.get(start.mask).convert("L")
        ours = images.get(mask).convert("L").resize(own.size, Image.Resampling.NEAREST)
        both = ImageChops.darker(own, ours)
        if both.getbbox() is not None:
            mask = images.put(both)
    return replace(redrawn, start=start.model_copy(update={"mask": mask}))


def _read(picture: Image.Image | str | Path | None) -> Image.Image | None:
    if picture is None or isinstance(picture, Image.Image):
        return picture
    return load_image(picture)
