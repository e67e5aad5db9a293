"""Thread with one PostgreSQL connection, running jobs in order.

Processes that share locks and limits through a database submit short jobs whose order matters: what
a cancelled task acquired is given back by the job right after. A broken connection is replaced and
the job repeated once.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")
Job = Callable[["Connection[Any]"], T]

AWAY_SECONDS = 30.0
"""Longest wait for an unreachable database, in seconds."""
BEAT_SECONDS = 5.0
"""Seconds between two beats."""
_RECONNECT_PAUSE = 0.25
_PREPARING = 0x5363656E65
"""Advisory lock under which one process creates the tables."""
# A machine that fell off the network holds what its connection holds for about a minute.
_SESSION = (
    "SET tcp_keepalives_idle = 30",
    "SET tcp_keepalives_interval = 10",
    "SET tcp_keepalives_count = 3",
)


class SharedError(RuntimeError):
    """The shared database cannot be used; says what to do."""


def driver_url(url: str) -> str:
    """Return ``url`` for libpq: without the driver that SQLAlchemy adds to the scheme."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def connect(url: str) -> Connection[Any]:
    """Connect with autocommit.

    Raises ``SharedError`` without psycopg, else its own.
    """
    try:
        import psycopg
    except ImportError as error:
        raise SharedError(
            "answers and limits shared through PostgreSQL need psycopg: "
            "pip install 'scenewright[postgres]'"
        ) from error
    connection = psycopg.connect(driver_url(url), autocommit=True, connect_timeout=10)
    for setting in _SESSION:
        connection.execute(setting)
    return connection


def prepare(connection: Connection[Any], schema: str) -> None:
    """Create the tables and functions of ``schema``, safe against concurrent processes."""
    with connection.transaction():
        connection.execute("SELECT pg_advisory_xact_lock(%s)", (_PREPARING,))
        connection.execute(schema.encode())


def database_error_text(error: Exception, what: str) -> str:
    """Return the message for a database error while doing ``what``."""
    return (
        f"{what}: PostgreSQL said {str(error).strip() or type(error).__name__!r}. Check that the "
        "database is up, reachable and writable by this user, then run the same again: what was "
        "stored before stays"
    )


@dataclass(slots=True)
class _Order:
    job: Job[Any]
    given: Future[Any]


class ConnectionWorker:
    """Runs jobs on its own connection, in the order of submission."""

    def __init__(self, url: str, schema: str | None = None, setup: str | None = None) -> None:
        """Create a worker without connecting.

        ``schema`` is created at the first job, ``setup`` is run on each new connection.
        """
        self._url = url
        self._schema = schema
        self._setup = setup
        self._orders: SimpleQueue[_Order | None] = SimpleQueue()
        self._beats: list[Job[None]] = []
        self._renewals: list[Job[None]] = []
        self._connection: Connection[Any] | None = None
        self._gave_up = False
        self._thread = threading.Thread(target=self._work, name="postgres-worker", daemon=True)
        self._thread.start()

    def beat(self, job: Job[None]) -> None:
        """Run ``job`` every ``BEAT_SECONDS`` from now on."""
        self._beats.append(job)

    def renew(self, job: Job[None]) -> None:
        """Run ``job`` first on every connection that replaces a broken one."""
        self._renewals.append(job)

    def submit(self, job: Job[T]) -> Future[T]:
        """Submit ``job``; its future holds the result or the psycopg error."""
        order = _Order(job, Future())
        self._orders.put(order)
        return order.given

    async def done(self, job: Job[T], undo: Callable[[T], None]) -> T:
        """Return the result of ``job``.

        If this task is cancelled meanwhile, ``undo`` is called with the result.
        """
        given = self.submit(job)
        try:
            return await asyncio.shield(asyncio.wrap_future(given))
        except asyncio.CancelledError:

            def forget(done: Future[T]) -> None:
                if not done.cancelled() and done.exception() is None:
                    undo(done.result())

            if not given.cancel():
                given.add_done_callback(forget)
            raise

    def close(self) -> None:
        """Finish submitted jobs, then close the connection."""
        self._orders.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join(AWAY_SECONDS)

    def _work(self) -> None:
        due = time.monotonic() + BEAT_SECONDS
        while True:
            try:
                order = self._orders.get(timeout=max(0.0, due - time.monotonic()))
            except Empty:
                due = time.monotonic() + BEAT_SECONDS
                self._beat()
                continue
            if order is None:
                break
            if order.given.set_running_or_notify_cancel():
                try:
                    result = self._twice(order.job)
                except BaseException as error:
                    order.given.set_exception(error)
                else:
                    order.given.set_result(result)
            if time.monotonic() >= due:
                due = time.monotonic() + BEAT_SECONDS
                self._beat()
        if self._connection is not None:
            self._connection.close()

    def _beat(self) -> None:
        if self._connection is None:
            return
        from psycopg import Error

        for beat in self._beats:
            try:
                beat(self._connection)
            except Error:
                # The next job finds the connection broken and opens another.
                return

    def _twice(self, job: Job[T]) -> T:
        try:
            return job(self._connected())
        except Exception:
            if self._connection is None or not self._connection.closed:
                raise
        return job(self._connected())

    def _connected(self) -> Connection[Any]:
        """Return the connection; opens one if needed and waits for an unreachable database."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        again = self._connection is not None
        # One job waits for a database that is away, those behind it do not wait as long each.
        deadline = time.monotonic() + (AWAY_SECONDS if again and not self._gave_up else 0.0)
        while True:
            try:
                made = connect(self._url)
                if self._setup is not None:
                    made.execute(self._setup.encode())
                if self._schema is not None:
                    prepare(made, self._schema)
                    self._schema = None
                if again:
                    for renewal in self._renewals:
                        renewal(made)
                self._connection, self._gave_up = made, False
                return made
            except SharedError:
                raise
            except Exception:
                if time.monotonic() >= deadline:
                    self._gave_up = True
                    raise
                time.sleep(_RECONNECT_PAUSE)


class SharedInstances(Generic[T]):
    """Reference-counted objects of this process by key, closed with their last user."""

    def __init__(self, close: Callable[[T], None]) -> None:
        """``close`` is called for an object without users."""
        self._close = close
        self._lock = threading.Lock()
        self._objects: dict[str, tuple[T, int]] = {}

    def take(self, key: str, make: Callable[[], T]) -> T:
        """Return the object of ``key``, made by ``make`` for its first user."""
        with self._lock:
            found, users = self._objects.get(key) or (make(), 0)
            self._objects[key] = (found, users + 1)
            return found

    def give_back(self, key: str) -> None:
        """Release the object of ``key``; its last user closes it."""
        with self._lock:
            found, users = self._objects.pop(key)
            if users > 1:
                self._objects[key] = (found, users - 1)
                return
        self._close(found)
