"""What every job on a Ray cluster needs: the connection, shared rate limits, event streams.

One actor holds the rate limits of all accounts, so that workers share them. A worker's callers use
:class:`RateLimitClient`, which has the interface of
:class:`~scenewright.providers.limits.AccountLimits` and asks that actor. The places of a dead
worker are freed with :meth:`RateLimitActor.forget`.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import os
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from scenewright.evals.errors import EvalError
from scenewright.providers.limits import AccountLimits, Limits, Ticket
from scenewright.providers.retry import AccountPaused, Backoff

AT_ONCE = 100_000
"""Concurrent calls of the rate limit actor: waiting calls must not block those that leave."""

E = TypeVar("E")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RayOptions:
    """Options of an engine that works on a Ray cluster."""

    workers: int | None = None
    """Actors, each with its own models and ``concurrency`` items at work; None: one for each GPU
    of the cluster, or for each CPU where there is no GPU."""
    address: str = ""
    """The cluster (``auto``, ``HOST:PORT``); empty: the one of ``RAY_ADDRESS``, or else one of this
    machine, which ends with the work."""
    given: str = ""
    """``module:function`` that builds models in place of the configured ones; it is called with the
    folder in which relative paths begin."""
    apart: bool = False
    """Treat workers on this machine like those on other ones, which cannot see its files."""
    name: str = "ray"


@dataclass(frozen=True, slots=True)
class Cluster:
    """A connected cluster."""

    node: str
    """The cluster's id of this machine."""
    near: Any
    """Scheduling strategy of actors that belong on this machine."""
    rate_limits: Any
    """Handle of the :class:`RateLimitActor`."""
    workers: int
    gpus: float
    """GPUs of each worker."""


def ray_for(workers: int | None = None) -> Any:
    """Return the module ``ray``. Raises ``EvalError`` without it, and for fewer than 1 worker."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise EvalError(
            "the engine 'ray' needs Ray: pip install 'scenewright[ray]', or leave --engine out"
        ) from error
    if workers is not None and workers < 1:
        raise EvalError(f"{workers} workers can do nothing: ask for one at least")
    return ray


@asynccontextmanager
async def connected_to_ray(address: str, cpus: int) -> AsyncIterator[None]:
    """Connect to the Ray cluster at ``address`` for the block.

    If empty, it is the one of ``RAY_ADDRESS``, or else a local one with at least ``cpus`` CPUs that
    ends with the block. An existing connection is used, and stays. Raises ``EvalError`` for a
    cluster that cannot be reached.
    """
    ray = ray_for()
    if ray.is_initialized():
        yield
        return
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if address or os.environ.get("RAY_ADDRESS"):
        options["address"] = address or None
    else:
        # Not one that others have started here, which Ray would join without being asked.
        options |= {"address": "local", "include_dashboard": False}
        options["num_cpus"] = max(os.cpu_count() or 1, cpus)
    try:
        await asyncio.to_thread(lambda: ray.init(**options))
    except Exception as error:
        raise EvalError(
            f"no Ray cluster at {address or 'this machine'}: {error}. Check `ray status`, or leave "
            "--address out to work on this machine alone"
        ) from error
    try:
        yield
    finally:
        with suppress(Exception):
            await asyncio.shield(asyncio.to_thread(ray.shutdown))


@asynccontextmanager
async def reached(address: str, workers: int | None) -> AsyncIterator[Cluster]:
    """Connect to a cluster with the options of :class:`RayOptions` and start its rate limit actor.

    A connection that exists already is used, and stays. Raises ``EvalError`` for a cluster that
    cannot be reached.
    """
    ray = ray_for(workers)
    if address.startswith("ray://") and not ray.is_initialized():
        raise EvalError(
            f"{address} is the address of Ray clients: begin on a machine of the cluster (or with "
            "`ray job submit`) and give --address auto, since the folder is written there"
        )
    async with connected_to_ray(address, workers or 1):
        node = ray.get_runtime_context().get_node_id()
        near = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(node, soft=False)
        resources = ray.cluster_resources()
        count = workers or max(1, int(resources.get("GPU", 0) or resources.get("CPU", 1)))
        # No concurrency groups: each would have an event loop of its own, and limits belong to one.
        options = {"num_cpus": 0, "max_concurrency": AT_ONCE, "scheduling_strategy": near}
        rate_limits = ray.remote(RateLimitActor).options(**options).remote()
        try:
            yield Cluster(node, near, rate_limits, count, gpus_of(resources.get("GPU", 0.0), count))
        finally:
            ray.kill(rate_limits)


@asynccontextmanager
async def started(
    actor: type[Any], cluster: Cluster, *args: Any, **options: Any
) -> AsyncIterator[Any]:
    """Start ``actor`` on this machine; it is closed and ended with the block."""
    ray = ray_for()
    options = {"num_cpus": 0, "scheduling_strategy": cluster.near, **options}
    handle = ray.remote(actor).options(**options).remote(*args)
    try:
        yield handle
    finally:
        # An error of the work matters more than one of closing.
        with suppress(Exception):
            await asyncio.shield(handle.close.remote())
        ray.kill(handle)


def gpus_of(gpus: float, workers: int) -> float:
    """Return the GPUs of each worker: a whole one, or an equal share of one."""
    if gpus < 1:
        return 0.0
    return 1.0 if workers <= gpus else 1.0 / math.ceil(workers / int(gpus))


def load_reference(reference: str, root: Path, kind: type[T]) -> T | None:
    """Call the function ``module:function`` with ``root``; None for an empty reference.

    ``root`` is where relative paths of the configuration begin. Raises ``EvalError`` if there is no
    such function, or if it does not return a ``kind``.
    """
    if not reference:
        return None
    module, _, name = reference.partition(":")
    try:
        make = getattr(import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise EvalError(
            f"models cannot be built by {reference!r} ({error}): name a function of an importable "
            "module as 'module:function'"
        ) from error
    found = make(root)
    if not isinstance(found, kind):
        raise EvalError(f"{reference} gives {type(found).__name__}: it must give a {kind.__name__}")
    return found


async def stream_events(
    work: Callable[[Callable[[E], None]], Awaitable[E]],
) -> AsyncGenerator[list[E]]:
    """Yield the events that ``work`` emits through its argument, and last its result.

    Events that come together are yielded together. Raises what ``work`` raises, after its events.
    Left early, it cancels ``work``.
    """
    events: asyncio.Queue[tuple[E] | None] = asyncio.Queue()
    doing = asyncio.ensure_future(work(lambda event: events.put_nowait((event,))))
    doing.add_done_callback(lambda _: events.put_nowait(None))
    try:
        while True:
            some = [await events.get()]
            while not events.empty():
                some.append(events.get_nowait())
            if emitted := [event[0] for event in some if event is not None]:
                yield emitted
            if some[-1] is None:
                yield [await doing]
                return
    finally:
        doing.cancel()
        with suppress(asyncio.CancelledError, Exception):
            await doing


@dataclass(frozen=True, slots=True)
class NumberedTicket(Ticket):
    """A ticket of the rate limit actor."""

    number: int = 0
    """Number of the worker's call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call that asks for a ticket."""

    worker: str
    number: int


class RateLimitActor:
    """The rate limits of all accounts; an async actor with one event loop."""

    def __init__(self) -> None:
        """Start without accounts: the first call of each brings its limits."""
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
        """Return a ticket, (seconds, reason) of a pause that is too long, or None if withdrawn."""
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
            # Granted in the same turn of the loop in which the caller left.
            self._withdrawn.discard(call)
            await self.leave(call)
            return None
        return ticket

    async def withdraw(self, call: Call) -> None:
        """Give up the ticket of ``call``, granted or not."""
        if call in self._held:
            await self.leave(call)
        else:
            self._withdrawn.add(call)
            if call in self._waiting:
                self._waiting[call].cancel()

    async def leave(self, call: Call) -> None:
        """End the request of ``call``."""
        found = self._held.pop(call, None)
        if found is not None:
            gate, ticket = found
            gate.leave(ticket)

    async def answered(self, account: tuple[str, Limits], ticket: Ticket, tokens: int) -> None:
        """Call :meth:`AccountLimits.answered`."""
        self._accounts[account].answered(ticket, tokens)

    async def refused(
        self, account: tuple[str, Limits], ticket: Ticket, retry_after: float | None
    ) -> None:
        """Call :meth:`AccountLimits.refused`."""
        self._accounts[account].refused(ticket, retry_after)

    async def failed(self, account: tuple[str, Limits], ticket: Ticket, reason: str) -> None:
        """Call :meth:`AccountLimits.failed`."""
        self._accounts[account].failed(ticket, reason)

    async def forget(self, worker: str) -> None:
        """Free all places of the dead ``worker``."""
        self._gone.add(worker)
        for call in [call for call in self._waiting if call.worker == worker]:
            self._waiting[call].cancel()
        for call in [call for call in self._held if call.worker == worker]:
            await self.leave(call)
        self._withdrawn = {call for call in self._withdrawn if call.worker != worker}

    async def under_way(self) -> int:
        """Return how many tickets are held."""
        return len(self._held)


class RateLimitClient:
    """Rate limits of one account for a worker, kept by a :class:`RateLimitActor`.

    Implements :class:`~scenewright.providers.limits.RateLimiter`.
    """

    _numbers = itertools.count()

    def __init__(
        self, rate_limits: Any, worker: str, account: str, limits: Limits, backoff: Backoff
    ) -> None:
        """Use the actor whose handle is ``rate_limits``."""
        self._actor = rate_limits
        self._worker = worker
        self._account = account, limits
        self._backoff = backoff
        self._resumes = 0.0

    def paused(self) -> float:
        """Return the seconds left of the longest pause that this worker knows of."""
        return max(0.0, self._resumes - time.monotonic())

    async def enter(self, tokens: int, *, ahead: bool, max_wait: float) -> Ticket:
        """Wait as :meth:`AccountLimits.enter` does, in one queue with all workers."""
        call = Call(self._worker, next(self._numbers))
        asked = self._actor.enter.remote(
            self._account, self._backoff, call, tokens, ahead, max_wait
        )
        try:
            found = await asked
        except asyncio.CancelledError:
            self._actor.withdraw.remote(call)
            raise
        if isinstance(found, Ticket):
            return NumberedTicket(found.tokens, found.refusals, found.test, number=call.number)
        if found is None:
            raise asyncio.CancelledError("this worker was given up")
        raise AccountPaused(*found)

    def leave(self, ticket: Ticket) -> None:
        """End the request of ``ticket``, however it went."""
        assert isinstance(ticket, NumberedTicket)
        self._actor.leave.remote(Call(self._worker, ticket.number))

    def answered(self, ticket: Ticket, tokens: int) -> None:
        """Call :meth:`AccountLimits.answered` in the actor."""
        self._actor.answered.remote(self._account, _plain(ticket), tokens)

    def refused(self, ticket: Ticket, retry_after: float | None) -> None:
        """Call :meth:`AccountLimits.refused` in the actor."""
        if retry_after is not None:
            self._resumes = max(self._resumes, time.monotonic() + retry_after)
        self._actor.refused.remote(self._account, _plain(ticket), retry_after)

    def failed(self, ticket: Ticket, reason: str) -> None:
        """Call :meth:`AccountLimits.failed` in the actor."""
        self._actor.failed.remote(self._account, _plain(ticket), reason)


def _plain(ticket: Ticket) -> Ticket:
    return Ticket(ticket.tokens, ticket.refusals, ticket.test)
