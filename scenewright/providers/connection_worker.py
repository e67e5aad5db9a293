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
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeVar

from scenewright.core.errors import ScenewrightError

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
"""Advisory lock under which one process at a time creates tables and functions."""
# A machine that fell off the network holds what its connection holds for about a minute.
_SESSION = (
    "SET tcp_keepalives_idle = 30; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3;"
)


class SharedError(ScenewrightError, RuntimeError):
    """The shared database cannot be used; says what to do."""


def driver_url(url: str) -> str:
    """Return ``url`` for libpq: without the driver that SQLAlchemy adds to the scheme."""
    return url.replace("postgresql+psycopg://", "postgresql://", 1)


def database_error_text(error: Exception, what: str) -> str:
    """Return the message for a database error while doing ``what``."""
    if isinstance(error, SharedError):
        return str(error)
    return (
        f"{what}: PostgreSQL said {str(error).strip() or type(error).__name__!r}. Check that the "
        "database is up, reachable and writable by this user, then run the same again: what was "
        "stored before stays"
    )


async def result_or_undo(given: Future[T], undo: Callable[[T], None]) -> T:
    """Return the result of a job in a thread.

    If this task is cancelled meanwhile, the job is too, or ``undo`` is called with its result.
    """
    try:
        return await asyncio.shield(asyncio.wrap_future(given))
    except asyncio.CancelledError:

        def forget(done: Future[T]) -> None:
            if not done.cancelled() and done.exception() is None:
                undo(done.result())

        if not given.cancel():
            given.add_done_callback(forget)
        raise


class ConnectionWorker:
    """Runs jobs on its own connection, in the order of submission."""

    schema: ClassVar[str]
    """SQL that creates tables and functions, run at the first job."""
    setup: ClassVar[str] = ""
    """SQL that is run on each new connection."""
    _shared: ClassVar[dict[tuple[type, str], Self]] = {}
    _lock = threading.Lock()

    def __init__(self, url: str) -> None:
        """Create a worker without connecting."""
        self._url = url
        self._users = 0
        self._prepared = False
        self._beats: list[Callable[[], None]] = []
        self._connection: Connection[Any] | None = None
        self._gave_up = False
        self._closed = threading.Event()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="postgres-worker")

    @classmethod
    def at(cls, url: str) -> Self:
        """Return this process's worker for ``url``; every user gives it back once."""
        with cls._lock:
            worker = cls._shared.setdefault((cls, url), cls(url))
            worker._users += 1
            return worker

    def give_back(self) -> None:
        """Release the worker; its last user finishes submitted jobs and closes the connection."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            del self._shared[type(self), self._url]
        self._closed.set()
        self._thread.shutdown()
        if self._connection is not None:
            self._connection.close()

    def beat(self, work: Callable[[], None]) -> None:
        """Call ``work`` in a thread every ``BEAT_SECONDS`` from now on."""

        def beats() -> None:
            while not self._closed.wait(BEAT_SECONDS):
                for one in self._beats:
                    one()

        if not self._beats:
            threading.Thread(target=beats, name="postgres-beat", daemon=True).start()
        self._beats.append(work)

    def renewed(self, connection: Connection[Any]) -> None:
        """Prepare a ``connection`` that replaces a broken one; for subclasses."""

    def submit(self, job: Job[T]) -> Future[T]:
        """Submit ``job``; its future holds the result or the psycopg error."""

        def twice() -> T:
            try:
                return job(self._connected())
            except Exception:
                if self._connection is None or not self._connection.closed:
                    raise
            return job(self._connected())

        try:
            return self._thread.submit(twice)
        except RuntimeError:
            lost: Future[T] = Future()
            lost.set_exception(SharedError("the connection to the shared database is closed"))
            return lost

    def _connected(self) -> Connection[Any]:
        """Return the connection; opens one if needed and waits for an unreachable database."""
        if self._connection is not None and not self._connection.closed:
            return self._connection
        again = self._connection is not None
        # One job waits for a database that is away, those behind it do not wait as long each.
        deadline = time.monotonic() + (AWAY_SECONDS if again and not self._gave_up else 0.0)
        while True:
            try:
                made = self._opened()
                if again:
                    self.renewed(made)
                self._connection, self._gave_up = made, False
                return made
            except SharedError:
                raise
            except Exception:
                if time.monotonic() >= deadline:
                    self._gave_up = True
                    raise
                time.sleep(_RECONNECT_PAUSE)

    def _opened(self) -> Connection[Any]:
        try:
            import psycopg
        except ImportError as error:
            raise SharedError(
                "answers and limits shared through PostgreSQL need psycopg: "
                "pip install 'scenewright[postgres]'"
            ) from error
        made = psycopg.connect(driver_url(self._url), autocommit=True, connect_timeout=10)
        made.execute((_SESSION + self.setup).encode())
        if not self._prepared:
            with made.transaction():
                made.execute("SELECT pg_advisory_xact_lock(%s)", (_PREPARING,))
                made.execute(self.schema.encode())
            self._prepared = True
        return made
