"""What a failed call means, as a value: wait for the limit, try again, or never."""

from __future__ import annotations

from dataclasses import dataclass

from scenewright.providers.usage import Usage


@dataclass(frozen=True, slots=True)
class RateLimited:
    """The account's limit was reached: the same request is welcome later."""

    reason: str
    """What the provider said, without secrets or image data."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait; none if it does not say."""


@dataclass(frozen=True, slots=True)
class Transient:
    """The request may succeed if it is sent again: overload, lost connection, timeout."""

    reason: str
    """What went wrong."""
    retry_after: float | None = None
    """Seconds that the provider asks to wait; none if it does not say."""
    replied: bool = False
    """A whole reply came and cannot be read: sent again as the same request, it would come again
    from a provider that keeps its replies."""
    timed_out: bool = False
    """No reply came within the time of an attempt."""
    lasts_if_repeated: bool = False
    """The same reason twice in a row means that no attempt will succeed."""


@dataclass(frozen=True, slots=True)
class PermanentError:
    """Sending it again changes nothing: wrong key, unknown model, refused request."""

    reason: str
    """What went wrong, and what to do where that is known."""


Decision = RateLimited | Transient | PermanentError


class CallError(RuntimeError):
    """A call that failed for good; ``str()`` says why and after how many attempts."""

    def __init__(
        self,
        decision: Decision,
        attempts: int,
        usage: Usage = Usage(),  # noqa: B008 - a constant
        usd: float = 0.0,
    ) -> None:
        """``decision``: that of the last attempt. ``attempts``: how often it was sent.

        ``usage``, ``usd``: of replies that were paid for and of no use.
        """
        times = "" if attempts == 1 else f" (after {attempts} attempts)"
        super().__init__(f"{decision.reason}{times}")
        self.decision = decision
        self.attempts = attempts
        self.usage = usage
        self.usd = usd


class AccountPaused(Exception):
    """The account is paused for longer than a call would wait."""

    def __init__(self, seconds: float, why: str = "") -> None:
        """``seconds`` until the account goes on; ``why``: by what, if not by the provider."""
        super().__init__(why or f"the account is paused for {seconds:.0f} s")
        self.seconds = seconds
        self.why = why


class UnusableReply(RuntimeError):
    """A reply that arrived and was paid for, but holds nothing that can be used."""

    def __init__(self, reason: str, usage: Usage, *, retry: bool = True, cut: bool = False) -> None:
        """``retry``: whether the same request may bring something better (a refusal will not).
        ``cut``: it was cut off at the limit of output tokens."""
        super().__init__(reason)
        self.reason = reason
        self.usage = usage
        self.retry = retry
        self.cut = cut
