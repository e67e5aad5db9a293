"""What a tool gives back: short JSON, perhaps a small picture, or an error in words.

Tools are plain asynchronous functions with a pydantic model as their argument. Whoever offers
them to a language model, as LangChain tools or over MCP, puts the parts together here.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from PIL import Image
from pydantic import BaseModel, ConfigDict, ValidationError

PREVIEW_SIDE = 256
"""Longest side, in pixels, of a picture that goes to a language model."""
_QUALITY = 85


class ToolError(ValueError):
    """What a tool could not do, and what to do instead, for the language model that called it."""


class Arguments(BaseModel):
    """Base of all tools' arguments: unknown names are errors, so that none is lost in silence.

    The first lines of a class and of its fields are what the language model is told of them.
    """

    model_config = ConfigDict(
        frozen=True, extra="forbid", allow_inf_nan=False, use_attribute_docstrings=True
    )


@dataclass(frozen=True, slots=True)
class ToolReply:
    """What a tool did."""

    data: Mapping[str, Any]
    """The result, short and plain JSON."""
    picture: Image.Image | None = None
    """What to show beside it, at most :data:`PREVIEW_SIDE` pixels a side."""

    @property
    def text(self) -> str:
        """The data as one line of JSON."""
        return json.dumps(self.data, ensure_ascii=False)


def preview(image: Image.Image) -> Image.Image:
    """``image`` as RGB, made smaller until no side is over :data:`PREVIEW_SIDE`."""
    small = image.convert("RGB")
    small.thumbnail((PREVIEW_SIDE, PREVIEW_SIDE), Image.Resampling.LANCZOS)
    return small


def picture_block(image: Image.Image) -> dict[str, Any]:
    """``image`` as a JPEG in LangChain's standard content block for images."""
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=_QUALITY)
    data = base64.b64encode(buffer.getvalue()).decode("ascii")
    return {"type": "image", "base64": data, "mime_type": "image/jpeg"}


def content_of(text: str, picture: Image.Image | None) -> str | list[str | dict[str, Any]]:
    """The content of a LangChain tool message: the text, and the picture if there is one."""
    if picture is None:
        return text
    return [{"type": "text", "text": text}, picture_block(picture)]


def wrong_arguments(tool: str, error: ValidationError) -> str:
    """What is wrong with the arguments of a call, in one line, without the values."""
    found = [
        f"{'.'.join(str(part) for part in item['loc']) or 'arguments'}: {item['msg']}"
        for item in error.errors(include_url=False, include_input=False)
    ]
    return f"{tool} was not done: {'; '.join(found)}. Correct the arguments and call it again"
