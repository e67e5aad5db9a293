"""Answers of a run's own file, as lines that are added to the store and never changed there."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from scenewright.providers.store import BUSY_SECONDS, AnswerStore

Paid = tuple[str, str, str]
"""(judge, image, fact) of an answer."""


def new_answers(path: Path, known: Iterable[Paid]) -> tuple[bytes, set[Paid]]:
    """The answers in the file ``path`` that are not ``known``, a JSON array a line; which they are.

    Raises ``sqlite3.Error`` if the file cannot be read.
    """
    if not path.is_file():
        return b"", set()
    with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as db:
        made = db.execute("SELECT count(*) FROM sqlite_master WHERE name = 'answers'").fetchone()
        if not made[0]:
            return b"", set()
        rows = db.execute(
            "SELECT judge, image, fact, answer, origin, at FROM answers ORDER BY 1, 2, 3"
        ).fetchall()
    known = set(known)
    new = [row for row in rows if row[:3] not in known]
    lines = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in new)
    return lines.encode(), {row[:3] for row in new}


def take_answers(path: Path, parts: Iterable[bytes]) -> set[Paid]:
    """Put answers that :func:`new_answers` gave into the file ``path``; all that ``parts`` hold.

    The first answer to a fact stays. Raises ``StoreError`` or ``sqlite3.Error`` if the file cannot
    be written.
    """
    rows = [tuple(json.loads(line)) for part in parts for line in part.splitlines()]
    if rows:
        AnswerStore(path).close()
        with closing(sqlite3.connect(path, timeout=BUSY_SECONDS)) as db, db:
            db.executemany("INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?, ?)", rows)
    return {row[:3] for row in rows}
