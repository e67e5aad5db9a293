"""What can go wrong on demand, and which request it happens to.

A model that is exchanged for another one while clients go on asking for it by its old name.
"""

from __future__ import annotations

import hashlib
import math
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, TypeVar


class MockError(ValueError):
    """Settings or faults that make no sense; the message says what to give instead."""


class Fault(StrEnum):
    """A way in which a provider's answer goes wrong."""

    SERVER_ERROR = "500"
    UNAVAILABLE = "503"
    OVERLOADED = "529"
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    DROP = "drop"
    SLOW_DRIP = "slow_drip"
    TRUNCATED_JSON = "truncated_json"
    INVALID_JSON = "invalid_json"
    REFUSAL = "refusal"
    EMPTY = "empty"
    OUTSIDE_OPTIONS = "outside_options"
    WRONG_NUMBER = "wrong_number"
    PARTIAL_REFUSAL = "partial_refusal"
    SHUFFLED = "shuffled"
    NO_PROBABILITY = "no_probability"
    STREAM_CUT = "stream_cut"
    STREAM_STALL = "stream_stall"
    STREAM_ERROR = "stream_error"
    BAD_PARTIAL = "bad_partial"
    NO_PARTIALS = "no_partials"


ABOUT: dict[Fault, str] = {
    Fault.SERVER_ERROR: "error 500",
    Fault.UNAVAILABLE: "error 503, overloaded for a moment",
    Fault.OVERLOADED: "error 529, Anthropic's sign of overload",
    Fault.RATE_LIMITED: "error 429 although no limit is reached; retry after 1 s",
    Fault.TIMEOUT: "no answer until the client leaves",
    Fault.DROP: "connection closed without an answer",
    Fault.SLOW_DRIP: "a right answer, sent byte by byte",
    Fault.TRUNCATED_JSON: "an answer cut off in the middle, as by the limit of output tokens",
    Fault.INVALID_JSON: "an answer that is not valid JSON",
    Fault.REFUSAL: "the model declines, in the provider's own form",
    Fault.EMPTY: "an answer without content",
    Fault.OUTSIDE_OPTIONS: "answers outside the options",
    Fault.WRONG_NUMBER: "an answer too few or too many",
    Fault.PARTIAL_REFUSAL: "every second typed question is refused, the others stand",
    Fault.SHUFFLED: "the answers to typed questions in another order than asked",
    Fault.NO_PROBABILITY: "a confidence of typed answers that is not a probability",
    Fault.STREAM_CUT: "connection closed in the middle of a stream",
    Fault.STREAM_STALL: "a stream that falls silent in the middle until the client leaves",
    Fault.STREAM_ERROR: "an error event in the middle of a stream",
    Fault.BAD_PARTIAL: "partial images of a stream that are no images; the last one is right",
    Fault.NO_PARTIALS: "a stream without its partial images",
}
"""Fault → what a client sees."""

MOST_NEXT = 1_000_000
"""Most requests that one order of faults may name."""


class Chance:
    """Everything random about one request, from the seed and the request's number."""

    __slots__ = ("_digest", "number")

    def __init__(self, seed: int, number: int) -> None:
        """Begin for the request ``number``, counted from 1 over all requests of the mock server."""
        self.number = number
        self._digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()

    @property
    def fault(self) -> float:
        """Evenly drawn from [0, 1)."""
        return int.from_bytes(self._digest[:7], "big") / 2**56

    @property
    def latency(self) -> float:
        """Evenly drawn from [0, 1)."""
        return int.from_bytes(self._digest[8:15], "big") / 2**56

    @property
    def id(self) -> str:
        """24 hexadecimal digits."""
        return self._digest[16:28].hex()


def check_shares(shares: Mapping[Fault, float]) -> None:
    """Raise ``MockError`` unless every share lies in 0 to 1 and they sum to at most 1."""
    for kind, share in shares.items():
        if not (math.isfinite(share) and 0 <= share <= 1):
            raise MockError(f"fault {kind.value}={share}: the share must lie between 0 and 1")
    total = math.fsum(shares.values())
    if total > 1 + 1e-9:
        raise MockError(f"the shares of the faults sum to {total:g}: use at most 1 in all")


def parse_faults(texts: Iterable[str]) -> dict[Fault, float]:
    """Shares from texts such as ``500=0.02``; ``MockError`` says what is wrong with one."""
    shares: dict[Fault, float] = {}
    for text in texts:
        name, _, share = text.partition("=")
        try:
            kind = Fault(name.strip())
        except ValueError:
            known = ", ".join(fault.value for fault in Fault)
            raise MockError(f"no fault {name.strip()!r}: there are {known}") from None
        try:
            shares[kind] = float(share)
        except ValueError:
            raise MockError(f"{text!r}: write KIND=SHARE, for example {kind.value}=0.02") from None
    check_shares(shares)
    return shares


class FaultPlan:
    """Which request meets which fault: ordered ones first, then by share."""

    def __init__(self, shares: Mapping[Fault, float] | None = None) -> None:
        """``shares`` hold for every account and are what :meth:`clear` goes back to."""
        self._given = dict(shares or {})
        check_shares(self._given)
        self._shares: dict[str | None, dict[Fault, float]] = {None: dict(self._given)}
        self._next: dict[str | None, deque[list[Any]]] = {}

    def set_share(self, kind: Fault, share: float, account: str | None = None) -> None:
        """``share`` of the requests (of one account) meet ``kind`` from now on."""
        shares = {**self._shares.get(account, {}), kind: share}
        check_shares(shares if account is None else {**self._shares[None], **shares})
        self._shares[account] = shares

    def order(self, kind: Fault, count: int, account: str | None = None) -> None:
        """Return the next ``count`` requests (of one account) meet ``kind``.

        Orders wait in line.
        """
        if not 1 <= count <= MOST_NEXT:
            raise MockError(f"next {count}: order 1 to {MOST_NEXT} requests")
        self._next.setdefault(account, deque()).append([kind, count])

    def clear(self) -> None:
        """Back to the shares that the mock server began with, nothing ordered."""
        self._shares = {None: dict(self._given)}
        self._next.clear()

    def draw(self, account: str, chance: Chance) -> Fault | None:
        """Return the fault of one request of ``account``; none: it is answered as it should be."""
        for name in (account, None):
            queue = self._next.get(name)
            if queue:
                entry = queue[0]
                entry[1] -= 1
                if entry[1] == 0:
                    queue.popleft()
                kind: Fault = entry[0]
                return kind
        shares = self._shares[None]
        if account in self._shares:
            shares = {**shares, **self._shares[account]}
        drawn = chance.fault
        for kind, share in shares.items():
            if drawn < share:
                return kind
            drawn -= share
        return None

    def state(self) -> dict[str, Any]:
        """Return the planned faults, for people."""
        return {
            "shares": [
                {"kind": kind.value, "share": share, "key": account}
                for account, shares in self._shares.items()
                for kind, share in shares.items()
                if share
            ],
            "ordered": [
                {"kind": kind.value, "next": count, "key": account}
                for account, queue in self._next.items()
                for kind, count in queue
            ],
        }


class _Asked(Protocol):
    """A request of any form: a dataclass with the name of a model."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    @property
    def model(self) -> str: ...


AskedT = TypeVar("AskedT", bound=_Asked)


@dataclass(frozen=True, slots=True)
class Swap:
    """From one of its requests on, another model answers in place of a model."""

    model: str
    """The model that clients name, as the mock server lists it."""
    by: str
    """The model that answers in its place."""
    after: int = 0
    """Requests for the model that it still answers itself, from the order on."""
    told: str = ""
    """Name of the model that the answers tell from then on; empty: the one that was asked for, so
    that nothing but the answers themselves shows the exchange."""

    def __post_init__(self) -> None:
        if not self.model or not self.by or self.after < 0:
            raise MockError(
                f"a swap of {self.model!r} by {self.by!r} after {self.after} requests: name two "
                "models, and 0 requests or more"
            )


class Swaps:
    """Which models are exchanged, and how many requests each has met since that was ordered."""

    def __init__(self, swaps: Iterable[Swap] = ()) -> None:
        """Order ``swaps`` at once; :meth:`clear` goes back to them."""
        self._given = tuple(swaps)
        self._swaps: dict[str, Swap] = {}
        self._met: dict[str, int] = {}
        self.clear()

    def order(self, swap: Swap) -> None:
        """Exchange a model; an earlier order for it ends."""
        self._swaps[swap.model] = swap
        self._met[swap.model] = 0

    def clear(self) -> None:
        """Back to the swaps that the mock server began with, counted anew."""
        self._swaps, self._met = {}, {}
        for swap in self._given:
            self.order(swap)

    def answering(self, asked: AskedT, name: str) -> tuple[AskedT, str]:
        """Count a request for the model ``name``.

        Who answers it, and the request with the name that the answer tells.
        """
        swap = self._swaps.get(name)
        if swap is None:
            return asked, name
        self._met[name] += 1
        if self._met[name] <= swap.after:
            return asked, name
        return (replace(asked, model=swap.told) if swap.told else asked), swap.by

    def state(self) -> list[dict[str, Any]]:
        """Return the planned swaps and the requests counted so far, for people."""
        return [{**asdict(swap), "met": self._met[swap.model]} for swap in self._swaps.values()]


def parse_swaps(texts: Iterable[str]) -> tuple[Swap, ...]:
    """Parse swaps from ``MODEL=OTHER``, ``MODEL=OTHER@60`` and ``MODEL=OTHER@60:NAME``.

    ``@60`` starts at the 61st request; NAME is the model name in the answers. Raises ``MockError``.
    """
    found = []
    for text in texts:
        model, _, rest = text.partition("=")
        head, _, told = rest.partition(":")
        by, _, after = head.partition("@")
        try:
            found.append(Swap(model.strip(), by.strip(), int(after or 0), told.strip()))
        except ValueError as error:
            raise MockError(
                f"{text!r}: write MODEL=OTHER, MODEL=OTHER@REQUESTS or "
                "MODEL=OTHER@REQUESTS:NAME, for example judge-a=judge-b@60"
            ) from error
    return tuple(found)
