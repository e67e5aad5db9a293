"""The seam of kinds of evaluations: a small task, done by the local engine and journalled."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from scenewright.config.settings import load_settings
from scenewright.core.sqlite_file import SqliteFile
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.engines.worker_pool import RayWorker
from scenewright.evals.runner.progress import FailureLimit
from scenewright.evals.runner.task import (
    Counted,
    Ended,
    Finished,
    LocalEngine,
    Made,
    ReportingUnits,
    Tell,
    UnitListener,
    UnitWork,
    WorkerSpec,
    numbered,
)
from scenewright.evals.store.journal import Journal, Unit


@dataclass(frozen=True)
class Word:
    id: str


class Lengths(UnitWork):
    """Work on one word: its length, which may fail, and whether it is long."""

    def __init__(self, units: ReportingUnits, tell: Tell, retry: bool, measure: Any) -> None:
        super().__init__(
            units,
            retry=retry,
            count=lambda **more: tell(Counted(more)),
            ended=lambda unit: tell(Ended(unit)),
        )
        self._measure = measure

    async def do(self, word: Word) -> list[str]:
        async def make(before: Unit | None) -> Unit:
            return Unit(word.id, "length", facts={"n": self._measure(word.id)})

        unit, new = await self.unit(word.id, make, partial(Unit, word.id, "length", "failed"))
        if new:
            self.keep(unit)
        return [unit.key]


@dataclass(frozen=True)
class Measuring:
    journal: Journal
    retry: bool
    measure: Callable[[str], int]
    models: str = "ruler"

    async def do(self, word: Word, tell: Tell) -> Finished:
        work = Lengths(ReportingUnits(self.journal, tell), tell, self.retry, self.measure)
        return Finished(await work.do(word))


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuringSpec(WorkerSpec):
    async def open(self, here: bool, stack: ExitStack) -> Measuring:
        return Measuring(stack.enter_context(Journal(None)), False, len)


class WordTask:
    """Lengths of words."""

    concurrency = 3
    models = "ruler"
    callers = ()

    def __init__(
        self, journal: Journal, measure: Callable[[str], int], *, retry: bool = False, most: int = 9
    ) -> None:
        self._journal, self._measure, self._retry = journal, measure, retry
        self._ended = FailureLimit(most).note
        self.counts: Counter[str] = Counter()

    @property
    def spec(self) -> MeasuringSpec:
        return MeasuringSpec(settings=load_settings())

    async def here(self) -> Measuring:
        self.counts["loaded"] += 1
        return Measuring(self._journal, self._retry, self._measure)

    def ready(self, workers: int, of: int) -> None:
        raise AssertionError("there are no other workers")

    def begin(self, position: int, item: Word) -> UnitListener[Word]:
        return UnitListener(self._journal, "plan", position, item, self._count, self._ended)

    def _count(self, **more: float) -> None:
        self.counts.update({name: int(by) for name, by in more.items()})


WORDS = [Word("a"), Word("bcd"), Word("ef")]


async def done(task: WordTask, words: list[Word] = WORDS) -> None:
    async with LocalEngine().at_work(task) as work:
        await work(numbered(words))


@pytest.fixture
def journal(tmp_path: Path) -> Any:
    with Journal(tmp_path / "journal.sqlite") as opened:
        assert isinstance(opened, SqliteFile)
        yield opened


async def test_items_become_units_in_the_order_of_the_set(journal: Journal) -> None:
    task = WordTask(journal, len)
    await done(task)
    assert [(u.key, u.facts["n"]) for u in journal.units("plan")] == [
        ("a", 1),
        ("bcd", 3),
        ("ef", 2),
    ]
    assert (task.counts["loaded"], task.counts["items"]) == (1, 3)


async def test_finished_units_are_not_repeated(journal: Journal) -> None:
    await done(WordTask(journal, len), WORDS[:2])

    def unexpected(word: str) -> int:
        assert word == "ef"
        return len(word)

    await done(WordTask(journal, unexpected))
    assert journal.tally("plan") == {("length", "done"): 3}


async def test_failures_are_units_and_tried_again_on_request(journal: Journal) -> None:
    def failing(word: str) -> int:
        if word == "bcd":
            raise ValueError("no ruler is that long")
        return len(word)

    task = WordTask(journal, failing)
    await done(task)
    assert (task.counts["failed"], task.counts["items"]) == (1, 3)
    assert journal.problems("plan") == [("length", "ValueError: no ruler is that long", 1)]
    # Without a request the failure stands.
    await done(WordTask(journal, len))
    assert journal.whole_items("plan") == 2
    await done(WordTask(journal, failing, retry=True))
    (unit,) = journal.planned("plan", 1)
    assert unit.facts == {"tries": 1}
    await done(WordTask(journal, len, retry=True))
    assert journal.whole_items("plan") == 3


async def test_failures_in_a_row_end_the_work_and_are_kept(journal: Journal) -> None:
    def failing(word: str) -> int:
        raise ValueError("broken")

    with pytest.raises(EvalError, match="2 failures in a row, the last one: ValueError: broken"):
        await done(WordTask(journal, failing, most=2))
    assert journal.get("a") is not None


async def test_an_item_that_is_there_twice_is_refused(journal: Journal) -> None:
    with pytest.raises(EvalError, match="holds the item 'a' twice"):
        await done(WordTask(journal, len), [Word("a"), Word("a")])


async def test_a_worker_of_a_cluster_streams_its_events(tmp_path: Path) -> None:
    spec = pickle.loads(pickle.dumps(MeasuringSpec(settings=load_settings(), name="one")))
    worker = RayWorker(spec)
    worker._worker = await spec.open(False, worker._open)
    events = [event async for some in worker.item(Word("bcd")) for event in some]
    await worker.close()
    assert events[-1] == Finished(["bcd"])
    (made,) = [event for event in events if isinstance(event, Made)]
    assert made.units[0].facts == {"n": 3}
