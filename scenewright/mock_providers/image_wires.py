"""Forms of the type ``multipart/form-data`` (RFC 7578), as the providers' libraries send them.

One request for a picture, in any provider's format.

OpenAI's images: ``POST /v1/images/generations`` and ``POST /v1/images/edits``.

Gemini's pictures: ``POST /v1beta/models/MODEL:generateContent`` of a model that draws.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.message import Message
from typing import Any, Protocol

from fastapi import Request, Response

from scenewright.agents.judges.pictures import text_tokens
from scenewright.core.images import png_bytes
from scenewright.mock_providers import openai_text
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.generator import (
    MAX_SIDE,
    OWN_SIDE,
    STEPS,
    Wanted,
    drawn,
    known_image_model,
)
from scenewright.mock_providers.models import CREATED
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import Finish, Visit, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.wire import Format, Limits, as_object, as_text, no_streams

MOST_PARTS = 128


@dataclass(frozen=True, slots=True)
class FormField:
    """One field of a form."""

    name: str
    """Its name."""
    data: bytes
    """Its content."""
    is_file: bool
    """Whether it came with a file's name."""

    @property
    def text(self) -> str:
        """The content as text; raises ``Problem`` if it is none."""
        try:
            return self.data.decode("utf-8")
        except UnicodeDecodeError:
            raise Problem.invalid(f"{self.name}: expected text in UTF-8", self.name) from None


def parts_of(body: bytes, content_type: str) -> list[FormField]:
    """Return the fields of a form, in order; raises ``Problem`` if it is none."""
    head = Message()
    head["content-type"] = content_type
    boundary = head.get_param("boundary")
    if head.get_content_type() != "multipart/form-data" or not isinstance(boundary, str):
        raise Problem.invalid("the request is not a form: send multipart/form-data")
    # With a line break before it, the first delimiter reads as all others do.
    pieces = (b"\r\n" + body).split(b"\r\n--" + boundary.encode("utf-8", "replace"))
    if len(pieces) < 2 or not pieces[-1].startswith(b"--"):
        raise Problem.invalid("the form is broken off: its last delimiter is missing")
    if len(pieces) > MOST_PARTS:
        raise Problem.invalid(f"the form has more than {MOST_PARTS} parts")
    return [_part(piece) for piece in pieces[1:-1]]


def _part(piece: bytes) -> FormField:
    # Blanks may follow a delimiter, then a line break, the head, an empty line and the content.
    head, found, data = piece.lstrip(b" \t").partition(b"\r\n\r\n")
    named = Message()
    for line in head.decode("utf-8", "replace").split("\r\n"):
        key, colon, value = line.partition(":")
        if colon and key.strip().lower() == "content-disposition":
            named["content-disposition"] = value.strip().replace("\n", " ")
    name = named.get_param("name", header="content-disposition")
    if not found or not isinstance(name, str):
        raise Problem.invalid("a part of the form has no name")
    is_file = named.get_param("filename", header="content-disposition") is not None
    return FormField(name, data, is_file)


MAX_IMAGES = 16
"""Most pictures in a request."""
_PATCH = 32
POLICY = (
    "Your request was rejected by the safety system. If you believe this is an error, ask for "
    "something else."
)


@dataclass(frozen=True, slots=True)
class Spent:
    """Tokens of a request for a picture."""

    text: int
    """Of its words."""
    images: int
    """Of its pictures."""
    drawn: int
    """Of the picture that came: one for each started square of 32 pixels."""


class ImageForm(Format, Protocol):
    """One provider's format of requests for pictures and their answers."""

    def read(self, visit: Visit, model: str) -> Wanted:
        """Return the request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """
        ...

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of a picture of ``size`` by the provider's published rule."""
        ...

    def reply(self, wanted: Wanted, files: list[bytes], spent: Spent, id: str) -> Any:
        """Return the body of a response; ``id`` is 24 hexadecimal digits."""
        ...

    def refused(self, wanted: Wanted, spent: Spent, id: str) -> Any:
        """Return the body of a response that declines, or a ``Problem``."""
        ...


async def draw(lab: MockProviders, request: Request, form: ImageForm, model: str = "") -> Response:
    """Return the answer of ``lab`` to a request for a picture.

    ``model``: where the address names it.
    """

    async def prepare(visit: Visit) -> Finish:
        if visit.body is None:
            raise Problem("too_large", 413, "the request is too large")
        wanted = form.read(visit, model)
        known_image_model(wanted.model)
        if len(wanted.pictures) > MAX_IMAGES:
            raise Problem.invalid(f"give at most {MAX_IMAGES} images", "image")
        looks = [await lab.pictures.look(file, "image") for file in wanted.pictures]
        width, height = wanted.size or (OWN_SIDE, OWN_SIDE)
        spent = Spent(
            text=text_tokens(wanted.prompt),
            images=sum(form.image_tokens(look.size, False) for look in looks),
            drawn=-(-width // _PATCH) * -(-height // _PATCH),
        )
        visit.charge(spent.text + spent.images)

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            id = visit.chance.id
            if fault is Fault.REFUSAL:
                return form.refused(wanted, spent, id), 0
            if fault is Fault.INVALID_JSON:
                return b'{"created": 17', 0
            image = await drawn(wanted, lab.seeds.next(wanted))
            file = await asyncio.to_thread(png_bytes, image)
            files = _BROKEN[fault](file) if fault in _BROKEN else [file]
            return form.reply(wanted, files, spent, id), spent.drawn

        return finish

    return await lab.serve(request, form, prepare)


_BROKEN: dict[Fault | None, Callable[[bytes], list[bytes]]] = {
    Fault.EMPTY: lambda _: [],
    Fault.TRUNCATED_JSON: lambda file: [file[: len(file) // 2]],
    Fault.OUTSIDE_OPTIONS: lambda _: [b"<html>no picture</html>"],
    Fault.WRONG_NUMBER: lambda file: [file, file],
}
"""What becomes of a picture's file by each fault that an answer of its form can hold."""


MOST_CHARACTERS = 32_000
"""Longest prompt."""
_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_LEAST_SIDE = 16
_REFUSED = "moderation_blocked"


class OpenAIImages:
    """Implements :class:`~scenewright.mock_providers.image_wires.ImageForm`.

    JSON, or a form with pictures.
    """

    name = "openai"

    def __init__(self, edits: bool) -> None:
        """``edits``: whether it is the route that takes pictures."""
        self._edits = edits

    def read(self, visit: Visit, model: str) -> Wanted:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        kind = visit.request.headers.get("content-type", "")
        fields: dict[str, Any]
        pictures: list[bytes] = []
        mask: bytes | None = None
        if self._edits:
            fields = {}
            for part in parts_of(visit.body or b"", kind):
                match part.name.removesuffix("[]"):
                    case "image":
                        pictures.append(part.data)
                    case "mask":
                        mask = part.data
                    case name:
                        fields[name] = part.text
            if not pictures:
                raise Problem.image("image: give at least one", "image")
        else:
            fields = json_object(visit.body)
        return self._wanted(fields, tuple(pictures), mask)

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """As for chat."""
        return openai_text.image_tokens(size, low_detail)

    def reply(self, wanted: Wanted, files: list[bytes], spent: Spent, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        return {
            "created": CREATED,
            "background": "opaque",
            "data": [{"b64_json": base64.b64encode(file).decode()} for file in files],
            "output_format": "png",
            "quality": wanted.quality,
            "size": "x".join(map(str, wanted.size)) if wanted.size else "auto",
            "usage": {
                "input_tokens": spent.text + spent.images,
                "input_tokens_details": {
                    "text_tokens": spent.text,
                    "image_tokens": spent.images,
                },
                "output_tokens": spent.drawn,
                "output_tokens_details": {"image_tokens": spent.drawn, "text_tokens": 0},
                "total_tokens": spent.text + spent.images + spent.drawn,
            },
        }

    def refused(self, wanted: Wanted, spent: Spent, id: str) -> Any:
        """Return an error 400, as OpenAI's moderation gives it."""
        return Problem("invalid", 400, POLICY, param=_REFUSED)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the envelope of an error; that of a refusal has its own type and code."""
        found = openai_text.error_body(problem)
        if problem.param == _REFUSED:
            found["error"] |= {
                "type": "image_generation_user_error", "code": _REFUSED, "param": None
            }  # fmt: skip
        return found

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :mod:`~scenewright.mock_providers.openai_text`."""
        return openai_text.headers(id, problem, account)

    def _wanted(
        self, fields: Mapping[str, Any], pictures: tuple[bytes, ...], mask: bytes | None
    ) -> Wanted:
        streamed = fields.get("stream")
        no_streams({"stream": streamed not in (None, False, "false")})
        if str(fields.get("n") or 1) != "1":
            raise Problem.invalid("n: the mock server draws one image a request", "n")
        prompt = as_text(fields.get("prompt"), "prompt")
        if not prompt.strip() or len(prompt) > MOST_CHARACTERS:
            raise Problem.invalid(f"prompt: give 1 to {MOST_CHARACTERS} characters", "prompt")
        quality = fields.get("quality") or "auto"
        if quality not in STEPS:
            raise Problem.invalid(f"quality: use one of {', '.join(STEPS)}", "quality")
        if fields.get("response_format") not in (None, "b64_json"):
            raise Problem.invalid(
                "response_format: the mock server gives b64_json", "response_format"
            )
        return Wanted(
            model=as_text(fields.get("model"), "model"),
            prompt=prompt,
            size=_openai_size(fields.get("size")),
            quality=quality,
            pictures=pictures,
            mask=mask,
        )


def _openai_size(given: object) -> tuple[int, int] | None:
    if given in (None, "auto"):
        return None
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(_LEAST_SIDE <= side <= MAX_SIDE for side in size):
        raise Problem.invalid(
            f"size: use auto or WIDTHxHEIGHT with sides of {_LEAST_SIDE} to {MAX_SIDE}", "size"
        )
    return size


SHAPES = {
    "1:1": (128, 128),
    "2:3": (104, 156),
    "3:2": (156, 104),
    "3:4": (108, 148),
    "4:3": (148, 108),
    "4:5": (112, 144),
    "5:4": (144, 112),
    "9:16": (96, 168),
    "16:9": (168, 96),
    "21:9": (192, 84),
}
"""Aspect ratio → size in pixels: an eighth of the provider's own at 1K."""
RESOLUTIONS = {"1K": 1, "2K": 2, "4K": 4}
"""Name of a resolution → factor of the size."""


class GeminiImages:
    """Implements :class:`~scenewright.mock_providers.image_wires.ImageForm`."""

    name = "gemini"

    def __init__(self, content: GeminiContent) -> None:
        """``content``: the format that the two routes share."""
        self._content = content

    def read(self, visit: Visit, model: str) -> Wanted:
        """Return the words of the last user turn, and all pictures as references."""
        try:
            body = json.loads(visit.body or b"")
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise Problem.invalid("the body of the request is not a JSON object")
        asked = self._content.read(body, model)
        if not asked.text.strip():
            raise Problem.invalid("contents: the request holds no text", "contents")
        config = as_object(body.get("generationConfig") or {}, "generationConfig")
        kinds = config.get("responseModalities") or ["TEXT", "IMAGE"]
        if not isinstance(kinds, list) or "IMAGE" not in [str(kind).upper() for kind in kinds]:
            raise Problem.invalid("the model draws: ask for the modality IMAGE", "contents")
        return Wanted(
            model=model, prompt=asked.text, size=_gemini_size(config), pictures=asked.images
        )

    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """As for other content."""
        return self._content.image_tokens(size, low_detail)

    def reply(self, wanted: Wanted, files: list[bytes], spent: Spent, id: str) -> Any:
        """One candidate with a part for each picture; without one it says that there is none."""
        parts = [
            {"inlineData": {"mimeType": _kind(file), "data": base64.b64encode(file).decode()}}
            for file in files
        ]
        content: dict[str, Any] = {"role": "model"}
        if parts:
            content["parts"] = parts
        finish = "STOP" if parts else "NO_IMAGE"
        return {
            "candidates": [{"content": content, "finishReason": finish, "index": 0}],
            **_ends(wanted, spent, spent.drawn, id),
        }

    def refused(self, wanted: Wanted, spent: Spent, id: str) -> Any:
        """Return a response whose prompt is blocked."""
        feedback = {"blockReason": "PROHIBITED_CONTENT"}
        return {"promptFeedback": feedback, **_ends(wanted, spent, 0, id)}

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """As for other content."""
        return self._content.problem(problem, id)

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """As for other content."""
        return self._content.headers(id, problem, account)


def _kind(file: bytes) -> str:
    return "image/png" if file.startswith(b"\x89PNG") else "text/html"


def _gemini_size(config: dict[str, Any]) -> tuple[int, int] | None:
    wanted = as_object(config.get("imageConfig") or {}, "imageConfig")
    ratio, resolution = wanted.get("aspectRatio") or "1:1", wanted.get("imageSize") or "1K"
    if ratio not in SHAPES or resolution not in RESOLUTIONS:
        raise Problem.invalid(
            f"imageConfig: use an aspectRatio of {', '.join(SHAPES)} and an imageSize of "
            f"{', '.join(RESOLUTIONS)}",
            "generationConfig.imageConfig",
        )
    width, height = SHAPES[ratio]
    return width * RESOLUTIONS[resolution], height * RESOLUTIONS[resolution]


def _ends(wanted: Wanted, spent: Spent, drawn: int, id: str) -> dict[str, Any]:
    tokens_in = spent.text + spent.images
    usage: dict[str, Any] = {
        "promptTokenCount": tokens_in,
        "totalTokenCount": tokens_in + drawn,
        "promptTokensDetails": [
            {"modality": "TEXT", "tokenCount": spent.text},
            {"modality": "IMAGE", "tokenCount": spent.images},
        ],
    }
    if drawn:
        usage["candidatesTokenCount"] = drawn
        usage["candidatesTokensDetails"] = [{"modality": "IMAGE", "tokenCount": drawn}]
    return {"usageMetadata": usage, "modelVersion": wanted.model, "responseId": id}
