"""The painted world: painter, models and training recipes."""
