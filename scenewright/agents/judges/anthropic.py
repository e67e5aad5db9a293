"""Judges over Anthropic's Messages API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic

from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import (
    MalformedReply,
    Reading,
    of_connection,
    of_other,
    of_status,
)
from scenewright.agents.judges.sheet import TOOL, Sheet
from scenewright.providers.retry import Decision, UnusableReply
from scenewright.providers.sdk_clients import SdkWire, http_settings
from scenewright.providers.usage import Usage

BASE_URL = "https://api.anthropic.com"
"""Base URL without the version."""
DEFAULT_OUTPUT_TOKENS = 4096
"""Output limit sent where the model's caps name none: the API requires one."""


class AnthropicWire(SdkWire[ModelCaps, anthropic.AsyncAnthropic]):
    """Implements :class:`~scenewright.agents.judges.remote.Wire`."""

    provider = "anthropic"
    default_url = BASE_URL

    def build(
        self, picture: PreparedImage, sheet: Sheet, second: PreparedImage | None = None
    ) -> dict[str, Any]:
        """Return the arguments of ``messages.create``: instructions, then images and questions."""
        caps = self._caps
        images: list[dict[str, Any]] = [
            {
                "type": "image",
                "source": {"type": "base64", "media_type": one.media_type, "data": one.base64},
            }
            for one in (picture, second)
            if one is not None
        ]
        if caps.prompt_cache:
            images[-1]["cache_control"] = {"type": "ephemeral"}
        content = [*images, {"type": "text", "text": sheet.text}]
        request: dict[str, Any] = {
            "model": self.model,
            "max_tokens": caps.max_output_tokens or DEFAULT_OUTPUT_TOKENS,
            "system": sheet.instructions,
            "messages": [{"role": "user", "content": content}],
        }
        if caps.sampling:
            # The library names none of them any more; other servers may still take them.
            request["extra_body"] = caps.sent_sampling()
        schema = dict(sheet.schema)
        if caps.structured == "schema":
            request["output_config"] = {"format": {"type": "json_schema", "schema": schema}}
            return request
        tool: dict[str, Any] = {"name": TOOL, "input_schema": schema}
        if caps.strict:
            tool["strict"] = True
        request["tools"] = [tool]
        request["tool_choice"] = {"type": "tool", "name": TOOL, "disable_parallel_tool_use": True}
        return request

    async def send(self, request: dict[str, Any]) -> anthropic.types.Message:
        """Make one attempt."""
        message: anthropic.types.Message = await self._clients.get().messages.create(**request)
        return message

    def read(self, response: object) -> Reading:
        """Return the message's tool call or text, and its usage."""
        if not isinstance(response, anthropic.types.Message) or not isinstance(
            getattr(response, "content", None), list
        ):
            raise MalformedReply(f"a {type(response).__name__} without content")
        usage = _usage(response)
        stop = response.stop_reason
        if stop == "refusal":
            details = getattr(response, "stop_details", None)
            said = str(getattr(details, "explanation", None) or _text(response))
            raise UnusableReply(f"refused: {said[:200]}".rstrip(": "), usage, retry=False)
        content = self._content(response)
        if not content:
            raise UnusableReply(f"empty reply (it ended by {stop or 'nothing'})", usage)
        return Reading(
            content=content,
            usage=usage,
            model=str(getattr(response, "model", "") or ""),
            request_id=str(response._request_id or getattr(response, "id", "") or ""),
            cut=stop in ("max_tokens", "model_context_window_exceeded"),
        )

    def classify(self, error: Exception) -> Decision:
        """Return :func:`decision_of` of the error."""
        return decision_of(error, self._key.get_secret_value(), self.base_url)

    def _content(self, message: anthropic.types.Message) -> Mapping[str, Any] | str:
        if self._caps.structured == "tool":
            for block in message.content:
                if block.type == "tool_use" and block.name == TOOL:
                    given: object = block.input
                    return given if isinstance(given, Mapping) else str(given)
        return _text(message)

    def _client(self) -> anthropic.AsyncAnthropic:
        return anthropic.AsyncAnthropic(
            api_key=self._key.get_secret_value(),
            base_url=self.base_url,
            timeout=None,
            max_retries=0,
            http_client=anthropic.DefaultAsyncHttpxClient(**http_settings()),
        )

    @staticmethod
    async def _close(client: anthropic.AsyncAnthropic) -> None:
        await client.close()


def decision_of(error: Exception, key: str, place: str = "") -> Decision:
    """Return the decision for an error of Anthropic's library, by HTTP status.

    ``place`` is the address that was asked.
    """
    if isinstance(error, anthropic.APIStatusError):
        inner = error.body.get("error") if isinstance(error.body, Mapping) else None
        message = inner.get("message") if isinstance(inner, Mapping) else None
        return of_status(
            error.status_code, error.response.headers, str(message or error.message), key
        )
    if isinstance(error, anthropic.APIConnectionError):
        return of_connection(error, key, place)
    return of_other(error, key, place)


def _text(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def _usage(message: anthropic.types.Message) -> Usage:
    """Return the usage; Anthropic counts tokens read from and written to its cache separately."""
    found = getattr(message, "usage", None)
    if found is None:
        return Usage()
    cached = found.cache_read_input_tokens or 0
    written = found.cache_creation_input_tokens or 0
    return Usage(
        (found.input_tokens or 0) + cached + written,
        found.output_tokens or 0,
        cached,
        tokens_written=written,
    )
