"""The tables of the service; ``migrations/`` makes them and brings older ones up to date."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    Column,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

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
"""What each run (id: the run's) or single call has cost so far."""
