"""The reference engine: all items in this process, ``concurrency`` of them at a time."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path

from scenewright.evals.datasets.base import Dataset
from scenewright.evals.runner.cast import Given
from scenewright.evals.runner.drift.asking import Sentinels
from scenewright.evals.runner.engines.base import Sitting, first_of, numbered
from scenewright.evals.runner.item_work import ItemWork
from scenewright.evals.runner.progress import Patience
from scenewright.evals.runner.served import VersionGate


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Implements :class:`~scenewright.evals.runner.engines.base.Engine`."""

    name: str = "local"
    """As the command calls it."""

    def models(self, given: Given | None, root: Path) -> Given:
        """``given``."""
        return given or Given()

    async def run(self, sitting: Sitting, items: Dataset) -> None:
        """Do all ``items`` here."""
        tell, config = sitting.tell, sitting.config
        tell(doing="loading the models", at_once=True)
        await sitting.cast.warm()
        tell(doing="drawing and judging", at_once=True)
        gate = await asyncio.to_thread(
            VersionGate,
            *(config.on_model_change, sitting.journal, sitting.plan, sitting.watch.drifts),
        )
        work = ItemWork(
            config,
            sitting.cast,
            sitting.studio,
            sitting.journal,
            sitting.answers,
            retry=sitting.retry,
            count=tell,
            ended=Patience(config.stop_after_failures).note,
            gate=gate,
            sentinels=Sentinels(
                sitting.cast.judges, config.sentinels, sitting.studio.settings.judge_timeout
            ),
            sentinel=sitting.watch.take,
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
                    sitting.journal.plan(sitting.plan, position, await work.do(item))
                    tell(items=1)

            try:
                async with asyncio.TaskGroup() as group:
                    for _ in range(config.concurrency):
                        group.create_task(hand())
            except BaseExceptionGroup as errors:
                raise first_of(errors) from None
