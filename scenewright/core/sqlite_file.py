"""SQLite files that survive a kill."""

from __future__ import annotations

import secrets
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

BUSY_SECONDS = 30.0
_KEYS = 500
"""Keys in one statement."""


def open_sqlite(
    path: Path | None,
    schema: str,
    *,
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL",
    timeout: float = BUSY_SECONDS,
    wal: bool = True,
) -> sqlite3.Connection:
    """Open the file ``path``, or memory, and make the missing tables of ``schema``.

    Threads may share the connection, and each statement is a transaction of its own. With ``FULL``
    not even a power cut takes back what was committed. Writers wait ``timeout`` seconds for others.
    Without ``wal`` a file that may only be read can be read.
    """
    db = sqlite3.connect(
        ":memory:" if path is None else path,
        timeout=timeout,
        isolation_level=None,
        check_same_thread=False,
    )
    if wal:
        db.execute("PRAGMA journal_mode=WAL")
    db.execute(f"PRAGMA synchronous={synchronous}")
    db.executescript(schema)
    return db


class SqliteFile:
    """An SQLite file that survives a kill; one process writes at a time.

    It is a context manager that closes the file. Threads may share it.
    """

    def __init__(
        self,
        path: Path | None,
        schema: str,
        *,
        synchronous: Literal["NORMAL", "FULL"],
        kept: str,
        wrong: Callable[[str], Exception],
    ) -> None:
        """Open the file, or make it with ``schema``.

        Args:
            path: the file; None keeps all in memory.
            schema: SQL that makes the tables.
            synchronous: with ``FULL`` not even a power cut takes back what was committed.
            kept: what stays when the disk refuses, in words for the error message.
            wrong: error to raise if the file cannot be used.
        """
        self.path = path
        self._kept, self._wrong = kept, wrong
        self._lock = threading.RLock()
        with self._errors():
            self._db = open_sqlite(path, schema, synchronous=synchronous)

    def __enter__(self) -> Self:
        """Return the open file."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def nonce(self) -> str:
        """Return the random name of the file, made once: it stays while the file does."""
        with self.changing():
            self._db.execute("CREATE TABLE IF NOT EXISTS names (nonce TEXT NOT NULL)")
            if not (rows := self._rows("SELECT nonce FROM names")):
                rows = [(secrets.token_hex(16),)]
                self._db.execute("INSERT INTO names VALUES (?)", rows[0])
        return str(rows[0][0])

    def rename(self) -> None:
        """Have :meth:`nonce` make another name."""
        self.nonce()
        with self.changing():
            self._db.execute("DELETE FROM names")

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Run the block in one transaction, which an error takes back; it may be nested."""
        with self._lock, self._errors():
            if self._db.in_transaction:
                yield
                return
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    def _put(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Write whole ``rows`` of ``table`` in one transaction, in place of those of their keys."""
        if rows:
            values = ", ".join("?" * len(rows[0]))
            with self.changing():
                self._db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({values})", rows)

    def _rows(self, query: str, values: Sequence[Any] = ()) -> list[Any]:
        """Return all rows of ``query``."""
        with self._lock, self._errors():
            return self._db.execute(query, values).fetchall()

    def _among(self, query: str, values: Sequence[Any], keys: Sequence[str]) -> Iterator[Any]:
        """Yield the rows of ``query``, whose ``{}`` stands for ``keys``, some keys at a time."""
        for start in range(0, len(keys), _KEYS):
            some = keys[start : start + _KEYS]
            yield from self._rows(query.format(", ".join("?" * len(some))), (*values, *some))

    def _stream(self, query: str, values: Sequence[Any] = (), block: int = 64) -> Iterator[Any]:
        """Yield the rows of ``query`` with at most ``block`` of them in memory."""
        with self._errors():
            found = self._db.execute(query, values)
            while some := found.fetchmany(block):
                yield from some

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Turn SQLite's failures into an error with a remedy."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: Exception) -> Exception:
        return self._wrong(
            f"{self.path or 'SQLite'} cannot be used: {error}. Check that the folder is writable "
            f"and the disk not full, then run the same again: {self._kept} is kept"
        )
