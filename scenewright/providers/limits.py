"""Limits of an account: requests per minute, tokens per minute, calls in flight.

Calls stand in one line, and only its head waits: for the end of a pause, tokens, a slot for a call
in flight, the request rate. So exactly one task polls the throttler, and a large call is not
overtaken by small ones. A cancelled waiter loses nothing: the head gives back what it holds, and
asks last for the request rate, which cannot be given back.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Annotated, Protocol

import pydantic.dataclasses
from asyncio_throttle.throttler import Throttler
from pydantic import Field

from scenewright.providers.day_quota import DayQuota
from scenewright.providers.retry import AccountPaused, Backoff

MARGIN = 0.01
"""Share by which a period is stretched. Requests sent 60 s apart may arrive up to 0.6 s closer."""
LEAST_USED = 0.995
"""Least share of the limit that a plan uses, before its periods are stretched."""
TOKEN_BURST = 1 / 60
"""Share of a minute's tokens that may go at once."""
OPEN_AFTER = 10
"""Failed requests in a row after which one at a time is sent: more than one call makes."""
UNKNOWN_SECONDS = 15.0
"""Seconds for which calls wait for a server that never answered; one call's attempts take as long.
"""


@dataclass(frozen=True, slots=True)
class RatePlan:
    """At most ``count`` requests within any ``period`` seconds."""

    count: int
    """Requests that may go at once."""
    period: float
    """Seconds after which the same number may go again."""


_AtLeastOne = Annotated[int, Field(ge=1)]


@pydantic.dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Limits of an account; None: no such limit.

    Raises ``ValueError`` for a limit below 1 or a window outside (0, 60].
    """

    requests_per_minute: _AtLeastOne | None = None
    """Requests that may be sent within any 60 s, failed ones included."""
    tokens_per_minute: _AtLeastOne | None = None
    """Tokens, input and output together, within any 60 s."""
    concurrent: _AtLeastOne = 32
    """Most calls in flight; fewer for a while after a refusal."""
    window: Annotated[float, Field(gt=0, le=60)] = 60.0
    """Seconds (at most 60) over which the provider counts requests; smaller values spread them."""
    requests_per_day: _AtLeastOne | None = None
    """Requests that may be sent from one midnight to the next."""
    day_zone: str = "UTC"
    """The IANA time zone whose midnight that is."""
    counted_as: str = ""
    """Name under which all processes of this machine count the requests of a day; empty: each
    process counts its own.
    """

    def rate_plan(self) -> RatePlan | None:
        """Return bursts that never exceed the requests a minute, and hardly stay below.

        A burst holds what the provider lets through in ``window`` seconds: the whole minute's worth
        at once where it counts by the minute. With k = ⌊per minute / count⌋ and periods of
        60·(1 + MARGIN)/k s, 60 s hold at most k bursts, so at most the limit; the plan reaches
        count·k/(1 + MARGIN) of it.
        """
        limit = self.requests_per_minute
        if limit is None:
            return None
        count = max(1, int(limit * self.window / 60 + 1e-9))
        while count * (limit // count) < LEAST_USED * limit:
            count -= 1
        return RatePlan(count, 60.0 * (1 + MARGIN) / (limit // count))

    def day_quota(self) -> DayQuota | None:
        """Return the counter of requests per day; None without a limit."""
        if self.requests_per_day is None:
            return None
        return DayQuota(self.requests_per_day, self.day_zone, self.counted_as)


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
        self._changed = asyncio.Event()

    async def take(self) -> None:
        """Acquire a slot."""
        while self.under_way >= self.allowed:
            # A new one for the running event loop.
            self._changed = asyncio.Event()
            await self._changed.wait()
        self.under_way += 1

    def leave(self) -> None:
        """Release a slot."""
        self.under_way -= 1
        self._changed.set()

    def succeeded(self) -> None:
        """Add a slot after as many successes as there are slots, up to the bound."""
        self._successes += 1
        if self.allowed < self.bound and self._successes >= self.allowed:
            self.allowed += 1
            self._successes = 0
            self._changed.set()

    def halve(self) -> None:
        """Halve the slots, to one at least; calls in flight stay."""
        self.allowed = max(1, self.allowed // 2)
        self._successes = 0


def throttler(plan: RatePlan) -> Throttler:
    """Return a throttler of ``plan``; it polls, so it serves one waiter at a time."""
    # The delay of a poll is lost once in a period.
    interval = min(0.01, max(0.001, plan.period / 500))
    return Throttler(plan.count, plan.period, retry_interval=interval)


class TokenBudget:
    """Tokens per minute by a leaky bucket that holds one second's worth.

    Filled once and leaking for 60 s it lets the limit through, and no more. A call larger than the
    bucket pours its tokens in piece by piece and goes when the last one is in: it always gets
    through eventually, and exceeds the limit of a minute by its own tokens at most. For one waiter
    at a time.
    """

    def __init__(self, per_minute: int) -> None:
        """``per_minute``: tokens within any 60 s."""
        self.size = per_minute * TOKEN_BURST
        self.leak = per_minute * (1 - TOKEN_BURST) / 60
        self._level = 0.0
        self._leaked_at = 0.0
        # Above 0: used but not poured in yet. Below: poured in but not used.
        self._owed = 0.0

    async def take(self, tokens: int) -> None:
        """Wait until ``tokens`` more may be used."""
        if not self._leaked():
            # What an empty bucket was given too much has leaked away long since.
            self._owed = max(self._owed, 0.0)
        self._owed += tokens
        try:
            while self._owed > 0:
                piece = min(self._owed, self.size / 2)
                if (excess := self._leaked() + piece - self.size) > 0:
                    await asyncio.sleep(excess / self.leak)
                self._level = self._leaked() + piece
                self._owed -= piece
        except BaseException:
            self._owed -= tokens
            raise

    def correct(self, more: int) -> None:
        """Add ``more`` tokens than were taken (or fewer: below 0): later calls wait accordingly."""
        self._owed += more

    def _leaked(self) -> float:
        """Return what is in the bucket now."""
        now = asyncio.get_running_loop().time()
        # The clock of another event loop may be behind.
        self._level -= self.leak * max(0.0, now - self._leaked_at)
        self._level, self._leaked_at = max(0.0, self._level), now
        return self._level


class Circuit:
    """Breaker of an account: after failures in a row one request at a time tests the server.

    The others wait meanwhile. They give up as soon as the server has been down for longer than
    they may wait, or for longer than ``UNKNOWN_SECONDS`` if it never answered: then its address may
    be wrong. For one waiter at a time.
    """

    def __init__(self, backoff: Backoff) -> None:
        """``backoff``: seconds between tests."""
        self._backoff = backoff
        self._failures = 0
        self._reason = ""
        self._since = 0.0
        self._known = False
        self._testing = False
        self._tests = 0
        self._next_test = 0.0
        self._changed = asyncio.Event()

    async def wait(self, max_wait: float) -> bool:
        """Wait until a request may be sent; return whether it is a test, which must be finished.

        Raises ``AccountPaused`` where the server has been down for too long.
        """
        while self._failures >= OPEN_AFTER:
            now = asyncio.get_running_loop().time()
            left = self._next_test - now
            if left <= 0 and not self._testing:
                self._testing = True
                self._plan_test(now)
                return True
            longest = max_wait if self._known else UNKNOWN_SECONDS
            if not self._testing and left + now - self._since > longest:
                raise AccountPaused(
                    left,
                    f"{self._failures} requests in a row failed, the last one because: "
                    f"{self._reason}; the server is asked again in {left:.0f} s",
                )
            self._changed = asyncio.Event()
            with suppress(TimeoutError):
                async with asyncio.timeout(None if self._testing else left):
                    await self._changed.wait()
        return False

    def finish_test(self) -> None:
        """End a test, whatever its result."""
        self._testing = False
        self._changed.set()

    def failed(self, reason: str) -> None:
        """Record a failure to reach the server, or of the server itself."""
        now = asyncio.get_running_loop().time()
        if not self._failures:
            self._since = now
        self._failures += 1
        self._reason = reason
        if self._failures == OPEN_AFTER:
            self._tests = 0
            self._plan_test(now)

    def answered(self) -> None:
        """Record an answer of the server, which may be a refusal."""
        self._failures = 0
        self._known = True
        self._changed.set()

    def _plan_test(self, now: float) -> None:
        self._tests += 1
        self._next_test = now + self._backoff.seconds(self._tests)


@dataclass(frozen=True, slots=True)
class Ticket:
    """Permission to send one request now."""

    tokens: int
    """Reserved tokens."""
    refusals: int
    """Number of refusal bursts before it: identifies the first refusal of a burst."""
    test: bool = False
    """Whether it tests a server that failed."""


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

    def failed(self, ticket: Ticket, reason: str) -> None:
        """Record that the server was not reached, or failed; ``reason`` is without secrets."""
        ...


class AccountGate(ABC):
    """Gate of an account: the line, the day's quota and the circuit breaker of this process."""

    def __init__(self, limits: Limits, backoff: Backoff) -> None:
        """``backoff``: pause after a refusal that names none."""
        self._plan = limits.rate_plan()
        self._tokens: TokenBudget | None = None
        if limits.tokens_per_minute is not None:
            self._tokens = TokenBudget(limits.tokens_per_minute)
        self._day = limits.day_quota()
        self._backoff = backoff
        self._circuit = Circuit(backoff)
        self._line = FifoLock()
        self._resumes = 0.0

    def paused(self) -> float:
        """Return the seconds until requests may be sent again, as far as this process knows."""
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
            test = await self._circuit.wait(max_wait)
            if test:
                undo.callback(self._circuit.finish_test)
            refusals = await self._granted(tokens, max_wait)
            undo.pop_all()
        return Ticket(tokens, refusals, test)

    def leave(self, ticket: Ticket) -> None:
        """End the request of ``ticket``, whatever its result."""
        self._release()
        if ticket.test:
            self._circuit.finish_test()

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """Record that the request was answered and used ``tokens``; 0 leaves the estimate."""
        self._circuit.answered()
        self._succeeded(tokens - ticket.tokens if tokens > 0 else 0)

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """Record that the provider's limit refused the request.

        The whole account pauses and sends fewer requests at once. Refusals of requests that were
        under way together count as one.
        """
        self._circuit.answered()
        self._pause(ticket, retry_after or 0.0)

    def failed(self, ticket: Ticket, reason: str) -> None:
        """Record that the server was not reached, or failed; ``reason`` is without secrets."""
        self._circuit.failed(reason)

    @abstractmethod
    async def _granted(self, tokens: int, max_wait: float) -> int:
        """Wait, at the head of the line, until a request may be sent; return the refusals so far.

        Cancelled, it leaves nothing taken.
        """

    @abstractmethod
    def _release(self) -> None:
        """Give a granted slot back."""

    @abstractmethod
    def _succeeded(self, more: int) -> None:
        """Add a success, and ``more`` tokens than were estimated."""

    @abstractmethod
    def _pause(self, ticket: Ticket, seconds: float) -> None:
        """Pause for ``seconds``, or the backoff where that is longer."""


class AccountLimits(AccountGate):
    """Limits of one account in this process."""

    def __init__(self, limits: Limits, backoff: Backoff) -> None:
        """``backoff``: pause after a refusal that names none."""
        super().__init__(limits, backoff)
        self.slots = Slots(limits.concurrent)
        self._rate = None if self._plan is None else throttler(self._plan)
        self._refusals = 0
        self._in_a_row = 0

    async def _granted(self, tokens: int, max_wait: float) -> int:
        with ExitStack() as undo:
            if self._tokens is not None:
                await self._tokens.take(tokens)
                undo.callback(self._tokens.correct, -tokens)
            await self.slots.take()
            undo.callback(self.slots.leave)
            while True:
                while (left := self.paused()) > 0:
                    if left > max_wait:
                        raise AccountPaused(left)
                    await asyncio.sleep(left)
                if self._rate is None:
                    break
                # Thousands of calls may begin in one turn of the event loop. A request counts
                # from here, so it must not wait for all of their beginnings before it is sent.
                await asyncio.sleep(0)
                await self._rate.acquire()  # type: ignore[no-untyped-call]
                # Paused meanwhile: what was granted before a pause is not used after it.
                if not self.paused():
                    break
            undo.pop_all()
        return self._refusals

    def _release(self) -> None:
        self.slots.leave()

    def _succeeded(self, more: int) -> None:
        self._in_a_row = 0
        self.slots.succeeded()
        if self._tokens is not None:
            self._tokens.correct(more)

    def _pause(self, ticket: Ticket, seconds: float) -> None:
        if self._tokens is not None:
            self._tokens.correct(-ticket.tokens)
        if ticket.refusals == self._refusals:
            self._refusals += 1
            self._in_a_row += 1
            self.slots.halve()
            seconds = max(seconds, self._backoff.seconds(self._in_a_row))
        self._resumes = max(self._resumes, asyncio.get_running_loop().time() + seconds)


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
