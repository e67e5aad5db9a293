"""Rows on the disk, found again by what they belong to: annotation files do not group their boxes
by image, and are larger than the memory."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from scenewright.evals.datasets.base import DatasetError

Key = int | str
_BATCH = 2000


class RowStore:
    """Kinds of rows (key, text) in an SQLite database that has no name and goes when it is closed
    or its process ends. Rows are added first, then :meth:`finish` makes them findable."""

    def __init__(self, kinds: tuple[str, ...]) -> None:
        """``kinds`` are plain words. Memory is that of SQLite's page cache (2 MB); the rest goes to
        the folder of temporary files (``SQLITE_TMPDIR``, ``TMPDIR``)."""
        self._kinds = kinds
        self._waiting: dict[str, list[tuple[Key, str]]] = {kind: [] for kind in kinds}
        # Items may be taken in another thread than the one that began, one after the other.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for line in ("journal_mode = OFF", "synchronous = OFF", "temp_store = FILE"):
            self._database.execute(f"PRAGMA {line}")
        for kind in kinds:
            # Without a type, 1 and "1" stay two keys.
            self._database.execute(f"CREATE TABLE {kind} (key, text TEXT)")

    def __enter__(self) -> Self:
        """Nothing more; closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Gives the disk back."""
        self.close()

    def add(self, kind: str, key: Key, text: str) -> None:
        """A row more. Raises ``DatasetError`` for a number of more than 64 bits, and if the disk of
        temporary files is full."""
        waiting = self._waiting[kind]
        waiting.append((_key(key), text))
        if len(waiting) >= _BATCH:
            self._write(kind)

    def finish(self) -> None:
        """All rows are there: make them findable. Raises ``DatasetError`` if the disk is full."""
        for kind in self._kinds:
            self._write(kind)
            with _told():
                self._database.execute(f"CREATE INDEX {kind}_by_key ON {kind} (key)")

    def _write(self, kind: str) -> None:
        with _told():
            self._database.execute("BEGIN")
            self._database.executemany(f"INSERT INTO {kind} VALUES (?, ?)", self._waiting[kind])
            self._database.execute("COMMIT")
        self._waiting[kind].clear()

    def texts(self, kind: str, key: Key) -> list[str]:
        """Texts of the rows of ``key``, in the order in which they were added."""
        found = self._database.execute(
            f"SELECT text FROM {kind} WHERE key = ? ORDER BY rowid", (_key(key),)
        )
        return [text for (text,) in found]

    def rows(self, kind: str) -> Iterator[tuple[Key, str]]:
        """All rows in the order in which they were added."""
        yield from self._database.execute(f"SELECT key, text FROM {kind} ORDER BY rowid")

    def keys(self, kind: str) -> Iterator[Key]:
        """Each key once, in ascending order."""
        for (key,) in self._database.execute(f"SELECT DISTINCT key FROM {kind} ORDER BY key"):
            yield key

    def repeated(self, kind: str) -> Key | None:
        """A key that two rows have; none if all differ."""
        found = self._database.execute(
            f"SELECT key FROM {kind} GROUP BY key HAVING COUNT(*) > 1 LIMIT 1"
        ).fetchone()
        return None if found is None else found[0]

    def without(self, kind: str, other: str) -> int:
        """How many rows of ``kind`` have a key that no row of ``other`` has."""
        (count,) = self._database.execute(
            f"SELECT COUNT(*) FROM {kind} WHERE key NOT IN (SELECT key FROM {other})"
        ).fetchone()
        return int(count)

    def close(self) -> None:
        """Gives the disk back; the shelf cannot be used afterwards."""
        self._database.close()


def _key(key: Key) -> Key:
    if isinstance(key, int) and not -(2**63) <= key < 2**63:
        raise DatasetError(f"the number {key} of an image is too large: take the published file")
    return key


@contextmanager
def _told() -> Iterator[None]:
    """Turns SQLite's failures into the error that says what to do."""
    try:
        yield
    except sqlite3.OperationalError as error:
        raise DatasetError(
            f"the index of the annotations could not be written ({error}): make room in the "
            "folder of temporary files, or name a larger one in TMPDIR"
        ) from error


def signature(path: Path) -> tuple[int, int]:
    """Size and time of ``path``: whether a shelf that was filled from it still holds."""
    try:
        found = path.stat()
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or error}") from error
    return found.st_size, found.st_mtime_ns
