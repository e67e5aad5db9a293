"""Gemini through google-genai's stateless call."""

from __future__ import annotations

import math
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types

from scenewright.agents.judges.faults import of_other, of_status
from scenewright.agents.judges.logprobs import Token
from scenewright.agents.judges.models import ModelCaps
from scenewright.agents.judges.pictures import PreparedImage
from scenewright.agents.judges.reading import MalformedReply, Reading
from scenewright.agents.judges.sheet import TOOL, TOOL_DESCRIPTION, Sheet, sheet_schema
from scenewright.calls.decisions import Decision, UnusableReply
from scenewright.calls.sdk_wire import SdkWire, http_settings
from scenewright.calls.usage import Usage

BASE_URL = "https://generativelanguage.googleapis.com/"
"""Up to, without, the version."""
API_VERSION = "v1beta"
"""Named, since the library's choice changes with its version and with the environment."""
TOP_LOGPROBS = 20
"""Likeliest tokens asked for at each place: the most that the API gives."""

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
"""Ends of a candidate that are the provider's no."""


class GeminiWire(SdkWire[ModelCaps, genai.Client]):
    """Implements :class:`~scenewright.agents.judges.remote.Wire`."""

    provider = "gemini"
    default_url = BASE_URL

    def __init__(
        self, model: str, caps: ModelCaps, *, api_key: str, base_url: str | None = None
    ) -> None:
        """As :class:`SdkWire`."""
        super().__init__(model, caps, api_key=api_key, base_url=base_url)
        self._config = _config(caps)

    def build(self, picture: PreparedImage, sheet: Sheet) -> list[types.Content]:
        """One user turn: the image, then the sheet."""
        image = types.Part.from_bytes(data=picture.data, mime_type=picture.media_type)
        parts = [image, types.Part.from_text(text=sheet.text)]
        return [types.Content(role="user", parts=parts)]

    async def send(self, request: list[types.Content]) -> types.GenerateContentResponse:
        """One attempt."""
        models = self._clients.get().aio.models
        # The list is of one of the many kinds that are taken.
        contents: Any = request
        return await models.generate_content(
            model=self.model, contents=contents, config=self._config
        )

    def read(self, response: object) -> Reading:
        """The first candidate's function call or text, its tokens and usage."""
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
            cut=stop == types.FinishReason.MAX_TOKENS,
        )

    def classify(self, error: Exception) -> Decision:
        """See :func:`decision_of`."""
        return decision_of(error, self._key.get_secret_value())

    def _content(self, candidate: types.Candidate) -> dict[str, Any] | str:
        parts = (candidate.content and candidate.content.parts) or []
        text = "".join(part.text or "" for part in parts if not part.thought)
        if self._caps.structured == "schema":
            return text
        for part in parts:
            if part.function_call is not None and part.function_call.name == TOOL:
                return part.function_call.args or {}
        return text

    def _client(self) -> genai.Client:
        return client_of(self._key.get_secret_value(), self.base_url)

    @staticmethod
    async def _close(client: genai.Client) -> None:
        await closed(client)


class _Client(genai.Client):
    """With an HTTP client of its own: beside aiohttp the library would use that, without hooks."""

    def __init__(self, key: str, base_url: str) -> None:
        self.http = httpx2.AsyncClient(follow_redirects=True, **http_settings())
        options = types.HttpOptions(
            base_url=base_url,
            api_version=API_VERSION,
            retry_options=types.HttpRetryOptions(attempts=1),
            httpx_async_client=self.http,
        )
        super().__init__(vertexai=False, api_key=key, http_options=options)


def client_of(key: str, base_url: str) -> genai.Client:
    """A client for the running loop; its own retries are off."""
    return _Client(key, base_url)


async def closed(client: genai.Client) -> None:
    """Close all parts of ``client``."""
    await client.aio.aclose()
    if isinstance(client, _Client):
        await client.http.aclose()
    client.close()


def decision_of(error: Exception, key: str) -> Decision:
    """What an error of google-genai means, by HTTP status; ``key`` is kept out of it."""
    if isinstance(error, errors.APIError):
        headers = dict(getattr(error.response, "headers", None) or {})
        delay = _retry_delay(error.details)
        if delay is not None:
            headers.setdefault("retry-after", delay)
        return of_status(int(error.code or 0), headers, str(error.message or error), key)
    return of_other(error, key)


def _config(caps: ModelCaps) -> types.GenerateContentConfig:
    schema = dict(sheet_schema())
    settings: dict[str, Any] = dict(caps.sent_sampling())
    if caps.max_output_tokens:
        settings["max_output_tokens"] = caps.max_output_tokens
    if caps.logprobs:
        settings |= {"response_logprobs": True, "logprobs": TOP_LOGPROBS}
    if caps.structured == "schema":
        return types.GenerateContentConfig(
            response_mime_type="application/json", response_json_schema=schema, **settings
        )
    function = types.FunctionDeclaration(
        name=TOOL, description=TOOL_DESCRIPTION, parameters_json_schema=schema
    )
    forced = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=[TOOL]
    )
    return types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=[function])],
        tool_config=types.ToolConfig(function_calling_config=forced),
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        **settings,
    )


def usage_of(response: types.GenerateContentResponse) -> Usage:
    """The tokens of a response; thoughts count as output."""
    found = response.usage_metadata
    if found is None:
        return Usage()
    out = (found.candidates_token_count or 0) + (found.thoughts_token_count or 0)
    return Usage(found.prompt_token_count or 0, out, found.cached_content_token_count or 0)


def reason_name(reason: object) -> str:
    """The name of why a candidate ended or a prompt was blocked."""
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
    """Seconds to wait by the ``RetryInfo`` of an error body: Gemini sends no Retry-After header."""
    try:
        for detail in details["error"]["details"]:
            if str(detail.get("@type", "")).endswith("google.rpc.RetryInfo"):
                return str(detail["retryDelay"]).removesuffix("s")
    except (TypeError, KeyError, AttributeError):
        return None
    return None
