"""Client of Gemini's API: chat models and images through google-genai, decisions beside it."""

from __future__ import annotations

import base64
import binascii
import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types

from scenewright.providers.clients.base import (
    STREAM,
    TOP_LOGPROBS,
    ClientSettings,
    CompletionRequest,
    Message,
    OutputSchema,
    Part,
    Picture,
    RawReply,
    RequestError,
    Terms,
    Token,
    Tools,
    schema_for,
)
from scenewright.providers.clients.client import (
    MAX_BYTES,
    Drawn,
    ImageRequest,
    ModelClient,
    ShowPartial,
)
from scenewright.providers.clients.reading import RawCall, RawCompletion, StatusError
from scenewright.providers.clients.systemone import post_json
from scenewright.providers.replies import retry_delay
from scenewright.providers.retry import Decision, RequestChanged, UnusableReply
from scenewright.providers.transport import http_client
from scenewright.providers.usage import Usage

BASE_URL = "https://generativelanguage.googleapis.com/"
"""Base URL without the version."""
API_VERSION = "v1beta"
"""Sent explicitly, because the library's choice changes with its version and the environment."""
_OWN = "scenewright-"
_WORDS = 120
_IMAGE = types.MediaModality.IMAGE
_Reason = types.FinishReason
REFUSALS = frozenset(
    {
        _Reason.SAFETY,
        _Reason.RECITATION,
        _Reason.BLOCKLIST,
        _Reason.PROHIBITED_CONTENT,
        _Reason.SPII,
        _Reason.IMAGE_SAFETY,
        _Reason.IMAGE_PROHIBITED_CONTENT,
        _Reason.ESCALATION,
        _Reason.MODEL_ARMOR,
    }
)
"""Finish reasons that are a refusal by the provider."""
_BROKEN = frozenset(
    {
        _Reason.MALFORMED_FUNCTION_CALL,
        _Reason.UNEXPECTED_TOOL_CALL,
        _Reason.TOO_MANY_TOOL_CALLS,
        _Reason.MALFORMED_RESPONSE,
    }
)


@dataclass(frozen=True, slots=True)
class _Clients:
    sdk: genai.Client
    http: httpx2.AsyncClient


class GeminiClient(ModelClient[_Clients]):
    """A model of Gemini's API, or of a server with the same protocol."""

    provider = "gemini"
    default_url = BASE_URL

    async def _receive(self, raw: RawCompletion, request: CompletionRequest, terms: Terms) -> None:
        turns, config = generate_request(request, self._settings, logprobs=terms.logprobs)
        # The list is of one of the many kinds that are taken.
        contents: Any = turns
        asked: dict[str, Any] = {"model": self.model, "contents": contents, "config": config}
        models = self._clients.get().sdk.aio.models
        try:
            if terms.streams:
                async for response in await models.generate_content_stream(**asked):
                    add_response(raw, response)
            else:
                raw.watching = raw.streamed = False
                add_response(raw, await models.generate_content(**asked))
        except errors.APIError as error:
            status, message = int(error.code or 0), str(error.message or error)
            # Gateways with this protocol may answer whole only.
            unknown = STREAM if "streamGenerateContent" in message else ""
            changed = self._negotiation.refused(terms, (STREAM,), status, message, unknown)
            if changed:
                raise RequestChanged(f"refused: sent again {changed}") from None
            raise

    def check(self, request: CompletionRequest) -> None:
        """See :class:`ModelClient`."""
        generate_request(request, self._settings, logprobs=False)

    async def decide(self, body: Mapping[str, Any]) -> RawReply:
        """Return the unread reply to ``POST /v1beta/decisions``."""
        url = f"{self.base_url.rstrip('/')}/{API_VERSION}/decisions"
        return await post_json(self._clients.get().http, url, body)

    async def draw(self, request: ImageRequest, show: ShowPartial) -> Drawn:
        """Make one attempt: one user turn, the words and then the pictures; answered by a picture.

        The API has no partial images. Raises as :meth:`complete`.
        """
        parts = [types.Part.from_text(text=request.prompt)]
        parts += [_part(Picture(data, "image/png")) for data in request.pictures]
        size = types.ImageConfig(
            aspect_ratio=request.ratio or None, image_size=request.resolution or None
        )
        contents: Any = [types.Content(role="user", parts=parts)]
        config: dict[str, Any] = dict(request.parameters)
        response = await self._clients.get().sdk.aio.models.generate_content(
            model=self.model,
            contents=contents,
            config=types.GenerateContentConfig(
                response_modalities=["IMAGE"], image_config=size, **config
            ),
        )
        return drawn_of(response)

    def classify(self, error: Exception) -> Decision:
        """Return the decision by HTTP status; an error inside a stream has its own."""
        if isinstance(error, errors.APIError):
            headers = dict(getattr(error.response, "headers", None) or {})
            if delay := retry_delay(error.details):
                headers.setdefault("retry-after", delay)
            message = str(error.message or error)
            error = StatusError(int(error.code or 0), message, headers)
        return super().classify(error)

    def _client(self) -> _Clients:
        key = self._key.get_secret_value()
        # With aiohttp installed the library would use that, without our transport.
        http = http_client(self.base_url, headers={"x-goog-api-key": key})
        options = types.HttpOptions(
            base_url=self.base_url,
            api_version=API_VERSION,
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=http,
        )
        return _Clients(genai.Client(vertexai=False, api_key=key, http_options=options), http)

    @staticmethod
    async def _close(client: _Clients) -> None:
        await client.sdk.aio.aclose()
        await client.http.aclose()
        client.sdk.close()


def generate_request(
    request: CompletionRequest, settings: ClientSettings, *, logprobs: bool
) -> tuple[list[types.Content], types.GenerateContentConfig]:
    """Return the turns, and the settings with system instruction, tools or schema. Pure."""
    config: dict[str, Any] = dict(settings.sent_sampling())
    if settings.max_output_tokens:
        config["max_output_tokens"] = settings.max_output_tokens
    if settings.media_resolution:
        resolution = f"MEDIA_RESOLUTION_{settings.media_resolution.upper()}"
        config["media_resolution"] = types.MediaResolution(resolution)
    if request.stop:
        config["stop_sequences"] = list(request.stop)
    if logprobs:
        config |= {"response_logprobs": True, "logprobs": TOP_LOGPROBS}
    messages = request.sent_messages()
    system = [message.text for message in messages if message.role == "system"]
    if system:
        config["system_instruction"] = "\n\n".join(system)
    wanted = request.output
    if isinstance(wanted, OutputSchema) and settings.structured == "schema":
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = schema_for("gemini", wanted.schema)
    elif isinstance(wanted, OutputSchema):
        config |= _tool_settings(wanted.as_tool(strict=settings.strict))
    elif wanted is not None and wanted.schemas:
        config |= _tool_settings(wanted)
    turns = contents_of([message for message in messages if message.role != "system"])
    return turns, types.GenerateContentConfig(**config)


def contents_of(messages: Sequence[Message]) -> list[types.Content]:
    """Return the turns of a conversation without its system messages.

    Answers of tools and what a person says stand in turns of the user; neighbours of one role are
    one turn, as Gemini wants the answers to calls that were made at once. Raises ``RequestError``
    for an answer to a call that is not in the conversation.
    """
    turns: list[types.Content] = []
    names: dict[str, str] = {}
    for message in messages:
        role, parts = "user", [_part(part) for part in message.parts if part]
        if message.role == "assistant":
            role, parts = "model", []
            if message.text or message.signature:
                signature = _signature(message.signature)
                parts.append(types.Part(text=message.text, thought_signature=signature))
            for call in message.calls:
                names[call.id] = call.name
                made = types.FunctionCall(id=_sent_id(call.id), name=call.name, args=call.arguments)
                signature = _signature(call.signature)
                parts.append(types.Part(function_call=made, thought_signature=signature))
        elif message.role == "tool":
            name = names.get(message.call_id) or message.name
            if not name:
                raise RequestError(
                    f"a tool's answer to the call {message.call_id!r}, which is not in the "
                    "conversation: keep the message that made the call"
                )
            text = "\n".join(part for part in message.parts if isinstance(part, str))
            answer = types.FunctionResponse(
                id=_sent_id(message.call_id),
                name=name,
                response={"error" if message.failed else "output": text},
            )
            parts = [types.Part(function_response=answer), *map(_part, message.pictures)]
        if not parts:
            continue
        if turns and turns[-1].role == role:
            turns[-1].parts = [*(turns[-1].parts or []), *parts]
        else:
            turns.append(types.Content(role=role, parts=parts))
    return turns


def _part(part: Part) -> types.Part:
    if isinstance(part, str):
        return types.Part(text=part)
    return types.Part.from_bytes(data=part.data, mime_type=part.media_type)


def _sent_id(id: str) -> str | None:
    """Return a call's id for Gemini; those that we made are not sent."""
    return id if id and not id.startswith(_OWN) else None


def _signature(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True) if text else None
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"a thought signature that is not valid base64: {error}") from None


def _tool_settings(tools: Tools) -> dict[str, Any]:
    declared = [
        {
            "name": function["name"],
            "description": function.get("description"),
            "parameters_json_schema": schema_for(
                "gemini", function.get("parameters") or {"type": "object"}
            ),
        }
        for function in tools.functions
    ]
    calling = {
        "mode": {"auto": "AUTO", "none": "NONE"}.get(tools.choice, "ANY"),
        "allowed_function_names": [tools.named] if tools.named else None,
    }
    return {
        "tools": [types.Tool.model_validate({"function_declarations": declared})],
        "tool_config": {"function_calling_config": calling},
        "automatic_function_calling": {"disable": True},
    }


def add_response(raw: RawCompletion, response: types.GenerateContentResponse) -> None:
    """Add a chunk of a stream, or a whole response: the first candidate's text and calls."""
    raw.model = response.model_version or raw.model
    raw.request_id = response.response_id or raw.request_id
    if response.usage_metadata is not None:
        raw.usage = usage_of(response)
    candidate, blocked = _first_of(response)
    for part in _parts_of(candidate):
        signature = base64.b64encode(part.thought_signature or b"").decode()
        if part.function_call is not None:
            call = part.function_call
            id = call.id or f"{_OWN}{uuid.uuid4().hex}"
            raw.calls[id] = RawCall(id, call.name or "", "", call.args or {}, signature)
            continue
        raw.signature = signature or raw.signature
        if part.text:
            raw.grow(raw.parts, part.text)
    ended = (candidate.finish_reason if candidate else None) or blocked
    if candidate is not None and (listed := candidate.logprobs_result) is not None:
        tops = listed.top_candidates or []
        for at, one in enumerate(listed.chosen_candidates or []):
            others = tops[at].candidates or [] if at < len(tops) else []
            raw.tokens.append(Token(*_chance(one), tuple(map(_chance, others))))
    if not ended:
        return
    detail = (candidate and candidate.finish_message) or ""
    raw.ended = reason_name(ended)
    raw.cut = ended == _Reason.MAX_TOKENS
    if blocked or ended in REFUSALS:
        raw.refusal = f"Declined by Gemini: {raw.ended}. {detail}"
    if ended in _BROKEN:
        raise UnusableReply(
            f"a tool call that cannot be read: {detail or raw.ended}", usage_of(response)
        )


def drawn_of(response: types.GenerateContentResponse) -> Drawn:
    """Return the picture of a response. Raises ``UnusableReply`` for a refusal or none."""
    usage = usage_of(response)
    if (found := response.usage_metadata) is not None:
        # Those received count as text where the reply does not say more.
        seen, drawn = (
            sum(one.token_count or 0 for one in details or [] if one.modality == _IMAGE)
            for details in (found.prompt_tokens_details, found.candidates_tokens_details)
        )
        usage = replace(usage, image_tokens_in=seen, image_tokens_out=drawn)
    candidate, blocked = _first_of(response)
    stop = candidate.finish_reason if candidate else None
    if blocked or stop in REFUSALS or stop == _Reason.IMAGE_RECITATION:
        told = f"refused: {reason_name(blocked or stop)} (say it in other words)"
        raise UnusableReply(told, usage, retry=False)
    if candidate is None:
        raise UnusableReply("empty reply: no candidate", usage)
    text = ""
    for part in _parts_of(candidate):
        text += part.text or ""
        blob = part.inline_data
        if blob is None or not blob.data:
            continue
        if not (blob.mime_type or "image/").startswith("image/"):
            raise UnusableReply(f"a {blob.mime_type} came in place of a picture", usage)
        if len(blob.data) > MAX_BYTES:
            large = f"the picture's file has {len(blob.data)} bytes, the limit is {MAX_BYTES}"
            raise UnusableReply(large, usage, retry=False)
        return Drawn(blob.data, replace(usage, images=1), response.response_id or "")
    words = f"; it said: {text[:_WORDS]!r}" if text.strip() else ""
    raise UnusableReply(f"empty reply: no picture (it ended by {reason_name(stop)}{words})", usage)


def _first_of(response: types.GenerateContentResponse) -> tuple[types.Candidate | None, object]:
    """Return the first candidate, and why the prompt was blocked."""
    feedback = response.prompt_feedback
    blocked = feedback.block_reason if feedback else None
    return response.candidates[0] if response.candidates else None, blocked


def _parts_of(candidate: types.Candidate | None) -> list[types.Part]:
    """Return the parts of an answer without thoughts, which may hold sketches."""
    content = candidate.content if candidate else None
    return [part for part in (content and content.parts) or [] if not part.thought]


def usage_of(response: types.GenerateContentResponse) -> Usage:
    """Return the tokens of a response; thoughts count as output."""
    found = response.usage_metadata
    if found is None:
        return Usage()
    out = (found.candidates_token_count or 0) + (found.thoughts_token_count or 0)
    return Usage(found.prompt_token_count or 0, out, found.cached_content_token_count or 0)


def reason_name(reason: object) -> str:
    """Return the name of a candidate's finish reason or a prompt's block reason."""
    return str(getattr(reason, "name", None) or reason or "nothing")


def _chance(one: types.LogprobsResultCandidate) -> tuple[bytes, float]:
    logprob = one.log_probability
    return (one.token or "").encode(), logprob if logprob is not None else -math.inf
