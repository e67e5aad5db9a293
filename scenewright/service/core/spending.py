"""What runs and single calls have cost, kept in one row each."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Any

from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncConnection

from scenewright.service.core.run_row import Run
from scenewright.service.core.tables import SPENDING


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
