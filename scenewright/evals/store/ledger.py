"""Ledger of dataset building: an SQLite file of replies and graphs that survives a kill.

Replies are kept under the hash of all that decides them (photo, boxes, model, prompt, number of the
sample), before they are used. Graphs are computed anew from the replies each time, which costs
nothing.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal

from scenewright.core.sqlite_file import SqliteFile
from scenewright.evals.errors import AnnotationError

_BLOCK = 256
_SCHEMA = """
CREATE TABLE IF NOT EXISTS photos (
    position INTEGER PRIMARY KEY,
    id TEXT NOT NULL,
    file TEXT NOT NULL,
    stamp TEXT NOT NULL,
    digest TEXT NOT NULL,
    key TEXT NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    boxes TEXT NOT NULL,
    state TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS photo_files ON photos (file);
CREATE TABLE IF NOT EXISTS replies (
    key TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    voter TEXT NOT NULL,
    state TEXT NOT NULL,
    reason TEXT NOT NULL,
    data TEXT NOT NULL,
    tokens_in INTEGER NOT NULL,
    tokens_out INTEGER NOT NULL,
    usd REAL NOT NULL,
    seconds REAL NOT NULL,
    at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS graphs (
    position INTEGER PRIMARY KEY,
    claims TEXT NOT NULL,
    kept TEXT NOT NULL,
    relations INTEGER NOT NULL DEFAULT 0,
    level TEXT NOT NULL DEFAULT '',
    place REAL NOT NULL,
    grp TEXT NOT NULL DEFAULT '',
    category TEXT NOT NULL DEFAULT '',
    unclassified TEXT NOT NULL DEFAULT '',
    part TEXT NOT NULL DEFAULT ''
);
CREATE INDEX IF NOT EXISTS graph_places ON graphs (place, position);
"""


@dataclass(frozen=True, slots=True)
class Reply:
    """A model's reply, or the reason why there is none."""

    key: str
    """SHA-256 of all that decides it."""
    kind: str
    """``photo``, ``judges``, ``synonyms``, ``classes`` or ``attributes``."""
    voter: str
    """Name of the model."""
    state: Literal["done", "failed"] = "done"
    """``failed``: there is no reply, for :attr:`reason`."""
    reason: str = ""
    data: Any = None
    """Its content, as JSON data."""
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    seconds: float = 0.0
    """Seconds in calls."""


@dataclass(frozen=True, slots=True)
class Photo:
    """A photo of the set."""

    position: int
    """Position in the set, from 0."""
    id: str
    file: str
    key: str
    """SHA-256 of its file and its boxes."""
    size: tuple[int, int]
    """(width, height) in pixels."""
    objects: tuple[tuple[str, str, tuple[float, float, float, float]], ...]
    """(id, class label, box) of each detection."""
    digest: str = ""
    """SHA-256 of its file."""
    stamp: str = ""
    """Length and time of change of its file."""
    state: str = "kept"
    """``kept``, or the reason why it is left out."""


@dataclass(slots=True)
class GraphRow:
    """Graph of a photo, with all claims."""

    photo: Photo
    claims: list[dict[str, Any]]
    """All named relations, with their votes."""
    kept: list[int] = field(default_factory=list)
    """Numbers of the claims that are in the graph."""
    level: str = ""
    """``simple``, ``medium`` or ``hard``."""
    group: str = ""
    """First level of its class."""
    category: str = ""
    """Second level."""
    unclassified: str = ""
    """Reason without a class."""
    part: str = ""
    """``train``, ``val``, ``test``; empty: left out."""


class Ledger(SqliteFile):
    """The replies and graphs of one set; one process writes at a time."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. Raises ``AnnotationError`` if that fails."""
        # A reply was paid for: not even a power cut may take it back.
        super().__init__(
            path, _SCHEMA, synchronous="FULL", kept="what was paid for", wrong=AnnotationError
        )

    def put(self, reply: Reply) -> None:
        """Keep ``reply``, in place of an earlier one of its key."""
        values = astuple(reply)
        data = json.dumps(reply.data, ensure_ascii=False)
        self._put("replies", [(*values[:5], data, *values[6:], time.time())])

    def get(self, key: str) -> Reply | None:
        """Return the reply of ``key``, failed ones included."""
        rows = self._rows(
            "SELECT key, kind, voter, state, reason, data, tokens_in, tokens_out, usd, seconds "
            "FROM replies WHERE key = ?",
            (key,),
        )
        if not rows:
            return None
        key, kind, voter, state, reason, data, *spent = rows[0]
        return Reply(key, kind, voter, state, reason, json.loads(data), *spent)

    def spent(self) -> dict[tuple[str, str], dict[str, float]]:
        """Return (kind, voter) → ``calls``, ``failed``, ``tokens_in``, ``tokens_out``, ``usd``."""
        rows = self._rows(
            "SELECT kind, voter, count(*), sum(state = 'failed'), sum(tokens_in), sum(tokens_out), "
            "sum(usd) FROM replies GROUP BY 1, 2 ORDER BY 1, 2"
        )
        names = ("calls", "failed", "tokens_in", "tokens_out", "usd")
        return {(r[0], r[1]): dict(zip(names, r[2:], strict=True)) for r in rows}

    def problems(self) -> list[tuple[str, str, str, int]]:
        """Return (kind, voter, reason, count) of failures, the 20 most frequent first."""
        rows: list[Any] = self._rows(
            "SELECT kind, voter, reason, count(*) AS n FROM replies WHERE state = 'failed' "
            "GROUP BY 1, 2, 3 ORDER BY n DESC, 1, 2, 3 LIMIT 20"
        )
        return rows

    def digest_of(self, file: str, stamp: str) -> tuple[str, int, int] | None:
        """Return digest, width and height of a file that has not changed since it was read."""
        rows: list[Any] = self._rows(
            "SELECT digest, width, height FROM photos WHERE file = ? AND stamp = ? "
            "AND digest != '' LIMIT 1",
            (file, stamp),
        )
        return rows[0] if rows else None

    def set_photos(self, photos: Iterable[Photo]) -> None:
        """Replace the photos of the set.

        They are kept block by block: what was hashed before a kill is not hashed again.
        """
        source = iter(photos)
        last = -1
        while block := list(itertools.islice(source, _BLOCK)):
            last = block[-1].position
            self._put("photos", [_photo_row(photo) for photo in block])
        with self.changing():
            self._db.execute("DELETE FROM photos WHERE position > ?", (last,))

    def photos(self) -> Iterator[Photo]:
        """Yield the photos that are kept, in order, a few in memory at a time."""
        after = -1
        while True:
            rows = self._rows(
                "SELECT position, id, file, key, width, height, boxes, digest FROM photos "
                "WHERE state = 'kept' AND position > ? ORDER BY position LIMIT 256",
                (after,),
            )
            for row in rows:
                yield _photo(row)
            if not rows:
                return
            after = rows[-1][0]

    def photo_states(self) -> dict[str, int]:
        """Return state → photos."""
        return dict(self._rows("SELECT state, count(*) FROM photos GROUP BY 1"))

    def clear_graphs(self) -> None:
        """Delete the graphs, to compute them anew."""
        with self.changing():
            self._db.execute("DELETE FROM graphs")

    def add_graphs(
        self, rows: Iterable[tuple[int, list[dict[str, Any]], list[int], float]]
    ) -> None:
        """Add (position of the photo, claims, kept, place among the parts) of some photos."""
        with self.changing():
            self._db.executemany(
                "INSERT INTO graphs (position, claims, kept, relations, place) "
                "VALUES (?, ?, ?, ?, ?)",
                [
                    (at, json.dumps(claims, ensure_ascii=False), json.dumps(kept), len(kept), place)
                    for at, claims, kept, place in rows
                ],
            )

    def update_graphs(self, column: str, values: Mapping[int, tuple[Any, ...]]) -> None:
        """Set columns of graphs by position.

        ``kept`` (numbers, how many, level), ``class`` (group, category, reason without a class) or
        ``part``.
        """
        query = {
            "kept": "UPDATE graphs SET kept = ?, relations = ?, level = ? WHERE position = ?",
            "class": "UPDATE graphs SET grp = ?, category = ?, unclassified = ? WHERE position = ?",
            "part": "UPDATE graphs SET part = ? WHERE position = ?",
        }[column]
        with self.changing():
            self._db.executemany(query, [(*given, at) for at, given in values.items()])

    def graphs(self, parts_only: bool = False) -> Iterator[GraphRow]:
        """Yield the graphs in the order of the photos, a few in memory at a time."""
        after = -1
        where = "AND g.part != ''" if parts_only else ""
        while True:
            rows = self._rows(
                "SELECT p.position, p.id, p.file, p.key, p.width, p.height, p.boxes, p.digest, "
                "g.claims, g.kept, g.level, g.grp, g.category, g.unclassified, g.part "
                "FROM graphs g JOIN photos p ON p.position = g.position "
                f"WHERE g.position > ? {where} ORDER BY g.position LIMIT 64",
                (after,),
            )
            for row in rows:
                yield GraphRow(_photo(row[:8]), json.loads(row[8]), json.loads(row[9]), *row[10:15])
            if not rows:
                return
            after = rows[-1][0]

    def places(self, least_relations: int, level: str | None = None) -> Iterator[tuple[int, float]]:
        """Yield (position, place) of the graphs with enough relations (of one level), by place."""
        place, position = -1.0, -1
        while rows := self._rows(
            "SELECT position, place FROM graphs WHERE relations >= ? AND (? IS NULL OR level = ?) "
            "AND (place, position) > (?, ?) ORDER BY place, position LIMIT 1024",
            (least_relations, level, level, place, position),
        ):
            yield from ((row[0], row[1]) for row in rows)
            position, place = rows[-1]


def _photo_row(photo: Photo) -> tuple[Any, ...]:
    objects = json.dumps(photo.objects, ensure_ascii=False)
    about = (photo.position, photo.id, photo.file, photo.stamp, photo.digest, photo.key)
    return (*about, *photo.size, objects, photo.state)


def _photo(row: tuple[Any, ...]) -> Photo:
    position, id_, file, key, width, height, boxes, digest = row
    objects = tuple(
        (o[0], o[1], (float(o[2][0]), float(o[2][1]), float(o[2][2]), float(o[2][3])))
        for o in json.loads(boxes)
    )
    return Photo(position, id_, file, key, (width, height), objects, digest)
