"""Stored answers of judges in SQLite or PostgreSQL.

An answer is stored under (judge fingerprint, image hash, fact digest). Failures are never stored,
so they are asked again. Every row names the *origin* that paid for it: a step that runs again after
a kill still counts as the payer, and a later step that finds the answer has paid nothing.

Processes that share answers through PostgreSQL hold an advisory lock of (judge, image) while they
ask, so that no two of them pay for the same question. The locks of a process belong to its
connection; the database frees them when the process dies.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from scenewright.core.errors import ScenewrightError
from scenewright.core.facts import Answer
from scenewright.core.flushing import Flusher
from scenewright.core.sqlite_file import SqliteFile
from scenewright.providers.connection_worker import (
    ConnectionWorker,
    Job,
    database_error_text,
    result_or_undo,
)

if TYPE_CHECKING:
    from psycopg import Connection

T = TypeVar("T")

_FIRST_PAUSE, _LONGEST_PAUSE = 0.01, 0.25
_SHARED_ANSWERS, _SHARED_VERSIONS = "scenewright_answers", "scenewright_served_versions"
_SCHEMA = """
CREATE TABLE IF NOT EXISTS {answers} (
    judge TEXT NOT NULL, image TEXT NOT NULL, fact TEXT NOT NULL,
    answer TEXT NOT NULL, origin TEXT NOT NULL, at {time} NOT NULL,
    PRIMARY KEY (judge, image, fact)
) {options};
CREATE TABLE IF NOT EXISTS {versions} (
    judge TEXT NOT NULL, version TEXT NOT NULL, first {time} NOT NULL, last {time} NOT NULL,
    PRIMARY KEY (judge, version)
) {options}
"""


class StoreError(ScenewrightError, RuntimeError):
    """A store of answers that cannot be opened or written; says what to do."""


class Answers(ABC):
    """Stored answers: (judge, image, fact) → answer. Safe for threads and processes.

    ``judge`` is a fingerprint, with the version's name added for further served versions
    (:func:`~scenewright.providers.versions.storage_key`). The first answer to a fact stays;
    failures are never stored. Methods may wait for a disk or a network, and raise ``StoreError``
    where the store fails.
    """

    _answers = "answers"
    _versions = "versions"

    def __init__(self, payer: str = "") -> None:
        """``payer`` names the run whose origins these are: others use the same names for theirs."""
        self._payer = f"{payer}/" if payer else ""
        self._turns: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    def get(self, judge: str, image: str, digests: Sequence[str]) -> dict[str, tuple[Answer, str]]:
        """Return the stored answers among ``digests``: fact digest → (answer, origin that paid)."""
        marks = ", ".join("?" * len(digests))

        def own_origin(origin: str) -> str:
            # An origin of another run must not be confused with ours of the same name.
            if self._payer and origin.startswith(self._payer):
                return origin.removeprefix(self._payer)
            return f"other {origin}" if self._payer and origin else origin

        rows = self.read(
            f"SELECT fact, answer, origin FROM {self._answers} "
            f"WHERE judge = ? AND image = ? AND fact IN ({marks or 'NULL'})",
            (judge, image, *digests),
        )
        return {
            fact: (Answer.model_validate_json(answer), own_origin(origin))
            for fact, answer, origin in rows
        }

    def put(
        self, judge: str, image: str, answers: Sequence[tuple[str, Answer]], origin: str
    ) -> None:
        """Keep (fact digest, answer) pairs in one transaction; the first answer to a fact stays.

        Unscored and void answers are refused with ``ValueError``: they are no results.
        """
        for _, answer in answers:
            if answer.state not in ("yes", "no"):
                raise ValueError(f"a {answer.state} answer to {answer.fact_id} must not be stored")
        payer = self._payer + origin if origin else ""
        # In a fixed order, so that two writers of the same answers cannot deadlock.
        in_order = sorted(answers, key=lambda pair: pair[0])
        self.write(
            f"INSERT INTO {self._answers} VALUES (?, ?, ?, ?, ?, clock_timestamp()) "
            "ON CONFLICT DO NOTHING",
            [(judge, image, digest, a.model_dump_json(), payer) for digest, a in in_order],
        )

    def noted_versions(self, judge: str) -> tuple[str, str]:
        """Return the served version noted first for a judge and the one noted last.

        Both are empty where none is noted.
        """
        one = f"(SELECT version FROM {self._versions} WHERE judge = ? ORDER BY {{}} LIMIT 1)"
        select = f"SELECT {one.format('first')}, {one.format('last DESC')}"
        ((first, last),) = self.read(select, (judge, judge))
        return first or "", last or ""

    def note_version(self, judge: str, version: str) -> None:
        """Note that a judge is served as ``version`` now."""
        self.write(
            f"INSERT INTO {self._versions} VALUES (?, ?, clock_timestamp(), clock_timestamp()) "
            "ON CONFLICT (judge, version) DO UPDATE SET last = excluded.last",
            [(judge, version)],
        )

    def __len__(self) -> int:
        """Return the number of stored answers."""
        return int(self.read(f"SELECT count(*) FROM {self._answers}", ())[0][0])

    def turn(self, judge: str, image: str) -> AbstractAsyncContextManager[Any]:
        """Return a lock under which nobody else asks this judge about this image."""
        return self._turns.setdefault((judge, image), asyncio.Lock())

    @abstractmethod
    def read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of an SQL ``statement``, with ``?`` for each of ``values``."""

    @abstractmethod
    def write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a ``statement`` for each of ``rows`` in one transaction."""

    @abstractmethod
    def close(self) -> None:
        """Finish pending writes and close the store."""


class AnswerStore(SqliteFile, Answers):
    """Answers in an SQLite file, or in memory."""

    def __init__(self, path: Path | None, *, flusher: Flusher | None = None) -> None:
        """Open or create the database; None keeps it in memory.

        With a ``flusher`` answers are safe from a power cut soon after they are stored; without
        one, at once. They survive the end of the process in any case. Raises ``StoreError``.
        """
        Answers.__init__(self)
        SqliteFile.__init__(
            self,
            path,
            _SCHEMA.format(
                answers=self._answers,
                versions=self._versions,
                time="REAL",
                options="WITHOUT ROWID",
            ),
            synchronous="FULL" if flusher is None else "NORMAL",
            kept="every stored answer",
            wrong=StoreError,
        )
        self._flusher = flusher
        # As PostgreSQL calls it, so that both take the same statements.
        self._db.create_function("clock_timestamp", 0, time.time)

    def read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of a ``statement``."""
        return self._rows(statement, values)

    def write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a ``statement`` for each of ``rows`` in one transaction."""
        with self.changing():
            self._db.executemany(statement, rows)
        if self._flusher is not None and self.path is not None:
            try:
                # Opening the database file outside of SQLite would drop its locks.
                self._flusher.note(self.path.with_name(f"{self.path.name}-wal"))
            except OSError as error:
                raise self._failed(error) from error


@contextmanager
def _database_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        text = database_error_text(error, "the shared answers cannot be used")
        raise StoreError(text) from error


class _Connection(ConnectionWorker):
    """Connection of this process to a database, with the advisory locks that its tasks hold."""

    schema = _SCHEMA.format(
        answers=_SHARED_ANSWERS,
        versions=_SHARED_VERSIONS,
        time="TIMESTAMPTZ DEFAULT clock_timestamp()",
        options="",
    )

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self._held: set[int] = set()

    @asynccontextmanager
    async def hold_lock(self, key: int) -> AsyncIterator[None]:
        """Hold the lock ``key`` for the block, once nobody else holds it.

        Raises ``StoreError`` where the database stays unreachable.
        """
        pause = _FIRST_PAUSE
        with _database_errors():
            while not await result_or_undo(
                self.submit(lambda at: self._try(at, key)), lambda got: self._unlock(got, key)
            ):
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 1.5)
        try:
            yield
        finally:
            self._unlock(True, key)

    def _unlock(self, got: bool, key: int) -> None:
        def unlock(connection: Connection[Any]) -> None:
            self._held.discard(key)
            connection.execute("SELECT pg_advisory_unlock(%s)", (key,))

        if got:
            self.submit(unlock)

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

    def renewed(self, connection: Connection[Any]) -> None:
        # The database freed them with the old connection. Who was faster may ask the same: the
        # first answer stays.
        for key in self._held:
            connection.execute("SELECT pg_try_advisory_lock(%s)", (key,))


class PostgresAnswers(Answers):
    """Answers in a shared PostgreSQL database."""

    _answers = _SHARED_ANSWERS
    _versions = _SHARED_VERSIONS

    def __init__(self, url: str, *, payer: str = "") -> None:
        """Open the database at ``url`` and create missing tables.

        Stores of one process share their connection. Raises ``StoreError``.
        """
        super().__init__(payer)
        self._open = True
        self._connection = _Connection.at(url)
        try:
            self._result(lambda at: None)
        except StoreError:
            self.close()
            raise

    def read(self, statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        """Return the rows of a ``statement``."""
        query = statement.replace("?", "%s").encode()
        return self._result(lambda at: at.execute(query, values).fetchall())

    def write(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Run a ``statement`` for each of ``rows`` in one transaction."""

        def write(connection: Connection[Any]) -> None:
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(statement.replace("?", "%s").encode(), rows)

        self._result(write)

    @asynccontextmanager
    async def turn(self, judge: str, image: str) -> AsyncIterator[None]:
        """Return a lock that holds for all processes.

        Raises ``StoreError`` where the database stays unreachable.
        """
        key = hashlib.sha256(f"scenewright answers\0{judge}\0{image}".encode()).digest()[:8]
        async with (
            super().turn(judge, image),
            self._connection.hold_lock(int.from_bytes(key, "big", signed=True)),
        ):
            yield

    def close(self) -> None:
        """Close this store; the process's last store closes the connection."""
        if self._open:
            self._open = False
            self._connection.give_back()

    def _result(self, job: Job[T]) -> T:
        with _database_errors():
            return self._connection.submit(job).result()


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
