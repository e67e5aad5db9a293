"""The Ray engine: workers ask models of photos, this process keeps the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from scenewright.config.settings import Settings, SettingsError, load_settings, split_judge
from scenewright.evals.annotation.engines.base import AnnotationSession, Asking
from scenewright.evals.annotation.engines.photo_files import PhotoStoreActor
from scenewright.evals.annotation.engines.worker import AnnotationWorker, Event, Replied, WorkerSpec
from scenewright.evals.annotation.panel_queries import ReceivedReply, Request, Sheet, reply_key
from scenewright.evals.annotation.verifying import Claimed, Verified
from scenewright.evals.runner.engines.base import first_of
from scenewright.evals.runner.engines.cluster import Cluster, ray_for, reached
from scenewright.evals.runner.engines.jobs import ItemListener
from scenewright.evals.runner.engines.queue import ItemQueue
from scenewright.evals.runner.engines.rate_limit_actor import RateLimitClient
from scenewright.evals.runner.engines.worker_pool import WorkerPool
from scenewright.evals.store.ledger import Photo
from scenewright.evals.store.paths import ANSWERS
from scenewright.runs.model_factory.profiles import caller_of

_DESK_AT_ONCE = 8
"""Photos that the desk reads at the same time."""

Piece = Sheet | Claimed


@dataclass(frozen=True, slots=True)
class RayEngine:
    """Implements :class:`~scenewright.evals.annotation.engines.base.Engine` on a Ray cluster."""

    workers: int | None = None
    """Actors, each with models of its own and ``concurrency`` photos at work; none: one for each
    GPU of the cluster, or for each CPU where there is no GPU."""
    address: str = ""
    """The cluster (``auto``, ``HOST:PORT``); empty: the one of ``RAY_ADDRESS``, or else one of this
    machine, which ends with the building."""
    given: str = ""
    """``module:function`` that builds the :class:`~scenewright.evals.annotation.engines.base.
    Models` from the set's folder; empty: those that the configuration names."""
    settings: Settings | None = None
    """Accounts and the like, for workers too; none: those of this machine."""
    apart: bool = False
    """Treat this machine's workers as those of another one, which do not see its files."""
    name: str = "ray"
    """As the command calls it."""

    @asynccontextmanager
    async def at_work(self, session: AnnotationSession) -> AsyncIterator[Asking]:
        """Ready to ask on the cluster, which is reached with the first piece of work.

        Raises ``EvalError`` where Ray is not installed or the cluster cannot be reached, workers
        differ from this process in their models, or they keep dying.
        """
        ray_for(self.workers)
        async with AsyncExitStack() as stack:
            yield _Hired(self, session, stack)


class _Hired:
    def __init__(
        self, engine: RayEngine, session: AnnotationSession, stack: AsyncExitStack
    ) -> None:
        self._engine, self._sitting, self._stack = engine, session, stack
        self._crew: WorkerPool[Piece] | None = None
        self._desk: Any = None
        self._job: AnnotationJob | None = None

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        await self._work(sheets, heard=heard)

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        await self._work(pieces, found=found)
        if self._desk is not None:
            await self._desk.flush.remote()

    async def _work(self, pieces: Iterator[Piece], **handlers: Any) -> None:
        first = next(pieces, None)
        if first is None:
            return
        if self._crew is None:
            await self._hire()
        assert self._crew is not None
        assert self._job is not None
        self._job.listen(**handlers)
        async with aclosing(_numbered(chain([first], pieces))) as stream:
            try:
                await self._crew.work(ItemQueue(stream))
            except BaseExceptionGroup as errors:
                raise first_of(errors) from None

    async def _hire(self) -> None:
        engine, session = self._engine, self._sitting
        ray = ray_for()
        session.told("cluster", 0, None)
        cluster = await self._stack.enter_async_context(reached(engine.address, engine.workers))
        settings = engine.settings
        if settings is None:
            settings = await asyncio.to_thread(load_settings)
        self._share(cluster, settings)
        folder = await asyncio.to_thread(session.folder.resolve)
        stores = (
            ray.remote(PhotoStoreActor)
            .options(num_cpus=0, scheduling_strategy=cluster.near, max_concurrency=_DESK_AT_ONCE)
            .remote(folder / ANSWERS if session.models.judges else None)
        )
        self._stack.callback(ray.kill, stores)
        self._stack.push_async_callback(lambda: asyncio.shield(_closed(stores)))
        post = WorkerSpec(
            name="",
            config=session.config,
            settings=settings,
            folder=folder,
            given=engine.given,
            node="" if engine.apart else cluster.node,
            stores=stores,
            rate_limits=cluster.rate_limits,
        )
        self._desk = stores
        self._job = AnnotationJob(session, post, await session.models.manifest())
        self._crew = WorkerPool(self._job, cluster)
        self._stack.push_async_callback(lambda: asyncio.shield(self._dismissed()))

    async def _dismissed(self) -> None:
        assert self._crew is not None
        await self._crew.dismiss()

    def _share(self, cluster: Cluster, settings: Settings) -> None:
        """What this process asks of the text model is counted with what the workers ask."""
        text = self._sitting.text
        if text is None:
            return
        try:
            caller = caller_of(split_judge(text.name)[0], settings)
        except SettingsError:
            # A model that the caller built himself: nobody else knows of its account.
            return
        self._stack.enter_context(
            caller.sharing(partial(RateLimitClient, cluster.rate_limits, "driver"))
        )


class AnnotationJob:
    """The photos of a set; implements :class:`~scenewright.evals.runner.engines.jobs.Job`."""

    actor = AnnotationWorker

    def __init__(
        self, session: AnnotationSession, post: WorkerSpec, models: dict[str, dict[str, str]]
    ) -> None:
        """``post``: what each worker is told, besides its name; ``models``: what it must have."""
        self.concurrency = session.config.concurrency
        self.models = models
        self._sitting = session
        self._post = post
        self._left: dict[int, dict[str, Request]] = {}
        self._heard: Callable[[ReceivedReply], None] = lambda heard: None
        self._found: Callable[[Claimed, Verified], None] = lambda piece, verified: None

    def listen(
        self,
        heard: Callable[[ReceivedReply], None] = lambda heard: None,
        found: Callable[[Claimed, Verified], None] = lambda piece, verified: None,
    ) -> None:
        """Who is told from now on."""
        self._heard, self._found = heard, found

    def post(self, name: str) -> WorkerSpec:
        """What the worker ``name`` is told."""
        return replace(self._post, name=name)

    def ready(self, workers: int, of: int) -> None:
        """Tell of it."""
        self._sitting.told("workers", workers, of)

    def begin(self, position: int, piece: Piece) -> ItemListener:
        """A worker begins with ``piece``; of a sheet that another one left it is given the rest."""
        if isinstance(piece, Claimed):
            return _Verifying(piece, self._found)
        left = self._left.get(position)
        if left is None:
            voters = self._sitting.models.voters
            left = self._left[position] = {
                reply_key(piece.photo, voters[wanted.voter], wanted.sample): wanted
                for wanted in piece.wanted
            }
        return _Replying(piece.photo, left, self._heard, partial(self._left.pop, position))


class _Replying:
    """A worker has the panel reply to a sheet."""

    def __init__(
        self,
        photo: Photo,
        left: dict[str, Request],
        heard: Callable[[ReceivedReply], None],
        done: Callable[[], object],
    ) -> None:
        self.given = Sheet(_findable(photo), tuple(left.values()))
        self._left, self._heard, self._done = left, heard, done

    def hear(self, event: Event) -> bool:
        if isinstance(event, Replied):
            self._done()
            return True
        assert isinstance(event, ReceivedReply)
        self._heard(event)
        del self._left[event.reply.key]
        return False

    def lost(self) -> None:
        """What was replied is kept; the next worker is given the rest."""


class _Verifying:
    """A worker puts claims to the judges."""

    def __init__(self, piece: Claimed, found: Callable[[Claimed, Verified], None]) -> None:
        self.given = replace(piece, photo=_findable(piece.photo))
        self._piece, self._found = piece, found

    def hear(self, event: Event) -> bool:
        assert isinstance(event, Verified)
        self._found(self._piece, event)
        return True

    def lost(self) -> None:
        """What judges answered is among the answers."""


async def _closed(stores: Any) -> None:
    # What ended the work matters more than why its desk could not be left tidy.
    with suppress(Exception):
        await stores.close.remote()


def _findable(photo: Photo) -> Photo:
    """The photo for a process with another working directory."""
    return replace(photo, file=str(Path(photo.file).absolute()))


async def _numbered(pieces: Iterator[Piece]) -> AsyncGenerator[tuple[int, Piece]]:
    for position, piece in enumerate(pieces):
        yield position, piece
