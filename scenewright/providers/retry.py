"""Whether and when a failed call is sent again: decisions in, seconds or the end out."""

from __future__ import annotations

import logging
import random
from collections.abc import AsyncIterable
from dataclasses import dataclass, replace

import stamina

from scenewright.providers.decisions import Decision, PermanentError, RateLimited, Transient

_NAME = "scenewright.providers"
# Each was paid for: after two more tries the reply is what this model says.
_UNUSABLE_REPLIES = 3
# Each took all the time that an attempt has. Where nothing is drawn at random, a model that ran on
# past it once does so again; a connection that hung is mended by one more attempt.
_TIMEOUTS = 2
# A reply that reached the limit of output tokens takes long and costs most.
_CUT_REPLIES = 2


@dataclass(frozen=True, slots=True)
class Backoff:
    """Exponential waits with jitter, for failures that do not say how long to wait."""

    initial: float = 0.5
    """Seconds after the first failure; each further one doubles them."""
    maximum: float = 30.0
    """Most seconds."""
    jitter: float = 0.5
    """Share of a wait that is drawn at random, so that calls do not come back together."""

    def seconds(self, failures: int) -> float:
        """The wait after the ``failures``-th failure in a row (from 1)."""
        longest = min(self.maximum, self.initial * 2.0 ** min(failures - 1, 60))
        return longest * (1 - self.jitter * random.random())


class Failed(Exception):
    """One attempt failed."""

    def __init__(self, decision: Decision, wait: float | None) -> None:
        """``wait``: seconds until the next attempt; None if there is none."""
        super().__init__(decision.reason)
        self.decision = decision
        self.wait = wait


class Retries:
    """What one call has tried, and what it may still try.

    A rate limited attempt says nothing about the request: only ``max_wait`` bounds those. All
    others are bounded by ``attempts`` and ``max_wait``, unusable replies also by two retries, and
    timeouts and replies that were cut off by one. Patience is spent by waiting after failures, not
    by standing in line.
    """

    def __init__(self, attempts: int, max_wait: float, backoff: Backoff) -> None:
        """``attempts``: how often to send; ``max_wait``: seconds of waiting in all."""
        self.sent = 0
        self.left = max_wait
        self._attempts = attempts
        self._patience = max_wait
        self._backoff = backoff
        self._refused = 0
        self._failed = 0
        self._unusable = 0
        self._timeouts = 0
        self._cut = 0
        self._last = ""

    def after(self, decision: Decision, *, paused: float = 0.0) -> Failed:
        """What follows from ``decision``; the account is ``paused`` for so many seconds."""
        match decision:
            case PermanentError():
                return Failed(decision, None)
            case RateLimited():
                self._refused += 1
                step = 1 if decision.retry_after is not None else self._refused
                wait = max(decision.retry_after or 0.0, paused, self._backoff.seconds(step))
            case Transient():
                self._failed += 1
                self._timeouts += decision.timed_out
                again, self._last = decision.reason == self._last, decision.reason
                if again and decision.lasts_if_repeated:
                    return Failed(
                        PermanentError(f"{decision.reason}; the same answer came twice"), None
                    )
                if self._failed >= self._attempts or self._timeouts >= _TIMEOUTS:
                    return Failed(decision, None)
                wait = max(decision.retry_after or 0.0, self._backoff.seconds(self._failed))
        if wait > self.left:
            reason = (
                f"{decision.reason}; the next attempt would be in {wait:.0f} s, "
                f"and of {self._patience:g} s of patience {self.left:.0f} s are left"
            )
            return Failed(replace(decision, reason=reason), None)
        self.left -= wait
        return Failed(decision, wait)

    def unusable(self, reason: str, retry: bool, cut: bool = False) -> Failed:
        """What follows from a reply that holds nothing of use; ``cut``: it was cut off."""
        self._failed += 1
        self._unusable += 1
        self._cut += cut
        few = self._unusable < _UNUSABLE_REPLIES and self._cut < _CUT_REPLIES
        again = retry and few and self._failed < self._attempts
        return Failed(PermanentError(reason), 0.0 if again else None)


def sending() -> AsyncIterable[stamina.Attempt]:
    """Attempts of one call: each is failed with a :class:`Failed`, whose wait stamina obeys.

    The last one's :class:`Failed` is raised.
    """
    context = stamina.retry_context(on=_again, attempts=None, timeout=None)
    return context.with_name(_NAME, (), {})


def _again(error: Exception) -> bool | float:
    return error.wait if isinstance(error, Failed) and error.wait is not None else False


def _of_others(record: logging.LogRecord) -> bool:
    return getattr(record, "stamina.callable", None) != _NAME


# What calls took and what failed long is told in our own log; stamina would tell every retry.
logging.getLogger("stamina").addFilter(_of_others)
