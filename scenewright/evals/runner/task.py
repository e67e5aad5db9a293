"""The seam between kinds of evaluations and the engines that carry them out.

::

    task → units → journal → engine → tables

A kind of evaluation is three small things. A :class:`WorkerSpec`, which can be sent to another
process, opens a :class:`Worker` there: models that do one item after the other, as keyed
:class:`~scenewright.evals.store.journal.Unit` of work (:class:`UnitWork`). A :class:`Task` is the
work as the process sees it that owns the folder: for each item it begins an :class:`ItemListener`,
which keeps what a worker tells (:class:`UnitListener` does so in a journal). An :class:`Engine`
hands the items out: :class:`LocalEngine` in this process,
:class:`~scenewright.evals.runner.engines.ray_engine.RayEngine` on a cluster. Tables are written
from the journal by :func:`~scenewright.evals.store.journal.export`.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from scenewright.config.settings import Settings
from scenewright.core.error_text import error_text
from scenewright.evals.errors import EvalError
from scenewright.evals.runner.progress import side_by_side
from scenewright.evals.store.journal import Journal, KnownUnits, Unit, Units
from scenewright.providers.caller import Caller
from scenewright.providers.sdk_clients import identified

ENGINES = ("local", "ray")
_CHUNK = 32
_TRIES = "tries"
"""Fact of a failed unit: how often it was tried in vain before."""


class Named(Protocol):
    """An item that can be handed out."""

    @property
    def id(self) -> str:
        """Name in error messages, unique among the items."""
        ...


T = TypeVar("T", bound=Named)
T_contra = TypeVar("T_contra", contravariant=True)
N_contra = TypeVar("N_contra", bound=Named, contravariant=True)
M = TypeVar("M")
Tell = Callable[[Any], object]
"""Receiver of a worker's events."""
Items = AsyncGenerator[tuple[int, T]]
"""Items with their positions, taken as there is room."""


class Worker(Protocol[T_contra]):
    """Models of one process that do items, several at a time."""

    @property
    def models(self) -> Any:
        """Manifest of the models; those of all workers must be equal."""
        ...

    async def do(self, item: T_contra, tell: Tell) -> Any:
        """Do ``item``, emit events with ``tell`` and return the last one."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSpec(ABC):
    """Start-up arguments of every worker of a task; they can be sent to another process.

    The first three are the task's, the others are set by an engine.
    """

    settings: Settings
    """Settings of the process that owns the folder."""
    answers: Path | None = None
    """File of answers in that folder, absolute; None: no judge is asked."""
    place: Path | None = None
    """Folder whose pictures and units are served to workers elsewhere; None: neither is used."""
    name: str = ""
    given: str = ""
    """``module:function`` that builds models; empty: those of the configuration."""
    node: str = ""
    """The machine of the folder; empty: treat every machine as another one."""
    stores: Any = None
    """Handle of the actor that serves the folder's stores."""
    rate_limits: Any = None
    """Handle of the actor that holds the rate limits."""

    @abstractmethod
    async def open(self, here: bool, stack: ExitStack) -> Worker[Any]:
        """Build the worker's models and load their weights.

        Args:
            here: whether the folder can be opened; otherwise ``stores`` serves it.
            stack: what it opens is closed with it.
        """


class ItemListener(Protocol):
    """Receiver of the events of one worker at one item, in the process that owns the folder."""

    @property
    def given(self) -> Any:
        """Argument of the worker's ``do``."""
        ...

    def hear(self, event: Any) -> bool:
        """Keep the result in ``event``; return whether the item is done."""
        ...

    def lost(self) -> None:
        """Handle the worker's death: another one begins with the item."""
        ...


class Task(Protocol[N_contra]):
    """Work on items, as the process sees it that owns the folder."""

    @property
    def concurrency(self) -> int:
        """Items at work in each worker."""
        ...

    @property
    def models(self) -> Any:
        """Manifest that that of each worker must equal."""
        ...

    @property
    def spec(self) -> WorkerSpec:
        """Start-up arguments of workers in other processes."""
        ...

    @property
    def callers(self) -> Iterable[Caller]:
        """Callers of this process whose accounts' limits are those of the workers."""
        ...

    async def here(self) -> Worker[Any]:
        """Return a worker with the models and stores of this process."""
        ...

    def ready(self, workers: int, of: int) -> None:
        """Report how many workers in other processes are ready.

        ``of`` is 0 while the cluster is being reached.
        """
        ...

    def begin(self, position: int, item: N_contra) -> ItemListener:
        """Return the listener for a worker that begins with ``item``."""
        ...


class Engine(Protocol):
    """Protocol of an engine, which has workers do the items of a task."""

    @property
    def name(self) -> str:
        """Name on the command line."""
        ...

    def overrides(self, given: M | None, root: Path, kind: type[M]) -> M:
        """Return the models that replace those of the configuration.

        Args:
            given: models of the caller.
            root: where relative paths of the configuration begin.
            kind: their type, which without arguments replaces none.

        Raises:
            EvalError: the engine cannot use these models.
        """
        ...

    def at_work(
        self, task: Task[T]
    ) -> AbstractAsyncContextManager[Callable[[Items[T]], Awaitable[None]]]:
        """Return a context that gives a function which does items; workers start with the first.

        It raises what reading the items, the work and the task's listeners raise, and ``EvalError``
        where workers cannot start; finished work is kept.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalEngine:
    """Engine that works in this process, on ``concurrency`` items at a time."""

    name: str = "local"

    def overrides(self, given: M | None, root: Path, kind: type[M]) -> M:
        """Return ``given``, or no overrides."""
        return kind() if given is None else given

    @asynccontextmanager
    async def at_work(self, task: Task[T]) -> AsyncIterator[Callable[[Items[T]], Awaitable[None]]]:
        """Yield the function that has the models of this process do items."""
        worker: Worker[Any] | None = None

        async def do(found: tuple[int, T]) -> None:
            listener = task.begin(*found)
            assert worker is not None
            listener.hear(await worker.do(listener.given, listener.hear))

        async def work(items: Items[T]) -> None:
            nonlocal worker
            worker = worker or await task.here()
            async with aclosing(items) as stream:
                await side_by_side(stream, do, task.concurrency)

        yield work


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


async def numbered(items: Iterable[T]) -> AsyncGenerator[tuple[int, T]]:
    """Yield the items with their positions, read in a thread a few at a time.

    Raises ``EvalError`` if two have the same id.
    """
    iterator: Iterator[T] = iter(items)
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
    """Event: a unit that may fail was made, whole or failed."""

    unit: Unit
    """The unit without its rows."""


@dataclass(frozen=True, slots=True)
class Finished:
    """Event: the item is done."""

    keys: list[str]
    """Its units, in the order of the tables."""


@dataclass(slots=True)
class ReportingUnits:
    """Units of one item; new ones are told at once."""

    known: KnownUnits
    """Finished before."""
    tell: Tell
    mine: dict[str, Unit] = field(default_factory=dict)
    """Finished for this item now."""

    def get(self, key: str) -> Unit | None:
        """Return the unit of ``key`` if it is finished."""
        return self.mine.get(key) or self.known.get(key)

    def put(self, units: Iterable[Unit]) -> None:
        """Tell of ``units``."""
        made = list(units)
        self.mine.update((unit.key, unit) for unit in made)
        self.tell(Made(made))


@dataclass(slots=True)
class UnitListener(Generic[T]):
    """Listener that keeps the units of one item in a journal."""

    journal: Journal
    plan: str
    """Digest of the evaluation."""
    position: int
    """Position of the item in the set."""
    given: T
    count: Callable[..., object]
    """Called with increments as a :class:`~scenewright.evals.runner.progress.ProgressReporter`."""
    ended: Callable[[Unit], object]
    """Called with every new unit that may fail; its errors end the work."""
    counts: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Progress counts of this item."""

    def hear(self, event: Any) -> bool:
        """Keep the result in ``event``; return whether the item is done."""
        match event:
            case Made(units):
                self.journal.put(units)
            case Counted(more):
                for name, by in more.items():
                    self.counts[name] += by
                self.count(**more)
            case Ended(unit):
                self.ended(unit)
            case Finished(keys):
                self.journal.plan(self.plan, self.position, keys)
                self.count(items=1)
                return True
        return False

    def lost(self) -> None:
        """Take back the counts of pictures, which the next worker finds and counts again."""
        self.count(pictures=-self.counts["pictures"], found=-self.counts["found"])


class UnitWork:
    """Work in keyed units: finished ones are not repeated, and failures are units too."""

    def __init__(
        self,
        units: Units,
        *,
        retry: bool,
        count: Callable[..., object],
        ended: Callable[[Unit], object],
    ) -> None:
        """Set up the work.

        Args:
            units: store of finished units.
            retry: whether failed and unscored units are tried again.
            count: called with increments as a
                :class:`~scenewright.evals.runner.progress.ProgressReporter` is.
            ended: called with every new unit that may fail; its errors end the work.
        """
        self._units = units
        self._retry = retry
        self._tell = count
        self._note = ended

    async def unit(
        self,
        key: str,
        make: Callable[[Unit | None], Awaitable[Unit]],
        failed: Callable[[str], Unit] | None = None,
        *,
        seconds: float | None = None,
        late: str = "not done",
    ) -> tuple[Unit, bool]:
        """Return the unit of ``key``, and whether it is new and to be kept.

        ``make`` gets an earlier try. Its errors, and more than ``seconds``, make the unit of
        ``failed`` with the reason, if there is one. Requests of another try have other keys: a
        reply of no use would come again under the same.
        """
        before = self._units.get(key)
        if before is not None and (before.state == "done" or not self._retry):
            return before, False
        tries = 0 if before is None else 1 + before.facts.get(_TRIES, 0)
        try:
            async with asyncio.timeout(seconds) as limit:
                with identified(f"{key}:{tries}" if tries else key):
                    unit = await make(before)
        except Exception as error:
            if failed is None:
                raise
            late_by = f"{late} within {seconds:g} s" if limit.expired() else ""
            unit = failed(late_by or error_text(error))
        if tries and unit.state != "done":
            unit = replace(unit, facts={**unit.facts, _TRIES: tries})
        return unit, True

    def keep(self, unit: Unit) -> Unit:
        """Keep a new unit that may fail, and count what it took."""
        self._units.put([unit])
        took = [row for table in ("rounds", "answers") for row in unit.rows.get(table, ())]
        took += [unit.facts["spent"]] if "spent" in unit.facts else []
        self._tell(
            failed=int(unit.state == "failed"),
            tokens=sum(row["tokens_in"] + row["tokens_out"] for row in took),
            usd=sum(row["usd"] for row in took),
        )
        self._note(unit)
        return unit
