"""Files of evaluations: checked TOML, parquet files that are whole or absent, SQLite files."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sqlite3
import threading
import tomllib
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, Literal, Self, TypeVar
from weakref import WeakValueDictionary

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from scenewright.core.flushing import replacing
from scenewright.core.suggestions import suggestion
from scenewright.core.validation import first_problem
from scenewright.evals.errors import ConfigError, EvalError

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")
_FORMAT = 1
_NAME = re.compile(r"[0-9a-f]{16,128}")


def read_toml(path: str | Path, model: type[M], wrong: type[EvalError] = ConfigError) -> M:
    """Return the file ``path`` as a ``model``.

    Raises ``wrong`` with the file for what cannot be read, and with the field for what does not
    fit.
    """
    file = Path(path)
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise wrong(f"{file} cannot be read: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise wrong(f"{file} is not valid TOML: {error}") from error
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise wrong(f"{file}: {first_problem(error)}{suggestion(error, model)}") from error


@contextmanager
def drafted(folder: Path, table: str) -> Iterator[Path]:
    """Yield the draft of the parquet file of ``table``, which is renamed when it is whole.

    Raises ``EvalError`` if it cannot be written.
    """
    try:
        with replacing(folder / f"{table}.parquet") as draft:
            yield draft
    except (OSError, pa.ArrowException) as error:
        raise EvalError(
            f"the results cannot be written to {folder}: {error}. Make room, then run the same "
            "again: what is done is kept in the journal"
        ) from error


class PictureFiles(Generic[T]):
    """Values by picture: in memory, and as JSON files in a folder for other processes.

    A file is written whole or not at all; a damaged one counts as absent.
    """

    def __init__(
        self,
        folder: Path | None,
        read: Callable[[Mapping[str, Any]], T],
        *,
        what: str,
        wrong: type[Exception],
        most: int = 512,
    ) -> None:
        """Keep values in ``folder``, or in memory only.

        Args:
            folder: made with the first file.
            read: makes a value of a file's content; its errors mean a damaged file.
            what: the values in words, for the error message.
            wrong: error to raise if a file cannot be written.
            most: values in memory.
        """
        self.folder = folder
        self._read, self._what, self._wrong, self._most = read, what, wrong, most
        self._memory: OrderedDict[str, T] = OrderedDict()
        # A lock exists only while it is waited for, so that event loops do not share one.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def lock(self, picture: str) -> asyncio.Lock:
        """Return the lock of a picture."""
        return self._locks.setdefault(picture, asyncio.Lock())

    async def get(self, picture: str) -> T | None:
        """Return the value of ``picture``, if there is one."""
        found = self._memory.get(picture)
        return await asyncio.to_thread(self._load, picture) if found is None else found

    async def put(self, picture: str, value: T, data: Mapping[str, Any] | None = None) -> None:
        """Keep the value of ``picture``, with ``data`` in its file as well."""
        self._memory[picture] = value
        self._memory.move_to_end(picture)
        while len(self._memory) > self._most:
            self._memory.popitem(last=False)
        if data is not None and self.folder is not None:
            await asyncio.to_thread(self._write, picture, data)

    def forget(self, picture: str) -> None:
        """Delete the value of ``picture``."""
        self._memory.pop(picture, None)
        if self.folder is not None:
            self._place(picture).unlink(missing_ok=True)

    def clear(self) -> None:
        """Clear the memory; files stay."""
        self._memory.clear()

    def _place(self, picture: str) -> Path:
        assert self.folder is not None
        return self.folder / f"{hash_name(picture)}.json"

    def _load(self, picture: str) -> T | None:
        if self.folder is None:
            return None
        try:
            kept = json.loads(self._place(picture).read_text(encoding="utf-8"))
            if (kept["format"], kept["image"]) != (_FORMAT, picture):
                return None
            return self._read(kept)
        except (OSError, ValueError, KeyError, TypeError, AttributeError, self._wrong):
            # Absent, or damaged by a crash of the machine: it is made anew.
            return None

    def _write(self, picture: str, data: Mapping[str, Any]) -> None:
        place = self._place(picture)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with replacing(place) as draft:
                kept = {"format": _FORMAT, "image": picture, **data}
                draft.write_text(json.dumps(kept), encoding="utf-8")
        except OSError as error:
            raise self._wrong(
                f"{self._what} cannot be kept in {place.parent}: {error.strerror or error}. "
                "Choose a folder that you may write in, or free some space"
            ) from error


def hash_name(text: str) -> str:
    """Return ``text`` if it is a hash, else its hash, as the name of a file."""
    return text if _NAME.fullmatch(text) else hashlib.sha256(text.encode()).hexdigest()


BUSY_SECONDS = 30.0
_KEYS = 500
"""Keys in one statement."""


class SqliteFile:
    """An SQLite file that survives a kill; one process writes at a time.

    It is a context manager that closes the file. Threads may share it.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        *,
        synchronous: Literal["NORMAL", "FULL"],
        kept: str,
        wrong: type[EvalError] = EvalError,
    ) -> None:
        """Open the file, or make it with ``schema``.

        Args:
            path: the file.
            schema: SQL that makes the tables.
            synchronous: with ``FULL`` not even a power cut takes back what was committed.
            kept: what stays when the disk refuses, in words for the error message.
            wrong: error to raise if the file cannot be used.
        """
        self.path = path
        self._kept, self._wrong = kept, wrong
        self._lock = threading.RLock()
        with self._errors():
            self._db = sqlite3.connect(
                path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute(f"PRAGMA synchronous={synchronous}")
            self._db.executescript(schema)

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
            raise self._wrong(
                f"{self.path} cannot be used: {error}. Check that the folder is writable and the "
                f"disk not full, then run the same again: {self._kept} is kept"
            ) from error
