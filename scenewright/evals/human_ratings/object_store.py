"""Ratings of objects: who comes is given what still needs a rater.

A place is made when a rater gets to it, not before. An object that a rater has before them is
claimed for some minutes, so that several at once do not all take the same one; an answer that comes
after its claim has run out is kept all the same.
"""

from __future__ import annotations

import random
import secrets
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping

from scenewright.evals.human_ratings.object_rule import Scores, scores_of, still_needed
from scenewright.evals.human_ratings.order import Place
from scenewright.evals.human_ratings.store import Progress, Rater, RatingStore, Showing
from scenewright.evals.human_ratings.study import StudyFolder

CLAIM_SECONDS = 900.0
"""How long an object waits for the rater who has it before them."""
MOST_OPEN = 25
"""Places that a rater can leave unfinished behind (skipped ones), before no new ones come."""
_SCHEMA = """
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


class ObjectStore(RatingStore):
    """The ratings of a study of objects; may be used from several threads and processes."""

    def __init__(self, folder: StudyFolder, clock: Callable[[], float] = time.time) -> None:
        """Opens or makes the database of ``folder``; ``clock`` gives seconds since 1970.

        Raises as :class:`~scenewright.evals.human_ratings.store.RatingStore`.
        """
        super().__init__(folder)
        self._clock = clock
        self._ranks: dict[int, dict[int, int]] = {}
        first = self.study.rule.raters
        with self._told():
            self._db.executescript(_SCHEMA)
        with self._writing() as db:
            db.executemany(
                "INSERT OR IGNORE INTO standing VALUES (?, 0, ?)",
                [(number, first) for number in range(len(self.study.tasks))],
            )

    def showing(self, rater: Rater, number: int) -> Showing | None:
        """The task at place ``number``, claimed for the rater; the place after the last one is
        made if something needs the rater. None if there is no such place."""
        self._hold(rater, number)
        return super().showing(rater, number)

    def open_after(self, rater: Rater, number: int = 0) -> int | None:
        """The first unfinished place after ``number``, else a new one, else the first unfinished
        of all; none: nobody needs the rater now."""
        own = [row[0] for row in self._all(_OPEN, rater.id, number)]
        later = [place for place in own if place > number]
        last = self._last(rater)
        for place in [*later, last + 1, *own[len(later) :]]:
            self._hold(rater, place)
            if place == last + 1:
                if self._last(rater) > last:
                    return int(place)
            elif self._wanted(rater, place):
                return int(place)
        return None

    def progress(self, rater: Rater) -> Progress:
        """How far the rater is; the total counts what needs the rater now, and so may change."""
        done, places = self._all(
            "SELECT coalesce(sum(done), 0), count(*) FROM places WHERE rater=?", rater.id
        )[0]
        unfinished = [row[0] for row in self._all(_OPEN, rater.id, 0)]
        left = sum(self._wanted(rater, place) for place in unfinished)
        claimed = dict(self._all(_CLAIMED, self._clock()))
        new = _available(self._all(_NEEDY, rater.id), claimed)
        return Progress(done, done + left + len(new), places)

    def _order(self, plain: str) -> tuple[Place, ...]:
        return ()

    def _rated(self, db: sqlite3.Connection, rater: Rater, number: int) -> None:
        task = db.execute(
            "SELECT task FROM places WHERE rater=? AND place=?", (rater.id, number)
        ).fetchone()[0]
        given = self._given(db, task)
        db.execute(
            "UPDATE standing SET given=?, needed=? WHERE task=?",
            (len(given), still_needed(given, self.study.rule), task),
        )

    def _given(self, db: sqlite3.Connection, number: int) -> list[Scores | None]:
        """What the raters who have finished the task say."""
        task = self.study.tasks[number]
        said: dict[int, dict[str, str]] = {}
        for rater, fact, value in db.execute(
            "SELECT r.rater, r.fact, r.value FROM ratings r "
            "JOIN places p ON p.rater=r.rater AND p.place=r.place WHERE p.task=? AND p.done=1",
            (number,),
        ):
            said.setdefault(rater, {})[fact] = value
        kind = self.study.kind_of(task)
        return [scores_of(kind, task, values) for values in said.values()]

    def _last(self, rater: Rater) -> int:
        found: int = self._all("SELECT count(*) FROM places WHERE rater=?", rater.id)[0][0]
        return found

    def _pick(self, db: sqlite3.Connection, rater: Rater) -> int | None:
        """The task that is nearest to being finished, in the rater's own order."""
        if rater.id not in self._ranks:
            order = list(range(len(self.study.tasks)))
            random.Random(f"{self.study.seed}\n{rater.name.casefold()}").shuffle(order)
            self._ranks[rater.id] = {task: rank for rank, task in enumerate(order)}
        ranks = self._ranks[rater.id]
        needy = db.execute(_NEEDY, (rater.id,)).fetchall()
        found = _available(needy, dict(db.execute(_CLAIMED, (self._clock(),)).fetchall()))
        best = min(found, key=lambda row: (-row[1], ranks[row[0]]), default=None)
        return None if best is None else best[0]

    def _wanted(self, rater: Rater, place: int) -> bool:
        """Whether an unfinished place still counts: it is begun, or needs a rater but this one."""
        rows = self._all(
            "SELECT s.needed, (SELECT count(*) FROM ratings r WHERE r.rater=p.rater AND "
            "r.place=p.place), (SELECT count(*) FROM places o JOIN claims c ON c.rater=o.rater "
            "AND c.place=o.place WHERE o.task=p.task AND o.done=0 AND o.rater<>p.rater AND "
            "c.until>?) FROM places p JOIN standing s ON s.task=p.task "
            "WHERE p.rater=? AND p.place=? AND p.done=0",
            self._clock(),
            rater.id,
            place,
        )
        return bool(rows) and (rows[0][1] > 0 or rows[0][0] > rows[0][2])

    def _hold(self, rater: Rater, number: int) -> None:
        """Make the rater's place ``number`` or renew its claim, if it is to be rated.

        A place keeps its object for good: a page of it may be open somewhere.
        """
        rows = self._all(
            "SELECT p.done, c.until FROM places p LEFT JOIN claims c ON c.rater=p.rater AND "
            "c.place=p.place WHERE p.rater=? AND p.place=?",
            rater.id,
            number,
        )
        now = self._clock()
        if not rows and number != self._last(rater) + 1:
            return
        # Renewed when half of it is over: a page that is only looked at again writes nothing.
        if rows and (rows[0][0] or (rows[0][1] or 0.0) > now + CLAIM_SECONDS / 2):
            return
        with self._writing() as db:
            if not rows:
                unfinished = db.execute(_OPEN, (rater.id, 0)).fetchall()
                task = None if len(unfinished) >= MOST_OPEN else self._pick(db, rater)
                if task is None:
                    return
                db.execute(
                    "INSERT OR IGNORE INTO places (rater, place, token, task, slots, repeat) "
                    "VALUES (?, ?, ?, ?, '[0]', 0)",
                    (rater.id, number, secrets.token_urlsafe(16), task),
                )
            db.execute(
                "INSERT INTO claims VALUES (?, ?, ?) "
                "ON CONFLICT (rater, place) DO UPDATE SET until=excluded.until",
                (rater.id, number, now + CLAIM_SECONDS),
            )


def _available(
    needy: Iterable[tuple[int, int, int]], claimed: Mapping[int, int]
) -> list[tuple[int, int]]:
    """(task, ratings given or under way) of what more raters are needed for than are at it."""
    return [
        (task, given + claimed.get(task, 0))
        for task, given, needed in needy
        if needed > claimed.get(task, 0)
    ]
