"""What an HTTP error of a provider means for its call."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from scenewright.calls.decisions import Decision, Never, RateLimited, Transient

# 409 is a lock timeout at OpenAI and Anthropic, 529 Anthropic's overload; other codes from 500 on
# come from proxies on the way.
_TRANSIENT = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505})

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
    ``x-should-retry`` says otherwise.
    """
    lowered = {name.lower(): value for name, value in headers.items()}
    text = f"HTTP {status}: {reason}".rstrip(": ")
    wait = retry_after(lowered)
    wanted = lowered.get("x-should-retry", "").strip().lower()
    if wanted == "false":
        return Never(_with_hint(status, text))
    if status == 429:
        return RateLimited(text, wait)
    again = status in _TRANSIENT or (status >= 500 and status not in _LASTING)
    if again or wanted == "true":
        return Transient(text, wait)
    return Never(_with_hint(status, text))


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
