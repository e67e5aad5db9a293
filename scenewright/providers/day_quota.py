"""Requests of an account per day, counted over all processes of this machine.

A day ends at midnight in the provider's time zone. Counts are in a small SQLite file of the user's
cache, one row per account and day, written before a request is sent: requests of a killed process
are counted. Where the file cannot be used, counting continues in memory, the log says so once, and
the counts are written when the file is usable again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime, timedelta
from datetime import time as datetime_time
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo

from scenewright.config.settings import user_cache
from scenewright.core.sqlite_file import open_sqlite
from scenewright.providers.connection_worker import result_or_undo
from scenewright.providers.retry import AccountPaused

BUSY_SECONDS = 5.0
"""Seconds that a write waits for another process."""
RETRY_SECONDS = 60.0
"""Seconds after which a file that could not be used is tried again."""
_KEPT_DAYS = 7
# A wait is cut into pieces: the machine may sleep meanwhile, and its clock may be set.
_LONGEST_NAP = 60.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS sent (
    account TEXT NOT NULL,
    day TEXT NOT NULL,
    requests INTEGER NOT NULL,
    PRIMARY KEY (account, day)
) WITHOUT ROWID
"""
_ADD = (
    "INSERT INTO sent VALUES (?, ?, max(0, ?)) ON CONFLICT (account, day) "
    "DO UPDATE SET requests = max(0, requests + ?)"
)
_LOG = logging.getLogger("scenewright.providers")
_UNUSABLE = (
    "%s cannot be used (%s): the requests of the day are counted in memory and other processes do "
    "not see them. Check that the folder is writable and the disk not full; a damaged file may be "
    "deleted"
)

Day = tuple[str, str]
"""An account, and a date of its provider as YYYY-MM-DD."""


class RequestCounter:
    """Requests sent by account and day, in one file; safe for threads and processes."""

    def __init__(self, path: Path | None) -> None:
        """Without a ``path`` requests are counted in memory.

        The file is opened at the first request.
        """
        self.path = path
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        self._read: dict[Day, int] = {}
        self._owed: dict[Day, int] = {}
        self._rests_until = 0.0
        self._told = False

    def take(self, day: Day, most: int) -> bool:
        """Count one more request unless ``most`` are counted; return whether it was counted."""
        return self._change(day, lambda sent: int(sent < most)) < most

    def give_back(self, day: Day) -> None:
        """Uncount a request that was not sent."""
        self._change(day, lambda sent: -1 if sent else 0)

    def sent(self, day: Day) -> int:
        """Return the number of counted requests."""
        return self._change(day, lambda sent: 0)

    def _change(self, day: Day, more: Callable[[int], int]) -> int:
        """Add ``more(count)`` to the count of ``day``; return the count before."""
        with self._lock:
            if self.path is not None and time.monotonic() >= self._rests_until:
                try:
                    return self._change_file(self.path, day, more)
                except (sqlite3.Error, OSError) as error:
                    self._rests_until = time.monotonic() + RETRY_SECONDS
                    if self._db is not None:
                        with contextlib.suppress(sqlite3.Error):
                            self._db.close()
                        self._db = None
                    told, self._told = self._told, True
                    _LOG.log(
                        logging.DEBUG if told else logging.WARNING, _UNUSABLE, self.path, error
                    )
            before = self._read.get(day, 0) + self._owed.get(day, 0)
            self._owed[day] = self._owed.get(day, 0) + more(before)
            return before

    def _change_file(self, path: Path, day: Day, more: Callable[[int], int]) -> int:
        if (db := self._db) is None:
            # A power cut may take the last counts back; no request waits for the disk.
            path.parent.mkdir(parents=True, exist_ok=True)
            self._db = db = open_sqlite(path, _SCHEMA, timeout=BUSY_SECONDS)
            oldest = datetime.now(UTC).date() - timedelta(days=_KEPT_DAYS)
            db.execute("DELETE FROM sent WHERE day < ?", (oldest.isoformat(),))
        db.execute("BEGIN IMMEDIATE")
        for owed, count in self._owed.items():
            db.execute(_ADD, (*owed, count, count))
        row = db.execute("SELECT requests FROM sent WHERE account = ? AND day = ?", day).fetchone()
        before = 0 if row is None else int(row[0])
        if count := more(before):
            db.execute(_ADD, (*day, count, count))
        db.execute("COMMIT")
        self._owed.clear()
        self._read[day] = before + count
        return before


@cache
def sent_requests(path: Path) -> RequestCounter:
    """Return this process's counter of a file."""
    return RequestCounter(path)


def sent_file() -> Path | None:
    """Return the file in which this user's requests are counted; None without a home folder."""
    try:
        return user_cache("requests") / "sent.sqlite"
    except RuntimeError:
        return None


class DayQuota:
    """Requests that an account may send in a day."""

    def __init__(self, per_day: int, zone: str = "UTC", counted_as: str = "") -> None:
        """``zone``: the IANA time zone whose midnight ends a day.

        ``counted_as``: the account's name in :func:`sent_file`; empty: this object counts alone.
        """
        path = sent_file() if counted_as else None
        self._per_day = per_day
        self._zone = ZoneInfo(zone)
        self._account = counted_as
        self._store = RequestCounter(None) if path is None else sent_requests(path)
        # The file is written in the order of the requests; the thread begins with the first one.
        self._thread = None if path is None else ThreadPoolExecutor(1, "day-quota")

    async def take(self, max_wait: float) -> Day:
        """Count one request and return its day, after a wait where today's are used up.

        Raises ``AccountPaused`` where that takes longer than ``max_wait`` seconds. Cancelled, it
        leaves nothing counted.
        """
        while True:
            now, day = self._today()
            if self._thread is None:
                taken = self._store.take(day, self._per_day)
            else:
                asked = self._thread.submit(self._store.take, day, self._per_day)

                def forget(taken: bool, day: Day = day) -> None:
                    if taken:
                        self._store.give_back(day)

                taken = await result_or_undo(asked, forget)
            if taken:
                return day
            tomorrow = date.fromisoformat(day[1]) + timedelta(days=1)
            midnight = datetime.combine(tomorrow, datetime_time(), self._zone)
            left = max(0.0, midnight.timestamp() - now)
            if left > max_wait:
                minutes = left / 60
                hours = f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
                raise AccountPaused(
                    left,
                    f"requests_per_day of the account ({self._per_day:,}) is used up: it goes on "
                    f"at {midnight.astimezone(UTC):%Y-%m-%d %H:%M} UTC, in "
                    f"{f'{left:.0f} s' if left < 90 else hours}",
                )
            await asyncio.sleep(min(left, _LONGEST_NAP))

    def give_back(self, day: Day) -> None:
        """Uncount a request of ``day`` that was not sent."""
        if self._thread is None:
            self._store.give_back(day)
        else:
            self._thread.submit(self._store.give_back, day)

    def left(self) -> int:
        """Return how many requests may still be sent today. Reads a file."""
        return max(0, self._per_day - self._store.sent(self._today()[1]))

    def _today(self) -> tuple[float, Day]:
        now = time.time()
        today = datetime.fromtimestamp(now, self._zone).date()
        return now, (self._account, today.isoformat())
