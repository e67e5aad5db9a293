"""The Ray engine: actors with their own models do the items, this process keeps the journal.

Plain actors, not ``ray.data``: its blocks begin anew as a whole when an actor dies, its sources
are tables that are known beforehand, and it gives results a batch at a time. Here each unit is
journalled as soon as it is finished, the set stays a stream, and of the work of a dead worker only
the step under way is lost. On another machine than the driver's that step is the whole loop, whose
run folder is lost with it: its requests go out again with the keys of before.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import DatasetPredicates
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.engines.base import (
    Engine,
    EvalSession,
    LocalEngine,
    numbered,
    on_cluster,
)
from scenewright.evals.runner.engines.cluster import (
    RayOptions,
    load_reference,
    ray_for,
    reached,
    started,
)
from scenewright.evals.runner.engines.store_actor import (
    RemoteAnswers,
    RemoteImages,
    RemoteUnits,
    StoreActor,
)
from scenewright.evals.runner.engines.worker_pool import RayWorker, WorkerPool, WorkerSpec
from scenewright.evals.runner.item_work import ItemWork
from scenewright.evals.runner.judging import JUDGE
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.progress import FailureLimit
from scenewright.evals.runner.sentinels import SentinelReply, Sentinels
from scenewright.evals.runner.served_versions import VersionGate
from scenewright.evals.store.journal import Journal, Unit
from scenewright.evals.store.results import ANSWERS, IMAGES, JOURNAL
from scenewright.providers import Answers, open_answers
from scenewright.providers.sdk_clients import paying


def engine_of(name: str, workers: int | None = None, address: str = "") -> Engine:
    """Return the engine of that name; ``workers`` and ``address`` are options of a cluster.

    Raises as :func:`~scenewright.evals.runner.engines.base.on_cluster`.
    """
    if on_cluster(name, workers, address):
        return RayEngine(workers, address)
    return LocalEngine()


@dataclass(frozen=True, slots=True)
class RayEngine(RayOptions):
    """Engine on a Ray cluster; ``given`` builds an :class:`EvalModelOverrides`."""

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """Return the models of :attr:`given`.

        Raises ``EvalError`` for models that are objects, which cannot be sent to workers, and where
        Ray is not installed.
        """
        ray_for(self.workers)
        if given is not None:
            raise EvalError(
                "models that were built here cannot be sent to workers: name a function that "
                "builds them, RayEngine(given='module:function')"
            )
        return load_reference(self.given, root, EvalModelOverrides) or EvalModelOverrides()

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items`` on the cluster.

        Raises what the local engine does, and ``EvalError`` where the cluster cannot be reached,
        workers differ from this process in their models, or they keep dying.
        """
        ray_for(self.workers)
        session.tell(doing="reaching the cluster", at_once=True)
        place = await asyncio.to_thread(session.place.resolve)
        root = await asyncio.to_thread(session.generation.root.resolve)
        async with (
            reached(self.address, self.workers) as cluster,
            started(StoreActor, cluster, place / ANSWERS, place) as stores,
        ):
            spec = EvalWorkerSpec(
                name="",
                settings=session.generation.settings,
                given=self.given,
                node="" if self.apart else cluster.node,
                stores=stores,
                rate_limits=cluster.rate_limits,
                config=session.config,
                place=place,
                root=root,
                nonce=session.generation.nonce,
                own=session.generation.own,
                retry=session.retry,
            )
            async with WorkerPool(EvalJob(session, spec), cluster) as pool:
                await pool.work(numbered(items))
                await stores.flush.remote()


@dataclass(frozen=True, slots=True)
class EvalWorkerSpec(WorkerSpec):
    """Start-up arguments of a worker of an evaluation."""

    config: EvalConfig
    place: Path
    """The evaluation's folder on the driver's machine, absolute."""
    root: Path
    """Where relative paths of the configuration begin, absolute."""
    nonce: str
    """Unique id of the evaluation."""
    own: DatasetPredicates | None
    """The predicates of the set."""
    retry: bool
    """Whether failed and unscored units are tried again."""


@dataclass(frozen=True, slots=True)
class Made:
    """Event: units to be kept."""

    units: list[Unit]


@dataclass(frozen=True, slots=True)
class Counted:
    """Event: increments of progress counts."""

    more: dict[str, float]


@dataclass(frozen=True, slots=True)
class Ended:
    """Event: a drawing or a judging was made, whole or failed."""

    unit: Unit
    """The unit without its rows."""


@dataclass(frozen=True, slots=True)
class Sentinel:
    """Event: a judge was asked about a sentinel picture."""

    reply: SentinelReply


@dataclass(frozen=True, slots=True)
class Finished:
    """Event: the item is done."""

    keys: list[str]
    """Its units, in the order of the tables."""


Event = Made | Counted | Ended | Sentinel | Finished


@dataclass(slots=True)
class ReportingUnits:
    """Units of one item; new ones are sent to the driver at once."""

    known: Journal | RemoteUnits
    """Finished before."""
    tell: Callable[[Event], None]
    mine: dict[str, Unit] = field(default_factory=dict)
    """Finished for this item now."""

    def get(self, key: str) -> Unit | None:
        """Return the unit of ``key`` if it is finished."""
        return self.mine.get(key) or self.known.get(key)

    def put(self, units: Iterable[Unit]) -> None:
        """Send ``units`` to the driver."""
        made = list(units)
        self.mine.update((unit.key, unit) for unit in made)
        self.tell(Made(made))


class Worker(RayWorker[EvalWorkerSpec]):
    """Worker of an evaluation: only the driver writes the journal."""

    _eval_models: EvalModels
    _sentinels: Sentinels
    _known: Journal | RemoteUnits
    _answers: Answers
    _images: ImageStore | None = None

    async def _build(self) -> dict[str, Any]:
        spec = self._spec
        given = await asyncio.to_thread(load_reference, spec.given, spec.root, EvalModelOverrides)
        eval_models = await build_eval_models(
            spec.config, spec.settings, given or EvalModelOverrides(), spec.root
        )
        await eval_models.warm()
        shared = spec.settings.answers
        if self._here:
            flusher = Flusher()
            self._open.callback(flusher.close)
            self._known = self._open.enter_context(Journal(spec.place / JOURNAL))
            self._images = ImageStore(spec.place / IMAGES, flusher=flusher)
            self._answers = open_answers(
                shared, spec.place / ANSWERS, flusher=flusher, payer=spec.nonce
            )
        else:
            self._known = RemoteUnits(spec.stores)
            self._answers = (
                RemoteAnswers(spec.stores)
                if shared is None
                else open_answers(shared, None, payer=spec.nonce)
            )
        self._open.callback(self._answers.close)
        self._eval_models = eval_models
        self._sentinels = Sentinels(
            eval_models.judges, spec.config.sentinels, spec.settings.judge_timeout
        )
        return eval_models.manifest()

    async def _done(self, item: Item, tell: Callable[[Event], None]) -> Event:
        with paying(self._spec.nonce), ExitStack() as scratch:
            work = ItemWork(
                self._spec.config,
                self._eval_models,
                self._generation(scratch),
                ReportingUnits(self._known, tell),
                self._answers,
                retry=self._spec.retry,
                count=lambda **more: tell(Counted(more)),
                ended=lambda unit: tell(Ended(replace(unit, rows={}, facts={}))),
                gate=VersionGate(self._spec.config.on_model_change),
                sentinels=self._sentinels,
                sentinel=lambda reply: tell(Sentinel(reply)),
            )
            return Finished(await work.do(item))

    def _generation(self, scratch: ExitStack) -> GenerationContext:
        spec, config = self._spec, self._spec.config
        if self._images is not None:
            place, images, keep = spec.place, self._images, config.keep_runs
        else:
            # A folder an item: what piles up on a worker's disk is bounded by its items at work.
            place = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="scenewright-")))
            images, keep = RemoteImages(place / IMAGES, spec.stores), False
        return GenerationContext(
            place, images, spec.settings, spec.root, config.size, keep, spec.nonce, spec.own
        )


class EvalJob:
    """Items of an evaluation as a :class:`~scenewright.evals.runner.engines.worker_pool.Job`."""

    actor = Worker

    def __init__(self, session: EvalSession, spec: EvalWorkerSpec) -> None:
        """Use ``spec`` for each worker, with a name of its own."""
        self.concurrency = session.config.concurrency
        self.models = session.eval_models.manifest()
        self._session = session
        self._spec = spec
        self._failure_limit = FailureLimit(session.config.stop_after_failures)
        config, drifts = session.config, session.watch.drifts
        self._gate = VersionGate(config.on_model_change, session.journal, session.plan, drifts)

    def post(self, name: str) -> EvalWorkerSpec:
        """Return the argument of the worker ``name``."""
        return replace(self._spec, name=name)

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers are ready."""
        doing = f"drawing and judging, {workers} workers"
        if not workers:
            doing = f"loading the models of {of} workers"
        self._session.tell(doing=doing, at_once=True)

    def begin(self, position: int, item: Item) -> EvalItemListener:
        """Return the listener for a worker that begins with ``item``."""
        return EvalItemListener(self._session, self._failure_limit, self._gate, position, item)


@dataclass(slots=True)
class EvalItemListener:
    """Receiver of a worker's events for one item, which writes the journal."""

    session: EvalSession
    failure_limit: FailureLimit
    gate: VersionGate
    position: int
    """Position of the item in the set."""
    given: Item
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Progress counts of this item."""

    def hear(self, event: Event) -> bool:
        """Keep the result in ``event``; return whether the item is done."""
        told: Callable[..., None] = self.session.tell
        match event:
            case Made(units):
                for unit in units:
                    if unit.kind == JUDGE:
                        self.gate.admit(unit)
                self.session.journal.put(units)
            case Counted(more):
                for name, by in more.items():
                    self.counts[name] += by
                told(**more)
            case Sentinel(reply):
                self.session.watch.take(reply)
            case Ended(unit):
                self.failure_limit.note(unit)
            case Finished(keys):
                self.session.journal.plan(self.session.plan, self.position, keys)
                told(items=1)
                return True
        return False

    def lost(self) -> None:
        """Take back the counts of pictures, which the next worker finds and counts again."""
        told: Callable[..., None] = self.session.tell
        told(pictures=-self.counts["pictures"], found=-self.counts["found"])
