"""Procrastinate's tables, in a PostgreSQL schema of their own beside the service's tables."""

from __future__ import annotations

from importlib import resources

from sqlalchemy import Connection, text

from scenewright.config.settings import SettingsError

SCHEMA = "scenewright_jobs"
"""Name of the PostgreSQL schema."""
_APPLIED = f"{SCHEMA}.applied_migrations"


def upgrade(connection: Connection) -> None:
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
