"""Results of scenes as they come: a JSONL file that survives a kill and knows what it is of."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

import scenewright

# Parts of the package that decide a score; a change of them makes older rows another benchmark.
ENGINE = ("agents", "config", "core", "graphs", "prompts", "providers", "runs", "tools")


class RowsError(RuntimeError):
    """A file of rows that cannot be used; says what to do."""


class Row(BaseModel):
    """What every row tells of itself."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    fingerprint: str
    """What it was measured with: see :func:`fingerprint_of`."""
    at: int
    """Which scene it is of, from 0."""


R = TypeVar("R", bound=Row)


def code_digest(root: Path | None = None, parts: tuple[str, ...] = ENGINE) -> str:
    """SHA-256 (hex) over the source files of ``parts`` below ``root`` (default: the package)."""
    root = root or Path(scenewright.__file__).parent
    digest = hashlib.sha256()
    for part in parts:
        place = root / part
        files = sorted(place.rglob("*")) if place.is_dir() else [place]
        for file in files:
            if file.suffix in (".py", ".md"):
                digest.update(f"{file.relative_to(root).as_posix()}\0".encode())
                digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def fingerprint_of(parts: Mapping[str, Any]) -> str:
    """Sixteen hex digits that name what ``parts`` (plain JSON data) describe."""
    text = json.dumps(parts, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class Rows(Generic[R]):
    """Rows of one fingerprint in a file that may hold others; one process writes at a time."""

    def __init__(self, path: Path, kind: type[R], fingerprint: str) -> None:
        """Opens or makes ``path``, reads it and cuts off a torn last line.

        Raises ``RowsError`` if another process writes there or a line is no row.
        """
        self.path = path
        self.fingerprint = fingerprint
        self.stale = 0
        """Rows of other fingerprints: kept in the file, not used."""
        self._kind = kind
        self._rows: dict[int, R] = {}
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            self._lock()
            self._read()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def get(self, at: int) -> R | None:
        """The newest row of scene ``at``; None if it was not measured."""
        return self._rows.get(at)

    def add(self, row: R) -> None:
        """Store ``row`` durably. Raises ``ValueError`` if it is not of this fingerprint."""
        if row.fingerprint != self.fingerprint:
            raise ValueError(f"a row of {row.fingerprint} among rows of {self.fingerprint}")
        rest = memoryview(row.model_dump_json().encode() + b"\n")
        while rest:
            rest = rest[os.write(self._file, rest) :]
        os.fsync(self._file)
        self._rows[row.at] = row

    def close(self) -> None:
        """Close the file and free it for others."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RowsError(
                f"another process writes to {self.path}: wait for it, or name another --work folder"
            ) from None

    def _read(self) -> None:
        lines = self.path.read_bytes().splitlines(keepends=True)
        whole = 0
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                break
            try:
                data = json.loads(line)
                if data["fingerprint"] == self.fingerprint:
                    row = self._kind.model_validate(data)
                    self._rows[row.at] = row
                else:
                    self.stale += 1
            except (ValueError, KeyError, TypeError, ValidationError) as error:
                reason = str(error).splitlines()[0]
                raise RowsError(
                    f"{self.path}, line {number}: no row of this benchmark ({reason}). "
                    "Delete the line, or name another --work folder"
                ) from error
            whole += len(line)
        os.ftruncate(self._file, whole)
