"""One limit for all workers: an actor holds the limits of every account and hands out tickets.

A worker's callers pass :class:`RateLimitClient`, which has the interface of
:class:`~scenewright.providers.limits.AccountLimits` and asks the office. A worker that dies holds
its places no longer than until it is found dead: :meth:`RateLimitActor.forget`.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from dataclasses import dataclass
from typing import Any

from scenewright.providers.limits import AccountLimits, Limits, Ticket
from scenewright.providers.retry import AccountPaused, Backoff

AT_ONCE = 100_000
"""Calls of the actor at once. Those who wait in its lines must not keep out those who leave."""


@dataclass(frozen=True, slots=True)
class NumberedTicket(Ticket):
    """A ticket of the office."""

    number: int
    """One of its worker's own count."""


@dataclass(frozen=True, slots=True)
class Call:
    """Who asks for a ticket."""

    worker: str
    """The worker."""
    number: int
    """Which of its calls."""


class RateLimitActor:
    """The limits of all accounts; runs as an async actor, in one event loop."""

    def __init__(self) -> None:
        """No account is known yet: the first call names its limits."""
        self._accounts: dict[tuple[str, Limits], AccountLimits] = {}
        self._held: dict[Call, tuple[AccountLimits, Ticket]] = {}
        self._waiting: dict[Call, asyncio.Task[Ticket]] = {}
        self._withdrawn: set[Call] = set()
        self._gone: set[str] = set()

    async def enter(
        self,
        account: tuple[str, Limits],
        backoff: Backoff,
        call: Call,
        tokens: int,
        ahead: bool,
        max_wait: float,
    ) -> Ticket | tuple[float, str] | None:
        """The ticket; seconds of a pause that is too long, and why; None for who left meanwhile."""
        if call.worker in self._gone or call in self._withdrawn:
            self._withdrawn.discard(call)
            return None
        gate = self._accounts.get(account)
        if gate is None:
            gate = self._accounts[account] = AccountLimits(account[1], backoff)
        waiting = asyncio.ensure_future(gate.enter(tokens, ahead=ahead, max_wait=max_wait))
        self._waiting[call] = waiting
        try:
            ticket = await waiting
        except asyncio.CancelledError:
            return None
        except AccountPaused as pause:
            return pause.seconds, pause.why
        finally:
            del self._waiting[call]
        self._held[call] = gate, ticket
        if call.worker in self._gone or call in self._withdrawn:
            # Granted in the same turn of the loop in which it left.
            self._withdrawn.discard(call)
            await self.leave(call)
            return None
        return ticket

    async def withdraw(self, call: Call) -> None:
        """Nobody waits for the ticket of ``call`` any more, granted or not."""
        if call in self._held:
            await self.leave(call)
        elif call in self._waiting:
            self._withdrawn.add(call)
            self._waiting[call].cancel()
        else:
            self._withdrawn.add(call)

    async def leave(self, call: Call) -> None:
        """The request of ``call`` is over."""
        found = self._held.pop(call, None)
        if found is not None:
            gate, ticket = found
            gate.leave(ticket)

    async def answered(self, account: tuple[str, Limits], ticket: Ticket, tokens: int) -> None:
        """As :meth:`AccountLimits.answered`."""
        self._accounts[account].answered(ticket, tokens)

    async def refused(
        self, account: tuple[str, Limits], ticket: Ticket, retry_after: float | None
    ) -> None:
        """As :meth:`AccountLimits.refused`."""
        self._accounts[account].refused(ticket, retry_after)

    async def forget(self, worker: str) -> None:
        """``worker`` is dead: its places are free."""
        self._gone.add(worker)
        for call in [call for call in self._waiting if call.worker == worker]:
            self._waiting[call].cancel()
        for call in [call for call in self._held if call.worker == worker]:
            await self.leave(call)
        self._withdrawn = {call for call in self._withdrawn if call.worker != worker}

    async def under_way(self) -> int:
        """Tickets that are held."""
        return len(self._held)


class RateLimitClient:
    """A worker's side of the office, for one account; implements
    :class:`~scenewright.providers.limits.RateLimiter`."""

    _numbers = itertools.count()

    def __init__(
        self, rate_limits: Any, worker: str, account: str, limits: Limits, backoff: Backoff
    ) -> None:
        """``rate_limits``: the actor."""
        self._office = rate_limits
        self._worker = worker
        self._account = account, limits
        self._backoff = backoff
        self._resumes = 0.0

    def paused(self) -> float:
        """Seconds of the longest pause that this worker was told; the office knows them all."""
        return max(0.0, self._resumes - time.monotonic())

    async def enter(self, tokens: int, *, ahead: bool, max_wait: float) -> Ticket:
        """As :meth:`AccountLimits.enter`, in one line with all workers."""
        call = Call(self._worker, next(self._numbers))
        asked = self._office.enter.remote(
            self._account, self._backoff, call, tokens, ahead, max_wait
        )
        try:
            found = await asked
        except asyncio.CancelledError:
            self._office.withdraw.remote(call)
            raise
        if isinstance(found, Ticket):
            return NumberedTicket(found.tokens, found.refusals, call.number)
        if found is None:
            raise asyncio.CancelledError("this worker was given up")
        raise AccountPaused(*found)

    def leave(self, ticket: Ticket) -> None:
        """The request of ``ticket`` is over, however it ended."""
        assert isinstance(ticket, NumberedTicket)
        self._office.leave.remote(Call(self._worker, ticket.number))

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """As :meth:`AccountLimits.answered`."""
        self._office.answered.remote(self._account, _plain(ticket), tokens)

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """As :meth:`AccountLimits.refused`."""
        if retry_after is not None:
            self._resumes = max(self._resumes, time.monotonic() + retry_after)
        self._office.refused.remote(self._account, _plain(ticket), retry_after)


def _plain(ticket: Ticket) -> Ticket:
    return Ticket(ticket.tokens, ticket.refusals)


def start_rate_limit_actor(near: Any) -> Any:
    """The actor, at the scheduling strategy ``near``."""
    import ray

    # No concurrency groups: each would have an event loop of its own, and limits belong to one.
    options = {"num_cpus": 0, "max_concurrency": AT_ONCE, "scheduling_strategy": near}
    return ray.remote(RateLimitActor).options(**options).remote()
