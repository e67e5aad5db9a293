"""Log lines of the service: text for people, or one JSON object a line for machines.

A line carries the fields of :data:`FIELDS` and nothing else that a caller may have put in its
record; texts and tracebacks are scrubbed of what looks like a key or like image data.
"""

from __future__ import annotations

import json
import logging
import re
import secrets
import sys
import traceback
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, TextIO

from scenewright.core.error_text import scrubbed

FIELDS = (
    "request_id", "method", "route", "status", "ms", "tenant", "run", "attempt", "door", "profile",
    "rounds", "images", "usd",
)  # fmt: skip
"""Fields that a line may carry beside its message, in this order."""
REQUEST: ContextVar[str | None] = ContextVar("scenewright_request", default=None)
"""The id of the HTTP request at work."""
_SANE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_LONGEST = 2000
_LONGEST_TRACE = 20_000


def set_up(
    log_format: str = "text", stream: TextIO | None = None, *, debugging: bool = False
) -> logging.Handler:
    """Have everything that is logged go to ``stream`` (standard error) in ``log_format``.

    Libraries and single calls of models tell warnings only; ``debugging`` leaves the level of the
    calls as it is. uvicorn's own line a request is off:
    the service writes its own. Returns the handler; a second call replaces the first one's.
    """
    handler = logging.StreamHandler(stream if stream is not None else sys.stderr)
    handler.setFormatter(JsonLines() if log_format == "json" else TextLines())
    handler.name = __name__
    root = logging.getLogger()
    for known in [known for known in root.handlers if known.name == __name__]:
        root.removeHandler(known)
    root.addHandler(handler)
    root.setLevel(logging.WARNING)
    logging.getLogger("scenewright").setLevel(logging.INFO)
    calls = logging.getLogger("scenewright.providers")
    # The command's own handler would tell them a second time.
    calls.handlers.clear()
    if not debugging:
        calls.setLevel(logging.WARNING)
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        library = logging.getLogger(name)
        library.handlers.clear()
        library.propagate = name != "uvicorn.access"
        library.setLevel(logging.WARNING)
    # It warns of each malformed request: whoever sends them must not fill the log.
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    return handler


def request_id(scope: Mapping[str, Any]) -> str:
    """Return the id of a request.

    Its ``X-Request-ID`` if that is a plain short word, else a new one.
    """
    for name, value in scope.get("headers", ()):
        if name == b"x-request-id":
            text: str = value.decode("latin-1")
            if _SANE.fullmatch(text):
                return text
    return secrets.token_hex(8)


def fields_of(record: logging.LogRecord) -> dict[str, str | int | float]:
    """Return the fields of a record that may be told, in the order of :data:`FIELDS`."""
    found: dict[str, str | int | float] = {}
    for name in FIELDS:
        value = getattr(record, name, None)
        if name == "request_id" and value is None:
            value = REQUEST.get()
        if isinstance(value, str):
            found[name] = scrubbed(value)
        elif isinstance(value, int | float):
            found[name] = value
    return found


class JsonLines(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """``time`` (ISO 8601, UTC), ``level``, ``logger``, ``message``, the fields, ``trace``."""
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": scrubbed(record.getMessage(), _LONGEST),
            **fields_of(record),
        }
        lines = _trace(record)
        if lines:
            line["trace"] = lines
        return json.dumps(line, ensure_ascii=False)


class TextLines(logging.Formatter):
    """A line for people; a traceback follows it."""

    def format(self, record: logging.LogRecord) -> str:
        """Time, level, message, fields as ``name=value``.

        A message of fields alone has a ``sentence`` in its record, which takes its place.
        """
        shown = " ".join(f"{name}={value}" for name, value in fields_of(record).items())
        message = scrubbed(getattr(record, "sentence", None) or record.getMessage(), _LONGEST)
        line = f"{_time(record)} {record.levelname.lower():7} {message}"
        return "\n".join([f"{line}  {shown}".rstrip(), *_trace(record)])


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _trace(record: logging.LogRecord) -> list[str]:
    if not record.exc_info or record.exc_info[0] is None:
        return []
    text = "".join(traceback.format_exception(*record.exc_info))[-_LONGEST_TRACE:]
    return [
        line[: len(line) - len(line.lstrip())] + scrubbed(line, _LONGEST)
        for line in text.splitlines()
        if line.strip()
    ]
