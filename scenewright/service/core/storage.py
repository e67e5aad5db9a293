"""The disk and the database, watched while the service runs.

A full disk and a lost database are noticed by whoever meets them, or by the next look. The log has
one line when that begins and one when it is over; ``/readyz`` shows it; new runs are refused
meanwhile with 507 or 503; runs under way wait, and go on once the storage is back.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import math
import os
import shutil
import sqlite3
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from sqlalchemy import event, text
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine

from scenewright.service.core.database import READING, sqlite_file
from scenewright.service.core.errors import InsufficientStorage, ServiceError, Unavailable
from scenewright.service.core.jobs.base import set_within
from scenewright.service.core.settings import ServiceSettings

log = logging.getLogger(__name__)

LEAST_FREE = 32 * 2**20
"""Bytes of free disk below which no new run is taken."""
_LOOK_SECONDS = 5.0
_RETRY_SECONDS = 1.0
_ANSWER_SECONDS = 5.0
_SILENT_SECONDS = 60.0
"""Between two outages that the log is told of."""
_PROBE_BYTES = 64 * 1024
_PROBES = (
    ("UPDATE runs SET updated = updated WHERE false",),
    (
        "CREATE TABLE storage_probe (data BLOB)",
        f"INSERT INTO storage_probe VALUES (zeroblob({_PROBE_BYTES}))",
    ),
)
"""Statements that write, of PostgreSQL and of SQLite; nothing of them is kept."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNWRITABLE = (errno.EROFS, errno.EIO)

_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CANTOPEN)

Kind = Literal["disk", "database"]


@dataclass(frozen=True, slots=True)
class StorageProblem:
    """Problem of the storage."""

    kind: Kind
    """Which part."""
    detail: str
    """Problem and remedy for clients: without paths."""
    reason: str = ""
    """Text of the system, for the log."""

    def error(self) -> ServiceError:
        """Return the error of a request that needs the storage."""
        if self.kind == "disk":
            return InsufficientStorage(self.detail, retry_after=30)
        return Unavailable(self.detail, retry_after=5)


_DISK_FULL = (
    "the service's disk is full: nothing new is taken in until its operator has freed space. Runs "
    "under way are kept and go on then"
)
_DISK_UNWRITABLE = (
    "the service cannot write to its data folder: nothing new is taken in until its operator has "
    "mended that. Runs under way are kept and go on then"
)
_AWAY = (
    "the database does not answer: send it again in a moment (with its idempotency key, if it "
    "asks for a run)"
)
_LOST = (
    "the service's database is lost or damaged: nothing new is taken in until its operator has "
    "restored it"
)


def problem_of(error: BaseException) -> StorageProblem | None:
    """Return what an error, or one that caused it, says of the storage; None: nothing."""
    # Whatever caused the error, or was at work when it came.
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and one not in found:
            found.append(one)
            waiting += [getattr(one, "orig", None), one.__cause__, one.__context__]
    # What says most comes first: an error of the disk makes others of the database.
    for kind, detail, meant in _SIGNS:
        for one in found:
            if meant(one):
                return StorageProblem(kind, detail, str(one)[:300])
    return None


def _code_of(one: BaseException) -> int | None:
    """Return the primary result code of an error of SQLite."""
    code = getattr(one, "sqlite_errorcode", None)
    return code & 0xFF if isinstance(one, sqlite3.Error) and isinstance(code, int) else None


def _is_absence(one: BaseException) -> bool:
    """Return whether an error says that the database does not answer."""
    if isinstance(one, DBAPIError) and one.connection_invalidated:
        return True
    # Psycopg may not be installed.
    away = isinstance(one, OperationalError | InterfaceError | PoolTimeout)
    return away or any(
        kind.__name__ in ("OperationalError", "InterfaceError") and kind.__module__ == "psycopg"
        for kind in type(one).__mro__
    )


_SIGNS: tuple[tuple[Kind, str, Callable[[BaseException], bool]], ...] = (
    (
        "disk",
        _DISK_FULL,
        lambda one: getattr(one, "errno", None) in _FULL or _code_of(one) == sqlite3.SQLITE_FULL,
    ),
    ("disk", _DISK_UNWRITABLE, lambda one: getattr(one, "errno", None) in _UNWRITABLE),
    ("database", _LOST, lambda one: _code_of(one) in _DAMAGED),
    ("database", _AWAY, _is_absence),
)
"""Kinds of problems with their detail, and whether an error is about one."""


class Storage:
    """The state of a service's storage. One event loop uses it."""

    def __init__(self, settings: ServiceSettings, engine: AsyncEngine) -> None:
        """``engine``: the database, whose tables are there."""
        self._settings = settings
        self._engine = engine
        self.problem: StorageProblem | None = None
        """Problem now; None: none is known."""
        self._since = -math.inf
        self._silent = False
        self._looked = -math.inf
        self._noted = asyncio.Event()
        self._file = sqlite_file(settings)
        self._identity = _identity(self._file)

        def check_file(*_: Any) -> None:
            """Refuse to connect where the file is gone: SQLite would make an empty one."""
            if self._file is not None and not self._file.exists():
                raise sqlite3.OperationalError(f"the database file {self._file} is gone")

        if self._file is not None:
            event.listen(engine.sync_engine, "do_connect", check_file)

    def check_available(self) -> None:
        """Raise the error of a request that needs the storage, if something is wrong with it."""
        if self.problem is not None:
            raise self.problem.error()

    def note(self, error: BaseException) -> bool:
        """Note what ``error`` says of the storage.

        Whether it says anything: the log has it then, and the caller need not log it again.
        """
        found = problem_of(error)
        if found is not None and self.problem is None:
            self._set(found)
            self._noted.set()
        return found is not None

    def error_of(self, error: BaseException) -> ServiceError | None:
        """Note ``error``, and return what a client is told; None if it is not about the storage."""
        self.note(error)
        found = problem_of(error)
        return None if found is None else found.error()

    async def state(self) -> StorageProblem | None:
        """Return what is wrong, looked up within the last second; for who asks often."""
        if time.monotonic() - self._looked > _RETRY_SECONDS:
            return await self.look()
        return self.problem

    async def look(self) -> StorageProblem | None:
        """Return what is wrong now, looked up."""
        self._looked = time.monotonic()
        found = await asyncio.to_thread(self._disk_problem) or await self._database_problem()
        self._set(found)
        return found

    async def watch(self) -> None:
        """Look now and then, and at once where something was noted; until it is cancelled."""
        while True:
            wait = _LOOK_SECONDS if self.problem is None else _RETRY_SECONDS
            await set_within(self._noted, wait)
            self._noted.clear()
            await self.look()

    def _set(self, found: StorageProblem | None) -> None:
        before, self.problem = self.problem, found
        now = time.monotonic()
        if found is not None and (before is None or before.kind != found.kind):
            # What comes and goes is not told each time.
            self._silent = now - self._since < _SILENT_SECONDS
            if not self._silent:
                self._since = now
                log.error("%s (%s)", found.detail, found.reason)
        elif found is None and before is not None and not self._silent:
            log.warning(
                "the %s can be used again after %.0f seconds", before.kind, now - self._since
            )

    def _disk_problem(self) -> StorageProblem | None:
        folder = self._settings.data
        place = folder / f".storage-probe-{os.getpid()}"
        try:
            if shutil.disk_usage(folder).free < LEAST_FREE:
                left = f"less than {LEAST_FREE // 2**20} MiB are free in {folder}"
                return StorageProblem("disk", _DISK_FULL, left)
            try:
                with open(place, "wb") as file:
                    file.write(b"\0" * _PROBE_BYTES)
                    file.flush()
                    os.fsync(file.fileno())
            finally:
                place.unlink(missing_ok=True)
        except OSError as error:
            known = problem_of(error)
            return known or StorageProblem("disk", _DISK_UNWRITABLE, str(error)[:300])
        return None

    async def _database_problem(self) -> StorageProblem | None:
        if self._file is not None:
            now = await asyncio.to_thread(_identity, self._file)
            if now is None:
                return StorageProblem("database", _LOST, f"{self._file} is gone: restore it")
            if now != self._identity:
                # Another file is there: connections to the old one must not go on with that.
                await self._engine.dispose()
        try:
            engine = self._engine
            if self.problem is None:
                # It waits for no writer.
                engine = engine.execution_options(**READING)
            async with asyncio.timeout(_ANSWER_SECONDS), engine.connect() as connection:
                await connection.execute(text("SELECT 1 FROM runs LIMIT 1"))
                if self.problem is not None:
                    # After an outage it must take what is written, too.
                    for statement in _PROBES[connection.dialect.name == "sqlite"]:
                        await connection.execute(text(statement))
                await connection.rollback()
        except (SQLAlchemyError, OSError) as error:
            return problem_of(error) or StorageProblem("database", _LOST, str(error)[:300])
        if self._file is not None:
            self._identity = now
        return None


def _identity(file: Path | None) -> tuple[int, int] | None:
    if file is None:
        return None
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
