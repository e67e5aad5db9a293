"""Limits of an account shared by processes through PostgreSQL, in the server's time.

Each process has a line of its own, whose head asks the database: one function decides in one
transaction over the pause, the tokens, the calls in flight and the request rate, and either counts
the request or says when to ask again. So the account's plan
(:func:`~scenewright.providers.limits.rate_plan`) holds for all processes together. Calls in flight
belong to a holder, which renews them every few seconds: those of a dead process are released
``LEASE_SECONDS`` later.

Names of tables and functions carry a version, so that processes of two versions of this package can
share a database. All times are the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import secrets
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from scenewright.providers.connection_worker import (
    BEAT_SECONDS,
    ConnectionWorker,
    SharedError,
    SharedInstances,
    database_error_text,
)
from scenewright.providers.limits import TOKEN_BURST, FifoLock, Limits, Ticket, rate_plan
from scenewright.providers.retry import AccountPaused, Backoff

if TYPE_CHECKING:
    from psycopg import Connection

    from scenewright.config.accounts import AccountSpec

LEASE_SECONDS = 4 * BEAT_SECONDS
"""Seconds after its last renewal for which a process holds its calls in flight."""
_LONGEST_NAP = 0.5
_LAG = 0.005
_SLOT_NAPS = (0.02, 0.25)
_ENTER = (
    "SELECT granted, wait, why, paused, marked, refused, number "
    "FROM scenewright_account_enter_1(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
)
_WORKERS: SharedInstances[ConnectionWorker] = SharedInstances(ConnectionWorker.close)


def _schema() -> str:
    return (files(__package__) / "shared_limits.sql").read_text(encoding="utf-8")


class LimitsError(RuntimeError):
    """The shared limits cannot be reached; says what to do. No request was sent."""


@dataclass(frozen=True, slots=True)
class _Said:
    """Decision of the database about the head of the line."""

    granted: bool
    wait: float
    why: str
    paused: float
    marked: float | None
    refused: int
    number: int
    at: float
    """Time of the decision, by this process's clock."""


def gate_at(
    url: str | None, account: str, spec: AccountSpec, limits: Limits
) -> SharedLimits | None:
    """Return an account's limits, shared by all processes with its name, address and key.

    None without a ``url``: each process then keeps its own.
    """
    if url is None:
        return None
    return SharedLimits(url, spec.identity(account), limits, Backoff())


class SharedLimits:
    """The interface of :class:`~scenewright.providers.limits.AccountLimits`, for many processes."""

    def __init__(self, url: str, account: str, limits: Limits, backoff: Backoff) -> None:
        """``account``: name of the limits in the database at ``url``.

        Processes with different limits keep their own and count the requests of all. Nothing is
        opened before the first call.
        """
        self._url = url
        self._account = account
        self._bound = limits.concurrent
        self._burst: int | None = None
        self._period: float | None = None
        if limits.requests_per_minute is not None:
            plan = rate_plan(limits.requests_per_minute, limits.window)
            self._burst, self._period = plan.count, plan.period
        self._bucket: float | None = None
        self._leak: float | None = None
        if limits.tokens_per_minute is not None:
            self._bucket = limits.tokens_per_minute * TOKEN_BURST
            self._leak = limits.tokens_per_minute * (1 - TOKEN_BURST) / 60
        # A day is longer than rows are kept: each machine counts what it sends.
        self._day = limits.day_quota()
        self._backoff = backoff
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._line = FifoLock()
        self._worker: ConnectionWorker | None = None
        # Of this process; only the worker's thread counts.
        self._under_way = 0
        self._resumes = 0.0
        self._left = asyncio.Event()

    def paused(self) -> float:
        """Return the seconds until requests may be sent again, as far as this process knows."""
        return max(0.0, self._resumes - time.monotonic())

    async def enter(self, tokens: int, *, ahead: bool, max_wait: float) -> Ticket:
        """Wait as :meth:`AccountLimits.enter`.

        Raises ``LimitsError`` where the database stays unreachable.
        """
        await self._line.take(ahead=ahead)
        with ExitStack() as always, ExitStack() as undo:
            always.callback(self._line.leave)
            if self._day is not None:
                undo.callback(self._day.give_back, await self._day.take(max_wait))
            ticket = await self._granted(tokens, max_wait)
            undo.pop_all()
        return ticket

    def leave(self, ticket: Ticket) -> None:
        """End the request of ``ticket``, whatever its result."""
        self._submit(self._leave)
        self._left.set()

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """Record that the request was answered and used ``tokens``; 0 leaves the estimate."""
        more = tokens - ticket.tokens if tokens > 0 else 0
        values = (self._account, self._bound, more, self._leak)
        self._submit(
            lambda at: at.execute(
                "SELECT scenewright_account_answered_1(%s, %s, %s, %s)", values
            ).close()
        )

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """Record that the provider's limit refused the request.

        All processes pause and send fewer requests at once.
        """
        if retry_after is not None:
            self._note_pause(retry_after)
        wait = self._backoff
        share = 1 - wait.jitter * random.random()
        values = (
            *(self._account, self._bound, ticket.tokens, self._leak, ticket.refusals),
            *(retry_after, wait.initial, wait.maximum, share),
        )

        def told(at: Connection[Any]) -> None:
            row = at.execute(
                "SELECT scenewright_account_refused_1(%s, %s, %s, %s, %s, %s, %s, %s, %s)", values
            ).fetchone()
            assert row is not None
            self._note_pause(float(row[0]))

        self._submit(told)

    def close(self) -> None:
        """Submit what is finished; the last account of a database closes the connection."""
        if self._worker is not None:
            self._worker = None
            _WORKERS.give_back(self._url)

    async def _granted(self, tokens: int, max_wait: float) -> Ticket:
        mark: float | None = None
        naps = _SLOT_NAPS[0]
        try:
            while True:
                self._left = asyncio.Event()
                said = await self._asked(tokens, mark)
                mark = said.marked
                if said.granted:
                    # A grant keeps its tokens; the answer corrects them.
                    mark = None
                    self._note_lag(said)
                    return Ticket(tokens, said.refused)
                self._note_pause(said.paused)
                if said.paused > max_wait:
                    raise AccountPaused(said.paused)
                if said.why == "slots":
                    # This process's own calls wake it, those of others are asked for.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._left.wait(), naps)
                    naps = min(_SLOT_NAPS[1], naps * 1.5)
                elif said.why == "tokens":
                    # Replies that used fewer than was thought make it shorter.
                    await asyncio.sleep(min(said.wait, _LONGEST_NAP))
                else:
                    await asyncio.sleep(said.wait)
        finally:
            if mark is not None:
                self._submit(self._undo(tokens))

    def _note_lag(self, said: _Said) -> None:
        """Begin the next period at the actual sending.

        A busy event loop sends later than it may.
        """
        late = time.monotonic() - said.at
        if self._burst is None or late < _LAG:
            return
        values = (self._account, said.number, late)

        def noted(at: Connection[Any]) -> None:
            at.execute("SELECT scenewright_account_late_1(%s, %s, %s)", values)

        self._submit(noted)

    async def _asked(self, tokens: int, mark: float | None) -> _Said:
        values = (
            *(self._account, self._holder, LEASE_SECONDS, self._bound, self._burst, self._period),
            *(tokens, self._bucket, self._leak, mark),
        )

        def asked(at: Connection[Any]) -> _Said:
            row = at.execute(_ENTER, values).fetchone()
            assert row is not None
            said = _Said(*(*row, time.monotonic()))
            if said.granted:
                self._under_way += 1
            return said

        def forgotten(said: _Said) -> None:
            if said.granted:
                self._submit(self._leave)
            # Of a mark that was there before, the waiting task itself gives the tokens back.
            if said.marked is not None and mark is None:
                self._submit(self._undo(tokens))

        try:
            return await self._connection().done(asked, forgotten)
        except SharedError as error:
            raise LimitsError(str(error)) from error
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise LimitsError(
                database_error_text(error, "the shared limits cannot be asked")
            ) from error

    def _connection(self) -> ConnectionWorker:
        if self._worker is None:
            self._worker = _WORKERS.take(
                self._url,
                # A power cut may take the last half second of counts back, no commit waits for
                # the disk.
                lambda: ConnectionWorker(self._url, _schema(), "SET synchronous_commit = off"),
            )
            self._worker.beat(self._beat)
        return self._worker

    def _submit(self, job: Callable[[Connection[Any]], None]) -> None:
        # What cannot be submitted is settled by the beats, the lease and the leak.
        self._connection().submit(job)

    def _undo(self, tokens: int) -> Callable[[Connection[Any]], None]:
        values = (self._account, tokens, self._leak)

        def undo(at: Connection[Any]) -> None:
            at.execute("SELECT scenewright_account_undo_1(%s, %s, %s)", values)

        return undo

    def _leave(self, at: Connection[Any]) -> None:
        self._under_way -= 1
        try:
            self._hold(at)
        except Exception:
            # The worker repeats a job on another connection: the count is that of now.
            self._under_way += 1
            raise

    def _hold(self, at: Connection[Any]) -> None:
        values = (self._account, self._holder, self._under_way, LEASE_SECONDS)
        at.execute("SELECT scenewright_account_hold_1(%s, %s, %s, %s)", values)

    def _beat(self, at: Connection[Any]) -> None:
        if self._under_way:
            self._hold(at)

    def _note_pause(self, seconds: float) -> None:
        self._resumes = max(self._resumes, time.monotonic() + seconds)
