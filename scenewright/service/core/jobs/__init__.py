"""Queues that bring waiting runs to a worker: the rows, or Procrastinate in PostgreSQL."""
