"""The database of the service: SQLite in the data folder, or PostgreSQL by a URL.

The tables of the service; ``migrations/`` makes them and brings older ones up to date.

Procrastinate's tables, in a PostgreSQL schema of their own beside the service's tables.

LangGraph's checkpoints in PostgreSQL, beside the runs' rows.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from sqlalchemy import (
    JSON,
    Column,
    Connection,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from scenewright.config.profiles import SettingsError
from scenewright.core.errors import ScenewrightError
from scenewright.providers.connection_worker import driver_url
from scenewright.service.core.private_files import make_private
from scenewright.service.core.settings import ServiceSettings

log = logging.getLogger(__name__)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

RUNS = Table(
    "runs",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("tenant", String(80), nullable=False),
    Column("key_id", String(40)),
    Column("door", String(20), nullable=False),
    Column("title", Text, nullable=False),
    Column("idempotency_key", String(200)),
    Column("digest", String(64), nullable=False),
    Column("request", JSON, nullable=False),
    Column("status", String(12), nullable=False),
    Column("wants", String(12), nullable=False, default=""),
    Column("edit", JSON),
    Column("owner", String(120)),
    Column("lease", Float),
    Column("attempts", Integer, nullable=False, default=0),
    Column("error", Text),
    Column("summary", JSON),
    Column("created", Float, nullable=False),
    Column("queued", Float, nullable=False),
    Column("updated", Float, nullable=False),
    Column("ended", Float),
    UniqueConstraint("tenant", "idempotency_key"),
    Index(None, "status", "queued"),
    Index(None, "tenant", "created"),
)
"""One row a run; what happened in it stands in its run folder."""

KEYS = Table(
    "keys",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("tenant", String(80), nullable=False, index=True),
    Column("label", String(200), nullable=False, default=""),
    Column("hash", String(64), nullable=False, unique=True),
    Column("scopes", JSON, nullable=False),
    Column("requests_per_minute", Integer),
    Column("usd", Float),
    Column("images", Integer),
    Column("running", Integer),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("revoked", Float),
)
"""One row an API key; the key itself is kept nowhere, only its SHA-256."""

SESSIONS = Table(
    "sessions",
    METADATA,
    Column("hash", String(64), primary_key=True),
    Column("key_id", String(40), nullable=False, index=True),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
)
"""One row a browser that signed in; its token is kept nowhere, only its SHA-256."""

SPENDING = Table(
    "spending",
    METADATA,
    Column("id", String(40), primary_key=True),
    Column("tenant", String(80), nullable=False),
    Column("key_id", String(40)),
    Column("usd", Float, nullable=False),
    Column("images", Integer, nullable=False),
    Column("at", Float, nullable=False),
    Index(None, "key_id"),
)
"""Cost of each run (id: the run's) or single call so far."""


SCHEMA = "scenewright_jobs"
"""Name of the PostgreSQL schema."""
_APPLIED = f"{SCHEMA}.applied_migrations"


def upgrade_jobs(connection: Connection) -> None:
    """Bring the tables to the form of the Procrastinate that is installed.

    The caller holds a lock: one process at a time. Raises ``SettingsError`` where Procrastinate
    is missing.
    """
    try:
        import procrastinate
    except ModuleNotFoundError as error:
        raise SettingsError(
            "runs in PostgreSQL are brought to workers by Procrastinate, which is missing: "
            "pip install 'scenewright[postgres]'"
        ) from error
    # Their names are their order.
    folder = resources.files("procrastinate.sql") / "migrations"
    steps = {item.name: item for item in folder.iterdir() if item.name.endswith(".sql")}
    # Who may use a schema that is there need not be allowed to make one.
    if connection.scalar(text(f"SELECT to_regnamespace('{SCHEMA}')")) is None:
        connection.execute(text(f"CREATE SCHEMA {SCHEMA}"))
    connection.execute(text(f"SET LOCAL search_path TO {SCHEMA}"))
    if connection.scalar(text(f"SELECT to_regclass('{_APPLIED}')")) is None:
        _run(connection, procrastinate.schema.SchemaManager.get_schema())
        connection.execute(text(f"CREATE TABLE {_APPLIED} (name text PRIMARY KEY)"))
        missing = sorted(steps)
    else:
        known = set(connection.scalars(text(f"SELECT name FROM {_APPLIED}")))
        missing = sorted(steps.keys() - known)
        for name in missing:
            _run(connection, steps[name].read_text(encoding="utf-8"))
    if missing:
        connection.execute(
            text(f"INSERT INTO {_APPLIED} VALUES (:name)"), [{"name": name} for name in missing]
        )
    connection.execute(text("SET LOCAL search_path TO DEFAULT"))


def _run(connection: Connection, script: str) -> None:
    connection.exec_driver_sql(script.replace("%", "%%"))


READING = {"scenewright_reads": True}
"""Execution options of connections that only read: they wait for no writer."""
_BUSY_MILLISECONDS = 30_000
_CONNECTIONS = 12
_MIGRATING = 7_202_611
"""PostgreSQL's advisory lock under which one server brings the tables up to date."""


class DatabaseError(ScenewrightError, RuntimeError):
    """The database cannot be reached or used; says what to look at."""


@asynccontextmanager
async def open_database(settings: ServiceSettings) -> AsyncIterator[AsyncEngine]:
    """Return the database of ``settings`` with its tables up to date; closed at the end.

    Raises ``DatabaseError`` if it cannot be reached, and ``SettingsError`` for a wrong URL or a
    missing driver.
    """
    try:
        for sentence in make_private(settings):
            log.warning("%s", sentence)
    except OSError as error:
        raise DatabaseError(
            f"the data folder {settings.data} cannot be used: {error.strerror or error}. Choose "
            "another with --data"
        ) from error
    engine = _engine(settings)
    try:
        try:
            await migrate(engine)
        except (SQLAlchemyError, OSError) as error:
            raise DatabaseError(
                f"the service's database {url_without_password(engine)} cannot be used: "
                f"{_reason(error)}. Check that it is there, that it takes your user, and that the "
                "folder is writable"
            ) from error
        yield engine
    finally:
        await engine.dispose()


def url_without_password(engine: AsyncEngine) -> str:
    """Return the URL without its password."""
    return engine.url.render_as_string(hide_password=True)


def _engine(settings: ServiceSettings) -> AsyncEngine:
    if settings.shared:
        try:
            return create_async_engine(settings.url, pool_size=8, pool_pre_ping=True)
        except ModuleNotFoundError as error:
            raise SettingsError(
                "PostgreSQL needs a driver: pip install 'scenewright[postgres]'"
            ) from error
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


_AWAY_SECONDS = 120.0


@asynccontextmanager
async def checkpoints_of(settings: ServiceSettings) -> AsyncIterator[Any]:
    """Return the argument ``checkpoints`` of ``refine`` for runs whose rows are in PostgreSQL."""
    from psycopg_pool import AsyncConnectionPool

    from scenewright.graphs.postgres_checkpoints import postgres_checkpoints

    pool: AsyncConnectionPool[Any] = AsyncConnectionPool(
        driver_url(settings.url),
        min_size=1,
        max_size=max(4, settings.running),
        open=False,
        # A run waits for a database that is started anew, and does not fail for it.
        check=AsyncConnectionPool.check_connection,
        timeout=_AWAY_SECONDS,
        kwargs={"autocommit": True, "prepare_threshold": 0},
    )
    await pool.open(wait=True)
    try:
        yield postgres_checkpoints(pool)
    finally:
        await pool.close()
