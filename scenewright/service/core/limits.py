"""Limits of an API key: requests a minute, runs at once, dollars and images in all.

What runs and single calls have cost, kept in one row each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from sqlalchemy import and_, func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from scenewright.service.core.database import KEYS, RUNS, SPENDING
from scenewright.service.core.errors import Busy, Forbidden

_WINDOW = 60.0
_RETRY_SECONDS = 10.0
_LEAST = {"usd": 1e-6, "images": 1}
"""Less is nothing: sums of prices are not exact."""


async def keep(
    connection: AsyncConnection,
    id: str,
    tenant: str,
    key_id: str | None,
    summary: Mapping[str, Any],
    at: float,
) -> None:
    """Keep what a run or call ``id`` has cost until Unix time ``at``, in place of what was kept."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    spent = {
        "usd": float(summary.get("usd", 0.0)),
        "images": int(summary.get("images", 0)),
        "at": at,
    }
    statement = insert(SPENDING).values(id=id, tenant=tenant, key_id=key_id, **spent)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=[SPENDING.c.id], set_=spent)
    )


class RateLimits:
    """Requests by key in the last minute. In memory: each process counts its own."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """``clock`` gives seconds that never go back."""
        self._clock = clock
        self._asked: dict[str, deque[float]] = {}

    def take(self, key: str, most: int | None) -> None:
        """Count a request; ``Busy`` if ``most`` came within the last 60 seconds already."""
        if most is None:
            return
        now = self._clock()
        asked = self._asked.setdefault(key, deque())
        while asked and asked[0] <= now - _WINDOW:
            asked.popleft()
        if len(asked) >= most:
            # A most of 0 leaves nothing to wait for; the next window is as good as any.
            wait = asked[0] + _WINDOW - now if asked else _WINDOW
            raise Busy(
                f"this key may send {most} requests a minute, and has: wait", retry_after=wait
            )
        asked.append(now)


async def capped_request(
    connection: AsyncConnection, key_id: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a run's request with its budget capped by what the key has left.

    Raises ``Busy`` or ``Forbidden`` as :func:`remaining`.
    """
    budget = dict(request.get("budget") or {})
    for name, most in (await remaining(connection, key_id)).items():
        asked = budget.get(name)
        budget[name] = most if asked is None else min(asked, most)
    return {**request, "budget": budget}


async def readmit(
    connection: AsyncConnection, run: str, key_id: str, request: Mapping[str, Any]
) -> None:
    """Let a run that stood still go on within the budget that it was admitted with.

    Raises ``Busy`` or ``Forbidden`` if its key has less left than the run may still spend.
    """
    budget = request.get("budget") or {}
    for name, most in (await remaining(connection, key_id)).items():
        if (may := budget.get(name)) is None:
            continue
        own = await connection.scalar(select(SPENDING.c[name]).where(SPENDING.c.id == run))
        rest = max(0, may - (own or 0))
        if rest > most:
            raise Forbidden(
                f"the run may still spend {_amount(name, rest)}, and its key has "
                f"{_amount(name, most)} left: begin a run with a smaller budget"
            )


async def remaining(
    connection: AsyncConnection, key_id: str, *, drawing: bool = True
) -> dict[str, float]:
    """Return how much a key may still spend of ``usd`` and ``images``, where it is limited in them.

    What the key's waiting and running runs may still spend is taken as spent. Raises ``Forbidden``
    if all is spent, and ``Busy`` if these may take all that is left, or if it has as many runs as
    may be. Runs of one key are admitted one after another. Without ``drawing`` only dollars are
    wanted, and no run.
    """
    rows = await connection.execute(select(KEYS).where(KEYS.c.id == key_id).with_for_update())
    key = rows.one_or_none()
    if key is None:
        return {}
    active = and_(RUNS.c.key_id == key_id, RUNS.c.status.in_(("queued", "running")))
    if drawing and key.running is not None:
        runs = await connection.scalar(select(func.count()).select_from(RUNS).where(active)) or 0
        if runs >= key.running:
            raise Busy(
                f"this key may have {key.running} runs wait or run at once, and has {runs}: wait "
                "for one to end, or cancel one",
                retry_after=_RETRY_SECONDS,
            )
    found: dict[str, float] = {}
    for name, least in _LEAST.items():
        most, column = getattr(key, name), SPENDING.c[name]
        if most is None or not (drawing or name == "usd"):
            continue
        sums = select(func.coalesce(func.sum(column), 0)).where(SPENDING.c.key_id == key_id)
        spent = await connection.scalar(sums) or 0
        may = RUNS.c.request["budget"][name].as_float()
        both = RUNS.outerjoin(SPENDING, SPENDING.c.id == RUNS.c.id)
        budgets = select(may, func.coalesce(column, 0)).select_from(both).where(active)
        promised = sum(
            max(0.0, (most_of_it or 0.0) - done)
            for most_of_it, done in await connection.execute(budgets)
        )
        has = f"this key may spend {_amount(name, most)} in all"
        if most - spent < least:
            raise Forbidden(
                f"{has} and has spent {_amount(name, spent)}: use another, or have one made with "
                "`scenewright keys create`"
            )
        if most - spent - promised < least:
            raise Busy(
                f"{has}, has spent {_amount(name, spent)}, and its runs under way may take "
                f"{_amount(name, promised)}: wait for one to end, or give runs smaller budgets",
                retry_after=_RETRY_SECONDS,
            )
        left = most - spent - promised
        found[name] = left if name == "usd" else int(left)
    return found


def _amount(name: str, value: float) -> str:
    return f"{value:.4f} US dollars" if name == "usd" else f"{int(value)} images"
