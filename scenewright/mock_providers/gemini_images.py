"""Gemini's pictures: ``POST /v1beta/models/MODEL:generateContent`` of a model that draws."""

from __future__ import annotations

import base64
import json
from typing import Any

from scenewright.mock_providers.drawing import Spent
from scenewright.mock_providers.gemini_content import GeminiContent
from scenewright.mock_providers.generator import Wanted
from scenewright.mock_providers.problems import Problem
from scenewright.mock_providers.request_input import Visit
from scenewright.mock_providers.wire import Limits, as_object

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
    """Implements :class:`~scenewright.mock_providers.drawing.ImageForm`."""

    name = "gemini"

    def __init__(self, content: GeminiContent) -> None:
        """``content``: the format that the two routes share."""
        self._content = content

    def read(self, visit: Visit, model: str) -> Wanted:
        """The words of the last user turn, and all pictures as references."""
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
        return Wanted(model=model, prompt=asked.text, size=_size(config), pictures=asked.images)

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
        """A response whose prompt is blocked."""
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


def _size(config: dict[str, Any]) -> tuple[int, int] | None:
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
