"""The database of the service: SQLite in the data folder, or PostgreSQL by a URL."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from scenewright.config.settings import SettingsError
from scenewright.service.core.settings import ServiceSettings

READING = {"scenewright_reads": True}
"""Execution options of connections that only read: they wait for no writer."""
_BUSY_MILLISECONDS = 30_000
_CONNECTIONS = 12
_MIGRATING = 7_202_611
"""PostgreSQL's advisory lock under which one server brings the tables up to date."""


class DatabaseError(RuntimeError):
    """The database cannot be reached or used; says what to look at."""


@asynccontextmanager
async def opened(settings: ServiceSettings) -> AsyncIterator[AsyncEngine]:
    """The database of ``settings`` with its tables up to date; closed at the end.

    Raises ``DatabaseError`` if it cannot be reached, and ``SettingsError`` for a wrong URL or a
    missing driver.
    """
    engine = _engine(settings)
    try:
        try:
            await migrate(engine)
        except (SQLAlchemyError, OSError) as error:
            raise DatabaseError(
                f"the service's database {shown(engine)} cannot be used: {_reason(error)}. Check "
                "that it is there, that it takes your user, and that the folder is writable"
            ) from error
        yield engine
    finally:
        await engine.dispose()


def shown(engine: AsyncEngine) -> str:
    """The URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def _engine(settings: ServiceSettings) -> AsyncEngine:
    if settings.shared:
        try:
            return create_async_engine(settings.url, pool_size=8, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise SettingsError(
                "PostgreSQL needs a driver: pip install 'scenewright[postgres]'"
            ) from error
    settings.data.mkdir(parents=True, exist_ok=True)
    # Each connection is a thread and a few files: they are kept, not made anew under load.
    engine = create_async_engine(settings.url, pool_size=_CONNECTIONS, max_overflow=0)
    event.listen(engine.sync_engine, "connect", _prepare_sqlite)
    # The driver's own transactions begin too late: a read that turns into a write would fail
    # where another connection has written meanwhile.
    event.listen(engine.sync_engine, "begin", _begin_at_once)
    return engine


def _prepare_sqlite(connection: Any, record: Any) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
    cursor.execute("PRAGMA journal_mode=WAL")
    # A run that was accepted must outlive a power cut.
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.close()


def _begin_at_once(connection: Connection) -> None:
    reading = connection.get_execution_options().get("scenewright_reads", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")


async def migrate(engine: AsyncEngine) -> None:
    """Bring the tables to the newest form; several servers that start together wait in line."""

    def upgrade(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATING})"))
        with resources.as_file(resources.files(__package__) / "migrations") as folder:
            command.upgrade(_config(folder, connection), "head")
        if connection.dialect.name == "postgresql":
            from scenewright.service.core.procrastinate_schema import upgrade as upgrade_jobs

            upgrade_jobs(connection)

    async with engine.begin() as connection:
        await connection.run_sync(upgrade)


def _config(folder: Path, connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(folder).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _reason(error: BaseException) -> str:
    inner = getattr(error, "orig", None) or error
    return str(inner).strip().splitlines()[0] if str(inner).strip() else type(inner).__name__
