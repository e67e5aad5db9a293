"""Limits of an API key: requests a minute, runs at once, dollars and images in all.

What runs and single calls have cost, kept in one row each.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from scenewright.service.core.database import KEYS, RUNS, SPENDING, Run
from scenewright.service.core.errors import Busy, Forbidden

_WINDOW = 60.0
_RETRY_SECONDS = 10.0
_LEAST_USD = 1e-6
"""Less is nothing: sums of prices are not exact."""


async def keep(
    connection: AsyncConnection, run: Run, summary: Mapping[str, Any], at: float
) -> None:
    """Keep what ``run`` has cost until now, Unix time ``at``, in place of what was kept before."""
    insert = postgresql.insert if connection.dialect.name == "postgresql" else sqlite.insert
    spent = {
        "usd": float(summary.get("usd", 0.0)),
        "images": int(summary.get("images", 0)),
        "at": at,
    }
    statement = insert(SPENDING).values(id=run.id, tenant=run.tenant, key_id=run.key_id, **spent)
    await connection.execute(
        statement.on_conflict_do_update(index_elements=[SPENDING.c.id], set_=spent)
    )


async def charge(
    connection: AsyncConnection,
    tenant: str,
    key_id: str | None,
    usd: float,
    images: int,
    at: float,
) -> None:
    """Keep what a call outside a run has cost."""
    await connection.execute(
        SPENDING.insert().values(
            id=f"call_{secrets.token_hex(16)}", tenant=tenant, key_id=key_id, usd=usd,
            images=images, at=at,
        )
    )  # fmt: skip


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


@dataclass(frozen=True, slots=True)
class Left:
    """Amounts that a key may still spend on something new."""

    usd: float | None
    """US dollars; none: no limit."""
    images: int | None
    """Images; none: no limit."""


async def capped_request(
    connection: AsyncConnection, key_id: str, request: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a run's request with its budget capped by what the key has left.

    What the key's waiting and running runs may still spend is taken as spent. Raises ``Busy``
    if it has as many runs as may be, or if they may take all that is left; ``Forbidden`` if all
    is spent. Runs of one key are admitted one after another.
    """
    key = await _locked(connection, key_id)
    if key is None:
        return dict(request)
    await _check_running(connection, key)
    left = await _left(connection, key)
    budget = dict(request.get("budget") or {})
    for name in ("usd", "images"):
        most = getattr(left, name)
        if most is not None:
            asked = budget.get(name)
            budget[name] = most if asked is None else min(asked, most)
    return {**request, "budget": budget}


async def readmit(
    connection: AsyncConnection, run: str, key_id: str, request: Mapping[str, Any]
) -> None:
    """Let a run that stood still go on within the budget that it was admitted with.

    Raises ``Busy`` or ``Forbidden`` if its key has less left than the run may still spend.
    """
    key = await _locked(connection, key_id)
    if key is None:
        return
    await _check_running(connection, key)
    left = await _left(connection, key)
    own = (
        await connection.execute(
            select(SPENDING.c.usd, SPENDING.c.images).where(SPENDING.c.id == run)
        )
    ).one_or_none()
    budget = request.get("budget") or {}
    for name, most in (("usd", left.usd), ("images", left.images)):
        may = budget.get(name)
        if most is None or may is None:
            continue
        rest = max(0, may - (getattr(own, name) if own is not None else 0))
        if rest > most:
            raise Forbidden(
                f"the run may still spend {_amount(name, rest)}, and its key has "
                f"{_amount(name, most)} left: begin a run with a smaller budget"
            )


async def spent(connection: AsyncConnection, key_id: str) -> tuple[float, int]:
    """US dollars and images of all that a key has asked for."""
    row = await connection.execute(
        select(
            func.coalesce(func.sum(SPENDING.c.usd), 0.0),
            func.coalesce(func.sum(SPENDING.c.images), 0),
        ).where(SPENDING.c.key_id == key_id)
    )
    usd, images = row.one()
    return float(usd), int(images)


async def check_spendable(connection: AsyncConnection, key_id: str) -> None:
    """Raise ``Busy`` or ``Forbidden`` if the key has no dollars left, as :func:`capped_request`."""
    key = await _locked(connection, key_id)
    if key is not None:
        await _left(connection, key, drawing=False)


async def _locked(connection: AsyncConnection, key_id: str) -> Any | None:
    return (
        await connection.execute(select(KEYS).where(KEYS.c.id == key_id).with_for_update())
    ).one_or_none()


async def _check_running(connection: AsyncConnection, key: Any) -> None:
    if key.running is None:
        return
    active = RUNS.c.status.in_(("queued", "running"))
    counted = await connection.execute(
        select(func.count()).select_from(RUNS).where(RUNS.c.key_id == key.id, active)
    )
    runs = int(counted.scalar_one())
    if runs >= key.running:
        raise Busy(
            f"this key may have {key.running} runs wait or run at once, and has {runs}: wait for "
            "one to end, or cancel one",
            retry_after=_RETRY_SECONDS,
        )


async def _left(connection: AsyncConnection, key: Any, *, drawing: bool = True) -> Left:
    if key.usd is None and key.images is None:
        return Left(None, None)
    spent_usd, spent_images = await spent(connection, key.id)
    usd, images = await _promised(connection, key.id)
    left_usd = _rest("usd", key.usd, spent_usd, usd)
    left_images = _rest("images", key.images if drawing else None, spent_images, images)
    return Left(left_usd, None if left_images is None else int(left_images))


async def _promised(connection: AsyncConnection, key_id: str) -> tuple[float, int]:
    """Return how much the waiting and running runs of a key may still spend."""
    budget = RUNS.c.request["budget"]
    rows = await connection.execute(
        select(
            budget["usd"].as_float(),
            budget["images"].as_integer(),
            func.coalesce(SPENDING.c.usd, 0.0),
            func.coalesce(SPENDING.c.images, 0),
        )
        .select_from(RUNS.outerjoin(SPENDING, SPENDING.c.id == RUNS.c.id))
        .where(RUNS.c.key_id == key_id, RUNS.c.status.in_(("queued", "running")))
    )
    usd, images = 0.0, 0
    for may_usd, may_images, spent_usd, spent_images in rows:
        usd += max(0.0, (may_usd or 0.0) - spent_usd)
        images += max(0, (may_images or 0) - spent_images)
    return usd, images


def _rest(name: str, most: float | None, spent: float, promised: float) -> float | None:
    if most is None:
        return None
    least = _LEAST_USD if name == "usd" else 1
    if most - spent < least:
        raise Forbidden(
            f"this key may spend {_amount(name, most)} in all and has spent "
            f"{_amount(name, spent)}: use another, or have one made with `scenewright keys create`"
        )
    if most - spent - promised < least:
        raise Busy(
            f"this key may spend {_amount(name, most)} in all, has spent {_amount(name, spent)}, "
            f"and its runs under way may take {_amount(name, promised)}: wait for one to end, or "
            "give runs smaller budgets",
            retry_after=_RETRY_SECONDS,
        )
    return most - spent - promised


def _amount(name: str, value: float) -> str:
    return f"{value:.4f} US dollars" if name == "usd" else f"{int(value)} images"
