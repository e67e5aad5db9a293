"""Attempts of calls that failed and are made again, told while their call goes on.

A call that is lost says so itself; one that is tried again would be silent for minutes. The node
that makes it listens::

    with telling(lambda attempt: emit(runtime, ...)):
        prompt = await composer.compose(scene, seed)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LONG_SECONDS = 10.0
"""Seconds from which an attempt is one that people wait for."""


@dataclass(frozen=True, slots=True)
class FailedAttempt:
    """One request of a call that failed, and is sent again."""

    account: str
    """The account that it was sent for."""
    model: str
    """The model, as the provider names it."""
    label: str
    """What was asked of it."""
    number: int
    """Which attempt of the call it was, from 1."""
    seconds: float
    """How long it took."""
    reason: str
    """Why it failed, without secrets."""
    wait: float
    """Seconds until the next attempt."""


Listener = Callable[[FailedAttempt], None]
_LISTENERS: ContextVar[tuple[Listener, ...]] = ContextVar("scenewright_listeners", default=())


@contextmanager
def listen_for_retries(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` of each failed attempt of this task and of the tasks that it starts."""
    token = _LISTENERS.set((*_LISTENERS.get(), listener))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


def notify_retry(attempt: FailedAttempt) -> None:
    """Tell all listeners around this task of an attempt."""
    for listener in _LISTENERS.get():
        listener(attempt)
