"""Checks of a request against the features of a backend, before anything is drawn."""

from __future__ import annotations

from scenewright.core.ports.backend import BackendError, BackendFeatures, GenerationRequest


def check_request(
    request: GenerationRequest,
    features: BackendFeatures,
    name: str,
    *,
    references_advice: str,
    boxes_advice: str = "",
) -> None:
    """Raise ``BackendError`` for what a backend of such ``features`` cannot do.

    ``name`` is the backend's id. Start pictures are not checked.
    """
    if (request.width is None) != (request.height is None):
        raise BackendError("only one of width and height is given: give both or none")
    count, most = len(request.references), features.references
    if count > most:
        raise BackendError(
            f"{count} references were given, {name} takes at most {most}: {references_advice}"
        )
    if any(reference.mask for reference in request.references) and not features.masks:
        raise BackendError(f"{name} takes no masks of references: leave 'mask' out")
    if any(reference.schedule for reference in request.references):
        raise BackendError("weights of references by schedule were removed: leave 'schedule' out")
    if request.emphasis:
        raise BackendError("emphasis on words of a prompt was removed: leave 'emphasis' out")
    if request.boxes and not features.boxes:
        raise BackendError(f"{name} takes no boxes: leave 'boxes' out{boxes_advice}")
