"""Answers in PostgreSQL, shared by the processes and machines that name the same database.

Whoever asks a judge of an image holds an advisory lock of that pair meanwhile, so that no two
processes pay for the same question at once. The locks of a process belong to one connection: the
database frees them when the process dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import weakref
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from scenewright.core.facts import Answer
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
from scenewright.providers.store import StoreBusy, StoreError

if TYPE_CHECKING:
    from psycopg import Connection
    from psycopg_pool import ConnectionPool

T = TypeVar("T")

POOL_SIZE = 4
"""Most connections of a process that read and write answers; one more holds its turns."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_SCHEMA = """
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
    """Advisory locks of one process, each held by one of its tasks at a time."""

    def __init__(self, clerk: ConnectionWorker) -> None:
        """``clerk`` holds them, and alone uses what is kept here."""
        self._clerk = clerk
        self._held: set[int] = set()
        clerk.renew(self._again)

    @asynccontextmanager
    async def held(self, key: int) -> AsyncIterator[None]:
        """Waits until nobody holds the lock ``key``, and holds it. Raises errors of psycopg."""
        pause = _FIRST_PAUSE
        while not await self._clerk.done(lambda at: self._try(at, key), self._undo(key)):
            await asyncio.sleep(pause)
            pause = min(_LONGEST_PAUSE, pause * 1.5)
        try:
            yield
        finally:
            self._clerk.submit(lambda at: self._leave(at, key))

    def _undo(self, key: int) -> Callable[[bool], None]:
        def undo(got: bool) -> None:
            if got:
                self._clerk.submit(lambda at: self._leave(at, key))

        return undo

    def _try(self, connection: Connection[Any], key: int) -> bool:
        from psycopg.errors import OutOfMemory

        # One session may take a lock of its own any number of times.
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


class _Desk:
    """What the stores of one process have in common for a database."""

    def __init__(self, url: str) -> None:
        with connect(url) as connection:
            prepare(connection, _SCHEMA)
        from psycopg_pool import ConnectionPool

        self.pool: ConnectionPool[Any] = ConnectionPool(
            driver_url(url),
            min_size=0,
            max_size=POOL_SIZE,
            open=True,
            timeout=AWAY_SECONDS,
            kwargs={"autocommit": True},
        )
        self.clerk = ConnectionWorker(url)
        self.turns = Turns(self.clerk)

    def using(self, work: Callable[[Connection[Any]], T]) -> T:
        """``work`` on a connection; once more where that one broke."""
        from psycopg import InterfaceError, OperationalError

        try:
            with self.pool.connection() as connection:
                return work(connection)
        except (OperationalError, InterfaceError):
            self.pool.check()
        with self.pool.connection() as connection:
            return work(connection)

    def close(self) -> None:
        """Let the database go."""
        self.clerk.close()
        self.pool.close()


_DESKS: SharedInstances[_Desk] = SharedInstances(_Desk.close)


class PostgresAnswers:
    """Answers in a database that others share: implements
    :class:`~scenewright.providers.answers.Answers`."""

    def __init__(self, url: str, *, payer: str = "") -> None:
        """Opens the database at ``url`` and makes its table where it is new.

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
            self._desk = _DESKS.take(url, lambda: _Desk(url))
        except Exception as error:
            raise _failed(error) from error

    def get(
        self, judge: str, image: str, digests: Sequence[str], *, wait: bool = True
    ) -> dict[str, tuple[Answer, str]]:
        """As the port says; a database is always waited for."""
        _demand(wait)
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
        """As the port says, in one statement."""
        for _, answer in answers:
            if answer.state not in ("yes", "no"):
                raise ValueError(f"a {answer.state} answer to {answer.fact_id} must not be kept")
        _demand(wait)
        query = (
            "INSERT INTO scenewright_answers (judge, image, fact, answer, origin) "
            "SELECT %s, %s, fact, answer, %s FROM unnest(%s::text[], %s::text[]) AS t(fact, answer)"
            " ON CONFLICT DO NOTHING"
        )
        # In one order everywhere: two who put the same do not wait for each other in a circle.
        rows = sorted(
            {digest: answer.model_dump_json() for digest, answer in answers[::-1]}.items()
        )
        payer = self._payer + origin if origin else ""
        values = (judge, image, payer, [row[0] for row in rows], [row[1] for row in rows])
        self._using(lambda at: at.execute(query, values))

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """As the port says, of all who share the database."""
        _demand(wait)
        query = (
            "SELECT (array_agg(version ORDER BY first))[1], "
            "(array_agg(version ORDER BY last DESC))[1] "
            "FROM scenewright_served_versions WHERE judge = %s"
        )
        (found,) = self._using(lambda at: at.execute(query, (judge,)).fetchall())
        return found[0] or "", found[1] or ""

    def note_version(self, judge: str, version: str, *, wait: bool = True) -> None:
        """As the port says."""
        _demand(wait)
        query = (
            "INSERT INTO scenewright_served_versions (judge, version) VALUES (%s, %s) "
            "ON CONFLICT (judge, version) DO UPDATE SET last = excluded.last"
        )
        self._using(lambda at: at.execute(query, (judge, version)))

    def __len__(self) -> int:
        """How many answers all who share the database have."""
        query = "SELECT count(*) FROM scenewright_answers"
        (row,) = self._using(lambda at: at.execute(query).fetchall())
        return int(row[0])

    @asynccontextmanager
    async def turn(self, judge: str, image: str) -> AsyncIterator[None]:
        """As the port says. Raises ``StoreError`` where the database stays away."""
        key = hashlib.sha256(f"scenewright answers\0{judge}\0{image}".encode()).digest()[:8]
        async with self._local.setdefault((judge, image), asyncio.Lock()):
            turn = self._desk.turns.held(int.from_bytes(key, "big", signed=True))
            try:
                await turn.__aenter__()
            except Exception as error:
                raise _failed(error) from error
            try:
                yield
            finally:
                await turn.__aexit__(None, None, None)

    def close(self) -> None:
        """Let the database go; its connections are closed with the process's last store."""
        if self._open:
            self._open = False
            _DESKS.give_back(self._url)

    def _mine(self, origin: str) -> str:
        # Another run's origin must not be taken for one of ours of the same name.
        if self._payer and origin.startswith(self._payer):
            return origin.removeprefix(self._payer)
        return origin if not self._payer or not origin else f"other {origin}"

    def _using(self, work: Callable[[Connection[Any]], T]) -> T:
        from psycopg import Error

        try:
            return self._desk.using(work)
        except Error as error:
            raise _failed(error) from error


def _demand(wait: bool) -> None:
    if not wait:
        raise StoreBusy("the answers are behind a network")


def _failed(error: Exception) -> StoreError:
    if isinstance(error, SharedError):
        return StoreError(str(error))
    return StoreError(database_error_text(error, "the shared answers cannot be used"))
