"""From a request for pictures to its runs.

OpenAI's clients send no idempotency key. They send the same body again, with a header that counts
the retries: these join the runs of the first.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Annotated
from weakref import WeakValueDictionary

from fastapi import Header
from PIL import Image

from scenewright.config.options import MAX_TEXT
from scenewright.service.compat.adapter import AcceptedRequest, accept, features_of, obstacles
from scenewright.service.compat.openai_images.bodies import GenerationBody
from scenewright.service.compat.openai_images.errors import ModelNotFound, WrongParameter
from scenewright.service.core.errors import Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.schemas import Door, RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.store import MAX_LISTED, Run

DOOR: Door = "openai"
RetryCount = Annotated[
    str | None,
    Header(
        alias="x-stainless-retry-count",
        max_length=20,
        description="Sent by OpenAI's clients: above 0 the request joins the runs of the same "
        "request before it.",
    ),
]
"""Number of times that a client has sent the request before."""
WITHIN_SECONDS = 3600.0
"""Time after the first request in which its retries join it: the clients wait ten minutes for a
reply and try twice more."""
_TURNS: WeakValueDictionary[tuple[str, str | None, str], asyncio.Lock] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class UploadedImage:
    """A picture to go on from."""

    picture: Image.Image
    """RGB."""
    mask: Image.Image | None = None
    """White where it may change."""


async def ask(
    service: Service,
    identity: Identity,
    body: GenerationBody,
    key: str | None,
    uploaded: UploadedImage | None = None,
    *,
    retries: str | None = None,
) -> AcceptedRequest[GenerationBody]:
    """Take the runs of a request in; ``key``: its idempotency key.

    ``retries``: how often the client says that it has sent the request before; without a key it
    then joins the runs of that. Raises ``ServiceError``, of which ``WrongParameter`` names what is
    wrong.
    """
    if body.stream and body.response_format == "url":
        raise WrongParameter(
            "response_format", "a stream sends its pictures itself: leave response_format out"
        )
    request = await asyncio.to_thread(_request, service, body)
    size, count = body.wanted, body.n or 1
    if uploaded is not None:
        # What is not asked for otherwise comes back as it was sent.
        size = size or uploaded.picture.size
        request = await _begun_with(service, identity, request, uploaded)
    sent = f"{body.model_dump_json()}{request.start}{request.mask}"
    content = hashlib.sha256(sent.encode()).hexdigest()
    # Any client's key fits, and none meets one of another door.
    group = hashlib.sha256(key.encode()).hexdigest() if key else content
    async with _turn(identity, group):
        # A retry may come while its first request is still being taken in.
        if key is None:
            if retries is not None and retries.isascii() and retries.isdecimal() and int(retries):
                joined = await _runs_of_retry(service, identity, group, count)
                if joined is not None:
                    return AcceptedRequest(body, request, joined, size)
            group = f"{group}:{secrets.token_hex(8)}"
        return await accept(
            service,
            identity,
            body,
            request,
            DOOR,
            count=count,
            size=size,
            group=group,
            key=key,
            content=content,
        )


def _request(service: Service, body: GenerationBody) -> RefinementRequest:
    """Return the run that is asked for, by the profile that it names, else by the default one."""
    own, known = body.scenewright, service.profiles()
    named, param = own.profile, "scenewright.profile"
    if named is None and body.model is not None and body.model in known:
        named, param = body.model, "model"
    if named is not None and named not in known:
        raise WrongParameter(
            param,
            f"no profile {named[:100]!r} here: there are {', '.join(sorted(known))}",
            "model_not_found",
        )
    chosen = named or service.default_profile()
    problem = obstacles(service, chosen)[chosen] if chosen in known else None
    if problem:
        raise ModelNotFound(problem, param if named is not None else "model")
    if not own.has_scene and len(body.prompt) > MAX_TEXT:
        raise WrongParameter(
            "prompt", f"the prompt has over {MAX_TEXT} characters: describe one picture"
        )
    try:
        return own.request(service, body.prompt, profile=chosen)
    except Unprocessable as error:
        param = "scenewright" if own.has_scene else "prompt"
        raise WrongParameter(param, error.detail, "invalid_scene") from error


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


@asynccontextmanager
async def _turn(identity: Identity, group: str) -> AsyncIterator[None]:
    """Let equal requests of one caller be taken in one after the other in this process."""
    lock = _TURNS.setdefault((identity.tenant, identity.key_id, group), asyncio.Lock())
    async with lock:
        yield


async def _runs_of_retry(
    service: Service, identity: Identity, group: str, many: int
) -> tuple[Run, ...] | None:
    """Return the ``many`` runs of the caller's newest request of ``group``, in their order.

    None if there is no such request within :data:`WITHIN_SECONDS`, or one of its runs was
    cancelled, as those of a request that was refused are.
    """
    since = time.time() - WITHIN_SECONDS
    before: str | None = None
    found: dict[str, dict[int, Run]] = {}
    while True:
        runs, before = await service.store.list(identity.tenant, before=before, limit=MAX_LISTED)
        for run in runs:
            parts = (run.idempotency_key or "").split(":")
            own = run.door == DOOR and run.key_id == identity.key_id and len(parts) == 4
            if own and parts[1] == group and run.created >= since:
                found.setdefault(parts[2], {})[int(parts[3])] = run
        if before is None or runs[-1].created < since:
            break
    for request in found.values():
        whole = sorted(request) == list(range(many))
        if whole and all(run.status != "cancelled" for run in request.values()):
            return tuple(request[at] for at in range(many))
    return None
