"""Files of runs in a store that servers and workers reach without a disk in common.

Below ``data`` a server has ``runs``, the working copies of the runs that it drives, and ``cache``,
what others see of runs. Both can be lost.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from scenewright.graphs.errors import RunInterrupted
from scenewright.runs.folder import EVENTS, IMAGES, MANIFEST
from scenewright.service.core.artifacts.base import Artifacts, Owned, Push, RunLost
from scenewright.service.core.artifacts.objects import Objects, StoreAway, fetch_image, objects_at
from scenewright.service.core.artifacts.store_layout import (
    IMAGE,
    claims_among,
    newest,
    place_file,
    whole_lines,
)
from scenewright.service.core.artifacts.uploads import UPLOADS_FOLDER, UploadStore
from scenewright.service.core.artifacts.working_copy import WorkingCopy
from scenewright.service.core.errors import Unavailable
from scenewright.service.core.settings import ServiceSettings

T = TypeVar("T")
log = logging.getLogger(__name__)

CACHE = "cache"
"""Folder below the service's data."""
_AT_ONCE = 8
_RACES = 5
_MOST_KNOWN = 4096


@dataclass(eq=False)
class _Reading:
    """Readers of one run: a look that began after a reader came serves that reader, too."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waited: int = 0
    """Number of readers that look or wait for a look."""
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

        def fetch(key: str) -> None:
            if match := IMAGE.fullmatch(key):
                place = folder / IMAGES / f"{match[1]}.png"
                if not place.is_file():
                    fetch_image(self._objects, run, match[1], place)

        def fetch_all() -> None:
            list(self._carriers.map(fetch, self._objects.list(f"runs/{run}/images")))

        await self._read(fetch_all)
        return folder

    @asynccontextmanager
    async def working(self, run: str, owned: Owned) -> AsyncIterator[Push]:
        """Open a working copy, brought up to date with the store and stored back at the end."""
        copy = WorkingCopy(self._objects, run, self._runs / run, self._carriers)

        async def check() -> None:
            if not await owned():
                raise RunLost(f"run {run} is driven by another server now: it goes on there")

        async def push_all() -> None:
            # Also what the event log does not tell yet.
            await check()
            if await self._uncut(copy.push):
                await self._show(copy)

        async def push() -> None:
            if await self._uncut(lambda: copy.behind):
                await push_all()

        await self._uncut(copy.take)
        await check()
        await self._uncut(copy.settle)
        self._active[run] = copy
        try:
            await self._show(copy)
            yield push
        except RunInterrupted:
            raise
        except BaseException:
            try:
                await push_all()
            except (RunInterrupted, OSError) as error:
                log.warning("the end of run %s cannot be brought back: %s", run, error)
            raise
        else:
            await push_all()
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

    async def _show(self, copy: WorkingCopy) -> None:
        """Put what the store has of a run at work where readers of this process look."""
        reading = self._reading(copy.run)

        def place() -> None:
            self._keep_log(copy.run, copy.log)
            if copy.manifest is not None:
                place_file(self._cache / copy.run / MANIFEST, copy.manifest)

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
        """Return the place of an image, fetched if it is in none; it may not be there."""
        for base in (self._runs, self._cache):
            place = base / run / IMAGES / f"{digest}.png"
            if place.is_file():
                return place
        fetch_image(self._objects, run, digest, place)
        return place


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
