"""What an evaluation has done so far: an SQLite file that a kill at any moment leaves whole.

A *unit* is one finished piece of work: a drawing, the judging of a picture by a panel, a score.
Its key tells all that decides it, so that a run that starts again, or one of a larger
configuration in the same folder, finds what is there and does nothing twice.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from scenewright.evals.errors import EvalError
from scenewright.evals.store.schema import Table
from scenewright.evals.store.sqlite_file import SqliteFile

Features = NDArray[np.float32]
UnitState = Literal["done", "unscored", "failed"]
"""``unscored``: done, but something in it is unscored; ``failed``: nothing came of it."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS units (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    rows BLOB NOT NULL,
    facts TEXT NOT NULL,
    at REAL NOT NULL
);
CREATE TABLE IF NOT EXISTS planned (
    plan TEXT NOT NULL,
    position INTEGER NOT NULL,
    step INTEGER NOT NULL,
    key TEXT NOT NULL,
    PRIMARY KEY (plan, position, step)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vectors (
    extractor TEXT NOT NULL,
    image TEXT NOT NULL,
    vector BLOB NOT NULL,
    PRIMARY KEY (extractor, image)
) WITHOUT ROWID;
"""
_INSERT = "INSERT OR REPLACE INTO units VALUES (?, ?, ?, ?, ?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Unit:
    """A finished piece of work."""

    key: str
    """SHA-256 of all that decides it."""
    kind: str
    """``item``, ``draw``, ``judge`` or ``score``."""
    state: UnitState = "done"
    """How it ended."""
    reason: str = ""
    """Why it failed, or why something is unscored."""
    rows: Mapping[Table, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    """Rows of the tables of results."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What later steps need of it, as JSON data."""
    at: float = field(default=0.0, compare=False)
    """Unix time when it was kept; 0 where it was not yet."""


class Units(Protocol):
    """Where finished work is looked up and kept; :class:`Journal` is one."""

    def get(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        ...

    def put(self, units: Iterable[Unit]) -> None:
        """Keep ``units``, in place of earlier ones of the same keys."""
        ...


class Journal(SqliteFile):
    """The units of an evaluation; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file. Raises ``EvalError`` if that fails."""
        # What a power cut takes back is work whose pictures and answers are stored elsewhere.
        super().__init__(path, _SCHEMA, synchronous="NORMAL", kept="what is done")

    def get(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        with self._told():
            row = self._db.execute(
                "SELECT key, kind, state, reason, rows, facts, at FROM units WHERE key = ?", (key,)
            ).fetchone()
        return None if row is None else _unit(row)

    def put(self, units: Iterable[Unit]) -> None:
        """Keep ``units`` in one transaction, in place of earlier ones of the same keys."""
        now = time.time()
        rows = [
            (u.key, u.kind, u.state, u.reason, _packed(u.rows), _text(u.facts), now) for u in units
        ]
        with self._told(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, rows)

    def plan(self, plan: str, position: int, keys: Sequence[str]) -> None:
        """Note that the units ``keys`` belong to ``plan``, at the item of that ``position``."""
        rows = [(plan, position, step, key) for step, key in enumerate(keys)]
        with self._told(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute(
                "DELETE FROM planned WHERE plan = ? AND position = ?", (plan, position)
            )
            self._db.executemany("INSERT INTO planned VALUES (?, ?, ?, ?)", rows)

    def units(self, plan: str, kind: str | None = None) -> Iterator[Unit]:
        """The units of ``plan`` in the order of its items, one in memory at a time; a unit that
        stands at several places comes once a place."""
        with self._told():
            found = self._db.execute(
                "SELECT u.key, u.kind, u.state, u.reason, u.rows, u.facts, u.at FROM planned p "
                "JOIN units u ON u.key = p.key WHERE p.plan = ? AND (? IS NULL OR u.kind = ?) "
                "ORDER BY p.position, p.step",
                (plan, kind, kind),
            )
            while some := found.fetchmany(64):
                yield from map(_unit, some)

    def notes(self, plan: str, kind: str) -> Iterator[tuple[str, dict[str, Any], float]]:
        """Yield key, facts and time of the units of ``plan`` and ``kind`` in the order of its
        items, without reading their rows."""
        with self._told():
            found = self._db.execute(
                "SELECT u.key, u.facts, u.at FROM planned p JOIN units u ON u.key = p.key "
                "WHERE p.plan = ? AND u.kind = ? ORDER BY p.position, p.step",
                (plan, kind),
            )
            while some := found.fetchmany(1024):
                for key, facts, at in some:
                    yield key, json.loads(facts), at

    def tally(self, plan: str) -> dict[tuple[str, UnitState], int]:
        """(kind, state) → units of ``plan``."""
        with self._told():
            rows = self._db.execute(
                "SELECT u.kind, u.state, count(*) FROM planned p JOIN units u ON u.key = p.key "
                "WHERE p.plan = ? GROUP BY 1, 2",
                (plan,),
            ).fetchall()
        return {(kind, state): count for kind, state, count in rows}

    def whole_items(self, plan: str) -> int:
        """How many items of ``plan`` have nothing that failed or is unscored."""
        with self._told():
            (count,) = self._db.execute(
                "SELECT count(*) FROM (SELECT 1 FROM planned p JOIN units u ON u.key = p.key "
                "WHERE p.plan = ? GROUP BY p.position HAVING max(u.state != 'done') = 0)",
                (plan,),
            ).fetchone()
        return int(count)

    def problems(self, plan: str) -> list[tuple[str, str, int]]:
        """(kind, reason, how often), the 20 commonest first, of units that are not whole."""
        with self._told():
            rows: list[tuple[str, str, int]] = self._db.execute(
                "SELECT u.kind, u.reason, count(*) AS n FROM planned p JOIN units u "
                "ON u.key = p.key WHERE p.plan = ? AND u.state != 'done' GROUP BY 1, 2 "
                "ORDER BY n DESC, 1, 2 LIMIT 20",
                (plan,),
            ).fetchall()
        return rows

    def vectors_missing(self, extractor: str, images: Sequence[str]) -> list[str]:
        """Those of ``images`` whose vector by ``extractor`` is not kept."""
        with self._told():
            return [
                image
                for image in images
                if self._db.execute(
                    "SELECT 1 FROM vectors WHERE extractor = ? AND image = ?", (extractor, image)
                ).fetchone()
                is None
            ]

    def put_vectors(self, extractor: str, images: Sequence[str], vectors: Features) -> None:
        """Keep one row of ``vectors`` an image."""
        data = np.ascontiguousarray(vectors, np.float32)
        rows = [(extractor, image, row.tobytes()) for image, row in zip(images, data, strict=True)]
        with self._told(), self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?, ?)", rows)

    def vectors(self, extractor: str, images: Sequence[str]) -> Features:
        """The kept vectors of ``images``, (n, dimensions). Raises ``EvalError`` if one is lost."""
        found: list[Features] = []
        with self._told():
            for image in images:
                row = self._db.execute(
                    "SELECT vector FROM vectors WHERE extractor = ? AND image = ?",
                    (extractor, image),
                ).fetchone()
                if row is None:
                    raise EvalError(f"the vector of {image} is lost: run the evaluation again")
                found.append(np.frombuffer(row[0], np.float32))
        return np.stack(found)


def _text(value: Mapping[Any, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _packed(rows: Mapping[Any, Any]) -> bytes:
    # Rows of answers repeat their words: packed they take about a tenth.
    return zlib.compress(_text(rows).encode(), 1)


def _unit(row: tuple[Any, ...]) -> Unit:
    key, kind, state, reason, rows, facts, at = row
    read = json.loads(zlib.decompress(rows))
    return Unit(key, kind, state, reason, read, json.loads(facts), at)
