"""Gemini as a chat model, over google-genai's stateless call."""

from __future__ import annotations

import base64
import binascii
import uuid
from collections.abc import Sequence
from typing import Any

from google.genai import types
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    SystemMessage,
    ToolCall,
    ToolMessage,
)
from langchain_core.messages.ai import UsageMetadata

from scenewright.agents.chat.model import ChatError, ChatReply, Tools, blocks_of, picture_of
from scenewright.agents.judges.gemini import (
    REFUSALS,
    GeminiApi,
    media_resolution,
    reason_name,
    usage_of,
)
from scenewright.agents.judges.models import ModelCaps

WireRequest = tuple[list[types.Content], types.GenerateContentConfig]
SIGNATURES = "gemini_signatures"
"""Key of a message's ``additional_kwargs``: tool call's id → thought signature (base64), ``""`` →
the text's. Gemini requires them back with what they belong to.
"""
_OWN = "scenewright-"
_BROKEN = frozenset(
    {
        types.FinishReason.MALFORMED_FUNCTION_CALL,
        types.FinishReason.UNEXPECTED_TOOL_CALL,
        types.FinishReason.TOO_MANY_TOOL_CALLS,
        types.FinishReason.MALFORMED_RESPONSE,
    }
)


class GeminiChatWire(GeminiApi[ModelCaps]):
    """Implements :class:`~.base.ChatWire`."""

    def build(
        self, messages: Sequence[BaseMessage], tools: Tools, stop: Sequence[str] | None
    ) -> WireRequest:
        """Return the turns, and the settings with system instruction and tools."""
        settings: dict[str, Any] = dict(self._caps.sent_sampling())
        if self._caps.max_output_tokens:
            settings["max_output_tokens"] = self._caps.max_output_tokens
        if self._caps.media_resolution:
            settings["media_resolution"] = media_resolution(self._caps)
        if stop:
            settings["stop_sequences"] = list(stop)
        if tools.schemas:
            settings |= _tool_settings(tools)
        told = [str(m.text) for m in messages if isinstance(m, SystemMessage)]
        if told:
            settings["system_instruction"] = "\n\n".join(told)
        turns = contents([m for m in messages if not isinstance(m, SystemMessage)])
        return turns, types.GenerateContentConfig(**settings)

    async def send(self, request: WireRequest) -> ChatReply:
        """Make one attempt."""
        turns, config = request
        # The list is of one of the many kinds that are taken.
        given: Any = turns
        models = self._clients.get().aio.models
        response = await models.generate_content(model=self.model, contents=given, config=config)
        return read_candidate(response)


def contents(messages: Sequence[BaseMessage]) -> list[types.Content]:
    """Return the turns of a conversation without its system messages.

    Answers of tools and what a person says stand in turns of the user; neighbours of one role
    are one turn, as Gemini wants the answers to calls that were made at once. Raises ``ChatError``
    for an answer to a call that is not in the conversation.
    """
    turns: list[types.Content] = []
    names: dict[str, str] = {}
    for message in messages:
        if isinstance(message, AIMessage):
            names |= {str(call["id"]): call["name"] for call in message.tool_calls}
            role, parts = "model", _said(message)
        elif isinstance(message, ToolMessage):
            role, parts = "user", _answered(message, names)
        else:
            role, parts = "user", [_part(block) for block in blocks_of(message)]
        if not parts:
            continue
        if turns and turns[-1].role == role:
            turns[-1].parts = [*(turns[-1].parts or []), *parts]
        else:
            turns.append(types.Content(role=role, parts=parts))
    return turns


def read_candidate(response: types.GenerateContentResponse) -> ChatReply:
    """Return the first candidate: its text and calls, with their thought signatures."""
    usage = usage_of(response)
    counted = UsageMetadata(
        input_tokens=usage.tokens_in,
        output_tokens=usage.tokens_out,
        total_tokens=usage.tokens_in + usage.tokens_out,
        input_token_details={"cache_read": usage.tokens_cached},
    )
    blocked = response.prompt_feedback and response.prompt_feedback.block_reason
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate and candidate.content and candidate.content.parts) or []
    ended = candidate.finish_reason if candidate else blocked
    texts: list[str] = []
    calls: list[ToolCall] = []
    signatures: dict[str, str] = {}
    for part in parts:
        if part.thought:
            continue
        at = ""
        if part.function_call is not None:
            call = part.function_call
            # Ids that we made are not sent to Gemini.
            at = call.id or f"{_OWN}{uuid.uuid4().hex}"
            calls.append(
                ToolCall(name=call.name or "", args=call.args or {}, id=at, type="tool_call")
            )
        elif part.text:
            texts.append(part.text)
        if part.thought_signature:
            signatures[at] = base64.b64encode(part.thought_signature).decode()
    message = AIMessage(
        content="".join(texts),
        tool_calls=calls,
        usage_metadata=counted,
        additional_kwargs={SIGNATURES: signatures} if signatures else {},
        response_metadata={"model_provider": "gemini"},
    )
    declined = bool(blocked) or ended in REFUSALS
    detail = (candidate and candidate.finish_message) or ""
    return ChatReply(
        message,
        reason_name(ended),
        cut=ended == types.FinishReason.MAX_TOKENS,
        refusal=f"Declined by Gemini: {reason_name(ended)}. {detail}" if declined else None,
        broken=(detail or reason_name(ended)) if ended in _BROKEN else "",
        request_id=response.response_id or "",
        metadata={"model_name": response.model_version or ""},
    )


def _tool_settings(tools: Tools) -> dict[str, Any]:
    declared = [
        types.FunctionDeclaration(
            name=function["name"],
            description=function.get("description") or "",
            parameters_json_schema=function.get("parameters") or {"type": "object"},
        )
        for function in tools.functions
    ]
    modes = {
        "auto": types.FunctionCallingConfigMode.AUTO,
        "none": types.FunctionCallingConfigMode.NONE,
    }
    calling = types.FunctionCallingConfig(
        mode=modes.get(tools.choice, types.FunctionCallingConfigMode.ANY),
        allowed_function_names=[tools.named] if tools.named else None,
    )
    return {
        "tools": [types.Tool(function_declarations=declared)],
        "tool_config": types.ToolConfig(function_calling_config=calling),
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
    }


def _said(message: AIMessage) -> list[types.Part]:
    signatures = message.additional_kwargs.get(SIGNATURES) or {}
    parts = []
    text = str(message.text)
    if text or "" in signatures:
        parts.append(types.Part(text=text, thought_signature=_signature(signatures, "")))
    for call in message.tool_calls:
        id = str(call["id"] or "")
        function = types.FunctionCall(id=_told(id), name=call["name"], args=call["args"])
        parts.append(
            types.Part(function_call=function, thought_signature=_signature(signatures, id))
        )
    return parts


def _answered(message: ToolMessage, names: dict[str, str]) -> list[types.Part]:
    id = message.tool_call_id
    name = names.get(id) or message.name
    if not name:
        raise ChatError(
            f"a tool's answer to the call {id!r}, which is not in the conversation: keep the "
            "message that made the call"
        )
    blocks = blocks_of(message)
    text = "\n".join(block["text"] for block in blocks if block["type"] == "text")
    key = "error" if message.status == "error" else "output"
    answer = types.FunctionResponse(id=_told(id), name=name, response={key: text})
    pictures = [_part(block) for block in blocks if block["type"] == "image"]
    return [types.Part(function_response=answer), *pictures]


def _part(block: dict[str, Any]) -> types.Part:
    if block["type"] == "text":
        return types.Part(text=block["text"])
    data, media = picture_of(block)
    return types.Part.from_bytes(data=data, mime_type=media)


def _told(id: str) -> str | None:
    return id if id and not id.startswith(_OWN) else None


def _signature(signatures: dict[str, str], at: str) -> bytes | None:
    try:
        return base64.b64decode(signatures[at], validate=True) if at in signatures else None
    except (binascii.Error, ValueError) as error:
        raise ChatError(f"a thought signature that is not valid base64: {error}") from None
