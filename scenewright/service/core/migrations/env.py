"""Alembic's entry: runs the steps on the connection that ``database.py`` gives."""

from __future__ import annotations

from alembic import context

from scenewright.service.core.database import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    # SQLite changes a column by writing the table anew.
    render_as_batch=True,
)
with context.begin_transaction():
    context.run_migrations()
