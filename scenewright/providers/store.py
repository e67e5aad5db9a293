"""Answers that are kept: a durable map from (judge, image, fact) to what was answered.

Answers are content-addressed by (judge fingerprint, image hash, fact digest) in SQLite.
What failed is never kept: it is asked again next time. Every row names the *origin* that
paid for it, so that a step which runs again after a kill still counts as the one that
paid, and a later step that finds the answer counts as having paid nothing.
"""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from scenewright.core.facts import Answer
from scenewright.core.flushing import Flusher

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
    """The store of answers cannot be opened or written; says what to do."""


class StoreBusy(StoreError):
    """The store cannot be used without waiting."""


class AnswerStore:
    """A durable map from (judge, image, fact) to an answer; safe for threads and processes."""

    def __init__(self, path: Path | None, *, flusher: Flusher | None = None) -> None:
        """Opens or makes the database; None keeps it in memory. Raises ``StoreError``.

        With a ``flusher`` answers are safe from a power cut soon after they are put; without
        one, at once. A process that dies takes none back.
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
        """The stored answers among ``digests``: fact digest → (answer, origin).

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
        """Keeps (fact digest, answer) pairs in one transaction; the first answer to a fact stays.

        Unscored and void answers are refused with ``ValueError``: they are no results. Raises
        ``StoreBusy`` without ``wait`` where the disk or another writer must be waited for.
        """
        for _, answer in answers:
            if answer.state not in ("yes", "no"):
                raise ValueError(f"a {answer.state} answer to {answer.fact_id} must not be kept")
        now = time.time()
        rows = [(judge, image, d, a.model_dump_json(), origin, now) for d, a in answers]
        self._write("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows, wait)

    def noted_versions(self, judge: str, *, wait: bool = True) -> tuple[str, str]:
        """Return the served version noted first for a judge and the one noted last; both are empty
        where none is noted."""
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
        """Note that a judge is served as ``version`` now. Raises ``StoreBusy`` as :meth:`put`."""
        now = time.time()
        self._write(_NOTE, [(judge, version, now, now)], wait)

    def __len__(self) -> int:
        with self._lock:
            return int(self._db.execute("SELECT count(*) FROM answers").fetchone()[0])

    def turn(self, judge: str, image: str) -> asyncio.Lock:
        """The lock that makes tasks asking the same judge of the same image go one by one."""
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
                # The database itself must not be opened beside SQLite: that drops its locks.
                self._flusher.note(self.path.with_name(f"{self.path.name}-wal"))
        except (sqlite3.Error, OSError) as error:
            raise self._failed(error) from error

    @contextmanager
    def _alone(self, wait: bool) -> Iterator[None]:
        if not self._lock.acquire(blocking=wait):
            raise StoreBusy("another thread is at work in the store of answers")
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
            f"the answers cannot be kept ({place}): {error}. "
            "Check that the folder is writable and the disk not full, then run the same again: "
            "what was answered before is kept"
        )
