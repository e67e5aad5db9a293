"""Decisions for errors of provider SDKs: final, worth another try, or a rate limit."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx2

from scenewright.core.error_text import error_text, hidden
from scenewright.core.errors import ScenewrightError
from scenewright.core.validation import cut_short
from scenewright.providers.clients.base import MalformedReply, RequestError
from scenewright.providers.error_bodies import (
    context_overflow,
    decoded,
    error_message,
    overflow_text,
    retry_delay,
)
from scenewright.providers.retry import (
    Decision,
    PermanentError,
    Transient,
    classify_http,
    unreachable,
    with_hint,
)

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
