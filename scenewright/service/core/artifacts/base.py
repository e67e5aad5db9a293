"""The port through which the service reaches the files of runs, and the one for a shared disk.

Drivers get a folder to work in, readers a folder or file to look at. With one disk in common both
are the run folder itself.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

from scenewright.graphs.errors import RunInterrupted
from scenewright.runs.folder import IMAGES

Owned = Callable[[], Awaitable[bool]]
"""Whether the run is still this server's."""


class RunLost(RunInterrupted):
    """Another server drives the run now."""


Push = Callable[[], Awaitable[None]]
"""Has all that the event log of a run at work tells be where others find it.

Raises ``RunLost``, or ``RunInterrupted`` where that cannot be done now."""


class Artifacts(Protocol):
    """The files of runs. One event loop uses it.

    Readers get ``Unavailable`` where the files cannot be reached now.
    """

    async def log(self, run: str) -> Path:
        """Return a folder that holds the event log and manifest of a run as others may see them."""
        ...

    async def image(self, run: str, digest: str) -> Path:
        """Return the file of an image of a run.

        It is not there if the run has none of that hash.
        """
        ...

    async def whole(self, run: str) -> Path:
        """As :meth:`log`, with all images."""
        ...

    def working(self, run: str, owned: Owned) -> AbstractAsyncContextManager[Push]:
        """Return the run's own folder, ready to be driven in; what it has is kept at the end.

        Raises as :data:`Push`, and ``RunError`` if the disk refuses.
        """
        ...

    async def remove(self, run: str) -> None:
        """Take all files of a run away."""
        ...


class LocalArtifacts:
    """Run folders on a disk that all servers share: nothing is copied."""

    def __init__(self, folder: Callable[[str], Path]) -> None:
        """``folder`` gives the run folder of an id."""
        self._folder = folder

    async def log(self, run: str) -> Path:
        """Return the run folder."""
        return self._folder(run)

    async def image(self, run: str, digest: str) -> Path:
        """Return the file in the run folder."""
        return self._folder(run) / IMAGES / f"{digest}.png"

    async def whole(self, run: str) -> Path:
        """Return the run folder."""
        return self._folder(run)

    @asynccontextmanager
    async def working(self, run: str, owned: Owned) -> AsyncIterator[Push]:
        """Return the run folder as it stands: others see the folder itself."""

        async def push() -> None:
            return

        yield push

    async def remove(self, run: str) -> None:
        """Remove the run folder."""
        await asyncio.to_thread(shutil.rmtree, self._folder(run), ignore_errors=True)
