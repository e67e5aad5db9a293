"""The reference engine: all items in this process, ``concurrency`` of them at a time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from scenewright.evals.datasets.base import Dataset
from scenewright.evals.runner.drift.sentinel_queries import Sentinels
from scenewright.evals.runner.engines.base import EvalSession, first_of, numbered
from scenewright.evals.runner.item_work import ItemWork
from scenewright.evals.runner.model_setup import EvalModelOverrides
from scenewright.evals.runner.progress import FailureLimit
from scenewright.evals.runner.served_versions import VersionGate


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Implements :class:`~scenewright.evals.runner.engines.base.Engine`."""

    name: str = "local"
    """As the command calls it."""

    def models(self, given: EvalModelOverrides | None, root: Path) -> EvalModelOverrides:
        """``given``."""
        return given or EvalModelOverrides()

    async def run(self, session: EvalSession, items: Dataset) -> None:
        """Do all ``items`` here."""
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
        async with aclosing(numbered(items)) as stream:
            turn = asyncio.Lock()

            async def hand() -> None:
                while True:
                    async with turn:
                        found = await anext(stream, None)
                    if found is None:
                        return
                    position, item = found
                    session.journal.plan(session.plan, position, await work.do(item))
                    tell(items=1)

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(config.concurrency):
                        group.create_task(hand())
            except BaseExceptionGroup as errors:
                raise first_of(errors) from None
