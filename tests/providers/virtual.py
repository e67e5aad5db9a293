"""An event loop whose time passes at once, and calls to make on it."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any, TypeVar

import pytest
from hypothesis import settings

from scenewright.providers.caller import Caller
from scenewright.providers.retry import Backoff, Decision, PermanentError
from scenewright.providers.usage import CallResult, PriceTable, Reply, Usage

T = TypeVar("T")

REPEATABLE = settings(deadline=None, derandomize=True, max_examples=60)

STEADY = Backoff(initial=1.0, maximum=8.0, jitter=0.0)


class _Selector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise RuntimeError("every task waits for something that will never happen")
        # Time stands still for no real loop: who waits for a rounding error would do so for ever.
        self.now += max(1e-6, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """Jumps to the next timer instead of waiting for it."""

    def __init__(self) -> None:
        self._clock = _Selector()
        super().__init__(self._clock)

    def time(self) -> float:
        return self._clock.now


def run(main: Coroutine[Any, Any, T]) -> T:
    """What ``main`` returns on a loop of its own."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def now() -> float:
    return asyncio.get_running_loop().time()


def throttle_in_virtual_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """asyncio-throttle reads the machine's clock; here it reads the loop's."""
    monkeypatch.setattr("asyncio_throttle.throttler.time", SimpleNamespace(monotonic=now))


class Said(Exception):
    """An SDK's error that carries what it means."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason)
        self.decision = decision


def classify(error: Exception) -> Decision:
    return (
        error.decision
        if isinstance(error, Said)
        else PermanentError(f"{type(error).__name__}: {error}")
    )


class Provider:
    """Answers with what its script says, in turn, then with ``ok``."""

    def __init__(self, *script: Exception | float | str, takes: float = 0.2) -> None:
        """An exception is raised, a number of seconds passes more, a text is the reply's value."""
        self.script = list(script)
        self.takes = takes
        self.times: list[float] = []
        self.under_way = 0
        self.most = 0
        self.cancelled = 0

    async def send(self) -> Reply[str]:
        step = self.script.pop(0) if self.script else "ok"
        self.times.append(now())
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await asyncio.sleep(self.takes + (step if isinstance(step, float) else 0.0))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.under_way -= 1
        if isinstance(step, Exception):
            raise step
        value = step if isinstance(step, str) else "late"
        return Reply(value, Usage(1000, 100, 200), request_id=f"req-{len(self.times)}")


async def put(
    caller: Caller, provider: Provider, *, tokens: int = 1100, label: str = ""
) -> CallResult:
    return await caller.call(
        provider.send,
        classify=classify,
        provider="openai",
        model="gpt-4o-mini",
        tokens=tokens,
        label=label,
    )


PRICES = PriceTable.load()


def get_caller(*args: Any, **options: Any) -> Caller:
    return Caller("mine", *args, **{"backoff": STEADY, "prices": PRICES, **options})


def nothing_is_held(caller: Caller) -> bool:
    """No place, no turn and no call is left behind."""
    limits = caller.limits
    return not (limits.slots.under_way or limits._line._taken or caller.open_calls)
