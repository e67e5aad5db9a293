"""Engines of dataset building: the models are asked about photos in this process or on Ray.

Workers of a cluster use the code of the local engine. Each reply goes to the driver as soon as it
is there; only the driver writes the ledger.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    closing,
)
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from PIL import Image

from scenewright.config.profiles import SettingsError, split_judge
from scenewright.config.settings import Settings, load_settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import load_image, read_image
from scenewright.core.ports.judge import Judge
from scenewright.evals.annotation.config import AnnotateConfig
from scenewright.evals.annotation.consensus import Claimed, Verified, fingerprints, verify
from scenewright.evals.annotation.panel_queries import (
    ReceivedReply,
    Request,
    Sheet,
    TextModel,
    Voter,
    ask_about,
    reply_key,
    voters_of,
)
from scenewright.evals.runner.engines.cluster import (
    Cluster,
    RateLimitClient,
    RayOptions,
    load_reference,
    ray_for,
    reached,
    started,
)
from scenewright.evals.runner.engines.store_actor import RemoteAnswers, StoreActor, call_actor
from scenewright.evals.runner.engines.worker_pool import RayWorker, WorkerPool
from scenewright.evals.runner.progress import side_by_side
from scenewright.evals.runner.task import ItemListener, WorkerSpec, on_cluster
from scenewright.evals.store.ledger import Photo
from scenewright.evals.store.results import ANSWERS
from scenewright.providers import Answers, AnswerStore
from scenewright.providers.sdk_clients import paying
from scenewright.runs.model_factory.profiles import build_judge, get_caller

_PHOTOS_AT_ONCE = 8
"""Photos that the driver reads for workers at the same time."""

OnProgress = Callable[[str, int, int | None], None]
"""Called with a stage, the pieces done, and all pieces (None: not known)."""

Piece = Sheet | Claimed


@dataclass(frozen=True, slots=True)
class Models:
    """The models that are asked about photos."""

    voters: tuple[Voter, ...]
    """The panel, in the order of the configuration."""
    judges: tuple[Judge, ...] = ()
    """Judges that verify what the panel names."""

    async def manifest(self) -> dict[str, dict[str, str]]:
        """Return name → fingerprint, of the panel and of the judges."""
        panel = await asyncio.to_thread(lambda: {v.name: v.fingerprint for v in self.voters})
        return {"panel": panel, "judges": dict(await fingerprints(self.judges))}


def models_of(config: AnnotateConfig, settings: Settings) -> Models:
    """Return the models that ``config`` names.

    Raises as :func:`~scenewright.evals.annotation.panel_queries.voters_of` and
    :func:`~scenewright.runs.model_factory.profiles.build_judge`.
    """
    voters = voters_of(config.panel, settings)
    return Models(voters, tuple(build_judge(spec, settings) for spec in config.judges))


@dataclass(frozen=True, slots=True)
class AnnotationSession:
    """One run of a building, as an engine gets it."""

    config: AnnotateConfig
    folder: Path
    """The set's folder."""
    models: Models
    """The models as this process built them; no weights are loaded yet."""
    text: TextModel | None
    """Model that reads lists; this process asks it while the engine is at work."""
    told: OnProgress
    nonce: str = ""
    """Random name of the set, which pays for what is asked."""


class Asking(Protocol):
    """An engine at work. Its callbacks run in this process's event loop."""

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        """Have the panel reply to ``sheets``, which are taken as there is room.

        Raises what ``heard`` raises, and ``EvalError`` where the work cannot go on.
        """
        ...

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        """Have the judges verify ``pieces``. Raises ``ImageError`` and ``StoreError`` too."""
        ...


class Engine(Protocol):
    """Protocol of an engine, which asks models about photos."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    def at_work(self, session: AnnotationSession) -> AbstractAsyncContextManager[Asking]:
        """Return a context in which models can be asked; resources open with the first piece."""
        ...


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """Return the engine of that name; ``workers`` and ``address`` are options of a cluster.

    Raises as :func:`~scenewright.evals.runner.task.on_cluster`.
    """
    return RayEngine(workers, address) if on_cluster(name, workers, address) else LocalEngine()


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Engine that works in this process, on ``concurrency`` photos at a time."""

    name: str = "local"

    @asynccontextmanager
    async def at_work(self, session: AnnotationSession) -> AsyncIterator[Asking]:
        """Yield the session's models, to be asked here."""
        yield _Here(session)


class _Here:
    def __init__(self, session: AnnotationSession) -> None:
        self._session = session

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        async def work(sheet: Sheet) -> None:
            load = partial(load_image, Path(sheet.photo.file))
            await ask_about(sheet, self._session.models.voters, load, heard)

        with paying(self._session.nonce):
            await side_by_side(sheets, work, self._session.config.concurrency)

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        with (
            paying(self._session.nonce),
            closing(AnswerStore(self._session.folder / ANSWERS)) as store,
        ):

            async def work(piece: Claimed) -> None:
                load = partial(load_image, Path(piece.photo.file))
                found(piece, await verify(piece, self._session.models.judges, store, load))

            await side_by_side(pieces, work, self._session.config.concurrency)


@dataclass(frozen=True, slots=True)
class RayEngine(RayOptions):
    """Engine on a Ray cluster; ``given`` builds :class:`Models` from the set's folder."""

    settings: Settings | None = None
    """Settings of the driver and of the workers; None: those of this machine."""

    @asynccontextmanager
    async def at_work(self, session: AnnotationSession) -> AsyncIterator[Asking]:
        """Yield the models of the cluster, which is reached with the first piece of work.

        Raises ``EvalError`` where Ray is not installed or the cluster cannot be reached, workers
        differ from this process in their models, or they keep dying.
        """
        ray_for(self.workers)
        async with AsyncExitStack() as stack:
            yield _OnCluster(self, session, stack)


class _OnCluster:
    def __init__(
        self, engine: RayEngine, session: AnnotationSession, stack: AsyncExitStack
    ) -> None:
        self._engine, self._session, self._stack = engine, session, stack
        self._pool: WorkerPool[Piece] | None = None
        self._stores: Any = None
        self._job: AnnotationJob | None = None

    async def ask(self, sheets: Iterator[Sheet], heard: Callable[[ReceivedReply], None]) -> None:
        await self._work(sheets, heard=heard)

    async def verify(
        self, pieces: Iterator[Claimed], found: Callable[[Claimed, Verified], None]
    ) -> None:
        await self._work(pieces, found=found)
        if self._stores is not None:
            await self._stores.flush.remote()

    async def _work(self, pieces: Iterator[Piece], **handlers: Any) -> None:
        first = next(pieces, None)
        if first is None:
            return
        if self._pool is None:
            await self._start()
        assert self._pool is not None
        assert self._job is not None
        self._job.listen(**handlers)
        await self._pool.work(_numbered(chain([first], pieces)))

    async def _start(self) -> None:
        engine, session = self._engine, self._session
        session.told("cluster", 0, None)
        cluster = await self._stack.enter_async_context(reached(engine.address, engine.workers))
        settings = engine.settings
        if settings is None:
            settings = await asyncio.to_thread(load_settings)
        self._share_limits(cluster, settings)
        folder = await asyncio.to_thread(session.folder.resolve)
        answers = folder / ANSWERS if session.models.judges else None
        self._stores = await self._stack.enter_async_context(
            started(StoreActor, cluster, answers, max_concurrency=_PHOTOS_AT_ONCE)
        )
        spec = AnnotationWorkerSpec(
            name="",
            settings=settings,
            given=engine.given,
            node="" if engine.apart else cluster.node,
            stores=self._stores,
            rate_limits=cluster.rate_limits,
            config=session.config,
            folder=folder,
            nonce=session.nonce,
        )
        self._job = AnnotationJob(session, spec, await session.models.manifest())
        self._pool = await self._stack.enter_async_context(WorkerPool(self._job, cluster))

    def _share_limits(self, cluster: Cluster, settings: Settings) -> None:
        """Count this process's calls of the text model together with those of the workers."""
        text = self._session.text
        if text is None:
            return
        try:
            caller = get_caller(split_judge(text.name)[0], settings)
        except SettingsError:
            # A model that the caller built: it has no account that others share.
            return
        self._stack.enter_context(
            caller.sharing(partial(RateLimitClient, cluster.rate_limits, "driver"))
        )


@dataclass(frozen=True, slots=True)
class AnnotationWorkerSpec(WorkerSpec):
    """Start-up arguments of a worker of a building."""

    config: AnnotateConfig
    folder: Path
    """The set's folder on the driver's machine, absolute."""
    nonce: str
    """That of the session."""


@dataclass(frozen=True, slots=True)
class Replied:
    """Event: all requests of a sheet were sent."""


Event = ReceivedReply | Replied | Verified


class AnnotationWorker(RayWorker[AnnotationWorkerSpec]):
    """Worker of a building, which asks models about photos."""

    _models: Models
    _answers: Answers | None = None

    async def _build(self) -> dict[str, dict[str, str]]:
        spec = self._spec
        given = await asyncio.to_thread(load_reference, spec.given, spec.folder, Models)
        if given is None:
            given = await asyncio.to_thread(models_of, spec.config, spec.settings)
        self._models = given
        for judge in self._models.judges:
            load = getattr(judge, "load", None)
            if load is not None:
                await load()
        if self._models.judges:
            if self._here:
                flusher = Flusher()
                self._open.callback(flusher.close)
                self._answers = AnswerStore(spec.folder / ANSWERS, flusher=flusher)
            else:
                self._answers = RemoteAnswers(spec.stores)
            self._open.callback(self._answers.close)
        return await self._models.manifest()

    async def _done(self, piece: Piece, tell: Callable[[Event], None]) -> Event:
        load = partial(self._photo, piece.photo)
        with paying(self._spec.nonce):
            if isinstance(piece, Sheet):
                await ask_about(piece, self._models.voters, load, tell)
                return Replied()
            assert self._answers is not None
            return await verify(piece, self._models.judges, self._answers, load)

    def _photo(self, photo: Photo) -> Image.Image:
        return load_image(photo.file) if self._here else fetch_photo(photo, self._spec.stores)


def fetch_photo(photo: Photo, stores: Any) -> Image.Image:
    """Return the photo from this machine's file of the same path and content, else the driver's.

    ``stores`` is the handle of a :class:`StoreActor`. Raises ``ImageError`` as
    :func:`~scenewright.core.images.load_image` does for the driver's file.
    """
    try:
        data = Path(photo.file).read_bytes()
    except OSError:
        data = b""
    if hashlib.sha256(data).hexdigest() != photo.digest:
        data = call_actor(stores.photo, photo.file)
    return read_image(data, photo.file)


class AnnotationJob:
    """Photos of a set as a :class:`~scenewright.evals.runner.engines.worker_pool.Job`."""

    actor = AnnotationWorker

    def __init__(
        self,
        session: AnnotationSession,
        spec: AnnotationWorkerSpec,
        models: dict[str, dict[str, str]],
    ) -> None:
        """Use ``spec`` for each worker, with a name of its own; ``models``: their manifest."""
        self.concurrency = session.config.concurrency
        self.models = models
        self._session = session
        self._spec = spec
        self._left: dict[int, dict[str, Request]] = {}
        self.listen()

    def listen(
        self,
        heard: Callable[[ReceivedReply], None] = lambda heard: None,
        found: Callable[[Claimed, Verified], None] = lambda piece, verified: None,
    ) -> None:
        """Set the receivers of replies and verdicts."""
        self._heard, self._found = heard, found

    def post(self, name: str) -> AnnotationWorkerSpec:
        """Return the argument of the worker ``name``."""
        return replace(self._spec, name=name)

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers are ready."""
        self._session.told("workers", workers, of)

    def begin(self, position: int, piece: Piece) -> ItemListener:
        """Return the listener for a worker that begins with ``piece``.

        Of a sheet that a dead worker left, the next one gets the rest.
        """
        if isinstance(piece, Claimed):
            return _Verifying(piece, self._found)
        left = self._left.get(position)
        if left is None:
            voters = self._session.models.voters
            left = self._left[position] = {
                reply_key(piece.photo, voters[wanted.voter], wanted.sample): wanted
                for wanted in piece.wanted
            }
        return _Replying(piece.photo, left, self._heard, partial(self._left.pop, position))


class _Replying:
    """Listener for a worker that has the panel reply to a sheet."""

    def __init__(
        self,
        photo: Photo,
        left: dict[str, Request],
        heard: Callable[[ReceivedReply], None],
        done: Callable[[], object],
    ) -> None:
        self.given = Sheet(_absolute(photo), tuple(left.values()))
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
        """Do nothing: replies are kept, and the next worker gets the rest."""


class _Verifying:
    """Listener for a worker that has the judges verify claims."""

    def __init__(self, piece: Claimed, found: Callable[[Claimed, Verified], None]) -> None:
        self.given = replace(piece, photo=_absolute(piece.photo))
        self._piece, self._found = piece, found

    def hear(self, event: Event) -> bool:
        assert isinstance(event, Verified)
        self._found(self._piece, event)
        return True

    def lost(self) -> None:
        """Do nothing: the judges' answers are in the store."""


def _absolute(photo: Photo) -> Photo:
    """Return the photo for a process with another working directory."""
    return replace(photo, file=str(Path(photo.file).absolute()))


async def _numbered(pieces: Iterator[Piece]) -> AsyncGenerator[tuple[int, Piece]]:
    for position, piece in enumerate(pieces):
        yield position, piece
