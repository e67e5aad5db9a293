"""Files of runs in a store that servers and workers reach without a disk in common.

Below ``data`` a server has ``runs``, the working copies of the runs that it drives, and ``cache``,
what others see of runs. Both can be lost.

Answers of a run's own file, as lines that are added to the store and never changed there.

A run's working copy: the folder in which it is driven, brought from the store and back.

What is brought back goes in an order in which the store never tells of what it does not hold:
pictures, notes of requests, answers and the manifest, and after them the event log as it was before
they were looked for. Files that differ from what their names tell count as lost, as after a power
cut: the run draws them again.

The files of a service where its settings say that they are kept.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from scenewright.core.sqlite_file import BUSY_SECONDS
from scenewright.graphs.errors import RunError, RunInterrupted
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
from scenewright.service.core.artifacts.base import (
    UPLOADS_FOLDER,
    Artifacts,
    Owned,
    RunLost,
    UploadStore,
    Working,
)
from scenewright.service.core.artifacts.objects import (
    IMAGE,
    NOTE,
    PAID,
    Claim,
    Objects,
    StoreAway,
    claims_among,
    digest_of,
    image_key,
    newest,
    objects_at,
    place_file,
    same_digest,
    whole_lines,
)
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.settings import ServiceSettings

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


T = TypeVar("T")
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
        with RunFolder(self.folder).locked():
            try:
                self._take()
            except (OSError, sqlite3.Error, StoreError) as error:
                raise RunError(
                    f"the run cannot be brought to {self.folder}: {error}. Check that the folder "
                    "is writable and the disk not full, then resume it"
                ) from error

    def _take(self) -> None:
        kept = self.objects.list(f"runs/{self.run}")
        claims = claims_among(kept)
        self.manifest = self.objects.get(f"runs/{self.run}/{MANIFEST}")
        if self.manifest is not None:
            self.log = self._newest_log(claims)
            self._join(self.manifest)
            self._held = self._carry(self._picture, filter(IMAGE.fullmatch, kept))
            self._held |= self._carry(self._note, filter(NOTE.fullmatch, kept))
            parts = self._carry(self._answers, filter(PAID.fullmatch, kept))
            self._paid = take_answers(self.folder / ANSWERS, parts.values())
        highest = max((claim.number for claim in claims), default=0)
        self._claim = Claim(highest + 1, secrets.token_hex(8))
        self.objects.put(self._claim.key(self.run), self.log)
        self._older = [claims[claim] for claim in claims]

    def settle(self) -> None:
        """Forget the logs of servers that had the run before; this one is known to have it now."""
        self.objects.delete(self._older)
        self._older = []

    def push(self) -> bool:
        """Bring back what is new; whether the event log was."""
        log = self._log_here()
        self._bring_manifest()
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
        self._bring_result()
        return new

    @property
    def behind(self) -> bool:
        """Whether the store lacks events of the folder."""
        return self._log_here() != self.log

    def _newest_log(self, claims: Mapping[Claim, str]) -> bytes:
        found = (self.objects.get(claims[claim]) or b"" for claim in newest(claims))
        return whole_lines(max(found, key=len, default=b""))

    def _join(self, stored: bytes) -> None:
        """Make one history of the folder's and the store's.

        The store's, unless the folder's goes on from it. ``stored`` is the store's manifest.
        """
        manifest = self.folder / MANIFEST
        here = manifest.read_bytes() if manifest.is_file() else None
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
        with suppress(FileNotFoundError):
            return whole_lines((self.folder / EVENTS).read_bytes())
        return b""

    def _picture(self, key: str) -> tuple[int, int] | None:
        """Have a picture in the folder; none if what the store has is not what its name tells."""
        digest = key.rpartition("/")[2].removesuffix(".png")
        place = self.folder / IMAGES / f"{digest}.png"
        if not same_digest(place, digest):
            data = self.objects.get(key)
            if data is None or digest_of(data) != digest:
                return None
            place_file(place, data)
        return _state(place)

    def _note(self, key: str) -> tuple[int, int] | None:
        """Have a note in the folder; one that is there may be newer, and is brought back."""
        place = self.folder / IMAGES / _NOTES / key.rpartition("/")[2]
        data = None if place.is_file() else self.objects.get(key)
        if data is None:
            return None
        place_file(place, data)
        return _state(place)

    def _answers(self, key: str) -> bytes | None:
        data = self.objects.get(key)
        whole = data is not None and f"/{digest_of(data)}." in key
        return data if whole else None

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

    def _bring_manifest(self) -> None:
        if self.manifest is None and (self.folder / MANIFEST).is_file():
            data = (self.folder / MANIFEST).read_bytes()
            self.objects.put(f"runs/{self.run}/{MANIFEST}", data)
            self.manifest = data

    def _bring_result(self) -> None:
        path = self.folder / RESULT
        data = path.read_bytes() if path.is_file() else None
        if data is not None and data != self._result:
            self.objects.put(f"runs/{self.run}/{RESULT}", data)
        elif data is None and self._result is not None:
            self.objects.delete([f"runs/{self.run}/{RESULT}"])
        self._result = data


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


log = logging.getLogger(__name__)

CACHE = "cache"
"""Folder below the service's data."""
_AT_ONCE = 8
_RACES = 5
_MOST_KNOWN = 4096


@dataclass(eq=False)
class _Reading:
    """Who looks at one run: a look that began after one came serves that one, too."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waited: int = 0
    """How many look or wait for a look."""
    begun: int = 0
    done: int = 0
    folder: Path | None = None
    version: tuple[str, str] | None = None
    """Key of the log in the cache, and the word for its bytes."""

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        self.waited += 1
        try:
            async with self.lock:
                yield
        finally:
            self.waited -= 1


class StoredArtifacts:
    """The files of runs in a store of objects; one event loop uses it."""

    def __init__(self, objects: Objects, runs: Path) -> None:
        """Keep working copies of runs below ``runs``."""
        self._objects = objects
        self._runs = runs
        self._cache = runs.parent / CACHE
        self._active: dict[str, WorkingCopy] = {}
        self._readings: dict[str, _Reading] = {}
        self._calls = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="artifacts")
        # Of its own: a call that waits for files must not take the threads that bring them.
        self._carriers = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="carrying")

    def close(self) -> None:
        """Let go of the threads; calls at work are finished first."""
        self._calls.shutdown()
        self._carriers.shutdown()

    async def log(self, run: str) -> Path:
        """Return the folder in the cache, as the store is now."""
        reading = self._reading(run)
        came = reading.begun
        async with reading.alone():
            if run in self._active:
                # Whoever drives the run here keeps it up to date.
                return self._cache / run
            if reading.done <= came or reading.folder is None:
                reading.begun += 1
                at = reading.begun
                reading.folder = await self._read(lambda: self._fetched(run, reading))
                reading.done = at
            return reading.folder

    async def image(self, run: str, digest: str) -> Path:
        """Return the file of the working copy, or in the cache; fetched once."""
        return await self._read(lambda: self._picture(run, digest))

    async def whole(self, run: str) -> Path:
        """Return the folder in the cache with all images of the run."""
        folder = await self.log(run)
        await self._read(lambda: self._pictures(run, folder))
        return folder

    @asynccontextmanager
    async def working(self, run: str, owned: Owned) -> AsyncIterator[Working]:
        """Open a working copy, brought up to date with the store and stored back at the end."""
        copy = WorkingCopy(self._objects, run, self._runs / run, self._carriers)
        await self._uncut(copy.take)
        if not await owned():
            raise _lost(run)
        await self._uncut(copy.settle)
        own = _Own(self, copy, owned)
        self._active[run] = copy
        try:
            await own.show()
            yield own
        except RunInterrupted:
            raise
        except BaseException:
            try:
                await own.push(all_of_it=True)
            except (RunInterrupted, OSError) as error:
                log.warning("the end of run %s cannot be brought back: %s", run, error)
            raise
        else:
            await own.push(all_of_it=True)
        finally:
            del self._active[run]

    async def remove(self, run: str) -> None:
        """Take the run out of the store, the working copy and the cache."""

        def gone() -> None:
            self._objects.delete(self._objects.list(f"runs/{run}"))
            shutil.rmtree(self._runs / run, ignore_errors=True)
            shutil.rmtree(self._cache / run, ignore_errors=True)

        await self._read(gone)

    async def _read(self, call: Callable[[], T]) -> T:
        try:
            return await self._uncut(call)
        except StoreAway as error:
            raise Unavailable(f"{error}; come again soon", retry_after=5) from error
        except OSError as error:
            raise Unavailable(
                f"files of the run cannot be kept below {self._cache}: {error.strerror or error}"
            ) from error

    async def _uncut(self, call: Callable[[], T]) -> T:
        """Return the result of ``call`` in a thread, which a cancellation waits for."""
        task = asyncio.get_running_loop().run_in_executor(self._calls, call)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            await asyncio.wait((task,))
            # Whoever cancelled hears of that, not of what became of the call.
            task.cancelled() or task.exception()
            raise

    async def _show(self, run: str, copy: WorkingCopy) -> None:
        """Put what the store has of a run at work where readers of this process look."""
        reading = self._reading(run)

        def place() -> None:
            self._keep_log(run, copy.log)
            if copy.manifest is not None:
                place_file(self._cache / run / MANIFEST, copy.manifest)

        async with reading.alone():
            reading.version = None
            await self._uncut(place)

    def _reading(self, run: str) -> _Reading:
        if run not in self._readings and len(self._readings) >= _MOST_KNOWN:
            idle = next((name for name, one in self._readings.items() if not one.waited), run)
            self._readings.pop(idle, None)
        return self._readings.setdefault(run, _Reading())

    def _fetched(self, run: str, reading: _Reading) -> Path:
        folder = self._cache / run
        for _ in range(_RACES):
            kept = self._objects.list(f"runs/{run}/events")
            claims = claims_among(kept)
            if not claims:
                # Begun before runs were kept in the store: only its own server shows it.
                return self._runs / run if (self._runs / run / EVENTS).is_file() else folder
            keys = sorted(claims[claim] for claim in newest(claims))
            version = (" ".join(keys), " ".join(kept[key] for key in keys))
            if version == reading.version and (folder / EVENTS).is_file():
                return folder
            logs = [self._objects.get(key) for key in keys]
            if None in logs:
                # Another server has just taken the run over.
                continue
            self._keep_log(run, whole_lines(max((log or b"" for log in logs), key=len)))
            if not (folder / MANIFEST).is_file():
                manifest = self._objects.get(f"runs/{run}/{MANIFEST}")
                if manifest is not None:
                    place_file(folder / MANIFEST, manifest)
            reading.version = version
            return folder
        raise StoreAway(f"the event log of run {run} changes hands over and over")

    def _keep_log(self, run: str, data: bytes) -> None:
        place = self._cache / run / EVENTS
        if data:
            place_file(place, data)
        else:
            place.unlink(missing_ok=True)

    def _picture(self, run: str, digest: str) -> Path:
        for base in (self._runs, self._cache):
            place = base / run / IMAGES / f"{digest}.png"
            if place.is_file():
                return place
        data = self._objects.get(image_key(run, digest))
        if data is not None and digest_of(data) == digest:
            place_file(place, data)
        return place

    def _pictures(self, run: str, folder: Path) -> None:
        wanted = [
            (key, match[1])
            for key in self._objects.list(f"runs/{run}/images")
            if (match := IMAGE.fullmatch(key))
        ]

        def have(pair: tuple[str, str]) -> None:
            key, digest = pair
            place = folder / IMAGES / f"{digest}.png"
            if not place.is_file():
                data = self._objects.get(key)
                if data is not None and digest_of(data) == digest:
                    place_file(place, data)

        list(self._carriers.map(have, wanted))


class _Own:
    """A working copy at work."""

    def __init__(self, artifacts: StoredArtifacts, copy: WorkingCopy, owned: Owned) -> None:
        self._artifacts = artifacts
        self._copy = copy
        self._owned = owned

    async def push(self, *, all_of_it: bool = False) -> None:
        """As the port says; ``all_of_it``: what the event log does not tell yet, too."""
        if not all_of_it and not await self._artifacts._uncut(lambda: self._copy.behind):
            return
        if not await self._owned():
            raise _lost(self._copy.run)
        if await self._artifacts._uncut(self._copy.push):
            await self.show()

    async def show(self) -> None:
        """Have readers of this process see what the store has."""
        await self._artifacts._show(self._copy.run, self._copy)


def _lost(run: str) -> RunLost:
    return RunLost(f"run {run} is driven by another server now: it goes on there")


@asynccontextmanager
async def files_of(
    settings: ServiceSettings,
) -> AsyncIterator[tuple[Artifacts | None, UploadStore | None]]:
    """Return the files of runs and the sent pictures in the store.

    None where run folders are shared.

    Raises ``SettingsError`` as ``objects_at`` does.
    """
    if settings.artifacts is None:
        yield None, None
        return
    objects = await asyncio.to_thread(objects_at, settings.artifacts)
    stored = StoredArtifacts(objects, settings.runs)
    try:
        yield stored, UploadStore(settings.data / UPLOADS_FOLDER, objects)
    finally:
        await asyncio.to_thread(stored.close)
