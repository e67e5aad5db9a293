"""A run's working copy: the folder in which it is driven, brought from the store and back.

Files are brought back in an order in which the store never tells of what it does not hold:
pictures, notes of requests, answers and the manifest, and after them the event log as it was before
they were looked for. Files that differ from their hash names count as lost, as after a power
cut: the run draws them again. Answers of the run's own file go as lines that are added to the store
and never changed there.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from scenewright.core.sqlite_file import BUSY_SECONDS
from scenewright.graphs.errors import RunError
from scenewright.providers.answer_store import AnswerStore, StoreError
from scenewright.runs.folder import (
    ANSWERS,
    CHECKPOINTS,
    EVENTS,
    IMAGES,
    MANIFEST,
    RESULT,
    RunFolder,
)
from scenewright.service.core.artifacts.objects import Objects, fetch_image
from scenewright.service.core.artifacts.store_layout import (
    IMAGE,
    NOTE,
    PAID,
    Claim,
    claims_among,
    digest_of,
    image_key,
    newest,
    place_file,
    same_digest,
    whole_lines,
)

T = TypeVar("T")
Paid = tuple[str, str, str]
"""(judge, image, fact) of an answer."""


def new_answers(path: Path, known: Iterable[Paid]) -> tuple[bytes, set[Paid]]:
    """Return the answers in the file ``path`` that are not ``known``, a JSON array a line.

    Which they are.

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


_NOTES = "requests"


class WorkingCopy:
    """The folder of one run that this process drives. One thread at a time uses it."""

    def __init__(self, objects: Objects, run: str, folder: Path, pool: Executor) -> None:
        """``pool`` carries several files at once."""
        self.objects = objects
        self.run = run
        self.folder = folder
        self._pool = pool
        self._claim = Claim(0, "")
        self._held: dict[str, tuple[int, int]] = {}
        self._older: list[str] = []
        self._paid: set[Paid] = set()
        self.manifest: bytes | None = None
        """The manifest, once the store has it."""
        self._result: bytes | None = None
        self.log = b""
        """The event log as the store has it."""

    def take(self) -> None:
        """Bring the folder to where the store stands, and begin a log of its own there.

        A folder that is ahead of the store stays: this machine has not brought all of it back.
        Raises ``RunError`` if the disk refuses, ``RunBusy`` if another process drives the run.
        """
        try:
            with RunFolder(self.folder).locked():
                kept = self.objects.list(f"runs/{self.run}")
                claims = claims_among(kept)
                self.manifest = self.objects.get(f"runs/{self.run}/{MANIFEST}")
                if self.manifest is not None:
                    logs = (self.objects.get(claims[claim]) or b"" for claim in newest(claims))
                    self.log = whole_lines(max(logs, key=len, default=b""))
                    self._join(self.manifest)
                    self._held = self._carry(self._picture, filter(IMAGE.fullmatch, kept))
                    self._held |= self._carry(self._note, filter(NOTE.fullmatch, kept))
                    parts = self._carry(self.objects.get, filter(PAID.fullmatch, kept))
                    whole = (part for key, part in parts.items() if f"/{digest_of(part)}." in key)
                    self._paid = take_answers(self.folder / ANSWERS, whole)
                highest = max((claim.number for claim in claims), default=0)
                self._claim = Claim(highest + 1, secrets.token_hex(8))
                self.objects.put(self._claim.key(self.run), self.log)
                self._older = list(claims.values())
        except (OSError, sqlite3.Error, StoreError) as error:
            raise RunError(
                f"the run cannot be brought to {self.folder}: {error}. Check that the folder "
                "is writable and the disk not full, then resume it"
            ) from error

    def settle(self) -> None:
        """Forget the logs of servers that had the run before; this one is known to have it now."""
        self.objects.delete(self._older)
        self._older = []

    def push(self) -> bool:
        """Bring back what is new; whether the event log was."""
        log = self._log_here()
        if self.manifest is None and (data := _bytes_of(self.folder / MANIFEST)) is not None:
            self.objects.put(f"runs/{self.run}/{MANIFEST}", data)
            self.manifest = data
        folder = self.folder / IMAGES
        pictures = {image_key(self.run, path.stem): path for path in folder.glob("[!.]*.png")}
        self._carry_back(pictures)
        notes = (folder / _NOTES).glob("[!.]*.json")
        self._carry_back({f"runs/{self.run}/{_NOTES}/{path.name}": path for path in notes})
        lines, paid = new_answers(self.folder / ANSWERS, self._paid)
        if lines:
            self.objects.put(f"runs/{self.run}/answers/{digest_of(lines)}.jsonl", lines)
            self._paid |= paid
        new = log != self.log
        if new:
            self.objects.put(self._claim.key(self.run), log)
            self.log = log
        key, result = f"runs/{self.run}/{RESULT}", _bytes_of(self.folder / RESULT)
        if result is not None and result != self._result:
            self.objects.put(key, result)
        elif result is None and self._result is not None:
            self.objects.delete([key])
        self._result = result
        return new

    @property
    def behind(self) -> bool:
        """Whether the store lacks events of the folder."""
        return self._log_here() != self.log

    def _join(self, stored: bytes) -> None:
        """Make one history of the folder's and the store's.

        The store's, unless the folder's goes on from it. ``stored`` is the store's manifest.
        """
        manifest = self.folder / MANIFEST
        here = _bytes_of(manifest)
        same = here is None or _nonce(here) == _nonce(stored)
        log = self._log_here()
        if not same or not (log.startswith(self.log) or self.log.startswith(log)):
            # The log goes first: without it nothing refers to the rest.
            for name in (EVENTS, CHECKPOINTS, f"{CHECKPOINTS}-wal", f"{CHECKPOINTS}-shm", RESULT):
                (self.folder / name).unlink(missing_ok=True)
            log = b""
        if here != stored:
            place_file(manifest, stored)
        if len(log) < len(self.log):
            place_file(self.folder / EVENTS, self.log)
            (self.folder / RESULT).unlink(missing_ok=True)

    def _log_here(self) -> bytes:
        return whole_lines(_bytes_of(self.folder / EVENTS) or b"")

    def _picture(self, key: str) -> tuple[int, int] | None:
        """Have a picture in the folder; none if what the store has is not what its name tells."""
        digest = key.rpartition("/")[2].removesuffix(".png")
        place = self.folder / IMAGES / f"{digest}.png"
        there = same_digest(place, digest) or fetch_image(self.objects, self.run, digest, place)
        return _state(place) if there else None

    def _note(self, key: str) -> tuple[int, int] | None:
        """Have a note in the folder; one that is there may be newer, and is brought back."""
        place = self.folder / IMAGES / _NOTES / key.rpartition("/")[2]
        data = None if place.is_file() else self.objects.get(key)
        if data is None:
            return None
        place_file(place, data)
        return _state(place)

    def _carry(self, fetch: Callable[[str], T | None], keys: Iterable[str]) -> dict[str, T]:
        keys = list(keys)
        found = zip(keys, self._pool.map(fetch, keys), strict=True)
        return {key: value for key, value in found if value is not None}

    def _carry_back(self, files: Mapping[str, Path]) -> None:
        states = {key: _state(path) for key, path in files.items()}
        new = [key for key, state in states.items() if self._held.get(key) != state]

        def bring(key: str) -> bool:
            data = files[key].read_bytes()
            # A power cut may have spoiled a picture; it will be drawn again.
            if IMAGE.fullmatch(key) and digest_of(data) != files[key].stem:
                return False
            self.objects.put(key, data)
            return True

        brought = self._pool.map(bring, new)
        self._held |= {key: states[key] for key, done in zip(new, brought, strict=True) if done}


def _bytes_of(place: Path) -> bytes | None:
    """Return the bytes of a file; None if it is not there."""
    try:
        return place.read_bytes()
    except FileNotFoundError:
        return None


def _state(place: Path) -> tuple[int, int]:
    """Return a value that changes when the file is written anew."""
    stat = place.stat()
    return stat.st_mtime_ns, stat.st_size


def _nonce(manifest: bytes) -> object:
    try:
        found = json.loads(manifest)
    except ValueError:
        return None
    return found.get("nonce") if isinstance(found, dict) else None
