"""From a request for pictures to runs.

The body of ``/v1/images/edits``: a form with files, or JSON with ``data:`` addresses.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import io
import json
import re
import secrets
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from fastapi import Request
from PIL import Image, ImageOps
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from scenewright.config.options import MAX_TEXT
from scenewright.core.images import FORMATS
from scenewright.service.compat.openai_images.bodies import EditBody, GenerationBody, ModelNote
from scenewright.service.compat.openai_images.errors import (
    ModelNotFound,
    WrongParameter,
    check_type,
    wrong_fields,
)
from scenewright.service.compat.openai_images.retries import DOOR, runs_of_retry, turn
from scenewright.service.compat.runnable import check_runnable
from scenewright.service.core.errors import ServiceError, Unprocessable
from scenewright.service.core.identity import Identity
from scenewright.service.core.outcomes import drawn_at, features_of, submit_all
from scenewright.service.core.pictures import picture_in
from scenewright.service.core.requests import profiles_of
from scenewright.service.core.schemas import RefinementRequest
from scenewright.service.core.service import Service
from scenewright.service.core.settings import ServiceSettings
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
    """Body of the request."""
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
    *,
    retry: bool = False,
) -> AcceptedRequest:
    """Take the runs of a request in; ``key``: its idempotency key.

    ``retry``: the client says that it has sent the request before; without a key it then joins the
    runs of that. Raises ``ServiceError``, of which ``WrongParameter`` names what is wrong.
    """
    if body.stream and body.response_format == "url":
        raise WrongParameter(
            "response_format", "a stream sends its pictures itself: leave response_format out"
        )
    model = await asyncio.to_thread(_model, service, body)
    request = await asyncio.to_thread(_request, service, body, model)
    size = body.wanted
    if uploaded is not None:
        # What is not asked for otherwise comes back as it was sent.
        size = size or uploaded.picture.size
        request = await _begun_with(service, identity, request, uploaded)
    if size is not None:
        request = drawn_at(request, size, await features_of(service, request))
    many = body.n or 1
    sent = f"{body.model_dump_json()}{request.start}{request.mask}"
    content = hashlib.sha256(sent.encode()).hexdigest()
    # Any client's key fits, and none meets one of another door.
    group = hashlib.sha256(key.encode()).hexdigest() if key else content
    async with turn(identity, group):
        # A retry may come while its first request is still being taken in.
        runs: list[Run] | None = None
        if key is None:
            runs = await runs_of_retry(service, identity, group, many) if retry else None
            group = f"{group}:{secrets.token_hex(8)}"
        if runs is None:
            requests = [
                request.model_copy(
                    update={
                        "seed": request.seed + at,
                        "idempotency_key": f"{DOOR}:{group}:{at}",
                    }
                )
                for at in range(many)
            ]
            runs = await submit_all(service, identity, requests, DOOR, key, content)
    return AcceptedRequest(body, tuple(runs), model, size, request.start)


def with_current_runs(asked: AcceptedRequest, runs: list[Run]) -> AcceptedRequest:
    """``asked`` with its runs as they stand now."""
    return replace(asked, runs=tuple(runs))


def _model(service: Service, body: GenerationBody) -> ModelNote:
    known = profiles_of(service.base, service.settings.profiles)
    named, param = body.scenewright.profile, "scenewright.profile"
    if named is None and body.model is not None and body.model in known:
        named, param = body.model, "model"
    if named is not None and named not in known:
        raise WrongParameter(
            param,
            f"no profile {named[:100]!r} here: there are {', '.join(sorted(known))}",
            "model_not_found",
        )
    chosen = named or service.base.profile
    if chosen not in known and known:
        # The service's own default may not be asked for: the first that may.
        chosen = next(iter(known))
    problem = check_runnable(service, chosen) if chosen in known else None
    if problem is not None:
        raise ModelNotFound(problem, param if named is not None else "model")
    return ModelNote(asked=body.model, profile=chosen, known=named is not None)


def _request(service: Service, body: GenerationBody, model: ModelNote) -> RefinementRequest:
    own = body.scenewright
    if not own.has_scene and len(body.prompt) > MAX_TEXT:
        raise WrongParameter(
            "prompt", f"the prompt has over {MAX_TEXT} characters: describe one picture"
        )
    try:
        return own.request(service, body.prompt, profile=model.profile)
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


_FIELD = re.compile(r"([^\[\]]+)((?:\[[^\[\]]*\])*)")
_PARTS = re.compile(r"\[([^\[\]]*)\]")
_DATA = re.compile(r"data:image/[a-z0-9.+-]+;base64,(.*)", re.DOTALL | re.IGNORECASE)
_OPAQUE_FROM = 128
"""Alpha below which a mask's pixel lets the picture change."""

_DATA_URL = {
    "type": "object",
    "required": ["image_url"],
    "properties": {"image_url": {"type": "string", "pattern": "^data:image/"}},
}


def _schema() -> dict[str, Any]:
    """Return the OpenAPI description of the body: both forms, with the fields of ``EditBody``."""
    whole = EditBody.model_json_schema(ref_template="#/components/schemas/{model}")
    fields: dict[str, Any] = whole["properties"]
    file = {"type": "string", "format": "binary"}
    told = "A picture of its size, transparent where it may change."
    form = {
        "type": "object",
        "required": ["image", "prompt"],
        "properties": {
            **{name: {"type": "string"} for name in fields},
            "image": {**file, "description": "The picture to go on from."},
            "mask": {**file, "description": told},
            "prompt": fields["prompt"],
            "scenewright": {
                "type": "string",
                "description": "The extension's fields as JSON, or each as scenewright[FIELD].",
            },
        },
        "patternProperties": {
            r"^scenewright\[": {"type": "string"},
            r"^(image|mask)\[\]$": file,
        },
        "additionalProperties": False,
    }
    plain = {
        "type": "object",
        "required": ["images", "prompt"],
        "properties": {
            **fields,
            "images": {
                "type": "array",
                "minItems": 1,
                "maxItems": 1,
                "items": _DATA_URL,
                "description": "The picture as a data: address.",
            },
            "mask": {**_DATA_URL, "description": told},
        },
        "additionalProperties": False,
    }
    content = {
        "multipart/form-data": {"schema": form},
        "application/json": {"schema": plain},
    }
    return {"required": True, "content": content}


SCHEMA = _schema()
"""The body in the OpenAPI description."""


async def read_edit(request: Request, settings: ServiceSettings) -> tuple[EditBody, UploadedImage]:
    """Return the request of an edit, and its picture.

    Raises ``UnsupportedMediaType``, ``WrongParameter`` or ``TooLarge``.
    """
    kind = check_type(request, "multipart/form-data", "application/json")
    if kind == "multipart/form-data":
        fields, pictures, masks = await _form(request, settings)
    else:
        fields, pictures, masks = await _json(request)
    if len(pictures) != 1:
        if pictures:
            raise WrongParameter("image", "give one picture to go on from, not several")
        missing = "Missing required parameter: 'image'."
        raise WrongParameter("image", missing, "missing_required_parameter")
    try:
        body = EditBody.model_validate(fields)
    except ValidationError as error:
        raise wrong_fields(error) from error
    picture = await _picture(pictures[0], settings, "image")
    mask = await _mask(masks[0], picture, settings) if masks else None
    return body, UploadedImage(picture, mask)


async def _form(
    request: Request, settings: ServiceSettings
) -> tuple[dict[str, Any], list[bytes], list[bytes]]:
    pictures: list[bytes] = []
    masks: list[bytes] = []
    texts: list[tuple[str, str]] = []
    try:
        async with request.form(max_files=20, max_fields=400) as form:
            for name, value in form.multi_items():
                if isinstance(value, UploadFile):
                    bare = name.partition("[")[0]
                    if bare not in ("image", "mask"):
                        raise WrongParameter(bare, f"{bare} is not a file: leave it out")
                    into = pictures if bare == "image" else masks
                    into.append(await value.read(settings.upload_bytes + 1))
                else:
                    texts.append((name, value))
    except HTTPException as error:
        raise WrongParameter(
            None,
            "the form cannot be read: check its boundary and its parts, of which at most 20 may be "
            "files and 400 other fields",
        ) from error
    return unfolded(texts), pictures, masks


async def _json(request: Request) -> tuple[dict[str, Any], list[bytes], list[bytes]]:
    try:
        fields = json.loads(await request.body())
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise WrongParameter(None, "the body is not a JSON object", "invalid_json")
    given = fields.pop("images", None) or fields.pop("image", None) or []
    shown = given if isinstance(given, list) else [given]
    mask = fields.pop("mask", None)
    pictures = [await asyncio.to_thread(_inline, one, "images") for one in shown]
    masks = [] if mask is None else [await asyncio.to_thread(_inline, mask, "mask")]
    return fields, pictures, masks


def _inline(given: object, param: str) -> bytes:
    """Return the file in a ``data:`` address, or in an object that has one as ``image_url``."""
    address = given.get("image_url") if isinstance(given, dict) else given
    found = _DATA.fullmatch(address) if isinstance(address, str) else None
    if found is None:
        raise WrongParameter(
            param,
            "give the picture itself, as a data:image/png;base64,… address: nothing is fetched "
            "from elsewhere",
        )
    try:
        return base64.b64decode(found[1], validate=True)
    except (binascii.Error, ValueError):
        raise WrongParameter(param, "the data: address holds no base64") from None


async def _picture(data: bytes, settings: ServiceSettings, param: str) -> Image.Image:
    try:
        return await picture_in(data, settings, f"the {param}")
    except ServiceError as error:
        if error.status != 422:
            raise
        raise WrongParameter(param, error.detail, "invalid_image") from error


async def _mask(data: bytes, picture: Image.Image, settings: ServiceSettings) -> Image.Image:
    """White where ``data``, a picture of the size of ``picture``, is transparent."""
    # Read once within the limits; only then are its pixels looked at again with their alpha.
    plain = await _picture(data, settings, "mask")
    if plain.size != picture.size:
        raise WrongParameter(
            "mask",
            f"the mask has {plain.width}x{plain.height} pixels and the image "
            f"{picture.width}x{picture.height}: give both in one size",
            "invalid_mask",
        )
    mask = await asyncio.to_thread(_transparent, data)
    if mask is None or mask.getbbox() is None:
        raise WrongParameter(
            "mask",
            "the mask is nowhere transparent: make it transparent where the image may change",
            "invalid_mask",
        )
    return mask


def _transparent(data: bytes) -> Image.Image | None:
    with Image.open(io.BytesIO(data), formats=FORMATS) as image:
        if "A" not in image.getbands() and "transparency" not in image.info:
            return None
        alpha = ImageOps.exif_transpose(image).convert("RGBA").getchannel("A")
    return alpha.point(lambda value: 255 if value < _OPAQUE_FROM else 0)


def unfolded(texts: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """Fields of a form, with those of the extension put together.

    The client writes ``{"a": {"b": 1, "c": [2]}}`` as ``a[b]=1`` and ``a[c][]=2``. Objects in
    lists cannot be told apart so; ``scenewright`` may be given as JSON instead. Raises
    ``WrongParameter``.
    """
    found: dict[str, Any] = {}
    for name, value in texts:
        key = _FIELD.fullmatch(name)
        if key is None:
            raise WrongParameter(name[:100], f"{name[:100]!r} is not the name of a field")
        path = [key[1], *_PARTS.findall(key[2])]
        _put(found, path, value, name)
    own = found.get("scenewright")
    if isinstance(own, str):
        try:
            found["scenewright"] = json.loads(own)
        except json.JSONDecodeError as error:
            raise WrongParameter(
                "scenewright", f"scenewright is not valid JSON: look at character {error.pos + 1}"
            ) from error
        except (ValueError, RecursionError) as error:
            raise WrongParameter(
                "scenewright",
                "scenewright is not valid JSON: it is nested too deep, or a number in it has too "
                "many digits",
            ) from error
    return found


def _put(found: dict[str, Any], path: list[str], value: str, name: str) -> None:
    *outer, last = path
    listed = last == "" and len(path) > 1
    if listed:
        *outer, last = outer
    if "" in (*outer, last) or len(path) > 8:
        raise WrongParameter(
            path[0], f"{name[:100]!r} is ambiguous in a form: give {path[0]} as JSON"
        )
    place = found
    for part in outer:
        inner = place.setdefault(part, {})
        if not isinstance(inner, dict):
            raise WrongParameter(path[0], f"{path[0]} is given in two ways: give it once")
        place = inner
    if listed:
        inner = place.setdefault(last, [])
        if not isinstance(inner, list):
            raise WrongParameter(path[0], f"{path[0]} is given in two ways: give it once")
        inner.append(value)
    elif last in place:
        raise WrongParameter(path[0], f"{name[:100]!r} is given twice: give it once")
    else:
        place[last] = value
