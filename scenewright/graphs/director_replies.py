"""What a language model sent, made fit to be stored and played again."""

from __future__ import annotations

import math
from typing import Any

from langchain_core.messages import AIMessage

_DECLINED = ("refusal", "content_filter", "safety", "prohibited_content", "blocklist")
"""Providers' words for why a reply ended, where they mean that it was declined."""
_ENDINGS = ("stop", "stop_reason", "finish_reason")
"""Where LangChain's chat models keep them."""
_DRAWN_ID = "lc_"


def plain(value: Any) -> Any:
    """``value`` as JSON that can be written and read again: without halves of characters, without
    numbers that are none."""
    match value:
        case str():
            # A lone surrogate, as from a cut JSON escape, has no UTF-8.
            return value.encode("utf-8", "replace").decode("utf-8")
        case float():
            return value if math.isfinite(value) else str(value)
        case dict():
            return {plain(str(key)): plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [plain(inner) for inner in value]
        case None | bool() | int():
            return value
    return str(value)


def refusal_of(message: AIMessage) -> str:
    """Why the model or its provider declined to go on, in words; empty if neither did."""
    said = message.additional_kwargs.get("refusal")
    if said:
        return str(said)
    if message.tool_calls:
        return ""
    for name in _ENDINGS:
        ended = message.response_metadata.get(name)
        if isinstance(ended, str) and ended.lower() in _DECLINED:
            return str(message.text).strip() or f"the language model declined ({ended})"
    return ""


def storable(message: AIMessage, turn: int) -> dict[str, Any]:
    """``message`` as JSON data from which it can be made again.

    Every call gets an id of its own where some have none or share one; an id that LangChain drew
    for the message goes.
    """
    calls = [*message.tool_calls, *message.invalid_tool_calls]
    ids = [call.get("id") for call in calls]
    if not all(ids) or len(set(ids)) < len(ids):
        named: list[Any] = [{**call, "id": f"call_{turn}_{at}"} for at, call in enumerate(calls)]
        count = len(message.tool_calls)
        changes = {"tool_calls": named[:count], "invalid_tool_calls": named[count:]}
        message = message.model_copy(update=changes)
    if message.id is not None and message.id.startswith(_DRAWN_ID):
        message = message.model_copy(update={"id": None})
    data: dict[str, Any] = plain(message.model_dump(mode="json", exclude_none=True))
    return data
