"""The evaluation as a task: its workers, in this process or on a cluster, and its listener."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.evals.datasets.base import Item
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import DatasetPredicates
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.engines.cluster import load_reference
from scenewright.evals.runner.engines.store_actor import RemoteAnswers, RemoteImages, RemoteUnits
from scenewright.evals.runner.item_work import Found, ItemWork, SentinelAsked
from scenewright.evals.runner.judging import JUDGE
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.progress import FailureLimit, ProgressReporter
from scenewright.evals.runner.sentinels import DriftDetector, Sentinels
from scenewright.evals.runner.served_versions import VersionGate
from scenewright.evals.runner.task import (
    Finished,
    Made,
    ReportingUnits,
    Tell,
    UnitListener,
    WorkerSpec,
)
from scenewright.evals.store.journal import Journal, KnownUnits
from scenewright.evals.store.results import ANSWERS, IMAGES, JOURNAL
from scenewright.providers import Answers, open_answers
from scenewright.providers.caller import Caller
from scenewright.providers.sdk_clients import paying


@dataclass(frozen=True, slots=True)
class EvalWorker:
    """Models of an evaluation that do its items."""

    config: EvalConfig
    eval_models: EvalModels
    generation: Callable[[ExitStack], GenerationContext]
    """Gives the place where the pictures of an item are drawn; the stack is closed with it."""
    units: KnownUnits
    """Finished before."""
    answers: Answers
    sentinels: Sentinels
    retry: bool
    """Whether failed and unscored units are tried again."""

    @property
    def models(self) -> dict[str, Any]:
        """Manifest of the models."""
        return self.eval_models.manifest()

    async def do(self, item: Item, tell: Tell) -> Finished:
        """Draw, judge and score ``item`` in all arms; see :meth:`ItemWork.do`."""
        with ExitStack() as scratch:
            generation = self.generation(scratch)
            scratch.enter_context(paying(generation.nonce))
            work = ItemWork(
                self.config,
                self.eval_models,
                generation,
                ReportingUnits(self.units, tell),
                self.answers,
                self.sentinels,
                tell,
                retry=self.retry,
            )
            return Finished(await work.do(item))


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalWorkerSpec(WorkerSpec):
    """Start-up arguments of a worker of an evaluation."""

    config: EvalConfig
    root: Path
    """Where relative paths of the configuration begin, absolute."""
    nonce: str
    """Unique id of the evaluation."""
    own: DatasetPredicates | None
    """The predicates of the set."""
    retry: bool
    """Whether failed and unscored units are tried again."""

    async def open(self, here: bool, stack: ExitStack) -> EvalWorker:
        """Return a worker with models of its own; see :class:`WorkerSpec`."""
        given = await asyncio.to_thread(load_reference, self.given, self.root, EvalModelOverrides)
        eval_models = await build_eval_models(
            self.config, self.settings, given or EvalModelOverrides(), self.root
        )
        await eval_models.warm()
        shared, place = self.settings.answers, self.place
        assert place is not None
        units: KnownUnits
        answers: Answers
        images: ImageStore | None = None
        if here:
            flusher = Flusher()
            stack.callback(flusher.close)
            units = stack.enter_context(Journal(place / JOURNAL))
            images = ImageStore(place / IMAGES, flusher=flusher)
            answers = open_answers(shared, place / ANSWERS, flusher=flusher, payer=self.nonce)
        else:
            units = RemoteUnits(self.stores)
            answers = (
                RemoteAnswers(self.stores)
                if shared is None
                else open_answers(shared, None, payer=self.nonce)
            )
        stack.callback(answers.close)

        def generation(scratch: ExitStack) -> GenerationContext:
            folder, store, keep = place, images, self.config.keep_runs
            if store is None:
                # A folder an item: what piles up on a worker's disk is bounded by items at work.
                made = scratch.enter_context(tempfile.TemporaryDirectory(prefix="scenewright-"))
                folder, keep = Path(made), False
                store = RemoteImages(folder / IMAGES, self.stores)
            return GenerationContext(
                *(folder, store, self.settings, self.root, self.config.size, keep),
                *(self.nonce, self.own),
            )

        sentinels = Sentinels(
            eval_models.judges, self.config.sentinels, self.settings.judge_timeout
        )
        return EvalWorker(
            self.config, eval_models, generation, units, answers, sentinels, self.retry
        )


class EvalTask:
    """The items of an evaluation as a :class:`~scenewright.evals.runner.task.Task`."""

    callers: tuple[Caller, ...] = ()

    def __init__(
        self,
        config: EvalConfig,
        eval_models: EvalModels,
        generation: GenerationContext,
        journal: Journal,
        answers: Answers,
        plan: str,
        *,
        retry: bool,
        tell: ProgressReporter,
        watch: DriftDetector,
    ) -> None:
        """Set up the work.

        Args:
            config: configuration of the evaluation.
            eval_models: the models as this process built them; no weights are loaded yet.
            generation: where pictures are drawn and kept; its folder is locked by this process.
            journal: finished units; only this process writes it.
            answers: answers of judges.
            plan: digest of the evaluation.
            retry: whether failed and unscored units are tried again.
            tell: counts what is done.
            watch: receives the judges' replies to sentinel pictures.
        """
        self.concurrency = config.concurrency
        self.models = eval_models.manifest()
        self._config, self._eval_models, self._generation = config, eval_models, generation
        self._journal, self._answers, self._plan = journal, answers, plan
        self._retry, self._report, self._watch = retry, tell, watch
        self._ended = FailureLimit(config.stop_after_failures).note
        self._gate = VersionGate(config.on_model_change, journal, plan, watch.drifts)

    @property
    def spec(self) -> EvalWorkerSpec:
        """Start-up arguments of workers in other processes."""
        place = self._generation.folder.resolve()
        return EvalWorkerSpec(
            settings=self._generation.settings,
            answers=place / ANSWERS,
            place=place,
            config=self._config,
            root=self._generation.root.resolve(),
            nonce=self._generation.nonce,
            own=self._generation.own,
            retry=self._retry,
        )

    async def here(self) -> EvalWorker:
        """Return a worker with the models of this process, whose weights are loaded."""
        self._report(doing="loading the models", at_once=True)
        await self._eval_models.warm()
        self._report(doing="drawing and judging", at_once=True)
        return EvalWorker(
            self._config,
            self._eval_models,
            lambda scratch: self._generation,
            self._journal,
            self._answers,
            Sentinels(
                self._eval_models.judges,
                self._config.sentinels,
                self._generation.settings.judge_timeout,
            ),
            self._retry,
        )

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers on a cluster are ready."""
        doing = f"drawing and judging, {workers} workers"
        if not of:
            doing = "reaching the cluster"
        elif not workers:
            doing = f"loading the models of {of} workers"
        self._report(doing=doing, at_once=True)

    def begin(self, position: int, item: Item) -> EvalListener:
        """Return the listener for a worker that begins with ``item``."""
        return EvalListener(
            *(self._journal, self._plan, position, item, self._report, self._ended),
            gate=self._gate,
            watch=self._watch,
        )


@dataclass(kw_only=True)
class EvalListener(UnitListener[Item]):
    """Listener that also follows the versions of the judges."""

    gate: VersionGate
    watch: DriftDetector

    def hear(self, event: Any) -> bool:
        """Keep the result in ``event``; return whether the item is done.

        Raises ``ModelChangedError`` for a judging by another version, which is not kept.
        """
        match event:
            case Made(units):
                for unit in units:
                    if unit.kind == JUDGE:
                        self.gate.admit(unit)
            case Found(unit):
                self.gate.admit(unit)
            case SentinelAsked(reply):
                self.watch.take(reply)
        return super().hear(event)
