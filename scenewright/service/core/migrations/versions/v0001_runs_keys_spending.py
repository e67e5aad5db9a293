"""Runs, API keys, sessions and spending."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Create the tables of runs, keys, sessions and spending."""
    op.create_table(
        "runs",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("key_id", sa.String(40)),
        sa.Column("door", sa.String(20), nullable=False),
        sa.Column("title", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.String(200)),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("request", sa.JSON, nullable=False),
        sa.Column("status", sa.String(12), nullable=False),
        sa.Column("wants", sa.String(12), nullable=False),
        sa.Column("edit", sa.JSON),
        sa.Column("owner", sa.String(120)),
        sa.Column("lease", sa.Float),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("error", sa.Text),
        sa.Column("summary", sa.JSON),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("queued", sa.Float, nullable=False),
        sa.Column("updated", sa.Float, nullable=False),
        sa.Column("ended", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
        sa.UniqueConstraint("tenant", "idempotency_key", name="uq_runs_tenant_idempotency_key"),
    )
    op.create_index("ix_runs_status_queued", "runs", ["status", "queued"])
    op.create_index("ix_runs_tenant_created", "runs", ["tenant", "created"])
    op.create_table(
        "keys",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("label", sa.String(200), nullable=False),
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("scopes", sa.JSON, nullable=False),
        sa.Column("requests_per_minute", sa.Integer),
        sa.Column("usd", sa.Float),
        sa.Column("images", sa.Integer),
        sa.Column("running", sa.Integer),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("revoked", sa.Float),
        sa.PrimaryKeyConstraint("id", name="pk_keys"),
        sa.UniqueConstraint("hash", name="uq_keys_hash"),
    )
    op.create_index("ix_keys_tenant", "keys", ["tenant"])
    op.create_table(
        "sessions",
        sa.Column("hash", sa.String(64), nullable=False),
        sa.Column("key_id", sa.String(40), nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_sessions"),
    )
    op.create_index("ix_sessions_key_id", "sessions", ["key_id"])
    op.create_table(
        "spending",
        sa.Column("id", sa.String(40), nullable=False),
        sa.Column("tenant", sa.String(80), nullable=False),
        sa.Column("key_id", sa.String(40)),
        sa.Column("usd", sa.Float, nullable=False),
        sa.Column("images", sa.Integer, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_spending"),
    )
    op.create_index("ix_spending_key_id", "spending", ["key_id"])


def downgrade() -> None:
    """Drop all tables."""
    for table in ("spending", "sessions", "keys", "runs"):
        op.drop_table(table)
