"""Requests that a client sends again: they join the runs of the first.

OpenAI's clients send no idempotency key. They send the same body again, with a header that counts
the retries.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated
from weakref import WeakValueDictionary

from fastapi import Header

from scenewright.service.core.identity import Identity
from scenewright.service.core.schemas import Door
from scenewright.service.core.service import Service
from scenewright.service.core.store import MAX_LISTED, Run

DOOR: Door = "openai"
RetryCount = Annotated[
    str | None,
    Header(
        alias="x-stainless-retry-count",
        max_length=20,
        description="Sent by OpenAI's clients: above 0 the request joins the runs of the same "
        "request before it.",
    ),
]
"""Number of times that a client has sent the request before."""
WITHIN_SECONDS = 3600.0
"""Time after the first request in which its retries join it: the clients wait ten minutes for a
reply and try twice more."""
_TURNS: WeakValueDictionary[tuple[str, str | None, str], asyncio.Lock] = WeakValueDictionary()


def is_retry(count: str | None) -> bool:
    """Return whether a request says that it was sent before."""
    return count is not None and count.isascii() and count.isdecimal() and int(count) > 0


@asynccontextmanager
async def turn(identity: Identity, group: str) -> AsyncIterator[None]:
    """Let equal requests of one caller be taken in one after the other in this process."""
    lock = _TURNS.setdefault((identity.tenant, identity.key_id, group), asyncio.Lock())
    async with lock:
        yield


async def runs_of_retry(
    service: Service, identity: Identity, group: str, many: int
) -> list[Run] | None:
    """Return the ``many`` runs of the caller's newest request of ``group``, in their order.

    None if there is no such request within :data:`WITHIN_SECONDS`, or one of its runs was
    cancelled, as those of a request that was refused are.
    """
    since = time.time() - WITHIN_SECONDS
    before: str | None = None
    found: dict[str, dict[int, Run]] = {}
    while True:
        runs, before = await service.store.list(identity.tenant, before=before, limit=MAX_LISTED)
        for run in runs:
            parts = (run.idempotency_key or "").split(":")
            mine = run.door == DOOR and run.key_id == identity.key_id and len(parts) == 4
            if mine and parts[1] == group and run.created >= since:
                found.setdefault(parts[2], {})[int(parts[3])] = run
        if before is None or runs[-1].created < since:
            break
    for request in found.values():
        whole = sorted(request) == list(range(many))
        if whole and all(run.status != "cancelled" for run in request.values()):
            return [request[at] for at in range(many)]
    return None
