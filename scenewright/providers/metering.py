"""What the calls of a task cost, counted where they end: by whoever wants to know.

A composer or a chat model returns words, not accounts; the node that asked it meters it::

    with metered() as spent:
        prompt = await composer.compose(scene, seed)
    spent.usd, spent.usage.tokens_in
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from scenewright.providers.usage import Usage


@dataclass(slots=True)
class Meter:
    """What was spent so far."""

    usage: Usage = field(default_factory=Usage)
    """Tokens of all calls, lost ones included."""
    usd: float = 0.0
    """Their price."""
    calls: int = 0
    """How many calls ended."""
    seconds: float = 0.0
    """Seconds in their attempts, side by side or not."""


_METERS: ContextVar[tuple[Meter, ...]] = ContextVar("scenewright_meters", default=())


@contextmanager
def metered() -> Iterator[Meter]:
    """Counts the calls of this task and of the tasks that it starts inside; may be nested."""
    meter = Meter()
    token = _METERS.set((*_METERS.get(), meter))
    try:
        yield meter
    finally:
        _METERS.reset(token)


def count(usage: Usage, usd: float, seconds: float) -> None:
    """Tells all meters around this task of a call that ended."""
    for meter in _METERS.get():
        meter.usage = meter.usage + usage
        meter.usd += usd
        meter.calls += 1
        meter.seconds += seconds
