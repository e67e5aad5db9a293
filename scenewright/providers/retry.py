"""Errors of calls: what they mean, when a call is repeated, who is notified.

A failed call becomes a decision: :class:`RateLimited` (wait), :class:`Transient` (try again) or
:class:`PermanentError`. :class:`Retries` turns decisions into waits. A call that is retried would
be silent for minutes, so the node that makes it can listen::

    with listen_for_retries(lambda attempt: emit(runtime, ...)):
        prompt = await composer.compose(scene, seed)
"""

from __future__ import annotations

import math
import os
import random
import re
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from scenewright.core.error_text import error_text
from scenewright.core.errors import ScenewrightError
from scenewright.providers.replies import ERROR_TEXTS
from scenewright.providers.usage import Usage, within


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The account's limit was reached; the same request may be sent later."""

    reason: str
    """Message of the provider, without secrets or image data."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait; None if it does not say."""


@dataclass(frozen=True, slots=True)
class Transient:
    """A temporary failure: overload, lost connection, timeout."""

    reason: str
    """The problem."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait; None if it does not say."""
    replied: bool = False
    """Whether a complete but unreadable reply came: a provider that keeps its replies would repeat
    it for the same request.
    """
    timed_out: bool = False
    """No reply came within the time of an attempt."""
    lasts_if_repeated: bool = False
    """Whether the same reason twice in a row means that no attempt will succeed."""


@dataclass(frozen=True, slots=True)
class PermanentError:
    """A final failure: wrong key, unknown model, refused request."""

    reason: str
    """The problem, with the remedy where that is known."""


Decision = RateLimited | Transient | PermanentError


class CallError(ScenewrightError, RuntimeError):
    """A call that failed finally; ``str()`` gives the reason and the number of attempts."""

    def __init__(
        self,
        decision: Decision,
        attempts: int,
        usage: Usage = Usage(),  # noqa: B008 - a constant
        usd: float = 0.0,
    ) -> None:
        """``decision`` is the last attempt's, ``attempts`` how often the call was sent.

        ``usage`` and ``usd`` are of replies that were paid for but unusable.
        """
        times = "" if attempts == 1 else f" (after {attempts} attempts)"
        super().__init__(f"{decision.reason}{times}")
        self.decision = decision
        self.attempts = attempts
        self.usage = usage
        self.usd = usd


class TransportError(ScenewrightError, RuntimeError):
    """A request or reply that the transport stopped; SDKs raise their own errors from it."""

    def __init__(self, decision: Decision) -> None:
        """``decision``: what follows; its reason is without secrets."""
        super().__init__(decision.reason)
        self.decision = decision


def transport_decision(error: BaseException) -> Decision | None:
    """Return the decision of the ``TransportError`` among the causes of ``error``, if any."""
    found = (one for one in causes(error) if isinstance(one, TransportError))
    return next((one.decision for one in found), None)


class AccountPaused(Exception):
    """The account is paused for longer than the call may wait."""

    def __init__(self, seconds: float, why: str = "") -> None:
        """``seconds`` until the pause ends; ``why``: its cause, if not the provider."""
        super().__init__(why or f"the account is paused for {seconds:.0f} s")
        self.seconds = seconds
        self.why = why


class UnusableReply(ScenewrightError, RuntimeError):
    """A reply that was paid for but holds nothing usable."""

    def __init__(self, reason: str, usage: Usage, *, retry: bool = True) -> None:
        """``retry``: whether another try may give a better reply; a refusal will not."""
        super().__init__(reason)
        self.reason = reason
        self.usage = usage
        self.retry = retry


class RequestChanged(ScenewrightError, RuntimeError):
    """The server refused the form of a request; the next attempt is sent in another one."""

    def __init__(self, reason: str, usage: Usage = Usage()) -> None:  # noqa: B008 - a constant
        """``usage``: of a reply that was paid for all the same."""
        super().__init__(reason)
        self.reason = reason
        self.usage = usage


# 409 is a lock timeout at OpenAI and Anthropic, 529 Anthropic's overload; other codes from 500 on
# come from proxies in between.
_TRANSIENT = frozenset({408, 409, 425})
_LASTING = frozenset({501, 505})

# Messages of temporary failures, or of any failure.
_PASSING = re.compile(
    r"internal (?:server )?error|error (?:while|when|during) processing|had an error|"
    r"\b(?:re)?try\b|overload|temporar|timed? ?out|unavailable|un(?:expected|known) error|^\s*$",
    re.IGNORECASE,
)


def classify_http(status: int, headers: Mapping[str, str], reason: str) -> Decision:
    """Return the decision for a reply with an HTTP error ``status``.

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
        return PermanentError(with_hint(status, text))
    if status == 429:
        return RateLimited(text, wait or rate_limit_reset(lowered))
    again = status in _TRANSIENT or (status >= 500 and status not in _LASTING)
    if again or wanted == "true":
        own = status == 500 and wait is None and _PASSING.search(reason) is None
        return Transient(text, wait, lasts_if_repeated=own)
    return PermanentError(with_hint(status, text))


def unreachable(error: BaseException, key: str = "") -> str:
    """Return why a request got no reply, from the innermost error of the chain.

    ``key``: a secret that may stand in a library's text.
    """
    chain = list(causes(error))
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
    return error_text(said[-1], key=key)


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield ``error`` and its causes, the innermost last.

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
    """Return the seconds that ``headers`` (lower-case names) ask to wait; None if none or no more.

    Reads ``retry-after-ms`` (OpenAI) and ``retry-after``, seconds or a date (RFC 9110, 10.2.3),
    which is held against the ``date`` header, or ``now``, or this machine's clock.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    text = headers.get("retry-after")
    seconds, until = _number(text), _date(text)
    if seconds is not None or until is None:
        return seconds
    return _positive(until.timestamp() - _time_sent(headers, now))


def rate_limit_reset(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return the seconds until a used-up limit named by ``headers`` (lower-case) is reset, or None.

    Reads ``x-ratelimit-reset-requests`` and ``-tokens`` (OpenAI, Groq: "6m0s", "17ms") where none
    remain, and ``x-ratelimit-reset`` (OpenRouter: a time in ms; others: in s, or seconds).
    """
    waits: list[float | None] = [None]
    for kind in ("-requests", "-tokens", ""):
        text = headers.get(f"x-ratelimit-reset{kind}", "").strip()
        used_up = _number(headers.get(f"x-ratelimit-remaining{kind}", "0")) is None
        if not text or not used_up:
            continue
        if re.fullmatch(_DURATION, text):
            found = re.findall(r"([\d.]+)(ms|s|m|h)", text)
            waits.append(sum(float(number) * _UNITS[unit] for number, unit in found))
        elif (value := _number(text)) is not None:
            # No limit lasts for thirty years: such a number is a time since 1970.
            since = _time_sent(headers, now) if value > 1e9 else 0.0
            waits.append((value / 1000 if value > 1e12 else value) - since)
    return _positive(max((wait for wait in waits if wait is not None), default=None))


_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:ms|s|m|h))+")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _time_sent(headers: Mapping[str, str], now: datetime | None) -> float:
    """Return when a reply was sent, as a timestamp."""
    return (_date(headers.get("date")) or now or datetime.now(UTC)).timestamp()


def _number(text: str | None) -> float | None:
    try:
        return _positive(float(text or ""))
    except ValueError:
        return None


def _positive(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) and value > 0 else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text or "")
    except (ValueError, IndexError, OverflowError):
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def with_hint(status: int, text: str) -> str:
    """Return the ``text`` of an error of ``status`` with its remedy, where there is one."""
    hint = ERROR_TEXTS["hints"].get(str(status))
    return f"{text} ({hint})" if hint and hint not in text else text


# Each was paid for: after two more tries the model will not do better.
_UNUSABLE_REPLIES = 3
# Each took all the time that an attempt has. Where nothing is drawn at random, a model that ran on
# past it once does so again; a connection that hung is mended by one more attempt.
_TIMEOUTS = 2
# Each takes another part of the request's form; a server that refuses more takes none of it.
_CHANGES = 10


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits with jitter, for failures that do not say how long to wait."""

    initial: float = 0.5
    """Seconds after the first failure, doubled by each further one."""
    maximum: float = 30.0
    """Most seconds."""
    jitter: float = 0.5
    """Random share of a wait, so that calls do not return together."""

    def seconds(self, failures: int) -> float:
        """Return the wait after the ``failures``-th failure in a row (from 1)."""
        longest = min(self.maximum, self.initial * 2.0 ** min(failures - 1, 60))
        return longest * (1 - self.jitter * random.random())


@dataclass(frozen=True, slots=True)
class Failed:
    """One attempt failed."""

    decision: Decision
    """Meaning of its error."""
    wait: float | None
    """Seconds until the next attempt; None if there is none."""


class Retries:
    """Attempts of one call, and what it may still try.

    A rate-limited attempt says nothing about the request and is bounded only by ``max_wait``. All
    others are bounded by ``attempts`` and ``max_wait``, unusable replies also by two retries, and
    timeouts by one. Only waits after failures count for ``max_wait``, standing
    in line does not.
    """

    def __init__(self, attempts: int, max_wait: float, backoff: Backoff) -> None:
        """Send up to ``attempts`` times and wait ``max_wait`` seconds in all."""
        self.sent = 0
        self.left = max_wait
        self._attempts = attempts
        self._max_wait = max_wait
        self._backoff = backoff
        # Failures by kind; "failed" are those that count for the attempts.
        self._counts: Counter[str] = Counter()
        self._last = ""

    def after(self, decision: Decision, *, paused: float = 0.0) -> Failed:
        """Return the failure with the wait that follows ``decision``.

        ``paused``: seconds that the account is paused.
        """
        counts = self._counts
        match decision:
            case PermanentError():
                return Failed(decision, None)
            case RateLimited():
                counts["refused"] += 1
                backoff = self._backoff.seconds(counts["refused"])
                wait = max(decision.retry_after or 0.0, paused, backoff)
            case Transient():
                counts["failed"] += 1
                counts["timed out"] += decision.timed_out
                again, self._last = decision.reason == self._last, decision.reason
                if again and decision.lasts_if_repeated:
                    reason = f"{decision.reason}; the same answer came twice"
                    return Failed(PermanentError(reason), None)
                if counts["failed"] >= self._attempts or counts["timed out"] >= _TIMEOUTS:
                    return Failed(decision, None)
                wait = max(decision.retry_after or 0.0, self._backoff.seconds(counts["failed"]))
        if wait > self.left:
            reason = f"{decision.reason}; the next attempt would be in {wait:.0f} s; {self.budget}"
            return Failed(replace(decision, reason=reason), None)
        self.left -= wait
        return Failed(decision, wait)

    def changed(self, reason: str) -> Failed:
        """Return the failure after a refusal that changed the form of the request."""
        self._counts["changed"] += 1
        again = self._counts["changed"] <= _CHANGES
        return Failed(PermanentError(reason), 0.0 if again else None)

    def unusable(self, reason: str, retry: bool) -> Failed:
        """Return the failure after an unusable reply."""
        counts = self._counts
        counts.update(["failed", "unusable"])
        few = counts["unusable"] < _UNUSABLE_REPLIES and counts["failed"] < self._attempts
        return Failed(PermanentError(reason), 0.0 if retry and few else None)

    @property
    def budget(self) -> str:
        """Rest of the time for waits, for messages."""
        return f"the retry budget (max_wait = {self._max_wait:g} s) has {self.left:.0f} s left"


LONG_SECONDS = 10.0
"""Duration from which people should see an attempt."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """A failed attempt of a call that is sent again."""

    account: str
    """The account that it was sent for."""
    model: str
    """The model, as the provider names it."""
    label: str
    """Purpose of the call."""
    number: int
    """Number of the attempt, from 1."""
    seconds: float
    """Duration."""
    reason: str
    """Why it failed, without secrets."""
    wait: float
    """Seconds until the next attempt."""


Listener = Callable[[FailedAttempt], None]
_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("scenewright_listeners", default=())


def listen_for_retries(listener: Listener) -> AbstractContextManager[None]:
    """Report to ``listener`` each failed attempt of this task and its subtasks."""
    return within(_LISTENERS, (*_LISTENERS.get(), listener))


def notify_retry(attempt: FailedAttempt) -> None:
    """Report an attempt to all listeners around this task."""
    for listener in _LISTENERS.get():
        listener(attempt)
