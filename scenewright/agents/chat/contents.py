"""The contents of messages: their texts and pictures, whatever form LangChain takes them in."""

from __future__ import annotations

import base64
import binascii
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from PIL import Image

from scenewright.agents.chat.base import ChatError, Tools
from scenewright.agents.judges.tokens import character_tokens, image_tokens

EXPECTED_OUTPUT = 400
"""Output tokens that a reply is expected to take, for the limit of tokens a minute."""
_TEXTS = ("text", "output_text")
_TAKEN = ("text", "image")
_BESIDE = "The picture follows."


def conversation(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """``messages`` in one form: the system's first and joined, pictures as standard blocks.

    Raises ``ChatError`` for what no provider takes: no message beside the system's, a block that
    is neither text nor picture, a message of an unknown kind.
    """
    system: list[str] = []
    rest: list[BaseMessage] = []
    for message in messages:
        match message:
            case SystemMessage():
                system.append(str(message.text))
            case AIMessage():
                rest.append(message)
            case HumanMessage() | ToolMessage():
                rest.append(_plain(message))
            case _:
                raise ChatError(
                    f"a message of the type {message.type!r} cannot be sent: use system, human, "
                    "ai and tool messages"
                )
    if not rest:
        raise ChatError("there is nothing to answer: send at least one human message")
    told = "\n\n".join(text for text in system if text)
    return [SystemMessage(told), *rest] if told else rest


def blocks_of(message: BaseMessage) -> list[dict[str, Any]]:
    """The content of a message as a list of blocks."""
    if isinstance(message.content, str):
        return [{"type": "text", "text": message.content}] if message.content else []
    return [
        {"type": "text", "text": block} if isinstance(block, str) else block
        for block in message.content
    ]


def pictures_apart(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """The same with the pictures of tools in a human message behind the tools' answers.

    For interfaces whose tools answer in text alone.
    """
    found: list[BaseMessage] = []
    waiting: list[dict[str, Any]] = []

    def show() -> None:
        if waiting:
            found.append(HumanMessage(content=list(waiting)))
            waiting.clear()

    for message in messages:
        if not isinstance(message, ToolMessage):
            show()
            found.append(message)
            continue
        blocks = blocks_of(message)
        pictures = [block for block in blocks if block["type"] == "image"]
        if pictures:
            texts = [block["text"] for block in blocks if block["type"] == "text"]
            answer = "\n".join([*texts, _BESIDE])
            message = message.model_copy(update={"content": answer})
            told = f"Shown by the tool {message.name or 'called'} ({message.tool_call_id}):"
            waiting += [{"type": "text", "text": told}, *pictures]
        found.append(message)
    show()
    return found


def picture_of(block: dict[str, Any]) -> tuple[bytes, str]:
    """File and media type of a picture's block; raises ``ChatError`` if it holds none."""
    data = block.get("base64")
    if not data:
        raise ChatError(
            "a picture without its data: give it as "
            '{"type": "image", "base64": …, "mime_type": "image/png"}, addresses are not fetched'
        )
    try:
        return base64.b64decode(data, validate=True), str(block.get("mime_type") or "image/png")
    except (binascii.Error, ValueError, TypeError) as error:
        raise ChatError(f"a picture that is not valid base64: {error}") from None


def estimate(messages: Sequence[BaseMessage], tools: Tools, rule: str) -> int:
    """Input and expected output tokens of a request; ``rule`` counts those of pictures."""
    characters = sum(len(json.dumps(schema)) for schema in tools.schemas)
    pictures = 0
    for message in messages:
        if isinstance(message, AIMessage):
            characters += sum(len(json.dumps(call["args"])) for call in message.tool_calls)
        for block in blocks_of(message):
            if block.get("type") in _TEXTS:
                characters += len(str(block.get("text", "")))
            elif block.get("type") == "image" and block.get("base64"):
                pictures += image_tokens(rule, *_size(block))
    return character_tokens(characters) + pictures + EXPECTED_OUTPUT


def _size(block: dict[str, Any]) -> tuple[int, int]:
    data, _ = picture_of(block)
    try:
        with Image.open(io.BytesIO(data)) as image:
            return image.size
    except Exception as error:
        # Pillow's decoders raise whatever a broken file makes them stumble over.
        raise ChatError(f"a picture that cannot be read ({type(error).__name__})") from None


def _plain(message: BaseMessage) -> BaseMessage:
    if not message.content and isinstance(message, HumanMessage):
        raise ChatError("a human message without content cannot be sent")
    if isinstance(message.content, str):
        return message
    blocks = list(_plain_blocks(blocks_of(message)))
    return message.model_copy(update={"content": blocks or ""})


def _plain_blocks(blocks: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for block in blocks:
        kind = block.get("type")
        if kind == "image_url":
            given = block.get("image_url")
            url = given.get("url") if isinstance(given, dict) else given
            block = _of_url(str(url))
        elif kind == "image" and str(block.get("url") or "").startswith("data:"):
            block = _of_url(block["url"])
        elif kind not in _TAKEN:
            raise ChatError(f"a content block of type {kind!r} cannot be sent: use text and image")
        yield block


def _of_url(url: str) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if not url.startswith("data:") or not comma or not head.endswith(";base64"):
        return {"type": "image", "url": url}
    media = head.removeprefix("data:").removesuffix(";base64")
    return {"type": "image", "base64": data, "mime_type": media}
