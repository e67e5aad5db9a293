"""The reference engine: all photos in this process, ``concurrency`` of them at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from scenewright.core.images import load_image
from scenewright.evals.annotation.engines.base import AnnotationSession, Asking
from scenewright.evals.annotation.panel_queries import ReceivedReply, Sheet, ask_about
from scenewright.evals.annotation.verifying import Claimed, Verified, verify
from scenewright.evals.annotation.workers import side_by_side
from scenewright.evals.store.paths import ANSWERS
from scenewright.providers import AnswerStore


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Implements :class:`~scenewright.evals.annotation.engines.base.Engine`."""

    name: str = "local"
    """As the command calls it."""

    @asynccontextmanager
    async def at_work(self, session: AnnotationSession) -> AsyncIterator[Asking]:
        """Ready to ask here."""
        yield _Here(session)


class _Here:
    def __init__(self, session: AnnotationSession) -> None:
        self._sitting = session
        self._models = session.models

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        async def work(sheet: Sheet) -> None:
            load = partial(load_image, Path(sheet.photo.file))
            await ask_about(sheet, self._models.voters, load, heard)

        await side_by_side(sheets, work, self._sitting.config.concurrency)

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        with closing(AnswerStore(self._sitting.folder / ANSWERS)) as store:

            async def work(piece: Claimed) -> None:
                load = partial(load_image, Path(piece.photo.file))
                found(piece, await verify(piece, self._models.judges, store, load))

            await side_by_side(pieces, work, self._sitting.config.concurrency)
