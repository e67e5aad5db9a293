"""Gates of devices and threads of local models: work on one device runs in sequence.

Each local model has a thread that works through its requests. Two models on one accelerator would
share its memory and slow each other down, so each batch passes the gate of its device first. Judges
behind APIs need no gate, and a CPU's gate is always open: the system schedules it.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import torch

_OPEN = frozenset({"cpu", "meta"})


class Stopped(RuntimeError):
    """The work was stopped before its turn."""


_CHANGED = threading.Condition()
"""Guards all gates and stop signals: changes are rare, and few threads wait for one."""


class Stop:
    """Stop signal for work in another thread; wakes it if it waits for its turn."""

    def __init__(self) -> None:
        self._set = False

    def set(self) -> None:
        """Set the signal, permanently."""
        with _CHANGED:
            self._set = True
            _CHANGED.notify_all()

    def is_set(self) -> bool:
        """Return whether the signal is set."""
        return self._set


class DeviceGate:
    """Gate for one thread at a time, in the order of arrival."""

    def __init__(self, *, open: bool = False) -> None:
        """``open``: the gate never blocks."""
        self._open = open
        # The first of the line is the one at work.
        self._line: list[object] = []

    @property
    def waiting(self) -> int:
        """Number of waiting threads."""
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
        place = object()
        with _CHANGED:
            self._line.append(place)
        try:
            with _CHANGED:
                _CHANGED.wait_for(lambda: stop.is_set() or self._line[0] is place)
            if stop.is_set():
                raise Stopped("the work was stopped before the device was free")
            yield
        finally:
            with _CHANGED:
                self._line.remove(place)
                _CHANGED.notify_all()


LOADING = threading.Lock()
"""Held while a model is loaded, because model libraries set the default device and dtype of the
whole process meanwhile. Acquired last, within a turn.
"""
_GATES: dict[str, DeviceGate] = {}


def gate_of(device: str) -> DeviceGate:
    """Return the gate of ``device``, as torch writes it: ``cuda:1``, ``mps``.

    The same for all of the process. A device without a number is the first of its kind.
    """
    kind, _, number = device.partition(":")
    return _GATES.setdefault(f"{kind}:{number or 0}", DeviceGate(open=kind in _OPEN))


SMALL_MODEL = 50_000_000
"""Parameters up to which a model on a CPU computes with one thread.

Where other programs run, threads that wait for each other take many times as long.
"""


@cache
def _all_threads() -> int:
    """Return how many threads torch takes before :func:`limit_threads` changes it."""
    import torch

    return torch.get_num_threads()


def limit_threads(modules: Iterable[torch.nn.Module]) -> None:
    """Let the calling thread compute with one thread for a small model, with all for another.

    ``modules``: the parts of the one model that runs in the calling thread. Changes nothing where
    one lies on an accelerator or where the environment sets ``OMP_NUM_THREADS``.
    """
    weights = [weight for module in modules for weight in module.parameters()]
    if os.environ.get("OMP_NUM_THREADS") or any(w.device.type != "cpu" for w in weights):
        return
    import torch

    every = _all_threads()
    parameters = sum(weight.numel() for weight in weights)
    # OpenMP keeps the number of each thread by itself.
    torch.set_num_threads(1 if parameters <= SMALL_MODEL else every)


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
