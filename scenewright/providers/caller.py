"""Caller of an account: every request passes limits, timeout, retries, usage and log."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

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
    RequestChanged,
    Retries,
    Transient,
    UnusableReply,
    notify_retry,
    transport_decision,
)
from scenewright.providers.sdk_clients import CallKeys
from scenewright.providers.transport import listen_for_parts
from scenewright.providers.usage import CallResult, Meter, PriceTable, Reply, Usage, count

T = TypeVar("T")
Outcome = Literal["answered", "lost", "cancelled"]

_LOG = logging.getLogger("scenewright.providers")
TOTAL_TIMEOUTS = 10
"""Longest duration of an attempt whose reply keeps coming, in timeouts."""


@dataclass(slots=True)
class Totals(Meter):
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
    waited: float = 0.0
    """Summed seconds of waiting in line and between attempts."""


@dataclass(slots=True)
class _CallState(Generic[T]):
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

    Each attempt waits in the account's line, then ends after ``timeout`` seconds of silence. A
    failed attempt holds no place while it waits for the next one, which then goes ahead of new
    calls.
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
        """``account``: its name in the log, not its key.

        ``timeout``: seconds of silence that end an attempt; a reply that keeps coming may take
        :data:`TOTAL_TIMEOUTS` times as long.
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
        self._max_wait = max_wait
        self._backoff = backoff
        self._prices = prices if prices is not None else PriceTable.load()
        self._priced = priced
        self.totals = Totals()
        """Totals of the calls finished so far."""
        self._unpriced: set[tuple[str, str]] = set()
        self._closed = False
        self._open: set[asyncio.Timeout] = set()
        self._all_over = asyncio.Event()

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
        call = _CallState(
            send, classify, provider, model, max(0, tokens), label,
            started=asyncio.get_running_loop().time(),
            retries=Retries(self._attempts, self._max_wait, self._backoff),
        )  # fmt: skip
        outcome: Outcome = "lost"
        decision: Decision | None = None
        try:
            done = await self._retry_until_closed(call)
            outcome = "answered"
        except CallError as error:
            decision = error.decision
            raise
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except Exception as error:
            decision = PermanentError(error_text(error))
            raise
        finally:
            call.keys.lost()
            self._finish(call, outcome, decision)
        return done

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

    async def _retry_until_closed(self, call: _CallState[T]) -> CallResult[T]:
        if self._closed:
            raise self._lost(call, PermanentError(f"the account {self.account} is closed"))
        scope = asyncio.timeout(None)
        self._open.add(scope)
        try:
            async with scope:
                while not isinstance(outcome := await self._attempt_once(call), Reply):
                    if outcome.wait is None:
                        raise self._lost(call, outcome.decision)
                    self._report_failure(call, outcome.decision.reason, outcome.wait)
                    await asyncio.sleep(outcome.wait)
        except TimeoutError:
            if not scope.expired():
                raise
            reason = f"the account {self.account} was closed before the call was over"
            raise self._lost(call, PermanentError(reason)) from None
        finally:
            self._open.discard(scope)
            self._all_over.set()
        return CallResult(
            value=outcome.value,
            usage=call.usage,
            usd=call.usd,
            seconds=call.last,
            attempts=call.retries.sent,
            waited=self._waited(call),
        )

    async def _attempt_once(self, call: _CallState[T]) -> Reply[T] | Failed:
        """Make one attempt, including the wait in line."""
        loop = asyncio.get_running_loop()
        retries = call.retries
        try:
            ticket = await self.limits.enter(
                call.tokens, ahead=retries.sent > 0, max_wait=retries.left
            )
        except AccountPaused as pause:
            why = pause.why or (
                f"the provider paused the account {self.account} for {pause.seconds:.0f} s"
            )
            reason = why if pause.seconds <= retries.left else f"{why}; {retries.budget}"
            return Failed(RateLimited(reason, pause.seconds), None)
        retries.sent += 1
        begun = loop.time()
        try:
            outcome = await self._send_once(call)
        finally:
            call.last = loop.time() - begun
            call.seconds += call.last
            self.limits.leave(ticket)
        if isinstance(outcome, Reply | UnusableReply | RequestChanged):
            call.keys.replied()
            self._record_usage(call, outcome.usage)
            self.limits.answered(ticket, outcome.usage.tokens_in + outcome.usage.tokens_out)
            if isinstance(outcome, Reply):
                call.request_id = outcome.request_id
                return outcome
            if isinstance(outcome, UnusableReply):
                return retries.unusable(scrubbed(outcome.reason), outcome.retry)
            return retries.changed(scrubbed(outcome.reason))
        decision = replace(outcome, reason=scrubbed(outcome.reason))
        match decision:
            case RateLimited():
                call.rate_limited += 1
                self.limits.refused(ticket, decision.retry_after)
            case Transient(timed_out=True):
                pass
            case Transient(replied=False):
                self.limits.failed(ticket, decision.reason)
            case _:
                # The server is there, whatever it said.
                self.limits.answered(ticket, 0)
        if isinstance(decision, Transient) and decision.replied:
            call.keys.replied()
        return retries.after(decision, paused=self.limits.paused())

    async def _send_once(
        self, call: _CallState[T]
    ) -> Reply[T] | UnusableReply | RequestChanged | Decision:
        loop = asyncio.get_running_loop()
        longest = TOTAL_TIMEOUTS * self._timeout
        begun = last = loop.time()

        def received() -> None:
            nonlocal last
            last = loop.time()

        # A timer an attempt and not one a part, of which a reply has hundreds.
        timer = loop.call_at(begun + self._timeout, lambda: check())

        def check() -> None:
            """End the attempt if it is time, else look again when it may be."""
            nonlocal timer
            due = min(last, begun + longest - self._timeout) + self._timeout
            if due <= loop.time():
                deadline.reschedule(loop.time())
            else:
                timer = loop.call_at(due, check)

        try:
            async with asyncio.timeout(None) as deadline:
                with call.keys.sending(), listen_for_parts(received):
                    return await call.send()
        except (UnusableReply, RequestChanged) as reply:
            return reply
        except TimeoutError as error:
            if not deadline.expired():
                return call.classify(error)
            if last == begun:
                reason = f"no reply within {self._timeout:g} s"
            elif loop.time() - begun >= longest:
                reason = f"the reply was not complete after {longest:g} s"
            else:
                reason = f"the reply stopped: nothing more came for {self._timeout:g} s"
            return Transient(reason, timed_out=True)
        except RecursionError:
            return Transient("malformed reply: its JSON is nested too deeply", replied=True)
        except Exception as error:
            return transport_decision(error) or call.classify(error)
        finally:
            timer.cancel()

    def _report_failure(self, call: _CallState[T], reason: str, wait: float) -> None:
        """Report a failed attempt that will be repeated."""
        attempt = FailedAttempt(
            account=self.account,
            model=call.model,
            label=call.label,
            number=call.retries.sent,
            seconds=call.last,
            reason=reason,
            wait=wait,
        )
        notify_retry(attempt)
        # Limits are met all the time, and what fails at once is soon tried again.
        level = logging.WARNING if attempt.seconds >= LONG_SECONDS else logging.DEBUG
        line = f"attempt={attempt.number} seconds={attempt.seconds:.3f} wait={wait:.3f}"
        sentence = (
            f"{self.account}:{call.model} failed at attempt {attempt.number} after "
            f"{attempt.seconds:.1f} s, again in {wait:.1f} s: {reason}"
        )
        self._log(level, call, line, reason, sentence=sentence, failed=attempt)

    def _record_usage(self, call: _CallState[T], usage: Usage) -> None:
        call.usage += usage
        if not usage.tokens_in and not usage.tokens_out and not usage.images:
            # A server that reports no usage is not free: what was expected counts for the price.
            usage = replace(usage, tokens_in=call.tokens)
        usd = self._prices.usd(call.provider, call.model, usage)
        if usd is not None:
            call.usd += usd
        elif self._priced and (named := (call.provider, call.model)) not in self._unpriced:
            self._unpriced.add(named)
            _LOG.warning(
                "no price is known for %s:%s, its calls count 0 dollars: "
                "add it to a file of prices",
                *named,
            )

    def _lost(self, call: _CallState[T], decision: Decision) -> CallError:
        return CallError(decision, call.retries.sent, call.usage, call.usd)

    def _waited(self, call: _CallState[T]) -> float:
        elapsed = asyncio.get_running_loop().time() - call.started
        return max(0.0, elapsed - call.seconds)

    def _finish(self, call: _CallState[T], outcome: Outcome, decision: Decision | None) -> None:
        waited, tries = self._waited(call), call.retries.sent
        totals = self.totals
        setattr(totals, outcome, getattr(totals, outcome) + 1)
        totals.attempts += tries
        totals.rate_limited += call.rate_limited
        totals.waited += waited
        totals.add(call.usage, call.usd, call.seconds)
        count(call.usage, call.usd, call.seconds)
        line = (
            f"outcome={outcome} attempts={tries} waited={waited:.3f} "
            f"seconds={call.seconds:.3f} in={call.usage.tokens_in} "
            f"out={call.usage.tokens_out} cached={call.usage.tokens_cached} "
            f"usd={call.usd:.6f}"
        )
        if decision is None:
            self._log(logging.INFO, call, line)
            return
        whose = f" ({call.label})" if call.label else ""
        sentence = (
            f"{self.account}:{call.model}{whose} gave no answer in {tries} "
            f"attempt{'' if tries == 1 else 's'}: {decision.reason}"
        )
        level = logging.ERROR if isinstance(decision, PermanentError) else logging.WARNING
        self._log(level, call, line, decision.reason, sentence=sentence, lost=decision.reason)

    def _log(
        self, level: int, call: _CallState[T], line: str, reason: str = "", **for_people: object
    ) -> None:
        """Write a line of fields; handlers show what is ``for_people`` instead."""
        fields = {
            "account": self.account,
            "provider": call.provider,
            "model": call.model,
            "label": call.label,
            "request": call.request_id,
        }
        if reason:
            fields["reason"] = reason
        # Without secrets and line ends.
        quoted = " ".join(
            f"{name}={json.dumps(scrubbed(value), ensure_ascii=False)}"
            for name, value in fields.items()
        )
        extra = {"account": self.account, "label": call.label, **for_people}
        _LOG.log(level, "%s", f"{quoted} {line}", extra=extra)
