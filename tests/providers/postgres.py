"""A PostgreSQL database of a test's own."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

SERVER = "postgresql://postgres@127.0.0.1:5432"


@contextmanager
def database() -> Iterator[str]:
    """The URL of an empty database, dropped at the end; skips where no server is reached."""
    psycopg = pytest.importorskip("psycopg")
    try:
        connection = psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=5)
    except psycopg.OperationalError as error:
        if os.environ.get("SCENEWRIGHT_TEST_POSTGRES") == "required":
            raise
        pytest.skip(f"no PostgreSQL at 127.0.0.1:5432: {error}")
    name = f"calls_{secrets.token_hex(6)}"
    with connection:
        connection.execute(f"CREATE DATABASE {name}")
        try:
            yield f"{SERVER}/{name}"
        finally:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def clients(url: str) -> int:
    """Connections to the database at ``url``, besides the one that looks."""
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchone()
    assert row is not None
    return int(row[0])


def cut_off(url: str) -> int:
    """End every other connection to the database at ``url``; says how many there were."""
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        rows = connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid <> pg_backend_pid() "
            "AND backend_type = 'client backend'"
        ).fetchall()
    return len(rows)
