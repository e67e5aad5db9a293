"""From a request for pictures to runs."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import dataclass, replace

from PIL import Image

from scenewright.service.compat.openai_images.bodies import GenerationBody, ModelNote
from scenewright.service.compat.openai_images.errors import WrongParameter
from scenewright.service.core.drawn_sizes import drawn_size, features_of
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import submit_all
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.scenes import scene_of
from scenewright.service.core.schemas import MAX_TEXT, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import Run


@dataclass(frozen=True, slots=True)
class UploadedImage:
    """A picture to go on from."""

    picture: Image.Image
    """RGB."""
    mask: Image.Image | None = None
    """White where it may change."""


@dataclass(frozen=True, slots=True)
class AcceptedRequest:
    """A request that was taken in."""

    body: GenerationBody
    """What was asked."""
    runs: tuple[Run, ...]
    """One a picture."""
    model: ModelNote
    """Which models are at work."""
    size: tuple[int, int] | None
    """(width, height) to send pictures at; none: as they were drawn."""
    start: str | None = None
    """Content hash of the picture that they go on from."""


async def ask(
    service: Service,
    identity: Identity,
    body: GenerationBody,
    key: str | None,
    uploaded: UploadedImage | None = None,
) -> AcceptedRequest:
    """Take the runs of a request in; ``key``: its idempotency key.

    Raises ``ServiceError``, of which ``WrongParameter`` names what is wrong.
    """
    if body.stream and body.response_format == "url":
        raise WrongParameter(
            "response_format", "a stream sends its pictures itself: leave response_format out"
        )
    model = await asyncio.to_thread(_model, service, body)
    request = await asyncio.to_thread(_request, body, model)
    size = body.wanted
    if uploaded is not None:
        # What is not asked for otherwise comes back as it was sent.
        size = size or uploaded.picture.size
        request = await _begun_with(service, identity, request, uploaded)
    if size is not None:
        features = await features_of(service, request)
        drawn = drawn_size(size, features)
        if drawn is not None:
            request = request.model_copy(update={"width": drawn[0], "height": drawn[1]})
    requests = [
        request.model_copy(update={"seed": request.seed + at, "idempotency_key": _key(key, at)})
        for at in range(body.n or 1)
    ]
    runs = await submit_all(service, identity, requests, "openai")
    return AcceptedRequest(body, tuple(runs), model, size, request.start)


def with_runs(asked: AcceptedRequest, runs: list[Run]) -> AcceptedRequest:
    """``asked`` with its runs as they stand now."""
    return replace(asked, runs=tuple(runs))


def _model(service: Service, body: GenerationBody) -> ModelNote:
    known = profiles_of(service.base, service.settings.profiles)
    named = body.scenewright.profile
    if named is not None:
        if named not in known:
            raise WrongParameter(
                "scenewright.profile",
                f"no profile {named!r} here: there are {', '.join(sorted(known))}",
                "model_not_found",
            )
        return ModelNote(asked=body.model, profile=named, known=True)
    if body.model is not None and body.model in known:
        return ModelNote(asked=body.model, profile=body.model, known=True)
    default = service.base.profile
    if default not in known and known:
        # The service's own default may not be asked for: the first that may.
        default = next(iter(known))
    return ModelNote(asked=body.model, profile=default, known=False)


def _request(body: GenerationBody, model: ModelNote) -> RefinementRequest:
    own = body.scenewright
    if own.scene is not None and own.triplets is not None:
        raise WrongParameter("scenewright", "give the scene once: as scene or as triplets")
    if own.scene is None and own.triplets is None and len(body.prompt) > MAX_TEXT:
        raise WrongParameter(
            "prompt", f"the prompt has over {MAX_TEXT} characters: describe one picture"
        )
    request = RefinementRequest(
        scene=own.scene,
        triplets=own.triplets,
        text=body.prompt if own.scene is None and own.triplets is None else None,
        profile=model.profile,
        **own.model_dump(exclude={"scene", "triplets", "profile", "cancel_on_disconnect"}),
    )
    try:
        scene = scene_of(request)
    except Unprocessable as error:
        param = "prompt" if request.text is not None else "scenewright"
        raise WrongParameter(param, error.detail, "invalid_scene") from error
    return request.model_copy(update={"scene": scene, "text": None, "triplets": None})


async def _begun_with(
    service: Service, identity: Identity, request: RefinementRequest, uploaded: UploadedImage
) -> RefinementRequest:
    if uploaded.mask is not None and not (await features_of(service, request)).edit:
        raise WrongParameter(
            "mask",
            f"the model of the profile {request.profile!r} cannot keep a part of a picture: leave "
            "the mask out, or name a profile whose model inpaints",
            "mask_not_supported",
        )

    def keep() -> tuple[str, str | None]:
        start = service.uploads.keep(identity.tenant, uploaded.picture)
        mask = uploaded.mask and service.uploads.keep(identity.tenant, uploaded.mask)
        return start, mask or None

    start, mask = await asyncio.to_thread(keep)
    return request.model_copy(update={"start": start, "mask": mask})


def _key(key: str | None, at: int) -> str | None:
    if key is None:
        return None
    # Any client's key fits, and none meets one of another door.
    return f"openai:{hashlib.sha256(key.encode()).hexdigest()}:{at}"
