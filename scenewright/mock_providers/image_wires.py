"""Requests for a picture, in any provider's format.

OpenAI's images: ``POST /v1/images/generations`` and ``POST /v1/images/edits``.

Gemini's pictures: ``POST /v1beta/models/MODEL:generateContent`` of a model that draws.
"""

from __future__ import annotations

import asyncio
import base64
import io
import re
from abc import ABC, abstractmethod
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
    parsed_content,
)
from scenewright.mock_providers.models import (
    CREATED,
    MAX_SIDE,
    OWN_SIDE,
    Wanted,
    drawn,
    known_image_model,
    unfinished,
)
from scenewright.mock_providers.openai_text import OpenAIFormat
from scenewright.mock_providers.problems import ABSENT, Problem
from scenewright.mock_providers.refusals import table
from scenewright.mock_providers.request_input import Events, Finish, Visit, json_object
from scenewright.mock_providers.server import MockProviders
from scenewright.mock_providers.streams import named_events
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
_NO_PICTURE = b"<html>no picture</html>"
_PATCH = 32
"""Side of the squares of which each that a picture starts is a token."""


class ImageForm(Format, ABC):
    """One provider's format of requests for pictures and their answers."""

    @abstractmethod
    def read(self, visit: Visit, model: str) -> Wanted:
        """Return the request; ``model`` is that of the address, if it stands there.

        Raises ``Problem`` for what cannot be read.
        """

    @abstractmethod
    def reply(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts, id: str
    ) -> Any:
        """Return the body of a response, or the events of a stream, which begins with ``shown``.

        ``id`` is 24 hexadecimal digits.
        """

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
        if len(wanted.images) > MAX_IMAGES:
            raise Problem.invalid(f"give at most {MAX_IMAGES} images", "image")
        width, height = wanted.size or (OWN_SIDE, OWN_SIDE)
        squares = -(-width // _PATCH) * -(-height // _PATCH)
        _, spent = await lab.measure(form, wanted, text_tokens(wanted.prompt), squares)
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
                return form.reply(wanted, files, [], spent, id), spent.tokens_out
            count = 0 if fault is Fault.NO_PARTIALS else wanted.partial_images
            shown = [
                _NO_PICTURE
                if fault is Fault.BAD_PARTIAL
                else await asyncio.to_thread(png_bytes, unfinished(image, number))
                for number in range(count)
            ]
            paid = replace(spent, tokens_out=spent.tokens_out + count * PARTIAL_TOKENS)
            events = form.reply(wanted, files[:1], shown, paid, id)
            problem = Problem.server("The server had an error while drawing.")
            error = {"type": "error"} | form.problem(problem, id)
            return Events(events, fault, ("error", error)), paid.tokens_out

        return finish

    return await lab.serve(request, form, prepare)


_BROKEN: dict[Fault | None, Callable[[bytes], list[bytes]]] = {
    Fault.EMPTY: lambda _: [],
    Fault.TRUNCATED_JSON: lambda file: [file[: len(file) // 2]],
    Fault.OUTSIDE_OPTIONS: lambda _: [_NO_PICTURE],
    Fault.WRONG_NUMBER: lambda file: [file, file],
}
"""Files after each fault that an answer of this form can hold."""


MOST_CHARACTERS = 32_000
"""Longest prompt."""
_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_LEAST_SIDE = 16


class OpenAIImages(OpenAIFormat, ImageForm):
    """JSON, or a form with pictures."""

    def __init__(self, edits: bool) -> None:
        """``edits``: whether it is the route that takes pictures."""
        self.place = "edits" if edits else "images"

    def read(self, visit: Visit, model: str) -> Wanted:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        kind = visit.request.headers.get("content-type", "")
        fields: dict[str, Any]
        pictures: list[bytes] = []
        mask: bytes | None = None
        if self.place == "edits":
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
        return Wanted(
            model=as_text(fields.get("model"), "model"),
            prompt=prompt,
            size=size,
            quality=fields.get("quality") or "auto",
            images=tuple(pictures),
            mask=mask,
            partial_images=int(fields.get("partial_images") or 0)
            if fields.get("stream") in (True, "true")
            else None,
            fields=fields,
        )

    def reply(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts, id: str
    ) -> Any:
        """See :class:`~scenewright.mock_providers.image_wires.ImageForm`."""
        encoded = [base64.b64encode(file).decode() for file in (*shown, *files)]
        streams = wanted.partial_images is not None
        details = ABSENT if streams else self.shaped("image_details", spent)
        told: dict[str, Any] = {
            "created": CREATED,
            "size": "x".join(map(str, wanted.size)) if wanted.size else "auto",
            "usage": self.shaped("image_usage", spent, details=details),
        }
        if not streams:
            return self.shaped("images", **told, data=[{"b64_json": file} for file in encoded])
        told["kind"] = "image_edit" if self.place == "edits" else "image_generation"
        return named_events(
            self.shaped(
                "partial_image" if number < len(shown) else "completed_image",
                **told,
                quality=wanted.quality,
                number=number,
                file=file,
            )
            for number, file in enumerate(encoded)
        )

    def refused(self, wanted: Wanted, spent: TokenCounts, id: str) -> Any:
        """Return an error 400, as OpenAI's moderation gives it."""
        return Problem("moderated", 400, "")


class GeminiImages(GeminiFormat, ImageForm):
    """Content of a model that draws."""

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
        ratios, factors = table().aspect_ratios, table().resolutions
        if ratio not in ratios or resolution not in factors:
            raise Problem.invalid(
                f"imageConfig: use an aspectRatio of {', '.join(ratios)} and an imageSize of "
                f"{', '.join(factors)}",
                "generationConfig.imageConfig",
            )
        width, height = (side * factors[resolution] for side in ratios[ratio])
        size = width, height
        return Wanted(model, asked.text, size, images=asked.images, fields=body)

    def reply(
        self, wanted: Wanted, files: list[bytes], shown: list[bytes], spent: TokenCounts, id: str
    ) -> Any:
        """One candidate with a part for each picture; without one it says that there is none."""
        parts = []
        for file in files:
            kind = "image/png" if file.startswith(b"\x89PNG") else "text/html"
            data = base64.b64encode(file).decode()
            parts.append({"inlineData": {"data": data, "mimeType": kind}})
        finish = "STOP" if parts else "NO_IMAGE"
        drawn = self.shaped("drawn", spent)
        return self.content(parts, finish, wanted.model, id, spent, details=drawn)

    def refused(self, wanted: Wanted, spent: TokenCounts, id: str) -> Any:
        """Return a response whose prompt is blocked."""
        return self.blocked(wanted.model, id, spent)
