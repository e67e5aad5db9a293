"""Accounts by API key: limits over sliding minutes, counters, the request log, idempotent replies.

The request log is a file with a line for each paid request: the count of a mock server that was
killed.

The first request of an ``Idempotency-Key`` is executed, whether or not its client waits for it, and
every further one gets the same reply and costs nothing. Only whole replies (HTTP 200) are stored;
after an error the next request of the key is executed anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scenewright.mock_providers.faults import MockError
from scenewright.mock_providers.problems import Left, Problem
from scenewright.mock_providers.settings import MockSettings

_LONGEST_SHOWN = 24


def account_name(key: str) -> str:
    """Return the name of an API key's account in reports.

    A key of more than 24 characters may be a real one: it is shown by its beginning and the
    first digits of its SHA-256.
    """
    if len(key) <= _LONGEST_SHOWN:
        return key
    return f"{key[:4]}…{hashlib.sha256(key.encode()).hexdigest()[:8]}"


def account_of(key: str | None) -> str | None:
    """Return :func:`account_name` of a key, none without one."""
    return None if key is None else account_name(key)


OUTCOMES = ("answered", "replayed", "rate_limited", "rejected", "failed", "abandoned")
"""Ways in which a request without a fault ends."""
_COUNTED = ("arrivals", *OUTCOMES, "executed", "executed_twice", "tokens_in", "tokens_out")


class Account:
    """The requests of one API key. Times are seconds of one monotonic clock."""

    def __init__(self, name: str, settings: MockSettings) -> None:
        """``settings``: with the limits."""
        self.name = name
        self._length = settings.window
        self.requests = settings.in_window(settings.requests_per_minute)
        """Most requests within a window."""
        self.tokens = settings.in_window(settings.tokens_per_minute)
        """Most tokens within a window."""
        self.concurrent = settings.concurrent
        self._window: deque[list[float]] = deque()
        self._under_way = 0
        self.reset()

    def reset(self) -> None:
        """Forget what was counted; the limits' windows and requests under way stay."""
        self._recent: deque[float] = deque()
        self._accepted: deque[float] = deque(maxlen=self.requests)
        self._ages, self._aged = 0.0, 0
        self._counts: Counter[str] = Counter()
        self._faults: Counter[str] = Counter()
        self._over: Counter[str] = Counter()
        self._most_in_a_window = 0
        self._most_at_once = self._under_way
        self._first: float | None = None
        self._last: float | None = None

    def arrive(self, now: float) -> None:
        """Count a request that has arrived; :meth:`finish` and :meth:`leave` end every one."""
        self._counts["arrivals"] += 1
        self._last = time.time()
        self._first = self._first or self._last
        self._recent.append(now)
        while self._recent[0] <= now - self._length:
            self._recent.popleft()
        self._most_in_a_window = max(self._most_in_a_window, len(self._recent))
        self._under_way += 1
        self._most_at_once = max(self._most_at_once, self._under_way)

    def admit(self, now: float) -> Problem | None:
        """Let the request that just arrived in, or say which limit it is over.

        Refused requests take nothing of the limit.
        """
        self._forget(now)
        refusal = None
        if self.concurrent is not None and self._under_way > self.concurrent:
            refusal = Problem.rate_limited(1.0, "concurrent", self.concurrent)
        limit = self.requests
        if limit is not None and len(self._window) >= limit:
            wait = self._window[len(self._window) - limit][0] + self._length - now
            refusal = Problem.rate_limited(min(wait, self._length), "requests", limit)
        if refusal is not None:
            self._over[refusal.limit] += 1
            return refusal
        self._window.append([now, 0.0])
        if limit is not None:
            if len(self._accepted) == limit:
                self._ages += now - self._accepted[0]
                self._aged += 1
            self._accepted.append(now)
        return None

    def charge(self, entry: list[float], tokens: int, now: float) -> Problem | None:
        """Count the input tokens of the request with :meth:`entry`, or refuse it after all."""
        self._forget(now)
        limit = self.tokens
        if limit is not None and self._spent() + tokens > limit:
            self._window = deque(kept for kept in self._window if kept is not entry)
            self._over["tokens"] += 1
            # More than the limit by itself never fits.
            wait, left = self._length, self._spent()
            for at, spent in self._window:
                left -= spent
                if left + tokens <= limit:
                    wait = min(at + self._length - now, self._length)
                    break
            return Problem.rate_limited(wait, "tokens", limit)
        self._counts["tokens_in"] += tokens
        entry[1] += tokens
        return None

    def entry(self) -> list[float]:
        """Return the entry of the last admitted request.

        It is needed by :meth:`charge` and :meth:`charge_output`.
        """
        return self._window[-1]

    def charge_output(self, entry: list[float], tokens: int) -> None:
        """Count the output tokens of an answered request, as of its arrival."""
        self._counts["tokens_out"] += tokens
        entry[1] += tokens

    def execute(self, first: bool) -> None:
        """Count an answer of a model; ``first``: no request of the same key was worked on."""
        self._counts["executed"] += 1
        self._counts["executed_twice"] += not first

    def finish(self, outcome: str, fault: str | None = None) -> None:
        """Count a request that is done by its ``fault``, or else by one of :data:`OUTCOMES`."""
        if fault is None:
            self._counts[outcome] += 1
        else:
            self._faults[fault] += 1

    def leave(self) -> None:
        """End a request: its reply was sent, the last event of a stream included."""
        self._under_way -= 1

    @property
    def idle(self) -> bool:
        """Whether nothing of it is under way or counts for a limit."""
        return self._under_way == 0 and not self._window

    def left(self) -> list[Left]:
        """Return what is left of each limit in this minute."""
        return [
            (name, most, max(0, int(most - used)))
            for name, most, used in (
                ("requests", self.requests, len(self._window)),
                ("tokens", self.tokens, self._spent()),
            )
            if most is not None
        ]

    def report(self) -> dict[str, Any]:
        """Return the account's counters.

        ``limit_used`` is the rate of requests over the allowed rate while the limit was binding:
        the window over the mean age that the request a whole limit earlier had reached; None before
        there were more requests than the limit. ``arrivals`` is the sum of ``answered``,
        ``replayed``, ``rate_limited``, ``rejected``, ``failed``, ``abandoned``, all ``faults`` and
        ``under_way``. ``executed`` counts the requests that a model has answered, whether or not
        their client waited for the answer: what a provider bills. ``replayed`` ones got the reply
        of an earlier request with the same ``Idempotency-Key``; ``executed_twice`` counts those
        executed although their key had been seen, which only happens after more replies than are
        stored.
        """
        return {
            **{name: self._counts[name] for name in _COUNTED},
            "faults": dict(sorted(self._faults.items())),
            "under_way": self._under_way,
            "over_limit": self._over.total(),
            "over_limit_by": dict(sorted(self._over.items())),
            "most_in_a_window": self._most_in_a_window,
            "limit_used": self._length * self._aged / self._ages if self._ages else None,
            "most_at_once": self._most_at_once,
            "first": self._first,
            "last": self._last,
        }

    def _spent(self) -> float:
        """Return the tokens of the window."""
        return sum(tokens for _, tokens in self._window)

    def _forget(self, now: float) -> None:
        while self._window and self._window[0][0] <= now - self._length:
            self._window.popleft()


@dataclass(frozen=True, slots=True)
class Request:
    """A request that was answered."""

    account: str
    """Its account, as reports call it."""
    key: str
    """Its ``Idempotency-Key``; empty without one."""
    asked: str
    """SHA-256 (hex) of what it asked."""
    arrived: float
    """When it was there, Unix seconds."""
    executed: bool
    """Whether a model answered it: what a provider bills. Else it got an earlier one's reply."""


class RequestLog:
    """Adds lines to a file; labs that follow each other may share it."""

    def __init__(self, path: Path) -> None:
        """Make the file where there is none.

        Raises ``MockError``.
        """
        self._path = path
        try:
            self._add(b"")
        except OSError as error:
            raise MockError(
                f"the log of requests {path} cannot be written: {error.strerror}. Name a file in a "
                "folder that is there and writable"
            ) from error

    def note(self, account: str, key: str, asked: str, received: float, *, executed: bool) -> None:
        """Add a request that was ``received`` at that monotonic time, before it is replied to."""
        arrived = time.time() - (time.monotonic() - received)
        line = json.dumps(asdict(Request(account, key, asked, arrived, executed)))
        self._add(f"{line}\n".encode())

    def _add(self, data: bytes) -> None:
        # One write without a buffer: a kill leaves no half of a line.
        with open(self._path, "ab", buffering=0) as file:
            file.write(data)


def read_requests(path: Path) -> Iterator[Request]:
    """Return the requests of a log, in the order in which they were answered.

    None without a file.
    """
    if not path.exists():
        return
    with open(path, encoding="utf-8") as file:
        for line in file:
            yield Request(**json.loads(line))


MOST = 100_000
"""Most replies that are kept; the oldest go first."""
MOST_BYTES = 256 * 2**20
"""Most bytes of all of them together, likewise."""
LONGEST_KEY = 255
"""Most characters of a key."""
_REMEMBERED = 1_000_000


@dataclass(frozen=True, slots=True)
class StoredReply:
    """A reply that was given."""

    body: bytes
    """Its JSON, or what a fault made of it."""
    id: str
    """That of its first request: 24 hexadecimal digits."""
    streamed: bool = False
    """Whether the body is server-sent events."""


@dataclass(slots=True)
class _Entry:
    asked: str
    kept: StoredReply | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Replays:
    """The keys of all accounts. One event loop uses it."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """``most`` replies of ``most_bytes`` in all are kept."""
        self._most, self._most_bytes = most, most_bytes
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._sizes: dict[tuple[str, str], int] = {}
        self._bytes = 0
        self._executed: dict[tuple[str, str], None] = {}

    async def claim(self, account: str, key: str, asked: str) -> StoredReply | None:
        """Return the reply to the first request of ``key``, which is waited for.

        None if this one is it.

        ``asked``: digest of the request. Who gets None calls :meth:`keep` or :meth:`release`.
        Raises ``Problem`` for a key that stands for another request, or is too long.
        """
        if len(key) > LONGEST_KEY:
            raise Problem.invalid(f"Idempotency-Key: use at most {LONGEST_KEY} characters")
        name = account, key
        while (entry := self._entries.get(name)) is not None:
            if entry.asked != asked:
                raise Problem(
                    "invalid",
                    422,
                    "this Idempotency-Key was sent with another request: use a new key",
                )
            if entry.kept is not None:
                return entry.kept
            await entry.over.wait()
        self._entries[name] = _Entry(asked)
        return None

    def keep(self, account: str, key: str, reply: StoredReply) -> bool:
        """Answer all requests of ``key`` with ``reply``; False if it was worked on before."""
        name = account, key
        entry = self._entries[name]
        entry.kept = reply
        entry.over.set()
        self._sizes[name] = len(reply.body)
        self._bytes += len(reply.body)
        while len(self._sizes) > self._most or self._bytes > self._most_bytes:
            oldest = next(iter(self._sizes))
            self._bytes -= self._sizes.pop(oldest)
            del self._entries[oldest]
        first = name not in self._executed
        self._executed[name] = None
        if len(self._executed) > _REMEMBERED:
            del self._executed[next(iter(self._executed))]
        return first

    def release(self, account: str, key: str) -> None:
        """There is no reply to keep: the next request of ``key`` is worked on."""
        self._entries.pop((account, key)).over.set()
