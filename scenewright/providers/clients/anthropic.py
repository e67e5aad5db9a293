"""Client of Anthropic's Messages API."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anthropic

from scenewright.core.validation import mapping_of
from scenewright.providers.clients.base import (
    ClientSettings,
    CompletionRequest,
    MalformedReply,
    OutputSchema,
    Part,
    Terms,
    schema_for,
)
from scenewright.providers.clients.client import ModelClient
from scenewright.providers.clients.reading import (
    RawCall,
    RawCompletion,
    count_of,
    text_of,
)
from scenewright.providers.usage import Usage

BASE_URL = "https://api.anthropic.com"
"""Base URL without the version."""
DEFAULT_OUTPUT_TOKENS = 4096
"""Output limit sent where the model's settings name none: the API requires one."""
_CUT = ("max_tokens", "model_context_window_exceeded")


class AnthropicClient(ModelClient[anthropic.AsyncAnthropic]):
    """Claude, or a server with the same protocol."""

    provider = "anthropic"
    default_url = BASE_URL

    async def _receive(self, raw: RawCompletion, request: CompletionRequest, terms: Terms) -> None:
        create = self._clients.get().messages.with_streaming_response.create
        opened = create(**messages_body(self.model, request, self._settings))
        if not await self._collect(raw, opened, add_event, id_header="request-id"):
            raise MalformedReply("the reply is not a message")

    def check(self, request: CompletionRequest) -> None:
        """See :class:`ModelClient`."""
        messages_body(self.model, request, self._settings)

    def _client(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(**self._sdk_options())


def messages_body(
    model: str, request: CompletionRequest, settings: ClientSettings
) -> dict[str, Any]:
    """Return the arguments of ``messages.create``. Pure."""
    messages = request.sent_messages()
    system = messages[0].text if messages[0].role == "system" else ""
    # Roles alternate; answers of tools stand in turns of the user.
    turns: list[dict[str, Any]] = []
    for message in messages:
        blocks = [_block(part) for part in message.parts if part]
        if settings.prompt_cache and (shown := [b for b in blocks if b["type"] == "image"]):
            shown[-1]["cache_control"] = {"type": "ephemeral"}
        if message.role == "tool":
            answer = {"type": "tool_result", "tool_use_id": message.call_id, "content": blocks}
            blocks = [answer | ({"is_error": True} if message.failed else {})]
        blocks += [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in message.calls
        ]
        if not blocks or message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        else:
            turns.append({"role": role, "content": blocks})
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": settings.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
        "messages": turns,
        "stream": True,
    }
    if system:
        body["system"] = system
    if request.stop:
        body["stop_sequences"] = list(request.stop)
    if settings.sampling:
        # The library names none of them any more; other servers may still take them.
        body["extra_body"] = settings.sent_sampling()
    wanted = request.output
    if isinstance(wanted, OutputSchema):
        if settings.structured == "schema":
            schema = schema_for("anthropic", wanted.schema)
            return body | {"output_config": {"format": {"type": "json_schema", "schema": schema}}}
        wanted = replace(wanted.as_tool(strict=settings.strict), parallel=False)
    if wanted is None or not wanted.schemas:
        return body
    strict, body["tools"] = wanted.strict, []
    for function in wanted.functions:
        schema = function.get("parameters") or {"type": "object"}
        tool = {name: function[name] for name in ("name", "description") if function.get(name)}
        # platform.claude.com/docs/en/agents-and-tools/tool-use/strict-tool-use: the limits of
        # schemas are those of the grammar, which other tools do without.
        tool["input_schema"] = schema_for("anthropic", schema) if strict else dict(schema)
        body["tools"].append(tool if strict is None else {**tool, "strict": strict})
    choice: dict[str, Any] = {"type": "none"}
    # Models that are asked for schemas by a text format answer an error to a forced tool.
    if wanted.choice == "auto" or (wanted.choice != "none" and settings.structured != "tool"):
        choice = {"type": "auto"}
    elif wanted.choice != "none":
        choice = {"type": "tool", "name": wanted.named} if wanted.named else {"type": "any"}
    if wanted.parallel is not None and choice["type"] != "none":
        choice["disable_parallel_tool_use"] = not wanted.parallel
    if choice != {"type": "auto"}:
        body["tool_choice"] = choice
    return body


def _block(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    data = base64.b64encode(part.data).decode("ascii")
    source = {"type": "base64", "media_type": part.media_type, "data": data}
    return {"type": "image", "source": source}


def add_event(raw: RawCompletion, event: Mapping[str, Any]) -> bool:
    """Add an event of a stream, or a whole message; return whether the reply is complete."""
    kind = text_of(event.get("type"))
    index = event.get("index")
    match kind:
        case "message":
            _add_message(raw, event)
            content = event.get("content")
            if not isinstance(content, list):
                raise MalformedReply("a message without content")
            for at, block in enumerate(content):
                _add_block(raw, at, mapping_of(block))
            return True
        case "message_start":
            _add_message(raw, mapping_of(event.get("message")))
        case "content_block_start":
            _add_block(raw, index, mapping_of(event.get("content_block")))
        case "content_block_delta":
            delta = mapping_of(event.get("delta"))
            if text := text_of(delta.get("text")):
                raw.grow(raw.parts, text)
            elif text := text_of(delta.get("thinking")):
                raw.grow(raw.thoughts, text)
            elif (text := text_of(delta.get("partial_json"))) and index in raw.calls:
                raw.calls[index].arguments = None
                raw.calls[index].text += text
                raw.watch([raw.calls[index].text], len(text))
        case "message_delta":
            _add_message(raw, {**mapping_of(event.get("delta")), "usage": event.get("usage")})
        case "message_stop":
            return True
        case "ping" | "content_block_stop" | "":
            pass
    return False


def _add_message(raw: RawCompletion, message: Mapping[str, Any]) -> None:
    raw.model = text_of(message.get("model")) or raw.model
    raw.request_id = raw.request_id or text_of(message.get("id"))
    before = raw.usage
    if found := mapping_of(message.get("usage")):
        # Anthropic counts tokens read from and written to its cache separately.
        cached = count_of(found.get("cache_read_input_tokens")) or before.tokens_cached
        written = count_of(found.get("cache_creation_input_tokens")) or before.tokens_written
        plain = count_of(found.get("input_tokens"))
        tokens_in = plain + cached + written if plain else before.tokens_in
        tokens_out = count_of(found.get("output_tokens")) or before.tokens_out
        raw.usage = Usage(tokens_in, tokens_out, cached, tokens_written=written)
    ended = text_of(message.get("stop_reason"))
    if ended:
        raw.ended, raw.cut = ended, ended in _CUT
    if ended == "refusal":
        raw.refusal = text_of(mapping_of(message.get("stop_details")).get("explanation"))


def _add_block(raw: RawCompletion, place: object, block: Mapping[str, Any]) -> None:
    match block.get("type"):
        case "text":
            raw.grow(raw.parts, text_of(block.get("text")))
        case "thinking":
            raw.grow(raw.thoughts, text_of(block.get("thinking")))
        case "tool_use":
            given = block.get("input")
            raw.calls[place] = RawCall(
                text_of(block.get("id")),
                text_of(block.get("name")),
                text_of(given),
                given if isinstance(given, Mapping) else None,
            )
