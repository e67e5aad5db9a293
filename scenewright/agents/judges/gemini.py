"""Judges over Gemini's API, through google-genai's stateless call."""

from __future__ import annotations

import math
from typing import Any

import httpx2
from google import genai
from google.genai import _interactions as compat
from google.genai import errors, types

from scenewright.agents.judges.calling import place_of
from scenewright.agents.judges.models import REFUSED_LOGPROBS, Logprobs, ModelCaps
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import (
    MalformedReply,
    Reading,
    Token,
    of_connection,
    of_other,
    of_status,
)
from scenewright.agents.judges.sheet import (
    TOOL,
    Sheet,
    sheet_schema,
)
from scenewright.providers.known_models import KnownServer
from scenewright.providers.retry import Decision, UnusableReply
from scenewright.providers.sdk_clients import CapsT, SdkWire, http_settings
from scenewright.providers.usage import Usage
from scenewright.providers.versions import reply_version

BASE_URL = "https://generativelanguage.googleapis.com/"
"""Base URL without the version."""
API_VERSION = "v1beta"
"""Sent explicitly, because the library's choice changes with its version and the environment."""
TOP_LOGPROBS = 20
"""Top tokens requested per position: the most that the API returns."""

Request = tuple[list[types.Content], str]
"""Turns and system instruction."""

REFUSALS = frozenset(
    {
        types.FinishReason.SAFETY,
        types.FinishReason.RECITATION,
        types.FinishReason.BLOCKLIST,
        types.FinishReason.PROHIBITED_CONTENT,
        types.FinishReason.SPII,
        types.FinishReason.IMAGE_SAFETY,
        types.FinishReason.IMAGE_PROHIBITED_CONTENT,
        types.FinishReason.ESCALATION,
        types.FinishReason.MODEL_ARMOR,
    }
)
"""Finish reasons that are a refusal by the provider."""


class GeminiApi(SdkWire[CapsT, genai.Client]):
    """Gemini's API, for judges, chat models and images."""

    provider = "gemini"
    default_url = BASE_URL

    def classify(self, error: Exception) -> Decision:
        """Return :func:`decision_of` of the error."""
        return decision_of(error, self._key.get_secret_value(), self.base_url)

    def _client(self) -> genai.Client:
        return _Client(self._key.get_secret_value(), self.base_url)

    @staticmethod
    async def _close(client: genai.Client) -> None:
        await client.aio.aclose()
        if isinstance(client, _Client):
            await client.http.aclose()
        client.close()


class GeminiWire(GeminiApi[ModelCaps]):
    """Implements :class:`~scenewright.agents.judges.remote.Wire`."""

    def __init__(
        self, model: str, caps: ModelCaps, *, api_key: str, base_url: str | None = None
    ) -> None:
        """Initialise as :class:`SdkWire`."""
        super().__init__(model, caps, api_key=api_key, base_url=base_url)
        self._config = _config(caps)
        server = KnownServer(place_of(self.base_url), api_key, model, caps.reasoning_effort)
        self._server = server
        self._logprobs = Logprobs(caps.logprobs, model, server)

    def build(
        self, picture: PreparedImage, sheet: Sheet, second: PreparedImage | None = None
    ) -> Request:
        """Return one user turn (images, then questions) and the instructions."""
        parts = [
            types.Part.from_bytes(data=one.data, mime_type=one.media_type)
            for one in (picture, second)
            if one is not None
        ]
        parts.append(types.Part.from_text(text=sheet.text))
        return [types.Content(role="user", parts=parts)], sheet.instructions

    async def send(self, request: Request) -> types.GenerateContentResponse:
        """Make one attempt.

        Raises ``UnusableReply`` where the server returns no log-probabilities.
        """
        models = self._clients.get().aio.models
        turns, instructions = request
        asked = self._logprobs.asked
        settings: dict[str, Any] = {"system_instruction": instructions}
        if asked:
            settings |= {"response_logprobs": True, "logprobs": TOP_LOGPROBS}
        config = self._config.model_copy(update=settings)
        # The list is of one of the many kinds that are taken.
        contents: Any = turns
        try:
            reply = await models.generate_content(
                model=self.model, contents=contents, config=config
            )
        except errors.APIError as error:
            if self._logprobs.refused(asked, int(error.code or 0), str(error.message or error)):
                raise UnusableReply(REFUSED_LOGPROBS, Usage()) from None
            raise
        if self._server.served(reply_version(reply.model_version or "")):
            self._logprobs.begin_anew()
        elif reply.candidates and self._content(reply.candidates[0]):
            self._logprobs.came(asked, reply.candidates[0].logprobs_result is not None)
        return reply

    def read(self, response: object) -> Reading:
        """Return the first candidate's function call or text, its tokens and usage."""
        if not isinstance(response, types.GenerateContentResponse):
            raise MalformedReply(f"a {type(response).__name__} instead of a response")
        usage = usage_of(response)
        blocked = response.prompt_feedback and response.prompt_feedback.block_reason
        if blocked:
            raise UnusableReply(f"refused: {reason_name(blocked)}", usage, retry=False)
        if not response.candidates:
            raise UnusableReply("empty reply: no candidate", usage)
        candidate = response.candidates[0]
        stop = candidate.finish_reason
        if stop in REFUSALS:
            raise UnusableReply(f"refused: {reason_name(stop)}", usage, retry=False)
        content = self._content(candidate)
        if not content:
            raise UnusableReply(f"empty reply (it ended by {reason_name(stop)})", usage)
        return Reading(
            content=content,
            usage=usage,
            model=response.model_version or "",
            request_id=response.response_id or "",
            tokens=_tokens(candidate.logprobs_result) if self._caps.logprobs else (),
            weighed=self._caps.logprobs,
            cut=stop == types.FinishReason.MAX_TOKENS,
        )

    def _content(self, candidate: types.Candidate) -> dict[str, Any] | str:
        parts = (candidate.content and candidate.content.parts) or []
        text = "".join(part.text or "" for part in parts if not part.thought)
        if self._caps.structured == "schema":
            return text
        for part in parts:
            if part.function_call is not None and part.function_call.name == TOOL:
                return part.function_call.args or {}
        return text


class _Client(genai.Client):
    """Client with an HTTP client of its own.

    With aiohttp installed the library would use that, without hooks.
    """

    def __init__(self, key: str, base_url: str) -> None:
        self.http = httpx2.AsyncClient(follow_redirects=True, **http_settings())
        options = types.HttpOptions(
            base_url=base_url,
            api_version=API_VERSION,
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=self.http,
        )
        super().__init__(vertexai=False, api_key=key, http_options=options)


def decision_of(error: Exception, key: str, place: str = "") -> Decision:
    """Return the decision for an error of google-genai, by HTTP status.

    ``place`` is the address that was asked.
    """
    if isinstance(error, compat.APIStatusError):
        # The library's newer interfaces have their own errors.
        headers = dict(error.response.headers)
        delay = _retry_delay(error.body)
        if delay is not None:
            headers.setdefault("retry-after", delay)
        return of_status(error.response.status_code, headers, _message(error), key)
    if isinstance(error, compat.APIConnectionError):
        return of_connection(error, key, place)
    if isinstance(error, errors.APIError):
        headers = dict(getattr(error.response, "headers", None) or {})
        delay = _retry_delay(error.details)
        if delay is not None:
            headers.setdefault("retry-after", delay)
        return of_status(int(error.code or 0), headers, str(error.message or error), key)
    return of_other(error, key, place)


def _message(error: Any) -> str:
    """Return the provider's message in the body of ``error``."""
    body = error.body
    told = body.get("error") if isinstance(body, dict) else None
    message = told.get("message") if isinstance(told, dict) else None
    return str(message or error.message)


def _config(caps: ModelCaps) -> types.GenerateContentConfig:
    schema = dict(sheet_schema(caps.reasons))
    settings: dict[str, Any] = dict(caps.sent_sampling())
    if caps.max_output_tokens:
        settings["max_output_tokens"] = caps.max_output_tokens
    if caps.media_resolution:
        settings["media_resolution"] = media_resolution(caps)
    if caps.structured == "schema":
        return types.GenerateContentConfig(
            response_mime_type="application/json", response_json_schema=schema, **settings
        )
    function = types.FunctionDeclaration(name=TOOL, parameters_json_schema=schema)
    forced = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[TOOL]
    )
    return types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[function])],
        tool_config=types.ToolConfig(function_calling_config=forced),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **settings,
    )


def media_resolution(caps: ModelCaps) -> types.MediaResolution:
    """Return Gemini's name of the setting ``media_resolution``."""
    return types.MediaResolution(f"MEDIA_RESOLUTION_{caps.media_resolution.upper()}")


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


def _tokens(found: types.LogprobsResult | None) -> tuple[Token, ...]:
    chosen = (found and found.chosen_candidates) or []
    tops = (found and found.top_candidates) or []
    tokens = []
    for at, one in enumerate(chosen):
        others = tops[at].candidates or [] if at < len(tops) else []
        tokens.append(Token(*_chance(one), tuple(_chance(other) for other in others)))
    return tuple(tokens)


def _chance(one: types.LogprobsResultCandidate) -> tuple[bytes, float]:
    logprob = one.log_probability
    return (one.token or "").encode(), logprob if logprob is not None else -math.inf


def _retry_delay(details: Any) -> str | None:
    """Return the seconds to wait by the ``RetryInfo`` of an error body."""
    try:
        for detail in details["error"]["details"]:
            if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
                return str(detail["retryDelay"]).removesuffix("s")
    except (TypeError, KeyError, AttributeError):
        return None
    return None
