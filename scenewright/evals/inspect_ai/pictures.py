"""The picture of a sample: put into a message, found in messages, read to bytes."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlparse

from inspect_ai.model import ChatMessage, ContentImage
from inspect_ai.solver import TaskState

from scenewright.core.images import MAX_FILE_BYTES, ImageError

_SHOWN = 60


def data_uri(png: bytes) -> str:
    """The PNG file as text that a message can hold."""
    return f"data:image/png;base64,{base64.b64encode(png).decode('ascii')}"


def picture_of(state: TaskState) -> str | None:
    """The newest picture that the model or a tool of it gave, as the message names it: a data
    URI, an address or a file; none if there is none. Pictures of the user are no output."""
    messages = list(_answers(state))
    for message in messages:
        if isinstance(message.content, str):
            continue
        for content in reversed(message.content):
            if isinstance(content, ContentImage):
                return str(content.image)
    return None


def _answers(state: TaskState) -> Iterator[ChatMessage]:
    if state.output.choices:
        yield state.output.message
    yield from (m for m in reversed(state.messages) if m.role in ("assistant", "tool"))


def read_picture(named: str) -> bytes:
    """The image file that a message names. Raises ``ImageError`` with the remedy."""
    if named.startswith("data:"):
        return _decoded(named)
    address = urlparse(named)
    if address.scheme in ("http", "https"):
        raise ImageError(
            f"the picture is an address ({_short(named)}), which may be gone by now and is not "
            "fetched: have the solver put the picture itself into the message (a data URI)"
        )
    file = Path(unquote(address.path) if address.scheme == "file" else named)
    try:
        if file.stat().st_size > MAX_FILE_BYTES:
            raise ImageError(f"{file} is larger than {MAX_FILE_BYTES} bytes: save it smaller")
        return file.read_bytes()
    except (OSError, ValueError):
        raise ImageError(
            f"the message names the picture {_short(named)!r}, which is neither a data URI nor a "
            "file that can be read here: was the log written without pictures (--no-log-images), "
            "or moved away from them?"
        ) from None


def _decoded(uri: str) -> bytes:
    head, _, body = uri.partition(",")
    if not head.endswith(";base64"):
        raise ImageError(f"the picture {_short(uri)!r} is no base64: have it encoded so")
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ImageError(f"the picture {_short(uri)!r} is damaged: {error}") from error


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"
