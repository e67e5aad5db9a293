"""Databases for tests: SQLite in a folder, and one of its own in PostgreSQL."""

from __future__ import annotations

import os
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psycopg
import pytest

from scenewright.service.core.settings import ServiceSettings

SERVER = "postgresql://postgres@127.0.0.1:5432"
KINDS = ("sqlite", "postgresql")


@asynccontextmanager
async def database(kind: str, folder: Path) -> AsyncIterator[str | None]:
    """The URL of an empty database of ``kind``; dropped at the end. Skips where there is none."""
    if kind == "sqlite":
        yield None
        return
    name = f"scenewright_{secrets.token_hex(6)}"
    try:
        connection = await psycopg.AsyncConnection.connect(
            f"{SERVER}/postgres", autocommit=True, connect_timeout=5
        )
    except psycopg.OperationalError as error:
        if os.environ.get("SCENEWRIGHT_TEST_POSTGRES") == "required":
            raise
        pytest.skip(f"no PostgreSQL at 127.0.0.1:5432: {error}")
    async with connection:
        await connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@asynccontextmanager
async def kept(kind: str, folder: Path) -> AsyncIterator[ServiceSettings]:
    """Settings of a service whose database is of ``kind``."""
    async with database(kind, folder) as url:
        yield ServiceSettings(data=folder / "data", database=url, drain_seconds=10)
