"""Accounts by API key: their limits over sliding minutes, and what is known of their requests."""

from __future__ import annotations

import hashlib
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Any, Literal

MINUTE = 60.0
_LONGEST_SHOWN = 24

LimitKind = Literal["requests", "tokens", "concurrent"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A request over a limit."""

    limit: LimitKind
    """Which limit."""
    allowed: int
    """What the limit allows."""
    retry_after: float
    """Seconds after which the same request would be let in, if nothing else comes."""


def account_name(key: str) -> str:
    """How the account of an API key is called in reports.

    A key of more than 24 characters may be a real one: it is shown by its beginning and the
    first digits of its SHA-256.
    """
    if len(key) <= _LONGEST_SHOWN:
        return key
    return f"{key[:4]}…{hashlib.sha256(key.encode()).hexdigest()[:8]}"


class Account:
    """The requests of one API key. Times are seconds of one monotonic clock."""

    def __init__(
        self,
        name: str,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        concurrent: int | None = None,
        window: float = MINUTE,
    ) -> None:
        """Limits as in :class:`~scenewright.mock_providers.settings.LabSettings`."""
        self.name = name
        self._length = window
        share = window / MINUTE
        self.requests: int | None = None
        """Most requests within a window."""
        if requests_per_minute is not None:
            self.requests = max(1, int(requests_per_minute * share + 1e-9))
        self.tokens: int | None = None
        """Most tokens within a window."""
        if tokens_per_minute is not None:
            self.tokens = max(1, int(tokens_per_minute * share + 1e-9))
        self.concurrent = concurrent
        self._window: deque[list[float]] = deque()
        self._window_tokens = 0.0
        self._under_way = 0
        self.reset()

    def reset(self) -> None:
        """Forget what was counted; the limits' windows and requests under way stay."""
        self._recent: deque[float] = deque()
        self._accepted: deque[float] = deque(maxlen=self.requests)
        self._ages: list[float] = [0.0, 0.0]
        self._arrivals = 0
        self._outcomes: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._over: Counter[str] = Counter()
        self._executed = 0
        self._executed_twice = 0
        self._tokens_in = 0
        self._tokens_out = 0
        self._most_in_a_window = 0
        self._most_at_once = self._under_way
        self._first: float | None = None
        self._last: float | None = None

    def arrive(self, now: float) -> None:
        """A request is there; every arrival ends with :meth:`finish`."""
        self._arrivals += 1
        self._last = time.time()
        if self._first is None:
            self._first = self._last
        self._recent.append(now)
        while self._recent[0] <= now - self._length:
            self._recent.popleft()
        self._most_in_a_window = max(self._most_in_a_window, len(self._recent))
        self._under_way += 1
        self._most_at_once = max(self._most_at_once, self._under_way)

    def admit(self, now: float) -> Refusal | None:
        """Let the request that just arrived in, or say which limit it is over.

        Refused requests take nothing of the limit.
        """
        self._forget(now)
        refusal = None
        if self.concurrent is not None and self._under_way > self.concurrent:
            refusal = Refusal("concurrent", self.concurrent, 1.0)
        limit = self.requests
        if limit is not None and len(self._window) >= limit:
            wait = self._window[len(self._window) - limit][0] + self._length - now
            refusal = Refusal("requests", limit, min(wait, self._length))
        if refusal is not None:
            self._over[refusal.limit] += 1
            return refusal
        self._window.append([now, 0.0])
        if limit is not None:
            if len(self._accepted) == limit:
                self._ages[0] += now - self._accepted[0]
                self._ages[1] += 1
            self._accepted.append(now)
        return None

    def charge(self, entry: list[float], tokens: int, now: float) -> Refusal | None:
        """Count the input tokens of the request with :meth:`entry`, or refuse it after all."""
        self._forget(now)
        limit = self.tokens
        if limit is not None and self._window_tokens + tokens > limit:
            if entry[0] >= 0:
                self._window = deque(kept for kept in self._window if kept is not entry)
            self._over["tokens"] += 1
            return Refusal("tokens", limit, self._wait_for(tokens, limit, now))
        self._tokens_in += tokens
        self._spend(entry, tokens)
        return None

    def entry(self) -> list[float]:
        """The place of the request let in last, for :meth:`charge` and :meth:`charge_output`."""
        return self._window[-1]

    def charge_output(self, entry: list[float], tokens: int) -> None:
        """Count the output tokens of an answered request, as of its arrival."""
        self._tokens_out += tokens
        self._spend(entry, tokens)

    def execute(self, first: bool) -> None:
        """A model has answered; ``first``: no other request of the same key was worked on."""
        self._executed += 1
        self._executed_twice += not first

    def finish(self, outcome: str, fault: str | None = None) -> None:
        """A request is done: ``outcome`` is a field of :meth:`report`; ``fault`` what befell it."""
        self._under_way -= 1
        if fault is None:
            self._outcomes[outcome] += 1
        else:
            self._faults[fault] += 1

    @property
    def idle(self) -> bool:
        """Whether nothing of it is under way or counts for a limit."""
        return self._under_way == 0 and not self._window

    def remaining(self) -> tuple[int | None, int | None]:
        """Requests and tokens left in this minute; none where there is no limit."""
        requests, tokens = self.requests, self.tokens
        return (
            None if requests is None else max(0, requests - len(self._window)),
            None if tokens is None else max(0, int(tokens - self._window_tokens)),
        )

    def report(self) -> dict[str, Any]:
        """What was counted.

        ``limit_used`` is the rate of requests over the allowed rate, while it was the limit that
        held them back: the window over the mean age that the request a whole limit earlier had
        reached; none before there were more requests than the limit. ``arrivals`` is the sum of
        ``answered``, ``replayed``, ``rate_limited``, ``rejected``, ``failed``, ``abandoned``, all
        ``faults`` and ``under_way``. ``executed`` counts the requests that a model has answered,
        whether or not their client waited for it: what a provider bills. ``replayed`` ones got the
        reply of an earlier request with the same ``Idempotency-Key``; ``executed_twice`` counts
        those that were worked on although their key had been before, which only happens after
        more replies than are kept.
        """
        ages, count = self._ages
        return {
            "arrivals": self._arrivals,
            "answered": self._outcomes["answered"],
            "replayed": self._outcomes["replayed"],
            "rate_limited": self._outcomes["rate_limited"],
            "rejected": self._outcomes["rejected"],
            "failed": self._outcomes["failed"],
            "abandoned": self._outcomes["abandoned"],
            "faults": dict(sorted(self._faults.items())),
            "under_way": self._under_way,
            "executed": self._executed,
            "executed_twice": self._executed_twice,
            "over_limit": sum(self._over.values()),
            "over_limit_by": dict(sorted(self._over.items())),
            "tokens_in": self._tokens_in,
            "tokens_out": self._tokens_out,
            "most_in_a_window": self._most_in_a_window,
            "limit_used": self._length * count / ages if ages else None,
            "most_at_once": self._most_at_once,
            "first": self._first,
            "last": self._last,
        }

    def _spend(self, entry: list[float], tokens: int) -> None:
        if entry[0] >= 0:
            entry[1] += tokens
            self._window_tokens += tokens

    def _forget(self, now: float) -> None:
        while self._window and self._window[0][0] <= now - self._length:
            entry = self._window.popleft()
            self._window_tokens -= entry[1]
            # Its request may still be under way: output that comes later counts no more.
            entry[0] = -1.0

    def _wait_for(self, tokens: int, limit: int, now: float) -> float:
        left = self._window_tokens
        for at, spent in self._window:
            left -= spent
            if left + tokens <= limit:
                return min(at + self._length - now, self._length)
        # More than the limit by itself: it never fits.
        return self._length
