"""Ratings in SQLite: each is on disk before the rater's page goes on."""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scenewright.evals.errors import EvalError
from scenewright.evals.human_ratings.order import Place, order_for
from scenewright.evals.human_ratings.study import RatingError, RatingStudy, StudyFolder, Task

NAME_LENGTH = 80
MOST_RATERS = 1000
_BUSY_SECONDS = 30.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS raters (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL, plain TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL UNIQUE, begun TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS places (
    rater INTEGER NOT NULL REFERENCES raters, place INTEGER NOT NULL,
    token TEXT NOT NULL UNIQUE, task INTEGER NOT NULL, slots TEXT NOT NULL,
    repeat INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (rater, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ratings (
    rater INTEGER NOT NULL, place INTEGER NOT NULL, fact TEXT NOT NULL, value TEXT NOT NULL,
    seconds REAL, shown_at TEXT, rated_at TEXT NOT NULL, changes INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (rater, place, fact), FOREIGN KEY (rater, place) REFERENCES places
) WITHOUT ROWID;
"""


class StoreFailed(EvalError):
    """The database cannot be opened, read or written; says what to do."""


@dataclass(frozen=True, slots=True)
class Rater:
    """Somebody who rates."""

    id: int
    """Number in the database."""
    name: str
    """As it was given."""
    key: str
    """Opaque name in addresses."""


@dataclass(frozen=True, slots=True)
class Showing:
    """A task as a rater meets it."""

    number: int
    """Place in the rater's order, from 1."""
    token: str
    """Opaque name of its pictures in addresses."""
    task: Task
    """What is shown."""
    slots: tuple[int, ...]
    """Which candidate stands at each position."""
    repeat: bool
    """Whether it was shown before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rater is."""

    done: int
    """Finished places."""
    total: int
    """All places."""
    places: int
    """Those that the rater has come to know."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A rating as it lies in the database."""

    rater: str
    """Name of the rater."""
    showing: Showing
    """What was shown."""
    fact: str
    """Id of the fact; empty for the whole task."""
    value: str
    """What was said."""
    seconds: float | None
    """From the showing of the page to the first answer."""
    shown_at: str
    """When the page was shown, ISO 8601 in UTC."""
    rated_at: str
    """When the newest answer came."""
    changes: int
    """How often it was changed."""


class RatingStore:
    """The ratings of a study; may be used from several threads and processes."""

    def __init__(self, folder: StudyFolder) -> None:
        """Opens or makes the database of ``folder``.

        Raises ``StoreFailed`` if that fails, ``RatingError`` if its ratings are of other tasks.
        """
        self._folder = folder
        self.study = folder.study
        self._lock = threading.Lock()
        with self._told():
            self._db = sqlite3.connect(
                folder.database,
                timeout=_BUSY_SECONDS,
                isolation_level=None,
                check_same_thread=False,
            )
            self._db.execute("PRAGMA journal_mode=WAL")
            # With NORMAL a power cut could take back what a rater was told is kept.
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._db.executescript(_SCHEMA)
            tasks = _digest(self.study)
            self._db.execute("INSERT OR IGNORE INTO about VALUES ('tasks', ?)", (tasks,))
            known = self._db.execute("SELECT value FROM about WHERE name='tasks'").fetchone()[0]
        if known != tasks:
            self._db.close()
            raise RatingError(
                f"{folder.database} holds ratings of other tasks than {folder.folder}: "
                "put back the study.json that they belong to"
            )

    def close(self) -> None:
        """Let the file go."""
        with self._lock:
            self._db.close()

    def rater(self, name: str) -> Rater:
        """The rater of that name, with an order of tasks from the first time on.

        Names are compared without case and with single spaces. Raises ``RatingError`` for a
        name that cannot be one, or too many raters.
        """
        given = checked_name(name)
        plain = given.casefold()
        with self._writing() as db:
            found = db.execute("SELECT id, name, key FROM raters WHERE plain=?", (plain,))
            row = found.fetchone()
            if row is not None:
                return Rater(*row)
            if db.execute("SELECT count(*) FROM raters").fetchone()[0] >= MOST_RATERS:
                raise RatingError(f"there are {MOST_RATERS} raters already: give a name of those")
            key = secrets.token_urlsafe(16)
            at = db.execute(
                "INSERT INTO raters (name, plain, key, begun) VALUES (?, ?, ?, ?)",
                (given, plain, key, now()),
            ).lastrowid
            db.executemany(
                "INSERT INTO places (rater, place, token, task, slots, repeat) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (at, n, secrets.token_urlsafe(16), p.task, json.dumps(p.slots), p.repeat)
                    for n, p in enumerate(self._order(plain), start=1)
                ],
            )
        assert at is not None
        return Rater(at, given, key)

    def _order(self, plain: str) -> tuple[Place, ...]:
        """The places that the rater of that name begins with."""
        return order_for(self.study, plain)

    def rater_of(self, key: str) -> Rater | None:
        """The rater whom ``key`` names."""
        row = self._one("SELECT id, name, key FROM raters WHERE key=?", key)
        return None if row is None else Rater(*row)

    def showing(self, rater: Rater, number: int) -> Showing | None:
        """The task at place ``number`` of the rater; none if there is no such place."""
        row = self._one(
            "SELECT place, token, task, slots, repeat FROM places WHERE rater=? AND place=?",
            rater.id,
            number,
        )
        return None if row is None else self._showing(row)

    def shown_as(self, token: str) -> Showing | None:
        """The showing whose pictures have ``token`` in their addresses."""
        row = self._one("SELECT place, token, task, slots, repeat FROM places WHERE token=?", token)
        return None if row is None else self._showing(row)

    def values(self, rater: Rater, number: int) -> dict[str, str]:
        """Fact id (empty for the whole task) → what the rater said at that place."""
        rows = self._all(
            "SELECT fact, value FROM ratings WHERE rater=? AND place=?", rater.id, number
        )
        return dict(rows)

    def progress(self, rater: Rater) -> Progress:
        """How far the rater is."""
        row = self._one("SELECT sum(done), count(*) FROM places WHERE rater=?", rater.id)
        assert row is not None
        return Progress(row[0] or 0, row[1], row[1])

    def open_after(self, rater: Rater, number: int = 0) -> int | None:
        """The first unfinished place after ``number``, else the first of all; none: all done."""
        row = self._one(
            "SELECT place FROM places WHERE rater=? AND done=0 ORDER BY place<=?, place LIMIT 1",
            rater.id,
            number,
        )
        return None if row is None else int(row[0])

    def keep(
        self,
        rater: Rater,
        number: int,
        fact: str,
        value: str,
        finished: Callable[[Mapping[str, str]], bool],
        *,
        also: Mapping[str, str] | None = None,
        seconds: float | None = None,
        shown_at: str = "",
    ) -> dict[str, str]:
        """Keep a rating durably; all values of the place, as :meth:`values`.

        A second rating of the same replaces the first and is counted as a change; the same
        value again changes nothing. ``also`` is kept in the same step, as fact id → value.
        ``finished`` tells from the values whether the place is done.
        """
        with self._writing() as db:
            db.executemany(
                "INSERT INTO ratings (rater, place, fact, value, seconds, shown_at, rated_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (rater, place, fact) DO UPDATE SET "
                "value=excluded.value, rated_at=excluded.rated_at, changes=changes+1 "
                "WHERE value<>excluded.value",
                [
                    (rater.id, number, about, said, seconds, shown_at, now())
                    for about, said in {fact: value, **(also or {})}.items()
                ],
            )
            values = dict(
                db.execute(
                    "SELECT fact, value FROM ratings WHERE rater=? AND place=?", (rater.id, number)
                ).fetchall()
            )
            db.execute(
                "UPDATE places SET done=? WHERE rater=? AND place=?",
                (finished(values), rater.id, number),
            )
            self._rated(db, rater, number)
        return values

    def _rated(self, db: sqlite3.Connection, rater: Rater, number: int) -> None:
        """Told within the transaction that the rater's place has another rating."""

    def all(self) -> Iterator[Kept]:
        """All ratings, rater after rater in the order of their tasks."""
        rows = self._all(
            "SELECT p.place, p.token, p.task, p.slots, p.repeat, u.name, r.fact, r.value, "
            "r.seconds, r.shown_at, r.rated_at, r.changes FROM ratings r "
            "JOIN places p ON p.rater=r.rater AND p.place=r.place "
            "JOIN raters u ON u.id=r.rater ORDER BY u.id, p.place, r.fact"
        )
        for row in rows:
            yield Kept(row[5], self._showing(row[:5]), *row[6:])

    def _showing(self, row: tuple[int, str, int, str, int]) -> Showing:
        place, token, task, slots, repeat = row
        return Showing(place, token, self.study.tasks[task], tuple(json.loads(slots)), bool(repeat))

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        with self._told(), self._lock:
            found: tuple[Any, ...] | None = self._db.execute(query, values).fetchone()
            return found

    def _all(self, query: str, *values: object) -> list[Any]:
        with self._told(), self._lock:
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        with self._told(), self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise StoreFailed(
                f"{self._folder.database}: {error}; free some space or make the folder writable, "
                "then rate on: what was kept before stays kept"
            ) from error


def checked_name(name: str) -> str:
    """A rater's name with single spaces; raises ``RatingError`` for one that cannot be kept."""
    given = unicodedata.normalize("NFC", " ".join(name.split()))
    if not given:
        raise RatingError("give a name, so that your ratings are found again")
    # The first sign is a letter or digit, so that no spreadsheet reads a name as a formula.
    if len(given) > NAME_LENGTH or not given.isprintable() or not given[0].isalnum():
        raise RatingError(
            f"a name begins with a letter or digit and has at most {NAME_LENGTH} signs that "
            "can be printed"
        )
    return given


def _digest(study: RatingStudy) -> str:
    """Changes whenever a rating could mean another picture or question."""
    # Databases of other kinds were begun before there were objects.
    hidden = None if study.kind == "objects" else {"tasks": {"__all__": {"thing"}}}
    text = study.model_dump_json(include={"kind", "tasks"}, exclude=hidden)
    return hashlib.sha256(text.encode()).hexdigest()


def now() -> str:
    """The time, ISO 8601 in UTC with milliseconds."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="milliseconds")
