"""Who brings waiting runs to a worker: the rows themselves, or Procrastinate in PostgreSQL."""
