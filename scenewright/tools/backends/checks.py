"""What a backend refuses before it draws."""

from __future__ import annotations

import math

from scenewright.core.ports.backend import BackendError, BackendFeatures, GenerationRequest, Start
from scenewright.tools.backends.model_folder import ModelFolder


def check(
    request: GenerationRequest, features: BackendFeatures, folder: ModelFolder, name: str
) -> None:
    """Raises ``BackendError`` if a backend of such ``features`` cannot serve ``request``.

    ``name`` is the backend's id and ``folder`` its model's.
    """
    multiple = folder.multiple
    count = len(request.references)
    if count and not features.references:
        raise BackendError(f"{name} takes no references: give it an IP-Adapter or leave them out")
    if count > features.references:
        raise BackendError(
            f"{count} references were given, {name} takes at most {features.references}: "
            "give fewer or raise max_references"
        )
    if not all(math.isfinite(reference.weight) for reference in request.references):
        raise BackendError("the weight of a reference is not a finite number: give one")
    if any(reference.mask for reference in request.references) and not features.masks:
        raise BackendError(f"{name} takes no masks of references: leave 'mask' out")
    if any(reference.schedule for reference in request.references) and not features.schedules:
        raise BackendError(f"{name} keeps the weights of references: leave 'schedule' out")
    if request.emphasis and not features.emphasis:
        raise BackendError(f"{name} cannot weigh words of the prompt: leave 'emphasis' out")
    if request.start is not None:
        _check_start(request.start, request, features, folder)
    width, height = request.width, request.height
    if (width is None) != (height is None):
        raise BackendError("only one of width and height is given: give both or none")
    for side, which in ((width, "width"), (height, "height")):
        if side is not None and side % multiple:
            raise BackendError(
                f"the {which} {side} is no multiple of {multiple} pixels, which {name} "
                f"needs: use {-(-side // multiple) * multiple}"
            )


def _check_start(
    start: Start, request: GenerationRequest, features: BackendFeatures, folder: ModelFolder
) -> None:
    if start.instruct and not features.instructions:
        raise BackendError(
            f"{folder.pipeline_class} does not edit by instruction: leave 'instruct' out, "
            "or use a Flux Kontext or Qwen-Image-Edit model"
        )
    if not start.instruct and not features.edit:
        raise BackendError(
            f"{folder.pipeline_class} cannot start from a picture: leave 'start' out, "
            "or use a Stable Diffusion 1.5, SDXL, Kolors, SD3 or Flux model"
        )
    if request.references and not start.instruct and features.reference_maths == "pictures":
        raise BackendError(
            f"{folder.pipeline_class} sees references only where the prompt is an instruction: "
            "set 'instruct' in 'start', or leave the references out"
        )
