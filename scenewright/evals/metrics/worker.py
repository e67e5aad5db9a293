"""One thread that owns a model: encoders of metrics work there, and the event loop stays free."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from scenewright.evals.metrics.base import MetricError
from scenewright.evals.store.journal import Features
from scenewright.providers.device_gate import LOADING, Stop, gate_of

Model = TypeVar("Model")
Thing = TypeVar("Thing")


class Worker(Generic[Model]):
    """A model that is loaded with the first work and kept.

    Work is done batch by batch; on an accelerator each batch waits for the device's turn, as
    that of judges and backends does.
    """

    def __init__(self, name: str, device: str, load: Callable[[str], Model]) -> None:
        """``name``: for errors; ``device``: ``auto``, ``cpu``, ``cuda:1``, …; ``load``: makes the
        model for the device that it is given."""
        self._name = name
        self._wanted = device
        self._load = load
        self._model: Model | None = None
        self._failure: MetricError | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="metric")

    @property
    def device(self) -> str:
        """Where the model works, with ``auto`` resolved; ``MetricError`` if it has no such name."""
        # Imported here: torch takes long to load.
        from scenewright.agents.judges.vlm import device_of

        try:
            return str(device_of(self._wanted))
        except RuntimeError as error:
            raise MetricError(
                f"{self._name}: no device {self._wanted!r} ({str(error).splitlines()[0]}): use "
                "auto, cpu, cuda or cuda:1"
            ) from error

    async def rows(
        self,
        things: Sequence[Thing],
        batch: int,
        work: Callable[[Model, Sequence[Thing]], Features],
    ) -> Features:
        """What ``work`` makes of ``things``, ``batch`` at a time, one under the other.

        Cancelling ends the work after the batch at hand, and waits for that. Raises
        ``MetricError`` if the model cannot be loaded, and what ``work`` raises.
        """
        stop = Stop()
        done = asyncio.get_running_loop().run_in_executor(
            self._thread, self._rows, tuple(things), batch, work, stop
        )
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([done])
            # Asked for, so that the loop does not report it as forgotten.
            done.exception()
            raise

    async def ready(self) -> Model:
        """The model, loaded."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._loaded, Stop())

    def _rows(
        self,
        things: Sequence[Thing],
        batch: int,
        work: Callable[[Model, Sequence[Thing]], Features],
        stop: Stop,
    ) -> Features:
        model = self._loaded(stop)
        gate = gate_of(self.device)
        found: list[Features] = []
        for part in _parts(things, batch):
            if stop.is_set():
                break
            with gate.turn(stop):
                found.append(work(model, part))
        return np.concatenate(found) if found else np.zeros((0, 0), np.float32)

    def _loaded(self, stop: Stop) -> Model:
        if self._failure is not None:
            raise self._failure
        if self._model is None:
            device = self.device
            try:
                with gate_of(device).turn(stop), LOADING:
                    self._model = self._load(device)
            except MetricError as error:
                self._failure = error
                raise
        return self._model


_WORKERS: WeakValueDictionary[tuple[object, ...], Worker[object]] = WeakValueDictionary()
_WORKERS_LOCK = threading.Lock()


def shared(key: tuple[object, ...], make: Callable[[], Worker[Model]]) -> Worker[Model]:
    """The worker of ``key`` while anybody uses it: two metrics of one network load it once."""
    with _WORKERS_LOCK:
        found: Worker[Model] | None = _WORKERS.get(key)  # type: ignore[assignment]
        if found is None:
            found = make()
            _WORKERS[key] = found  # type: ignore[assignment]
        return found


def _parts(things: Sequence[Thing], batch: int) -> Iterator[Sequence[Thing]]:
    for begin in range(0, len(things), batch):
        yield things[begin : begin + batch]
