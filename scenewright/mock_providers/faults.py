"""Faults, quirks and swaps: failures on demand, and the requests that meet them.

A fault befalls some requests. A quirk is how a server that speaks OpenAI's format and is not
OpenAI's always is, as llama.cpp showed them, for all accounts or for one. A swap exchanges a model
for another one while clients go on asking for it by its old name.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from enum import StrEnum
from typing import Any, Self, TypeVar

from pydantic import ConfigDict, Field
from pydantic.dataclasses import dataclass

from scenewright.core.errors import ScenewrightError


class MockError(ScenewrightError, ValueError):
    """Settings or faults that make no sense; the message says what to give instead."""


class _Kind(StrEnum):
    """Names, each with what a client meets."""

    about: str

    def __new__(cls, name: str, about: str = "") -> Self:
        made = str.__new__(cls, name)
        made._value_ = name
        made.about = about
        return made

    @classmethod
    def named(cls, name: str) -> Self:
        """Return the one of this name; ``MockError`` lists what there is."""
        try:
            return cls(name.strip())
        except ValueError:
            known = ", ".join(cls)
            kind = cls.__name__.lower()
            raise MockError(f"{name.strip()!r} is no {kind}: there are {known}") from None


class Fault(_Kind):
    """A way in which a provider's answer goes wrong."""

    SERVER_ERROR = "500", "error 500"
    UNAVAILABLE = "503", "error 503, overloaded for a moment"
    OVERLOADED = "529", "error 529, Anthropic's sign of overload"
    RATE_LIMITED = "rate_limited", "error 429 although no limit is reached; retry after 1 s"
    TIMEOUT = "timeout", "no answer until the client leaves"
    DROP = "drop", "connection closed without an answer"
    SLOW_DRIP = "slow_drip", "a right answer, sent byte by byte"
    TRUNCATED_JSON = (
        "truncated_json",
        "an answer cut off in the middle, as by the limit of output tokens",
    )
    INVALID_JSON = "invalid_json", "an answer that is not valid JSON"
    REFUSAL = "refusal", "the model declines, in the provider's own form"
    EMPTY = "empty", "an answer without content"
    OUTSIDE_OPTIONS = "outside_options", "answers outside the options"
    WRONG_NUMBER = "wrong_number", "an answer too few or too many"
    PARTIAL_REFUSAL = "partial_refusal", "every second typed question is refused, the others stand"
    SHUFFLED = "shuffled", "the answers to typed questions in another order than asked"
    NO_PROBABILITY = "no_probability", "a confidence of typed answers that is not a probability"
    STREAM_CUT = "stream_cut", "connection closed in the middle of a stream"
    STREAM_STALL = (
        "stream_stall",
        "a stream that falls silent in the middle until the client leaves",
    )
    STREAM_ERROR = "stream_error", "an error event in the middle of a stream"
    STREAM_UNENDED = "stream_unended", "a stream without its last event, such as [DONE]"
    KEEP_ALIVE = "keep_alive", "a stream of comments alone until the client leaves"
    BAD_PARTIAL = (
        "bad_partial",
        "partial images of a stream that are no images; the last one is right",
    )
    NO_PARTIALS = "no_partials", "a stream without its partial images"


class Quirk(_Kind):
    """A way of a server."""

    STRING_CHOICE = (
        "string_choice",
        "a tool_choice that names a tool gets a 400: only strings are understood",
    )
    LOOSE_CHOICE = (
        "loose_choice",
        "a tool_choice that names a tool is left aside, and nothing is called",
    )
    NO_TOOLS = "no_tools", "tools never reach the model: it answers in words, or by a JSON schema"
    FENCED_TOKENS = (
        "fenced_tokens",
        "the tokens have a code fence around the JSON that the text lacks",
    )
    REFUSED_LOGPROBS = "refused_logprobs", "a request for log-probabilities gets a 400"
    NO_LOGPROBS = "no_logprobs", "log-probabilities are asked for in vain: replies hold none"
    NO_PICTURES = "no_pictures", "every request with a picture gets the same error 500"
    ENDLESS = "endless", "the model says the same until the limit of output tokens cuts it off"


_SWAP = re.compile(r"([^=]*[^=\s]\s*)=([^@:]*[^@:\s]\s*)(?:@(\d+))?(?::(.*))?")
MOST_NEXT = 1_000_000
"""Most requests that one order of faults may name."""


class Chance:
    """Everything random about one request, from the seed and the request's number."""

    def __init__(self, seed: int, number: int) -> None:
        """Begin for the request ``number``, counted from 1 over all requests of the mock server."""
        digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()
        self.number = number
        self.fault = int.from_bytes(digest[:7], "big") / 2**56
        """Evenly drawn from [0, 1)."""
        self.latency = int.from_bytes(digest[8:15], "big") / 2**56
        """Evenly drawn from [0, 1)."""
        self.id = digest[16:28].hex()
        """24 hexadecimal digits."""


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
        kind = Fault.named(name)
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
        self.clear()

    def set_share(self, kind: Fault, share: float, account: str | None = None) -> None:
        """``share`` of the requests (of one account) meet ``kind`` from now on."""
        shares = {**self._shares.get(account, {}), kind: share}
        check_shares(shares if account is None else {**self._shares[None], **shares})
        self._shares[account] = shares

    def schedule(self, kind: Fault, count: int, account: str | None = None) -> None:
        """Let the next ``count`` requests (of one account) meet ``kind``; orders wait in line."""
        if not 1 <= count <= MOST_NEXT:
            raise MockError(f"next {count}: order 1 to {MOST_NEXT} requests")
        self._next.setdefault(account, deque()).append([kind, count])

    def clear(self) -> None:
        """Back to the shares that the mock server began with, nothing ordered."""
        self._shares: dict[str | None, dict[Fault, float]] = {None: dict(self._given)}
        self._next: dict[str | None, deque[list[Any]]] = {}

    def draw(self, account: str, chance: Chance) -> Fault | None:
        """Return the fault of one request of ``account``; none: it is answered as it should be."""
        for name in (account, None):
            if queue := self._next.get(name):
                entry = queue[0]
                entry[1] -= 1
                if entry[1] == 0:
                    queue.popleft()
                kind: Fault = entry[0]
                return kind
        drawn = chance.fault
        for kind, share in {**self._shares[None], **self._shares.get(account, {})}.items():
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


class Quirks:
    """Which account meets which quirks."""

    def __init__(self, quirks: Iterable[Quirk] = ()) -> None:
        """``quirks`` hold for every account and are what :meth:`clear` goes back to."""
        self._given = frozenset(quirks)
        self.clear()

    def add(self, quirk: Quirk, account: str | None = None) -> None:
        """Have every account, or one, meet ``quirk`` from now on."""
        self._own[account] = self._own.get(account, frozenset()) | {quirk}

    def clear(self) -> None:
        """Go back to the quirks that the mock server began with."""
        self._own: dict[str | None, frozenset[Quirk]] = {None: self._given}

    def of(self, account: str) -> frozenset[Quirk]:
        """Return what the requests of ``account`` meet."""
        return self._own[None] | self._own.get(account, frozenset())

    def state(self) -> list[dict[str, Any]]:
        """Return what is met, for people."""
        return [
            {"kind": quirk.value, "key": account}
            for account, quirks in self._own.items()
            for quirk in sorted(quirks)
        ]


def parse_quirks(names: Iterable[str]) -> frozenset[Quirk]:
    """Return the quirks of these names; ``MockError`` lists what there is."""
    return frozenset(map(Quirk.named, names))


AskedT = TypeVar("AskedT", bound=Any)
"""A request of any form: a dataclass with the name of a model."""


@dataclass(frozen=True, config=ConfigDict(extra="forbid"))
class Swap:
    """From one of its requests on, another model answers in place of a model."""

    model: str = Field(min_length=1)
    """The model that clients name, as the mock server lists it."""
    by: str = Field(min_length=1)
    """The model that answers in its place."""
    after: int = Field(default=0, ge=0)
    """Requests for the model that it still answers itself, from the order on."""
    told: str = ""
    """Name of the model that the answers tell from then on; empty: the one that was asked for, so
    that nothing but the answers themselves shows the exchange."""


class Swaps:
    """Which models are exchanged, and how many requests each has met since that was ordered."""

    def __init__(self, swaps: Iterable[Swap] = ()) -> None:
        """Order ``swaps`` at once; :meth:`clear` goes back to them."""
        self._given = tuple(swaps)
        self.clear()

    def add(self, swap: Swap) -> None:
        """Exchange a model; an earlier order for it ends."""
        self._swaps[swap.model] = swap
        self._met[swap.model] = 0

    def clear(self) -> None:
        """Back to the swaps that the mock server began with, counted anew."""
        self._swaps: dict[str, Swap] = {}
        self._met: dict[str, int] = {}
        for swap in self._given:
            self.add(swap)

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
        parts = _SWAP.fullmatch(text)
        if parts is None:
            raise MockError(
                f"{text!r}: write MODEL=OTHER, MODEL=OTHER@REQUESTS or "
                "MODEL=OTHER@REQUESTS:NAME, for example judge-a=judge-b@60"
            )
        model, by, after, told = (part.strip() for part in parts.groups(""))
        found.append(Swap(model, by, int(after or 0), told))
    return tuple(found)
