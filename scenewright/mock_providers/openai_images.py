"""OpenAI's images: ``POST /v1/images/generations`` and ``POST /v1/images/edits``."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from typing import Any

from scenewright.mock_providers import openai_common
from scenewright.mock_providers.drawing import POLICY, Spent
from scenewright.mock_providers.generator import MAX_SIDE, STEPS, Wanted
from scenewright.mock_providers.models import CREATED
from scenewright.mock_providers.multipart import parts_of
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import Visit, json_object
from scenewright.mock_providers.wire import Limits, as_text, no_streams

MOST_CHARACTERS = 32_000
"""Longest prompt."""
_SIZE = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")
_LEAST_SIDE = 16
_REFUSED = "moderation_blocked"


class OpenAIImages:
    """Implements :class:`~scenewright.mock_providers.drawing.ImageForm`: JSON, or a form with
    pictures."""

    name = "openai"

    def __init__(self, edits: bool) -> None:
        """``edits``: whether it is the route that takes pictures."""
        self._edits = edits

    def read(self, visit: Visit, model: str) -> Wanted:
        """See :class:`~scenewright.mock_providers.drawing.ImageForm`."""
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
        return openai_common.image_tokens(size, low_detail)

    def reply(self, wanted: Wanted, files: list[bytes], spent: Spent, id: str) -> Any:
        """See :class:`~scenewright.mock_providers.drawing.ImageForm`."""
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
        """An error 400, as OpenAI's moderation gives it."""
        return Problem("invalid", 400, POLICY, param=_REFUSED)

    def problem(self, problem: Problem, id: str) -> dict[str, Any]:
        """The envelope of an error; that of a refusal has its own type and code."""
        found = openai_common.error_body(problem)
        if problem.param == _REFUSED:
            found["error"] |= {
                "type": "image_generation_user_error", "code": _REFUSED, "param": None
            }  # fmt: skip
        return found

    def headers(self, id: str, problem: Problem | None, account: Limits) -> dict[str, str]:
        """See :mod:`~scenewright.mock_providers.openai_common`."""
        return openai_common.headers(id, problem, account)

    def _wanted(
        self, fields: Mapping[str, Any], pictures: tuple[bytes, ...], mask: bytes | None
    ) -> Wanted:
        streamed = fields.get("stream")
        no_streams({"stream": streamed not in (None, False, "false")})
        if str(fields.get("n") or 1) != "1":
            raise Problem.invalid("n: the lab draws one image a request", "n")
        prompt = as_text(fields.get("prompt"), "prompt")
        if not prompt.strip() or len(prompt) > MOST_CHARACTERS:
            raise Problem.invalid(f"prompt: give 1 to {MOST_CHARACTERS} characters", "prompt")
        quality = fields.get("quality") or "auto"
        if quality not in STEPS:
            raise Problem.invalid(f"quality: use one of {', '.join(STEPS)}", "quality")
        if fields.get("response_format") not in (None, "b64_json"):
            raise Problem.invalid("response_format: the lab gives b64_json", "response_format")
        return Wanted(
            model=as_text(fields.get("model"), "model"),
            prompt=prompt,
            size=_size(fields.get("size")),
            quality=quality,
            pictures=pictures,
            mask=mask,
        )


def _size(given: object) -> tuple[int, int] | None:
    if given in (None, "auto"):
        return None
    found = _SIZE.fullmatch(given) if isinstance(given, str) else None
    size = (int(found[1]), int(found[2])) if found else (0, 0)
    if not all(_LEAST_SIDE <= side <= MAX_SIDE for side in size):
        raise Problem.invalid(
            f"size: use auto or WIDTHxHEIGHT with sides of {_LEAST_SIDE} to {MAX_SIDE}", "size"
        )
    return size
