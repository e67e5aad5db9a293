"""Gates of devices and threads of local models: work on one device runs in sequence.

Each local model has a thread that works through its requests. Two models on one accelerator would
share its memory and slow each other down, so each batch passes the gate of its device first. Judges
behind APIs need no gate, and a CPU's gate is always open: the system schedules it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

_OPEN = frozenset({"cpu", "meta"})


class Stopped(RuntimeError):
    """The work was stopped before its turn."""


class Stop:
    """Stop signal for work in another thread; wakes it if it waits for its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._sleepers: list[threading.Event] = []

    def set(self) -> None:
        """Set the signal, permanently."""
        with self._lock:
            self._set = True
            for sleeper in self._sleepers:
                sleeper.set()

    def is_set(self) -> bool:
        """Return whether the signal is set."""
        return self._set

    @contextmanager
    def waking(self, sleeper: threading.Event) -> Iterator[None]:
        """Set ``sleeper`` together with the signal, inside the block."""
        with self._lock:
            self._sleepers.append(sleeper)
            if self._set:
                sleeper.set()
        try:
            yield
        finally:
            with self._lock:
                self._sleepers.remove(sleeper)


class DeviceGate:
    """Gate for one thread at a time, in the order of arrival."""

    def __init__(self, *, open: bool = False) -> None:
        """``open``: the gate never blocks."""
        self._open = open
        self._lock = threading.Lock()
        # The first of the line is the one at work.
        self._line: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """Number of waiting threads."""
        with self._lock:
            return max(0, len(self._line) - 1)

    @contextmanager
    def turn(self, stop: Stop) -> Iterator[None]:
        """Hold the device for the block, after a wait for the turn; not to be nested.

        Blocks the calling thread, which must not be that of an event loop. Raises ``Stopped`` as
        soon as ``stop`` is set while it waits; its place in the line is then free.
        """
        if self._open:
            yield
            return
        called = threading.Event()
        with self._lock:
            self._line.append(called)
            if len(self._line) == 1:
                called.set()
        try:
            with stop.waking(called):
                called.wait()
            if stop.is_set():
                raise Stopped("the work was stopped before the device was free")
            yield
        finally:
            with self._lock:
                self._line.remove(called)
                if self._line:
                    self._line[0].set()


LOADING = threading.Lock()
"""Held while a model is loaded, because model libraries set the default device and dtype of the
whole process meanwhile. Acquired last, within a turn.
"""
_GATES: dict[str, DeviceGate] = {}
_GATES_LOCK = threading.Lock()


def gate_of(device: str) -> DeviceGate:
    """Return the gate of ``device``, as torch writes it: ``cuda:1``, ``mps``.

    The same for all of the process. A device without a number is the first of its kind.
    """
    kind, _, number = device.partition(":")
    name = f"{kind}:{number or 0}"
    with _GATES_LOCK:
        if name not in _GATES:
            _GATES[name] = DeviceGate(open=kind in _OPEN)
        return _GATES[name]


SMALL_MODEL = 50_000_000
"""Parameters up to which a model on a CPU computes with one thread.

Where other programs run, threads that wait for each other take many times as long.
"""
_every_thread: int | None = None


def limit_threads(modules: Iterable[torch.nn.Module]) -> None:
    """Let the calling thread compute with one thread for a small model, with all for another.

    ``modules``: the parts of the one model that runs in the calling thread. Changes nothing where
    one lies on an accelerator or where the environment sets ``OMP_NUM_THREADS``.
    """
    global _every_thread
    weights = [weight for module in modules for weight in module.parameters()]
    if os.environ.get("OMP_NUM_THREADS") or any(w.device.type != "cpu" for w in weights):
        return
    import torch

    parameters = sum(weight.numel() for weight in weights)
    with _GATES_LOCK:
        if _every_thread is None:
            _every_thread = torch.get_num_threads()
        # OpenMP keeps the number of each thread by itself.
        torch.set_num_threads(1 if parameters <= SMALL_MODEL else _every_thread)


T = TypeVar("T")


class ModelThread:
    """Thread of a model: runs work in order while the event loop stays free."""

    def __init__(self, name: str) -> None:
        """``name``: prefix of the thread's name."""
        self.closed = False
        """Whether :meth:`aclose` was called; no more work is accepted then."""
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)

    async def run(self, work: Callable[[Stop], T]) -> T:
        """Run ``work`` in the thread.

        Cancelling sets the ``Stop`` passed to it.
        """
        stop = Stop()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, stop)
        except asyncio.CancelledError:
            stop.set()
            raise

    async def aclose(self) -> None:
        """Wait for the running work and cancel what is in line."""
        self.closed = True
        await asyncio.to_thread(self._pool.shutdown, True, cancel_futures=True)
