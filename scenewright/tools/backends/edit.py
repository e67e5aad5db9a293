"""Pictures that a pipeline sees beside the prompt: edits by instruction, and references.

Families such as Flux Kontext and Qwen-Image-Edit take pictures in place of an IP-Adapter. The
prompt says what to change in them, or what of them to show; weights have no effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from PIL import Image

from scenewright.core.ports.backend import BackendError, Reference, Start
from scenewright.tools.backends.families import EditForm, Latents
from scenewright.tools.backends.inpaint import Kept, picture_of


class Editor:
    """The edit pipeline, and the form of it that draws without a picture."""

    def __init__(
        self, pipe: Any, drawing: Any, form: EditForm, latents: Latents, multiple: int
    ) -> None:
        """``drawing`` is the pipeline of the same parts that draws without a picture;
        ``multiple``: sides of pictures must be multiples of this many pixels."""
        self._pipe = pipe
        self._form = form
        self._latents = latents
        self._multiple = multiple
        self._drawing = drawing

    def begin(
        self,
        start: Start | None,
        references: Sequence[Reference],
        load: Callable[[str], Image.Image],
        size: tuple[int, int],
        seed: int,
    ) -> tuple[Any, dict[str, Any], Kept | None]:
        """The pipeline to call, the options that carry the pictures, and what of them stays.

        ``size`` is (width, height) in pixels of what is drawn. A picture to edit comes first, at
        that size; a reference keeps its shape, at most as large. Raises ``BackendError`` if there
        are more pictures than the pipeline sees at once.
        """
        pictures, kept = [], None
        if start is not None:
            pictures.append(picture_of(start.image, load, size))
            if start.mask is not None:
                mask = load(start.mask).convert("L").resize(size)
                kept = Kept(self._pipe, pictures[0], mask, seed, self._latents)
        pictures += [self._fitted(load(one.image), size) for one in references if one.weight != 0]
        most = self._form.pictures
        if most is not None and len(pictures) > most:
            raise BackendError(
                f"{type(self._pipe).__name__} sees {most} picture at once, {len(pictures)} were "
                "given: leave the references out, or the picture to edit"
            )
        options: dict[str, Any] = {}
        if self._form.sized:
            options |= {"max_area": size[0] * size[1], "_auto_resize": False}
        if not pictures:
            return self._drawing, options, None
        options["image"] = pictures if self._form.listed else pictures[0]
        return self._pipe, options, kept

    def _fitted(self, picture: Image.Image, size: tuple[int, int]) -> Image.Image:
        picture, multiple = picture.convert("RGB"), self._multiple
        scale = min(1.0, (size[0] * size[1] / (picture.width * picture.height)) ** 0.5)
        fitted = (
            max(multiple, round(picture.width * scale / multiple) * multiple),
            max(multiple, round(picture.height * scale / multiple) * multiple),
        )
        return (
            picture if picture.size == fitted else picture.resize(fitted, Image.Resampling.LANCZOS)
        )
