"""A worker of a cluster: one cast of models, which does items with the code of the local engine.

It runs as an async actor. Each unit goes to the driver as soon as it is finished; the driver is the
only one who writes the journal.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import ExitStack, aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from scenewright.config.settings import Settings
from scenewright.core.flushing import Flusher
from scenewright.core.images import ImageStore
from scenewright.evals.datasets.base import Item
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.dataset_predicates import DatasetPredicates
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.drift.ledger import SentinelReply
from scenewright.evals.runner.drift.sentinel_queries import Sentinels
from scenewright.evals.runner.engines.event_stream import stream_events
from scenewright.evals.runner.engines.model_references import load_model_overrides
from scenewright.evals.runner.engines.rate_limit_actor import RateLimitClient
from scenewright.evals.runner.engines.store_actor import RemoteAnswers, RemoteImages, RemoteUnits
from scenewright.evals.runner.item_work import ItemWork
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels, build_eval_models
from scenewright.evals.runner.served_versions import VersionGate
from scenewright.evals.store.journal import Journal, Unit
from scenewright.evals.store.paths import ANSWERS, JOURNAL
from scenewright.evals.store.results import IMAGES
from scenewright.providers import Answers, open_answers
from scenewright.providers.limits import share_gates


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """What a worker is told when it begins."""

    name: str
    """Its name."""
    config: EvalConfig
    """The evaluation."""
    settings: Settings
    """The driver's."""
    place: Path
    """The evaluation's folder on the driver's machine, absolute."""
    root: Path
    """Where relative paths of the configuration begin, absolute."""
    given: str
    """``module:function`` that builds models; empty: those of the profiles."""
    nonce: str
    """Names the evaluation among all."""
    own: DatasetPredicates | None
    """The predicates of the set."""
    retry: bool
    """What failed or was left unscored is tried again."""
    node: str
    """The driver's machine, as the cluster calls it; empty: treat every machine as another."""
    stores: Any
    """The actor for workers elsewhere."""
    rate_limits: Any
    """The actor that hands out tickets."""


@dataclass(frozen=True, slots=True)
class Made:
    """Units to be kept."""

    units: list[Unit]
    """Finished just now."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Progress."""

    more: dict[str, float]
    """Count → by how much it grew."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A drawing or a judging was made, whole or failed."""

    unit: Unit
    """It, without its rows."""


@dataclass(frozen=True, slots=True)
class Finished:
    """The item is done."""

    keys: list[str]
    """Its units, in the order of the tables."""


@dataclass(frozen=True, slots=True)
class Sentinel:
    """A judge was asked a sentinel picture."""

    reply: SentinelReply
    """What it said."""


Event = Made | Counted | Ended | Sentinel | Finished


class Lookup(Protocol):
    """Finds finished units."""

    def get(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        ...


@dataclass(slots=True)
class ReportingUnits:
    """The units of one item: new ones are told at once."""

    known: Lookup
    """What was finished before."""
    tell: Callable[[Event], None]
    """Tells the driver."""
    mine: dict[str, Unit] = field(default_factory=dict)
    """Finished for this item now."""

    def get(self, key: str) -> Unit | None:
        """The unit of ``key``, if it was finished."""
        return self.mine.get(key) or self.known.get(key)

    def put(self, units: Iterable[Unit]) -> None:
        """Tell of ``units``."""
        made = list(units)
        self.mine.update((unit.key, unit) for unit in made)
        self.tell(Made(made))


class Worker:
    """Does items, several at a time."""

    def __init__(self, post: WorkerSpec) -> None:
        """Builds nothing yet: see :meth:`ready`."""
        self._post = post
        self._open = ExitStack()
        self._cast: EvalModels | None = None
        self._sentinels: Sentinels | None = None
        self._known: Lookup | None = None
        self._answers: Answers | None = None
        self._images: ImageStore | None = None

    async def ready(self) -> dict[str, Any]:
        """Build the models and load their weights; what they are, as the manifest says it.

        Raises what building them raises.
        """
        import ray

        post = self._post
        share_gates(partial(RateLimitClient, post.rate_limits, post.name))
        here = bool(post.node) and ray.get_runtime_context().get_node_id() == post.node
        given = await asyncio.to_thread(load_model_overrides, post.given, post.root)
        eval_models = await build_eval_models(
            post.config, post.settings, given or EvalModelOverrides(), post.root
        )
        await eval_models.warm()
        shared = post.settings.answers
        if here:
            flusher = Flusher()
            self._open.callback(flusher.close)
            self._known = self._open.enter_context(Journal(post.place / JOURNAL))
            self._images = ImageStore(post.place / IMAGES, flusher=flusher)
            self._answers = open_answers(
                shared, post.place / ANSWERS, flusher=flusher, payer=post.nonce
            )
        else:
            self._known = RemoteUnits(post.stores)
            self._answers = (
                RemoteAnswers(post.stores)
                if shared is None
                else open_answers(shared, None, payer=post.nonce)
            )
        self._open.callback(self._answers.close)
        self._cast = eval_models
        self._sentinels = Sentinels(
            eval_models.judges, post.config.sentinels, post.settings.judge_timeout
        )
        return eval_models.manifest()

    async def item(self, item: Item) -> AsyncIterator[list[Event]]:
        """Do ``item``; events as they come, the last one is :class:`Finished`.

        Raises ``EvalError``, ``StoreError`` and ``ImageError`` as
        :meth:`~scenewright.evals.runner.item_work.ItemWork.do` does.
        """
        async with aclosing(stream_events(lambda tell: self._done(item, tell))) as stream:
            async for events in stream:
                yield events

    async def _done(self, item: Item, tell: Callable[[Event], None]) -> Event:
        assert self._cast is not None
        assert self._answers is not None
        assert self._known is not None
        assert self._sentinels is not None

        def count(**more: float) -> None:
            tell(Counted(more))

        def ended(unit: Unit) -> None:
            tell(Ended(replace(unit, rows={}, facts={})))

        with ExitStack() as scratch:
            work = ItemWork(
                self._post.config,
                self._cast,
                self._studio(scratch),
                ReportingUnits(self._known, tell),
                self._answers,
                retry=self._post.retry,
                count=count,
                ended=ended,
                gate=VersionGate(self._post.config.on_model_change),
                sentinels=self._sentinels,
                sentinel=lambda reply: tell(Sentinel(reply)),
            )
            return Finished(await work.do(item))

    async def close(self) -> None:
        """Flush and close what is open."""
        await asyncio.to_thread(self._open.close)

    def process(self) -> int:
        """The id of the process."""
        return os.getpid()

    def _studio(self, scratch: ExitStack) -> GenerationContext:
        post, config = self._post, self._post.config
        if self._images is not None:
            place, images, keep = post.place, self._images, config.keep_runs
        else:
            # A folder an item: what piles up on a worker's disk is bounded by its items at work.
            place = Path(scratch.enter_context(tempfile.TemporaryDirectory(prefix="scenewright-")))
            images, keep = RemoteImages(place / IMAGES, post.stores), False
        size, nonce = config.size, post.nonce
        return GenerationContext(
            place, images, post.settings, post.root, size, keep, nonce, post.own
        )
