"""Replies that are kept by the ``Idempotency-Key`` of their requests.

As at a provider that honours the header: the first request of a key is worked on, whether or not
its client waits for it, and every further one gets the same reply and costs nothing. Only whole
replies are kept (HTTP 200); after an error the next request of the key is worked on anew.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from dataclasses import dataclass, field

from scenewright.mock_providers.problems import Problem

MOST = 100_000
"""Most replies that are kept; the oldest go first."""
MOST_BYTES = 256 * 2**20
"""Most bytes of all of them together, likewise."""
LONGEST_KEY = 255
"""Most characters of a key."""
_REMEMBERED = 1_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """A reply that was given."""

    body: bytes
    """Its JSON, or what a fault made of it."""
    id: str
    """That of its first request: 24 hexadecimal digits."""


@dataclass(slots=True)
class _Entry:
    asked: str
    kept: Kept | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)


class Replays:
    """The keys of all accounts. One event loop uses it."""

    def __init__(self, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        """``most`` replies of ``most_bytes`` in all are kept."""
        self._most, self._most_bytes = most, most_bytes
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._sizes: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._bytes = 0
        self._executed: OrderedDict[tuple[str, str], None] = OrderedDict()

    async def claim(self, account: str, key: str, asked: str) -> Kept | None:
        """The reply to the first request of ``key``, which is waited for; None if this one is it.

        ``asked``: digest of the request. Who gets None calls :meth:`keep` or :meth:`release`.
        Raises ``Problem`` for a key that stands for another request, or is too long.
        """
        if len(key) > LONGEST_KEY:
            raise Problem.invalid(f"Idempotency-Key: use at most {LONGEST_KEY} characters")
        name = account, key
        while (entry := self._entries.get(name)) is not None:
            if entry.asked != asked:
                raise Problem(
                    "invalid",
                    422,
                    "this Idempotency-Key was sent with another request: use a new key",
                )
            if entry.kept is not None:
                return entry.kept
            await entry.over.wait()
        self._entries[name] = _Entry(asked)
        return None

    def keep(self, account: str, key: str, reply: Kept) -> bool:
        """Answer all requests of ``key`` with ``reply``; False if it was worked on before."""
        name = account, key
        entry = self._entries[name]
        entry.kept = reply
        entry.over.set()
        self._sizes[name] = len(reply.body)
        self._bytes += len(reply.body)
        while len(self._sizes) > self._most or self._bytes > self._most_bytes:
            oldest, size = self._sizes.popitem(last=False)
            self._bytes -= size
            del self._entries[oldest]
        first = name not in self._executed
        self._executed[name] = None
        if len(self._executed) > _REMEMBERED:
            self._executed.popitem(last=False)
        return first

    def release(self, account: str, key: str) -> None:
        """There is no reply to keep: the next request of ``key`` is worked on."""
        self._entries.pop((account, key)).over.set()
