"""Knowledge about models: tables, announced ends, and what servers were found to understand.

Whether a model returns log-probabilities and how its tools are forced is found out by requests that
are refused or not filled in: each costs time, and some cost tokens. Findings are kept in a small
SQLite file of the user's cache, by address, key, model and reasoning effort. They are dropped after
:data:`EXPIRES_SECONDS`, when another version of the model answers, and when they turn out wrong.
Without a usable file nothing is remembered.
"""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import time
from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from scenewright.config.accounts import DECISION_KIND, AccountSpec
from scenewright.config.settings import user_cache
from scenewright.core.sqlite_file import open_sqlite
from scenewright.core.validation import FrozenModel
from scenewright.providers.model_facts import best_key, model_facts, undated

WARNING_DAYS = 60
"""Days before its end from which a model is warned of."""


class ModelEnd(FrozenModel):
    """The end of one model, as announced."""

    ends: date
    """First day without the model."""
    successor: str = ""
    """The model that its provider names instead, as ``provider:model``."""
    then: str = ""
    """Result of calls afterwards, unless they fail."""
    source: str = ""
    """Place of the announcement."""


@dataclass(frozen=True, slots=True)
class Ending:
    """A model in use that ends soon or has ended."""

    spec: str
    """As the profile names it, ``account:model``."""
    end: ModelEnd
    """When, and what comes after."""
    days: int
    """Days left; 0 or less after the end."""

    @property
    def text(self) -> str:
        """Sentence with the end and the model to name instead."""
        when = f"ended on {self.end.ends}" if self.days <= 0 else (
            f"ends on {self.end.ends}, in {self.days} day{'s' if self.days != 1 else ''}"
        )  # fmt: skip
        then = f", then {self.end.then}" if self.end.then else ""
        instead = f": name another, such as {self.end.successor}" if self.end.successor else ""
        return f"{self.spec} {when}{then}{instead}"


def end_of(provider: str, model: str) -> ModelEnd | None:
    """Return the announced end of a provider's own model; None if the table knows none."""
    rows, name = model_facts().rows("end"), f"{provider}:{model}"
    key = best_key(rows, name) or best_key(rows, undated(name))
    return None if key is None else ModelEnd.model_validate(rows[key])


def endings(
    specs: Iterable[str],
    accounts: Mapping[str, AccountSpec],
    *,
    today: date | None = None,
    told: Mapping[str, ModelEnd] | None = None,
) -> list[Ending]:
    """Return the models of ``specs`` (``account:model``) that end within :data:`WARNING_DAYS`.

    Soonest first. ``accounts``: by name, the built-in ones included. An account with an address of
    its own may serve anything under a name, and is left out. ``told``: ends listed by the providers
    themselves, by spec (:func:`scenewright.agents.judges.models.listed_ends`), which override the
    table.
    """
    today = today or date.today()
    found = []
    for spec in dict.fromkeys(specs):
        name, _, model = spec.partition(":")
        if name == DECISION_KIND:
            name, _, model = model.partition("/")
        account = accounts.get(name)
        end = (told or {}).get(spec)
        if end is None and account is not None and account.base_url is None:
            end = end_of(account.provider, model)
        if end is not None and (days := (end.ends - today).days) <= WARNING_DAYS:
            found.append(Ending(spec, end, days))
    return sorted(found, key=lambda ending: ending.days)


EXPIRES_SECONDS = 7 * 86_400.0
"""Seconds after which findings expire."""
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
    """Return the file of findings; None without a home folder."""
    try:
        return user_cache("requests") / "servers.sqlite"
    except RuntimeError:
        return None


class KnownServer:
    """Findings about one model at one address with one key and reasoning effort."""

    def __init__(self, place: str, key: str, model: str, effort: str = "") -> None:
        """``place``: host, port and path.

        Limits depend on the ``key``, of which only a digest is kept. Nothing is read yet.
        """
        digest = hashlib.sha256(key.encode()).hexdigest()[:16]
        self._server = " ".join((place, digest, model, effort)).rstrip()
        self._path = found_file()
        self._version = ""

    def recall(self, name: str) -> str | None:
        """Return the finding ``name``; None if there is none or it is too old."""
        rows = self._execute(
            "SELECT value, version FROM found WHERE server = ? AND name = ? AND at > ?",
            *(self._server, name, time.time() - EXPIRES_SECONDS),
        )
        if not rows:
            return None
        value, version = rows[0]
        self._version = version or self._version
        return str(value)

    def keep(self, name: str, value: str) -> None:
        """Store the finding ``value`` under ``name``."""
        row = (self._server, name, value, self._version, time.time())
        self._execute("INSERT OR REPLACE INTO found VALUES (?, ?, ?, ?, ?)", *row)

    def forget(self, name: str) -> None:
        """Delete the wrong finding ``name``."""
        self._execute("DELETE FROM found WHERE server = ? AND name = ?", self._server, name)

    def served(self, version: str) -> bool:
        """Note the version that a reply names.

        Returns whether earlier findings were of another version, and are dropped.
        """
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
        """Run a statement in its own transaction; returns no rows if the file is unusable."""
        if self._path is None:
            return []
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with closing(open_sqlite(self._path, _SCHEMA, timeout=_BUSY_SECONDS, wal=False)) as db:
                return db.execute(statement, values).fetchall()
        except (sqlite3.Error, OSError) as error:
            _LOG.debug("%s cannot be used: %s", self._path, error)
            return []
