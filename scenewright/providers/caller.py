"""Caller of an account: every request passes limits, timeout, retries, usage and log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from scenewright.core.error_text import error_text, scrubbed
from scenewright.providers.limits import AccountLimits, Limits, MakeGate, RateLimiter, gate_of
from scenewright.providers.retry import (
    LONG_SECONDS,
    AccountPaused,
    Backoff,
    CallError,
    Decision,
    Failed,
    FailedAttempt,
    PermanentError,
    RateLimited,
    Retries,
    Transient,
    UnusableReply,
    notify_retry,
    sending,
)
from scenewright.providers.sdk_clients import CallKeys
from scenewright.providers.usage import CallResult, PriceTable, Reply, Usage, count

T = TypeVar("T")

_LOG = logging.getLogger("scenewright.providers")


@dataclass(frozen=True, slots=True)
class Totals:
    """Totals of an account's finished calls: answered, lost or cancelled."""

    answered: int = 0
    """Calls with a usable reply."""
    lost: int = 0
    """Calls that failed for good."""
    cancelled: int = 0
    """Calls whose waiting task was cancelled."""
    attempts: int = 0
    """Requests sent for them."""
    rate_limited: int = 0
    """Requests that the provider refused because of its limits."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all replies, unusable ones included."""
    usd: float = 0.0
    """Their price; a model without a known price counts 0."""
    seconds: float = 0.0
    """Summed duration of all requests."""
    waited: float = 0.0
    """Summed seconds of waiting in line and between attempts."""

    @property
    def calls(self) -> int:
        """All finished calls."""
        return self.answered + self.lost + self.cancelled


@dataclass(slots=True)
class _Course(Generic[T]):
    """State of one call."""

    send: Callable[[], Awaitable[Reply[T]]]
    classify: Callable[[Exception], Decision]
    provider: str
    model: str
    tokens: int
    """Estimate of input and output together."""
    label: str
    """Name in the log."""
    started: float
    """Arrival, by the loop's clock."""
    retries: Retries
    keys: CallKeys = field(default_factory=CallKeys)
    """Idempotency keys of its requests."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of its replies."""
    usd: float = 0.0
    """Their price."""
    rate_limited: int = 0
    """Attempts refused because of a limit."""
    seconds: float = 0.0
    """Duration of its attempts."""
    last: float = 0.0
    """Duration of its last attempt."""
    request_id: str = ""
    """The provider's name for the attempt that was answered."""


class Caller:
    """Sends the requests of one account in one event loop.

    Each attempt waits in the account's line, then has ``timeout`` seconds. A failed attempt holds
    no place while it waits for the next one, which then goes ahead of new calls.
    """

    def __init__(
        self,
        account: str,
        limits: Limits = Limits(),  # noqa: B008 - a constant
        *,
        timeout: float = 60.0,
        attempts: int = 6,
        max_wait: float = 600.0,
        prices: PriceTable | None = None,
        priced: bool = True,
        backoff: Backoff = Backoff(),  # noqa: B008 - a constant
        gate: RateLimiter | None = None,
    ) -> None:
        """``account``: its name in the log, not its key. ``timeout``: seconds of one attempt.

        ``attempts``: most requests of one call, not counting rate limited ones; ``max_wait``: most
        seconds that it waits after failures. ``prices``: None takes the built-in ones; ``priced``:
        whether to warn of a model without a price. ``gate``: what keeps the limits, where it is
        not this process alone; closed with the caller. Raises ``ValueError`` for bounds that let no
        request pass.
        """
        if attempts < 1 or timeout <= 0 or max_wait < 0:
            raise ValueError(
                "a call needs at least one attempt, some time for it, and no negative patience"
            )
        self.account = account
        self._bounds = limits
        self.limits: RateLimiter = gate_of(account, limits, backoff) if gate is None else gate
        self._timeout = timeout
        self._attempts = attempts
        self._patience = max_wait
        self._backoff = backoff
        self._prices = prices if prices is not None else PriceTable.load()
        self._priced = priced
        self._totals = Totals()
        self._unpriced: set[tuple[str, str]] = set()
        self._closed = False
        self._open: set[asyncio.Timeout] = set()
        self._all_over = asyncio.Event()

    @property
    def totals(self) -> Totals:
        """What the calls finished so far took."""
        return self._totals

    @property
    def open_calls(self) -> int:
        """Calls in line, waiting for another attempt, or in flight."""
        return len(self._open)

    def price_of(self, provider: str, model: str, usage: Usage) -> float | None:
        """Return the dollars that ``usage`` costs; None if the price is unknown.

        Where nothing is charged it is 0.
        """
        found = self._prices.usd(provider, model, usage)
        return found if found is not None or self._priced else 0.0

    async def call(
        self,
        send: Callable[[], Awaitable[Reply[T]]],
        *,
        classify: Callable[[Exception], Decision],
        provider: str,
        model: str,
        tokens: int,
        label: str = "",
    ) -> CallResult[T]:
        """Send until a usable reply comes or limits and retries are exhausted.

        ``send`` makes one attempt; what it raises, ``classify`` decides on, but ``UnusableReply``
        was paid for and is sent again twice at most. ``tokens`` estimates input and output
        together, for the tokens per minute. ``label`` identifies the call in the log. Inside a
        scope of :func:`~scenewright.providers.sdk_clients.identified` all attempts have one key
        until a complete reply comes.

        Raises ``CallError`` when it is lost. ``CancelledError`` ends the attempt and goes through.
        """
        course = _Course(
            send, classify, provider, model, max(0, tokens), label,
            started=asyncio.get_running_loop().time(),
            retries=Retries(self._attempts, self._patience, self._backoff),
        )  # fmt: skip
        try:
            done = await self._until_closed(course)
        except CallError as error:
            self._finish(course, "lost", error.decision)
            raise
        except asyncio.CancelledError:
            self._finish(course, "cancelled")
            raise
        except Exception as error:
            self._finish(course, "lost", PermanentError(error_text(error)))
            raise
        else:
            self._finish(course, "answered")
            return done
        finally:
            course.keys.lost()

    @contextmanager
    def sharing(self, make: MakeGate) -> Iterator[None]:
        """Use a gate of ``make`` for calls inside the block, instead of this process's limits.

        Limits that are already kept elsewhere stay. No call may be in flight at the start and end.
        """
        before = self.limits
        if isinstance(before, AccountLimits):
            self.limits = make(self.account, self._bounds, self._backoff)
        try:
            yield
        finally:
            self.limits = before

    async def aclose(self) -> None:
        """Cancel the calls in flight and refuse further ones, both with ``CallError``."""
        self._closed = True
        now = asyncio.get_running_loop().time()
        for scope in self._open:
            if not scope.expired():
                scope.reschedule(now)
        while self._open:
            self._all_over.clear()
            await self._all_over.wait()
        close = getattr(self.limits, "close", None)
        if close is not None:
            await asyncio.to_thread(close)

    async def _until_closed(self, course: _Course[T]) -> CallResult[T]:
        if self._closed:
            raise self._lost(course, PermanentError(f"the account {self.account} is closed"))
        scope = asyncio.timeout(None)
        try:
            async with scope:
                self._open.add(scope)
                try:
                    return await self._attempted(course)
                finally:
                    self._open.discard(scope)
                    self._all_over.set()
        except TimeoutError:
            if not scope.expired():
                raise
            reason = f"the account {self.account} was closed before the call was over"
            raise self._lost(course, PermanentError(reason)) from None

    async def _attempted(self, course: _Course[T]) -> CallResult[T]:
        try:
            async for attempt in sending():
                outcome = await self._attempt(course)
                if isinstance(outcome, Reply):
                    return CallResult(
                        value=outcome.value,
                        usage=course.usage,
                        usd=course.usd,
                        seconds=course.last,
                        attempts=course.retries.sent,
                        waited=self._waited(course),
                    )
                self._tell(course, outcome)
                with attempt:
                    raise outcome
        except Failed as last:
            # The provider's own error may hold a key: it is not chained.
            raise self._lost(course, last.decision) from None
        raise AssertionError("stamina ended without an attempt")

    async def _attempt(self, course: _Course[T]) -> Reply[T] | Failed:
        """Make one attempt, including the wait in line."""
        loop = asyncio.get_running_loop()
        retries = course.retries
        try:
            ticket = await self.limits.enter(
                course.tokens, ahead=retries.sent > 0, max_wait=retries.left
            )
        except AccountPaused as pause:
            why = pause.why or (
                f"the provider paused the account {self.account} for {pause.seconds:.0f} s"
            )
            reason = f"{why}, and of {self._patience:g} s of patience {retries.left:.0f} s are left"
            return Failed(RateLimited(reason, pause.seconds), None)
        retries.sent += 1
        begun = loop.time()
        try:
            outcome = await self._sent(course)
        finally:
            course.last = loop.time() - begun
            course.seconds += course.last
            self.limits.leave(ticket)
        match outcome:
            case Reply():
                course.keys.replied()
                course.request_id = outcome.request_id
                self._pay(course, outcome.usage)
                self.limits.answered(ticket, _sum(outcome.usage))
                return outcome
            case UnusableReply():
                course.keys.replied()
                self._pay(course, outcome.usage)
                self.limits.answered(ticket, _sum(outcome.usage))
                return retries.unusable(scrubbed(outcome.reason), outcome.retry, outcome.cut)
            case _:
                decision = replace(outcome, reason=scrubbed(outcome.reason))
                if isinstance(decision, RateLimited):
                    course.rate_limited += 1
                    self.limits.refused(ticket, decision.retry_after)
                if isinstance(decision, Transient) and decision.replied:
                    course.keys.replied()
                return retries.after(decision, paused=self.limits.paused())

    async def _sent(self, course: _Course[T]) -> Reply[T] | UnusableReply | Decision:
        try:
            async with asyncio.timeout(self._timeout) as deadline:
                with course.keys.sending():
                    return await course.send()
        except UnusableReply as reply:
            return reply
        except TimeoutError as error:
            if deadline.expired():
                return Transient(f"no reply within {self._timeout:g} s", timed_out=True)
            return course.classify(error)
        except Exception as error:
            return course.classify(error)

    def _tell(self, course: _Course[T], failed: Failed) -> None:
        """Report a failed attempt that will be repeated."""
        if failed.wait is None:
            return
        attempt = FailedAttempt(
            account=self.account,
            model=course.model,
            label=course.label,
            number=course.retries.sent,
            seconds=course.last,
            reason=failed.decision.reason,
            wait=failed.wait,
        )
        notify_retry(attempt)
        # Limits are met all the time, and what fails at once is soon tried again.
        level = logging.WARNING if attempt.seconds >= LONG_SECONDS else logging.DEBUG
        _LOG.log(
            level,
            "account=%s model=%s label=%s attempt=%d seconds=%.3f wait=%.3f reason=%s",
            *(_text(self.account), _text(course.model), _text(course.label), attempt.number),
            *(attempt.seconds, attempt.wait, _text(attempt.reason)),
            extra={
                "failed": attempt,
                "sentence": (
                    f"{self.account}:{course.model} failed at attempt {attempt.number} after "
                    f"{attempt.seconds:.1f} s, again in {attempt.wait:.1f} s: {attempt.reason}"
                ),
            },
        )

    def _pay(self, course: _Course[T], usage: Usage) -> None:
        course.usage += usage
        usd = self._prices.usd(course.provider, course.model, usage)
        if usd is not None:
            course.usd += usd
        elif self._priced and (named := (course.provider, course.model)) not in self._unpriced:
            self._unpriced.add(named)
            _LOG.warning(
                "no price is known for %s:%s, its calls count 0 dollars: "
                "add it to a file of prices",
                *named,
            )

    def _lost(self, course: _Course[T], decision: Decision) -> CallError:
        return CallError(decision, course.retries.sent, course.usage, course.usd)

    def _waited(self, course: _Course[T]) -> float:
        elapsed = asyncio.get_running_loop().time() - course.started
        return max(0.0, elapsed - course.seconds)

    def _finish(self, course: _Course[T], outcome: str, decision: Decision | None = None) -> None:
        waited = self._waited(course)
        old = self._totals
        self._totals = Totals(
            answered=old.answered + (outcome == "answered"),
            lost=old.lost + (outcome == "lost"),
            cancelled=old.cancelled + (outcome == "cancelled"),
            attempts=old.attempts + course.retries.sent,
            rate_limited=old.rate_limited + course.rate_limited,
            usage=old.usage + course.usage,
            usd=old.usd + course.usd,
            seconds=old.seconds + course.seconds,
            waited=old.waited + waited,
        )
        count(course.usage, course.usd, course.seconds)
        if decision is None:
            level = logging.INFO
        else:
            level = logging.ERROR if isinstance(decision, PermanentError) else logging.WARNING
        if not _LOG.isEnabledFor(level):
            return
        line = (
            f"account={_text(self.account)} provider={_text(course.provider)} "
            f"model={_text(course.model)} label={_text(course.label)} "
            f"request={_text(course.request_id)} outcome={outcome} "
            f"attempts={course.retries.sent} waited={waited:.3f} seconds={course.seconds:.3f} "
            f"in={course.usage.tokens_in} out={course.usage.tokens_out} "
            f"cached={course.usage.tokens_cached} usd={course.usd:.6f}"
        )
        if decision is not None:
            line += f" reason={_text(decision.reason)}"
        # For handlers that show a lost call to people.
        lost = None if decision is None else decision.reason
        about = {"lost": lost, "account": self.account, "label": course.label}
        if lost is not None:
            tries = f"{course.retries.sent} attempt{'' if course.retries.sent == 1 else 's'}"
            whose = f" ({course.label})" if course.label else ""
            about["sentence"] = (
                f"{self.account}:{course.model}{whose} gave no answer in {tries}: {lost}"
            )
        _LOG.log(level, "%s", line, extra=about)


def _sum(usage: Usage) -> int:
    return usage.tokens_in + usage.tokens_out


def _text(value: str) -> str:
    return json.dumps(scrubbed(value), ensure_ascii=False)
