"""Journals with something in them that cannot be read."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def damage(journal: Path, facts: str = "{}") -> None:
    """Put ``facts`` in place of those of the first unit of the file ``journal``."""
    with closing(sqlite3.connect(journal)) as opened:
        opened.execute(
            "UPDATE units SET facts = ? WHERE key = (SELECT min(key) FROM units)", (facts,)
        )
        opened.commit()


def facts_in(journal: Path) -> list[str]:
    """Return the facts of all units of the file ``journal``."""
    with closing(sqlite3.connect(journal)) as opened:
        return [facts for (facts,) in opened.execute("SELECT facts FROM units ORDER BY key")]
