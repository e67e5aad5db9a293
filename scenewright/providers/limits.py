"""Limits of an account: requests per minute, tokens per minute, calls in flight.

Calls stand in one line, and only its head waits: for the end of a pause, tokens, a slot for a call
in flight, the request rate. So exactly one task polls the throttler, and a large call is not
overtaken by small ones. A cancelled waiter loses nothing: the head gives back what it holds, and
asks last for the request rate, which cannot be given back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Protocol

from aiolimiter import AsyncLimiter
from asyncio_throttle.throttler import Throttler

from scenewright.providers.day_quota import DayQuota
from scenewright.providers.retry import AccountPaused, Backoff

MARGIN = 0.01
"""Share by which a period is stretched. Requests sent 60 s apart may arrive up to 0.6 s closer."""
LEAST_USED = 0.995
"""Least share of the limit that a plan uses, before its periods are stretched."""
TOKEN_BURST = 1 / 60
"""Share of a minute's tokens that may go at once."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an account; None: no such limit."""

    requests_per_minute: int | None = None
    """Requests that may be sent within any 60 s, failed ones included."""
    tokens_per_minute: int | None = None
    """Tokens, input and output together, within any 60 s."""
    concurrent: int = 32
    """Most calls in flight; fewer for a while after a refusal."""
    window: float = 60.0
    """Seconds (at most 60) over which the provider counts requests; smaller values spread them."""
    requests_per_day: int | None = None
    """Requests that may be sent from one midnight to the next."""
    day_zone: str = "UTC"
    """The IANA time zone whose midnight that is."""
    counted_as: str = ""
    """Name under which all processes of this machine count the requests of a day; empty: each
    process counts its own.
    """

    def __post_init__(self) -> None:
        """Raise ``ValueError`` for a limit below 1 or a window outside (0, 60]."""
        for name in (
            "requests_per_minute", "tokens_per_minute", "requests_per_day", "concurrent"
        ):  # fmt: skip
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name} must be at least 1, not {value}")
        if not 0 < self.window <= 60:
            raise ValueError(f"window must be above 0 s and at most 60 s, not {self.window:g}")

    def day_quota(self) -> DayQuota | None:
        """Return the counter of requests per day; None without a limit."""
        if self.requests_per_day is None:
            return None
        return DayQuota(self.requests_per_day, self.day_zone, self.counted_as)


@dataclass(frozen=True, slots=True)
class RatePlan:
    """At most ``count`` requests within any ``period`` seconds."""

    count: int
    """Requests that may go at once."""
    period: float
    """Seconds after which the same number may go again."""

    @property
    def per_minute(self) -> float:
        """Requests per minute that the plan reaches."""
        return 60.0 * self.count / self.period


def rate_plan(per_minute: int, window: float = 60.0) -> RatePlan:
    """Return bursts that never exceed ``per_minute`` requests in 60 s, and hardly stay below.

    A burst holds what the provider lets through in ``window`` seconds (at most 60): the whole
    minute's worth at once where it counts by the minute. With k = ⌊per_minute / count⌋ and periods
    of 60·(1 + MARGIN)/k s, 60 s hold at most k bursts, so at most per_minute requests; the plan
    reaches count·k/(1 + MARGIN) of them. Raises ``ValueError`` for a limit below 1 or a window
    outside (0, 60].
    """
    if per_minute < 1 or not 0 < window <= 60:
        raise ValueError(
            f"{per_minute} requests a minute, counted over {window:g} s: "
            "give at least 1, and a window above 0 s and up to 60 s"
        )
    count = max(1, int(per_minute * window / 60 + 1e-9))
    while count * (per_minute // count) < LEAST_USED * per_minute:
        count -= 1
    return RatePlan(count, 60.0 * (1 + MARGIN) / (per_minute // count))


class FifoLock:
    """Lock for one holder: first come, first served, with priority for some."""

    def __init__(self) -> None:
        self._taken = False
        self._ahead: deque[asyncio.Future[None]] = deque()
        self._rest: deque[asyncio.Future[None]] = deque()

    async def take(self, *, ahead: bool = False) -> None:
        """Acquire the lock, ``ahead`` of all waiters without priority."""
        if not self._taken:
            self._taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        (self._ahead if ahead else self._rest).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Release the lock to the next waiter."""
        for waiting in (self._ahead, self._rest):
            while waiting:
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(None)
                    return
        self._taken = False


class Slots:
    """Slots for calls in flight: fewer after a refusal, then slowly more.

    For one waiter at a time, the head of the line.
    """

    def __init__(self, bound: int) -> None:
        """``bound``: most slots, and the initial number."""
        self.bound = bound
        self.allowed = bound
        self.under_way = 0
        self._successes = 0
        self._changed: asyncio.Future[None] | None = None

    async def take(self) -> None:
        """Acquire a slot."""
        while self.under_way >= self.allowed:
            self._changed = asyncio.get_running_loop().create_future()
            await self._changed
        self.under_way += 1

    def leave(self) -> None:
        """Release a slot."""
        self.under_way -= 1
        self._notify()

    def succeeded(self) -> None:
        """Add a slot after as many successes as there are slots, up to the bound."""
        self._successes += 1
        if self.allowed < self.bound and self._successes >= self.allowed:
            self.allowed += 1
            self._successes = 0
            self._notify()

    def halve(self) -> None:
        """Halve the slots, to one at least; calls in flight stay."""
        self.allowed = max(1, self.allowed // 2)
        self._successes = 0

    def _notify(self) -> None:
        if self._changed is not None and not self._changed.done():
            self._changed.set_result(None)


class RequestRate:
    """Throttler of a plan; polls, so it serves one waiter at a time."""

    def __init__(self, plan: RatePlan) -> None:
        """``plan``: see :func:`rate_plan`."""
        # The delay of a poll is lost once in a period.
        interval = min(0.01, max(0.001, plan.period / 500))
        self._throttler = Throttler(plan.count, plan.period, retry_interval=interval)

    async def take(self) -> None:
        """Wait until a request may be sent; a cancelled wait counts none."""
        await self._throttler.acquire()  # type: ignore[no-untyped-call]


class TokenBudget:
    """Tokens per minute by a leaky bucket that holds one second's worth.

    Filled once and leaking for 60 s it lets the limit through, and no more. A call larger than the
    bucket pours its tokens in piece by piece and goes when the last one is in: it always gets
    through eventually, and exceeds the limit of a minute by its own tokens at most. For one waiter
    at a time.
    """

    def __init__(self, per_minute: int) -> None:
        """``per_minute``: tokens within any 60 s."""
        burst = per_minute * TOKEN_BURST
        self._piece = burst / 2
        leak = per_minute * (1 - TOKEN_BURST) / 60
        self._size = (burst, burst / leak)
        self._bucket = AsyncLimiter(*self._size)
        self._loop: asyncio.AbstractEventLoop | None = None
        # Above 0: used but not poured in yet. Below: poured in but not used.
        self._owed = 0.0

    async def take(self, tokens: int) -> None:
        """Wait until ``tokens`` more may be used."""
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            # A bucket serves one event loop; what a new one forgets is a second's worth.
            self._bucket, self._loop = AsyncLimiter(*self._size), loop
        if self._bucket.has_capacity(self._bucket.max_rate):
            # What an empty bucket was given too much has leaked away long since.
            self._owed = max(self._owed, 0.0)
        self._owed += tokens
        try:
            while self._owed > 0:
                piece = min(self._owed, self._piece)
                await self._bucket.acquire(piece)
                self._owed -= piece
        except BaseException:
            self._owed -= tokens
            raise

    def correct(self, taken: int, used: int) -> None:
        """Replace the estimate ``taken`` by ``used`` tokens: later calls wait less or longer."""
        self._owed += used - taken


@dataclass(frozen=True, slots=True)
class Ticket:
    """Permission to send one request now."""

    tokens: int
    """Reserved tokens."""
    refusals: int
    """Number of refusal bursts before it: identifies the first refusal of a burst."""


class RateLimiter(Protocol):
    """Gate that every attempt of an account passes; :class:`AccountLimits` is one."""

    def paused(self) -> float:
        """Return the seconds until requests may be sent again; 0 if they may now."""
        ...

    async def enter(self, tokens: int, *, ahead: bool, max_wait: float) -> Ticket:
        """Wait until a request may be sent; see :meth:`AccountLimits.enter`."""
        ...

    def leave(self, ticket: Ticket) -> None:
        """End the request of ``ticket``, whatever its result."""
        ...

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """Record that the request was answered and used ``tokens``; 0 if unknown."""
        ...

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """Record that the provider's limit refused the request."""
        ...


class AccountLimits:
    """Limits of one account in this process; attempts pass :meth:`enter` and :meth:`leave`."""

    def __init__(self, limits: Limits, backoff: Backoff) -> None:
        """``backoff``: pause after a refusal that names none."""
        self.slots = Slots(limits.concurrent)
        self.rate: RequestRate | None = None
        if limits.requests_per_minute is not None:
            self.rate = RequestRate(rate_plan(limits.requests_per_minute, limits.window))
        self._tokens: TokenBudget | None = None
        if limits.tokens_per_minute is not None:
            self._tokens = TokenBudget(limits.tokens_per_minute)
        self._day = limits.day_quota()
        self._backoff = backoff
        self._line = FifoLock()
        self._resumes = 0.0
        self._refusals = 0
        self._in_a_row = 0

    def paused(self) -> float:
        """Return the seconds until requests may be sent again; 0 if they may now."""
        if not self._resumes:
            return 0.0
        return max(0.0, self._resumes - asyncio.get_running_loop().time())

    async def enter(self, tokens: int, *, ahead: bool, max_wait: float) -> Ticket:
        """Wait until a request of about ``tokens`` may be sent; :meth:`leave` must follow.

        ``ahead``: before all calls that were never sent. Raises ``AccountPaused`` where a pause
        would last longer than ``max_wait`` seconds. Cancelled anywhere, it leaves nothing taken.
        """
        await self._line.take(ahead=ahead)
        with ExitStack() as always, ExitStack() as undo:
            always.callback(self._line.leave)
            if self._day is not None:
                undo.callback(self._day.give_back, await self._day.take(max_wait))
            if self._tokens is not None:
                await self._tokens.take(tokens)
                undo.callback(self._tokens.correct, tokens, 0)
            await self.slots.take()
            undo.callback(self.slots.leave)
            await self._pause(max_wait)
            if self.rate is not None:
                # Thousands of calls may begin in one turn of the event loop. A request counts
                # from here, so it must not wait for all of their beginnings before it is sent.
                await asyncio.sleep(0)
                await self.rate.take()
                while self.paused():
                    # Paused meanwhile: what was granted before a pause is not used after it.
                    await self._pause(max_wait)
                    await self.rate.take()
            undo.pop_all()
        return Ticket(tokens, self._refusals)

    def leave(self, ticket: Ticket) -> None:
        """End the request of ``ticket``, whatever its result."""
        self.slots.leave()

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """Record that the request was answered and used ``tokens``; 0 leaves the estimate."""
        self._in_a_row = 0
        self.slots.succeeded()
        if self._tokens is not None and tokens > 0:
            self._tokens.correct(ticket.tokens, tokens)

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """Record that the provider's limit refused the request.

        The whole account pauses and sends fewer requests at once.

        Refusals of requests that were under way together count as one.
        """
        if self._tokens is not None:
            self._tokens.correct(ticket.tokens, 0)
        first = ticket.refusals == self._refusals
        if first:
            self._refusals += 1
            self._in_a_row += 1
            self.slots.halve()
        if retry_after is None and first:
            retry_after = self._backoff.seconds(self._in_a_row)
        if retry_after is not None:
            now = asyncio.get_running_loop().time()
            self._resumes = max(self._resumes, now + retry_after)

    async def _pause(self, max_wait: float) -> None:
        while (left := self.paused()) > 0:
            if left > max_wait:
                raise AccountPaused(left)
            await asyncio.sleep(left)


MakeGate = Callable[[str, Limits, Backoff], RateLimiter]
_shared: list[MakeGate] = []


def share_gates(make: MakeGate | None) -> None:
    """Make callers created from now on pass gates of ``make``.

    It receives an account's name, limits and backoff; None restores a gate for each process.
    """
    _shared[:] = [] if make is None else [make]


def gate_of(account: str, limits: Limits, backoff: Backoff) -> RateLimiter:
    """Return the gate of ``account``: of this process, unless processes share theirs."""
    return _shared[0](account, limits, backoff) if _shared else AccountLimits(limits, backoff)
