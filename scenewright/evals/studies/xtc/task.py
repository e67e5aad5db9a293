"""XTC-Bench as a task: its workers, in this process or on a cluster, and its listener."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore, file_bytes
from scenewright.evals.datasets.base import Item
from scenewright.evals.errors import ModelChangedError
from scenewright.evals.runner.dataset_predicates import DatasetPredicates
from scenewright.evals.runner.engines.cluster import load_reference
from scenewright.evals.runner.engines.store_actor import RemoteImages, RemoteUnits, call_actor
from scenewright.evals.runner.progress import FailureLimit, ProgressReporter
from scenewright.evals.runner.task import (
    Finished,
    Made,
    ReportingUnits,
    Tell,
    UnitListener,
    WorkerSpec,
)
from scenewright.evals.store.extractions import Extractions
from scenewright.evals.store.journal import Journal, KnownUnits
from scenewright.evals.store.results import IMAGES, JOURNAL
from scenewright.evals.studies.xtc.config import (
    XtcConfig,
    XtcModelOverrides,
    XtcModels,
    build_xtc_models,
)
from scenewright.evals.studies.xtc.work import LeftOut, PhotoItem, Served, XtcWork
from scenewright.providers.caller import Caller
from scenewright.providers.sdk_clients import paying
from scenewright.providers.versions import FollowedVersions

EXTRACTIONS = "extractions"
"""Folder of the graphs that were read from drawn pictures."""


@dataclass(frozen=True, slots=True)
class XtcWorker:
    """Models of XTC-Bench that do its items."""

    config: XtcConfig
    xtc_models: XtcModels
    images: Callable[[ExitStack], ImageStore]
    """Gives the store of the pictures of an item; the stack is closed with it."""
    photo: Callable[[str], bytes]
    """Reads the file of a photo."""
    extractions: Extractions
    """Graphs that were read before."""
    units: KnownUnits
    """Finished before."""
    nonce: str
    """Unique id of the evaluation."""
    retry: bool
    """Whether failed and unscored units are tried again."""

    @property
    def models(self) -> dict[str, Any]:
        """Manifest of the models."""
        return self.xtc_models.manifest()

    async def do(self, item: PhotoItem, tell: Tell) -> Finished:
        """Draw ``item`` and ask about it; see :meth:`XtcWork.do`."""
        with ExitStack() as scratch:
            scratch.enter_context(paying(self.nonce))
            work = XtcWork(
                self.config,
                self.xtc_models,
                self.images(scratch),
                self.photo,
                self.extractions,
                ReportingUnits(self.units, tell),
                tell,
                retry=self.retry,
            )
            return Finished(await work.do(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class XtcWorkerSpec(WorkerSpec):
    """Start-up arguments of a worker of XTC-Bench."""

    config: XtcConfig
    """With the words that judges answer with."""
    root: Path
    """Where relative paths of the configuration begin, absolute."""
    nonce: str
    """Unique id of the evaluation."""
    own: DatasetPredicates | None
    """The predicates of the set."""
    retry: bool
    """Whether failed and unscored units are tried again."""

    async def open(self, here: bool, stack: ExitStack) -> XtcWorker:
        """Return a worker with models of its own; see :class:`WorkerSpec`."""
        given = await asyncio.to_thread(load_reference, self.given, self.root, XtcModelOverrides)
        models = await build_xtc_models(
            self.config, self.settings, given or XtcModelOverrides(), self.root, self.own
        )
        await models.warm()
        place, stores = self.place, self.stores
        assert place is not None
        units: KnownUnits
        if here:
            flusher = Flusher()
            stack.callback(flusher.close)
            units = stack.enter_context(Journal(place / JOURNAL))
            images = ImageStore(place / IMAGES, flusher=flusher)
            return XtcWorker(
                *(self.config, models, lambda scratch: images, file_bytes),
                *(Extractions(models.extractor, place / EXTRACTIONS), units),
                *(self.nonce, self.retry),
            )

        def fetched(scratch: ExitStack) -> ImageStore:
            # A folder an item: what piles up on a worker's disk is bounded by items at work.
            made = scratch.enter_context(tempfile.TemporaryDirectory(prefix="scenewright-"))
            return RemoteImages(Path(made), stores)

        return XtcWorker(
            *(self.config, models, fetched, partial(call_actor, stores.photo)),
            *(Extractions(models.extractor), RemoteUnits(stores), self.nonce, self.retry),
        )


class XtcTask:
    """The items of XTC-Bench as a :class:`~scenewright.evals.runner.task.Task`."""

    callers: tuple[Caller, ...] = ()

    def __init__(
        self,
        worker: XtcWorker,
        spec: XtcWorkerSpec,
        journal: Journal,
        plan: str,
        served: FollowedVersions,
        tell: ProgressReporter,
    ) -> None:
        """Set up the work.

        Args:
            worker: the models of this process; no weights are loaded yet.
            spec: start-up arguments of workers in other processes.
            journal: finished units; only this process writes it.
            plan: digest of the evaluation.
            served: versions under which judges were served.
            tell: counts what is done.
        """
        self.concurrency = worker.config.concurrency
        self.models = worker.models
        self.spec = spec
        self._worker, self._journal, self._plan = worker, journal, plan
        self.served, self._report = served, tell
        self._ended = FailureLimit(worker.config.stop_after_failures).note
        self.evaluated = 0
        """Items that could be evaluated."""
        self.left_out: Counter[str] = Counter()
        """Why items could not be evaluated → how many."""

    async def here(self) -> XtcWorker:
        """Return a worker with the models of this process, whose weights are loaded."""
        self._report(doing="loading the models", at_once=True)
        await self._worker.xtc_models.warm()
        self._report(doing="drawing and asking", at_once=True)
        return self._worker

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers on a cluster are ready."""
        doing = f"drawing and asking, {workers} workers"
        if not workers:
            doing = f"loading the models of {of} workers" if of else "reaching the cluster"
        self._report(doing=doing, at_once=True)

    def begin(self, position: int, item: Item) -> XtcListener:
        """Return the listener for a worker that begins with ``item``."""
        return XtcListener(
            *(self._journal, self._plan, position, PhotoItem.of(item), self._report, self._ended),
            task=self,
        )


@dataclass(kw_only=True)
class XtcListener(UnitListener[PhotoItem]):
    """Listener that also follows the versions of judges, and counts what is left out."""

    task: XtcTask

    def hear(self, event: Any) -> bool:
        """Keep the result in ``event``; return whether the item is done.

        Raises ``ModelChangedError`` for a unit with answers of another version, which is not kept.
        """
        match event:
            case Served(judge, versions):
                self.task.served.note(judge, versions)
            case LeftOut(reason):
                self.task.left_out[reason] += 1
            case Finished(keys):
                self.task.evaluated += bool(keys)
            case Made() if (change := self.task.served.stopped) is not None:
                raise ModelChangedError(
                    f"{change.text}: both under one name would be mixed. What is done is kept. Run "
                    "the same with --on-model-change accept to go on and say so, or in another "
                    "folder"
                )
        return super().hear(event)
