"""What an HTTP error of a provider, or no reply at all, means for its call."""

from __future__ import annotations

import math
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from scenewright.providers.decisions import Decision, PermanentError, RateLimited, Transient

# 409 is a lock timeout at OpenAI and Anthropic, 529 Anthropic's overload; other codes from 500 on
# come from proxies on the way.
_TRANSIENT = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505})

# What servers say of a failure that passes, or of any failure at all.
_PASSING = re.compile(
    r"internal (?:server )?error|error (?:while|when|during) processing|had an error|"
    r"\b(?:re)?try\b|overload|temporar|timed? ?out|unavailable|un(?:expected|known) error|^\s*$",
    re.IGNORECASE,
)

_HINTS = {
    400: "the request was refused",
    401: "check the API key",
    402: "check the account's balance",
    403: "the key may not use this model or service",
    404: "check the model's name and the base URL",
    413: "the request is too large: lower the longest image side",
    422: "the request was refused",
}


def classify_http(status: int, headers: Mapping[str, str], reason: str) -> Decision:
    """The decision for a reply with an HTTP error ``status``.

    ``headers`` in any case; ``reason`` is the provider's message. 429 is a rate limit, 408, 409,
    425 and most codes from 500 on are transient, the others final, unless the provider's
    ``x-should-retry`` says otherwise. Some servers answer 500 to what they cannot do: a 500 with
    words of its own ("image input is not supported") lasts if it comes twice.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    text = f"HTTP {status}: {reason}".rstrip(": ")
    wait = retry_after(lowered)
    wanted = lowered.get("x-should-retry", "").strip().lower()
    if wanted == "false":
        return PermanentError(_with_hint(status, text))
    if status == 429:
        return RateLimited(text, wait)
    again = status in _TRANSIENT or (status >= 500 and status not in _LASTING)
    if again or wanted == "true":
        own = status == 500 and wait is None and _PASSING.search(reason) is None
        return Transient(text, wait, lasts_if_repeated=own)
    return PermanentError(_with_hint(status, text))


def unreachable(error: BaseException) -> str:
    """Return why a request got no reply: the innermost of the errors that were raised from another
    says it."""
    chain = list(_chain(error))
    for one in reversed(chain):
        match one:
            case ConnectionRefusedError():
                return "connection refused: check that the server runs, and base_url"
            case socket.gaierror():
                return "the name cannot be resolved: check the network, and base_url"
            case ssl.SSLCertVerificationError():
                return f"its certificate cannot be verified: {one.verify_message}"
            case ssl.SSLError():
                return f"TLS failed ({one.reason})"
            case OSError() if one.errno:
                return os.strerror(one.errno)
    said = [one for one in chain if str(one)] or chain
    return f"{type(said[-1]).__name__}: {said[-1]}".rstrip(": ")


def _chain(error: BaseException) -> Iterator[BaseException]:
    """``error`` and what it was raised from, the innermost last.

    HTTP libraries raise their own errors ``from None``, but while they handle the system's; of the
    tries of several addresses the last one speaks for all.
    """
    found: BaseException | None = error
    seen: set[int] = set()
    while found is not None and id(found) not in seen:
        seen.add(id(found))
        yield found
        if isinstance(found, BaseExceptionGroup):
            found = found.exceptions[-1]
        else:
            found = found.__cause__ or found.__context__


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds that ``headers`` (names in lower case) ask to wait, at least 0; None if they do not.

    Reads ``retry-after-ms`` (OpenAI) and ``retry-after``, seconds or a date (RFC 9110, 10.2.3),
    which is held against the ``date`` header, or ``now``, or this machine's clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    until = _date(text)
    if until is None:
        return None
    since = _date(headers.get("date")) or now or datetime.now(UTC)
    return max(0.0, (until - since).total_seconds())


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return max(0.0, value) if math.isfinite(value) else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _with_hint(status: int, text: str) -> str:
    hint = _HINTS.get(status)
    return f"{text} ({hint})" if hint else text
