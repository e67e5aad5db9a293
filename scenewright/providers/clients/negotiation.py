"""Form of the requests that a server takes, learnt from its refusals.

Servers with OpenAI's protocol differ in how a tool is forced and in the parameters that they take,
and providers change both. A request that was refused for one of them is sent again in another form;
what was learnt holds for the process's further requests, is kept for other processes, and is
logged once.

- A forced tool: by its name, by the word ``required`` beside that tool alone, or by a JSON schema
  in place of the tool. Where the way is not declared, a request that was not filled in, or got no
  reply in time, is sent again in the next one.
- A reasoning effort: the cheapest of those that the refusal lists.
- Log-probabilities: no longer requested after a refusal, or after several replies without any.
- Other parameters: left out, or named as the server names them.

Whether a model returns log-probabilities and how its tools are forced is found out by requests that
are refused or not filled in: each costs time, and some cost tokens. Findings are kept in a small
SQLite file of the user's cache, by address, key, model and reasoning effort. They are dropped after
:data:`EXPIRES_SECONDS`, when another version of the model answers, and when they turn out wrong.
Without a usable file nothing is remembered.
"""

from __future__ import annotations

import hashlib
import logging
import re
import sqlite3
import time
from collections.abc import Collection
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from pydantic import TypeAdapter, ValidationError

from scenewright.config.settings import user_cache
from scenewright.core.sqlite_file import open_sqlite
from scenewright.providers.clients.base import ClientSettings, Effort, Terms, Way

WAYS: tuple[Way, ...] = get_args(Way)
SILENT_REPLIES = 3
"""Replies in a row without log-probabilities after which none are requested: a gateway in front of
several servers may have one that returns none.
"""
EFFORTS: tuple[Effort, ...] = tuple(one for one in get_args(Effort) if one)
"""Reasoning efforts, the cheapest first."""
_TERMS = TypeAdapter(Terms)
_STATUSES = (400, 404, 405, 422, 501)
_ABOUT_TOOLS = re.compile(r"tool|function", re.IGNORECASE)
_ABOUT_FORMS = re.compile(r"response_format|schema|text\.format", re.IGNORECASE)
_ABOUT_LOGPROBS = re.compile(r"log[_ -]?prob", re.IGNORECASE)
_ABOUT_RESPONSES = re.compile(r"\bv1/responses\b")
_ABOUT_EFFORT = re.compile(r"reasoning[_. ]effort", re.IGNORECASE)
_LISTED = re.compile(r"supported values (?:are|include):?\s*(.+)", re.IGNORECASE | re.DOTALL)
_WORD = re.compile(r"[a-z]+")
_LOG = logging.getLogger("scenewright.providers")


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


class Negotiation:
    """Terms of requests to one model at one address."""

    def __init__(self, settings: ClientSettings, model: str, server: KnownServer) -> None:
        """Start from what ``settings`` declare and ``server`` remembers; ``model`` is for logs."""
        self._settings, self._model, self._server = settings, model, server
        self._declared_way = settings.tool_choice != "probe"
        self._confirmed = False
        self._silent = 0
        kept = None if self._declared_way else server.recall("tool_choice")
        self._recalled = kept in WAYS
        # A way that was remembered may bind no longer: then the others are tried.
        self._order = tuple(sorted(WAYS, key=lambda way: way != kept))
        declared = settings.tool_choice
        way = self._order[0] if declared == "probe" else declared
        logprobs = settings.logprobs and server.recall("logprobs") != "none"
        responses = settings.api == "responses"
        self._terms = Terms(way, responses, settings.reasoning_effort, logprobs)
        self._kept: Terms | None = None
        self._refused_efforts: set[Effort] = set()
        # Damaged terms are left aside.
        with suppress(ValidationError):
            kept_terms = _TERMS.validate_json(server.recall("terms") or "", strict=True)
            self._change(
                responses=responses or kept_terms.responses,
                effort=kept_terms.effort,
                logprobs=logprobs and kept_terms.logprobs,
                left_out=kept_terms.left_out,
            )

    def terms(self) -> Terms:
        """Return the form of the next request."""
        return self._terms

    @property
    def way(self) -> Way:
        """The way in which a tool is forced."""
        return self._terms.way

    def _change(self, **fields: Any) -> None:
        self._terms = replace(self._terms, **fields)

    def refused(
        self,
        sent: Terms,
        names: Collection[str],
        status: int,
        message: str,
        param: str = "",
        *,
        forced: bool = False,
    ) -> str:
        """Return how the next request differs after an HTTP error; empty if it does not.

        ``names``: parameters of the request that may be left out; ``param``: the one that the
        server names, if it does; ``forced``: whether a tool had to be called.
        """
        if status not in _STATUSES:
            return ""
        text = f"{param} {message}"
        if sent.logprobs and _ABOUT_LOGPROBS.search(text):
            self._without_logprobs("refuses")
            return "without log-probabilities"
        if _ABOUT_RESPONSES.search(message) and not sent.responses:
            self._change(responses=True)
            return self._learnt("is asked through the Responses API", "through the Responses API")
        if sent.effort and _ABOUT_EFFORT.search(text):
            if sent.effort == self._terms.effort:
                # Else it was sent before another refusal changed it.
                self._take_effort(message)
            taken = f'the reasoning effort "{self._terms.effort or "its own"}"'
            return self._learnt(f"takes {taken}", f"with {taken}")
        named = _named(names, param, message)
        if named:
            effort = "" if named == "reasoning_effort" else self._terms.effort
            self._change(effort=effort, left_out=self._terms.left_out | {named})
            return self._learnt(f"does not take {named}", f"without {named}")
        about = _ABOUT_FORMS if sent.way == "schema" else _ABOUT_TOOLS
        if forced and about.search(text) and self.reject(sent.way):
            return "with the tool forced in another way"
        return ""

    def confirm(self, way: Way) -> None:
        """Keep ``way``, in which a request was filled in."""
        if self._declared_way or self._confirmed:
            return
        self._confirmed = True
        self._change(way=way)
        if self._recalled:
            return
        self._server.keep("tool_choice", way)
        if way != "named":
            _LOG.warning(
                "%s lets no tool be forced by its name; the way that binds is found: declare "
                'tool_choice = "%s" for it in its account to spare the tries',
                *(self._model, way),
            )

    def reject(self, way: Way) -> bool:
        """Return whether another way is left after a request in ``way`` was not filled in."""
        if self._declared_way or self._confirmed:
            return False
        if self._recalled:
            self._recalled = False
            self._server.forget("tool_choice")
        if way != self.way:
            # Sent before the change: another way is tried by now.
            return True
        at = self._order.index(way) + 1
        # After the last way the next call starts over: the model may have been at fault.
        self._change(way=self._order[at % len(self._order)])
        return at < len(self._order)

    def record_reply(self, sent: Terms, *, logprobs: bool) -> None:
        """Note whether a complete reply had log-probabilities."""
        if sent.logprobs:
            self._silent = 0 if logprobs else self._silent + 1
            if self._silent >= SILENT_REPLIES:
                self._without_logprobs("returns no")

    def served(self, version: str) -> None:
        """Note the version that a reply names; another version is negotiated with anew."""
        if not self._server.served(version):
            return
        self._silent = 0
        self._change(logprobs=self._settings.logprobs)
        if not self._declared_way:
            self._confirmed = self._recalled = False
            self._order = WAYS
            self._change(way=WAYS[0])
            self._server.forget("tool_choice")

    def _without_logprobs(self, what: str) -> None:
        if self._terms.logprobs:
            self._change(logprobs=False)
            self._server.keep("logprobs", "none")
            _LOG.warning(
                "%s %s log-probabilities: its judge states its probabilities instead; declare "
                "logprobs = false for it in its account to ask for none",
                *(self._model, what),
            )

    def _take_effort(self, message: str) -> None:
        """Take the cheapest effort that ``message`` lists, or send none."""
        listed = _LISTED.search(message)
        words = set(_WORD.findall(listed[1].lower())) if listed else set()
        self._refused_efforts.add(self._terms.effort)
        allowed = [one for one in EFFORTS if one in words and one not in self._refused_efforts]
        effort = allowed[0] if allowed else ""
        self._change(effort=effort)
        if effort != "none":
            # A model that thinks takes none of these, and its thoughts count as output.
            unwanted = {"temperature", "top_p", "top_k", "max_tokens"}
            self._change(logprobs=False, left_out=self._terms.left_out | unwanted)

    def _learnt(self, what: str, how: str) -> str:
        # The way in which a tool is forced has a finding of its own.
        learnt = replace(self._terms, way="named")
        if learnt != self._kept:
            self._kept = learnt
            self._server.keep("terms", _TERMS.dump_json(learnt).decode())
            _LOG.warning(
                "%s %s: learnt from its refusal, and sent so from now on", self._model, what
            )
        return how


def _named(names: Collection[str], param: str, message: str) -> str:
    """Return the one of ``names`` that a refusal is about; the longest first."""
    if param:
        inner = param.rpartition(".")[2]
        for name in (param, inner):
            if name in names:
                return name
    for name in sorted(names, key=len, reverse=True):
        if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", message):
            return name
    return ""
