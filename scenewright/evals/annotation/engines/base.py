"""The port of an engine of dataset building."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from scenewright.core.ports.judge import Judge
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.panel_queries import ReceivedReply, Sheet
from scenewright.evals.annotation.verifying import Claimed, Verified, fingerprints
from scenewright.evals.annotation.voters import TextModel, Voter

OnProgress = Callable[[str, int, int | None], None]
"""Is told of progress: stage, pieces done, pieces in all (none: not known)."""


@dataclass(frozen=True, slots=True)
class Models:
    """Who is asked of photos."""

    voters: tuple[Voter, ...]
    """The panel, in the order of the configuration."""
    judges: tuple[Judge, ...] = ()
    """Who verifies what the panel names."""

    async def manifest(self) -> dict[str, dict[str, str]]:
        """Name → fingerprint, of the panel and of the judges."""
        panel = await asyncio.to_thread(lambda: {v.name: v.fingerprint for v in self.voters})
        return {"panel": panel, "judges": dict(await fingerprints(self.judges))}


@dataclass(frozen=True, slots=True)
class AnnotationSession:
    """One run of a building: what an engine works with."""

    config: AnnotateConfig
    """What is to be built."""
    folder: Path
    """The set's folder."""
    models: Models
    """Who is asked, as this process built them; no weights are loaded yet."""
    text: TextModel | None
    """Who reads lists; this process asks it, while the engine is at work."""
    told: OnProgress
    """Is told of progress."""


class Asking(Protocol):
    """An engine at work. What it tells, it tells in this process's event loop."""

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        """Have the panel reply to ``sheets``, which are taken as there is room.

        Raises what ``heard`` raises, and ``EvalError`` where the work cannot go on.
        """
        ...

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        """Put ``pieces`` to the judges, likewise. Raises ``ImageError`` and ``StoreError`` too."""
        ...


class Engine(Protocol):
    """Asks models of photos."""

    @property
    def name(self) -> str:
        """As the command calls it."""
        ...

    def at_work(self, session: AnnotationSession) -> AbstractAsyncContextManager[Asking]:
        """Ready to ask in the block; what it takes is opened with the first piece of work."""
        ...
