"""The engine protocol of evaluations, and the local engine: all items in this process."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from scenewright.evals.datasets.base import Dataset, Item
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.config import EvalConfig
from scenewright.evals.runner.drawing import GenerationContext
from scenewright.evals.runner.item_work import ItemWork
from scenewright.evals.runner.model_setup import EvalModelOverrides, EvalModels
from scenewright.evals.runner.progress import FailureLimit, ProgressReporter, side_by_side
from scenewright.evals.runner.sentinels import DriftDetector, Sentinels
from scenewright.evals.runner.served_versions import VersionGate
from scenewright.evals.store.journal import Journal
from scenewright.providers import Answers

ENGINES = ("local", "ray")
_CHUNK = 32


@dataclass(frozen=True, slots=True)
class EvalSession:
    """One run of an evaluation, as an engine gets it."""

    config: EvalConfig
    place: Path
    """The evaluation's folder, locked by this process."""
    eval_models: EvalModels
    """The models as this process built them; no weights are loaded yet."""
    generation: GenerationContext
    journal: Journal
    """Finished units. Only this process writes it."""
    answers: Answers
    """Answers of judges."""
    plan: str
    """Digest of the evaluation."""
    retry: bool
    """Whether failed and unscored units are tried again."""
    tell: ProgressReporter
    watch: DriftDetector
    """Receives the judges' replies to sentinel pictures."""


class Engine(Protocol):
    """Protocol of an engine, which works on the items of an evaluation."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """Return the models that replace those of the profiles.

        Args:
            given: models of the caller.
            root: where relative paths of the configuration begin.

        Raises:
            EvalError: the engine cannot use these models.
        """
        ...

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items`` and keep the results in the session's journal.

        Raises ``EvalError``, ``StoreError`` and ``DatasetError``; finished work is kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Engine that works in this process, on ``concurrency`` items at a time."""

    name: str = "local"

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """Return ``given``, or no overrides."""
        return given or EvalModelOverrides()

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items``."""
        tell, config = session.tell, session.config
        tell(doing="loading the models", at_once=True)
        await session.eval_models.warm()
        tell(doing="drawing and judging", at_once=True)
        gate = await asyncio.to_thread(
            VersionGate,
            *(config.on_model_change, session.journal, session.plan, session.watch.drifts),
        )
        work = ItemWork(
            config,
            session.eval_models,
            session.generation,
            session.journal,
            session.answers,
            retry=session.retry,
            count=tell,
            ended=FailureLimit(config.stop_after_failures).note,
            gate=gate,
            sentinels=Sentinels(
                session.eval_models.judges,
                config.sentinels,
                session.generation.settings.judge_timeout,
            ),
            sentinel=session.watch.take,
        )

        async def do(found: tuple[int, Item]) -> None:
            position, item = found
            session.journal.plan(session.plan, position, await work.do(item))
            tell(items=1)

        async with aclosing(numbered(items)) as stream:
            await side_by_side(stream, do, config.concurrency)


async def numbered(items: Dataset) -> AsyncGenerator[tuple[int, Item]]:
    """Yield the items with their positions, read in a thread a few at a time.

    Raises ``EvalError`` if two have the same id.
    """
    iterator: Iterator[Item] = iter(items)
    ids: set[int] = set()
    position = 0
    while some := await asyncio.to_thread(lambda: list(islice(iterator, _CHUNK))):
        for item in some:
            name = hash(item.id)
            if name in ids:
                raise EvalError(
                    f"the set holds the item {item.id!r} twice: give each an id of its own"
                )
            ids.add(name)
            yield position, item
            position += 1


def on_cluster(name: str, workers: int | None = None, address: str = "") -> bool:
    """Return whether the engine ``name`` works on a cluster.

    ``workers`` and ``address`` are options of a cluster. Raises ``EvalError`` for an unknown name,
    and for these options with the local engine.
    """
    if name == "ray":
        return True
    if name != "local":
        raise EvalError(f"there is no engine {name!r}: use one of {', '.join(ENGINES)}")
    if workers is not None or address:
        raise EvalError(
            "--workers and --address are those of a cluster: add --engine ray (the local engine "
            "works on `concurrency` items at a time, as the configuration says)"
        )
    return False
