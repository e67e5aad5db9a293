"""What servers were found to understand, remembered for other processes and days.

Whether a model tells log-probabilities and how its tools are forced is found out by requests that
are refused or not filled in: each costs time, and some cost tokens. What was found is kept in a
small SQLite file of the user's cache, by address, key, model and reasoning effort, and is forgotten
after :data:`EXPIRES_SECONDS`, when another version of the model answers, and when it turns out to
be wrong. A file that cannot be used remembers nothing and stops nobody.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any

from scenewright.config.user_cache import user_cache

EXPIRES_SECONDS = 7 * 86_400.0
"""Seconds after which something is found out anew."""
_BUSY_SECONDS = 1.0
_SCHEMA = """
CREATE TABLE IF NOT EXISTS found (
    server TEXT NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    version TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (server, name)
) WITHOUT ROWID
"""
_LOG = logging.getLogger("scenewright.providers")


def found_file() -> Path | None:
    """Return the file of what was found; None without a home folder."""
    try:
        return user_cache("requests") / "servers.sqlite"
    except RuntimeError:
        return None


class KnownServer:
    """What is known of one model at one address, asked with one key and reasoning effort."""

    def __init__(self, place: str, key: str, model: str, effort: str = "") -> None:
        """``place``: host, port and path. What providers allow depends on the ``key``, of which a
        digest is kept. Nothing is read yet."""
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._server = " ".join((place, digest, model, effort)).rstrip()
        self._path = found_file()
        self._version = ""

    def recall(self, name: str) -> str | None:
        """Return what was found under ``name``; None where nothing was, or too long ago."""
        rows = self._execute(
            "SELECT value, version FROM found WHERE server = ? AND name = ? AND at > ?",
            *(self._server, name, time.time() - EXPIRES_SECONDS),
        )
        for value, version in rows:
            self._version = version or self._version
            return str(value)
        return None

    def keep(self, name: str, value: str) -> None:
        """Remember that ``value`` was found under ``name``."""
        row = (self._server, name, value, self._version, time.time())
        self._execute("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?, ?)", *row)

    def forget(self, name: str) -> None:
        """Forget what was found under ``name``: it was wrong."""
        self._execute("DELETE FROM found WHERE server = ? AND name = ?", self._server, name)

    def served(self, version: str) -> bool:
        """Note the version that a reply names; return whether what was found is of another one, and
        is forgotten."""
        before = self._version
        if version in ("", before):
            return False
        self._version = version
        if before:
            self._execute("DELETE FROM found WHERE server = ?", self._server)
            return True
        # Found by requests before the first reply.
        update = "UPDATE found SET version = ? WHERE server = ? AND version = ''"
        self._execute(update, version, self._server)
        return False

    def _execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement in a transaction of its own; without rows where that cannot be."""
        if self._path is None:
            return []
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(sqlite3.connect(self._path, timeout=_BUSY_SECONDS)) as db, db:
                db.execute(_SCHEMA)
                return db.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            _LOG.debug("%s cannot be used: %s", self._path, error)
            return []
