"""The body of ``/v1/images/edits``: a form with files, or JSON with ``data:`` addresses."""

from __future__ import annotations

import asyncio
import base64
import binascii
import io
import json
import re
from collections.abc import Iterable
from typing import Any

from fastapi import Request
from PIL import Image, ImageOps
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from scenewright.core.images import FORMATS
from scenewright.service.compat.openai_images.asking import UploadedImage
from scenewright.service.compat.openai_images.bodies import EditBody
from scenewright.service.compat.openai_images.errors import WrongParameter, check_type, wrong_fields
from scenewright.service.core.errors import ServiceError, Unprocessable
from scenewright.service.core.pictures import picture_in
from scenewright.service.core.requests import reading_json
from scenewright.service.core.settings import ServiceSettings

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


_FIELDS: dict[str, Any] = EditBody.model_json_schema(ref_template="#/components/schemas/{model}")[
    "properties"
]
_FILE = {"type": "string", "format": "binary"}
_MASK = "A picture of its size, transparent where it may change."
_FORM = {
    "type": "object",
    "required": ["image", "prompt"],
    "properties": {
        **{name: {"type": "string"} for name in _FIELDS},
        "image": {**_FILE, "description": "The picture to go on from."},
        "mask": {**_FILE, "description": _MASK},
        "prompt": _FIELDS["prompt"],
        "scenewright": {
            "type": "string",
            "description": "The extension's fields as JSON, or each as scenewright[FIELD].",
        },
    },
    "patternProperties": {r"^scenewright\[": {"type": "string"}, r"^(image|mask)\[\]$": _FILE},
    "additionalProperties": False,
}
_PLAIN = {
    "type": "object",
    "required": ["images", "prompt"],
    "properties": {
        **_FIELDS,
        "images": {
            "type": "array",
            "minItems": 1,
            "maxItems": 1,
            "items": _DATA_URL,
            "description": "The picture as a data: address.",
        },
        "mask": {**_DATA_URL, "description": _MASK},
    },
    "additionalProperties": False,
}
SCHEMA = {
    "required": True,
    "content": {"multipart/form-data": {"schema": _FORM}, "application/json": {"schema": _PLAIN}},
}
"""The body in the OpenAPI description: both forms, with the fields of ``EditBody``."""


async def read_edit(request: Request, settings: ServiceSettings) -> tuple[EditBody, UploadedImage]:
    """Return the request of an edit, and its picture.

    Raises ``UnsupportedMediaType``, ``WrongParameter`` or ``TooLarge``.
    """
    files: dict[str, list[bytes]] = {"image": [], "mask": []}
    kind = check_type(request, "multipart/form-data", "application/json")
    if kind == "multipart/form-data":
        texts: list[tuple[str, str]] = []
        try:
            async with request.form(max_files=20, max_fields=400) as form:
                for name, value in form.multi_items():
                    if not isinstance(value, UploadFile):
                        texts.append((name, value))
                        continue
                    bare = name.partition("[")[0]
                    if bare not in files:
                        raise WrongParameter(bare, f"{bare} is not a file: leave it out")
                    files[bare].append(await value.read(settings.upload_bytes + 1))
        except HTTPException as error:
            raise WrongParameter(
                None,
                "the form cannot be read: check its boundary and its parts, of which at most 20 "
                "may be files and 400 other fields",
            ) from error
        fields = unfolded(texts)
    else:
        try:
            fields = json.loads(await request.body())
        except (ValueError, RecursionError):
            fields = None
        if not isinstance(fields, dict):
            raise WrongParameter(None, "the body is not a JSON object", "invalid_json")
        given = fields.pop("images", None) or fields.pop("image", None) or []
        mask = fields.pop("mask", None)
        for one in given if isinstance(given, list) else [given]:
            files["image"].append(await asyncio.to_thread(_inline, one, "images"))
        if mask is not None:
            files["mask"].append(await asyncio.to_thread(_inline, mask, "mask"))
    if len(files["image"]) > 1:
        raise WrongParameter("image", "give one picture to go on from, not several")
    if not files["image"]:
        missing = "Missing required parameter: 'image'."
        raise WrongParameter("image", missing, "missing_required_parameter")
    try:
        body = EditBody.model_validate(fields)
    except ValidationError as error:
        raise wrong_fields(error) from error
    picture = await _picture(files["image"][0], settings, "image")
    if not files["mask"]:
        return body, UploadedImage(picture)
    return body, UploadedImage(picture, await _mask(files["mask"][0], picture, settings))


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

    def read() -> Image.Image | None:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            if "A" not in image.getbands() and "transparency" not in image.info:
                return None
            alpha = ImageOps.exif_transpose(image).convert("RGBA").getchannel("A")
        return alpha.point(lambda value: 255 if value < _OPAQUE_FROM else 0)

    mask = await asyncio.to_thread(read)
    if mask is None or mask.getbbox() is None:
        raise WrongParameter(
            "mask",
            "the mask is nowhere transparent: make it transparent where the image may change",
            "invalid_mask",
        )
    return mask


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
        listed = len(path) > 1 and path[-1] == ""
        *outer, last = path[:-1] if listed else path
        if "" in (*outer, last) or len(path) > 8:
            raise WrongParameter(
                path[0], f"{name[:100]!r} is ambiguous in a form: give {path[0]} as JSON"
            )
        place: Any = found
        kinds: list[tuple[str, type]] = [(part, dict) for part in outer]
        for part, kind in [*kinds, (last, list)] if listed else kinds:
            place = place.setdefault(part, kind())
            if not isinstance(place, kind):
                raise WrongParameter(path[0], f"{path[0]} is given in two ways: give it once")
        if listed:
            place.append(value)
        elif last in place:
            raise WrongParameter(path[0], f"{name[:100]!r} is given twice: give it once")
        else:
            place[last] = value
    if isinstance(own := found.get("scenewright"), str):
        try:
            with reading_json("scenewright"):
                found["scenewright"] = json.loads(own)
        except Unprocessable as error:
            raise WrongParameter("scenewright", error.detail) from error
    return found
