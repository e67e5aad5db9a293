"""Stored answers of judges: the protocol, SQLite and PostgreSQL.

An answer is stored under (judge fingerprint, image hash, fact digest). Failures are never stored,
so they are asked again. Every row names the *origin* that paid for it: a step that runs again after
a kill still counts as the payer, and a later step that finds the answer has paid nothing.

Processes that share answers through PostgreSQL hold an advisory lock of (judge, image) while they
ask, so that no two of them pay for the same question. The locks of a process belong to one
connection; the database frees them when the process dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import sqlite3
import threading
import time
import weakref
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from scenewright.core.facts import Answer
from scenewright.core.flushing import Flusher
from scenewright.providers.connection_worker import (
    AWAY_SECONDS,
    ConnectionWorker,
    SharedError,
    SharedInstances,
    connect,
    database_error_text,
    driver_url,
    prepare,
)

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS answers (
    judge TEXT NOT NULL,
    image TEXT NOT NULL,
    fact TEXT NOT NULL,
    answer TEXT NOT NULL,
    origin TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (judge, image, fact)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS versions (
    judge TEXT NOT NULL,
    version TEXT NOT NULL,
    first REAL NOT NULL,
    last REAL NOT NULL,
    PRIMARY KEY (judge, version)
) WITHOUT ROWID
"""
_NOTE = (
    "INSERT INTO versions VALUES (?, ?, ?, ?) "
    "ON CONFLICT (judge, version) DO UPDATE SET last = excluded.last"
)


class StoreError(RuntimeError):
    """A store of answers that cannot be opened or written; says what to do."""


class StoreBusy(StoreError):
    """A store that cannot be used without waiting."""


class Answers(Protocol):
    """Stored answers: (judge, image, fact) → answer. Safe for threads and processes.

    ``judge`` is a fingerprint, with the version's name added for further served versions
    (:func:`~scenewright.providers.versions.storage_key`). The first answer to a fact stays;
    failures are never stored. Every method raises ``StoreError`` where the store fails, and
    ``StoreBusy`` where it would have to wait and ``wait`` is false.
    """

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """Return the stored answers among ``digests``: fact digest → (answer, origin that paid)."""
        ...

    def put(
        self,
        judge: str,
        image: str,
        answers: Sequence[tuple[str, Answer]],
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """Keep (fact digest, answer) pairs; ``ValueError`` for unscored and void ones."""
        ...

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """Return the served version noted first for a judge and the one noted last.

        Both are empty where none is noted.
        """
        ...

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """Note that a judge is served as ``version`` now."""
        ...

    def __len__(self) -> int:
        """Return the number of stored answers."""
        ...

    def turn(self, judge: str, image: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock under which nobody else asks this judge about this image."""
        ...

    def close(self) -> None:
        """Finish pending writes and close the store."""
        ...


class AnswerStore:
    """Answers in an SQLite file, or in memory; implements :class:`Answers`."""

    def __init__(self, path: Path | None, *, flusher: Flusher | None = None) -> None:
        """Open or create the database; None keeps it in memory.

        With a ``flusher`` answers are safe from a power cut soon after they are stored; without
        one, at once. They survive the end of the process in any case. Raises ``StoreError``.
        """
        self.path = path
        self._flusher = flusher
        self._lock = threading.Lock()
        self._turns: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        try:
            self._db = sqlite3.connect(
                ":memory:" if path is None else path,
                timeout=BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            # With NORMAL a power cut could take the last paid answers back.
            self._db.execute(f"PRAGMA synchronous={'FULL' if flusher is None else 'NORMAL'}")
            self._db.executescript(_SCHEMA)
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """Return the stored answers among ``digests``: fact digest → (answer, origin).

        Raises ``StoreBusy`` without ``wait`` where another thread is at work here.
        """
        found: dict[str, tuple[Answer, str]] = {}
        try:
            with self._alone(wait):
                for digest in dict.fromkeys(digests):
                    row = self._db.execute(
                        "SELECT answer, origin FROM answers WHERE judge=? AND image=? AND fact=?",
                        (judge, image, digest),
                    ).fetchone()
                    if row is not None:
                        found[digest] = (Answer.model_validate_json(row[0]), row[1])
        except sqlite3.Error as error:
            raise self._failed(error) from error
        return found

    def put(
        self,
        judge: str,
        image: str,
        answers: Sequence[tuple[str, Answer]],
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """Keep (fact digest, answer) pairs in one transaction; the first answer to a fact stays.

        Unscored and void answers are refused with ``ValueError``: they are no results. Raises
        ``StoreBusy`` without ``wait`` where the disk or another writer must be waited for.
        """
        _check_results(answers)
        now = time.time()
        rows = [(judge, image, d, a.model_dump_json(), origin, now) for d, a in answers]
        self._write("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows, wait)

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """Return the served version noted first for a judge and the one noted last.

        Both are empty where none is noted.
        """
        query = "SELECT version FROM versions WHERE judge=? ORDER BY {} LIMIT 1"
        try:
            with self._alone(wait):
                found = [
                    self._db.execute(query.format(order), (judge,)).fetchone()
                    for order in ("first", "last DESC")
                ]
        except sqlite3.Error as error:
            raise self._failed(error) from error
        first, last = (row[0] if row is not None else "" for row in found)
        return first, last

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """Note that a judge is served as ``version`` now."""
        now = time.time()
        self._write(_NOTE, [(judge, version, now, now)], wait)

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM answers").fetchone()[0])

    def turn(self, judge: str, image: str) -> asyncio.Lock:
        """Return the lock that serialises tasks asking one judge about one image."""
        return self._turns.setdefault((judge, image), asyncio.Lock())

    def close(self) -> None:
        """Close the database; a write under way in another thread is finished first."""
        with self._lock:
            self._db.close()

    def _write(self, statement: str, rows: Sequence[tuple[object, ...]], wait: bool) -> None:
        """Write ``rows`` in one transaction."""
        if not wait and self.path is not None and self._flusher is None:
            raise StoreBusy("the answers are flushed to the disk at once")
        try:
            with self._alone(wait):
                self._begin(wait)
                try:
                    self._db.executemany(statement, rows)
                    self._db.execute("COMMIT")
                except BaseException:
                    self._db.rollback()
                    raise
            if self._flusher is not None and self.path is not None:
                # Opening the database file outside of SQLite would drop its locks.
                self._flusher.note(self.path.with_name(f"{self.path.name}-wal"))
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    @contextmanager
    def _alone(self, wait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=wait):
            raise StoreBusy("another thread is using the store of answers")
        try:
            yield
        finally:
            self._lock.release()

    def _begin(self, wait: bool) -> None:
        if wait:
            self._db.execute("BEGIN IMMEDIATE")
            return
        self._db.execute("PRAGMA busy_timeout=0")
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StoreBusy("another process writes answers") from error
        finally:
            self._db.execute(f"PRAGMA busy_timeout={BUSY_SECONDS * 1000:.0f}")

    def _failed(self, error: sqlite3.Error | OSError) -> StoreError:
        place = "in memory" if self.path is None else str(self.path)
        return StoreError(
            f"the answers cannot be stored ({place}): {error}. "
            "Check that the folder is writable and the disk not full, then run the same again: "
            "earlier answers stay stored"
        )


T = TypeVar("T")

POOL_SIZE = 4
"""Most connections of a process for reading and writing; one more holds its locks."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_POSTGRES_SCHEMA = """
CREATE TABLE IF NOT EXISTS scenewright_answers (
    judge TEXT NOT NULL,
    image TEXT NOT NULL,
    fact TEXT NOT NULL,
    answer TEXT NOT NULL,
    origin TEXT NOT NULL,
    at TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (judge, image, fact)
);
CREATE TABLE IF NOT EXISTS scenewright_served_versions (
    judge TEXT NOT NULL,
    version TEXT NOT NULL,
    first TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    last TIMESTAMPTZ NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (judge, version)
)
"""


class Turns:
    """Advisory locks of one process, each held by one task at a time."""

    def __init__(self, worker: ConnectionWorker) -> None:
        """``worker`` owns the connection that holds the locks."""
        self._worker = worker
        self._held: set[int] = set()
        worker.renew(self._again)

    @asynccontextmanager
    async def held(self, key: int) -> AsyncIterator[None]:
        """Hold the lock ``key`` for the block, once nobody else holds it.

        Raises errors of psycopg.
        """
        pause = _FIRST_PAUSE
        while not await self._worker.done(lambda at: self._try(at, key), self._undo(key)):
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
        try:
            yield
        finally:
            self._worker.submit(lambda at: self._leave(at, key))

    def _undo(self, key: int) -> Callable[[bool], None]:
        def undo(got: bool) -> None:
            if got:
                self._worker.submit(lambda at: self._leave(at, key))

        return undo

    def _try(self, connection: Connection[Any], key: int) -> bool:
        from psycopg.errors import OutOfMemory

        # One session may acquire its own lock repeatedly.
        if key in self._held:
            return False
        try:
            row = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        except OutOfMemory:
            # The server's table of locks is full: there is room when others are done.
            return False
        if row is None or not row[0]:
            return False
        self._held.add(key)
        return True

    def _leave(self, connection: Connection[Any], key: int) -> None:
        self._held.discard(key)
        connection.execute("SELECT pg_advisory_unlock(%s)", (key,))

    def _again(self, connection: Connection[Any]) -> None:
        # The database freed them with the old connection. Who was faster may ask the same: the
        # first answer stays.
        for key in self._held:
            connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))


class _Database:
    """Connections and locks that the stores of one process share for a database."""

    def __init__(self, url: str) -> None:
        with connect(url) as connection:
            prepare(connection, _POSTGRES_SCHEMA)
        from psycopg_pool import ConnectionPool

        self.pool: ConnectionPool[Any] = ConnectionPool(
            driver_url(url),
            min_size=0,
            max_size=POOL_SIZE,
            open=True,
            timeout=AWAY_SECONDS,
            kwargs={"autocommit": True},
        )
        self.worker = ConnectionWorker(url)
        self.turns = Turns(self.worker)

    def using(self, work: Callable[[Connection[Any]], T]) -> T:
        """Return the result of ``work`` on a connection, repeated if the connection broke."""
        from psycopg import InterfaceError, OperationalError

        try:
            with self.pool.connection() as connection:
                return work(connection)
        except (OperationalError, InterfaceError):
            self.pool.check()
        with self.pool.connection() as connection:
            return work(connection)

    def close(self) -> None:
        """Close the connections."""
        self.worker.close()
        self.pool.close()


_SHARED: SharedInstances[_Database] = SharedInstances(_Database.close)


class PostgresAnswers:
    """Answers in a shared PostgreSQL database; implements :class:`Answers`."""

    def __init__(self, url: str, *, payer: str = "") -> None:
        """Open the database at ``url`` and create a missing table.

        Stores of one process share their connections. ``payer`` names the run whose origins
        these are: other runs use the same names for theirs. Raises ``StoreError``.
        """
        self._url = url
        self._payer = f"{payer}/" if payer else ""
        self._local: weakref.WeakValueDictionary[tuple[str, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )
        self._open = True
        try:
            self._database = _SHARED.take(url, lambda: _Database(url))
        except Exception as error:
            raise _failed(error) from error

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """Implement :meth:`Answers.get`; a database always needs a wait."""
        _require_wait(wait)
        query = (
            "SELECT fact, answer, origin FROM scenewright_answers "
            "WHERE judge = %s AND image = %s AND fact = ANY(%s)"
        )
        wanted = list(dict.fromkeys(digests))
        rows = self._using(lambda at: at.execute(query, (judge, image, wanted)).fetchall())
        return {
            fact: (Answer.model_validate_json(answer), self._mine(origin))
            for fact, answer, origin in rows
        }

    def put(
        self,
        judge: str,
        image: str,
        answers: Sequence[tuple[str, Answer]],
        origin: str,
        *,
        wait: bool = True,
    ) -> None:
        """Implement :meth:`Answers.put` in one statement."""
        _check_results(answers)
        _require_wait(wait)
        query = (
            "INSERT INTO scenewright_answers (judge, image, fact, answer, origin) "
            "SELECT %s, %s, fact, answer, %s FROM unnest(%s::text[], %s::text[]) AS t(fact, answer)"
            " ON CONFLICT DO NOTHING"
        )
        # In a fixed order, so that two writers of the same answers cannot deadlock.
        rows = sorted(
            {digest: answer.model_dump_json() for digest, answer in answers[::-1]}.items()
        )
        payer = self._payer + origin if origin else ""
        values = (judge, image, payer, [row[0] for row in rows], [row[1] for row in rows])
        self._using(lambda at: at.execute(query, values))

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """Implement :meth:`Answers.noted_versions`, for all processes that share the database."""
        _require_wait(wait)
        query = (
            "SELECT (array_agg(version ORDER BY first))[1], "
            "(array_agg(version ORDER BY last DESC))[1] "
            "FROM scenewright_served_versions WHERE judge = %s"
        )
        (found,) = self._using(lambda at: at.execute(query, (judge,)).fetchall())
        return found[0] or "", found[1] or ""

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """Implement :meth:`Answers.note_version`."""
        _require_wait(wait)
        query = (
            "INSERT INTO scenewright_served_versions (judge, version) VALUES (%s, %s) "
            "ON CONFLICT (judge, version) DO UPDATE SET last = excluded.last"
        )
        self._using(lambda at: at.execute(query, (judge, version)))

    def __len__(self) -> int:
        """Return the number of answers of all processes that share the database."""
        query = "SELECT count(*) FROM scenewright_answers"
        (row,) = self._using(lambda at: at.execute(query).fetchall())
        return int(row[0])

    @asynccontextmanager
    async def turn(self, judge: str, image: str) -> AsyncIterator[None]:
        """Implement :meth:`Answers.turn`.

        Raises ``StoreError`` where the database stays unreachable.
        """
        key = hashlib.sha256(f"scenewright answers\0{judge}\0{image}".encode()).digest()[:8]
        async with self._local.setdefault((judge, image), asyncio.Lock()):
            turn = self._database.turns.held(int.from_bytes(key, "big", signed=True))
            try:
                await turn.__aenter__()
            except Exception as error:
                raise _failed(error) from error
            try:
                yield
            finally:
                await turn.__aexit__(None, None, None)

    def close(self) -> None:
        """Close this store; the process's last store closes the connections."""
        if self._open:
            self._open = False
            _SHARED.give_back(self._url)

    def _mine(self, origin: str) -> str:
        # An origin of another run must not be confused with ours of the same name.
        if self._payer and origin.startswith(self._payer):
            return origin.removeprefix(self._payer)
        return origin if not self._payer or not origin else f"other {origin}"

    def _using(self, work: Callable[[Connection[Any]], T]) -> T:
        from psycopg import Error

        try:
            return self._database.using(work)
        except Error as error:
            raise _failed(error) from error


def _check_results(answers: Sequence[tuple[str, Answer]]) -> None:
    for _, answer in answers:
        if answer.state not in ("yes", "no"):
            raise ValueError(f"a {answer.state} answer to {answer.fact_id} must not be stored")


def _require_wait(wait: bool) -> None:
    if not wait:
        raise StoreBusy("the answers are behind a network")


def _failed(error: Exception) -> StoreError:
    if isinstance(error, SharedError):
        return StoreError(str(error))
    return StoreError(database_error_text(error, "the shared answers cannot be used"))


def open_answers(
    shared: str | None, path: Path | None, *, flusher: Flusher | None = None, payer: str = ""
) -> Answers:
    """Open the answers at the PostgreSQL URL ``shared``, or in the file ``path`` if it is None.

    ``payer`` separates the origins of one run from those of others that share the answers. Raises
    ``StoreError``.
    """
    if shared is None:
        return AnswerStore(path, flusher=flusher)
    return PostgresAnswers(shared, payer=payer)
