"""One gate a device: what computes on an accelerator does so one after the other.

Each local model has a thread of its own that works through its requests. Two of them on one
accelerator, a generator and a judge or two generators, would share its memory and slow each other
down; so each batch of work passes the gate of its device first. Judges behind APIs pass none and
go on meanwhile. A CPU's gate is open: the system shares it out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

_OPEN = frozenset({"cpu", "meta"})


class Stopped(RuntimeError):
    """The work was asked to end before its turn came."""


class Stop:
    """Asks work in another thread to end, and wakes it where it waits for its turn."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._set = False
        self._sleepers: list[threading.Event] = []

    def set(self) -> None:
        """Ask for the end; for good."""
        with self._lock:
            self._set = True
            for sleeper in self._sleepers:
                sleeper.set()

    def is_set(self) -> bool:
        """Whether it was asked for."""
        return self._set

    @contextmanager
    def waking(self, sleeper: threading.Event) -> Iterator[None]:
        """Sets ``sleeper`` as well, if it comes to that."""
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
    """Lets one thread at a time through, in the order in which they came."""

    def __init__(self, *, open: bool = False) -> None:
        """``open``: lets everybody through at once."""
        self._open = open
        self._lock = threading.Lock()
        # The first of the line is the one at work.
        self._line: deque[threading.Event] = deque()

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn."""
        with self._lock:
            return max(0, len(self._line) - 1)

    @contextmanager
    def turn(self, stop: Stop) -> Iterator[None]:
        """Waits for the turn and holds the device; not to be nested.

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
"""Held while a model is loaded: the model libraries set the default device and dtype of the whole
process meanwhile, so that two loads at once spoil each other. Taken last, within a turn."""
_GATES: dict[str, DeviceGate] = {}
_GATES_LOCK = threading.Lock()


def gate_of(device: str) -> DeviceGate:
    """The gate of ``device``, as torch writes it: ``cuda:1``, ``mps``; the same for all of the
    process. A device without a number is the first of its kind."""
    kind, _, number = device.partition(":")
    name = f"{kind}:{number or 0}"
    with _GATES_LOCK:
        if name not in _GATES:
            _GATES[name] = DeviceGate(open=kind in _OPEN)
        return _GATES[name]
