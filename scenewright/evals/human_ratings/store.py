"""SQLite store of ratings: each answer is on disk before the rater's next page is shown.

In a study of objects a place is made when a rater gets to it. An object on a rater's page is
claimed for some minutes, so that several raters do not all get the same one; an answer after its
claim has expired is kept all the same.
"""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import time
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from scenewright.core.sqlite_file import SqliteFile
from scenewright.evals.errors import EvalError
from scenewright.evals.human_ratings.study import (
    Form,
    RatingError,
    RatingStudy,
    Scores,
    StudyFolder,
    Task,
    order_for,
    still_needed,
)

NAME_LENGTH = 80
MOST_RATERS = 1000
CLAIM_SECONDS = 900.0
"""How long an object waits for the rater who has it before them."""
MOST_OPEN = 25
"""Places that a rater can leave unfinished behind (skipped ones), before no new ones come."""
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
CREATE TABLE IF NOT EXISTS claims (
    rater INTEGER NOT NULL, place INTEGER NOT NULL, until REAL NOT NULL,
    PRIMARY KEY (rater, place), FOREIGN KEY (rater, place) REFERENCES places
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS standing (
    task INTEGER PRIMARY KEY, given INTEGER NOT NULL, needed INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS needy ON standing (task) WHERE needed > 0;
CREATE INDEX IF NOT EXISTS places_by_task ON places (task);
CREATE INDEX IF NOT EXISTS open_places ON places (task) WHERE done = 0;
"""
# What needs a rater and was never before this one.
_NEEDY = """
SELECT task, given, needed FROM standing
WHERE needed > 0 AND task NOT IN (SELECT task FROM places WHERE rater=?)
"""
_CLAIMED = """
SELECT p.task, count(*) FROM places p JOIN claims c ON c.rater=p.rater AND c.place=p.place
WHERE p.done=0 AND c.until>? GROUP BY p.task
"""
_OPEN = "SELECT place FROM places WHERE rater=? AND done=0 ORDER BY place<=?, place"


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
    """A task on a page of a rater."""

    number: int
    """Place in the rater's order, from 1."""
    token: str
    """Opaque name of its pictures in addresses."""
    task: Task
    slots: tuple[int, ...]
    """Which candidate stands at each position."""
    repeat: bool
    """Whether it was shown before."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Progress of a rater."""

    done: int
    """Finished places."""
    total: int
    """All places."""
    places: int
    """Places that were made for the rater so far."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A rating in the database."""

    rater: str
    showing: Showing
    fact: str
    """Id of the fact; empty for the whole task."""
    value: str
    seconds: float | None
    """From the showing of the page to the first answer."""
    shown_at: str
    """When the page was shown, ISO 8601 in UTC."""
    rated_at: str
    """When the newest answer came."""
    changes: int
    """How often it was changed."""


class RatingStore(SqliteFile):
    """Ratings of a study; safe for several threads and processes."""

    def __init__(self, folder: StudyFolder, clock: Callable[[], float] = time.time) -> None:
        """Open or make the database of ``folder``; ``clock`` returns seconds since 1970.

        Raises ``StoreFailed`` if that fails, ``RatingError`` if its ratings are of other tasks.
        """
        self.study = folder.study
        self._on_demand = self.study.kind == "objects"
        self._clock = clock
        self._ranks: dict[int, dict[int, int]] = {}
        # With NORMAL a power cut could take back what a rater was told is kept.
        super().__init__(
            folder.database, _SCHEMA, synchronous="FULL", kept="every rating", wrong=StoreFailed
        )
        self._rows("PRAGMA foreign_keys=ON")
        tasks = _digest(self.study)
        self._rows("INSERT OR IGNORE INTO about VALUES ('tasks', ?)", (tasks,))
        known = self._rows("SELECT value FROM about WHERE name='tasks'")[0][0]
        if known != tasks:
            self.close()
            raise RatingError(
                f"{folder.database} holds ratings of other tasks than {folder.folder}: "
                "put back the study.json that they belong to"
            )
        if self._on_demand:
            first = self.study.rule.raters
            with self.changing():
                self._db.executemany(
                    "INSERT OR IGNORE INTO standing VALUES (?, 0, ?)",
                    [(number, first) for number in range(len(self.study.tasks))],
                )

    def rater(self, name: str) -> Rater:
        """Return the rater of that name, and make an order of tasks for a new one.

        Names are compared without case and with single spaces. Raises ``RatingError`` for an
        invalid name, or too many raters.
        """
        given = checked_name(name)
        plain = given.casefold()
        with self.changing():
            row = self._one("SELECT id, name, key FROM raters WHERE plain=?", plain)
            if row is not None:
                return Rater(*row)
            if self._rows("SELECT count(*) FROM raters")[0][0] >= MOST_RATERS:
                raise RatingError(f"there are {MOST_RATERS} raters already: give a name of those")
            key = secrets.token_urlsafe(16)
            order = () if self._on_demand else order_for(self.study, plain)
            at = self._db.execute(
                "INSERT INTO raters (name, plain, key, begun) VALUES (?, ?, ?, ?)",
                (given, plain, key, now()),
            ).lastrowid
            self._db.executemany(
                "INSERT INTO places (rater, place, token, task, slots, repeat) "
                "VALUES (?, ?, ?, ?, ?, ?)",
                [
                    (at, n, secrets.token_urlsafe(16), p.task, json.dumps(p.slots), p.repeat)
                    for n, p in enumerate(order, start=1)
                ],
            )
        assert at is not None
        return Rater(at, given, key)

    def rater_of(self, key: str) -> Rater | None:
        """Return the rater with ``key``, or None."""
        row = self._one("SELECT id, name, key FROM raters WHERE key=?", key)
        return None if row is None else Rater(*row)

    def showing(self, rater: Rater, number: int) -> Showing | None:
        """Return the task at place ``number`` of the rater, or None.

        An object is claimed for the rater; the place after the last one is made if an object needs
        the rater.
        """
        self._hold(rater, number)
        row = self._one(
            "SELECT place, token, task, slots, repeat FROM places WHERE rater=? AND place=?",
            rater.id,
            number,
        )
        return None if row is None else self._showing(row)

    def shown_as(self, token: str) -> Showing | None:
        """Return the showing whose pictures have ``token`` in their addresses, or None."""
        row = self._one("SELECT place, token, task, slots, repeat FROM places WHERE token=?", token)
        return None if row is None else self._showing(row)

    def values(self, rater: Rater, number: int) -> dict[str, str]:
        """Return the rater's answers at that place by fact id (empty for the whole task)."""
        rows = self._rows(
            "SELECT fact, value FROM ratings WHERE rater=? AND place=?",
            (rater.id, number),
        )
        return dict(rows)

    def progress(self, rater: Rater) -> Progress:
        """Return the progress of the rater; the total counts objects that need the rater now."""
        done, places = self._rows(
            "SELECT coalesce(sum(done), 0), count(*) FROM places WHERE rater=?", (rater.id,)
        )[0]
        left = sum(self._wanted(rater, place) for place in self._unfinished(rater))
        return Progress(done, done + left + len(self._available(rater)), places)

    def open_after(self, rater: Rater, number: int = 0) -> int | None:
        """Return the next place for the rater, or None if nothing needs the rater now.

        That is the first unfinished place after ``number``, else a new one, else the first
        unfinished of all.
        """
        own = self._unfinished(rater, number)
        later = [place for place in own if place > number]
        last = self._last(rater)
        for place in [*later, last + 1, *own[len(later) :]]:
            self._hold(rater, place)
            if self._last(rater) > last if place == last + 1 else self._wanted(rater, place):
                return place
        return None

    def keep(
        self,
        rater: Rater,
        number: int,
        part: str,
        value: str,
        *,
        seconds: float | None = None,
        shown_at: str = "",
    ) -> dict[str, str]:
        """Store a rating durably and return all answers of the place, as :meth:`values`.

        A second rating of the same replaces the first and is counted as a change; the same value
        again changes nothing. ``part`` is the id of the question, as in
        :class:`~scenewright.evals.human_ratings.study.Form`.
        """
        with self.changing():
            task = self._rows(
                "SELECT task FROM places WHERE rater=? AND place=?", (rater.id, number)
            )[0][0]
            form = self.study.form(self.study.tasks[task])
            self._db.executemany(
                "INSERT INTO ratings (rater, place, fact, value, seconds, shown_at, rated_at) "
                "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (rater, place, fact) DO UPDATE SET "
                "value=excluded.value, rated_at=excluded.rated_at, changes=changes+1 "
                "WHERE value<>excluded.value",
                [
                    (rater.id, number, about, said, seconds, shown_at, now())
                    for about, said in {part: value, **form.implied(part)}.items()
                ],
            )
            values = self.values(rater, number)
            self._db.execute(
                "UPDATE places SET done=? WHERE rater=? AND place=?",
                (form.is_done(values), rater.id, number),
            )
            if self._on_demand:
                given = self._given(task, form)
                self._db.execute(
                    "UPDATE standing SET given=?, needed=? WHERE task=?",
                    (len(given), still_needed(given, self.study.rule), task),
                )
        return values

    def all(self) -> Iterator[Kept]:
        """Yield all ratings, by rater and in the order of their tasks."""
        rows = self._rows(
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

    def _given(self, number: int, form: Form) -> list[Scores | None]:
        """Return the scores of the raters who finished the task."""
        said: dict[int, dict[str, str]] = {}
        for rater, fact, value in self._rows(
            "SELECT r.rater, r.fact, r.value FROM ratings r "
            "JOIN places p ON p.rater=r.rater AND p.place=r.place WHERE p.task=? AND p.done=1",
            (number,),
        ):
            said.setdefault(rater, {})[fact] = value
        return [form.scores(values) for values in said.values()]

    def _unfinished(self, rater: Rater, number: int = 0) -> list[int]:
        """Return the rater's unfinished places, those after ``number`` first."""
        return [place for (place,) in self._rows(_OPEN, (rater.id, number))]

    def _available(self, rater: Rater) -> list[tuple[int, int]]:
        """Return (task, ratings given or in progress) of objects that need the rater."""
        if not self._on_demand:
            # Without claims the query would go through the open places of all raters.
            return []
        claimed = dict(self._rows(_CLAIMED, (self._clock(),)))
        return [
            (task, given + claimed.get(task, 0))
            for task, given, needed in self._rows(_NEEDY, (rater.id,))
            if needed > claimed.get(task, 0)
        ]

    def _last(self, rater: Rater) -> int:
        found: int = self._rows("SELECT count(*) FROM places WHERE rater=?", (rater.id,))[0][0]
        return found

    def _pick(self, rater: Rater) -> int | None:
        """Return the task with the fewest missing ratings, in the rater's own order."""
        if rater.id not in self._ranks:
            order = list(range(len(self.study.tasks)))
            random.Random(f"{self.study.seed}\n{rater.name.casefold()}").shuffle(order)
            self._ranks[rater.id] = {task: rank for rank, task in enumerate(order)}
        ranks = self._ranks[rater.id]
        best = min(self._available(rater), key=lambda row: (-row[1], ranks[row[0]]), default=None)
        return None if best is None else best[0]

    def _wanted(self, rater: Rater, place: int) -> bool:
        """Return whether an unfinished place still counts: it is begun, or needs this rater."""
        if not self._on_demand:
            return True
        rows = self._rows(
            "SELECT s.needed, (SELECT count(*) FROM ratings r WHERE r.rater=p.rater AND "
            "r.place=p.place), (SELECT count(*) FROM places o JOIN claims c ON c.rater=o.rater "
            "AND c.place=o.place WHERE o.task=p.task AND o.done=0 AND o.rater<>p.rater AND "
            "c.until>?) FROM places p JOIN standing s ON s.task=p.task "
            "WHERE p.rater=? AND p.place=? AND p.done=0",
            (self._clock(), rater.id, place),
        )
        return bool(rows) and (rows[0][1] > 0 or rows[0][0] > rows[0][2])

    def _hold(self, rater: Rater, number: int) -> None:
        """Make the rater's place ``number`` or renew its claim, if it is to be rated.

        A place keeps its object for good, because a page of it may be open. In other studies all
        places are there from the beginning.
        """
        if not self._on_demand:
            return
        rows = self._rows(
            "SELECT p.done, c.until FROM places p LEFT JOIN claims c ON c.rater=p.rater AND "
            "c.place=p.place WHERE p.rater=? AND p.place=?",
            (rater.id, number),
        )
        now = self._clock()
        if not rows and number != self._last(rater) + 1:
            return
        # Renewed when half of it is over: a page that is only looked at again writes nothing.
        if rows and (rows[0][0] or (rows[0][1] or 0.0) > now + CLAIM_SECONDS / 2):
            return
        with self.changing():
            if not rows:
                full = len(self._unfinished(rater)) >= MOST_OPEN
                task = None if full else self._pick(rater)
                if task is None:
                    return
                self._db.execute(
                    "INSERT OR IGNORE INTO places (rater, place, token, task, slots, repeat) "
                    "VALUES (?, ?, ?, ?, '[0]', 0)",
                    (rater.id, number, secrets.token_urlsafe(16), task),
                )
            self._db.execute(
                "INSERT INTO claims VALUES (?, ?, ?) "
                "ON CONFLICT (rater, place) DO UPDATE SET until=excluded.until",
                (rater.id, number, now + CLAIM_SECONDS),
            )

    def _one(self, query: str, *values: object) -> tuple[Any, ...] | None:
        return next(iter(self._rows(query, values)), None)


def checked_name(name: str) -> str:
    """Return a rater's name with single spaces; raises ``RatingError`` for an invalid one."""
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
    """Return a digest that changes whenever a rating could mean another picture or question."""
    # Databases of other kinds were begun before there were objects.
    hidden = None if study.kind == "objects" else {"tasks": {"__all__": {"thing"}}}
    text = study.model_dump_json(include={"kind", "tasks"}, exclude=hidden)
    return hashlib.sha256(text.encode()).hexdigest()


def now() -> str:
    """Return the time, ISO 8601 in UTC with microseconds."""
    return datetime.fromtimestamp(time.time(), UTC).isoformat(timespec="microseconds")
