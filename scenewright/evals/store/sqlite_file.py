"""An SQLite file that a kill at any moment leaves whole, and errors that say what to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Self

from scenewright.evals.errors import EvalError

BUSY_SECONDS = 30.0


class SqliteFile:
    """A file of tables; one process writes at a time. It is a context manager that closes it."""

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        synchronous: Literal["NORMAL", "FULL"],
        kept: str,
        wrong: type[EvalError] = EvalError,
    ) -> None:
        """Opens the file, or makes it with ``schema``.

        ``synchronous``: with ``FULL`` not even a power cut takes back what was committed. ``kept``
        is what stays when the disk refuses, in words. Raises ``wrong`` if the file cannot be used.
        """
        self.path = path
        self._kept, self._wrong = kept, wrong
        with self._told():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={synchronous}")
            self._db.executescript(schema)

    def __enter__(self) -> Self:
        """Nothing more; closed on leaving."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        """SQLite's failures as the error that says what to do."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._wrong(
                f"{self.path} cannot be used: {error}. Check that the folder is writable and the "
                f"disk not full, then run the same again: {self._kept} is kept"
            ) from error
