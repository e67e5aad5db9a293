"""Limits of an account shared by processes through PostgreSQL, in the server's time.

Each process has a line of its own, whose head asks the database: one function decides in one
transaction over the pause, the tokens, the calls in flight and the request rate, and either counts
the request or says when to ask again. So the account's plan
(:meth:`~scenewright.providers.limits.Limits.rate_plan`) holds for all processes together. Calls in
flight belong to a holder, which renews them every few seconds: those of a dead process are released
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
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from scenewright.core.errors import ScenewrightError
from scenewright.providers.connection_worker import (
    BEAT_SECONDS,
    ConnectionWorker,
    database_error_text,
    result_or_undo,
)
from scenewright.providers.limits import AccountGate, Limits, Ticket
from scenewright.providers.retry import AccountPaused, Backoff

if TYPE_CHECKING:
    from psycopg import Connection

    from scenewright.config.accounts import AccountSpec

LEASE_SECONDS = 4 * BEAT_SECONDS
"""Seconds after its last renewal for which a process holds its calls in flight."""
_LONGEST_NAP = 0.5
_LAG = 0.005
_SLOT_NAPS = (0.02, 0.25)


class _Connection(ConnectionWorker):
    schema = (files(__package__) / "shared_limits.sql").read_text(encoding="utf-8")
    # A power cut may take the last half second of counts back, no commit waits for the disk.
    setup = "SET synchronous_commit = off"


class LimitsError(ScenewrightError, RuntimeError):
    """The shared limits cannot be reached; says what to do. No request was sent."""


@dataclass(frozen=True, slots=True)
class _Decision:
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


class SharedLimits(AccountGate):
    """Limits of one account, kept by all processes that use a database together."""

    def __init__(self, url: str, account: str, limits: Limits, backoff: Backoff) -> None:
        """``account``: name of the limits in the database at ``url``.

        Processes with different limits keep their own and count the requests of all. Nothing is
        opened before the first call.
        """
        # A day is longer than rows are kept: each machine counts what it sends. Each process finds
        # out by itself that a server is down.
        super().__init__(limits, backoff)
        self._url = url
        self._account = account
        self._bound = limits.concurrent
        self._leak = None if self._tokens is None else self._tokens.leak
        self._holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        self._worker: ConnectionWorker | None = None
        # Of this process; only the worker's thread counts.
        self._under_way = 0
        self._left = asyncio.Event()

    def close(self) -> None:
        """Submit what is finished; the last account of a database closes the connection."""
        if self._worker is not None:
            self._worker.give_back()
            self._worker = None

    async def _granted(self, tokens: int, max_wait: float) -> int:
        mark: float | None = None
        naps = _SLOT_NAPS[0]
        try:
            while True:
                self._left = asyncio.Event()
                decision = await self._decision(tokens, mark)
                mark = decision.marked
                if decision.granted:
                    # A grant keeps its tokens; the answer corrects them.
                    mark = None
                    # A busy event loop sends later than it may: the next period begins then.
                    late = time.monotonic() - decision.at
                    if self._plan is not None and late >= _LAG:
                        self._submit("late", decision.number, late)
                    return decision.refused
                self._note_pause(decision.paused)
                if decision.paused > max_wait:
                    raise AccountPaused(decision.paused)
                if decision.why == "slots":
                    # This process's own calls wake it, those of others are asked for.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._left.wait(), naps)
                    naps = min(_SLOT_NAPS[1], naps * 1.5)
                elif decision.why == "tokens":
                    # Replies that used fewer than was thought make it shorter.
                    await asyncio.sleep(min(decision.wait, _LONGEST_NAP))
                else:
                    await asyncio.sleep(decision.wait)
        finally:
            if mark is not None:
                self._submit("undo", tokens, self._leak)

    async def _decision(self, tokens: int, mark: float | None) -> _Decision:
        plan = (None, None) if self._plan is None else (self._plan.count, self._plan.period)
        bucket = None if self._tokens is None else self._tokens.size
        limits = (self._bound, *plan, tokens, bucket, self._leak)

        def decide(at: Connection[Any]) -> _Decision:
            row = self._run(at, "enter", self._holder, LEASE_SECONDS, *limits, mark)
            decision = _Decision(*(*row, time.monotonic()))
            self._under_way += decision.granted
            return decision

        def forget(decision: _Decision) -> None:
            # In the worker's thread: nothing of the event loop is touched.
            if decision.granted:
                self._connection().submit(self._leave)
            # Of a mark that was there before, the waiting task itself gives the tokens back.
            if decision.marked is not None and mark is None:
                self._submit("undo", tokens, self._leak)

        try:
            return await result_or_undo(self._connection().submit(decide), forget)
        except Exception as error:
            raise LimitsError(
                database_error_text(error, "the shared limits cannot be asked")
            ) from error

    def _release(self) -> None:
        self._connection().submit(self._leave)
        self._left.set()

    def _succeeded(self, more: int) -> None:
        self._submit("answered", self._bound, more, self._leak)

    def _pause(self, ticket: Ticket, seconds: float) -> None:
        self._note_pause(seconds)
        wait = self._backoff
        share = 1 - wait.jitter * random.random()
        taken = (self._bound, ticket.tokens, self._leak, ticket.refusals)

        def pause(at: Connection[Any]) -> None:
            (left,) = self._run(at, "refused", *taken, seconds, wait.initial, wait.maximum, share)
            self._note_pause(left)

        self._connection().submit(pause)

    def _connection(self) -> ConnectionWorker:
        if self._worker is None:
            self._worker = _Connection.at(self._url)
            self._worker.beat(self._beat)
        return self._worker

    def _submit(self, function: str, *values: object) -> None:
        # What cannot be submitted is settled by the beats, the lease and the leak.
        self._connection().submit(lambda at: self._run(at, function, *values))

    def _run(self, at: Connection[Any], function: str, *values: object) -> tuple[Any, ...]:
        """Return the row of a function of the account in ``shared_limits.sql``."""
        marks = ", ".join("%s" for _ in (self._account, *values))
        query = f"SELECT * FROM scenewright_account_{function}_1({marks})"
        row: tuple[Any, ...] | None = at.execute(
            query.encode(), (self._account, *values)
        ).fetchone()
        assert row is not None
        return row

    def _leave(self, at: Connection[Any]) -> None:
        self._under_way -= 1
        try:
            self._hold(at)
        except Exception:
            # The worker repeats a job on another connection: the count is that of now.
            self._under_way += 1
            raise

    def _hold(self, at: Connection[Any]) -> None:
        self._run(at, "hold", self._holder, self._under_way, LEASE_SECONDS)

    def _beat(self) -> None:
        worker = self._worker
        if self._under_way and worker is not None:
            worker.submit(self._hold)

    def _note_pause(self, seconds: float) -> None:
        self._resumes = max(self._resumes, time.monotonic() + seconds)
