"""Replies of chat models: collected from streams or whole bodies, and read alike for all providers.

A client fills a :class:`RawCompletion` with what its wire format holds; :func:`completion_of` makes
the completion of it: thoughts cut, the wanted object found, refusals, cuts and empty replies told.
:func:`of_other` decides what an error means: final, worth another try, or a rate limit.
"""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx2

from scenewright.core.error_text import error_text, hidden
from scenewright.core.errors import ScenewrightError
from scenewright.core.validation import cut_short, mapping_of
from scenewright.providers.clients.base import (
    Completion,
    CompletionRequest,
    MalformedReply,
    OutputSchema,
    RequestError,
    Stop,
    Token,
    ToolCall,
)
from scenewright.providers.replies import (
    answer_of,
    best_object,
    context_overflow,
    decoded,
    error_message,
    overflow_text,
    page_problem,
    repeats,
    retry_delay,
    silently_cut,
    status_inside,
)
from scenewright.providers.retry import (
    Decision,
    PermanentError,
    Transient,
    UnusableReply,
    classify_http,
    unreachable,
    with_hint,
)
from scenewright.providers.usage import Usage

_MESSAGE_LENGTH = 300
_TRANSPORTS = ("httpx", "httpx2", "httpcore", "httpcore2", "aiohttp")
_CONNECTIONS = ("APIConnectionError", "APITimeoutError")
"""Errors of the SDKs of OpenAI and Anthropic for a request without a reply."""
_REFUSED = frozenset({"moderation_blocked", "content_policy_violation", "content_filter"})


class StatusError(ScenewrightError, RuntimeError):
    """A reply with an HTTP error, or one that reports a failure in its body."""

    def __init__(
        self,
        status: int,
        message: str,
        headers: Mapping[str, str] | None = None,
        codes: tuple[int | str, ...] = (),
    ) -> None:
        """``status`` may be 200 where the body alone reports the failure; ``codes``: the host's."""
        super().__init__(message)
        self.status = status
        self.message = message
        self.headers = headers or {}
        self.codes = codes


def status_error(response: httpx2.Response) -> StatusError:
    """Return the error of a reply with an HTTP error status, in any server's form."""
    body = decoded(response.text)
    message = error_message(body) or cut_short(response.text.strip(), _MESSAGE_LENGTH)
    headers = {name.lower(): value for name, value in response.headers.items()}
    if delay := retry_delay(body):
        headers.setdefault("retry-after", delay)
    return StatusError(
        response.status_code, message or "no reason was given", headers, error_codes(body)
    )


def error_codes(body: object) -> tuple[int | str, ...]:
    """Return the codes and types in an error's body."""
    if isinstance(body, list):
        return tuple(code for one in body for code in error_codes(one))
    if not isinstance(body, Mapping):
        return ()
    own = (
        code
        for code in (body.get("code"), body.get("type"))
        if isinstance(code, int | str) and not isinstance(code, bool)
    )
    return (*own, *error_codes(body.get("error")), *error_codes(body.get("errors")))


def of_status(status: int, headers: Mapping[str, str], message: str, key: str) -> Decision:
    """Return the decision for a reply with an HTTP error ``status``."""
    overflow = context_overflow(status, message)
    if overflow is not None and any(overflow):
        told = f"HTTP {status}: {message} ({overflow_text(*overflow)})"
        return PermanentError(hidden(told, key))
    return classify_http(status, headers, hidden(message, key))


def of_connection(error: BaseException, key: str, place: str = "") -> Decision:
    """Return the decision for a request without a reply to the address ``place``.

    The libraries wrap such an error several times, each saying less: the innermost says why.
    """
    host = urlsplit(place).netloc.rpartition("@")[2]
    whither = f" to {host}" if host else ""
    return Transient(hidden(f"no connection{whither}: {unreachable(error, key)}", key))


def of_other(error: Exception, key: str, place: str = "") -> Decision:
    """Return the decision for an error of ours, of HTTP or of a provider's SDK.

    A lost connection and a reply out of its wire format may be mended by another try; refusals and
    an account without credit are final. ``place`` is the address that was asked.
    """
    response = getattr(error, "response", None)
    if isinstance(response, httpx2.Response) and response.is_error:
        error = status_error(response)
    text = error_text(error, key=key)
    match error:
        case StatusError() if not _REFUSED.isdisjoint(error.codes):
            told = hidden(f"refused: {error.message} (say it in other words)", key)
            return PermanentError(told)
        case StatusError():
            decision = of_status(error.status, error.headers, error.message, key)
            if "insufficient_quota" in error.codes:
                return PermanentError(with_hint(402, decision.reason))
            return decision
        case MalformedReply():
            told = hidden(f"malformed reply: {error}", key)
            return Transient(told, replied=True, lasts_if_repeated=True)
        case RequestError():
            return PermanentError(hidden(str(error), key))
        case UnicodeError():
            return PermanentError(f"the request cannot be sent: {text}")
    kind = type(error)
    is_lost = kind.__module__.partition(".")[0] in _TRANSPORTS or kind.__name__ in _CONNECTIONS
    if is_lost or isinstance(error, OSError):
        return of_connection(error, key, place)
    # The libraries take a reply apart without looking: what is missing in it raises these.
    if isinstance(error, ValueError | TypeError | LookupError | AttributeError):
        return Transient(f"malformed reply: {text}", replied=True)
    return PermanentError(text)


_SHOWN = 200
_SEARCHED = 4096
"""Last characters of a growing reply that are searched for repetition."""
_LOOKED_AT = 128
"""New characters of a growing reply after which it is searched for repetition."""
CHARACTERS_PER_TOKEN = 16
"""Characters of a reply per token of its limit beyond which the server keeps no limit."""


@dataclass(slots=True)
class RawCall:
    """A tool call as it comes, its arguments as text or as an object."""

    id: str = ""
    name: str = ""
    text: str = ""
    arguments: Mapping[str, Any] | None = None
    signature: str = ""


@dataclass(slots=True)
class RawCompletion:
    """A reply before it is read."""

    parts: list[str] = field(default_factory=list)
    """Texts of the answer."""
    thoughts: list[str] = field(default_factory=list)
    """Texts of a field of its own for reasoning."""
    calls: dict[object, RawCall] = field(default_factory=dict)
    """Tool calls by their place."""
    ended: str = ""
    """The provider's word for why it ended."""
    cut: bool = False
    """Whether it ended at the limit of output tokens."""
    refusal: str | None = None
    """Words of a refusal, which may be empty; None: no refusal."""
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    request_id: str = ""
    tokens: list[Token] = field(default_factory=list)
    signature: str = ""
    limit: int = 0
    """Most output tokens that were asked for; 0: none."""
    watching: bool = True
    """Whether the reply is still growing, so that it may be stopped."""
    streamed: bool = True
    """Whether it comes part by part."""
    _seen: int = 0
    _length: int = 0

    @property
    def text(self) -> str:
        """The answer's text."""
        return "".join(self.parts)

    def thoughts_beside(self, answer: str) -> int:
        """Return the characters of thoughts, in the text and in a field of their own."""
        in_text = max(0, len(self.text.strip()) - len(answer.strip()))
        return in_text + sum(map(len, self.thoughts))

    def grow(self, kind: list[str], text: str) -> None:
        """Append ``text`` to ``kind`` (:attr:`parts` or :attr:`thoughts`).

        Raises ``UnusableReply`` where the reply repeats itself without an end, or is far longer
        than the limit that the server was given.
        """
        kind.append(text)
        self.watch(kind, len(text))

    def watch(self, kind: list[str], length: int) -> None:
        """Search a growing reply for repetition, now and then."""
        self._length += length
        if not self.watching or self._length - self._seen < _LOOKED_AT:
            return
        self._seen = self._length
        if repeated := repeats("".join(kind)[-_SEARCHED:]):
            problem, more = f"the model repeats itself ({repeated})", ""
        elif self.limit and self._length > self.limit * CHARACTERS_PER_TOKEN:
            problem = "the server keeps no limit of output tokens"
            more = f", {self.limit} tokens were asked for"
        else:
            return
        told = f"{problem}: the reply was stopped after {self._length} characters{more}"
        raise UnusableReply(told, self.usage, retry=False)


def completion_of(raw: RawCompletion, request: CompletionRequest, *, logprobs: bool) -> Completion:
    """Return the completion of a reply; ``logprobs``: token probabilities were requested.

    Raises ``UnusableReply`` for an empty reply or a tool call that cannot be read, unless it was
    cut off, and ``MalformedReply`` for a tool call without a name.
    """
    told: dict[str, Any] = {
        "usage": raw.usage,
        "ended": raw.ended,
        "model": raw.model,
        "request_id": raw.request_id,
        "signature": raw.signature,
    }
    if raw.refusal is not None:
        return Completion(raw.refusal.strip() or raw.text.strip(), "refusal", **told)
    wanted = request.output if isinstance(request.output, OutputSchema) else None
    schema = None if wanted is None else wanted.schema
    asked = sum(len(message.text) for message in request.messages)
    if problem := silently_cut(raw.usage.tokens_in or None, asked):
        raise UnusableReply(problem, raw.usage, retry=False)
    text, problem = answer_of(raw.text, "".join(raw.thoughts), schema)
    told |= {"streamed": raw.streamed, "thoughts": raw.thoughts_beside(text)}
    found = list(raw.calls.values())
    data: Mapping[str, Any] | None = None
    calls: list[ToolCall] = []
    called = False
    if wanted is not None:
        filled = next((call for call in found if call.name == wanted.name), None)
        if filled is not None:
            # A server that cannot force a tool lets the model write the same as text.
            data = filled.arguments or _object_of(filled.text, schema)
            text = text if data is not None else filled.text or text
        else:
            data = _object_of(text, schema)
        called = filled is not None
    else:
        for call in found:
            if not call.name:
                raise MalformedReply("a tool call without a name")
            arguments = call.arguments
            if arguments is None:
                arguments = best_object(call.text, None) if call.text.strip() else {}
            if arguments is None and not raw.cut:
                broken = cut_short(f"{call.name}({call.text})", _SHOWN)
                raise UnusableReply(f"a tool call that cannot be read: {broken}", raw.usage)
            # Where the reply was cut off its text was cut as well: that is told of the whole.
            calls.append(ToolCall(call.id, call.name, dict(arguments or {}), call.signature))
    if not text.strip() and not calls and data is None and not raw.cut:
        if not raw.text.strip() and not raw.thoughts:
            problem = f"empty reply (it ended by {raw.ended or 'nothing'})"
        # A model that thinks instead of answering does so again.
        raise UnusableReply(problem, raw.usage, retry=not raw.thoughts)
    stop: Stop = "length" if raw.cut else "tools" if calls else "end"
    return Completion(
        text, stop, calls=tuple(calls), data=data, called=called, tokens=tuple(raw.tokens),
        logprobs_requested=logprobs, **told,
    )  # fmt: skip


def _object_of(text: str, schema: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Return the wanted object of ``text``; one with NaN is left to its reader."""
    found = best_object(text, schema)
    if found is None and ("NaN" in text or "Infinity" in text):
        with suppress(ValueError, RecursionError):
            loose = json.loads(text)
            return loose if isinstance(loose, Mapping) else None
    return found


class StreamedResponse(Protocol):
    """The part of an SDK's raw response that is read here."""

    @property
    def headers(self) -> Any: ...

    async def read(self) -> bytes: ...

    def iter_lines(self) -> AsyncIterator[str]: ...


async def events_of(response: StreamedResponse, place: str) -> AsyncIterator[Mapping[str, Any]]:
    """Yield the JSON objects of a stream of server-sent events, or a whole body as the only one.

    Servers that know no streams answer whole. ``place``: the address, for messages. Raises
    ``StatusError`` for an error inside, ``MalformedReply`` for what is no JSON object.
    """
    kind = str(response.headers.get("content-type", "")).lower()
    if not is_stream(response):
        body = await response.read()
        problem = page_problem(kind, body, place)
        if problem:
            raise MalformedReply(problem)
        yield _object(body.decode("utf-8", "replace"), "")
        return
    name, data = "", ""
    async for line in response.iter_lines():
        if line.startswith("event:"):
            name = line[6:].strip()
        elif line.startswith("data:"):
            data = f"{data}\n{line[5:].lstrip()}" if data else line[5:].lstrip()
        elif not line.strip() and data:
            if data.strip() == "[DONE]":
                return
            yield _object(data, name)
            name, data = "", ""
    if data and data.strip() != "[DONE]":
        yield _object(data, name)


def is_stream(response: StreamedResponse) -> bool:
    """Return whether a response is a stream of server-sent events."""
    return "event-stream" in str(response.headers.get("content-type", "")).lower()


def _object(text: str, name: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        raise MalformedReply(f"no JSON: {cut_short(text, 80)!r}") from None
    if not isinstance(found, dict):
        raise MalformedReply(f"no JSON object: {cut_short(text, 80)!r}")
    kind = name or text_of(found.get("type"))
    failed = kind == "response.failed"
    told = mapping_of(found.get("response")) if failed else found
    # An event's other members, such as the message that begins, are no error.
    if kind and kind != "error" and not told.get("error"):
        return found
    inside = status_inside(told)
    if inside is None and not failed and kind != "error":
        return found
    error = mapping_of(told.get("error")) or told
    message = text_of(error.get("message")) or cut_short(text, _SHOWN)
    raise StatusError(*(inside or (500, message)), codes=error_codes(error))


def text_of(value: object) -> str:
    """Return ``value`` where it is text; servers send null and other types in its place."""
    return value if isinstance(value, str) else ""


def count_of(value: object) -> int:
    """Return ``value`` where it counts tokens, else 0; some servers send whole floats."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0
    return int(value) if 0 < value < math.inf and value == value // 1 else 0
