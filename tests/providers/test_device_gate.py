"""A device does one thing at a time, in the order in which it was asked."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from scenewright.providers.device_gate import DeviceGate, Stop, Stopped, gate_of

SECONDS = 60.0


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.001)


class Work:
    """Counts who is at work at the same time, and who was in which order."""

    def __init__(self, gate: DeviceGate) -> None:
        self.gate = gate
        self.lock = threading.Lock()
        self.now = 0
        self.most = 0
        self.order: list[int] = []

    def do(self, number: int) -> None:
        with self.gate.turn(Stop()):
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
                self.order.append(number)
            time.sleep(0.001)
            with self.lock:
                self.now -= 1


def test_never_two_at_once() -> None:
    work = Work(DeviceGate())
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work.do, range(64)))
    assert (work.most, sorted(work.order)) == (1, list(range(64)))
    assert work.gate.waiting == 0


def test_who_comes_first_goes_first() -> None:
    work = Work(DeviceGate())
    with ThreadPoolExecutor(6) as pool:
        with work.gate.turn(Stop()):
            for number in range(6):
                pool.submit(work.do, number)
                until(lambda number=number: work.gate.waiting == number + 1)
        until(lambda: len(work.order) == 6)
    assert work.order == list(range(6))


def test_who_stops_waiting_frees_its_place_and_the_next_goes_on() -> None:
    work, stop = Work(DeviceGate()), Stop()

    def wait() -> None:
        with work.gate.turn(stop):
            raise AssertionError("its turn must not come")

    with ThreadPoolExecutor(3) as pool:
        with work.gate.turn(Stop()):
            pool.submit(work.do, 1)
            until(lambda: work.gate.waiting == 1)
            left = pool.submit(wait)
            until(lambda: work.gate.waiting == 2)
            pool.submit(work.do, 2)
            until(lambda: work.gate.waiting == 3)
            stop.set()
            with pytest.raises(Stopped):
                left.result(SECONDS)
            # While the device is still held.
            assert (work.gate.waiting, work.order) == (2, [])
        until(lambda: len(work.order) == 2)
    assert work.order == [1, 2]


def test_who_was_stopped_before_gets_no_turn_of_a_free_device() -> None:
    gate, stop = DeviceGate(), Stop()
    stop.set()
    with pytest.raises(Stopped), gate.turn(stop):
        raise AssertionError("its turn must not come")
    with gate.turn(Stop()):
        assert gate.waiting == 0


def test_work_that_fails_lets_the_next_one_in() -> None:
    gate = DeviceGate()
    with pytest.raises(ZeroDivisionError), gate.turn(Stop()):
        raise ZeroDivisionError
    with gate.turn(Stop()):
        assert gate.waiting == 0


@pytest.mark.parametrize(
    ("one", "other"), [("fake:0", "fake:1"), ("fake:2", "other:2"), ("cpu", "cpu")]
)
def test_different_devices_and_a_cpu_work_side_by_side(one: str, other: str) -> None:
    meeting = threading.Barrier(2, timeout=SECONDS)

    def work(device: str) -> None:
        with gate_of(device).turn(Stop()):
            meeting.wait()

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(work, one), pool.submit(work, other)]:
            done.result(SECONDS)


def test_a_device_has_one_gate_whatever_it_is_called() -> None:
    assert gate_of("cuda") is gate_of("cuda:0") is not gate_of("cuda:1")
    assert gate_of("mps") is not gate_of("cuda")


def test_one_gate_serves_the_threads_of_several_event_loops() -> None:
    work = Work(DeviceGate())

    def loop(first: int) -> None:
        async def main() -> None:
            await asyncio.gather(*(asyncio.to_thread(work.do, first + at) for at in range(8)))

        asyncio.run(main())

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(loop, [0, 8]))
    assert (work.most, sorted(work.order)) == (1, list(range(16)))
