"""Requests for a picture, in any provider's format.

OpenAI's images: ``POST /v1/images/generations`` and ``POST /v1/images/edits``.

Gemini's pictures: ``POST /v1beta/models/MODEL:generateContent`` of a model that draws.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from fastapi import Request, Response
from google.genai import types
from python_multipart import parse_form
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import File

from scenewright.agents.judges.pictures import text_tokens
from scenewright.core.images import png_bytes
from scenewright.mock_providers.faults import Fault
from scenewright.mock_providers.gemini_content import (
    GeminiContent,
    GeminiFormat,
    content_candidate,
    content_reply,
    parsed_content,
)
from scenewright.mock_providers.models import (
    CREATED,
    MAX_SIDE,
    OWN_SIDE,
    STEPS,
    Wanted,
    drawn,
    known_image_model,
    unfinished,
)
from scenewright.mock_providers.openai_text import OpenAIFormat
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.refusals import Place
from scenewright.mock_providers.request_input import Events, Finish, Visit, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.streams import Event
from scenewright.mock_providers.wire import Format, TokenCounts, as_text


def parts_of(body: bytes, content_type: str) -> list[tuple[str, bytes]]:
    """Return the fields of a form (RFC 7578), in order; raises ``Problem`` if it is none."""
    found: list[tuple[str, bytes]] = []

    def take_file(file: File) -> None:
        file.file_object.seek(0)
        found.append(((file.field_name or b"").decode(), file.file_object.read()))

    try:
        parse_form(
            {"Content-Type": content_type.encode()},
            io.BytesIO(body),
            lambda field: found.append(((field.field_name or b"").decode(), field.value or b"")),
            take_file,
        )
    except (FormParserError, UnicodeError) as error:
        raise Problem.invalid(
            f"the request is not a form ({error}): send multipart/form-data"
        ) from None
    return found


MAX_IMAGES = 16
"""Most pictures in a request."""
PARTIAL_TOKENS = 100
"""Output tokens of each partial image, as OpenAI bills it."""
_PATCH = 32
"""Side of the squares of which each that a picture starts is a token."""
POLICY = (
    "Your request was rejected by the safety system. If you believe this is an error, ask for "
    "something else."
)


class ImageForm(Format):
    """One provider's format of requests for pictures and their answers."""

    place: Place
    """Place in the table of refusals."""

    @abstractmethod
    def read(self, visit: Visit, model: str) -> Wanted:
        """Return the request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """

    @abstractmethod
    def image_tokens(self, size: tuple[int, int], low_detail: bool) -> int:
        """Tokens of a picture of ``size`` by the provider's published rule."""

    @abstractmethod
    def reply(self, wanted: Wanted, files: list[bytes], spent: TokenCounts, id: str) -> Any:
        """Return the body of a response; ``id`` is 24 hexadecimal digits."""

    @abstractmethod
    def stream(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts
    ) -> tuple[Event, ...]:
        """Return type and data of the events of a stream; ``shown``: its partial images."""

    @abstractmethod
    def refused(self, wanted: Wanted, spent: TokenCounts, id: str) -> Any:
        """Return the body of a response that declines, or a ``Problem``."""


async def draw(lab: MockProviders, request: Request, form: ImageForm, model: str = "") -> Response:
    """Return the answer of ``lab`` to a request for a picture.

    ``model``: where the address names it.
    """

    async def prepare(visit: Visit) -> Finish:
        if visit.body is None:
            raise Problem("too_large", 413, "the request is too large")
        wanted = form.read(visit, model)
        lab.check(form.place, wanted.fields, wanted.model)
        known_image_model(lab.stand_in(wanted.model))
        if len(wanted.pictures) > MAX_IMAGES:
            raise Problem.invalid(f"give at most {MAX_IMAGES} images", "image")
        looks = [await lab.pictures.look(file, "image") for file in wanted.pictures]
        width, height = wanted.size or (OWN_SIDE, OWN_SIDE)
        of_images = sum(form.image_tokens(look.size, False) for look in looks)
        squares = -(-width // _PATCH) * -(-height // _PATCH)
        spent = TokenCounts(text_tokens(wanted.prompt) + of_images, of_images, squares)
        visit.charge(spent.tokens_in)

        async def finish(fault: Fault | None) -> tuple[Any, int]:
            id = visit.chance.id
            if fault is Fault.REFUSAL:
                return form.refused(wanted, spent, id), 0
            if fault is Fault.INVALID_JSON:
                return b'{"created": 17', 0
            known = replace(wanted, model=lab.stand_in(wanted.model))
            image = await drawn(known, lab.seeds.next(wanted))
            file = await asyncio.to_thread(png_bytes, image)
            files = _BROKEN[fault](file) if fault in _BROKEN else [file]
            if wanted.partial_images is None:
                return form.reply(wanted, files, spent, id), spent.tokens_out
            count = 0 if fault is Fault.NO_PARTIALS else wanted.partial_images
            shown = [
                b"<html>no picture</html>"
                if fault is Fault.BAD_PARTIAL
                else await asyncio.to_thread(png_bytes, unfinished(image, number))
                for number in range(count)
            ]
            paid = replace(spent, tokens_out=spent.tokens_out + count * PARTIAL_TOKENS)
            events = form.stream(wanted, files[:1], shown, paid)
            problem = Problem("server", 500, "The server had an error while drawing.")
            error = {"type": "error"} | form.problem(problem, id)
            return Events(events, fault, ("error", error)), paid.tokens_out

        return finish

    return await lab.serve(request, form, prepare)


_BROKEN: dict[Fault | None, Callable[[bytes], list[bytes]]] = {
    Fault.EMPTY: lambda _: [],
    Fault.TRUNCATED_JSON: lambda file: [file[: len(file) // 2]],
    Fault.OUTSIDE_OPTIONS: lambda _: [b"<html>no picture</html>"],
    Fault.WRONG_NUMBER: lambda file: [file, file],
}
"""Files after each fault that an answer of this form can hold."""


MOST_CHARACTERS = 32_000
"""Longest prompt."""
COMPLEXITIES = ("low", "medium", "high")
"""Words for how much planning goes into a picture; the models here plan nothing."""
_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_LEAST_SIDE = 16
_REFUSED = "moderation_blocked"


class OpenAIImages(OpenAIFormat, ImageForm):
    """JSON, or a form with pictures."""

    def __init__(self, edits: bool) -> None:
        """``edits``: whether it is the route that takes pictures."""
        self._edits = edits
        self.place: Place = "edits" if edits else "images"

    def read(self, visit: Visit, model: str) -> Wanted:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        kind = visit.request.headers.get("content-type", "")
        fields: dict[str, Any]
        pictures: list[bytes] = []
        mask: bytes | None = None
        if self._edits:
            fields = {}
            for name, data in parts_of(visit.body or b"", kind):
                match name.removesuffix("[]"):
                    case "image":
                        pictures.append(data)
                    case "mask":
                        mask = data
                    case _:
                        fields[name] = data.decode("utf-8", "replace")
            if not pictures:
                raise Problem.image("image: give at least one", "image")
        else:
            fields = json_object(visit.body)
        partial = str(fields.get("partial_images") or 0)
        if partial not in ("0", "1", "2", "3"):
            raise Problem.invalid("partial_images: use a number from 0 to 3", "partial_images")
        if fields.get("complexity") not in (None, *COMPLEXITIES):
            raise Problem.invalid(f"complexity: use one of {', '.join(COMPLEXITIES)}", "complexity")
        if str(fields.get("n") or 1) != "1":
            raise Problem.invalid("n: the mock server draws one image a request", "n")
        prompt = as_text(fields.get("prompt"), "prompt")
        if not prompt.strip() or len(prompt) > MOST_CHARACTERS:
            raise Problem.invalid(f"prompt: give 1 to {MOST_CHARACTERS} characters", "prompt")
        size, named = None, fields.get("size")
        if named not in (None, "auto"):
            found = _SIZE.fullmatch(named) if isinstance(named, str) else None
            size = (int(found[1]), int(found[2])) if found else (0, 0)
            if not all(_LEAST_SIDE <= side <= MAX_SIDE for side in size):
                raise Problem.invalid(
                    f"size: use auto or WIDTHxHEIGHT with sides of {_LEAST_SIDE} to {MAX_SIDE}",
                    "size",
                )
        quality = fields.get("quality") or "auto"
        if quality not in STEPS:
            raise Problem.invalid(f"quality: use one of {', '.join(STEPS)}", "quality")
        return Wanted(
            model=as_text(fields.get("model"), "model"),
            prompt=prompt,
            size=size,
            quality=quality,
            pictures=tuple(pictures),
            mask=mask,
            partial_images=int(partial) if fields.get("stream") in (True, "true") else None,
            fields=fields,
        )

    def reply(self, wanted: Wanted, files: list[bytes], spent: TokenCounts, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        details = {"image_tokens": spent.tokens_out, "text_tokens": 0}
        return {
            "created": CREATED,
            "background": "opaque",
            "data": [_file(file) for file in files],
            "output_format": "png",
            "size": _size_name(wanted),
            "usage": _openai_usage(spent) | {"output_tokens_details": details},
        }

    def stream(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts
    ) -> tuple[Event, ...]:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        kind = "image_edit" if self._edits else "image_generation"
        about: dict[str, Any] = {
            "background": "opaque",
            "created_at": CREATED,
            "output_format": "png",
            "quality": wanted.quality,
            "size": _size_name(wanted),
        }
        sent = [
            about | {"type": f"{kind}.partial_image", "partial_image_index": number, **_file(file)}
            for number, file in enumerate(shown)
        ]
        ended = {"type": f"{kind}.completed", "usage": _openai_usage(spent)}
        sent += [about | ended | _file(file) for file in files]
        return tuple((event["type"], event) for event in sent)

    def refused(self, wanted: Wanted, spent: TokenCounts, id: str) -> Any:
        """Return an error 400, as OpenAI's moderation gives it."""
        return Problem("invalid", 400, POLICY, param=_REFUSED)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """Return the envelope of an error; that of a refusal has its own type and code."""
        found = super().problem(problem, id)
        if problem.param == _REFUSED:
            found["error"] |= {
                "type": "image_generation_user_error", "code": _REFUSED, "param": None
            }  # fmt: skip
        return found


def _base64(file: bytes) -> str:
    return base64.b64encode(file).decode()


def _file(file: bytes) -> dict[str, str]:
    return {"b64_json": _base64(file)}


def _size_name(wanted: Wanted) -> str:
    return "x".join(map(str, wanted.size)) if wanted.size else "auto"


def _openai_usage(spent: TokenCounts) -> dict[str, Any]:
    text = spent.tokens_in - spent.image_tokens
    return {
        "input_tokens": spent.tokens_in,
        "input_tokens_details": {"text_tokens": text, "image_tokens": spent.image_tokens},
        "output_tokens": spent.tokens_out,
        "total_tokens": spent.tokens_in + spent.tokens_out,
    }


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


class GeminiImages(GeminiFormat, ImageForm):
    """Content of a model that draws."""

    place: Place = "gemini"

    def read(self, visit: Visit, model: str) -> Wanted:
        """Return the words of the last user turn, and all pictures as references."""
        body = json_object(visit.body)
        config = parsed_content(body).generation_config
        asked = GeminiContent().read(body, model)
        if not asked.text.strip():
            raise Problem.invalid("contents: the request holds no text", "contents")
        if types.Modality.IMAGE not in (config.response_modalities or [types.Modality.IMAGE]):
            raise Problem.invalid("the model draws: ask for the modality IMAGE", "contents")
        wanted = config.image_config
        ratio, resolution = wanted.aspect_ratio or "1:1", wanted.image_size or "1K"
        if ratio not in SHAPES or resolution not in RESOLUTIONS:
            raise Problem.invalid(
                f"imageConfig: use an aspectRatio of {', '.join(SHAPES)} and an imageSize of "
                f"{', '.join(RESOLUTIONS)}",
                "generationConfig.imageConfig",
            )
        width, height = (side * RESOLUTIONS[resolution] for side in SHAPES[ratio])
        size = width, height
        return Wanted(model, asked.text, size, pictures=asked.images, fields=body)

    def reply(self, wanted: Wanted, files: list[bytes], spent: TokenCounts, id: str) -> Any:
        """One candidate with a part for each picture; without one it says that there is none."""
        parts = []
        for file in files:
            kind = "image/png" if file.startswith(b"\x89PNG") else "text/html"
            parts.append({"inlineData": {"data": _base64(file), "mimeType": kind}})
        candidate = content_candidate(parts) | {"finishReason": "STOP" if parts else "NO_IMAGE"}
        drawn = [{"modality": "IMAGE", "tokenCount": spent.tokens_out}]
        return content_reply(candidate, wanted.model, id, spent, drawn)

    def stream(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts
    ) -> tuple[Event, ...]:
        """Raise ``Problem``: Gemini's image models show no partial images."""
        raise Problem.invalid("the mock server does not stream Gemini's pictures")

    def refused(self, wanted: Wanted, spent: TokenCounts, id: str) -> Any:
        """Return a response whose prompt is blocked."""
        return content_reply(None, wanted.model, id, replace(spent, tokens_out=0))
