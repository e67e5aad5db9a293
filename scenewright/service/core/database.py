"""The database of the service: SQLite in the data folder, or PostgreSQL by a URL.

Its tables, which ``migrations/`` makes and brings up to date, and a run's row; beside them
Procrastinate's tables, in a schema of their own, and LangGraph's checkpoints. The data folder and
the files of SQLite are readable by their owner alone.
"""

from __future__ import annotations

import logging
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
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
    Row,
    String,
    Table,
    Text,
    UniqueConstraint,
    event,
    text,
)
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from scenewright.config.profiles import SettingsError
from scenewright.core.errors import ScenewrightError
from scenewright.providers.connection_worker import driver_url
from scenewright.service.core.schemas import Door, Status
from scenewright.service.core.settings import ServiceSettings

_GROUP_AND_OTHERS = 0o077

EDITS = "digests"
"""Key of :attr:`Run.edits` in a row: in its edit."""
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
READING = {"scenewright_reads": True}
"""Execution options of connections that only read: they wait for no writer."""
_BUSY_MILLISECONDS = 30_000
_CONNECTIONS = 12
_MIGRATING = 7_202_611
"""PostgreSQL's advisory lock under which one server brings the tables up to date."""
_AWAY_SECONDS = 120.0


def sqlite_file(settings: ServiceSettings) -> Path | None:
    """Return the file of the SQLite database; None where the database is another."""
    if settings.shared:
        return None
    name = make_url(settings.url).database
    return Path(name) if name and name != ":memory:" else None


def make_private(settings: ServiceSettings) -> list[str]:
    """Make the data folder (700) and the database's files (600) their owner's alone.

    Folders and files of before are mended. Returns a sentence for each that cannot be. Raises
    ``OSError`` if the folder cannot be made.
    """
    data = settings.data
    found = []
    try:
        data.mkdir(mode=0o700)
    except FileExistsError:
        found.append(_mended_folder(settings))
    except FileNotFoundError:
        data.parent.mkdir(parents=True, exist_ok=True)
        data.mkdir(mode=0o700, exist_ok=True)
    file = sqlite_file(settings)
    if file is not None and file.parent.is_dir():
        try:
            # SQLite makes files for every account of the machine; its other files get this mode.
            os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            found += [
                _narrowed(Path(f"{file}{ending}"), 0o600, "the database file")
                for ending in ("", "-wal", "-shm", "-journal")
            ]
    return [sentence for sentence in found if sentence]


def _mended_folder(settings: ServiceSettings) -> str:
    """Make an existing data folder private; a sentence where that is not done."""
    data = settings.data
    mode = data.stat().st_mode
    if not mode & _GROUP_AND_OTHERS:
        return ""
    database = sqlite_file(settings)
    ours = {settings.runs.name, "sent", "cache", *((database.name,) if database else ())}
    names = {entry.name for entry in os.scandir(data)}
    if mode & stat.S_ISVTX or (names and not names & ours):
        return (
            f"the data folder {data} also serves others, so that other accounts of this machine "
            "can read the runs: choose a folder of its own with --data"
        )
    return _narrowed(data, 0o700, "the data folder")


def _narrowed(place: Path, mode: int, what: str) -> str:
    """Take the rights of other accounts from ``place``; a sentence where that cannot be done."""
    try:
        if place.stat().st_mode & _GROUP_AND_OTHERS:
            place.chmod(mode)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return (
            f"{what} {place} can be read by other accounts of this machine, and that cannot be "
            f"changed ({error.strerror or error}): have its owner run chmod {mode:o}"
        )
    return ""


@dataclass(frozen=True, slots=True)
class Run:
    """A run's row."""

    id: str
    tenant: str
    key_id: str | None
    door: Door
    title: str
    idempotency_key: str | None
    digest: str
    request: Mapping[str, Any]
    """The ``RefinementRequest`` with the scene as a graph, as JSON data."""
    status: Status
    wants: str
    """``pause`` or ``cancel`` where that was asked for; else empty."""
    edit: Mapping[str, Any] | None
    """The edit with which it goes on; stays until the run has taken it in."""
    edits: Mapping[str, str]
    """Digests of what was sent as its edits, by their idempotency keys."""
    owner: str | None
    """The server that drives it."""
    lease: float | None
    """Until when the owner has said to be alive, Unix time."""
    attempts: int
    """Number of claims since it last came any further."""
    error: str | None
    summary: Mapping[str, Any] | None
    """A ``Summary`` as JSON data."""
    created: float
    queued: float
    updated: float
    ended: float | None


def run_of(row: Row[Any]) -> Run:
    """Return the run of a row of the table of runs."""
    values = dict(row._mapping)
    edit, edits = values.pop("edit"), {}
    if edit is not None:
        edits = edit.get(EDITS, {})
        edit = {name: value for name, value in edit.items() if name != EDITS}
    return Run(edit=edit, edits=edits, **values)


def brief_run_of(row: Row[Any]) -> Run:
    """Return the run of a row of a list: its request is the ``profile`` alone, it has no edit."""
    values = dict(row._mapping)
    return Run(request={"profile": values.pop("profile")}, edit=None, edits={}, **values)


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
            inner = getattr(error, "orig", None) or error
            reason = next(iter(str(inner).strip().splitlines()), type(inner).__name__)
            raise DatabaseError(
                f"the service's database {url_without_password(engine)} cannot be used: "
                f"{reason}. Check that it is there, that it takes your user, and that the "
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

    @event.listens_for(engine.sync_engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout={_BUSY_MILLISECONDS}")
        cursor.execute("PRAGMA journal_mode=WAL")
        # A run that was accepted must outlive a power cut.
        cursor.execute("PRAGMA synchronous=FULL")
        cursor.close()

    # The driver's own transactions begin too late: a read that turns into a write would fail
    # where another connection has written meanwhile.
    @event.listens_for(engine.sync_engine, "begin")
    def begin_at_once(connection: Connection) -> None:
        reading = connection.get_execution_options().get("scenewright_reads", False)
        connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")

    return engine


async def migrate(engine: AsyncEngine) -> None:
    """Bring the tables to the newest form; several servers that start together wait in line."""

    def upgrade(connection: Connection) -> None:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATING})"))
        with resources.as_file(resources.files(__package__) / "migrations") as folder:
            config = Config()
            config.set_main_option("script_location", str(folder).replace("%", "%%"))
            config.attributes["connection"] = connection
            command.upgrade(config, "head")
        if connection.dialect.name == "postgresql":
            upgrade_jobs(connection)

    async with engine.begin() as connection:
        await connection.run_sync(upgrade)


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
